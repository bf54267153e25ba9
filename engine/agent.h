/*
 * agent: the agent loop as a pure transition function: given what has happened, what is to be done
 * next.
 *
 * It knows no clock, no I/O and no memory but its own 32 bytes, so that a resumed run can be taken
 * through the very same transitions by its records (replay.h). The order that makes a run durable
 * is here: a reply is recorded before it is acted on, an attempt before the tool's effect, a result
 * before the next model call, the end before the run counts.
 *
 *   begin → (ask the model → record the reply → [record the attempts] → run the tools → record each
 * result)* → end
 *
 * While the model is asked, pieces of its reply may be recorded as they stream in; and a call that
 * fails is recorded before it is made again.
 *
 * A run that was cut off stands where its last record was on its way. AGENT_RESUME takes it on from
 * there: that record is there, and what the process was doing is lost. The one thing that cannot
 * be known then is whether a tool that was attempted had its effect. Such a run ends as unknown,
 * or, if it is told to, attempts all calls without a result anew, in their order.
 *
 * Ownership: plain data of the caller's. Threading: none. Errors: none; an event that cannot happen
 * in a state is our own mistake and asserts.
 */
#ifndef BENCH_AGENT_H
#define BENCH_AGENT_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "journal/journal.h"

enum {
    AGENT_TOOLS_MAX = 64,
    AGENT_PASSES_MAX = 255,  /* how often the calls of a turn are attempted, at the most */
    AGENT_RETRIES_MAX = 100, /* how often a model call is made again, at the most */
};

/* Whether a tool call is said to change the world, and so journaled before it is made. */
enum tool_effect {
    TOOL_EFFECT_NONE,   /* read-only: no attempt record */
    TOOL_EFFECT_NOOP,   /* an effect is declared, and does nothing */
    TOOL_EFFECT_LEDGER, /* each call that happens appends a line to the ledger */
};

const char *tool_effect_name(enum tool_effect effect); /* the flag's, and the record's */

/* How a run ended. Values reach disks by name: append-only. */
enum outcome {
    OUTCOME_COMPLETED,
    OUTCOME_FAILED,  /* the model or a tool failed */
    OUTCOME_TIMEOUT, /* -timeout was over */
    OUTCOME_JOURNAL, /* a record was refused: nothing can be recorded, not even the end */
    OUTCOME_UNKNOWN, /* resumed, and whether a tool had its effect cannot be known */
    /* Resumed, and its records do not say what it would have done: nothing more is recorded. */
    OUTCOME_DIVERGED,
    OUTCOME_COUNT,
};
const char *outcome_name(enum outcome outcome);
/* Whether an end record tells it; a run that ends otherwise is left unfinished. */
bool outcome_is_recorded(enum outcome outcome);

enum agent_state {
    AGENT_NEW,
    AGENT_BEGINNING, /* begin is being recorded */
    AGENT_THINKING,  /* the model has been asked; pieces of its reply may be being recorded, or that
                        it failed and is to be asked again */
    AGENT_DECIDING,  /* its reply is being recorded */
    AGENT_ATTEMPTING, /* the attempts are being recorded, one after the other */
    AGENT_ACTING,     /* the tools run side by side; each result is recorded when it comes */
    AGENT_ENDING,     /* end is being recorded */
    AGENT_ENDED,
};

struct agent {
    uint8_t state;     /* enum agent_state */
    uint8_t outcome;   /* enum outcome; what the end will say */
    bool has_effect;   /* attempts are recorded */
    bool is_recording; /* a record is on its way */
    bool is_failing;   /* ends as soon as no record is on its way */
    uint8_t tools;     /* calls that the last reply asked for; 0: it was the final one */
    uint8_t attempted; /* up to which of these the present pass of attempts has come */
    uint8_t passes;    /* of attempts over these: one, and one more for each retry */
    uint16_t turns;    /* model calls begun */
    uint16_t turns_max;
    uint8_t record;      /* enum record_kind, the last that was asked for */
    uint8_t record_call; /* of an attempt or a tool record */
    uint8_t retries;     /* of the turn's model call, so far */
    uint64_t open;       /* a bit a call whose result is neither recorded nor on its way */
    uint64_t results;    /* a bit a call whose result waits to be recorded */
};
static_assert(sizeof(struct agent) == 32, "embedded in every run");

enum agent_event_kind {
    AGENT_START,
    AGENT_RECORDED, /* the record on its way is acked */
    AGENT_REPLIED,  /* the model's reply is complete and valid; value: how many tool calls it asks
                       for */
    AGENT_RESULT,   /* a tool call is over; value: which */
    AGENT_STREAMED, /* a piece of the reply that is to be recorded; no record is on its way */
    AGENT_RETRIED,  /* the model call has failed and is to be made again; likewise */
    AGENT_FAIL,     /* the run cannot go on; value: enum outcome, neither OUTCOME_COMPLETED nor
                       OUTCOME_UNKNOWN */
    AGENT_RESUME,   /* the record on its way was a run's last one; value: enum agent_retry */
};

/* What a resumed run does about calls that were attempted and have no result. */
enum agent_retry { AGENT_RETRY_HALT, AGENT_RETRY_UNKNOWN };

struct agent_event {
    enum agent_event_kind kind;
    uint32_t value;
};

enum agent_action_kind {
    AGENT_WAIT,   /* for what is on its way already */
    AGENT_RECORD, /* append a record of kind `record`, which the agent goes on naming; for attempts
                     and tools, of call `call` */
    AGENT_ASK_MODEL, /* for the turn's reply; again, where agent->retries tells so */
    AGENT_RUN_TOOLS, /* all calls of the last reply that have no recorded result */
    AGENT_FINISH,    /* the run is over, with agent->outcome */
};

struct agent_action {
    enum agent_action_kind kind;
    enum record_kind record;
    uint32_t call;
};

void agent_init(struct agent *a, uint16_t turns_max, bool has_effect);

/* The one transition function. When it fails a run in AGENT_THINKING or AGENT_ACTING, the caller
 * must let go of the model call and the tools first. */
struct agent_action agent_step(struct agent *a, struct agent_event event);

#endif
