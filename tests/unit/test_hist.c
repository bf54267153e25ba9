/* hist: held against a sorted array of everything that was recorded. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/hist.h"
#include "engine/base/prng.h"

enum { VALUES = 50000 };

static struct hist *new_hist(void)
{
    struct hist *h = malloc(sizeof(*h));
    assert_non_null(h);
    memset(h, 0xa5, sizeof(*h)); /* hist_init() must not rely on zeroes */
    hist_init(h);
    return h;
}

/* A value of any magnitude from 1 ns to 24 h. */
static uint64_t any_duration(struct prng *p)
{
    return 1 + (prng_below(p, NS_MAX_DURATION) >> prng_below(p, 46));
}

static int compare(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left;
    uint64_t b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

static void empty_is_all_zero(void **state)
{
    (void)state;
    struct hist *h = new_hist();
    assert_int_equal(h->count, 0);
    assert_int_equal(h->min_ns, UINT64_MAX);
    assert_int_equal(h->max_ns, 0);
    assert_int_equal(hist_quantile_ns(h, 0.5), 0);
    assert_int_equal(hist_mean_ns(h), 0);
    assert_false(hist_quantile_is_known(h, 0));
    free(h);
}

static void expect_bucket_holds(uint64_t value_ns)
{
    uint32_t bucket = hist_bucket(value_ns);
    uint64_t upper_ns = hist_bucket_upper_ns(bucket);
    uint64_t lower_ns = bucket == 0 ? 0 : hist_bucket_upper_ns(bucket - 1) + 1;
    assert_in_range(value_ns, lower_ns, upper_ns);
    assert_true((double)(upper_ns - value_ns) <= 0.001 * (double)value_ns);
    assert_true((double)(value_ns - lower_ns) <= 0.001 * (double)value_ns);
}

static void buckets_are_narrow_up_to_a_day(void **state)
{
    (void)state;
    struct prng p = prng_stream(1, 0, PRNG_TEST, 0);
    for (uint64_t value_ns = 0; value_ns < 20000; value_ns++)
        expect_bucket_holds(value_ns);
    for (int i = 0; i < 200000; i++)
        expect_bucket_holds(any_duration(&p));
    for (int bits = 1; bits < 47; bits++) {
        expect_bucket_holds((UINT64_C(1) << bits) - 1);
        expect_bucket_holds(UINT64_C(1) << bits);
        expect_bucket_holds((UINT64_C(1) << bits) + 1);
    }
    expect_bucket_holds(NS_MAX_DURATION);
}

static void buckets_are_in_order_without_a_gap(void **state)
{
    (void)state;
    for (uint32_t bucket = 0; bucket < HIST_BUCKETS; bucket++) {
        uint64_t upper_ns = hist_bucket_upper_ns(bucket);
        assert_int_equal(hist_bucket(upper_ns), bucket);
        if (bucket + 1 < HIST_BUCKETS)
            assert_int_equal(hist_bucket(upper_ns + 1), bucket + 1);
    }
    assert_int_equal(hist_bucket(UINT64_MAX), HIST_BUCKETS - 1);
}

/* The sorted array knows the answer; the histogram may be above it by a bucket's width. */
static void expect_quantile(const struct hist *h, const uint64_t *sorted, size_t count,
                            uint64_t thousandths)
{
    size_t rank = (thousandths * count + 999) / 1000;
    uint64_t exact_ns = sorted[rank > 0 ? rank - 1 : 0];
    uint64_t found_ns = hist_quantile_ns(h, (double)thousandths / 1000);
    assert_true(found_ns >= exact_ns);
    assert_true((double)(found_ns - exact_ns) <= 0.001 * (double)exact_ns);
}

static void quantiles_match_a_sorted_array(void **state)
{
    (void)state;
    static const size_t counts[] = {1, 2, 3, 7, 10, 99, 100, 101, 999, 1000, 1001, VALUES};
    uint64_t *values = calloc(VALUES, sizeof(values[0]));
    assert_non_null(values);
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        struct hist *h = new_hist();
        struct prng p = prng_stream(2, i, PRNG_TEST, 0);
        uint64_t sum_ns = 0;
        for (size_t j = 0; j < counts[i]; j++) {
            values[j] = any_duration(&p);
            sum_ns += values[j];
            hist_record(h, values[j]);
        }
        qsort(values, counts[i], sizeof(values[0]), compare);
        for (uint64_t thousandths = 0; thousandths <= 1000; thousandths++)
            expect_quantile(h, values, counts[i], thousandths);
        assert_int_equal(h->count, counts[i]);
        assert_int_equal(h->min_ns, values[0]);
        assert_int_equal(h->max_ns, values[counts[i] - 1]);
        assert_int_equal(h->sum_ns, sum_ns);
        assert_int_equal(hist_mean_ns(h), sum_ns / counts[i]);
        assert_int_equal(hist_quantile_ns(h, 1), h->max_ns);
        free(h);
    }
    free(values);
}

/* Ranks are exact: with values below 2^11 ns there is no bucket error to hide behind. */
static void ranks_are_exact(void **state)
{
    (void)state;
    struct hist *h = new_hist();
    for (uint64_t value_ns = 1; value_ns <= 1000; value_ns++)
        hist_record(h, value_ns);
    for (uint64_t thousandths = 1; thousandths <= 1000; thousandths++)
        assert_int_equal(hist_quantile_ns(h, (double)thousandths / 1000), thousandths);
    assert_int_equal(hist_quantile_ns(h, 0), 1);
    assert_int_equal(hist_quantile_ns(h, 0.9901), 991);
    free(h);
}

static void merging_equals_recording_all_in_one(void **state)
{
    (void)state;
    struct hist *all = new_hist();
    struct hist *merged = new_hist();
    for (uint64_t part = 0; part < 4; part++) {
        struct hist *h = new_hist();
        struct prng p = prng_stream(3, part, PRNG_TEST, 0);
        for (uint64_t i = 0; i < part * 10000; i++) { /* the first stays empty */
            uint64_t value_ns = any_duration(&p);
            hist_record(h, value_ns);
            hist_record(all, value_ns);
        }
        hist_merge(merged, h);
        free(h);
    }
    assert_memory_equal(merged, all, sizeof(*all));
    free(all);
    free(merged);
}

static void ten_samples_must_lie_beyond(void **state)
{
    (void)state;
    static const struct {
        uint64_t count;
        double quantile;
        bool is_known;
    } cases[] = {
        {10, 0, false},     {11, 0, true},        {19, 0.5, false},     {20, 0.5, true},
        {99, 0.9, false},   {100, 0.9, true},     {999, 0.99, false},   {1000, 0.99, true},
        {1001, 0.99, true}, {9999, 0.999, false}, {10000, 0.999, true}, {100000, 1, false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hist *h = new_hist();
        for (uint64_t j = 0; j < cases[i].count; j++)
            hist_record(h, j);
        if (hist_quantile_is_known(h, cases[i].quantile) != cases[i].is_known)
            fail_msg("%g of %ju", cases[i].quantile, (uintmax_t)cases[i].count);
        free(h);
    }
}

static void beyond_the_last_bucket_only_the_maximum_is_exact(void **state)
{
    (void)state;
    struct hist *h = new_hist();
    hist_record(h, 5);
    hist_record(h, UINT64_MAX - 1);
    assert_int_equal(h->max_ns, UINT64_MAX - 1);
    assert_int_equal(hist_quantile_ns(h, 0.5), 5);
    assert_int_equal(hist_quantile_ns(h, 1), UINT64_MAX - 1);
    assert_int_equal(h->counts[HIST_BUCKETS - 1], 1);
    assert_int_equal(h->sum_ns, UINT64_MAX); /* stopped, not wrapped */

    struct hist *other = new_hist();
    hist_record(other, 7);
    hist_merge(other, h);
    assert_int_equal(other->sum_ns, UINT64_MAX);
    assert_int_equal(other->min_ns, 5);
    free(other);
    free(h);
}

static void copies_are_the_same_whatever_was_there(void **state)
{
    struct prng p = prng_stream(3, 0, PRNG_TEST, 0);
    struct hist *from = new_hist();
    struct hist *to = new_hist();
    (void)state;
    for (unsigned round = 0; round < 20; round++) {
        hist_copy(to, from); /* the first is empty */
        assert_memory_equal(to, from, sizeof(*to));
        if (round % 5 == 4)
            hist_init(from); /* less than before */
        for (unsigned i = 0; i < 100; i++)
            hist_record(from, any_duration(&p));
    }
    free(from);
    free(to);
}

static void what_came_since_is_left_when_the_rest_is_taken_out(void **state)
{
    struct prng p = prng_stream(4, 0, PRNG_TEST, 0);
    struct hist *all = new_hist();
    struct hist *before = new_hist();
    struct hist *since = new_hist();
    (void)state;
    for (unsigned round = 0; round < 20; round++) {
        hist_copy(before, all);
        hist_init(since);
        for (unsigned i = 0; i < round * 100; i++) { /* nothing at first */
            uint64_t value_ns = any_duration(&p) >> round;
            hist_record(all, value_ns);
            hist_record(since, value_ns);
        }
        struct hist *left = new_hist();
        hist_copy(left, all);
        hist_subtract(left, before);
        assert_int_equal(left->count, since->count);
        assert_int_equal(left->sum_ns, since->sum_ns);
        assert_memory_equal(left->counts, since->counts, sizeof(left->counts));
        assert_int_equal(hist_bucket(left->min_ns), hist_bucket(since->min_ns));
        assert_int_equal(hist_bucket(left->max_ns), hist_bucket(since->max_ns));
        assert_int_equal(hist_bucket(hist_quantile_ns(left, 0.99)),
                         hist_bucket(hist_quantile_ns(since, 0.99)));
        free(left);
    }
    free(all);
    free(before);
    free(since);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty_is_all_zero),
        cmocka_unit_test(buckets_are_narrow_up_to_a_day),
        cmocka_unit_test(buckets_are_in_order_without_a_gap),
        cmocka_unit_test(quantiles_match_a_sorted_array),
        cmocka_unit_test(ranks_are_exact),
        cmocka_unit_test(merging_equals_recording_all_in_one),
        cmocka_unit_test(ten_samples_must_lie_beyond),
        cmocka_unit_test(copies_are_the_same_whatever_was_there),
        cmocka_unit_test(what_came_since_is_left_when_the_rest_is_taken_out),
        cmocka_unit_test(beyond_the_last_bucket_only_the_maximum_is_exact),
    };
    return cmocka_run_group_tests_name("hist", tests, NULL, NULL);
}
