/*
 * load: which run starts next, and when it should, for as long as there are runs, time is left and
 * nobody said stop.
 *
 * In a closed loop a run starts when a slot comes free: load_claim(). In an open loop it is to
 * start at its time in a schedule, which is shared out between the schedulers: run n is the one's
 * whose index is n modulo their number, so that the schedule does not depend on what happens.
 *
 * With a warm-up, runs that are to start before its end are not measured. They have no bound but
 * that end; the bounds are those of the runs that are measured.
 *
 * Threading: one load for all schedulers; load_claim() is lock-free from any thread; a share is its
 * scheduler's. Units: ns.
 */
#ifndef BENCH_LOAD_H
#define BENCH_LOAD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/arrival.h"

struct load {
    _Alignas(64) _Atomic uint64_t next_run; /* on a cache line of its own: every claim writes it */
    _Alignas(64) _Atomic uint64_t in_flight;
    _Atomic uint64_t in_flight_peak;
    _Alignas(64) _Atomic bool is_stopped;
    _Atomic uint64_t runs;     /* in an open loop, up to this number; UINT64_MAX: no bound */
    _Atomic uint64_t until_ns; /* no run starts at or after, or is to; UINT64_MAX: no bound */
    bool has_warmup;
    _Atomic uint64_t measured_from_ns; /* the end of the warm-up; UINT64_MAX: not known yet */
    _Atomic uint64_t measured;         /* runs handed out to be measured, after a warm-up */
    _Atomic uint64_t cpu_before_ns;    /* of the process, when the first scheduler had warmed up */
    const struct arrival_plan *plan;   /* the caller's, set before any run starts; NULL: a closed
                                          loop */
};

void load_init(struct load *load, uint64_t runs, uint64_t until_ns);

/* One that is not to be measured, and one that is, after a warm-up. */
bool load_claim_warmup(struct load *load, uint64_t now_ns, uint64_t *run);
bool load_claim_measured(struct load *load, uint64_t *run);

/* The number of the next run, or false when no more are to start. */
static inline bool load_claim(struct load *load, uint64_t now_ns, uint64_t *run)
{
    uint64_t runs = atomic_load_explicit(&load->runs, memory_order_relaxed);
    if (atomic_load_explicit(&load->is_stopped, memory_order_relaxed) ||
        now_ns >= atomic_load_explicit(&load->until_ns, memory_order_relaxed))
        return false;
    if (load->has_warmup)
        return load_claim_measured(load, run);
    /* Looked at first, so that idle slots do not push the counter past the end for ever. */
    if (atomic_load_explicit(&load->next_run, memory_order_relaxed) >= runs)
        return false;
    *run = atomic_fetch_add_explicit(&load->next_run, 1, memory_order_relaxed);
    return *run < runs;
}

/* One scheduler's part of the schedule, or that of all where `count` is 1. */
struct load_share {
    const struct load *load;
    struct arrivals arrivals;
    uint64_t start_ns;
    uint64_t number; /* the next run */
    uint64_t due_ns; /* when it is to start; UINT64_MAX: none is left */
};

void load_share_init(struct load_share *share, const struct load *load, uint32_t index,
                     uint32_t count, uint64_t start_ns);

/* Arrivals of the plan before a time from its start. */
uint64_t load_count_before(const struct load *load, uint64_t at_ns);

/* Goes on to the one after next, which there must be. */
void load_share_pass(struct load_share *share);

/* A slot has begun to hold runs, or holds none any more: what peak tasks are counted from. A slot
 * that goes from one run to the next is in neither. */
void load_slot_filled(struct load *load);
void load_slot_emptied(struct load *load);

void load_stop(struct load *load);

static inline bool load_is_stopped(const struct load *load)
{
    return atomic_load_explicit(&load->is_stopped, memory_order_relaxed);
}

/* How many runs have been handed out. */
uint64_t load_claimed(const struct load *load);

#endif
