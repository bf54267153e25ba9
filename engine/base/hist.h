/*
 * hist: a log-linear histogram of durations with three significant digits from 1 µs (and below) to
 * 24 h.
 *
 * Buckets: values below 2^11 ns are exact; above, every octave is cut into 2^10 equal parts, so a
 * bucket is at most 1/1024 of its value wide. The scheme is HdrHistogram's (Gil Tene). Minimum and
 * maximum are exact, and so is the sum, until it stops at UINT64_MAX ns (584 years). Values of 2^47
 * ns (39 h) and more all fall into the last bucket; max_ns is exact for them, too.
 *
 * Ownership: the caller allocates (about 300 KB: not on a small stack) and initialises.
 * Threading: one writer; merged by hist_merge() when the writer is done. Errors: none. Units: ns.
 */
#ifndef BENCH_BASE_HIST_H
#define BENCH_BASE_HIST_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    HIST_SUB_BITS = 10,
    HIST_SUB_COUNT = 1 << HIST_SUB_BITS,
    HIST_OCTAVES = 37, /* 24 h is 8.64e13 ns, below 2^47 */
    HIST_BUCKETS = (HIST_OCTAVES + 1) * HIST_SUB_COUNT,
    HIST_SAMPLES_BEYOND_MIN = 10,
};

struct hist {
    uint64_t count;
    uint64_t min_ns; /* UINT64_MAX while empty */
    uint64_t max_ns;
    uint64_t sum_ns; /* stops at UINT64_MAX */
    uint64_t counts[HIST_BUCKETS];
};
static_assert(sizeof(struct hist) == 32 + 8 * HIST_BUCKETS, "no padding");

void hist_init(struct hist *h);

/* Adds all of `from`: the same as if `to` had recorded its values, too. */
void hist_merge(struct hist *to, const struct hist *from);

/* Makes `to` the same as `from`. It touches only what one of them holds values in. */
void hist_copy(struct hist *to, const struct hist *from);

/* Takes out of `from` what it had when `before` was a copy of it. What is left knows its least and
 * its greatest value to a bucket only. */
void hist_subtract(struct hist *from, const struct hist *before);

/* The bucket that a value falls into. */
static inline uint32_t hist_bucket(uint64_t value_ns)
{
    if (value_ns < 2 * HIST_SUB_COUNT)
        return (uint32_t)value_ns;
    uint32_t shift = 63 - (uint32_t)__builtin_clzll(value_ns) - HIST_SUB_BITS;
    uint32_t bucket = (shift << HIST_SUB_BITS) + (uint32_t)(value_ns >> shift);
    return bucket < HIST_BUCKETS ? bucket : HIST_BUCKETS - 1;
}

/* The largest value that falls into a bucket; for the last one 2^47 - 1, though larger values are
 * counted there, too: recording the bound again finds the same bucket for every bucket. */
uint64_t hist_bucket_upper_ns(uint32_t bucket);

static inline void hist_record(struct hist *h, uint64_t value_ns)
{
    h->count++;
    if (__builtin_add_overflow(h->sum_ns, value_ns, &h->sum_ns))
        h->sum_ns = UINT64_MAX;
    h->min_ns = value_ns < h->min_ns ? value_ns : h->min_ns;
    h->max_ns = value_ns > h->max_ns ? value_ns : h->max_ns;
    h->counts[hist_bucket(value_ns)]++;
}

/* The smallest bucket bound that at least `quantile` (0 to 1) of the values do not exceed, never
 * above the exact maximum; 0 while empty. */
uint64_t hist_quantile_ns(const struct hist *h, double quantile);

/* Whether at least ten values lie beyond the quantile, without which its figure carries nothing. */
bool hist_quantile_is_known(const struct hist *h, double quantile);

/* Rounded down; 0 while empty. */
uint64_t hist_mean_ns(const struct hist *h);

#endif
