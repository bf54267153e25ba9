/*
 * All differences (or means) are made and sorted once. A draw gives each value of a sample a
 * weight, the number of times it was drawn; a term then counts as often as its two values could
 * have met, and the draw's estimate is the weighted median: one walk, no sorting.
 */
#include "engine/base/shift.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/prng.h"

struct term {
    double value;
    uint16_t a; /* the values that made it, by their place in the sample */
    uint16_t b;
};

struct terms {
    struct term *all;
    size_t count;
    size_t a_count;
    size_t b_count;   /* equal to a_count when is_paired */
    bool is_paired;   /* both values come from one sample of differences */
    uint32_t *weight; /* of a, then of b: the same when is_paired */
};

static int compare_terms(const void *a, const void *b)
{
    double x = ((const struct term *)a)->value;
    double y = ((const struct term *)b)->value;
    return (x > y) - (x < y);
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static uint64_t weight_of(const struct terms *terms, const struct term *term)
{
    uint64_t a = terms->weight[term->a];
    uint64_t b =
        terms->is_paired ? terms->weight[term->b] : terms->weight[terms->a_count + term->b];
    /* A value that was drawn w times meets itself in w (w + 1) / 2 pairs. */
    return terms->is_paired && term->a == term->b ? a * (a + 1) / 2 : a * b;
}

/* The mean of the two in the middle when their number is even. */
static double weighted_median(const struct terms *terms)
{
    uint64_t n = terms->a_count;
    uint64_t total = terms->is_paired ? n * (n + 1) / 2 : n * terms->b_count;
    uint64_t passed = 0;
    size_t i = 0;
    while (passed + weight_of(terms, &terms->all[i]) < (total + 1) / 2)
        passed += weight_of(terms, &terms->all[i++]);
    double low = terms->all[i].value;
    while (passed + weight_of(terms, &terms->all[i]) < total / 2 + 1)
        passed += weight_of(terms, &terms->all[i++]);
    return low / 2 + terms->all[i].value / 2;
}

/* Small, so that there remain blocks to draw from. */
static size_t block_of(size_t count)
{
    return (size_t)(cbrt((double)count) + 1e-9);
}

/* Draws blocks of neighbours, the last one following the first, until there are `count`. */
static void draw_weights(struct prng *prng, uint32_t *weight, size_t count)
{
    size_t block = block_of(count);
    memset(weight, 0, count * sizeof(*weight));
    for (size_t drawn = 0; drawn < count;) {
        size_t at = prng_below(prng, count);
        for (size_t i = 0; i < block && drawn < count; i++, drawn++)
            weight[(at + i) % count]++;
    }
}

/* The share of draws beyond each end, of n blocks: the normal tail beyond sqrt(n / (n - 1)) t, with
 * t the 97.5 % quantile of Student's distribution of n - 1 degrees, by its Cornish-Fisher
 * expansion. */
static double tail_share(size_t blocks)
{
    const double z = 1.959963984540054;
    double v = (double)blocks - 1;
    double t = z + (pow(z, 3) + z) / (4 * v) +
               (5 * pow(z, 5) + 16 * pow(z, 3) + 3 * z) / (96 * v * v) +
               (3 * pow(z, 7) + 19 * pow(z, 5) + 17 * pow(z, 3) - 15 * z) / (384 * v * v * v);
    return erfc(t * sqrt((v + 1) / v) / sqrt(2)) / 2;
}

static int draw_interval(struct terms *terms, uint64_t seed, struct shift *shift)
{
    struct prng prng = prng_stream(seed, 0, PRNG_BOOTSTRAP, 0);
    double *drawn = malloc(SHIFT_DRAWS * sizeof(*drawn));
    if (drawn == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < SHIFT_DRAWS; i++) {
        draw_weights(&prng, terms->weight, terms->a_count);
        if (!terms->is_paired)
            draw_weights(&prng, terms->weight + terms->a_count, terms->b_count);
        drawn[i] = weighted_median(terms);
    }
    qsort(drawn, SHIFT_DRAWS, sizeof(*drawn), compare_doubles);
    size_t fewer = terms->a_count < terms->b_count ? terms->a_count : terms->b_count;
    size_t beyond = (size_t)(SHIFT_DRAWS * tail_share(fewer / block_of(fewer)));
    shift->low = drawn[beyond];
    shift->high = drawn[SHIFT_DRAWS - 1 - beyond];
    free(drawn);
    return 0;
}

static int estimate(struct terms *terms, uint64_t seed, struct shift *shift)
{
    for (size_t i = 0; i < terms->count; i++)
        if (!isfinite(terms->all[i].value))
            return -EINVAL;
    qsort(terms->all, terms->count, sizeof(*terms->all), compare_terms);
    terms->weight = malloc((terms->a_count + terms->b_count) * sizeof(*terms->weight));
    if (terms->weight == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < terms->a_count + terms->b_count; i++)
        terms->weight[i] = 1;
    *shift = (struct shift){weighted_median(terms), NAN, NAN};
    int error = 0;
    if (terms->a_count >= SHIFT_INTERVAL_MIN && terms->b_count >= SHIFT_INTERVAL_MIN)
        error = draw_interval(terms, seed, shift);
    free(terms->weight);
    return error;
}

static int terms_init(struct terms *terms, size_t a_count, size_t b_count, bool is_paired)
{
    if (a_count == 0 || b_count == 0)
        return -EINVAL;
    if (a_count > SHIFT_VALUES_MAX || b_count > SHIFT_VALUES_MAX)
        return -E2BIG;
    *terms = (struct terms){.a_count = a_count, .b_count = b_count, .is_paired = is_paired};
    terms->all = malloc(a_count * b_count * sizeof(*terms->all));
    return terms->all == NULL ? -ENOMEM : 0;
}

int shift_of_samples(const double *a, size_t a_count, const double *b, size_t b_count,
                     uint64_t seed, struct shift *shift)
{
    struct terms terms;
    int error = terms_init(&terms, a_count, b_count, false);
    if (error != 0)
        return error;
    for (size_t i = 0; i < a_count; i++)
        for (size_t j = 0; j < b_count; j++)
            terms.all[terms.count++] = (struct term){b[j] - a[i], (uint16_t)i, (uint16_t)j};
    error = estimate(&terms, seed, shift);
    free(terms.all);
    return error;
}

int shift_of_pairs(const double *differences, size_t count, uint64_t seed, struct shift *shift)
{
    struct terms terms;
    int error = terms_init(&terms, count, count, true);
    if (error != 0)
        return error;
    for (size_t i = 0; i < count; i++)
        for (size_t j = i; j < count; j++)
            terms.all[terms.count++] =
                (struct term){differences[i] / 2 + differences[j] / 2, (uint16_t)i, (uint16_t)j};
    error = estimate(&terms, seed, shift);
    free(terms.all);
    return error;
}
