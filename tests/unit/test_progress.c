/* The progress line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "cmd/progress.h"
#include "engine/base/clock.h"

static const struct campaign_config both = {.runs = 2000, .warmup_ns = NS_PER_S};
static const struct campaign_progress warming = {
    .elapsed_ns = 500 * NS_PER_MS,
    .runs_started = 100,
    .runs_ended = 90,
    .is_warming = true,
    .warmup_started = 100,
    .warmup_ended = 90,
};
static const struct campaign_progress warmed = {
    .elapsed_ns = 2010 * NS_PER_MS,
    .measured_ns = 1010 * NS_PER_MS,
    .runs_started = 756,
    .runs_ended = 500,
    .warmup_started = 105,
    .warmup_ended = 100,
};

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
    const struct {
        struct progress_figures figures;
        const char *line;
    } cases[] = {
        {{&counted, now, NS_PER_S, 250, 1500, 2, false, false, 0, NULL},
         "2s runs=500/2000 (25%) rate=250/s in-flight=256 errors=2 left=6s records=1500/s"},
        {{&counted, now, NS_PER_S, 250, 1500, 2, true, true, 12345678, NULL},
         "2s runs=500/2000 (25%) rate=250/s p99=12.3ms in-flight=256 errors=2 left=6s "
         "records=1500/s"},
        {{&resumed, now, NS_PER_S, 250, 0, 2, true, false, 0, NULL}, /* most had ended before */
         "2s runs=500 rate=250/s p99=- in-flight=256 errors=2 records=0/s"},
        {{&timed, now, NS_PER_S, 250, 0, 0, false, false, 0, NULL},
         "2s runs=500 rate=250/s in-flight=256 errors=0 left=1m28s records=0/s"},
        {{&counted, now, 10 * NS_PER_MS, 0, 0, 2, false, false, 0, "draining"},
         "2.01s runs=500/2000 (25%) rate=0/s in-flight=256 errors=2 draining"},
        {{&open_loop, late, NS_PER_S, 250, 0, 2, false, false, 0, NULL},
         "2s runs=500/2000 (25%) rate=250/s in-flight=256 backlog=244 errors=2 left=6s "
         "records=0/s"},
        {{&both, warming, 100 * NS_PER_MS, 180, 0, 0, false, false, 0, NULL},
         "500ms warm-up runs=90 rate=180/s in-flight=10 errors=0 records=0/s"},
        {{&both, warmed, NS_PER_S, 400, 0, 0, false, false, 0, NULL},
         "2s runs=400/2000 (20%) rate=400/s in-flight=256 errors=0 left=4s records=0/s"},
    };
    char line[PROGRESS_LINE_BYTES];
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        progress_format(line, &cases[i].figures, PROGRESS_LINE_BYTES);
        assert_string_equal(line, cases[i].line);
    }
    const struct progress_figures largest = {&huge,      most, NS_PER_S, 1e18,       1e18,
                                             UINT64_MAX, true, true,     UINT64_MAX, "draining"};
    progress_format(line, &largest, SIZE_MAX);
    assert_true(strlen(line) < PROGRESS_LINE_BYTES);
}

/* What matters least goes first, and whole: a number that is cut would be another. */
static void test_narrow_terminals(void **state)
{
    static const struct campaign_config open_loop = {.runs = 2000000, .arrival = {.rate = 500}};
    static const struct progress_figures figures = {
        .config = &open_loop,
        .now = {.elapsed_ns = 12 * NS_PER_S,
                .runs_started = 125000,
                .runs_ended = 120000,
                .runs_due = 125700},
        .resolution_ns = NS_PER_S,
        .runs_per_s = 10000,
        .records_per_s = 60000,
        .errors = 3,
        .has_p99 = true,
        .is_p99_known = true,
        .p99_ns = 102300000,
    };
    static const char *const lines[] = {
        "12s runs=120000/2000000 (6%) rate=10000/s p99=102.3ms in-flight=5000 backlog=700 errors=3 "
        "left=3m8s records=60000/s",
        "12s runs=120000/2000000 (6%) rate=10000/s p99=102.3ms in-flight=5000 backlog=700 errors=3 "
        "left=3m8s",
        "12s runs=120000/2000000 rate=10000/s p99=102.3ms in-flight=5000 backlog=700 errors=3 "
        "left=3m8s",
        "12s runs=120000/2000000 rate=10000/s p99=102.3ms backlog=700 errors=3 left=3m8s",
        "12s runs=120000/2000000 rate=10000/s p99=102.3ms errors=3 left=3m8s",
        "12s runs=120000/2000000 rate=10000/s p99=102.3ms errors=3",
        "12s runs=120000/2000000 rate=10000/s errors=3",
        "12s runs=120000/2000000 errors=3",
        "12s runs=120000/2000000",
        "12s",
        "",
    };
    char line[PROGRESS_LINE_BYTES];
    size_t next = 0;
    (void)state;
    for (size_t columns = PROGRESS_LINE_BYTES; columns-- > 0;) {
        progress_format(line, &figures, columns);
        assert_true(strlen(line) <= columns);
        if (strcmp(line, lines[next]) != 0)
            next++;
        assert_string_equal(line, lines[next]);
    }
    assert_int_equal(next, sizeof(lines) / sizeof(lines[0]) - 1);
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
        cmocka_unit_test(test_narrow_terminals),
        cmocka_unit_test(test_progress_resolution),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
