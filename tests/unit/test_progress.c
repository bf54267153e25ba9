/* The progress line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "cmd/progress.h"
#include "engine/base/clock.h"

static void test_progress_line(void **state)
{
    static const struct campaign_config counted = {.runs = 2000};
    static const struct campaign_config resumed = {.runs = 2000, .mode = JOURNAL_RESUME};
    static const struct campaign_config timed = {.duration_ns = 90 * NS_PER_S};
    static const struct campaign_config huge = {.runs = UINT64_C(1000000000000)};
    static const struct campaign_progress now = {
        .elapsed_ns = 2010 * NS_PER_MS,
        .runs_started = 756,
        .runs_ended = 500,
        .errors = 2,
    };
    static const struct campaign_config open_loop = {.runs = 2000, .arrival = {.rate = 500}};
    static const struct campaign_progress late = {
        .elapsed_ns = 2010 * NS_PER_MS,
        .runs_started = 756,
        .runs_ended = 500,
        .runs_due = 1000,
        .errors = 2,
    };
    static const struct campaign_progress most = {
        .elapsed_ns = UINT64_MAX / 2,
        .runs_started = UINT64_MAX,
        .runs_ended = UINT64_MAX / 2,
        .errors = UINT64_MAX,
    };
    char line[PROGRESS_LINE_BYTES];
    (void)state;
    progress_format(line, &counted, &now, NS_PER_S, 250, NULL);
    assert_string_equal(line, "2s runs=500/2000 (25%) rate=250/s in-flight=256 errors=2 left=6s");
    progress_format(line, &resumed, &now, NS_PER_S, 250, NULL); /* most of the 2000 had ended */
    assert_string_equal(line, "2s runs=500 rate=250/s in-flight=256 errors=2");
    progress_format(line, &timed, &now, NS_PER_S, 250, NULL);
    assert_string_equal(line, "2s runs=500 rate=250/s in-flight=256 errors=2 left=1m28s");
    progress_format(line, &counted, &now, 10 * NS_PER_MS, 0, "draining");
    assert_string_equal(line, "2.01s runs=500/2000 (25%) rate=0/s in-flight=256 errors=2 draining");
    progress_format(line, &open_loop, &late, NS_PER_S, 250, NULL);
    assert_string_equal(
        line, "2s runs=500/2000 (25%) rate=250/s in-flight=256 backlog=244 errors=2 left=6s");
    progress_format(line, &huge, &most, NS_PER_S, 1e18, "draining");
    assert_true(strlen(line) < PROGRESS_LINE_BYTES);
}

/* Lines that follow each other never show the same time. */
static void test_progress_resolution(void **state)
{
    (void)state;
    assert_int_equal(progress_resolution_ns(NS_PER_S), NS_PER_S);
    assert_int_equal(progress_resolution_ns(60 * NS_PER_S), NS_PER_S);
    assert_int_equal(progress_resolution_ns(1500 * NS_PER_MS), 100 * NS_PER_MS);
    assert_int_equal(progress_resolution_ns(500 * NS_PER_MS), 100 * NS_PER_MS);
    assert_int_equal(progress_resolution_ns(250 * NS_PER_MS), 10 * NS_PER_MS);
    assert_int_equal(progress_resolution_ns(1), NS_PER_MS);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_progress_line),
        cmocka_unit_test(test_progress_resolution),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
