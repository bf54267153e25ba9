/*
 * record: the payloads of the seven kinds of records of a run, as compact JSON: written, and read
 * back (record_read.c). What they hold is told in docs/journal.md.
 *
 * Values reach disks: keys are append-only, and `v` in begin tells the format. Ownership: the
 * caller's writer; what is read points into the payload. Threading: pure functions. Errors: a
 * writer that was too small says so (json_write_ok); record_bytes_max() is enough. A reader takes
 * any bytes and says what is wrong with them.
 */
#ifndef BENCH_RECORD_H
#define BENCH_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/agent.h"
#include "engine/base/json_read.h"
#include "engine/base/json_write.h"

enum { RECORD_FORMAT_VERSION = 1 };

/* Room for any record whose texts and messages have `content` bytes before escaping. */
size_t record_bytes_max(size_t content);

struct record_begin {
    uint64_t seed;
    uint32_t turns;
    uint32_t tools;
    enum tool_effect effect;
    const char *input;
    size_t input_bytes;
};

struct record_model {
    /* The assistant's, complete JSON; of a snapshot all messages so far with commas between them,
     * of which the assistant's is the last. */
    struct json_span message;
    const char *finish; /* "stop", "tool_calls" */
    uint32_t prompt_tokens;
    uint32_t completion_tokens;
    uint64_t request_digest; /* of the request that it answers */
    bool is_snapshot;
};

struct record_end {
    enum outcome outcome;
    uint32_t turns;
    uint32_t tool_calls;
    uint32_t records; /* of the run, this one included */
    uint32_t prompt_tokens;
    uint32_t completion_tokens;
};

/* What a payload says. Texts and names are as they stand in it, escapes and all: see
 * json_unescape(). What is not of its kind is 0, but for `tool` and the union, which are undefined
 * then. */
struct record {
    enum record_kind kind;
    uint32_t call_id;      /* of attempt and tool; of model: the first call's, 0 without calls */
    uint32_t call_count;   /* of model: tool calls, numbered on from call_id */
    uint32_t attempt;      /* of attempt and retry: its number, of a tool or a model call, from 1;
                              of delta: which piece of its reply, likewise */
    bool is_error;         /* of tool */
    struct json_span text; /* begin: the input; model: the assistant's message; tool: the result or
                              the error; attempt: the arguments; retry: the error; delta */
    struct json_span tool; /* of attempt: its name */
    union {
        struct record_begin begin; /* without input: that is `text` */
        struct record_model model;
        struct record_end end;
    };
};

/* NULL, or what is wrong with the payload, a constant text. Takes exactly what the functions below
 * write, key for key: any other is a mistake, or damage. */
const char *record_read(struct record *record, enum record_kind kind, const char *bytes,
                        size_t size);

void record_write_begin(struct json_writer *w, const struct record_begin *begin);
void record_write_model(struct json_writer *w, const struct record_model *model);
void record_write_attempt(struct json_writer *w, uint32_t call_id, const struct json_span *name,
                          const struct json_span *arguments, uint32_t attempt);
/* `is_error`: the text is what the call failed with. */
void record_write_tool(struct json_writer *w, uint32_t call_id, const char *text, size_t size,
                       bool is_error);
/* `attempt`: how many tries of this model call have failed, of which this is the last. */
void record_write_retry(struct json_writer *w, uint32_t attempt, const char *error, size_t size);
/* `piece`: its number in the reply, from 1. */
void record_write_delta(struct json_writer *w, uint32_t piece, const char *text, size_t size);
void record_write_end(struct json_writer *w, const struct record_end *end);

#endif
