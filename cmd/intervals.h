/*
 * intervals: what a campaign has come to from second to second, for the machine-readable formats.
 *
 * Ownership: the caller's struct, between init and free; it must not move while it is started.
 * Threading: the controlling thread. Errors: without memory for more rows the rest is left out, and
 * is_cut says so. Units: ns from the campaign's start.
 */
#ifndef BENCH_INTERVALS_H
#define BENCH_INTERVALS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cmd/live.h"
#include "engine/campaign.h"
#include "engine/loop.h"

#define INTERVAL_NOT_KNOWN UINT64_MAX

struct interval {
    uint64_t end_ns;  /* it begins where the one before has ended */
    uint64_t started; /* runs, within it, as are the next three */
    uint64_t ended;
    uint64_t errors;
    uint64_t records;   /* acked */
    uint64_t in_flight; /* runs at its end, as are the next */
    uint64_t backlog;   /* due by the schedule of an open loop, and not started */
    uint64_t p50_ns;    /* response time of what has ended in it; INTERVAL_NOT_KNOWN where that are
                           too few, or a scheduler did not answer in time */
    uint64_t p99_ns;
    bool is_warmup; /* it ended with or before the warm-up */
};

struct intervals {
    struct interval *rows;
    size_t count;
    size_t capacity;
    bool is_cut;
    bool is_warming;
    uint64_t every_ns;
    struct campaign_progress last;
    struct timer timer;
    struct loop *loop;
    struct campaign *campaign;
    struct live *live; /* NULL: nobody wants percentiles */
    struct live_client client;
    struct live_window window;
    bool is_window_long; /* the answer for a row before has not come */
};

void intervals_init(struct intervals *intervals, uint64_t every_ns);
void intervals_free(struct intervals *intervals);

/* With percentiles from `live`, which may be NULL. */
void intervals_start(struct intervals *intervals, struct loop *loop, struct campaign *campaign,
                     struct live *live);
/* What is measured begins, and an interval with it. */
void intervals_end_warmup(struct intervals *intervals);
/* Adds what is left of the last one. */
void intervals_stop(struct intervals *intervals);

#endif
