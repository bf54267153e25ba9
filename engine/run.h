/*
 * run: one agent run in flight: the only place where the agent's actions become I/O.
 *
 * A run asks agent_step() what to do, does it (append a record, ask the model, start the tools),
 * and comes back when that is settled. It holds no stack: between two steps everything is in its
 * struct, and its conversation in a block of the scheduler's pool.
 *
 * Ownership: the struct is the caller's and must not move from run_start() until env->ended() is
 * called for it, or run_abandon(). Threading: all on the scheduler's thread. Errors: what goes
 * wrong in a run ends that run, with an outcome; the first reason is kept in env->first_error.
 * Units: ns.
 */
#ifndef BENCH_RUN_H
#define BENCH_RUN_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/agent.h"
#include "engine/base/dist.h"
#include "engine/base/err.h"
#include "engine/base/hist.h"
#include "engine/base/pool.h"
#include "engine/coalesce.h"
#include "engine/message.h"
#include "engine/sched.h"
#include "journal/journal.h"
#include "stub_model/model.h"

struct exchange;
struct recovered_run;
struct run;
struct tool_task;

/* What is recorded of a reply while it streams. */
enum stream_journal {
    STREAM_JOURNAL_NONE,
    STREAM_JOURNAL_COALESCED, /* pieces that coalesce.h makes of it */
    STREAM_JOURNAL_TOKEN,     /* each token; those that come during an append share the next */
};
const char *stream_journal_name(enum stream_journal mode); /* the flag's, and the result's */

/* What is done about model calls that are slow or fail, and of replies while they stream. */
struct exchange_rules {
    enum stream_journal stream_journal;
    uint32_t retries;    /* of a call that fails */
    uint64_t timeout_ns; /* of a call; 0: none */
    uint64_t hedge_ns;   /* without an answer by then a second call is made; 0: never */
};

/* The shape of every run of a campaign. */
struct run_shape {
    uint64_t seed;
    uint64_t timeout_ns; /* 0: none */
    struct dist tool_latency;
    const struct dist *prompt_bytes; /* of the user's message; NULL: a short question */
    uint32_t turns;
    uint32_t tools;
    enum tool_effect tool_effect;
    enum agent_retry tool_retry; /* of resumed runs */
    enum history_mode history;   /* what model records hold of it */
    struct exchange_rules exchange;
    int ledger_fd;
};

/* What became of model calls, besides plain answers. */
struct model_count {
    uint64_t failures; /* tries that ended in an error or in -model-timeout, which are the next */
    uint64_t timeouts;
    uint64_t retries;
    uint64_t hedges; /* second calls, while the first had not answered */
    uint64_t hedge_wins;
    uint64_t discarded; /* calls given up for the other's answer */
    uint64_t deltas;    /* pieces of replies recorded */
};

/* What the runs of one scheduler share. */
struct run_env {
    struct sched *sched;
    struct journal_writer *journal;
    struct model *model;
    const struct run_shape *shape;
    struct pool pool; /* histories and tool calls */
    struct coalesce_env coalesce;
    char *scratch; /* where requests and records are composed */
    size_t scratch_bytes;
    struct hist *append;   /* append to ack */
    bool has_store_failed; /* it has refused a record that there was nothing wrong with */
    bool is_journal_full;  /* since it is at its bound */
    uint64_t model_calls;
    struct model_count model_count;
    uint64_t tool_calls;       /* that have happened */
    struct errmsg first_error; /* why the first run that did not complete did not */
    /* The run is over; its struct may be started again, from a later step. */
    void (*ended)(struct run_env *env, struct run *run, uint64_t now_ns);
};

/* Where the time of a run went: what it was waiting for. */
struct run_time {
    uint64_t model_ns;
    uint64_t journal_ns;
    uint64_t tool_ns;
    uint64_t backoff_ns; /* between the tries of a model call */
};

struct run {
    struct task task; /* the owner's: to be started from the run queue */
    struct run_env *env;
    struct model_call model_call; /* holds the run's number */
    struct exchange *exchange;    /* NULL where plain model calls are made, or none yet */
    struct journal_append append; /* holds the seq and the digest */
    struct agent agent;
    struct history history;
    struct tool_task *tools; /* calls of the last reply whose result is not recorded */
    uint64_t intended_ns;    /* when the schedule said it starts */
    uint64_t started_ns;
    uint64_t since_ns; /* since when it waits */
    struct run_time time;
    uint64_t request_digest;
    struct reply reply;
    uint32_t completion_tokens; /* of the last reply */
    uint32_t prompt_tokens_total;
    uint32_t completion_tokens_total;
    uint32_t calls_total; /* tool calls whose result is recorded */
    bool has_retried;     /* a model call */
};
static_assert(sizeof(struct run) <= 512, "the bound of the design");

/* 0, or -ENOMEM. The pool may take pool_bytes_max. */
int run_env_open(struct run_env *env, size_t pool_bytes_max);
void run_env_close(struct run_env *env);

void run_start(struct run *run, struct run_env *env, uint64_t number, uint64_t intended_ns,
               uint64_t now_ns);

/* Takes a run up where its records end: they are replayed through the agent, and no recorded step
 * is done again. A run whose records are not what it would have done stops as diverged, at once. */
void run_resume(struct run *run, struct run_env *env, const struct recovered_run *recovered,
                uint64_t intended_ns, uint64_t now_ns);

/* The run's time is over: it ends as soon as what it is waiting for allows. */
void run_time_out(struct run *run, uint64_t now_ns);

/* Lets go of the run without ending it; env->ended() is not called. No append of it may be
 * outstanding, but one that the journal has forgotten. */
void run_abandon(struct run *run, uint64_t now_ns);

#endif
