/*
 * warmup: when what is measured begins: after -warmup, or with -steady once the rate has come to
 * rest, and after -warmup at the latest.
 *
 * The rate is looked at over a window of ten intervals, each a twentieth of the longest warm-up,
 * from 10 ms to 1 s. So a warm-up is never shorter than half of a short bound, or than 10 s.
 *
 * Ownership: the caller's struct, which must not move while it is started. Threading: the
 * controlling thread. Units: ns.
 */
#ifndef BENCH_WARMUP_H
#define BENCH_WARMUP_H

#include "cmd/options.h"
#include "cmd/steady.h"
#include "engine/campaign.h"
#include "engine/loop.h"

struct warmup {
    const struct options *options;
    struct loop *loop;
    struct campaign *campaign;
    struct timer timer;
    struct campaign_progress last;
    struct steady steady;
    uint64_t interval_ns;
    bool is_decided;     /* when the measured part begins */
    bool is_steady;      /* it has come to rest */
    bool is_slope_known; /* so far */
    double slope;
    void (*over)(struct warmup *warmup); /* called once, when what is measured begins */
};

void warmup_init(struct warmup *warmup, const struct options *options,
                 void (*over)(struct warmup *warmup));
/* Without a warm-up, `over` is called at once. */
void warmup_start(struct warmup *warmup, struct loop *loop, struct campaign *campaign);
void warmup_stop(struct warmup *warmup);

/* How long an interval is whose rate is looked at. */
uint64_t warmup_interval_ns(uint64_t longest_ns);

#endif
