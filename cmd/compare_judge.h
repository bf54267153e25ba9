/*
 * compare_judge: one figure of two sides, judged.
 *
 * A sample is the figure of one run, never a latency of one call: runs are what was repeated. Of
 * measures the effect is the Hodges-Lehmann estimate of the ratio head / base, with its 95 %
 * interval by block bootstrap (engine/base/shift.h), and p is Mann-Whitney's, or with pairs
 * Wilcoxon's, to be adjusted by Holm over all that is judged together (engine/base/significance.h).
 *
 * Verdicts, with bound = the larger of threshold and noise floor:
 *   better, worse    the adjusted p is below 5 %, the interval excludes no change, and the effect
 *                    exceeds the bound
 *   equivalent       the interval lies inside the threshold
 *   inconclusive     neither
 *   too few          fewer than SHIFT_INTERVAL_MIN runs a side: no interval, no verdict
 * Of counts:
 *   same             all runs of both sides have one value
 *   better, worse    no run of one side reaches a value of the other, by more than the threshold,
 *                    and there are runs enough: two a side where each side has one value
 *   changed          the same, by less
 *   inconclusive     the sides overlap
 *
 * Ownership: the caller's. Threading: none. Errors: -ENOMEM, -E2BIG for too many runs.
 */
#ifndef BENCH_COMPARE_JUDGE_H
#define BENCH_COMPARE_JUDGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cmd/compare_rows.h"

enum verdict {
    VERDICT_NONE, /* a side does not have the figure */
    VERDICT_TOO_FEW,
    VERDICT_SAME,
    VERDICT_CHANGED,
    VERDICT_EQUIVALENT,
    VERDICT_INCONCLUSIVE,
    VERDICT_BETTER,
    VERDICT_WORSE,
};
const char *verdict_name(enum verdict verdict); /* "too few runs" */

/* The figure of each run of a side, in the order in which they ran. */
struct sample {
    const double *values;
    size_t count;
};

struct compare_rules {
    double threshold; /* 0.05 */
    double floor;     /* what the same build differs by from itself; 0: not known */
    bool is_paired;   /* run i of a side ran next to run i of the other */
    uint64_t seed;    /* of the bootstrap */
};

/* A median with its interval by order statistics, of at least 95 %; NaN with too few runs. */
struct center {
    double median;
    double low;
    double high;
};

struct judgement {
    enum verdict verdict;
    struct center base;
    struct center head;
    double change; /* head / base - 1; NaN: there is none */
    double low;    /* its interval; NaN with too few runs, and of counts */
    double high;
    double p; /* adjusted once compare_conclude() has run; NaN as above */
};

/* Judges all but what takes the adjusted p: a measure's verdict waits for compare_conclude(). */
int compare_judge(const struct compare_row *row, const struct sample *base,
                  const struct sample *head, const struct compare_rules *rules,
                  struct judgement *judgement);

/* Adjusts the p of all measures by Holm and gives them their verdicts. `rules` and `rows` have one
 * for each judgement. */
int compare_conclude(struct judgement *judgements, const struct compare_row *const *rows,
                     const struct compare_rules *rules, size_t count);

#endif
