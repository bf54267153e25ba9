/*
 * shift: by how much one sample lies above another, with a 95 % interval.
 *
 * The estimate is that of J. L. Hodges, E. L. Lehmann (Annals of Mathematical Statistics 34, 1963):
 * of independent samples the median of all differences b[j] - a[i], of pairs the median of all
 * means of two differences, each with itself too. Given logarithms, it is the logarithm of a ratio.
 *
 * The interval is the expanded percentile interval (T. C. Hesterberg, American Statistician 69,
 * 2015: percentiles alone are too narrow for small samples) of a circular block bootstrap (D. N.
 * Politis, J. P. Romano: A Circular Block-Resampling Procedure for Stationary Data, 1992): runs
 * that follow each other share what the machine was doing, so that blocks of neighbours are drawn,
 * of the cube root of the sample's size (P. Hall, J. L. Horowitz, B.-Y. Jing, Biometrika 82, 1995).
 * Values must stand in the order in which they were measured.
 *
 * The interval needs at least SHIFT_INTERVAL_MIN values a side; with fewer, low and high are NaN.
 * Ownership: the caller's. Threading: none. Units: those of the values. Errors: 0; -EINVAL for an
 * empty sample or a value that is no finite number; -E2BIG for more than SHIFT_VALUES_MAX a side;
 * -ENOMEM. The same seed gives the same interval.
 */
#ifndef BENCH_BASE_SHIFT_H
#define BENCH_BASE_SHIFT_H

#include <stddef.h>
#include <stdint.h>

enum { SHIFT_DRAWS = 10000, SHIFT_INTERVAL_MIN = 6, SHIFT_VALUES_MAX = 500 };

struct shift {
    double estimate;
    double low;
    double high;
};

int shift_of_samples(const double *a, size_t a_count, const double *b, size_t b_count,
                     uint64_t seed, struct shift *shift);
int shift_of_pairs(const double *differences, size_t count, uint64_t seed, struct shift *shift);

#endif
