/*
 * message: the conversation of a run as JSON, and what is built from it and read into it.
 *
 * A history is one growing text: the messages so far, compact JSON objects separated by commas, so
 * that a request is built by copying it and a streamed reply is written straight to where it will
 * stay. It holds three kinds:
 *
 *   {"role":"user","content":"…"}
 *   {"role":"assistant","content":"…","tool_calls":[{"id":"c1","name":"noop","arguments":{…}}]}
 *   {"role":"tool","call":"c1","content":"…"}
 *
 * Blocks double from HISTORY_BYTES_MIN, so that a block which one run has outgrown or let go of is
 * of use to any other. Ownership: a history's bytes are a block of the scheduler's pool, from the
 * first append to history_free(). Threading: none, one scheduler's. Errors: -ENOMEM at the pool's
 * bound, -EMSGSIZE above 16 MiB, -EBADMSG for a reply that makes no valid message.
 */
#ifndef BENCH_MESSAGE_H
#define BENCH_MESSAGE_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/agent.h"
#include "engine/base/json_read.h"
#include "engine/base/json_write.h"
#include "engine/base/pool.h"

/* The first block of a history, which doubles as it grows: a default run's messages up to its last
 * request fit. */
enum { HISTORY_BYTES_MIN = 256 };

/* What of it a model record holds: the reply, or all messages up to it, again each time. */
enum history_mode { HISTORY_DELTA, HISTORY_SNAPSHOT };

const char *history_mode_name(enum history_mode mode); /* the flag's, and the result's */

struct history {
    char *bytes;
    uint32_t size;
    uint32_t capacity;
};

void history_free(struct history *h, struct pool *pool);

int history_add_user(struct history *h, struct pool *pool, const char *text, size_t size);
int history_add_result(struct history *h, struct pool *pool, uint32_t call_id, const char *text,
                       size_t size);

/* A reply on its way into a history: what of the assistant's message is written so far. */
struct reply {
    uint32_t start; /* where in the history the message begins */
    uint8_t calls;  /* tool calls begun */
    uint8_t state;  /* enum reply_state */
    int16_t error;  /* the caller's, for which there is room here: the first of the stream */
};
static_assert(sizeof(struct reply) == 8, "embedded in every run");

enum reply_state { REPLY_NONE, REPLY_TEXT, REPLY_CALLS, REPLY_DONE };

/* Events of the stream, in the order that a model may send them; -EPROTO for another. `call_id`
 * numbers the calls of a run from 1. */
int reply_add_text(struct reply *r, struct history *h, struct pool *pool, const char *text,
                   size_t size);
int reply_add_call(struct reply *r, struct history *h, struct pool *pool, uint32_t call_id,
                   const char *name, size_t size);
int reply_add_arguments(struct reply *r, struct history *h, struct pool *pool, const char *json,
                        size_t size);
/* Takes what there is of it out of the history again. */
void reply_discard(struct reply *r, struct history *h);
int reply_finish(struct reply *r, struct history *h, struct pool *pool);

/* A reply that is there as a whole, as message_of_reply() gave it: instead of a stream. */
int reply_add_whole(struct reply *r, struct history *h, struct pool *pool,
                    const struct json_span *message, uint32_t calls);

/* A tool call as it stands in an assistant's message: where in the history its parts are, which may
 * move as it grows. */
struct message_call {
    uint32_t name_at;
    uint32_t name_bytes;
    uint32_t arguments_at; /* a JSON object */
    uint32_t arguments_bytes;
};

/* Reads the finished reply as a whole: valid JSON of that very shape, with as many calls as the
 * stream announced, numbered from first_call_id, which come back in calls[0 .. r->calls). -EBADMSG
 * with a constant text in *error. */
int message_check_reply(const struct history *h, const struct reply *r, uint32_t first_call_id,
                        struct message_call calls[AGENT_TOOLS_MAX], const char **error);

static inline struct json_span message_call_name(const struct history *h,
                                                 const struct message_call *call)
{
    return (struct json_span){.bytes = h->bytes + call->name_at, .size = call->name_bytes};
}

static inline struct json_span message_call_arguments(const struct history *h,
                                                      const struct message_call *call)
{
    return (struct json_span){.bytes = h->bytes + call->arguments_at,
                              .size = call->arguments_bytes};
}

/* The assistant's message that `r` wrote. */
struct json_span message_of_reply(const struct history *h, const struct reply *r);

/* All messages so far, separated by commas; there must be one. */
struct json_span messages_of_history(const struct history *h);

/* The request: model, messages, the tools on offer. */
size_t request_bytes_max(const struct history *h);
void request_write(struct json_writer *w, const struct history *h);

#endif
