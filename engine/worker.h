/*
 * worker: one scheduler's share of a campaign: a thread with its loop, its journal writer, its
 * model, and as many slots as it may have runs in flight. A run stays with the worker that started
 * it.
 *
 * Life: the campaign fills in what stands before `sched`, and `shape`; worker_open() → worker_run()
 * → read back → worker_close(). Threading: opened, run and read back on the worker's thread, closed
 * by whoever has joined it; the atomics are for the controlling thread to read and write.
 * Ownership: the campaign's. Units: ns.
 */
#ifndef BENCH_WORKER_H
#define BENCH_WORKER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/campaign.h"
#include "engine/load.h"
#include "engine/recovery.h"
#include "engine/run.h"
#include "engine/snapshot.h"

struct slot_deadline;

/* For the controlling thread to look at while the worker writes. */
struct worker_progress {
    _Atomic uint64_t runs_started;
    _Atomic uint64_t runs_ended;
    _Atomic uint64_t errors;
    _Atomic uint64_t records;
    _Atomic uint64_t warmup_started; /* of the runs */
    _Atomic uint64_t warmup_ended;
};

struct worker {
    const struct campaign_config *config;
    const struct loop_ops *loop_ops; /* NULL: by name */
    struct journal *journal;
    struct load *load;
    struct recovery *recovery; /* the runs to be resumed; NULL: new ones are started */
    struct loop *waiter;       /* woken when a snapshot has been taken; NULL: nobody looks */
    unsigned index;
    unsigned count; /* of workers */
    uint32_t slots;
    uint64_t warm_bytes; /* how much memory to come besides is brought in before the gate opens */
    uint64_t pool_bytes_max;

    struct sched sched;
    struct model model;
    struct run_env env;
    struct run_shape shape;
    struct run *runs;                /* one a slot */
    struct slot_deadline *deadlines; /* one a slot with -timeout, else NULL */
    uint32_t slots_filled;           /* of `slots`, so far */
    uint32_t slots_busy;
    struct task filler;      /* fills the slots at the start, a turn's worth at a time */
    struct load_share share; /* of an open loop, as are the next three */
    struct timer arrival;
    struct task *slots_free; /* of those filled so far */
    uint64_t runs_queued;    /* that found no free slot when they were due */
    struct timer patience;   /* once abandoning, with the journal's answers */
    uint64_t start_ns;
    bool is_abandoning;
    bool is_impatient;
    bool is_warming;           /* what happens now is not measured */
    uint64_t measured_from_ns; /* runs that are to start before are not measured */

    uint64_t ended_ns;      /* when the last run ended that is measured */
    uint64_t begun_ns;      /* when the last arrival was started; 0: none was */
    uint64_t begun_idle_ns; /* how long the loop had been idle by then */
    uint64_t driven_from_ns;
    uint64_t driven_ns; /* how long it drove runs, after the warm-up */
    uint64_t idle_ns;   /* of that, with nothing to do */
    struct recovery_block block;
    uint64_t runs_resumed;
    uint64_t records_replayed; /* of these */
    uint64_t resuming_ns;      /* spent on reading them and taking them over their records */
    uint64_t runs_by_outcome[OUTCOME_COUNT];
    uint64_t runs_abandoned;
    struct campaign_warmup warmup; /* without what the campaign knows; response as below */
    struct run_time time;          /* sums over completed runs */
    uint64_t queue_ns;
    uint64_t slot_ns; /* see campaign_result */
    uint64_t slot_journal_ns;
    struct hist *hists; /* the block that holds those below */
    struct hist *response;
    struct hist *service;
    struct hist *failed;
    struct hist *retried;
    struct hist *token_lag;
    struct hist *append;
    struct hist *lag;
    struct hist *overshoot;
    struct hist *dispatch;

    struct snapshot snapshot;
    struct worker_progress progress;
    _Atomic bool must_abandon;     /* set by the controlling thread, which then wakes the loop */
    uint64_t allocated_bytes;      /* by this thread, since the gate opened */
    uint64_t checksum;             /* see campaign_result */
    struct errmsg error;           /* why the scheduler gave up; empty when it did not */
    struct journal_count readback; /* of the journal's parts that fell to this worker */
};

/* Opens loop, journal writer, model and slots, on the calling thread. Never leaves half: on failure
 * everything is closed. */
int worker_open(struct worker *worker, struct errmsg *why);
void worker_close(struct worker *worker);

/* Fills the slots, as of start_ns, and drives the runs until none is left to start and none in
 * flight. */
void worker_run(struct worker *worker, uint64_t start_ns);

/* In one block, so that the pages of all are there before the first value is recorded. False
 * without memory. worker_open() does. */
bool worker_open_hists(struct worker *worker);

/* Where what can be looked at is. */
void worker_list_hists(const struct worker *worker, const struct hist *hists[WATCH_COUNT]);

/* The histograms of the first take in those of the others, and are the result's. */
void worker_merge_hists(struct worker *workers, uint32_t count, struct campaign_result *result);

/* Counts what the journal holds of the campaign, in this worker's share of its parts. */
int worker_read_back(struct worker *worker, struct errmsg *why);

#endif
