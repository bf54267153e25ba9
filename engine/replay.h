/*
 * replay: a run taken over its records, through the transition function that wrote them.
 *
 * A replay keeps what verify needs to know of a run from one record to the next: its place in the
 * chain of digests, the agent, and the totals that the end record will be held against. The agent
 * stands where its last record was on its way, so that whatever could have come next still can: its
 * ack, a failure just before or after it, or a new process that resumes. A record is accepted when
 * one of these leads the agent to it. A run is resumed from there, too: with AGENT_RESUME.
 *
 * Ownership: plain data of the caller's; all zeroes is a run without records. No clock, no I/O, no
 * allocation. Threading: none. Errors: a fault, and a constant text that says more.
 */
#ifndef BENCH_REPLAY_H
#define BENCH_REPLAY_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/agent.h"
#include "engine/record.h"
#include "journal/journal.h"

enum { REPLAY_REACH_MAX = 2 };

struct replay {
    uint64_t digest; /* of the last record */
    uint64_t open;   /* of the agent, as are all that agent.h has by that name */
    uint32_t seq;    /* of the next record */
    uint32_t calls;  /* tool calls of the turns before the present one */
    uint32_t tokens; /* prompt and completion tokens so far, both in one sum */
    uint32_t pieces; /* of the reply that is streaming */
    uint16_t turns;
    uint16_t turns_max;
    uint8_t state;
    uint8_t tools;
    uint8_t attempted;
    uint8_t passes;
    /* Passes of attempts that were cut off before they had reached every call, and up to which call
     * each came; further ones are only counted. */
    uint8_t reach[REPLAY_REACH_MAX];
    uint8_t reach_more;
    uint8_t record; /* enum record_kind: the last */
    uint8_t retries;
    uint8_t outcome : 3; /* once it has ended */
    bool has_effect : 1;
    bool has_error : 1; /* a tool call ended in an error: the next record is the end */
    bool is_broken : 1; /* a fault was found */
};
static_assert(sizeof(struct replay) == 48, "verify keeps one a run, by the million");
static_assert(OUTCOME_COUNT <= 8, "an outcome fits");

/* What is wrong with a record where it stands. */
enum replay_fault {
    REPLAY_GOOD,
    REPLAY_GAP,        /* records before it are missing */
    REPLAY_DUPLICATE,  /* its seq was there before */
    REPLAY_AFTER_END,  /* the run was over */
    REPLAY_DIGEST,     /* its bytes, or those of the record before, are not those written */
    REPLAY_PAYLOAD,    /* it cannot be read */
    REPLAY_TRANSITION, /* no run goes from the record before to this one */
    REPLAY_BROKEN,     /* a record before it had a fault: this one was not looked at */
    REPLAY_FAULT_COUNT,
};
const char *replay_fault_name(enum replay_fault fault); /* "gap" */

/* The run's next record, read into *record, unless it has a fault; *why then says more. After the
 * first fault a run's further records are REPLAY_BROKEN. */
enum replay_fault replay_step(struct replay *r, const struct journal_record *from,
                              struct record *record, const char **why);

/* The transition alone: NULL, or why no run goes from its last record to this one. */
const char *replay_record(struct replay *r, const struct record *record);

/* The agent behind the last record that had no fault: for AGENT_RESUME, if there was one; or for
 * AGENT_FAIL with OUTCOME_DIVERGED. */
struct agent replay_agent(const struct replay *r);

static inline bool replay_has_ended(const struct replay *r)
{
    return r->state == AGENT_ENDING;
}

/* Tool calls whose result is recorded. */
uint32_t replay_tool_calls(const struct replay *r);

#endif
