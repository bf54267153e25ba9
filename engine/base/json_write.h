/*
 * json_write: compact JSON into a buffer of the caller's, for the hot path (records, messages,
 * requests).
 *
 * A writer that runs out of room writes nothing more and says so once, at the end: check
 * json_write_ok(). What the buffer holds from w.at on is undefined. Nothing is allocated.
 * Threading: none, plain data. (The result file is written with jansson: cmd/report_json.c.)
 */
#ifndef BENCH_BASE_JSON_WRITE_H
#define BENCH_BASE_JSON_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* What one byte of a text takes at the most: \u00xx. */
enum { JSON_ESCAPED_BYTES_MAX = 6 };

struct json_writer {
    char *at;
    char *end;
    bool is_full;
};

static inline struct json_writer json_writer_on(char *buffer, size_t bytes)
{
    return (struct json_writer){.at = buffer, .end = buffer + bytes};
}

static inline bool json_write_ok(const struct json_writer *w)
{
    return !w->is_full;
}

/* Bytes as they are: JSON that is complete already, or a fragment of it. */
static inline void json_write_raw(struct json_writer *w, const char *bytes, size_t size)
{
    if ((size_t)(w->end - w->at) < size) {
        w->end = w->at;
        w->is_full = true;
        return;
    }
    memcpy(w->at, bytes, size);
    w->at += size;
}

/* A string literal of C, as it is; its length is a constant. */
#define json_write_literal(w, literal) json_write_raw((w), "" literal, sizeof(literal) - 1)

/* The bytes of a string with what JSON demands escaped, without the quotes around it. UTF-8 passes
 * as it is, and so does what is not UTF-8: what comes from outside is checked where it comes in. */
void json_write_escaped(struct json_writer *w, const char *bytes, size_t size);

/* The same within quotes. */
void json_write_string(struct json_writer *w, const char *bytes, size_t size);

void json_write_u64(struct json_writer *w, uint64_t value);

/* 16 lower-case hex digits within quotes: digests, which JSON numbers cannot hold. */
void json_write_hex64(struct json_writer *w, uint64_t value);

#endif
