/*
 * campaign: one invocation's set of runs: opens the journal and a scheduler a thread, drives the
 * runs, counts, merges.
 *
 * Life: campaign_open() → campaign_start() → (progress, stop, abandon)* until campaign_is_done() →
 * campaign_finish() → campaign_close(). Threading: one controlling thread calls everything; the
 * workers are the campaign's own, and never outlive campaign_finish() or campaign_close().
 * Ownership: config and what it points to belong to the caller and outlive the campaign. Units: ns,
 * bytes.
 */
#ifndef BENCH_CAMPAIGN_H
#define BENCH_CAMPAIGN_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/agent.h"
#include "engine/base/dist.h"
#include "engine/base/err.h"
#include "engine/base/hist.h"
#include "journal/journal.h"

struct campaign;
struct loop;

enum {
    CAMPAIGN_CONCURRENCY_MAX = 10000000,
    CAMPAIGN_THREADS_MAX = 256,
    CAMPAIGN_TURNS_MAX = 1000,
    CAMPAIGN_TOOLS_MAX = 64,
};

struct campaign_config {
    uint64_t runs; /* 0: as many as start within duration_ns */
    uint64_t duration_ns;
    uint32_t concurrency; /* 1 to CAMPAIGN_CONCURRENCY_MAX */
    uint32_t threads;     /* 1 to CAMPAIGN_THREADS_MAX; never more than concurrency are used */
    uint64_t seed;
    uint64_t timeout_ns; /* of a run from its start; 0: none */
    struct dist latency;
    struct dist tool_latency;
    uint32_t turns;
    uint32_t tools; /* a turn */
    enum tool_effect tool_effect;
    const char *ledger_path; /* with TOOL_EFFECT_LEDGER */
    const char *loop_name;   /* "auto", "io_uring", "epoll" */
    const char *journal_uri;
    enum durability durability;
    uint64_t memory_bytes_max; /* what journal and payloads may take together */
};

/* What a configuration needs, estimated from sizes and shape, before anything is allocated. */
uint64_t campaign_memory_estimate_bytes(const struct campaign_config *config);

struct campaign_progress {
    uint64_t elapsed_ns;
    uint64_t runs_started;
    uint64_t runs_ended; /* of whatever outcome */
    uint64_t errors;
    uint64_t records; /* acked */
};

struct campaign_result {
    uint64_t elapsed_ns; /* first start to last end */
    uint64_t runs_started;
    uint64_t runs_by_outcome[OUTCOME_COUNT];
    uint64_t runs_abandoned; /* still in flight when the drain was over */
    uint64_t records;        /* read back from the store after the timed part */
    uint64_t records_acked;
    uint64_t records_bytes; /* payloads, as read back */
    uint64_t commits;
    uint64_t peak_tasks; /* runs in flight, all threads */
    uint64_t model_ns;   /* sums over completed runs */
    uint64_t journal_ns;
    uint64_t tool_ns;
    uint64_t queue_ns; /* the rest of the response time */
    uint64_t model_calls;
    uint64_t tool_calls;
    int64_t heap_delta_bytes;
    uint64_t total_alloc_bytes;
    bool is_total_alloc_known;
    uint64_t peak_rss_bytes;
    uint64_t cpu_ns;           /* of the timed part */
    uint32_t threads;          /* that were used */
    const char *loop_name;     /* that ran */
    const char *loop_fallback; /* why not the preferred one, or NULL */
    const char *journal_name;
    enum durability durability;
    struct hist *response; /* completed runs: intended start to end */
    struct hist *service;  /* completed runs: actual start to end */
    struct hist *failed;   /* response time of the others */
    struct hist *append;   /* append to ack */
    struct hist *lag; /* a sample a turn of a scheduler: its length, or how late its most overdue
        timer was, if that is more */
    struct hist *overshoot; /* stub model: delivered later than the sampled latency asked for */
    bool has_store_failed;  /* the store refused sound records, and so no more runs were started */
    bool is_journal_full;   /* that was because it is at its bound */
    struct errmsg first_error;     /* of a run or the journal; empty when there was none */
    struct errmsg scheduler_error; /* why a thread gave up its runs; empty when none did */
};

/* Everything that can fail does so here. The loop given is woken whenever the campaign becomes
 * done. */
int campaign_open(struct campaign **campaign, const struct campaign_config *config,
                  struct loop *waiter, struct errmsg *why);
void campaign_start(struct campaign *campaign);
struct campaign_progress campaign_progress(const struct campaign *campaign);
void campaign_stop(struct campaign *campaign);          /* start no new runs */
void campaign_abandon(struct campaign *campaign);       /* let go of those in flight */
bool campaign_is_done(const struct campaign *campaign); /* all workers have come to their end */
/* Joins the workers, reads the journal back, and merges. The histograms stay the campaign's. -EIO
 * with the reason when the journal did not hold what it had acked. */
int campaign_finish(struct campaign *campaign, struct campaign_result *result, struct errmsg *why);
void campaign_close(struct campaign *campaign);

#endif
