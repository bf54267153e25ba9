/* steady: slopes held against values computed by hand; and how long an interval is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "cmd/steady.h"
#include "cmd/warmup.h"
#include "engine/base/clock.h"

static void assert_close(double value, double wanted)
{
    if (fabs(value - wanted) > 1e-12)
        fail_msg("%.15g, not %.15g", value, wanted);
}

static struct steady steady_of(const double rates[STEADY_WINDOW])
{
    struct steady steady = {.count = 0};
    for (unsigned i = 0; i < STEADY_WINDOW; i++)
        steady_add(&steady, rates[i]);
    return steady;
}

static void slopes_are_those_of_a_line_through_the_points(void **state)
{
    /* With x from 0 to 9 the sum of (x - 4.5)^2 is 82.5. The slope is the sum of (x - 4.5) y,
     * divided by it; times 9, divided by the mean, it is the share. */
    static const struct {
        double rates[STEADY_WINDOW];
        double slope;
    } cases[] = {
        {{100, 100, 100, 100, 100, 100, 100, 100, 100, 100}, 0},
        {{91, 93, 95, 97, 99, 101, 103, 105, 107, 109}, 0.18}, /* 2 a step: 18 of 100 */
        {{109, 107, 105, 103, 101, 99, 97, 95, 93, 91}, -0.18},
        {{0, 0, 0, 0, 0, 0, 0, 0, 0, 10}, 45 / 82.5 * 9 / 1},
        {{10, 0, 0, 0, 0, 0, 0, 0, 0, 10}, 0}, /* the same on both sides of the middle */
        {{1, 2, 3, 4, 5, 5, 5, 5, 5, 5}, 35 / 82.5 * 9 / 4}, /* sum 40 */
        {{50, 150, 50, 150, 50, 150, 50, 150, 50, 150}, 250 / 82.5 * 9 / 100},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct steady steady = steady_of(cases[i].rates);
        double slope = -1;
        assert_true(steady_slope(&steady, &slope));
        assert_close(slope, cases[i].slope);
    }
}

static void a_window_rolls_and_is_full_first(void **state)
{
    struct steady steady = {.count = 0};
    double slope = 77;
    (void)state;
    for (unsigned i = 0; i < STEADY_WINDOW; i++) {
        assert_false(steady_slope(&steady, &slope));
        steady_add(&steady, i < 3 ? 1000000 : 100); /* the start is far off */
    }
    assert_true(steady_slope(&steady, &slope));
    assert_true(slope < -1);
    for (unsigned i = 0; i < 3; i++) {
        steady_add(&steady, 100);
        assert_true(steady_slope(&steady, &slope));
    }
    assert_close(slope, 0); /* and has left the window */
    for (unsigned i = 0; i < STEADY_WINDOW; i++)
        steady_add(&steady, 91 + 2 * i); /* from somewhere in the middle of the ring */
    assert_true(steady_slope(&steady, &slope));
    assert_close(slope, 0.18);
}

static void nothing_that_ends_is_not_steady(void **state)
{
    static const double none[STEADY_WINDOW] = {0};
    struct steady steady = steady_of(none);
    double slope = 77;
    (void)state;
    assert_false(steady_slope(&steady, &slope));
    assert_close(slope, 77);
}

static void intervals_are_a_twentieth_within_bounds(void **state)
{
    (void)state;
    assert_int_equal(warmup_interval_ns(60 * NS_PER_S), NS_PER_S);
    assert_int_equal(warmup_interval_ns(20 * NS_PER_S), NS_PER_S);
    assert_int_equal(warmup_interval_ns(4 * NS_PER_S), 200 * NS_PER_MS);
    assert_int_equal(warmup_interval_ns(1), 10 * NS_PER_MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slopes_are_those_of_a_line_through_the_points),
        cmocka_unit_test(a_window_rolls_and_is_full_first),
        cmocka_unit_test(nothing_that_ends_is_not_steady),
        cmocka_unit_test(intervals_are_a_twentieth_within_bounds),
    };
    return cmocka_run_group_tests_name("steady", tests, NULL, NULL);
}
