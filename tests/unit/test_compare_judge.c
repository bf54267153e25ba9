/*
 * compare_judge: each verdict from samples that are made to deserve it. What the statistics are
 * worth is test_significance.c's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/compare_judge.h"
#include "engine/base/prng.h"
#include "engine/base/shift.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static const struct compare_row count_row = {
    .name = "allocations", .kind = COMPARE_COUNT, .key = "a", .factor = 1};
static const struct compare_row time_row = {
    .name = "p50", .kind = COMPARE_MEASURE, .unit = COMPARE_NS, .key = "p", .factor = 1};
static const struct compare_row rate_row = {.name = "throughput",
                                            .kind = COMPARE_MEASURE,
                                            .unit = COMPARE_PER_S,
                                            .key = "t",
                                            .factor = 1,
                                            .is_more_better = true};
static const struct compare_rules usual = {.threshold = 0.05, .seed = 1};

enum { RUNS = 21 };

static struct judgement judge(const struct compare_row *row, const double *base, size_t base_count,
                              const double *head, size_t head_count,
                              const struct compare_rules *rules)
{
    struct judgement judgement;
    const struct sample base_sample = {base, base_count};
    const struct sample head_sample = {head, head_count};
    assert_int_equal(compare_judge(row, &base_sample, &head_sample, rules, &judgement), 0);
    assert_int_equal(compare_conclude(&judgement, &row, rules, 1), 0);
    return judgement;
}

static enum verdict verdict_of_counts(const double *base, const double *head, size_t count)
{
    return judge(&count_row, base, count, head, count, &usual).verdict;
}

/* Around `center`, by up to `noise` of it each way. */
static void draw(double values[RUNS], double center, double noise, uint64_t seed)
{
    struct prng prng = prng_stream(seed, 0, PRNG_TEST, 0);
    for (size_t i = 0; i < RUNS; i++)
        values[i] = center * (1 + noise * (2 * prng_unit(&prng) - 1));
}

static void counts_are_exact(void **state)
{
    (void)state;
    static const double two[] = {0.25, 0.25, 0.25, 0.25, 0.25, 0.25};
    static const double more[] = {1.25, 1.25, 1.25, 1.25, 1.25, 1.25};
    static const double little[] = {0.26, 0.26, 0.26, 0.26, 0.26, 0.26};
    static const double spread[] = {0.24, 0.25, 0.26, 0.25, 0.25, 0.25};
    static const double above[] = {1.24, 1.25, 1.26, 1.25, 1.25, 1.25};
    static const double zero[6] = {0};
    assert_int_equal(verdict_of_counts(two, two, 6), VERDICT_SAME);
    assert_int_equal(verdict_of_counts(two, two, 1), VERDICT_SAME);
    assert_int_equal(verdict_of_counts(two, more, 6), VERDICT_WORSE);
    assert_int_equal(verdict_of_counts(two, more, 2), VERDICT_WORSE);
    assert_int_equal(verdict_of_counts(two, more, 1), VERDICT_TOO_FEW);
    assert_int_equal(verdict_of_counts(more, two, 6), VERDICT_BETTER);
    assert_int_equal(verdict_of_counts(two, little, 6), VERDICT_CHANGED); /* by 4 % */
    assert_int_equal(verdict_of_counts(two, spread, 6), VERDICT_INCONCLUSIVE);
    assert_int_equal(verdict_of_counts(spread, above, 6), VERDICT_WORSE);
    assert_int_equal(verdict_of_counts(spread, above, 5), VERDICT_TOO_FEW);
    assert_int_equal(verdict_of_counts(zero, two, 6), VERDICT_WORSE);
    assert_int_equal(verdict_of_counts(zero, zero, 6), VERDICT_SAME);
    struct judgement j = judge(&count_row, two, 6, more, 6, &usual);
    assert_true(j.base.median == 0.25 && j.head.median == 1.25 && fabs(j.change - 4) < 1e-12);
}

static void slower_is_worse_and_faster_better(void **state)
{
    (void)state;
    double base[RUNS];
    double head[RUNS];
    draw(base, 100, 0.03, 1);
    draw(head, 112, 0.03, 2);
    struct judgement j = judge(&time_row, base, RUNS, head, RUNS, &usual);
    assert_int_equal(j.verdict, VERDICT_WORSE);
    assert_true(j.low < 0.12 && 0.12 < j.high && fabs(j.change - 0.12) < 0.02 && j.p < 0.001);
    assert_int_equal(judge(&time_row, head, RUNS, base, RUNS, &usual).verdict, VERDICT_BETTER);
    assert_int_equal(judge(&rate_row, base, RUNS, head, RUNS, &usual).verdict, VERDICT_BETTER);
    assert_int_equal(judge(&rate_row, head, RUNS, base, RUNS, &usual).verdict, VERDICT_WORSE);
}

static void what_is_within_the_threshold_is_equivalent(void **state)
{
    (void)state;
    double base[RUNS];
    double head[RUNS];
    draw(base, 100, 0.02, 1);
    draw(head, 100, 0.02, 2);
    assert_int_equal(judge(&time_row, base, RUNS, head, RUNS, &usual).verdict, VERDICT_EQUIVALENT);
    /* A change that is certain and small. */
    draw(head, 102, 0.001, 2);
    draw(base, 100, 0.001, 1);
    struct judgement j = judge(&time_row, base, RUNS, head, RUNS, &usual);
    assert_int_equal(j.verdict, VERDICT_EQUIVALENT);
    assert_true(j.p < 0.001 && j.low > 0);
    const struct compare_rules strict = {.threshold = 0.005, .seed = 1};
    assert_int_equal(judge(&time_row, base, RUNS, head, RUNS, &strict).verdict, VERDICT_WORSE);
}

static void what_is_not_known_is_inconclusive(void **state)
{
    (void)state;
    double base[RUNS];
    double head[RUNS];
    draw(base, 100, 0.3, 1);
    draw(head, 100, 0.3, 2);
    assert_int_equal(judge(&time_row, base, RUNS, head, RUNS, &usual).verdict,
                     VERDICT_INCONCLUSIVE);
    /* Less than what the machine does to the same build. */
    draw(base, 100, 0.03, 1);
    draw(head, 112, 0.03, 2);
    const struct compare_rules noisy = {.threshold = 0.05, .floor = 0.2, .seed = 1};
    assert_int_equal(judge(&time_row, base, RUNS, head, RUNS, &noisy).verdict,
                     VERDICT_INCONCLUSIVE);
}

static void fewer_than_six_have_no_interval(void **state)
{
    (void)state;
    double base[RUNS];
    double head[RUNS];
    draw(base, 100, 0.03, 1);
    draw(head, 200, 0.03, 2);
    struct judgement j = judge(&time_row, base, 5, head, RUNS, &usual);
    assert_int_equal(j.verdict, VERDICT_TOO_FEW);
    assert_true(isnan(j.low) && isnan(j.high) && isnan(j.p) && isnan(j.base.low));
    assert_true(fabs(j.change - 1) < 0.05);
    assert_int_equal(judge(&time_row, base, 6, head, 6, &usual).verdict, VERDICT_WORSE);
}

/* The whole machine slows down by half while they run: neighbours still tell. */
static void pairs_see_through_a_drift(void **state)
{
    (void)state;
    double base[RUNS];
    double head[RUNS];
    draw(base, 100, 0.01, 1);
    draw(head, 108, 0.01, 2);
    for (size_t i = 0; i < RUNS; i++) {
        base[i] *= 1 + 0.5 * (double)i / RUNS;
        head[i] *= 1 + 0.5 * (double)i / RUNS;
    }
    const struct compare_rules paired = {.threshold = 0.05, .is_paired = true, .seed = 1};
    assert_int_equal(judge(&time_row, base, RUNS, head, RUNS, &usual).verdict,
                     VERDICT_INCONCLUSIVE);
    assert_int_equal(judge(&time_row, base, RUNS, head, RUNS, &paired).verdict, VERDICT_WORSE);
}

static void a_figure_that_a_side_lacks_is_not_judged(void **state)
{
    (void)state;
    static const double good[] = {1, 2, 3, 4, 5, 6};
    static const double unknown[] = {1, 2, NAN, 4, 5, 6};
    static const double zero[] = {1, 2, 0, 4, 5, 6};
    static const double negative[] = {1, 2, -1, 4, 5, 6};
    assert_int_equal(judge(&time_row, good, 6, unknown, 6, &usual).verdict, VERDICT_NONE);
    assert_int_equal(judge(&count_row, unknown, 6, good, 6, &usual).verdict, VERDICT_NONE);
    assert_int_equal(judge(&time_row, zero, 6, good, 6, &usual).verdict, VERDICT_NONE);
    assert_int_equal(judge(&time_row, good, 6, negative, 6, &usual).verdict, VERDICT_NONE);
    assert_int_equal(judge(&time_row, good, 6, good, 0, &usual).verdict, VERDICT_NONE);
}

/* Ten figures of which one has changed, by as little as it takes alone. */
static void more_figures_take_more_evidence(void **state)
{
    (void)state;
    enum { FIGURES = 10, FEW = 6 };
    struct judgement judgements[FIGURES];
    const struct compare_row *rows[FIGURES];
    struct compare_rules rules[FIGURES];
    double base[RUNS];
    double head[RUNS];
    for (size_t i = 0; i < FIGURES; i++) {
        rows[i] = &time_row;
        rules[i] = usual;
        draw(base, 100, 0.03, 2 * i);
        draw(head, i == 0 ? 120 : 100, 0.03, 2 * i + 1);
        const struct sample base_sample = {base, FEW};
        const struct sample head_sample = {head, FEW};
        assert_int_equal(
            compare_judge(&time_row, &base_sample, &head_sample, &usual, &judgements[i]), 0);
    }
    double alone = judgements[0].p; /* 2 of C(12, 6) arrangements */
    assert_true(fabs(alone - 2.0 / 924) < 1e-12);
    assert_int_equal(compare_conclude(judgements, rows, rules, FIGURES), 0);
    assert_true(fabs(judgements[0].p - FIGURES * alone) < 1e-12);
    assert_int_equal(judgements[0].verdict, VERDICT_WORSE);
    for (size_t i = 1; i < FIGURES; i++)
        assert_int_not_equal(judgements[i].verdict, VERDICT_WORSE);
}

/* The ranks that a median lies between: binomial tables, such as W. J. Conover: Practical
 * Nonparametric Statistics, 1971. */
static void the_median_has_its_interval(void **state)
{
    (void)state;
    static const struct {
        size_t count;
        double low;
        double high;
    } cases[] = {{6, 1, 6}, {8, 1, 8}, {9, 2, 8}, {15, 4, 12}, {20, 6, 15}, {21, 6, 16}};
    double ranks[RUNS];
    for (size_t i = 0; i < RUNS; i++)
        ranks[i] = (double)(i + 1);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        size_t count = cases[i].count;
        struct judgement j = judge(&time_row, ranks, count, ranks, count, &usual);
        assert_true(j.base.low == cases[i].low && j.base.high == cases[i].high);
        assert_true(j.base.median == (double)(count + 1) / 2);
    }
}

static void too_many_runs_are_refused(void **state)
{
    (void)state;
    size_t count = SHIFT_VALUES_MAX + 1;
    double *values = malloc(count * sizeof(*values));
    assert_non_null(values);
    for (size_t i = 0; i < count; i++)
        values[i] = 1;
    struct judgement judgement;
    const struct sample sample = {values, count};
    assert_int_equal(compare_judge(&time_row, &sample, &sample, &usual, &judgement), -E2BIG);
    free(values);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_are_exact),
        cmocka_unit_test(slower_is_worse_and_faster_better),
        cmocka_unit_test(what_is_within_the_threshold_is_equivalent),
        cmocka_unit_test(what_is_not_known_is_inconclusive),
        cmocka_unit_test(fewer_than_six_have_no_interval),
        cmocka_unit_test(pairs_see_through_a_drift),
        cmocka_unit_test(a_figure_that_a_side_lacks_is_not_judged),
        cmocka_unit_test(more_figures_take_more_evidence),
        cmocka_unit_test(the_median_has_its_interval),
        cmocka_unit_test(too_many_runs_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
