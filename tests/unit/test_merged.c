/* merged: what is added, what is left to the report, what is refused and in which words; intervals
 * that are laid over each other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/merge_intervals.h"
#include "cmd/merged.h"
#include "engine/base/clock.h"
#include "tests/lib/made_result.h"

static const uint64_t start_ns = 1700000000 * NS_PER_S;

static char *const arguments[] = {(char[]){"bench"}, (char[]){"-journal"}, (char[]){"sqlite:a.db"},
                                  (char[]){"-latency"}, (char[]){"50ms"}};

/* Results with seeds of their own, the second half a second later. */
static void make(struct made_result *made, uint64_t number)
{
    made_result_init(made, sizeof(arguments) / sizeof(arguments[0]), (char **)arguments);
    made->options.campaign.seed = number;
    made->result.started_unix_ns += number * NS_PER_S / 2;
}

static int add_text(struct merged *merged, const char *name, const char *text, struct errmsg *why)
{
    struct result_file file;
    int error = result_file_parse(&file, name, text, strlen(text), why);
    if (error != 0)
        return error;
    error = merged_add(merged, &file, why);
    result_file_free(&file);
    return error;
}

static int merge_texts(struct merged *merged, const char *a, const char *b, struct errmsg *why)
{
    int error = merged_init(merged, why);
    if (error == 0)
        error = add_text(merged, "a.json", a, why);
    if (error == 0)
        error = add_text(merged, "b.json", b, why);
    return error != 0 ? error : merged_finish(merged, why);
}

static char *text_of(struct made_result *made)
{
    size_t size = 0;
    return made_result_text(made, &size);
}

static void merge_made(struct merged *merged, struct made_result *a, struct made_result *b)
{
    struct errmsg why;
    char *a_text = text_of(a);
    char *b_text = text_of(b);
    if (merge_texts(merged, a_text, b_text, &why) != 0)
        fail_msg("%s", why.text);
    free(a_text);
    free(b_text);
}

static void test_counts_are_added(void **state)
{
    struct made_result a;
    struct made_result b;
    struct merged merged;
    (void)state;
    make(&a, 0);
    make(&b, 1);
    b.result.runs_by_outcome[OUTCOME_TIMEOUT] = 7;
    b.result.busiest = 0.5;
    b.result.model_ns *= 4;
    b.result.io.commits = 200;
    (void)errmsg_set(&b.result.first_error, 0, "run 3: too slow");
    merge_made(&merged, &a, &b);
    const struct campaign_result *sum = &merged.result;
    assert_int_equal(sum->runs_started, 2000);
    assert_int_equal(sum->runs_by_outcome[OUTCOME_COMPLETED], 2000);
    assert_int_equal(sum->runs_by_outcome[OUTCOME_TIMEOUT], 7);
    assert_int_equal(sum->records, 12000);
    assert_int_equal(sum->records_acked, 12000);
    assert_int_equal(sum->records_bytes, 2000000);
    assert_int_equal(sum->batches, 1200);
    assert_int_equal(sum->io.commits, 800);
    /* The mean of the second is that of 600 over 200. */
    assert_int_equal(sum->io.commit_ns, 1200 * NS_PER_MS);
    assert_int_equal(sum->io.wal_bytes, 4000000);
    assert_int_equal(sum->peak_tasks, 200);
    assert_int_equal(sum->model_ns, a.result.model_ns * 5);
    assert_int_equal(sum->heap_delta_bytes, -2000);
    assert_int_equal(sum->total_alloc_bytes, 10000);
    assert_true(sum->is_total_alloc_known);
    assert_int_equal(sum->counts.allocations, 140);
    assert_int_equal(sum->counts.syscalls, COUNT_NOT_KNOWN);
    assert_int_equal(sum->counts.instructions, 2000000);
    assert_int_equal(sum->checksum, UINT64_C(0xfedcba9876543210) * 2);
    assert_int_equal(sum->cpu_ns, 6000000);
    assert_true(sum->busiest == 0.5);
    assert_int_equal(sum->threads, 4);
    assert_int_equal(sum->shards, 2);
    assert_int_equal(sum->started_unix_ns, start_ns);
    assert_int_equal(sum->elapsed_ns, 5 * NS_PER_S / 2);
    assert_string_equal(sum->first_error.text, "b.json: run 3: too slow");
    assert_string_equal(sum->journal_name, "sqlite");
    assert_string_equal(sum->loop_name, "epoll");
    assert_int_equal(sum->durability, DURABILITY_POWER);
    assert_int_equal(merged.config.runs, 10000);
    assert_int_equal(merged.config.concurrency, 512);
    assert_int_equal(merged.config.threads, 4);
    assert_string_equal(merged.config.latency.spec, "50ms");
    assert_int_equal(merged.about.count, 2);
    assert_int_equal(merged.reason_count, 0);
    merged_free(&merged);
    made_result_free(&a);
    made_result_free(&b);
}

/* As if one histogram had recorded all. */
static void test_histograms_are_added_exactly(void **state)
{
    static struct hist expected;
    struct prng draws = prng_stream(4, 5, PRNG_TEST, 6);
    (void)state;
    for (int round = 0; round < 10; round++) {
        struct made_result a;
        struct made_result b;
        struct merged merged;
        make(&a, 0);
        make(&b, 1);
        for (size_t i = 0; i < REPORT_HISTS; i++) {
            made_result_fill(a.hists[i], prng_next(&draws) % 2000, &draws);
            made_result_fill(b.hists[i], prng_next(&draws) % 2000, &draws);
        }
        merge_made(&merged, &a, &b);
        for (size_t i = 0; i < REPORT_HISTS; i++) {
            expected = *a.hists[i];
            hist_merge(&expected, b.hists[i]);
            assert_memory_equal(report_hist_of(&merged.result, i), &expected, sizeof(expected));
        }
        merged_free(&merged);
        made_result_free(&a);
        made_result_free(&b);
    }
}

static void test_what_one_does_not_know_is_not_known(void **state)
{
    struct made_result a;
    struct made_result b;
    struct merged merged;
    (void)state;
    make(&a, 0);
    make(&b, 1);
    a.result.io.syncs = JOURNAL_NOT_KNOWN;
    b.result.io.checkpoint_ns = JOURNAL_NOT_KNOWN;
    b.result.is_total_alloc_known = false;
    merge_made(&merged, &a, &b);
    assert_true(merged.result.io.syncs == JOURNAL_NOT_KNOWN);
    assert_true(merged.result.io.checkpoint_ns == JOURNAL_NOT_KNOWN);
    assert_int_equal(merged.result.io.checkpoints, 4);
    assert_false(merged.result.is_total_alloc_known);
    merged_free(&merged);

    /* Of a server each tells what all did. */
    a.result.io.is_servers = true;
    b.result.io.is_servers = true;
    merge_made(&merged, &a, &b);
    assert_true(merged.result.io.commits == JOURNAL_NOT_KNOWN);
    assert_true(merged.result.io.wal_bytes == JOURNAL_NOT_KNOWN);
    assert_int_equal(merged.result.batches, 1200);
    merged_free(&merged);
    made_result_free(&a);
    made_result_free(&b);
}

static void test_open_loops_are_added(void **state)
{
    struct made_result a;
    struct made_result b;
    struct merged merged;
    (void)state;
    make(&a, 0);
    make(&b, 1);
    for (int i = 0; i < 2; i++) {
        struct made_result *made = i == 0 ? &a : &b;
        made->options.campaign.arrival = (struct arrival_plan){
            .rate = 100,
            .stage_count = 2,
            .stages = {{NS_PER_S, 200.5}, {2 * NS_PER_S, 50}},
        };
        made->result.is_open_loop = true;
        made->result.runs_due = 1000;
        made->result.runs_queued = 5;
        made->result.issuing_ns = NS_PER_S;
    }
    merge_made(&merged, &a, &b);
    assert_int_equal(merged.result.runs_due, 2000);
    assert_int_equal(merged.result.runs_queued, 10);
    assert_int_equal(merged.result.issuing_ns, 3 * NS_PER_S / 2);
    assert_true(merged.config.arrival.rate == 200);
    assert_int_equal(merged.config.arrival.stage_count, 2);
    assert_int_equal(merged.config.arrival.stages[1].duration_ns, 2 * NS_PER_S);
    assert_true(merged.config.arrival.stages[0].rate == 401);
    merged_free(&merged);
    made_result_free(&a);
    made_result_free(&b);
}

static void test_reasons_name_their_file(void **state)
{
    struct made_result a;
    struct made_result b;
    struct merged merged;
    (void)state;
    make(&a, 0);
    make(&b, 1);
    b.result.runs_by_outcome[OUTCOME_COMPLETED] = 0;
    (void)errmsg_set(&b.result.journal_error, 0, "disk full");
    merge_made(&merged, &a, &b);
    assert_int_equal(merged.reason_count, 2);
    assert_string_equal(merged.reasons[0].text,
                        "b.json: the journal stopped taking records: disk full");
    assert_string_equal(merged.reasons[1].text, "b.json: no run completed");
    assert_string_equal(merged.result.journal_error.text, "b.json: disk full");
    merged_free(&merged);
    made_result_free(&a);
    made_result_free(&b);
}

/* Where there is a warm-up, it is what is measured that counts. */
static void test_what_ran_together_for_a_part_only_is_said(void **state)
{
    static const struct {
        uint64_t later_ns;
        uint64_t warmup_ns;
        uint64_t elapsed_ns;
        const char *warning;
    } cases[] = {
        {0, 0, 2 * NS_PER_S, ""},
        {NS_PER_S / 5, 0, 2 * NS_PER_S, ""},
        {NS_PER_S / 5 + 1, 0, 2 * NS_PER_S,
         "the results ran together for 1.8s only, and a.json for 2s: the rates are of the time "
         "from the first start to the last end"},
        {0, 0, 20 * NS_PER_S,
         "the results ran together for 2s only, and b.json for 20s: the rates are of the time "
         "from the first start to the last end"},
        {NS_PER_S, NS_PER_S, 2 * NS_PER_S,
         "the results ran together for 0s only, and a.json for 2s: the rates are of the time "
         "from the first start to the last end"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct made_result a;
        struct made_result b;
        struct merged merged;
        make(&a, 0);
        make(&b, 1);
        b.result.started_unix_ns = start_ns + cases[i].later_ns;
        b.result.elapsed_ns = cases[i].elapsed_ns;
        for (int each = 0; each < 2 && cases[i].warmup_ns > 0; each++) {
            (each == 0 ? &a : &b)->options.campaign.warmup_ns = cases[i].warmup_ns;
            (each == 0 ? &a : &b)->result.warmup.is_over = true;
        }
        b.result.warmup.elapsed_ns = cases[i].warmup_ns;
        merge_made(&merged, &a, &b);
        assert_string_equal(merged.about.warning.text, cases[i].warning);
        merged_free(&merged);
        made_result_free(&a);
        made_result_free(&b);
    }
}

static void assert_refused(const char *a, const char *b, const char *fault)
{
    struct merged merged;
    struct errmsg why = {.text = ""};
    if (merge_texts(&merged, a, b, &why) == 0)
        fail_msg("it is merged instead of: %s", fault);
    if (strcmp(why.text, fault) != 0)
        fail_msg("it is refused with: %s\ninstead of: %s", why.text, fault);
    merged_free(&merged);
}

static const struct {
    const char *from;
    const char *to;
    const char *fault;
} misfits[] = {
    {"\"revision\":\"0123456789ab\"", "\"revision\":\"0123456789ac\"",
     "a.json and b.json differ: build.revision is \"0123456789ab\" and \"0123456789ac\""},
    {"\"turns\":2", "\"turns\":3", "a.json and b.json differ: config.turns is 2 and 3"},
    {"\"latency\":\"50ms\"", "\"latency\":\"51ms\"",
     "a.json and b.json differ: config.latency is \"50ms\" and \"51ms\""},
    {"\"durability\":\"power\"", "\"durability\":\"none\"",
     "a.json and b.json differ: store.durability is \"power\" and \"none\""},
    {"\"journal\":\"sqlite\"", "\"journal\":\"memory\"",
     "a.json and b.json differ: store.journal is \"sqlite\" and \"memory\""},
    {"\"arrival\":null", "\"arrival\":\"poisson\"",
     "a.json and b.json differ: config.arrival is null and \"poisson\""},
    {"\"mode\":\"run\"", "\"mode\":\"resume\"",
     "b.json: config.mode must be \"run\": only new campaigns are merged, got \"resume\""},
    {"\"runs\":5000", "\"runs\":null", "a.json and b.json differ: config.runs is 5000 and null"},
    {"\"runs\":5000", "\"runs\":-5",
     "b.json: config.runs must be a whole number of at least "
     "0, got -5"},
    {"\"turns\":2", "\"twists\":2", "a.json and b.json differ: config.twists is not there and 2"},
    {"\"turns\":2,", "", "a.json and b.json differ: config.turns is 2 and not there"},
    {"\"batches\":600", "\"batches\":600,\"reams\":1",
     "b.json: store.reams: this bench does not know how to merge it"},
    {"\"cpu_ns\":3000000", "\"cpu_ns\":3000000,\"gpu_ns\":1",
     "b.json: result.gpu_ns: this bench does not know how to merge it"},
    {"\"unknown\":0", "\"unknown\":0,\"lost\":0",
     "b.json: result.outcomes.lost: this bench does not know how to merge it"},
    {"\"unknown\":0,", "", "b.json: result.outcomes.unknown is missing"},
    {"\"merged\":[]", "\"merged\":[],\"tokens\":[]",
     "b.json: tokens: this bench does not know how to merge it"},
    {"\"merged\":[]", "\"merged\":[{}]",
     "b.json: merged must be of file, host, seed and start each, got [{}]"},
    {"\"overshoot\":", "\"undershoot\":",
     "b.json: latency.undershoot: this bench does not know how to merge it"},
    {"\"runs_started\":1000", "\"runs_started\":9223372036854775807",
     "b.json: result.runs_started: the sum with the results before is too large"},
    {"\"concurrency\":256", "\"concurrency\":4294967295",
     "b.json: config.concurrency: the sum with the results before is too large"},
    {"\"model_mean_ns\":100000", "\"model_mean_ns\":9223372036854775807",
     "b.json: result.model_mean_ns: the sum with the results before is too large"},
    {"\"verdict\":\"valid\"", "\"verdict\":\"invalid\"",
     "b.json: validity must be valid without reasons, or invalid with them, got "
     "{\"verdict\":\"invalid\",\"reasons\":[],\"warnings\":[]}"},
    {"\"started_unix_ns\":1700000000500000000", "\"started_unix_ns\":1700000002000000000",
     "a.json and b.json did not run at the same time: the first from "
     "2023-11-14T22:13:20.000000Z to 2023-11-14T22:13:22.000000Z, the second from "
     "2023-11-14T22:13:22.000000Z"},
    {"\"started_unix_ns\":1700000000500000000,", "", "b.json: result.started_unix_ns is missing"},
};

/* Changes in the second result. */
static void test_what_does_not_fit_is_refused_by_name(void **state)
{
    struct made_result a;
    struct made_result b;
    (void)state;
    make(&a, 0);
    make(&b, 1);
    char *a_text = text_of(&a);
    char *b_text = text_of(&b);
    for (size_t i = 0; i < sizeof(misfits) / sizeof(misfits[0]); i++) {
        char *text = made_result_edit(b_text, misfits[i].from, misfits[i].to);
        assert_refused(a_text, text, misfits[i].fault);
        free(text);
    }
    assert_refused(a_text, a_text,
                   "a.json and b.json are the same result: one host and seed, and both started at "
                   "2023-11-14T22:13:20.000000Z");
    free(a_text);
    free(b_text);
    made_result_free(&a);
    made_result_free(&b);
}

/* What makes no configuration is not for the report's formats to meet. */
static void test_first_result_is_checked(void **state)
{
    static const struct {
        const char *from;
        const char *to;
        const char *fault;
    } cases[] = {
        {"\"journal\":\"sqlite\"", "\"journal\":\"a\\nb\"",
         "a.json: store.journal must be a journal, got \"a\\nb\""},
        {"\"latency\":\"50ms\"", "\"latency\":\"50\"",
         "a.json: config.latency must be a duration such as 50ms, got \"50\": the unit is missing"},
        {"\"loop\":\"epoll\"", "\"loop\":\"\\u001b[31m\"",
         "a.json: result.loop must be a loop, got \"\\u001B[31m\""},
        {"\"history\":\"delta\"", "\"history\":\"all\"",
         "a.json: config.history must be delta or snapshot, got \"all\""},
        {"\"stages\":[]", "\"stages\":[7]",
         "a.json: config.stages must be stages of a duration and a rate each, got [7]"},
        {"\"seed\":0", "\"seed\":\"18446744073709551616\"",
         "a.json: config.seed must be a seed, got \"18446744073709551616\""},
    };
    struct made_result a;
    (void)state;
    make(&a, 0);
    char *good = text_of(&a);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char *text = made_result_edit(good, cases[i].from, cases[i].to);
        assert_refused(text, good, cases[i].fault);
        free(text);
    }
    free(good);
    made_result_free(&a);
}

/* Two that are a second and a half apart, of which the second has longer intervals. */
static void test_intervals_are_laid_over_each_other(void **state)
{
    struct interval a[] = {{NS_PER_S, 10, 8, 1, 60, 2, 5, 7, 9, false},
                           {2 * NS_PER_S, 10, 12, 0, 61, 0, 0, 7, 9, false}};
    struct interval b[] = {{2 * NS_PER_S, 100, 50, 0, 7, 50, 8, 7, 9, false},
                           {5 * NS_PER_S / 2, 0, 50, 3, 0, 0, 0, 7, 9, false}};
    const struct merged_part parts[] = {
        {.started_ns = start_ns, .every_ns = NS_PER_S, .rows = a, .row_count = 2},
        {.started_ns = start_ns + 3 * NS_PER_S / 2,
         .every_ns = 2 * NS_PER_S,
         .rows = b,
         .row_count = 2},
    };
    static const struct interval expected[] = {
        {2 * NS_PER_S, 20 + 25, 20 + 12, 1, 121 + 1, 0 + 12, 0 + 2, INTERVAL_NOT_KNOWN,
         INTERVAL_NOT_KNOWN, false},
        {4 * NS_PER_S, 75, 88, 3, 6, 0, 0, INTERVAL_NOT_KNOWN, INTERVAL_NOT_KNOWN, false},
    };
    struct intervals sum;
    (void)state;
    assert_int_equal(merge_intervals(&sum, parts, 2, start_ns), 0);
    assert_int_equal(sum.every_ns, 2 * NS_PER_S);
    assert_int_equal(sum.count, 2);
    assert_memory_equal(sum.rows, expected, sizeof(expected));
    intervals_free(&sum);
}

/* Whatever the offsets: nothing is lost, and nothing counts twice. */
static void test_interval_sums_are_exact(void **state)
{
    struct prng draws = prng_stream(7, 8, PRNG_TEST, 9);
    (void)state;
    for (int round = 0; round < 50; round++) {
        struct interval rows[3][20];
        struct merged_part parts[3];
        struct intervals sum;
        uint64_t records = 0;
        uint64_t found = 0;
        for (size_t p = 0; p < 3; p++) {
            uint64_t end_ns = 0;
            for (size_t i = 0; i < 20; i++) {
                end_ns += 1 + prng_next(&draws) % (2 * NS_PER_S);
                rows[p][i] =
                    (struct interval){.end_ns = end_ns, .records = prng_next(&draws) % 1000};
                records += rows[p][i].records;
            }
            parts[p] =
                (struct merged_part){.started_ns = start_ns + prng_next(&draws) % (3 * NS_PER_S),
                                     .every_ns = NS_PER_S,
                                     .rows = rows[p],
                                     .row_count = 20};
        }
        assert_int_equal(merge_intervals(&sum, parts, 3, start_ns), 0);
        for (size_t i = 0; i < sum.count; i++) {
            assert_true(i == 0 || sum.rows[i].end_ns > sum.rows[i - 1].end_ns);
            assert_true(sum.rows[i].records < 1000000);
            found += sum.rows[i].records;
        }
        assert_int_equal(found, records);
        intervals_free(&sum);
    }
}

static void test_too_many_intervals_are_left_out(void **state)
{
    struct interval row = {.end_ns = INT64_MAX};
    const struct merged_part part = {
        .started_ns = start_ns, .every_ns = 1, .rows = &row, .row_count = 1};
    const struct merged_part none = {.started_ns = start_ns, .every_ns = NS_PER_S};
    struct intervals sum;
    (void)state;
    assert_int_equal(merge_intervals(&sum, &part, 1, start_ns), 0);
    assert_true(sum.is_cut && sum.count == 0);
    assert_int_equal(merge_intervals(&sum, &none, 1, start_ns), 0);
    assert_true(!sum.is_cut && sum.count == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts_are_added),
        cmocka_unit_test(test_histograms_are_added_exactly),
        cmocka_unit_test(test_what_one_does_not_know_is_not_known),
        cmocka_unit_test(test_open_loops_are_added),
        cmocka_unit_test(test_reasons_name_their_file),
        cmocka_unit_test(test_what_ran_together_for_a_part_only_is_said),
        cmocka_unit_test(test_what_does_not_fit_is_refused_by_name),
        cmocka_unit_test(test_first_result_is_checked),
        cmocka_unit_test(test_intervals_are_laid_over_each_other),
        cmocka_unit_test(test_interval_sums_are_exact),
        cmocka_unit_test(test_too_many_intervals_are_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
