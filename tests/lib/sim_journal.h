/*
 * sim_journal: the in-memory store with faults to order: commits that settle late and in bursts,
 * that cost the thread time, that come back to be tried again, a store that is full at some record,
 * a commit that fails as a whole.
 *
 * Everything is drawn from a seed, lanes and depth too. Without sim_journal_set_faults() it is the
 * in-memory store. Ownership and threading are the store's. Units: ns.
 */
#ifndef BENCH_TESTS_LIB_SIM_JOURNAL_H
#define BENCH_TESTS_LIB_SIM_JOURNAL_H

#include "engine/base/wheel.h"
#include "journal/backend.h"

struct sim_faults {
    uint64_t seed;
    uint64_t delay_ns_max;  /* 0: a commit settles at once, else after up to so long */
    uint64_t stall_ns;      /* one commit in eight takes so much longer: what waits is a burst */
    uint64_t freeze_at_ns;  /* by the loop's clock, from when on nothing settles */
    uint64_t freeze_ns;     /* for so long; 0: never */
    uint64_t busy_ns_max;   /* of the thread's time that a commit takes */
    uint64_t return_one_in; /* of the commits, to be tried again, sent or not; 0: none */
    uint64_t full_after;    /* records, then the store is full; 0: never */
    uint64_t error_at;      /* the commit, from 1, that fails with -EIO; 0: none */
    uint64_t dead_at;       /* the commit, from 1, at which the process is killed: some of it may be
                               recorded; 0: none */
};

/* Before the first append. */
void sim_journal_set_faults(struct journal_writer *writer, const struct sim_faults *faults);

/* Whether a commit has been refused in whole or in part. */
bool sim_journal_has_failed(const struct journal_writer *writer);

/* Whether the process has been killed at a commit: what has been settled then is never delivered,
 * which the caller is to see to. */
bool sim_journal_is_dead(const struct journal_writer *writer);

extern const struct journal_ops sim_journal_ops;

/*
 * A squatter fills a writer to the brim at one moment, so that whoever appends then
 * is told JOURNAL_AGAIN. Its records are those of runs from SIM_SQUATTER_RUN on.
 */
#define SIM_SQUATTER_RUN (UINT64_C(1) << 39)

struct sim_squatter;

struct sim_seat {
    struct journal_append append;
    struct sim_squatter *squatter;
};

struct sim_squatter {
    struct timer timer;
    struct journal_writer *writer;
    struct sim_seat *seats;
    unsigned again_count; /* how often they were told to come again */
};

/* Squats once, at `at_ns` on the writer's loop. 0 or -ENOMEM. */
int sim_squatter_start(struct sim_squatter *squatter, struct journal_writer *writer,
                       uint64_t at_ns);
/* The writer must be closed, or not busy. */
void sim_squatter_free(struct sim_squatter *squatter);

#endif
