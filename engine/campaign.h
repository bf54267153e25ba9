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
#include "engine/arrival.h"
#include "engine/base/clock.h"
#include "engine/base/counters.h"
#include "engine/base/dist.h"
#include "engine/base/err.h"
#include "engine/base/hist.h"
#include "engine/message.h"
#include "engine/run.h"
#include "journal/journal.h"

struct campaign;
struct loop;

enum {
    CAMPAIGN_CONCURRENCY_MAX = 10000000,
    CAMPAIGN_THREADS_MAX = 256,
    CAMPAIGN_TURNS_MAX = 1000,
    CAMPAIGN_TOOLS_MAX = 64,
    CAMPAIGN_TOKENS_MAX = 1000000,
};

/* How the model behaves, and what is done about it. */
struct campaign_model {
    uint32_t tokens; /* of each reply, which then streams; 0: replies come in one go */
    uint64_t token_interval_ns;
    double error_rate; /* the share of calls that fail */
    struct exchange_rules rules;
};

/* The histograms that can be looked at while a campaign runs. */
enum campaign_watch {
    WATCH_RESPONSE,
    WATCH_SERVICE,
    WATCH_APPEND,
    WATCH_RETRIED,
    WATCH_TOKEN,
    WATCH_DISPATCH,
    WATCH_WARMUP,
    WATCH_COUNT,
};

struct campaign_config {
    uint64_t runs; /* 0: as many as start within duration_ns, or as the schedule has */
    uint64_t duration_ns;
    uint64_t warmup_ns;          /* before what is measured; with is_steady, the longest */
    bool is_steady;              /* the warm-up lasts until campaign_measure() */
    struct arrival_plan arrival; /* of an open loop; without a rate or stages the loop is closed */
    uint32_t concurrency;        /* 1 to CAMPAIGN_CONCURRENCY_MAX */
    uint32_t threads; /* 1 to CAMPAIGN_THREADS_MAX; never more than concurrency are used */
    uint64_t seed;
    uint64_t timeout_ns; /* of a run from its start, or from when it is resumed; 0: none */
    struct dist latency;
    struct dist tool_latency;
    struct dist prompt_bytes; /* of the user's message; see campaign_dist_if_given() */
    struct dist reply_bytes;  /* of the text of each turn; likewise */
    struct campaign_model model;
    uint32_t turns;
    uint32_t tools; /* a turn */
    enum tool_effect tool_effect;
    enum history_mode history;
    const char *ledger_path; /* with TOOL_EFFECT_LEDGER */
    const char *loop_name;   /* "auto", "io_uring", "epoll" */
    const char *journal_uri;
    enum journal_mode mode; /* JOURNAL_NEW or JOURNAL_RESUME; any, for campaign_journal_config() */
    uint64_t campaign;      /* to resume; 0: the newest */
    enum run_key_kind run_key; /* of a new campaign */
    enum durability durability;
    uint32_t shards; /* as in journal_config, and the next two */
    uint32_t connections;
    uint64_t retry_for_ns;
    enum agent_retry tool_retry; /* of calls whose outcome a resumed run does not know */
    uint64_t memory_bytes_max;   /* what journal and payloads may take together */
    bool (*must_stop)(void);     /* as in journal_config */
    uint32_t watched; /* a bit 1 << WATCH_… for each histogram that campaign_look() is to show */
};

/* NULL for one that was not given, which is all zeros: then texts are the short ones that are
 * always the same. */
static inline const struct dist *campaign_dist_if_given(const struct dist *dist)
{
    return dist->spec[0] != '\0' ? dist : NULL;
}

static inline bool campaign_is_open_loop(const struct campaign_config *config)
{
    return config->arrival.rate > 0 || config->arrival.stage_count > 0;
}

/* A resumed campaign's was over, or is not begun again. */
static inline bool campaign_has_warmup(const struct campaign_config *config)
{
    return config->warmup_ns > 0 && config->mode == JOURNAL_NEW;
}

/* For how long runs are started, the warm-up included; 0: until there are enough. Stages begin with
 * the warm-up and last as long as they do. */
static inline uint64_t campaign_issuing_ns(const struct campaign_config *config)
{
    bool is_added = config->duration_ns > 0 && config->arrival.stage_count == 0;
    return config->duration_ns + (is_added && campaign_has_warmup(config) ? config->warmup_ns : 0);
}

/* What a configuration needs, estimated from sizes and shape, before anything is allocated. */
uint64_t campaign_memory_estimate_bytes(const struct campaign_config *config);

/* How the campaign's journal is to be opened, but for writers and bounds. */
struct journal_config campaign_journal_config(const struct campaign_config *config);

struct campaign_progress {
    uint64_t elapsed_ns;
    uint64_t runs_started;
    uint64_t runs_ended; /* of whatever outcome */
    uint64_t runs_due;   /* that the schedule has had start by now; a closed loop has none */
    uint64_t errors;
    uint64_t records; /* acked */
    bool is_warming;
    uint64_t measured_ns; /* of the time, what came after the warm-up */
    /* Of the runs, those that were to start before its end; they are not measured. */
    uint64_t warmup_started;
    uint64_t warmup_ended;
};

/* What had been measured when the workers last looked. */
struct campaign_view {
    struct hist *hists[WATCH_COUNT]; /* the caller's; NULL: not looked at, as what is not watched */
    uint64_t failed;                 /* runs that ended and did not complete */
};

/* Runs that were to start before the warm-up's end: they count into nothing else but what is said
 * to be of all runs. */
struct campaign_warmup {
    bool is_over;
    uint64_t elapsed_ns;
    uint64_t runs_started;
    uint64_t runs_due; /* of an open loop */
    uint64_t runs_by_outcome[OUTCOME_COUNT];
    uint64_t runs_abandoned;
    uint64_t records;      /* acked until its end, of whichever runs */
    struct hist *response; /* completed runs */
};

/* With a warm-up, of the runs that were to start after it. Of all runs are: the records and what
 * they cost the store, model and tool calls, peaks, and memory. Of all that happened after the
 * warm-up are: append, lag, overshoot, cpu_ns and busiest. */
struct campaign_result {
    struct campaign_warmup warmup;
    uint64_t elapsed_ns;      /* first start, or the warm-up's end, to last end */
    uint64_t started_unix_ns; /* the first start by the time of day */
    uint64_t runs_started;
    uint64_t runs_due;    /* that an open loop had start until it ended or was stopped */
    uint64_t runs_queued; /* of these, that found no free slot when they were due */
    uint64_t issuing_ns;  /* how long its schedule went on: until its end, or that of all */
    uint64_t runs_by_outcome[OUTCOME_COUNT];
    uint64_t runs_abandoned; /* still in flight when the drain was over */
    uint64_t records;        /* of the campaign, read back from the store after the timed part */
    uint64_t records_bytes;  /* payloads, as read back */
    uint64_t records_before; /* of them, those that were there before */
    uint64_t bytes_before;   /* their payloads */
    uint64_t records_acked;
    uint64_t records_refused;
    uint64_t records_unknown; /* the store has not answered: may be there or not */
    uint64_t batches;         /* given to the store */
    uint64_t retries;         /* of batches */
    struct journal_io io;     /* of the timed part */
    uint64_t campaign;        /* its id in the store */
    bool is_resumed;
    uint64_t runs_resumed;     /* then, and the next two */
    uint64_t records_replayed; /* that they had */
    uint64_t runs_not_begun;   /* of those that the campaign was to have; they are not resumed */
    /* What it took to find the unfinished runs and to count what is there; then to read them and to
     * take them over their records, of the worker that was at it longest. Without what it waited
     * for slots meanwhile, or its runs for anything else. */
    uint64_t recovery_ns;
    uint64_t peak_tasks; /* runs in flight, all threads */
    uint64_t model_ns;   /* sums over completed runs */
    uint64_t journal_ns;
    uint64_t tool_ns;
    uint64_t backoff_ns;
    uint64_t queue_ns;        /* the rest of the response time */
    uint64_t slot_ns;         /* over all runs that ended: from their start to their end */
    uint64_t slot_journal_ns; /* of it, waiting for the journal */
    bool is_open_loop;
    uint64_t model_calls;
    struct model_count model_count;
    uint64_t tool_calls;
    int64_t heap_delta_bytes;
    uint64_t total_alloc_bytes;
    bool is_total_alloc_known;
    struct counts counts; /* of the timed part and its warm-up, by the whole process */
    /* Of all payloads of the runs that ended: each run's last digest, which is chained over them,
     * hashed with its number; added up, so that the order in which runs end is no matter. The same
     * seed, shape and number of runs give the same, on any machine and store. */
    uint64_t checksum;
    uint64_t peak_rss_bytes;
    uint64_t begun_ns;         /* of an open loop: from the first start to the last */
    uint64_t cpu_ns;           /* of the timed part */
    double stolen;             /* share of the machine's CPU time in the timed part that its host
                                  kept for others; negative: not known, or too short to tell */
    double throttled;          /* share of its threads' time that a quota of the cgroup held them up
                                  for; negative: not known */
    double busiest;            /* the share of its time that the busiest scheduler was not idle */
    uint32_t threads;          /* that were used */
    const char *loop_name;     /* that ran */
    const char *loop_fallback; /* why not the preferred one, or NULL */
    const char *journal_name;
    const struct journal_settings *settings; /* the campaign's, as the histograms are; or NULL */
    uint32_t shards;                         /* files of the store; 0: it has none */
    uint32_t connections;                    /* likewise, to a server */
    enum durability durability;
    struct hist *response;  /* completed runs: intended start to end; see retried */
    struct hist *service;   /* completed runs: actual start to end */
    struct hist *failed;    /* response time of the others */
    struct hist *retried;   /* response time of completed runs in which a model call was made again,
                               which are not in the first two */
    struct hist *token_lag; /* of a stream: a token's delivery after its time */
    struct hist *append;    /* append to ack */
    struct hist *lag; /* a sample a turn of a scheduler: its length, or how late its most overdue
        timer was, if that is more */
    struct hist *dispatch;  /* of an open loop: how late a run was started that could have been */
    struct hist *overshoot; /* stub model: delivered later than the sampled latency asked for */
    bool has_store_failed;  /* the store refused sound records, and so no more runs were started */
    bool is_journal_full;   /* that was because it is at its bound */
    struct errmsg journal_error;   /* why the store stopped taking records; empty if it did not */
    struct errmsg first_error;     /* of a run or the journal; empty when there was none */
    struct errmsg scheduler_error; /* why a thread gave up its runs; empty when none did */
};

/* Runs that are due by the schedule of an open loop, and not started. */
static inline uint64_t campaign_backlog(const struct campaign_progress *progress)
{
    uint64_t started = progress->runs_started;
    return progress->runs_due > started ? progress->runs_due - started : 0;
}

/* Everything that can fail does so here. The loop given is woken whenever the campaign becomes
 * done. */
int campaign_open(struct campaign **campaign, const struct campaign_config *config,
                  struct loop *waiter, struct errmsg *why);
void campaign_start(struct campaign *campaign);
struct campaign_progress campaign_progress(struct campaign *campaign);
/* Asks the workers to look at what they have measured, each when it next comes to the end of a
 * turn; not while an answer is outstanding. The waiter is woken as they answer. */
void campaign_look(struct campaign *campaign);
/* True once all have answered what campaign_look() has asked: then `view` has the sums. */
bool campaign_seen(const struct campaign *campaign, struct campaign_view *view);
/* Ends a warm-up that lasts until it is steady: a little later, so that all workers know of it
 * before. Runs that are to start from then on are measured. */
#define CAMPAIGN_LEAD_NS (10 * NS_PER_MS)
void campaign_measure(struct campaign *campaign);
void campaign_stop(struct campaign *campaign);          /* start no new runs */
void campaign_abandon(struct campaign *campaign);       /* let go of those in flight */
bool campaign_is_done(const struct campaign *campaign); /* all workers have come to their end */
/* Joins the workers, reads the journal back, and merges. The histograms stay the campaign's. -EIO
 * with the reason when the journal did not hold what it had acked. */
int campaign_finish(struct campaign *campaign, struct campaign_result *result, struct errmsg *why);
/* One that was not started leaves nothing in its store. */
void campaign_close(struct campaign *campaign);

#endif
