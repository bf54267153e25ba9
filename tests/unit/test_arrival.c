/* arrival: schedules against theory, shared out whole, and every bad specification refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/arrival.h"
#include "engine/base/clock.h"

enum { ARRIVALS = 20000 };

/* The test of Kolmogorov and Smirnov at a level of 1 %: 1.628 / sqrt(n) (tables; for n > 35). */
#define KS_LIMIT (1.628 / sqrt(ARRIVALS))

static struct arrival_plan plan_of(double rate, enum arrival_process process, uint64_t seed,
                                   const char *stages)
{
    struct arrival_plan plan = {.rate = rate, .process = process, .seed = seed};
    struct errmsg why;
    if (stages != NULL && arrival_parse_stages(&plan, stages, &why) != 0)
        fail_msg("%s", why.text);
    return plan;
}

static void constant_arrivals_are_even(void **state)
{
    (void)state;
    struct arrival_plan plan = plan_of(300000, ARRIVAL_CONSTANT, 1, NULL);
    struct arrivals arrivals;
    uint64_t number = 0;
    uint64_t at_ns = 0;
    assert_true(arrival_plan_duration_ns(&plan) == UINT64_MAX);
    arrivals_init(&arrivals, &plan, 0, 1);
    for (uint64_t i = 0; i < 1000000; i++) {
        assert_true(arrivals_next(&arrivals, &number, &at_ns));
        assert_int_equal(number, i);
        assert_in_range(at_ns, i * 10000 / 3, i * 10000 / 3 + 1);
    }
}

/* How many come until `at`, in each of `count` equal parts of it. */
static void count_parts(const struct arrival_plan *plan, uint64_t until_ns, unsigned *counts,
                        unsigned count)
{
    struct arrivals arrivals;
    uint64_t number = 0;
    uint64_t at_ns = 0;
    memset(counts, 0, count * sizeof(counts[0]));
    arrivals_init(&arrivals, plan, 0, 1);
    for (uint64_t last_ns = 0; arrivals_next(&arrivals, &number, &at_ns) && at_ns < until_ns;) {
        assert_true(at_ns >= last_ns);
        last_ns = at_ns;
        counts[at_ns * count / until_ns]++;
    }
}

/* From 0 to 100/s in 10 s, there for 10 s, nothing for 10 s, and back from 100/s to 0. */
static void stages_are_ramps(void **state)
{
    (void)state;
    struct arrival_plan plan =
        plan_of(0, ARRIVAL_CONSTANT, 1, "10s:100/s,10s:6000/m,1ns:0,10s:0/s,1ns:0.1k,10s:0");
    unsigned counts[40];
    struct arrivals arrivals;
    uint64_t number = 0;
    uint64_t at_ns = 0;
    assert_int_equal(arrival_plan_duration_ns(&plan), 40 * NS_PER_S + 2);
    count_parts(&plan, 40 * NS_PER_S, counts, 40);
    for (unsigned i = 0; i < 10; i++) {
        assert_in_range(counts[i], 10 * i + 4, 10 * i + 6);
        assert_in_range(counts[10 + i], 99, 101);
        assert_in_range(counts[20 + i], 0, i == 0); /* the one of the very moment */
        assert_in_range(counts[30 + i], 94 - 10 * i, 96 - 10 * i);
    }
    arrivals_init(&arrivals, &plan, 0, 1);
    unsigned count = 0;
    while (arrivals_next(&arrivals, &number, &at_ns))
        count++;
    assert_in_range(count, 1999, 2001);
    assert_true(fabs(arrival_plan_expected(&plan, UINT64_MAX) - 2000) < 1e-3);
    assert_true(fabs(arrival_plan_expected(&plan, 5 * NS_PER_S) - 125) < 1e-3);
    assert_true(fabs(arrival_plan_expected(&plan, 15 * NS_PER_S) - 1000) < 1e-3);
    assert_false(arrivals_next(&arrivals, &number, &at_ns));
}

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;
    return (a > b) - (a < b);
}

/* The greatest distance between the gaps' distribution and that of an exponential of mean 1. */
static double distance_from_exponential(double *gaps)
{
    double most = 0;
    qsort(gaps, ARRIVALS, sizeof(gaps[0]), compare);
    for (unsigned i = 0; i < ARRIVALS; i++) {
        double expected = 1 - exp(-gaps[i]);
        most = fmax(most, fabs(expected - (double)i / ARRIVALS));
        most = fmax(most, fabs(expected - (double)(i + 1) / ARRIVALS));
    }
    return most;
}

/* Expected arrivals until a time: of 2000/s, and of a ramp from 0 to 2000/s in 100 s. */
static double expected_even(uint64_t at_ns)
{
    return 2000 * (double)at_ns / NS_PER_S;
}

static double expected_ramp(uint64_t at_ns)
{
    double s = (double)at_ns / NS_PER_S;
    return 2000 * s * s / 200;
}

/* In units of expected arrivals the gaps of a Poisson process are exponential, and no gap tells of
 * the next. */
static void poisson_arrivals_pass_the_test(void **state)
{
    (void)state;
    static const struct {
        double rate;
        const char *stages;
        double (*expected)(uint64_t at_ns);
    } cases[] = {{2000, NULL, expected_even}, {0, "100s:2000/s", expected_ramp}};
    static double gaps[ARRIVALS];
    for (unsigned i = 0; i < 2; i++) {
        for (uint64_t seed = 1; seed <= 5; seed++) {
            struct arrival_plan plan =
                plan_of(cases[i].rate, ARRIVAL_POISSON, seed, cases[i].stages);
            struct arrivals arrivals;
            uint64_t number = 0;
            uint64_t at_ns = 0;
            double last = 0;
            double sum = 0;
            arrivals_init(&arrivals, &plan, 0, 1);
            for (unsigned n = 0; n < ARRIVALS; n++) {
                assert_true(arrivals_next(&arrivals, &number, &at_ns));
                gaps[n] = cases[i].expected(at_ns) - last;
                last += gaps[n];
            }
            for (unsigned n = 1; n < ARRIVALS; n++)
                sum += (gaps[n] - 1) * (gaps[n - 1] - 1);
            assert_true(fabs(sum / ARRIVALS) < 3 / sqrt(ARRIVALS));
            assert_true(fabs(last / ARRIVALS - 1) < 3 / sqrt(ARRIVALS));
            double distance = distance_from_exponential(gaps);
            if (distance > KS_LIMIT)
                fail_msg("case %u, seed %u: %f", i, (unsigned)seed, distance);
        }
    }
}

/* However many share it, it is the same schedule. */
static void a_schedule_is_shared_out_whole(void **state)
{
    (void)state;
    for (enum arrival_process process = ARRIVAL_CONSTANT; process <= ARRIVAL_POISSON; process++) {
        struct arrival_plan plan = plan_of(100, process, 7, "10s:500/s,10s:20/s");
        struct arrivals whole;
        struct arrivals shares[3];
        uint64_t number = 0;
        uint64_t at_ns = 0;
        uint64_t count = 0;
        arrivals_init(&whole, &plan, 0, 1);
        for (uint64_t i = 0; i < 3; i++)
            arrivals_init(&shares[i], &plan, i, 3);
        for (; arrivals_next(&whole, &number, &at_ns); count++) {
            uint64_t share_number = 0;
            uint64_t share_ns = 0;
            assert_true(arrivals_next(&shares[count % 3], &share_number, &share_ns));
            assert_int_equal(share_number, number);
            assert_int_equal(share_ns, at_ns);
        }
        for (uint64_t i = 0; i < 3; i++)
            assert_false(arrivals_next(&shares[i], &number, &at_ns));
        assert_in_range(count, 5400, 5800); /* 5600 expected, with a deviation of 75 */
    }
}

static void bad_stages_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *reason;
    } cases[] = {
        {"", "must be stages such as 30s:500/s,1m:2000/s, got \"\""},
        {"500/s", "must be stages such as 30s:500/s,1m:2000/s, got \"500/s\""},
        {"30s:500/s,", "must be stages such as 30s:500/s,1m:2000/s, got \"\""},
        {"30:500/s", "stage \"30:500/s\": must be a duration such as 50ms, got \"30\": "
                     "the unit is missing"},
        {"0:5/s", "stage \"0:5/s\": must be longer than 0"},
        {"1s:", "stage \"1s:\": must be a rate such as 500/s or 90/m, got \"\": it is empty"},
        {"1s:-5", "stage \"1s:-5\": must not be negative, got \"-5\""},
        {"1s:5/h", "stage \"1s:5/h\": must be a rate such as 500/s or 90/m, got \"5/h\": only k or "
                   "m, and then /s or /m, may follow the number"},
        {"1s:2000m/s", "stage \"1s:2000m/s\": must be at most 1000000000/s, got \"2000m/s\""},
    };
    struct errmsg why;
    struct arrival_plan plan;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_true(arrival_parse_stages(&plan, cases[i].text, &why) < 0);
        assert_string_equal(why.text, cases[i].reason);
    }
    char many[ARRIVAL_STAGES_MAX * 5 + 8];
    for (unsigned i = 0; i <= ARRIVAL_STAGES_MAX; i++)
        memcpy(many + (size_t)5 * i, "1s:1,", 6);
    many[5 * ARRIVAL_STAGES_MAX + 4] = '\0';
    assert_int_equal(arrival_parse_stages(&plan, many, &why), -ERANGE);
    memset(many, '1', sizeof(many) - 1);
    many[sizeof(many) - 1] = '\0';
    assert_int_equal(arrival_parse_stages(&plan, many, &why), -EINVAL);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(constant_arrivals_are_even),
        cmocka_unit_test(stages_are_ramps),
        cmocka_unit_test(poisson_arrivals_pass_the_test),
        cmocka_unit_test(a_schedule_is_shared_out_whole),
        cmocka_unit_test(bad_stages_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
