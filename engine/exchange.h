/*
 * exchange: a run's dealings with its model, where more is asked for than one plain call: a call
 * that fails is made again, a slow one gets a rival, and pieces of the reply are recorded while it
 * streams.
 *
 *   ask → (first answer | hedge: a second call; the first answer of the two wins)
 *       → reply, with deltas recorded on the way → the run hears it as from a plain call
 *       → or failure (error, -model-timeout) → retry record → back-off → ask again
 *
 * A try has failed when all its calls have. Between two tries the run waits a time drawn evenly
 * from 0 to EXCHANGE_BACKOFF_NS doubled with each try, at most EXCHANGE_BACKOFF_NS_MAX: "full
 * jitter" (Brooker, Exponential Backoff And Jitter, AWS Architecture Blog 2015).
 *
 * A delta is on its way while the reply goes on streaming; whatever must not overtake it, the
 * reply's end or a failure, is held until it is acked. What of the text no delta has by then needs
 * none, since the model record holds the whole.
 *
 * Ownership: a block of the run's pool, from the first ask to exchange_close(). Threading: all on
 * the run's scheduler. Errors: as run.h. Units: ns.
 */
#ifndef BENCH_EXCHANGE_H
#define BENCH_EXCHANGE_H

#include "engine/coalesce.h"
#include "engine/run.h"

#define EXCHANGE_BACKOFF_NS (100 * NS_PER_MS)
#define EXCHANGE_BACKOFF_NS_MAX (10 * NS_PER_S)

enum { EXCHANGE_FAILURE_BYTES = 96 };

/* What waits for the delta that is on its way. */
enum exchange_held { EXCHANGE_HELD_NONE, EXCHANGE_HELD_REPLY, EXCHANGE_HELD_FAILURE };

struct exchange {
    struct run *run;
    struct model_call rival;      /* the hedge */
    struct model_call *answering; /* whose reply it is; NULL: none has answered */
    struct timer timer;           /* of the back-off; then of -model-timeout */
    struct timer hedge;           /* until the rival is called */
    struct coalesce text;         /* of the reply, that is to be recorded */
    struct model_event reply;     /* its end, while it is held */
    uint64_t appended_ns;         /* since when a delta is on its way */
    uint32_t pieces;              /* of the reply that are recorded */
    uint32_t piece_bytes;         /* of the delta that is on its way; 0: none is */
    uint32_t piece_capacity;
    char *piece;       /* its text, which may have to be composed again; a block of the pool */
    uint32_t capacity; /* of this block */
    uint32_t token;    /* pieces of the reply so far */
    uint8_t held;      /* enum exchange_held */
    bool is_first_out; /* the run's own call is with the model */
    bool is_rival_out;
    bool may_retry;
    char failure[EXCHANGE_FAILURE_BYTES]; /* of the last try */
};
static_assert(sizeof(struct exchange) <= 512, "one a run in flight, where there are any");

static inline bool exchange_is_wanted(const struct exchange_rules *rules)
{
    return rules->retries > 0 || rules->timeout_ns > 0 || rules->hedge_ns > 0 ||
           rules->stream_journal != STREAM_JOURNAL_NONE;
}

/* Asks for the turn's reply: at once, or after the back-off where the agent has it a retry. */
void exchange_ask(struct run *run, uint64_t now_ns);

/* What the exchanges of one scheduler share; once env->sched is set. */
void exchange_env_init(struct run_env *env);

/* The text of the delta record that is to be composed, be it again; false without memory. It is
 * kept once that is acked. */
bool exchange_take_delta(struct exchange *x, struct json_span *text);
void exchange_keep_delta(struct exchange *x);

/* The delta that was on its way is acked, and the run is still at it. */
void exchange_go_on(struct exchange *x, uint64_t now_ns);

/* What the model had to say waits for the delta. */
static inline bool exchange_is_holding(const struct exchange *x)
{
    return x->held != EXCHANGE_HELD_NONE;
}

/* Lets go of all calls and timers. */
void exchange_stop(struct exchange *x);

/* Gives back the memory of one that is stopped or has its reply. */
void exchange_close(struct exchange *x);

#endif
