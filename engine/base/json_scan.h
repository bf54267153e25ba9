/*
 * json_scan: what the JSON reader is made of: functions that take a place in the input, pass over
 * one thing, and return the place behind it, or record an error and return NULL. Not for anyone but
 * json_read.c.
 *
 * Text is what requests consist of, so it is scanned 16 bytes at a time. The last block of an input
 * is read so that it ends where the input ends, overlapping what has been seen already: a short
 * rest is scanned without reading past the end, and without a loop over bytes.
 */
#ifndef BENCH_BASE_JSON_SCAN_H
#define BENCH_BASE_JSON_SCAN_H

#include "engine/base/json_read.h"

/* JSON_PORTABLE lets the tests of a machine with SSE2 reach the other half. */
#if defined(__SSE2__) && !defined(JSON_PORTABLE)
#include <emmintrin.h>
#define JSON_SSE2 1
#endif

#define JSON_TEXT_END "unexpected end of JSON"
#define JSON_TEXT_NUMBER "malformed number"

/* Records the error, the first that is, and returns NULL. It moves r->end to where the error is:
 * every later call looks for its first byte before it does anything else, finds the input at its
 * end, and fails. That is how errors stick without a test on the way of those who have none. */
__attribute__((cold, noinline)) const char *json_scan_fail(struct json_reader *r, const char *at,
                                                           const char *reason);

/* From an opening quote to the byte behind the closing one; the text between in *text. */
__attribute__((noinline)) const char *json_scan_string(struct json_reader *r, const char *quote,
                                                       struct json_span *text);

/* From where a key should begin to the byte behind its colon. */
__attribute__((noinline)) const char *json_scan_key(struct json_reader *r, const char *p,
                                                    struct json_span *key);

/* A number, from its first byte; the same as a value, once it has been passed. */
const char *json_scan_number(struct json_reader *r, const char *p);
double json_scan_decimal(const char *p, const char *end);

static inline const char *json_scan_space(const char *p, const char *end)
{
    /* Compact JSON, which is all that bench itself writes, leaves at the first comparison. */
    while (p < end && (unsigned char)*p <= ' ' &&
           (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t')) {
        p++;
    }
    return p;
}

static inline bool json_scan_is_digit(char c)
{
    return (unsigned char)(c - '0') < 10;
}

/* A number, true, false or null; also what tells of a byte that begins no value. */
static inline const char *json_scan_scalar(struct json_reader *r, const char *p)
{
    const ptrdiff_t left = r->end - p;
    if (json_scan_is_digit(*p) || *p == '-') {
        return json_scan_number(r, p);
    }
    if (left >= 4 && (memcmp(p, "true", 4) == 0 || memcmp(p, "null", 4) == 0)) {
        return p + 4;
    }
    if (left >= 5 && memcmp(p, "false", 5) == 0) {
        return p + 5;
    }
    return json_scan_fail(r, p, "expected a JSON value");
}

#ifdef JSON_SSE2
struct json_scan_block {
    uint32_t quotes; /* a bit a byte */
    uint32_t plain;  /* what may stand in a string and needs no second look; quotes count as such */
};

static inline struct json_scan_block json_scan_block_at(const char *p)
{
    const __m128i text = _mm_loadu_si128((const __m128i *)(const void *)p);
    /* Bytes from 0x80 are negative: one signed comparison refuses them and the control characters.
     */
    const __m128i printable = _mm_cmpgt_epi8(text, _mm_set1_epi8(' ' - 1));
    const __m128i backslash = _mm_cmpeq_epi8(text, _mm_set1_epi8('\\'));
    const __m128i quote = _mm_cmpeq_epi8(text, _mm_set1_epi8('"'));
    return (struct json_scan_block){
        .quotes = (uint32_t)_mm_movemask_epi8(quote),
        .plain = (uint32_t)_mm_movemask_epi8(_mm_andnot_si128(backslash, printable)),
    };
}

/* Whether a quote ends the block's text: there is one, and nothing but plain text before it. */
static inline bool json_scan_block_ends(struct json_scan_block block)
{
    const uint32_t before = block.quotes ^ (block.quotes - 1); /* all 32 without a quote */
    return (before & block.plain) == before;
}
#endif

/* The closing quote of a plain string of less than 16 bytes whose text begins at p; NULL for any
 * other string, and for one so near the end that more than a byte might not follow it. Keys are
 * such strings and so are most values: for them this saves the way through the general functions.
 */
static inline const char *json_scan_short(const char *p, const char *end)
{
#ifdef JSON_SSE2
    if (end - p > 16) {
        const struct json_scan_block block = json_scan_block_at(p);
        if (json_scan_block_ends(block)) {
            return p + __builtin_ctz(block.quotes);
        }
    }
#endif
    (void)p; /* both unused where there are no blocks */
    (void)end;
    return NULL;
}

#endif
