/*
 * Campaigns in a store that keeps its records (sqlite:), begun by one campaign object and finished
 * by another, with real threads: what each of them counts, and what the audit says of it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "engine/campaign.h"
#include "engine/loop.h"
#include "engine/verify.h"
#include "tests/lib/parsed_dist.h"
#include "tests/lib/scratch.h"
#include "tests/lib/store_place.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

enum { RUNS = 200, CONCURRENCY = 60 };

/* A store in a folder of its own, and how campaigns are driven in it. */
struct stage {
    struct scratch scratch;
    char uri[96];
    char ledger[96];
    struct campaign_config config;
    struct campaign_result result;
    uint64_t response_count;
    struct errmsg why;
    uint64_t ends_awaited; /* of runs, before it is abandoned */
    bool is_stopped;       /* before it starts */
    struct dist sticky;
};

static void stage_open(struct stage *stage)
{
    memset(stage, 0, sizeof(*stage));
    assert_int_equal(scratch_make(&stage->scratch, "campaign_resume"), 0);
    (void)snprintf(stage->uri, sizeof(stage->uri), "sqlite:%s/bench.db", stage->scratch.path);
    (void)snprintf(stage->ledger, sizeof(stage->ledger), "%s/ledger", stage->scratch.path);
    stage->config = (struct campaign_config){
        .runs = RUNS,
        .concurrency = CONCURRENCY,
        .threads = 2,
        .seed = 5,
        .latency = latency_of("0"),
        .tool_latency = latency_of("0"),
        .turns = 3,
        .tools = 2,
        .tool_effect = TOOL_EFFECT_LEDGER,
        .ledger_path = stage->ledger,
        .loop_name = "auto",
        .journal_uri = stage->uri,
        .durability = DURABILITY_NONE,
        .shards = 3,
        .memory_bytes_max = UINT64_C(512) << 20,
    };
}

/* Some model calls and some tools never answer. However fast it is otherwise, all slots hold a run
 * in the end that one of them keeps, wherever it stands. */
static void begin_what_cannot_end(struct stage *stage)
{
    char spec[96];
    (void)snprintf(spec, sizeof(spec), "file:%s/latencies", stage->scratch.path);
    FILE *file = fopen(spec + strlen("file:"), "w");
    assert_non_null(file);
    assert_true(fputs("0ms\n0ms\n1ms\n2ms\n2ms\n3ms\n4ms\n5ms\n24h\n", file) >= 0);
    assert_int_equal(fclose(file), 0);
    stage->sticky = latency_of(spec);
    stage->config.latency = stage->sticky;
    stage->config.tool_latency = stage->sticky;
}

/* As the same campaign, in a hurry. */
static void go_on(struct stage *stage)
{
    stage->config.mode = JOURNAL_RESUME;
    stage->config.shards = 0;
    stage->config.latency = latency_of("0");
    stage->config.tool_latency = latency_of("0");
}

static void stage_close(struct stage *stage)
{
    dist_free(&stage->sticky);
    assert_int_equal(scratch_remove(&stage->scratch), 0);
}

/* Lets it come to its end; or is called each millisecond, and may stop it. Returns what
 * campaign_finish() does. */
static int drive(struct stage *stage, void (*watch)(struct stage *stage, struct campaign *campaign))
{
    struct loop waiter;
    struct campaign *campaign = NULL;
    assert_int_equal(loop_open(&waiter, "epoll", &stage->why), 0);
    if (campaign_open(&campaign, &stage->config, &waiter, &stage->why) != 0)
        fail_msg("%s", stage->why.text);
    if (stage->is_stopped)
        campaign_stop(campaign);
    campaign_start(campaign);
    while (!campaign_is_done(campaign)) {
        assert_int_equal(loop_poll(&waiter, clock_monotonic_ns() + NS_PER_MS, 1), 0);
        if (watch != NULL)
            watch(stage, campaign);
    }
    int error = campaign_finish(campaign, &stage->result, &stage->why);
    stage->response_count = stage->result.response->count;
    campaign_close(campaign);
    loop_close(&waiter);
    return error;
}

static void drive_well(struct stage *stage,
                       void (*watch)(struct stage *stage, struct campaign *campaign))
{
    if (drive(stage, watch) != 0)
        fail_msg("%s", stage->why.text);
    const struct campaign_result *result = &stage->result;
    uint64_t ended = 0;
    for (unsigned i = 0; i < OUTCOME_COUNT; i++)
        ended += result->runs_by_outcome[i];
    assert_int_equal(result->runs_started, ended + result->runs_abandoned);
    assert_int_equal(result->records, result->records_before + result->records_acked);
    assert_int_equal(result->records_unknown + result->records_refused, 0);
    assert_string_equal(result->scheduler_error.text, "");
    assert_string_equal(result->journal_error.text, "");
    assert_int_equal(result->is_resumed, stage->config.mode == JOURNAL_RESUME);
    assert_int_equal(result->runs_resumed, result->is_resumed ? result->runs_started : 0);
}

static void abandon_when_many_have_begun(struct stage *stage, struct campaign *campaign)
{
    (void)stage;
    struct campaign_progress progress = campaign_progress(campaign);
    if (progress.records > 400 && progress.runs_started - progress.runs_ended == CONCURRENCY)
        campaign_abandon(campaign);
}

static struct verify_result audit(const struct stage *stage)
{
    const struct verify_config config = {.memory_bytes = 1 << 24, .threads = 2};
    struct journal_config journal_config = campaign_journal_config(&stage->config);
    struct journal *journal = NULL;
    struct verify_result result = {0};
    struct errmsg why = {.text = ""};
    journal_config.mode = JOURNAL_AUDIT;
    journal_config.shards = 0;
    if (journal_open(&journal, &journal_config, &why) != 0 ||
        verify_journal(journal, &config, &result, &why) != 0)
        fail_msg("%s", why.text);
    journal_close(journal);
    if (result.runs_faulty > 0)
        fail_msg("run %u: %s", (unsigned)result.first[0].run, result.first[0].why);
    return result;
}

static int compare_lines(const void *left, const void *right)
{
    return strcmp(left, right);
}

/* How many lines the ledger has; no call has two. */
static size_t count_effects(const struct stage *stage)
{
    enum { LINES_MAX = 4 * RUNS * 3, LINE_BYTES = 32 };
    char(*lines)[LINE_BYTES] = calloc(LINES_MAX, LINE_BYTES);
    size_t count = 0;
    FILE *file = fopen(stage->ledger, "r");
    assert_non_null(lines);
    assert_non_null(file);
    while (count < LINES_MAX && fgets(lines[count], LINE_BYTES, file) != NULL) {
        *strrchr(lines[count], ' ') = '\0'; /* the attempt */
        count++;
    }
    (void)fclose(file); /* it was only read */
    qsort(lines, count, LINE_BYTES, compare_lines);
    for (size_t i = 1; i < count; i++)
        assert_string_not_equal(lines[i], lines[i - 1]);
    free(lines);
    return count;
}

static void what_was_begun_is_finished(void **state)
{
    (void)state;
    struct stage stage;
    stage_open(&stage);
    begin_what_cannot_end(&stage);
    drive_well(&stage, abandon_when_many_have_begun);
    struct campaign_result first = stage.result;
    assert_int_equal(first.campaign, 1);
    assert_int_equal(first.records_before, 0);
    assert_true(first.runs_abandoned > 0);
    struct verify_result seen = audit(&stage);
    assert_int_equal(seen.runs - seen.runs_ended, first.runs_abandoned);

    go_on(&stage);
    drive_well(&stage, NULL);
    const struct campaign_result *result = &stage.result;
    assert_int_equal(result->campaign, 1);
    assert_int_equal(result->records_before, first.records);
    assert_int_equal(result->runs_resumed, first.runs_abandoned);
    assert_int_equal(result->runs_by_outcome[OUTCOME_COMPLETED] +
                         result->runs_by_outcome[OUTCOME_UNKNOWN],
                     first.runs_abandoned);
    assert_true(result->records_replayed >= result->runs_resumed);
    assert_true(result->records_replayed < first.records);
    assert_true(result->recovery_ns > 0);
    assert_int_equal(stage.response_count, result->runs_by_outcome[OUTCOME_COMPLETED]);
    seen = audit(&stage);
    assert_int_equal(seen.runs, first.runs_started);
    assert_int_equal(seen.runs_ended, first.runs_started);
    (void)count_effects(&stage);

    /* And then there is nothing left. */
    uint64_t records = result->records;
    drive_well(&stage, NULL);
    assert_int_equal(result->runs_resumed, 0);
    assert_int_equal(result->peak_tasks, 0);
    assert_int_equal(result->records, records);
    assert_int_equal(result->records_before, records);
    stage_close(&stage);
}

static void abandon_when_some_have_ended(struct stage *stage, struct campaign *campaign)
{
    if (campaign_progress(campaign).runs_ended >= stage->ends_awaited)
        campaign_abandon(campaign);
}

static void a_resume_may_be_resumed(void **state)
{
    (void)state;
    struct stage stage;
    stage_open(&stage);
    stage.config.tool_effect = TOOL_EFFECT_NONE;
    stage.config.ledger_path = NULL;
    begin_what_cannot_end(&stage);
    drive_well(&stage, abandon_when_many_have_begun);
    go_on(&stage);
    stage.config.concurrency = 10;
    stage.ends_awaited = 20;
    drive_well(&stage, abandon_when_some_have_ended);
    assert_in_range(stage.result.runs_resumed, 20, RUNS);
    stage.config.campaign = 1;
    drive_well(&stage, NULL);
    struct verify_result seen = audit(&stage);
    assert_int_equal(seen.runs_ended, seen.runs);
    assert_int_equal(stage.result.first_error.text[0], '\0');
    stage_close(&stage);
}

static void abandon_when_one_has_started(struct stage *stage, struct campaign *campaign)
{
    (void)stage;
    if (campaign_progress(campaign).runs_started > 0)
        campaign_abandon(campaign);
}

/* What was read ahead, of runs that no slot came free for, was not replayed; and the wait for slots
 * is no part of the recovery. */
static void what_was_read_ahead_is_not_counted(void **state)
{
    (void)state;
    enum { RECORDS_OF_ONE_MAX = 1 + 3 + 2 * 2 * 2 };
    struct stage stage;
    stage_open(&stage);
    stage.config.shards = 1;
    begin_what_cannot_end(&stage);
    drive_well(&stage, abandon_when_many_have_begun);
    go_on(&stage);
    stage.config.concurrency = 1;
    stage.config.tool_retry = AGENT_RETRY_UNKNOWN;
    stage.config.latency = latency_of("24h");
    stage.config.tool_latency = latency_of("24h");
    drive_well(&stage, abandon_when_one_has_started);
    assert_in_range(stage.result.runs_resumed, 1, 2); /* one may have had its last reply */
    assert_in_range(stage.result.records_replayed, stage.result.runs_resumed,
                    stage.result.runs_resumed * RECORDS_OF_ONE_MAX);
    stage_close(&stage);
}

static void a_stop_leaves_what_is_unfinished(void **state)
{
    (void)state;
    struct stage stage;
    stage_open(&stage);
    begin_what_cannot_end(&stage);
    drive_well(&stage, abandon_when_many_have_begun);
    uint64_t records = stage.result.records;
    uint64_t unfinished = stage.result.runs_abandoned;
    go_on(&stage);
    stage.is_stopped = true;
    drive_well(&stage, NULL);
    assert_int_equal(stage.result.runs_resumed, 0);
    assert_int_equal(stage.result.records, records);
    stage.is_stopped = false;
    drive_well(&stage, NULL);
    assert_int_equal(stage.result.runs_resumed, unfinished);
    stage_close(&stage);
}

/* Nothing is recorded, and no tool run, by who is not the campaign that it was. */
static void another_seed_diverges_and_leaves_no_trace(void **state)
{
    (void)state;
    struct stage stage;
    stage_open(&stage);
    begin_what_cannot_end(&stage);
    drive_well(&stage, abandon_when_many_have_begun);
    uint64_t records = stage.result.records;
    uint64_t unfinished = stage.result.runs_abandoned;
    size_t effects = count_effects(&stage);
    go_on(&stage);
    stage.config.seed++;
    drive_well(&stage, NULL);
    assert_int_equal(stage.result.runs_by_outcome[OUTCOME_DIVERGED], unfinished);
    assert_int_equal(stage.result.records, records);
    assert_int_equal(stage.result.model_calls + stage.result.tool_calls, 0);
    assert_non_null(strstr(stage.result.first_error.text, ": diverged at seq 0: "));
    assert_int_equal(count_effects(&stage), effects);
    stage_close(&stage);
}

static void what_cannot_be_resumed_is_told(void **state)
{
    (void)state;
    struct stage stage;
    struct loop waiter;
    struct campaign *campaign = NULL;
    stage_open(&stage);
    drive_well(&stage, NULL);
    assert_int_equal(loop_open(&waiter, "epoll", &stage.why), 0);
    go_on(&stage);
    stage.config.campaign = 7;
    assert_true(campaign_open(&campaign, &stage.config, &waiter, &stage.why) < 0);
    assert_non_null(strstr(stage.why.text, "7"));
    stage.config.campaign = 0;
    stage.config.journal_uri = "memory";
    assert_int_equal(campaign_open(&campaign, &stage.config, &waiter, &stage.why), -EINVAL);
    assert_non_null(strstr(stage.why.text, "keeps nothing"));
    assert_null(campaign);
    loop_close(&waiter);
    stage_close(&stage);
}

static int count_campaigns(void *arg, const struct journal_campaign *campaign)
{
    (void)campaign;
    ++*(unsigned *)arg;
    return 0;
}

static unsigned campaigns_in(const struct stage *stage)
{
    struct journal_config config = campaign_journal_config(&stage->config);
    struct journal *journal = NULL;
    struct errmsg why = {.text = ""};
    unsigned count = 0;
    config.mode = JOURNAL_AUDIT;
    config.shards = 0;
    if (journal_open(&journal, &config, &why) != 0 ||
        journal_list(journal, count_campaigns, &count, &why) != 0)
        fail_msg("%s", why.text);
    journal_close(journal);
    return count;
}

static unsigned files_of(const struct stage *stage)
{
    static const char *const endings[] = {"", ".1", ".2", "-wal", ".1-wal", "-journal"};
    unsigned count = 0;
    for (size_t i = 0; i < COUNT_OF(endings); i++) {
        char name[128];
        (void)snprintf(name, sizeof(name), "%s%s", stage->uri + strlen("sqlite:"), endings[i]);
        count += access(name, F_OK) == 0;
    }
    return count;
}

/* Its ledger is a folder. */
static void fail_to_open(struct stage *stage)
{
    struct loop waiter;
    struct campaign *campaign = NULL;
    assert_int_equal(loop_open(&waiter, "epoll", &stage->why), 0);
    stage->config.ledger_path = stage->scratch.path;
    assert_true(campaign_open(&campaign, &stage->config, &waiter, &stage->why) < 0);
    assert_non_null(strstr(stage->why.text, "ledger"));
    stage->config.ledger_path = stage->ledger;
    loop_close(&waiter);
}

/* A mistyped name would split the effects. */
static void a_resume_makes_no_ledger(void **state)
{
    (void)state;
    struct stage stage;
    struct loop waiter;
    struct campaign *campaign = NULL;
    stage_open(&stage);
    begin_what_cannot_end(&stage);
    drive_well(&stage, abandon_when_many_have_begun);
    char other[128];
    (void)snprintf(other, sizeof(other), "%s/other", stage.scratch.path);
    stage.config.mode = JOURNAL_RESUME;
    stage.config.ledger_path = other;
    assert_int_equal(loop_open(&waiter, "epoll", &stage.why), 0);
    assert_int_equal(campaign_open(&campaign, &stage.config, &waiter, &stage.why), -ENOENT);
    assert_string_equal(stage.why.text, "the ledger of a resumed campaign must be there");
    assert_int_not_equal(access(other, F_OK), 0);
    loop_close(&waiter);
    stage_close(&stage);
}

/* Or the newest campaign, which `resume` takes, would be one that never was. */
static void what_does_not_open_leaves_nothing_behind(void **state)
{
    (void)state;
    struct stage stage;
    struct loop waiter;
    struct campaign *campaign = NULL;
    stage_open(&stage);
    fail_to_open(&stage);
    assert_int_equal(files_of(&stage), 0);

    begin_what_cannot_end(&stage);
    drive_well(&stage, abandon_when_many_have_begun);
    uint64_t unfinished = stage.result.runs_abandoned;
    assert_int_equal(campaigns_in(&stage), 1);
    fail_to_open(&stage);
    assert_int_equal(campaigns_in(&stage), 1);

    /* One that is opened, and never started. */
    assert_int_equal(loop_open(&waiter, "epoll", &stage.why), 0);
    assert_int_equal(campaign_open(&campaign, &stage.config, &waiter, &stage.why), 0);
    campaign_close(campaign);
    loop_close(&waiter);
    assert_int_equal(campaigns_in(&stage), 1);

    /* Nor does a resume that fails take back what it was to resume. */
    go_on(&stage);
    fail_to_open(&stage);
    assert_int_equal(campaigns_in(&stage), 1);
    drive_well(&stage, NULL);
    assert_int_equal(stage.result.runs_resumed, unfinished);
    assert_int_equal(stage.result.campaign, 1);
    stage_close(&stage);
}

/* Damage of one run stops that run only. */
static void a_run_that_is_damaged_does_not_keep_the_others(void **state)
{
    (void)state;
    struct stage stage;
    char sql[160];
    stage_open(&stage);
    stage.config.shards = 1;
    stage.config.tool_effect = TOOL_EFFECT_NONE; /* nothing else is to be told of */
    stage.config.ledger_path = NULL;
    begin_what_cannot_end(&stage);
    drive_well(&stage, abandon_when_many_have_begun);
    uint64_t unfinished = stage.result.runs_abandoned;
    (void)snprintf(sql, sizeof(sql),
                   "UPDATE records SET digest = 'none' WHERE id = (SELECT min(id) FROM records "
                   "WHERE seq = 1 AND run NOT IN (SELECT run FROM records WHERE kind = 5))");
    store_execute(stage.uri + strlen("sqlite:"), sql);
    go_on(&stage);
    drive_well(&stage, NULL);
    assert_int_equal(stage.result.runs_resumed, unfinished);
    assert_int_equal(stage.result.runs_by_outcome[OUTCOME_DIVERGED], 1);
    assert_non_null(strstr(stage.result.first_error.text, "records cannot be read: "));
    assert_non_null(strstr(stage.result.first_error.text, "is damaged: a record of run "));
    drive_well(&stage, NULL); /* and it stays as it is */
    assert_int_equal(stage.result.runs_resumed, 1);
    stage_close(&stage);
}

static void let_files_grow_no_more(struct stage *stage, struct campaign *campaign)
{
    (void)stage;
    struct rlimit limit;
    if (campaign_progress(campaign).records < 400)
        return;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = 1 << 14;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* The store's own words are in the result, and its counts still hold. */
static void a_store_that_fails_is_told_in_its_words(void **state)
{
    (void)state;
    struct stage stage;
    struct rlimit limit;
    stage_open(&stage);
    stage.config.runs = 1000000;
    stage.config.tool_effect = TOOL_EFFECT_NOOP;
    stage.config.ledger_path = NULL;
    void (*old)(int) = signal(SIGXFSZ, SIG_IGN);
    int error = drive(&stage, let_files_grow_no_more);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    (void)signal(SIGXFSZ, old);
    if (error != 0)
        fail_msg("%s", stage.why.text);
    assert_true(stage.result.has_store_failed);
    assert_true(stage.result.runs_by_outcome[OUTCOME_JOURNAL] > 0);
    assert_true(stage.result.records_refused + stage.result.records_unknown > 0);
    assert_true(stage.result.journal_error.text[0] != '\0');
    struct verify_result seen = audit(&stage);
    assert_int_equal(seen.records, stage.result.records);

    /* And when there is room again it goes on. */
    go_on(&stage);
    drive_well(&stage, NULL);
    seen = audit(&stage);
    assert_int_equal(seen.runs_ended, seen.runs);
    stage_close(&stage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_begun_is_finished),
        cmocka_unit_test(a_resume_may_be_resumed),
        cmocka_unit_test(what_was_read_ahead_is_not_counted),
        cmocka_unit_test(a_stop_leaves_what_is_unfinished),
        cmocka_unit_test(another_seed_diverges_and_leaves_no_trace),
        cmocka_unit_test(what_cannot_be_resumed_is_told),
        cmocka_unit_test(a_resume_makes_no_ledger),
        cmocka_unit_test(what_does_not_open_leaves_nothing_behind),
        cmocka_unit_test(a_run_that_is_damaged_does_not_keep_the_others),
        cmocka_unit_test(a_store_that_fails_is_told_in_its_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
