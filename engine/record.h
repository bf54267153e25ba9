/*
 * record: the payloads of the six records of a run, as compact JSON. What they hold is told in
 * docs/journal.md.
 *
 * Values reach disks: keys are append-only, and `v` in begin tells the format. Ownership: the
 * caller's writer. Threading: pure functions. Errors: a writer that was too small says so
 * (json_write_ok); record_bytes_max() is enough.
 */
#ifndef BENCH_RECORD_H
#define BENCH_RECORD_H

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
    struct json_span message; /* the assistant's, complete JSON */
    const char *finish;       /* "stop", "tool_calls" */
    uint32_t prompt_tokens;
    uint32_t completion_tokens;
    uint64_t request_digest; /* of the request that it answers */
};

struct record_end {
    enum outcome outcome;
    uint32_t turns;
    uint32_t tool_calls;
    uint32_t records; /* of the run, this one included */
    uint32_t prompt_tokens;
    uint32_t completion_tokens;
};

void record_write_begin(struct json_writer *w, const struct record_begin *begin);
void record_write_model(struct json_writer *w, const struct record_model *model);
void record_write_attempt(struct json_writer *w, uint32_t call_id, const struct json_span *name,
                          const struct json_span *arguments, uint32_t attempt);
/* `is_error`: the text is what the call failed with. */
void record_write_tool(struct json_writer *w, uint32_t call_id, const char *text, size_t size,
                       bool is_error);
void record_write_end(struct json_writer *w, const struct record_end *end);

#endif
