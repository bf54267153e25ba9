/*
 * json_read: the reader: one value of each type, members and elements, and the skipping of whole
 * values. How bytes are looked at is in json_scan.h; so is how an error sticks.
 */
#include "engine/base/json_scan.h"

static const char text_depth[] = "JSON nested too deeply";

static __attribute__((cold, noinline)) bool fail_at(struct json_reader *r, const char *at,
                                                    const char *reason)
{
    (void)json_scan_fail(r, at, at == r->end ? JSON_TEXT_END : reason); /* always NULL */
    return false;
}

struct json_reader json_reader_on(const char *bytes, size_t size)
{
    assert(bytes != NULL || size == 0);
    const char *start = bytes != NULL ? bytes : "";
    return (struct json_reader){.start = start, .at = start, .end = start + size};
}

/* ---- one value ---- */

enum json_type json_peek(struct json_reader *r)
{
    const char *p = json_scan_space(r->at, r->end);
    if (p == r->end) {
        return JSON_TYPE_INVALID;
    }
    switch (*p) {
    case '{':
        return JSON_TYPE_OBJECT;
    case '[':
        return JSON_TYPE_ARRAY;
    case '"':
        return JSON_TYPE_STRING;
    case 't':
        return JSON_TYPE_TRUE;
    case 'f':
        return JSON_TYPE_FALSE;
    case 'n':
        return JSON_TYPE_NULL;
    default:
        return json_scan_is_digit(*p) || *p == '-' ? JSON_TYPE_NUMBER : JSON_TYPE_INVALID;
    }
}

static inline bool open_level(struct json_reader *r, char bracket, const char *reason)
{
    const char *p = json_scan_space(r->at, r->end);
    if (p == r->end || *p != bracket) {
        return fail_at(r, p, reason);
    }
    if (r->depth == JSON_DEPTH_MAX) {
        return fail_at(r, p, text_depth);
    }
    r->depth++;
    r->is_first = r->is_first << 1 | 1;
    r->is_object = r->is_object << 1 | (bracket == '{');
    r->at = p + 1;
    return true;
}

bool json_read_object(struct json_reader *r)
{
    return open_level(r, '{', "expected an object");
}

bool json_read_array(struct json_reader *r)
{
    return open_level(r, '[', "expected an array");
}

static __attribute__((noinline)) bool read_any_string(struct json_reader *r, struct json_span *text)
{
    const char *p = json_scan_space(r->at, r->end);
    if (p == r->end || *p != '"') {
        return fail_at(r, p, "expected a string");
    }
    p = json_scan_string(r, p, text);
    if (p == NULL) {
        return false;
    }
    r->at = p;
    return true;
}

bool json_read_string(struct json_reader *r, struct json_span *text)
{
    const char *p = r->at;
    if (p < r->end && *p == '"') {
        const char *close = json_scan_short(p + 1, r->end);
        if (close != NULL) {
            *text = (struct json_span){.bytes = p + 1, .size = (size_t)(close - p - 1)};
            r->at = close + 1;
            return true;
        }
    }
    return read_any_string(r, text);
}

bool json_read_u64(struct json_reader *r, uint64_t *value)
{
    const char *first = json_scan_space(r->at, r->end);
    const char *p = first;
    uint64_t sum = 0;
    for (; p < r->end && json_scan_is_digit(*p); p++) {
        const uint64_t digit = (uint64_t)(*p - '0');
        if (sum >= UINT64_MAX / 10 && (sum > UINT64_MAX / 10 || digit > UINT64_MAX % 10)) {
            return fail_at(r, first, "number beyond 64 bits");
        }
        sum = sum * 10 + digit;
    }
    if (p == first) {
        return fail_at(r, p, "expected a whole number");
    }
    if (*first == '0' && p - first > 1) {
        return fail_at(r, first, JSON_TEXT_NUMBER);
    }
    if (p < r->end && (*p == '.' || *p == 'e' || *p == 'E')) {
        return fail_at(r, first, "expected a whole number");
    }
    *value = sum;
    r->at = p;
    return true;
}

bool json_read_double(struct json_reader *r, double *value)
{
    const char *first = json_scan_space(r->at, r->end);
    if (first == r->end || !(json_scan_is_digit(*first) || *first == '-')) {
        return fail_at(r, first, "expected a number");
    }
    const char *p = json_scan_number(r, first);
    if (p == NULL) {
        return false;
    }
    const double result = json_scan_decimal(first, p);
    if (__builtin_isinf(result)) {
        return fail_at(r, first, "number beyond the range of a double");
    }
    *value = result;
    r->at = p;
    return true;
}

static bool read_name(struct json_reader *r, const char *name, const char *reason)
{
    const char *p = json_scan_space(r->at, r->end);
    const size_t size = strlen(name);
    if ((size_t)(r->end - p) < size || memcmp(p, name, size) != 0) {
        return fail_at(r, p, reason);
    }
    r->at = p + size;
    return true;
}

bool json_read_bool(struct json_reader *r, bool *value)
{
    const bool is_true = json_peek(r) == JSON_TYPE_TRUE;
    if (!read_name(r, is_true ? "true" : "false", "expected true or false")) {
        return false;
    }
    *value = is_true;
    return true;
}

bool json_read_null(struct json_reader *r)
{
    return read_name(r, "null", "expected null");
}

/* ---- members and elements ---- */

/* Passes the bracket that closes the level. */
static inline void leave_level(struct json_reader *r, const char *p, char bracket)
{
    assert(r->depth > 0 && (r->is_object & 1) == (bracket == '}'));
    (void)bracket;
    r->depth--;
    r->is_first >>= 1;
    r->is_object >>= 1;
    r->at = p + 1;
}

/* To where the next member or element begins; NULL at the closing bracket, which it passes, or on
 * error. */
static inline const char *next_in_level(struct json_reader *r, char bracket, const char *reason)
{
    const char *p = json_scan_space(r->at, r->end);
    if (p == r->end) {
        return json_scan_fail(r, p, JSON_TEXT_END);
    }
    assert(r->depth > 0 && (r->is_object & 1) == (bracket == '}'));
    if (*p == bracket) {
        leave_level(r, p, bracket);
        return NULL;
    }
    if ((r->is_first & 1) != 0) {
        r->is_first &= ~UINT32_C(1);
        return p;
    }
    return *p == ',' ? p + 1 : json_scan_fail(r, p, reason);
}

static __attribute__((noinline)) bool read_any_key(struct json_reader *r, struct json_span *key)
{
    const char *p = next_in_level(r, '}', "expected a comma or a closing brace");
    if (p == NULL) {
        return false;
    }
    p = json_scan_key(r, p, key);
    if (p == NULL) {
        return false;
    }
    r->at = p;
    return true;
}

bool json_read_key(struct json_reader *r, struct json_span *key)
{
    /* A short key in compact JSON, or the closing brace; anything else is looked at again. */
    const uint32_t is_first = r->is_first & 1;
    const char *p = r->at;
    if (r->end - p > 2 && p[is_first ^ 1] == '"' && (is_first != 0 || *p == ',')) {
        p += is_first ^ 1;
        const char *close = json_scan_short(p + 1, r->end);
        if (close != NULL && close[1] == ':') {
            assert(r->depth > 0 && (r->is_object & 1) != 0);
            *key = (struct json_span){.bytes = p + 1, .size = (size_t)(close - p - 1)};
            r->is_first &= ~UINT32_C(1);
            r->at = close + 2;
            return true;
        }
    }
    if (p < r->end && *p == '}') {
        leave_level(r, p, '}');
        return false;
    }
    return read_any_key(r, key);
}

bool json_read_element(struct json_reader *r)
{
    const char *p = next_in_level(r, ']', "expected a comma or a closing bracket");
    if (p == NULL) {
        return false;
    }
    r->at = p;
    return true;
}

/* ---- whole values ---- */

static inline const char *skip_string(struct json_reader *r, const char *p)
{
    struct json_span text;
    const char *close = json_scan_short(p + 1, r->end);
    return close != NULL ? close + 1 : json_scan_string(r, p, &text);
}

static inline const char *skip_key(struct json_reader *r, const char *p)
{
    struct json_span key;
    if (p < r->end && *p == '"') {
        const char *close = json_scan_short(p + 1, r->end);
        if (close != NULL && close[1] == ':') {
            return close + 2;
        }
    }
    return json_scan_key(r, p, &key);
}

/* The value that begins at p, up to the byte behind it; NULL when it fails. */
static __attribute__((noinline)) const char *skip_any(struct json_reader *r, const char *p)
{
    const uint32_t outer = r->depth;
    uint32_t depth = outer;
    uint32_t is_object = 0; /* a bit a level, as in the reader */
    for (;;) {
        p = json_scan_space(p, r->end);
        if (p == r->end) {
            return json_scan_fail(r, p, JSON_TEXT_END);
        }
        if (*p == '"') {
            p = skip_string(r, p);
        } else if (*p == '{' || *p == '[') {
            if (depth == JSON_DEPTH_MAX) {
                return json_scan_fail(r, p, text_depth);
            }
            depth++;
            is_object = is_object << 1 | (*p == '{');
            p = json_scan_space(p + 1, r->end);
            if (p == r->end || *p != ((is_object & 1) != 0 ? '}' : ']')) {
                p = (is_object & 1) != 0 ? skip_key(r, p) : p;
                if (p == NULL) {
                    return NULL;
                }
                continue;
            }
        } else {
            p = json_scan_scalar(r, p);
        }
        if (p == NULL) {
            return NULL;
        }
        /* Behind a value: what it closes, and then a comma unless it closes everything. */
        for (; depth > outer; depth--, is_object >>= 1, p++) {
            p = json_scan_space(p, r->end);
            if (p == r->end || *p != ((is_object & 1) != 0 ? '}' : ']')) {
                break;
            }
        }
        if (depth == outer) {
            return p;
        }
        if (p == r->end || *p != ',') {
            return json_scan_fail(r, p, "expected a comma or a closing bracket");
        }
        p = (is_object & 1) != 0 ? skip_key(r, p + 1) : p + 1;
        if (p == NULL) {
            return NULL;
        }
    }
}

bool json_skip_value(struct json_reader *r, struct json_span *value)
{
    const char *first = json_scan_space(r->at, r->end);
    /* Most values are strings, which need no count of what is open. */
    const char *p = first < r->end && *first == '"' ? skip_string(r, first) : skip_any(r, first);
    if (p == NULL) {
        return false;
    }
    if (value != NULL) {
        *value = (struct json_span){.bytes = first, .size = (size_t)(p - first)};
    }
    r->at = p;
    return true;
}

bool json_read_end(struct json_reader *r)
{
    const char *p = json_scan_space(r->at, r->end);
    if (r->error != NULL) {
        return false;
    }
    if (p != r->end) {
        return fail_at(r, p, "text behind the JSON value");
    }
    if (r->depth != 0 || r->at == r->start) {
        return fail_at(r, p, JSON_TEXT_END);
    }
    return true;
}
