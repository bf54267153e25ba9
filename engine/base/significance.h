/*
 * significance: how likely samples so far apart are where nothing differs.
 *
 * Rank tests, because times are neither normal nor free of outliers. Both take equal values into
 * account by mid-ranks and are exact, given the ranks, for samples of up to SIGNIFICANCE_EXACT_MAX
 * values; beyond that they use the normal approximation with the corrections for ties and for
 * continuity. The distribution over all arrangements is counted by dynamic programming over sums of
 * doubled ranks, as in B. Streitberg, J. Röhmel: Exact Distributions for Permutation and Rank
 * Tests, Statistical Software Newsletter 12 (1986). P values are two-sided: twice the smaller
 * tail, 1 at most, as in R's wilcox.test().
 *
 * Ownership: the caller's. Threading: none. Errors: 0, -EINVAL for an empty sample or a value that
 * is no finite number, -ENOMEM.
 */
#ifndef BENCH_BASE_SIGNIFICANCE_H
#define BENCH_BASE_SIGNIFICANCE_H

#include <stddef.h>

enum { SIGNIFICANCE_EXACT_MAX = 100 };

/* Mann-Whitney U of two independent samples; also called Wilcoxon's rank sum. (H. B. Mann, D. R.
 * Whitney, Annals of Mathematical Statistics 18 (1947).) */
int significance_mann_whitney(const double *a, size_t a_count, const double *b, size_t b_count,
                              double *p);

/* Wilcoxon's signed-rank test of differences between pairs. Differences of 0 are left out, as
 * Wilcoxon did; when all are 0, p is 1. (F. Wilcoxon, Biometrics Bulletin 1 (1945).) */
int significance_signed_rank(const double *differences, size_t count, double *p);

/* Adjusts the p values of tests that are judged together, in place, so that the chance of even one
 * false alarm stays below the level that each is held against. (S. Holm, Scandinavian Journal of
 * Statistics 6 (1979).) -ENOMEM leaves them as they are. */
int significance_holm(double *p, size_t count);

#endif
