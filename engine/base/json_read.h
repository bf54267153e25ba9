/*
 * json_read: a strict pull reader of JSON (RFC 8259) over bytes in memory, for the hot path:
 * requests, replies, records. It allocates nothing and copies nothing; spans point into the input.
 *
 * Reading an object:
 *     json_read_object(&r);
 *     while (json_read_key(&r, &key)) { … read or json_skip_value(&r, NULL) the value … }
 *     json_read_end(&r);               // after the outermost value: only white space may follow
 *     if (r.error != NULL) …
 * Exactly one value is read after each key and each element; a caller that reads none, or two, is
 * mistaken about the input and not told so.
 *
 * Errors: the first one sticks and every later call fails, so that one check at the end is enough.
 * r.at - r.start is then where it was found. Bounds: nesting of JSON_DEPTH_MAX. Strings must be
 * valid UTF-8 without control characters; escapes are checked (a lone surrogate is an error).
 * Numbers may be of any length and size where they are skipped. Duplicate keys are the caller's to
 * judge. Input is hostile, and not one byte outside of it is read. Threading: none, plain data.
 */
#ifndef BENCH_BASE_JSON_READ_H
#define BENCH_BASE_JSON_READ_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { JSON_DEPTH_MAX = 32 };

struct json_span {
    const char *bytes; /* of a string: between the quotes, escapes as they stand */
    size_t size;
    bool has_escapes; /* of a string */
};

struct json_reader {
    const char *start;
    const char *at;
    const char *end;
    const char *error; /* a constant text; NULL while all is well */
    uint32_t depth;
    uint32_t is_first;  /* a bit a level, the innermost lowest: no member read yet */
    uint32_t is_object; /* likewise */
};
static_assert(sizeof(struct json_reader) == 48, "lives on stacks and in registers");

/* Named so that a file may include jansson.h as well. */
enum json_type {
    JSON_TYPE_INVALID,
    JSON_TYPE_OBJECT,
    JSON_TYPE_ARRAY,
    JSON_TYPE_STRING,
    JSON_TYPE_NUMBER,
    JSON_TYPE_TRUE,
    JSON_TYPE_FALSE,
    JSON_TYPE_NULL,
};

struct json_reader json_reader_on(const char *bytes, size_t size);

/* The type of the value that comes next, from its first byte; JSON_TYPE_INVALID at the end or on
 * error.
 */
enum json_type json_peek(struct json_reader *r);

/* Each reads one value of its type and returns true, or sets r->error and returns false. */
bool json_read_object(struct json_reader *r); /* the opening brace */
bool json_read_array(struct json_reader *r);  /* the opening bracket */
bool json_read_string(struct json_reader *r, struct json_span *text);
/* Digits only: a sign, a fraction, an exponent or an overflow is an error. */
bool json_read_u64(struct json_reader *r, uint64_t *value);
/* Any number, rounded to the nearest double whatever the locale; beyond the range is an error. */
bool json_read_double(struct json_reader *r, double *value);
bool json_read_bool(struct json_reader *r, bool *value);
bool json_read_null(struct json_reader *r);

/* In an object: the next key and its colon; false at the closing brace, which it reads, or on
 * error. */
bool json_read_key(struct json_reader *r, struct json_span *key);
/* In an array: true when another element follows (reading the comma); false at the closing bracket,
 * which it reads, or on error. */
bool json_read_element(struct json_reader *r);

/* Checks and passes over one value of any type; its bytes (of a string: with the quotes) in *value
 * unless NULL. */
bool json_skip_value(struct json_reader *r, struct json_span *value);

/* True when a value and the whole input have been read without error. */
bool json_read_end(struct json_reader *r);

/* Marks the input as wrong for a reason of the caller's ("unknown role"); the first reason stays.
 * Returns false. */
bool json_fail(struct json_reader *r, const char *reason);

/* Whether the span, which must have no escapes to be equal, is this literal. */
#define json_span_is(span, literal) json_span_equals((span), "" literal, sizeof(literal) - 1)
static inline bool json_span_equals(const struct json_span *span, const char *bytes, size_t size)
{
    return span->size == size && !span->has_escapes && memcmp(span->bytes, bytes, size) == 0;
}

/* The string with its escapes resolved, at most span->size bytes, into `to`; returns their number.
 * The span must come from json_read_string() or json_read_key(), which checked it. */
size_t json_unescape(const struct json_span *span, char *to);

#endif
