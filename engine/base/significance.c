/*
 * Ranks are doubled, so that the mean of two neighbours is whole. `ways[k][s]` counts how many ways
 * there are to choose k of the ranks with sum s; as a double, which is exact to 2^53 and has the
 * range for the rest.
 */
#include "engine/base/significance.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

struct ranked {
    double value;
    uint64_t rank_doubled;
    bool is_counted; /* belongs to the sample, or to the sign, whose ranks are summed */
};

static int compare_ranked(const void *a, const void *b)
{
    double x = ((const struct ranked *)a)->value;
    double y = ((const struct ranked *)b)->value;
    return (x > y) - (x < y);
}

/* Sorts and ranks from 1; equal values share the mean of theirs. Returns the sum of t^3 - t over
 * the groups of t equal values, which the variance loses. */
static double rank_values(struct ranked *values, size_t count)
{
    double ties = 0;
    qsort(values, count, sizeof(*values), compare_ranked);
    for (size_t first = 0, end; first < count; first = end) {
        for (end = first + 1; end < count && values[end].value == values[first].value; end++)
            ;
        for (size_t i = first; i < end; i++)
            values[i].rank_doubled = first + 1 + end;
        double equal = (double)(end - first);
        ties += equal * equal * equal - equal;
    }
    return ties;
}

static uint64_t counted_sum(const struct ranked *values, size_t count)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++)
        if (values[i].is_counted)
            sum += values[i].rank_doubled;
    return sum;
}

static double normal_p(double statistic, double mean, double variance, double step)
{
    double distance = fmax(0, fabs(statistic - mean) - step / 2);
    return variance > 0 ? fmin(1, erfc(distance / sqrt(2 * variance))) : 1;
}

/* Twice the smaller of the tails of ways[0..limit] that begin at `sum`. */
static double exact_p(const double *ways, uint64_t limit, uint64_t sum)
{
    double below = 0;
    double above = 0;
    double all = 0;
    for (uint64_t s = 0; s <= limit; s++) {
        all += ways[s];
        below += s <= sum ? ways[s] : 0;
        above += s >= sum ? ways[s] : 0;
    }
    return fmin(1, 2 * fmin(below, above) / all);
}

/* `limit` is the sum of all doubled ranks. */
static int exact_rank_sum(const struct ranked *values, size_t count, size_t chosen, uint64_t limit,
                          double *p)
{
    size_t row = limit + 1;
    double *ways = calloc((chosen + 1) * row, sizeof(*ways));
    if (ways == NULL)
        return -ENOMEM;
    ways[0] = 1;
    for (size_t i = 0; i < count; i++)
        for (size_t k = i + 1 < chosen ? i + 1 : chosen; k > 0; k--)
            for (uint64_t s = limit; s >= values[i].rank_doubled; s--)
                ways[k * row + s] += ways[(k - 1) * row + s - values[i].rank_doubled];
    *p = exact_p(ways + chosen * row, limit, counted_sum(values, count));
    free(ways);
    return 0;
}

static int exact_signed_rank(const struct ranked *values, size_t count, uint64_t limit, double *p)
{
    double *ways = calloc(limit + 1, sizeof(*ways));
    if (ways == NULL)
        return -ENOMEM;
    ways[0] = 1;
    for (size_t i = 0; i < count; i++)
        for (uint64_t s = limit; s >= values[i].rank_doubled; s--)
            ways[s] += ways[s - values[i].rank_doubled];
    *p = exact_p(ways, limit, counted_sum(values, count));
    free(ways);
    return 0;
}

int significance_mann_whitney(const double *a, size_t a_count, const double *b, size_t b_count,
                              double *p)
{
    size_t count = a_count + b_count;
    if (a_count == 0 || b_count == 0)
        return -EINVAL;
    struct ranked *values = calloc(count, sizeof(*values));
    if (values == NULL)
        return -ENOMEM;
    int error = 0;
    for (size_t i = 0; i < count; i++) {
        values[i].value = i < a_count ? a[i] : b[i - a_count];
        values[i].is_counted = (i < a_count) == (a_count <= b_count); /* the smaller sample */
        if (!isfinite(values[i].value))
            error = -EINVAL;
    }
    if (error == 0) {
        double ties = rank_values(values, count);
        size_t chosen = a_count <= b_count ? a_count : b_count;
        double n = (double)count;
        if (count <= SIGNIFICANCE_EXACT_MAX)
            error = exact_rank_sum(values, count, chosen, count * (count + 1), p);
        else
            *p = normal_p((double)counted_sum(values, count) / 2, (double)chosen * (n + 1) / 2,
                          (double)a_count * (double)b_count / 12 * (n + 1 - ties / (n * (n - 1))),
                          1);
    }
    free(values);
    return error;
}

int significance_signed_rank(const double *differences, size_t count, double *p)
{
    if (count == 0)
        return -EINVAL;
    struct ranked *values = calloc(count, sizeof(*values));
    if (values == NULL)
        return -ENOMEM;
    int error = 0;
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (!isfinite(differences[i]))
            error = -EINVAL;
        if (differences[i] == 0)
            continue;
        values[kept].value = fabs(differences[i]);
        values[kept++].is_counted = differences[i] > 0;
    }
    if (error == 0) {
        double ties = rank_values(values, kept);
        double n = (double)kept;
        if (kept <= SIGNIFICANCE_EXACT_MAX)
            error = exact_signed_rank(values, kept, kept * (kept + 1), p);
        else
            *p = normal_p((double)counted_sum(values, kept) / 2, n * (n + 1) / 4,
                          n * (n + 1) * (2 * n + 1) / 24 - ties / 48, 1);
    }
    free(values);
    return error;
}

struct placed {
    double p;
    size_t place;
};

static int compare_placed(const void *a, const void *b)
{
    double x = ((const struct placed *)a)->p;
    double y = ((const struct placed *)b)->p;
    return (x > y) - (x < y);
}

int significance_holm(double *p, size_t count)
{
    struct placed *sorted = calloc(count > 0 ? count : 1, sizeof(*sorted));
    if (sorted == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++)
        sorted[i] = (struct placed){p[i], i};
    qsort(sorted, count, sizeof(*sorted), compare_placed);
    double largest = 0;
    for (size_t i = 0; i < count; i++) {
        largest = fmax(largest, fmin(1, (double)(count - i) * sorted[i].p));
        p[sorted[i].place] = largest;
    }
    free(sorted);
    return 0;
}
