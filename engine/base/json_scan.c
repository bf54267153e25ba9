/*
 * json_scan: what is not in every input: errors, escapes, text beyond ASCII, numbers.
 */
#include "engine/base/json_scan.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

const char *json_scan_fail(struct json_reader *r, const char *at, const char *reason)
{
    if (r->error == NULL) {
        r->error = reason;
        r->at = at;
    }
    r->end = r->at;
    return NULL;
}

bool json_fail(struct json_reader *r, const char *reason)
{
    (void)json_scan_fail(r, r->at, reason); /* always NULL */
    return false;
}

/* ---- text ---- */

static inline bool is_plain(char c)
{
    return (unsigned char)c >= ' ' && (unsigned char)c < 0x80 && c != '"' && c != '\\';
}

#ifdef JSON_SSE2
/* The first byte from p on that is not plain text, or the end. */
static inline const char *find_special(const struct json_reader *r, const char *p)
{
    const char *end = r->end;
    while (end - p >= 16) {
        const struct json_scan_block block = json_scan_block_at(p);
        const uint32_t bits = block.quotes | (block.plain ^ 0xffff);
        if (bits != 0) {
            return p + __builtin_ctz(bits);
        }
        p += 16;
    }
    if (end - r->start >= 16) {
        const struct json_scan_block block = json_scan_block_at(end - 16);
        const uint32_t bits = (block.quotes | (block.plain ^ 0xffff)) >> (16 - (end - p));
        return bits != 0 ? p + __builtin_ctz(bits) : end;
    }
    while (p < end && is_plain(*p)) {
        p++;
    }
    return p;
}
#else
/* Not 0 when one of 8 bytes is not plain text. */
static inline uint64_t special_word(const char *p)
{
    const uint64_t ones = UINT64_MAX / 255;
    uint64_t text;
    memcpy(&text, p, sizeof(text));
    const uint64_t quote = text ^ (ones * '"');
    const uint64_t backslash = text ^ (ones * '\\');
    /* A borrow can mark a plain byte, but only beside one that is marked rightly. */
    return ((text - ones * ' ') | (quote - ones) | (backslash - ones) | text) & (ones * 0x80);
}

static inline const char *find_special(const struct json_reader *r, const char *p)
{
    while (r->end - p >= 8 && special_word(p) == 0) {
        p += 8;
    }
    while (p < r->end && is_plain(*p)) {
        p++;
    }
    return p;
}
#endif

/* The value of 4 hexadecimal digits, or -1. */
static int32_t hex4(const char *p, const char *end)
{
    if (end - p < 4) {
        return -1;
    }
    int32_t value = 0;
    for (int i = 0; i < 4; i++) {
        const char c = p[i];
        const char lower = (char)(c | 0x20);
        if (json_scan_is_digit(c)) {
            value = value * 16 + (c - '0');
        } else if (lower >= 'a' && lower <= 'f') {
            value = value * 16 + (lower - 'a' + 10);
        } else {
            return -1;
        }
    }
    return value;
}

/* From a backslash to the byte behind its escape; a surrogate pair is one escape of 12 bytes. */
static const char *pass_escape(struct json_reader *r, const char *p)
{
    if (r->end - p < 2) {
        return json_scan_fail(r, p, JSON_TEXT_END);
    }
    switch (p[1]) {
    case '"':
    case '\\':
    case '/':
    case 'b':
    case 'f':
    case 'n':
    case 'r':
    case 't':
        return p + 2;
    case 'u':
        break;
    default:
        return json_scan_fail(r, p, "invalid escape in a string");
    }
    const int32_t first = hex4(p + 2, r->end);
    if (first < 0 || (first >= 0xdc00 && first <= 0xdfff)) {
        return json_scan_fail(r, p, "invalid escape in a string");
    }
    if (first < 0xd800 || first > 0xdfff) {
        return p + 6;
    }
    if (r->end - p < 12 || p[6] != '\\' || p[7] != 'u') {
        return json_scan_fail(r, p, "invalid escape in a string");
    }
    const int32_t second = hex4(p + 8, r->end);
    return second >= 0xdc00 && second <= 0xdfff
               ? p + 12
               : json_scan_fail(r, p, "invalid escape in a string");
}

/* From the first byte of a character beyond ASCII to the byte behind it. */
static const char *pass_utf8(struct json_reader *r, const char *p)
{
    const unsigned char *u = (const unsigned char *)p;
    const ptrdiff_t left = r->end - p;
    /* The second byte's range is narrower behind four of the first bytes: that refuses overlong
     * forms, surrogates, and what lies beyond U+10FFFF. */
    const unsigned char low = u[0] == 0xe0 ? 0xa0 : u[0] == 0xf0 ? 0x90 : 0x80;
    const unsigned char high = u[0] == 0xed ? 0x9f : u[0] == 0xf4 ? 0x8f : 0xbf;
    const int size = u[0] < 0xc2 ? 0 : u[0] < 0xe0 ? 2 : u[0] < 0xf0 ? 3 : u[0] < 0xf5 ? 4 : 0;
    if (size == 0 || left < size || u[1] < low || u[1] > high) {
        return json_scan_fail(r, p, "invalid UTF-8 in a string");
    }
    if ((size > 2 && (u[2] & 0xc0) != 0x80) || (size > 3 && (u[3] & 0xc0) != 0x80)) {
        return json_scan_fail(r, p, "invalid UTF-8 in a string");
    }
    return p + size;
}

/* From the first byte that is not plain to the closing quote. */
static const char *pass_special(struct json_reader *r, const char *p, bool *has_escapes)
{
    for (;;) {
        if (p == r->end) {
            return json_scan_fail(r, p, JSON_TEXT_END);
        }
        if (*p == '"') {
            return p;
        }
        if (*p == '\\') {
            *has_escapes = true;
            p = pass_escape(r, p);
        } else if ((unsigned char)*p < ' ') {
            return json_scan_fail(r, p, "control character in a string");
        } else {
            p = pass_utf8(r, p);
        }
        if (p == NULL) {
            return NULL;
        }
        /* Beyond ASCII, characters come in rows and most blocks would end at their first byte. */
        if (p == r->end || is_plain(*p)) {
            p = find_special(r, p);
        }
    }
}

const char *json_scan_string(struct json_reader *r, const char *quote, struct json_span *text)
{
    const char *p = find_special(r, quote + 1);
    bool has_escapes = false;
    if (p == r->end || *p != '"') {
        p = pass_special(r, p, &has_escapes);
        if (p == NULL) {
            return NULL;
        }
    }
    text->bytes = quote + 1;
    text->size = (size_t)(p - quote - 1);
    text->has_escapes = has_escapes;
    return p + 1;
}

const char *json_scan_key(struct json_reader *r, const char *p, struct json_span *key)
{
    p = json_scan_space(p, r->end);
    if (p == r->end || *p != '"') {
        return json_scan_fail(r, p, p == r->end ? JSON_TEXT_END : "expected a key");
    }
    p = json_scan_string(r, p, key);
    if (p == NULL) {
        return NULL;
    }
    p = json_scan_space(p, r->end);
    if (p == r->end || *p != ':') {
        return json_scan_fail(r, p, p == r->end ? JSON_TEXT_END : "expected a colon");
    }
    return p + 1;
}

/* ---- numbers ---- */

static const char *pass_digits(struct json_reader *r, const char *p)
{
    if (p == r->end || !json_scan_is_digit(*p)) {
        return json_scan_fail(r, p, JSON_TEXT_NUMBER);
    }
    while (p < r->end && json_scan_is_digit(*p)) {
        p++;
    }
    return p;
}

const char *json_scan_number(struct json_reader *r, const char *p)
{
    const char *end = r->end;
    p += *p == '-';
    const char *first = p;
    p = pass_digits(r, p);
    if (p == NULL) {
        return NULL;
    }
    if (*first == '0' && p - first > 1) {
        return json_scan_fail(r, first, JSON_TEXT_NUMBER);
    }
    if (p < end && *p == '.') {
        p = pass_digits(r, p + 1);
        if (p == NULL) {
            return NULL;
        }
    }
    if (p < end && (*p == 'e' || *p == 'E')) {
        p++;
        p += p < end && (*p == '+' || *p == '-');
        p = pass_digits(r, p);
    }
    return p;
}

/* So many digits decide how any decimal rounds to a double; of the rest it matters only whether one
 * of them is not 0. */
enum { DIGITS_MAX = 800 };

/* A well-formed number as a double. strtod() wants a terminated string and the locale's point: it
 * is given digits and an exponent, and so never sees a point. */
double json_scan_decimal(const char *p, const char *end)
{
    char digits[DIGITS_MAX + 32];
    size_t count = 0;
    int64_t exponent = 0;
    bool is_fraction = false;
    bool is_cut = false;
    digits[count++] = *p == '-' ? '-' : '0';
    for (p += *p == '-'; p < end && *p != 'e' && *p != 'E'; p++) {
        if (*p == '.') {
            is_fraction = true;
            continue;
        }
        if (count < DIGITS_MAX) {
            digits[count] = *p;
            /* Zeros in front must not use up the room. */
            count += count > 1 || *p != '0';
            exponent -= is_fraction;
        } else {
            is_cut = is_cut || *p != '0';
            exponent += !is_fraction;
        }
    }
    digits[count++] = is_cut ? '1' : '0';
    exponent--;
    if (p < end) {
        const bool is_negative = p[1] == '-';
        int64_t written = 0;
        for (p += 1 + (p[1] == '-' || p[1] == '+'); p < end; p++) {
            /* Beyond this it is zero or infinite; the sum with the digits' own stays exact. */
            written = written < INT64_MAX / 100 ? written * 10 + (*p - '0') : written;
        }
        exponent += is_negative ? -written : written;
    }
    (void)snprintf(digits + count, sizeof(digits) - count, "e%lld", (long long)exponent);
    return strtod(digits, NULL);
}

/* ---- escapes ---- */

static char *put_utf8(char *to, uint32_t code)
{
    if (code < 0x80) {
        *to++ = (char)code;
        return to;
    }
    if (code < 0x800) {
        *to++ = (char)(0xc0 | code >> 6);
    } else {
        if (code < 0x10000) {
            *to++ = (char)(0xe0 | code >> 12);
        } else {
            *to++ = (char)(0xf0 | code >> 18);
            *to++ = (char)(0x80 | (code >> 12 & 0x3f));
        }
        *to++ = (char)(0x80 | (code >> 6 & 0x3f));
    }
    *to++ = (char)(0x80 | (code & 0x3f));
    return to;
}

size_t json_unescape(const struct json_span *span, char *to)
{
    static const char plain[] = "\"\\/bfnrt";
    static const char meant[] = "\"\\/\b\f\n\r\t";
    const char *p = span->bytes;
    const char *end = p + span->size;
    char *out = to;
    while (p < end) {
        const char *escape = span->has_escapes ? memchr(p, '\\', (size_t)(end - p)) : NULL;
        const size_t size = (size_t)((escape != NULL ? escape : end) - p);
        memcpy(out, p, size);
        out += size;
        p += size;
        if (escape == NULL) {
            break;
        }
        if (p[1] != 'u') {
            *out++ = meant[strchr(plain, p[1]) - plain];
            p += 2;
            continue;
        }
        uint32_t code = (uint32_t)hex4(p + 2, end);
        p += 6;
        if (code >= 0xd800 && code <= 0xdbff) {
            code = 0x10000 + ((code - 0xd800) << 10) + ((uint32_t)hex4(p + 2, end) - 0xdc00);
            p += 6;
        }
        out = put_utf8(out, code);
    }
    return (size_t)(out - to);
}
