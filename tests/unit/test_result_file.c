/* result_file: what was written is read back exactly, from memory and from files, and what is no
 * result is refused with one line that names where. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/result_file.h"
#include "engine/base/clock.h"
#include "tests/lib/made_result.h"
#include "tests/lib/scratch.h"

enum { ROUNDS = 40 };

static char *const arguments[] = {(char[]){"bench"}, (char[]){"-journal"}, (char[]){"sqlite:a.db"}};
enum { ARGUMENT_COUNT = sizeof(arguments) / sizeof(arguments[0]) };

static void make(struct made_result *made)
{
    made_result_init(made, ARGUMENT_COUNT, (char **)arguments);
}

/* A text with a histogram of three buckets, for what is put in its place. */
static char *small_text(void)
{
    struct made_result made;
    size_t size = 0;
    make(&made);
    hist_record(made.hists[0], 5);
    hist_record(made.hists[0], 7);
    hist_record(made.hists[0], 7);
    hist_record(made.hists[0], 5000);
    struct interval rows[2] = {{.end_ns = NS_PER_S, .started = 10, .records = 60},
                               {.end_ns = 2 * NS_PER_S, .ended = 10, .in_flight = 3}};
    made.intervals = (struct intervals){.rows = rows, .count = 2};
    char *text = made_result_text(&made, &size);
    made_result_free(&made);
    return text;
}

/* What is wrong with a text, with all that is in it read; empty when nothing is. */
static struct errmsg fault_of(const char *text, size_t size)
{
    static struct hist hist;
    struct result_file file;
    struct errmsg why = {.text = ""};
    struct interval *rows = NULL;
    size_t count = 0;
    char *copy = malloc(size != 0 ? size : 1); /* exactly as large */
    assert_non_null(copy);
    memcpy(copy, text, size);
    int error = result_file_parse(&file, "dir/a.json", copy, size, &why);
    if (error == 0) {
        for (size_t i = 0; i < REPORT_HISTS && error == 0; i++)
            error = result_file_read_hist(&file, report_hists[i].name, &hist, &why);
        if (error == 0)
            error = result_file_read_intervals(&file, &rows, &count, &why);
        free(rows);
        result_file_free(&file);
    }
    free(copy);
    assert_true((error != 0) == (why.text[0] != '\0'));
    return why;
}

static void assert_fault(const char *text, const char *expected)
{
    struct errmsg why = fault_of(text, strlen(text));
    if (strcmp(why.text, expected) != 0)
        fail_msg("it is refused with: %s\ninstead of: %s", why.text, expected);
}

static void assert_same_hist(const struct hist *a, const struct hist *b)
{
    assert_int_equal(a->count, b->count);
    assert_int_equal(a->min_ns, b->min_ns);
    assert_int_equal(a->max_ns, b->max_ns);
    assert_int_equal(a->sum_ns, b->sum_ns);
    assert_int_equal(hist_mean_ns(a), hist_mean_ns(b));
    assert_memory_equal(a->counts, b->counts, sizeof(a->counts));
}

static void check_round_trip(const struct made_result *made)
{
    static struct hist read;
    struct result_file file;
    struct errmsg why;
    size_t size = 0;
    char *text = made_result_text(made, &size);
    if (result_file_parse(&file, "a", text, size, &why) != 0)
        fail_msg("%s", why.text);
    for (size_t i = 0; i < REPORT_HISTS; i++) {
        if (result_file_read_hist(&file, report_hists[i].name, &read, &why) != 0)
            fail_msg("%s", why.text);
        assert_same_hist(&read, made->hists[i]);
    }
    result_file_free(&file);
    free(text);
}

/* Any values, in all buckets and beyond the last, and none. */
static void test_histograms_are_read_as_they_were_written(void **state)
{
    struct prng draws = prng_stream(1, 2, PRNG_TEST, 3);
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        struct made_result made;
        make(&made);
        for (size_t i = 0; i < REPORT_HISTS; i++)
            made_result_fill(made.hists[i], round == 0 ? i : prng_next(&draws) % 3000, &draws);
        check_round_trip(&made);
        made_result_free(&made);
    }
}

static void test_every_bucket_is_read(void **state)
{
    struct made_result made;
    (void)state;
    make(&made);
    for (uint32_t i = 0; i < HIST_BUCKETS; i++)
        hist_record(made.hists[0], hist_bucket_upper_ns(i));
    hist_record(made.hists[1], UINT64_C(1) << 62);
    check_round_trip(&made);
    made_result_free(&made);
}

/* Beyond what JSON has integers for, the mean is what is left of the sum. */
static void test_sum_beyond_json_keeps_the_mean(void **state)
{
    static struct hist read;
    struct made_result made;
    struct result_file file;
    struct errmsg why;
    size_t size = 0;
    (void)state;
    make(&made);
    for (int i = 0; i < 3; i++)
        hist_record(made.hists[0], (UINT64_C(1) << 62) + 1);
    char *text = made_result_text(&made, &size);
    assert_non_null(strstr(text, "\"sum_ns\":null"));
    assert_int_equal(result_file_parse(&file, "a", text, size, &why), 0);
    assert_int_equal(result_file_read_hist(&file, "response", &read, &why), 0);
    assert_int_equal(hist_mean_ns(&read), hist_mean_ns(made.hists[0]));
    assert_int_equal(read.count, 3);
    result_file_free(&file);
    free(text);
    made_result_free(&made);
}

static void test_intervals_and_values_are_read(void **state)
{
    struct result_file file;
    struct errmsg why;
    struct interval *rows = NULL;
    size_t count = 0;
    uint64_t whole = 0;
    int64_t delta = 0;
    double busy = 0;
    const char *text = NULL;
    char *bytes = small_text();
    (void)state;
    assert_int_equal(result_file_parse(&file, "a", bytes, strlen(bytes), &why), 0);
    assert_int_equal(result_file_read_intervals(&file, &rows, &count, &why), 0);
    assert_int_equal(count, 2);
    assert_int_equal(rows[0].end_ns, NS_PER_S);
    assert_int_equal(rows[0].started, 10);
    assert_int_equal(rows[0].records, 60);
    assert_int_equal(rows[1].ended, 10);
    assert_int_equal(rows[1].in_flight, 3);
    free(rows);
    assert_int_equal(result_file_read_u64(&file, "store.records", &whole, &why), 0);
    assert_int_equal(whole, 6000);
    assert_int_equal(result_file_read_u64(&file, "result.outcomes.completed", &whole, &why), 0);
    assert_int_equal(whole, 1000);
    assert_int_equal(result_file_read_u64_or_null(&file, "config.runs", 7, &whole, &why), 0);
    assert_int_equal(whole, 5000);
    assert_int_equal(result_file_read_u64_or_null(&file, "config.duration_ns", 7, &whole, &why), 0);
    assert_int_equal(whole, 7);
    assert_int_equal(result_file_read_i64(&file, "result.heap_delta_bytes", &delta, &why), 0);
    assert_int_equal(delta, -1000);
    assert_int_equal(result_file_read_double(&file, "result.scheduler_busy_ratio", &busy, &why), 0);
    assert_true(busy == 0.25);
    assert_int_equal(result_file_read_text(&file, "store.journal", &text, &why), 0);
    assert_string_equal(text, "sqlite");
    assert_int_equal(result_file_read_text_or_null(&file, "config.json", &text, &why), 0);
    assert_null(text);
    result_file_free(&file);
    free(bytes);
}

static void test_values_of_another_kind_are_refused(void **state)
{
    struct result_file file;
    struct errmsg why;
    uint64_t whole = 0;
    double number = 0;
    const char *text = NULL;
    char *bytes = small_text();
    (void)state;
    assert_int_equal(result_file_parse(&file, "a", bytes, strlen(bytes), &why), 0);
    assert_int_equal(result_file_read_u64(&file, "result.heap_delta_bytes", &whole, &why), -EINVAL);
    assert_string_equal(
        why.text, "a: result.heap_delta_bytes must be a whole number of at least 0, got -1000");
    assert_int_equal(result_file_read_u64(&file, "result.nothing.more", &whole, &why), -EINVAL);
    assert_string_equal(why.text, "a: result.nothing.more is missing");
    assert_int_equal(result_file_read_u64(&file, "store.journal.x", &whole, &why), -EINVAL);
    assert_string_equal(why.text, "a: store.journal.x is missing");
    assert_int_equal(result_file_read_double(&file, "result", &number, &why), -EINVAL);
    assert_non_null(strstr(why.text, "a: result must be a number of at least 0, got {\"elapsed"));
    assert_int_equal(result_file_read_text(&file, "config.json", &text, &why), -EINVAL);
    assert_string_equal(why.text, "a: config.json must be a text, got null");
    result_file_free(&file);
    free(bytes);
}

static const struct {
    const char *from;
    const char *to;
    const char *fault; /* after "dir/a.json: " */
} hostile[] = {
    {"bench.run/1", "bench.run/2", "schema must be \"bench.run/1\", got \"bench.run/2\""},
    {"\"schema\":\"bench.run/1\",", "", "schema is missing: it is no result of bench"},
    {"\"slo\":[]", "\"slo\":{}", "slo must be an array, got {}"},
    {"\"slo\":[],", "", "slo is missing"},
    {"\"slo\":[]", "\"slo\":[],\"slo\":[]", "slo stands there twice"},
    {"\"slo\":[]", "\"intervals\":[]", "intervals stands there twice"},
    {"\"intervals\":", "\"interval\":", "intervals is missing"},
    {"\"latency\":{", "\"latencies\":{", "latency is missing"},
    {"\"service\":", "\"response\":", "latency.response stands there twice"},
    {"\"service\":", "\"services\":", "latency.service is missing"},
    {"\"turns\":2", "\"turns\":2,\"turns\":3", "config: duplicate object key near '\"turns\"'"},
    {"\"turns\":2", "\"turns\":99999999999999999999",
     "config: too big integer near '99999999999999999999'"},
    {"\"turns\":2", "\"turns\":1e999", "config: real number overflow near '1e999'"},
    {"\"turns\":2", "\"turns\":\"\\u0000\"",
     "config: \\u0000 is not allowed without "
     "JSON_ALLOW_NUL near '\"\\u0000\"'"},
    {"\"count\":4", "\"count\":5", "latency.response: count is not the sum of the buckets"},
    {"\"count\":4", "\"count\":-4", "latency.response.count: expected a whole number"},
    {"\"count\":4", "\"count\":4,\"count\":4", "latency.response.count: it stands there twice"},
    {"\"count\":4,", "", "latency.response.count is missing"},
    {"\"count\":4", "\"count\":4.0", "latency.response.count: expected a whole number"},
    {"\"count\":4", "\"count\":18446744073709551616",
     "latency.response.count: number beyond 64 bits"},
    {"\"min_ns\":5", "\"min_ns\":6",
     "latency.response: min_ns and max_ns are not in the first and the last bucket"},
    {"\"max_ns\":5000", "\"max_ns\":6000",
     "latency.response: min_ns and max_ns are not in the first and the last bucket"},
    {"\"mean_ns\":1254", "\"mean_ns\":4",
     "latency.response: mean_ns is not between min_ns and max_ns"},
    {"\"mean_ns\":1254", "\"mean_ns\":1255", "latency.response: sum_ns over count is not mean_ns"},
    {"\"sum_ns\":5019", "\"sum_ns\":\"\"", "latency.response.sum_ns: expected a whole number"},
    {"[7,2]", "[7,3]", "latency.response: count is not the sum of the buckets"},
    {"[7,2]", "[7,0]", "latency.response.buckets: a bucket has no samples, or too many"},
    {"[7,2]", "[7,18446744073709551615]",
     "latency.response.buckets: a bucket has no samples, or too many"},
    {"[7,2]", "[4,2]", "latency.response.buckets: the buckets do not ascend"},
    {"[7,2]", "[5,2]", "latency.response.buckets: the buckets do not ascend"},
    {"[7,2]", "[7]", "latency.response.buckets: expected a whole number"},
    {"[7,2]", "[7,2,2]", "latency.response.buckets: a bucket is a bound and its samples"},
    {"[7,2]", "7,2", "latency.response.buckets: expected an array"},
    {"[7,2]", "[[7],2]", "latency.response.buckets: expected a whole number"},
    {"[5003,1]", "[5000,1]", "latency.response.buckets: a bound is not that of a bucket"},
    {"[5003,1]", "[18446744073709551615,1]",
     "latency.response.buckets: a bound is not that of a bucket"},
    {"\"service\":{\"count\":0,\"min_ns\":0", "\"service\":{\"count\":0,\"min_ns\":1",
     "latency.service: without samples it must have zeros"},
    {"\"end_ns\":2000000000", "\"end_ns\":1000000000",
     "intervals[1]: it does not end after the one before"},
    {"\"end_ns\":1000000000", "\"end_ns\":0", "intervals[0]: it does not end after the one before"},
    {"\"in_flight\":3", "\"in_flight\":-3", "intervals[1]: expected a whole number"},
    {"\"in_flight\":3", "\"end_ns\":3", "intervals[1]: a key stands there twice"},
    {"\"in_flight\":3", "\"on_the_wing\":3", "intervals[1]: a key is missing"},
    {"\"in_flight\":3,\"backlog\":0,\"p50_ns\":0,\"p99_ns\":0,\"is_warmup\":false}",
     "\"in_flight\":3,\"backlog\":0},7", "intervals[2]: expected an object"},
};

static void test_hostile_texts_are_refused(void **state)
{
    char *good = small_text();
    (void)state;
    assert_fault(good, "");
    for (size_t i = 0; i < sizeof(hostile) / sizeof(hostile[0]); i++) {
        char expected[ERRMSG_BYTES];
        char *text = made_result_edit(good, hostile[i].from, hostile[i].to);
        (void)snprintf(expected, sizeof(expected), "dir/a.json: %s", hostile[i].fault);
        assert_fault(text, expected);
        free(text);
    }
    free(good);
}

/* A key of a later build is no fault. */
static void test_unknown_keys_are_passed_over(void **state)
{
    char *good = small_text();
    char *text = made_result_edit(good, "\"count\":4", "\"p50_us\":[{}],\"count\":4");
    char *more = made_result_edit(text, "\"in_flight\":3", "\"in_flight\":3,\"tokens\":null");
    (void)state;
    assert_fault(more, "");
    free(more);
    free(text);
    free(good);
}

static void test_what_is_cut_off_is_refused(void **state)
{
    char *text = small_text();
    size_t size = strlen(text) - 1; /* without the newline */
    (void)state;
    for (size_t i = 0; i < size; i++) {
        struct errmsg why = fault_of(text, i);
        if (strncmp(why.text, "dir/a.json: ", 12) != 0)
            fail_msg("the first %zu bytes: %s", i, why.text);
    }
    text[size / 2] = '\0';
    assert_true(fault_of(text, size).text[0] != '\0');
    free(text);
}

static void test_bounds(void **state)
{
    char *good = small_text();
    struct errmsg why;
    (void)state;
    char *deep =
        made_result_edit(good, "\"slo\":[]", "\"slo\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[");
    why = fault_of(deep, strlen(deep));
    assert_non_null(strstr(why.text, ": JSON nested too deeply"));
    free(deep);

    size_t size = RESULT_FILE_TREE_BYTES_MAX;
    char *long_text = malloc(size + 16);
    assert_non_null(long_text);
    (void)snprintf(long_text, 16, "\"slo\":[\"");
    memset(long_text + 8, 'x', size);
    memcpy(long_text + 8 + size, "\"]", 3);
    char *large = made_result_edit(good, "\"slo\":[]", long_text);
    assert_fault(large, "dir/a.json: slo: there is more than 4 MiB beside the histograms");
    free(large);
    free(long_text);

    struct result_file file;
    assert_int_equal(result_file_parse(&file, "a", good, (size_t)RESULT_FILE_BYTES_MAX + 1, &why),
                     -EFBIG);
    assert_string_equal(why.text, "a: larger than 64 MiB");
    free(good);
}

static void test_files(void **state)
{
    struct scratch scratch;
    struct result_file file;
    struct errmsg why;
    char path[128];
    char *text = small_text();
    (void)state;
    assert_int_equal(scratch_make(&scratch, "result"), 0);
    (void)snprintf(path, sizeof(path), "%s/a.json", scratch.path);
    assert_int_equal(result_file_load(&file, path, &why), -ENOENT);
    assert_non_null(strstr(why.text, "/a.json: cannot be read: No such file or directory"));
    assert_int_equal(result_file_load(&file, scratch.path, &why), -EISDIR);

    FILE *out = fopen(path, "w");
    assert_non_null(out);
    assert_true(fputs(text, out) >= 0);
    assert_int_equal(fclose(out), 0);
    assert_int_equal(result_file_load(&file, path, &why), 0);
    assert_string_equal(file.name, path);
    assert_non_null(result_file_find(&file, "config.turns"));
    result_file_free(&file);

    /* More than a file may have is not read to its end; this one has no bytes on disk. */
    assert_int_equal(truncate(path, (off_t)RESULT_FILE_BYTES_MAX * 1000), 0);
    assert_int_equal(result_file_load(&file, path, &why), -EFBIG);
    assert_int_equal(scratch_remove(&scratch), 0);
    free(text);
}

/* Its end says more than its beginning; characters that are cut in two are none. */
static void test_long_names_are_cut(void **state)
{
    struct result_file file;
    struct errmsg why;
    char name[600] = "";
    (void)state;
    for (size_t i = 0; i < 290; i++)
        memcpy(name + 2 * i, "ü", 3);
    memcpy(name + 580, "\n.json", 7);
    assert_int_equal(result_file_parse(&file, name, "", 0, &why), -EINVAL);
    assert_int_equal(strncmp(why.text, "…", 3), 0);
    assert_non_null(strstr(why.text, "ü?.json: byte 0: unexpected end of JSON"));
    assert_true(strlen(why.text) < RESULT_FILE_NAME_BYTES + 64);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_histograms_are_read_as_they_were_written),
        cmocka_unit_test(test_every_bucket_is_read),
        cmocka_unit_test(test_sum_beyond_json_keeps_the_mean),
        cmocka_unit_test(test_intervals_and_values_are_read),
        cmocka_unit_test(test_values_of_another_kind_are_refused),
        cmocka_unit_test(test_hostile_texts_are_refused),
        cmocka_unit_test(test_unknown_keys_are_passed_over),
        cmocka_unit_test(test_what_is_cut_off_is_refused),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_long_names_are_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
