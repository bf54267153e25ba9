/*
 * Rank tests against tables that were published and against R 4.2.2, whose calls stand beside the
 * values; and the shift with its interval: R's estimates, how often the interval covers the truth.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <stdbool.h>

#include "engine/base/prng.h"
#include "engine/base/shift.h"
#include "engine/base/significance.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static void assert_near(double value, double expected)
{
    if (!(fabs(value - expected) <= 1e-12 * fabs(expected)))
        fail_msg("%.17g, expected %.17g", value, expected);
}

static double mann_whitney(const double *a, size_t a_count, const double *b, size_t b_count)
{
    double p = -1;
    assert_int_equal(significance_mann_whitney(a, a_count, b, b_count, &p), 0);
    return p;
}

static double signed_rank(const double *differences, size_t count)
{
    double p = -1;
    assert_int_equal(significance_signed_rank(differences, count, &p), 0);
    return p;
}

/* Two samples of n without ties whose U is u: each of the first sample's values, taken from the
 * top, passes as many of the second's as are still needed. */
static double p_of_u(size_t n, size_t u)
{
    double a[32];
    double b[32];
    for (size_t i = 0; i < n; i++) {
        size_t passes = u < n ? u : n;
        u -= passes;
        a[i] = (double)(passes * 100) + 50 - (double)i;
        b[i] = (double)((i + 1) * 100);
    }
    assert_int_equal(u, 0);
    return mann_whitney(a, n, b, n);
}

/* Ranks 1 to n, of which those that sum to w are positive. */
static double p_of_w(size_t n, size_t w)
{
    double differences[32];
    for (size_t rank = n; rank > 0; rank--) {
        bool is_positive = rank <= w;
        w -= is_positive ? rank : 0;
        differences[rank - 1] = is_positive ? (double)rank : -(double)rank;
    }
    assert_int_equal(w, 0);
    return signed_rank(differences, n);
}

/* Critical values at 5 %, two-sided: D. Auble, Bulletin of the Institute of Educational Research,
 * Indiana University 1 (1953), equal samples. */
static void mann_whitney_agrees_with_the_table(void **state)
{
    (void)state;
    static const size_t critical[] = {
        [5] = 2,   [6] = 5,   [7] = 8,   [8] = 13,  [9] = 17,  [10] = 23, [11] = 30,  [12] = 37,
        [13] = 45, [14] = 55, [15] = 64, [16] = 75, [17] = 87, [18] = 99, [19] = 113, [20] = 127};
    for (size_t n = 5; n < COUNT_OF(critical); n++) {
        assert_true(p_of_u(n, critical[n]) <= 0.05);
        assert_true(p_of_u(n, critical[n] + 1) > 0.05);
    }
}

/* The same of R. L. McCornack, Journal of the American Statistical Association 60 (1965). */
static void signed_rank_agrees_with_the_table(void **state)
{
    (void)state;
    static const size_t critical[] = {
        [6] = 0,   [7] = 2,   [8] = 3,   [9] = 5,   [10] = 8,  [11] = 10, [12] = 13, [13] = 17,
        [14] = 21, [15] = 25, [16] = 29, [17] = 34, [18] = 40, [19] = 46, [20] = 52};
    for (size_t n = 6; n < COUNT_OF(critical); n++) {
        assert_true(p_of_w(n, critical[n]) <= 0.05);
        assert_true(p_of_w(n, critical[n] + 1) > 0.05);
    }
}

/* The examples of ?wilcox.test, from M. Hollander, D. A. Wolfe: Nonparametric Statistical Methods,
 * 1973, pages 27 and 69. */
static const double placenta_term[] = {0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46};
static const double placenta_early[] = {1.15, 0.88, 0.90, 0.74, 1.21};
static const double depression[] = {1.83 - 0.878, 0.50 - 0.647, 1.62 - 0.598,
                                    2.48 - 2.05,  1.68 - 1.06,  1.88 - 1.29,
                                    1.55 - 1.06,  3.06 - 3.14,  1.30 - 1.29};

static void exact_p_is_that_of_r(void **state)
{
    (void)state;
    double a[21];
    double b[21];
    double d[21];
    for (int i = 0; i < 21; i++) {
        a[i] = (i + 1) * 37 / 10.0;
        b[i] = (i + 1) * 53 / 10.0 + 1.05 - 8;
        d[i] = (i + 1) * 11 % 23 - 8.25;
    }
    /* wilcox.test(x, y)$p.value, both ways round */
    assert_near(mann_whitney(placenta_term, 10, placenta_early, 5), 0.2544122544122544);
    assert_near(mann_whitney(placenta_early, 5, placenta_term, 10), 0.2544122544122544);
    assert_near(mann_whitney(a, 21, b, 21), 0.29406280026033094);
    /* wilcox.test(d)$p.value */
    assert_near(signed_rank(depression, COUNT_OF(depression)), 0.0390625);
    assert_near(signed_rank(d, 21), 0.054693222045898431);
}

static void ties_are_exact_too(void **state)
{
    (void)state;
    /* coin 1.4-2: pvalue(wilcox_test(v ~ group, distribution = "exact")) */
    static const double a[] = {1, 1, 2, 2, 2, 3, 4};
    static const double b[] = {2, 3, 3, 4, 4, 5, 6};
    assert_near(mann_whitney(a, 7, b, 7), 0.036130536130536128);
    /* pvalue(wilcoxsign_test(d ~ zeros, distribution = "exact", zero.method = "Wilcoxon")) */
    static const double d[] = {1, -1, 2, 2, -3, 3, 3, 4, 5, 0};
    assert_near(signed_rank(d, COUNT_OF(d)), 0.0859375);
    static const double same[] = {7, 7, 7};
    assert_near(mann_whitney(same, 3, same, 3), 1);
    static const double zeros[] = {0, 0, -0.0};
    assert_near(signed_rank(zeros, 3), 1);
}

static void large_samples_are_approximated_as_r_does(void **state)
{
    (void)state;
    double a[120];
    double b[90];
    double d[150];
    for (int i = 0; i < 120; i++)
        a[i] = (i + 1) * 37 % 61 / 10.0;
    for (int i = 0; i < 90; i++)
        b[i] = (i + 1) * 53 % 67 / 10.0 + 0.2;
    for (int i = 0; i < 150; i++)
        d[i] = (i + 1) * 37 % 101 - 47;
    /* wilcox.test(a, b, exact = FALSE)$p.value; wilcox.test(d, exact = FALSE)$p.value */
    assert_true(fabs(mann_whitney(a, 120, b, 90) - 0.075869851503130803) < 1e-9);
    assert_true(fabs(signed_rank(d, 150) - 0.17107289091387856) < 1e-9);
}

static void what_is_no_sample_is_refused(void **state)
{
    (void)state;
    static const double good[] = {1, 2};
    static const double bad[] = {1, NAN};
    static const double endless[] = {INFINITY, 1};
    struct shift shift;
    double p;
    assert_int_equal(significance_mann_whitney(good, 2, good, 0, &p), -EINVAL);
    assert_int_equal(significance_mann_whitney(bad, 2, good, 2, &p), -EINVAL);
    assert_int_equal(significance_signed_rank(endless, 2, &p), -EINVAL);
    assert_int_equal(significance_signed_rank(good, 0, &p), -EINVAL);
    assert_int_equal(shift_of_samples(good, 2, bad, 2, 1, &shift), -EINVAL);
    assert_int_equal(shift_of_pairs(endless, 2, 1, &shift), -EINVAL);
    assert_int_equal(shift_of_pairs(good, 0, 1, &shift), -EINVAL);
    assert_int_equal(shift_of_pairs(good, SHIFT_VALUES_MAX + 1, 1, &shift), -E2BIG);
}

static void holm_adjusts_as_r_does(void **state)
{
    (void)state;
    double p[] = {0.01, 0.04, 0.03, 0.005, 0.9, 0.04}; /* p.adjust(p, "holm") */
    static const double adjusted[] = {0.05, 0.12, 0.12, 0.03, 0.9, 0.12};
    assert_int_equal(significance_holm(p, COUNT_OF(p)), 0);
    for (size_t i = 0; i < COUNT_OF(p); i++)
        assert_near(p[i], adjusted[i]);
    assert_int_equal(significance_holm(NULL, 0), 0);
}

static void the_estimate_is_that_of_r(void **state)
{
    (void)state;
    struct shift shift;
    /* wilcox.test(…, conf.int = TRUE)$estimate, which is of x - y */
    assert_int_equal(shift_of_samples(placenta_early, 5, placenta_term, 10, 1, &shift), 0);
    assert_near(shift.estimate, 0.305);
    assert_true(isnan(shift.low) && isnan(shift.high)); /* five are too few */
    assert_int_equal(shift_of_pairs(depression, COUNT_OF(depression), 1, &shift), 0);
    assert_near(shift.estimate, 0.46);
    assert_true(shift.low < shift.estimate && shift.estimate < shift.high);
}

static void the_same_seed_gives_the_same_interval(void **state)
{
    (void)state;
    struct shift one;
    struct shift same;
    struct shift other;
    assert_int_equal(shift_of_pairs(depression, COUNT_OF(depression), 1, &one), 0);
    assert_int_equal(shift_of_pairs(depression, COUNT_OF(depression), 1, &same), 0);
    assert_int_equal(shift_of_samples(depression, 9, placenta_term, 10, 1, &other), 0);
    assert_memory_equal(&one, &same, sizeof(one));
    assert_true(other.low < other.estimate && other.estimate < other.high);
    static const double constant[] = {3, 3, 3, 3, 3, 3};
    assert_int_equal(shift_of_pairs(constant, 6, 1, &one), 0);
    assert_true(one.low == 3 && one.estimate == 3 && one.high == 3);
}

/* A normal value, by the sum of uniform ones (its tails are short, which is no matter here). */
static double draw_normal(struct prng *prng)
{
    double sum = -6;
    for (int i = 0; i < 12; i++)
        sum += prng_unit(prng);
    return sum;
}

/* How many of the series' intervals hold the truth. */
static unsigned count_covered(unsigned series, unsigned runs, bool is_paired)
{
    struct prng prng = prng_stream(1, runs, PRNG_TEST, is_paired);
    unsigned covered = 0;
    for (unsigned i = 0; i < series; i++) {
        double a[32];
        double b[32];
        struct shift shift;
        for (unsigned k = 0; k < runs; k++) {
            a[k] = draw_normal(&prng);
            b[k] = draw_normal(&prng) + 0.5;
        }
        assert_int_equal(is_paired ? shift_of_pairs(b, runs, i, &shift)
                                   : shift_of_samples(a, runs, b, runs, i, &shift),
                         0);
        covered += shift.low <= 0.5 && 0.5 <= shift.high;
    }
    print_message("%u runs: %u of %u covered\n", runs, covered, series);
    return covered;
}

static void the_interval_covers_the_truth(void **state)
{
    (void)state;
    enum { SERIES = 200 };
    static const unsigned runs[] = {6, 10, 21};
    for (size_t i = 0; i < COUNT_OF(runs); i++) {
        assert_in_range(count_covered(SERIES, runs[i], true), SERIES * 9 / 10, SERIES);
        assert_in_range(count_covered(SERIES, runs[i], false), SERIES * 9 / 10, SERIES);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mann_whitney_agrees_with_the_table),
        cmocka_unit_test(signed_rank_agrees_with_the_table),
        cmocka_unit_test(exact_p_is_that_of_r),
        cmocka_unit_test(ties_are_exact_too),
        cmocka_unit_test(large_samples_are_approximated_as_r_does),
        cmocka_unit_test(what_is_no_sample_is_refused),
        cmocka_unit_test(holm_adjusts_as_r_does),
        cmocka_unit_test(the_estimate_is_that_of_r),
        cmocka_unit_test(the_same_seed_gives_the_same_interval),
        cmocka_unit_test(the_interval_covers_the_truth),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
