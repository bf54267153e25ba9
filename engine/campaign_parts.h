/*
 * campaign_parts: what campaign.c, its life, and campaign_finish.c, what came of it, share.
 */
#ifndef BENCH_CAMPAIGN_PARTS_H
#define BENCH_CAMPAIGN_PARTS_H

#include <pthread.h>
#include <stdatomic.h>

#include "engine/base/resource.h"
#include "engine/campaign.h"
#include "engine/load.h"
#include "engine/recovery.h"
#include "engine/worker.h"

struct thread {
    pthread_t id;
    struct campaign *campaign;
    struct worker *worker;
    int error;
    struct errmsg why;
};

struct campaign {
    const struct campaign_config *config;
    struct loop *waiter;
    struct journal *journal;
    struct load load;
    struct load_share due; /* of an open loop: what the schedule has by now, of all workers */
    uint64_t runs_due;
    uint64_t runs_due_warmup; /* of these */
    uint64_t issuing_ns;      /* until the last of them was due */
    uint64_t stopped_ns;      /* 0: it was not */
    struct worker *workers;
    struct thread *threads;
    uint32_t worker_count;
    uint64_t looks; /* that the workers were asked for */
    uint32_t threads_started;
    bool is_started;
    bool is_joined;
    int ledger_fd;
    bool is_ledger_made; /* by us, and so taken away again when the campaign is not started */

    pthread_mutex_t mutex; /* guards the gate */
    pthread_cond_t moved;
    uint32_t opened; /* workers that have opened, or failed to */
    bool is_gate_open;
    bool is_cancelled; /* the gate opens to nothing */

    _Atomic uint32_t done;
    _Atomic uint32_t at_start;
    _Atomic uint64_t start_ns; /* 0 until all workers are at the start */
    uint64_t started_unix_ns;  /* the same by the time of day */
    uint64_t heap_bytes;
    int64_t heap_delta_bytes;
    uint64_t cpu_ns;
    struct counters counters;
    struct counts counts;        /* before the timed part, and then of it */
    struct journal_io io_before; /* the timed part */
    struct journal_io io_after;
    struct journal_settings settings;
    struct resource_ticks ticks; /* that have passed in the timed part; all 0: not known */
    uint64_t throttled_ns;       /* likewise; UINT64_MAX: not known */
    struct journal_count before; /* what was recorded of the campaign already */
    struct recovery recovery;    /* of a campaign that is resumed */
    uint64_t recovery_ns;        /* what both took */
};

/* Waits for the workers' threads. */
void campaign_join(struct campaign *c);

/* How many runs the schedule has had start by now, or until it was stopped. */
uint64_t campaign_count_due(struct campaign *c, uint64_t now_ns);

#endif
