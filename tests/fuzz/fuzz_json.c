/*
 * fuzz_json: any bytes, read three ways, by skipping, by reading value for value, and by jansson,
 * which must agree on whether it is JSON and on what it says. Strings are written again and read
 * back.
 *
 * Where jansson may differ:
 * - it ends the input at a NUL between tokens, which is legal nowhere;
 * - it refuses numbers that it cannot hold, and keys with a NUL;
 * - it nests deeper than JSON_DEPTH_MAX;
 * - of members with the same key it keeps the last, so values are compared only if there are none.
 */
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/json_read.h"
#include "engine/base/json_write.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool is_so, const char *what)
{
    if (!is_so) {
        (void)fprintf(stderr, "fuzz_json: %s\n", what); /* the trap tells it, too */
        __builtin_trap();
    }
}

static void *allocate(size_t size)
{
    /* Blocks of exactly this size: the sanitizer sees a byte too far. */
    void *block = malloc(size != 0 ? size : 1);
    require(block != NULL, "no memory");
    return block;
}

/* A string says the same after it has been written again. Returns it unescaped; the caller frees.
 */
static char *check_string(const struct json_span *span, size_t *size)
{
    char *text = allocate(span->size);
    *size = json_unescape(span, text);
    require(*size <= span->size, "a string grew by unescaping");
    const size_t room = *size * 6 + 2;
    char *written = allocate(room);
    struct json_writer w = json_writer_on(written, room);
    json_write_string(&w, text, *size);
    require(json_write_ok(&w), "a string needs more than 6 bytes a byte");
    const size_t need = (size_t)(w.at - written);

    struct json_reader r = json_reader_on(written, need);
    struct json_span again = {0};
    require(json_read_string(&r, &again) && json_read_end(&r), "a written string is refused");
    char *text_again = allocate(again.size);
    require(json_unescape(&again, text_again) == *size && memcmp(text, text_again, *size) == 0,
            "a written string says something else");
    free(text_again);
    free(written);

    char *exact = allocate(need - 1);
    w = json_writer_on(exact, need - 1);
    json_write_string(&w, text, *size);
    require(!json_write_ok(&w), "a string fits where it cannot");
    free(exact);
    return text;
}

static bool check_number(struct json_reader *r, const json_t *theirs)
{
    struct json_reader ahead = *r;
    double real = 0;
    uint64_t whole = 0;
    const bool is_u64 = json_read_u64(&ahead, &whole);
    if (!json_read_double(r, &real)) {
        require(theirs == NULL, "a number is refused here alone");
        return false;
    }
    require(theirs == NULL || json_is_number(theirs), "a number here alone");
    require(theirs == NULL || json_number_value(theirs) == real, "another double");
    require(!is_u64 || (ahead.at == r->at && (double)whole == real), "another whole number");
    if (json_is_integer(theirs) && json_integer_value(theirs) > 0) {
        require(is_u64 && whole == (uint64_t)json_integer_value(theirs), "another integer");
    }
    return true;
}

static bool walk(struct json_reader *r, const json_t *theirs);

static bool walk_object(struct json_reader *r, const json_t *theirs)
{
    struct json_span key;
    if (!json_read_object(r)) {
        return false;
    }
    require(theirs == NULL || json_is_object(theirs), "an object here alone");
    while (json_read_key(r, &key)) {
        size_t size;
        char *text = check_string(&key, &size);
        const json_t *member = theirs != NULL ? json_object_getn(theirs, text, size) : NULL;
        require(theirs == NULL || member != NULL, "a key here alone");
        free(text);
        if (!walk(r, member)) {
            return false;
        }
    }
    return r->error == NULL;
}

static bool walk_array(struct json_reader *r, const json_t *theirs)
{
    size_t index = 0;
    if (!json_read_array(r)) {
        return false;
    }
    require(theirs == NULL || json_is_array(theirs), "an array here alone");
    for (; json_read_element(r); index++) {
        if (!walk(r, json_array_get(theirs, index))) {
            return false;
        }
    }
    require(r->error != NULL || theirs == NULL || index == json_array_size(theirs),
            "another number of elements");
    return r->error == NULL;
}

/* Reads one value; compares it with theirs unless NULL. Recurses no deeper than JSON_DEPTH_MAX. */
static bool walk(struct json_reader *r, const json_t *theirs)
{
    struct json_span span = {0};
    bool flag = false;
    switch (json_peek(r)) {
    case JSON_TYPE_OBJECT:
        return walk_object(r, theirs);
    case JSON_TYPE_ARRAY:
        return walk_array(r, theirs);
    case JSON_TYPE_STRING:
        if (json_read_string(r, &span)) {
            size_t size;
            char *text = check_string(&span, &size);
            require(theirs == NULL || (json_string_length(theirs) == size &&
                                       memcmp(json_string_value(theirs), text, size) == 0),
                    "another string");
            free(text);
        }
        return r->error == NULL;
    case JSON_TYPE_TRUE:
    case JSON_TYPE_FALSE:
        if (json_read_bool(r, &flag)) {
            require(theirs == NULL || json_is_true(theirs) == flag, "another truth");
            require(theirs == NULL || json_is_boolean(theirs), "a truth here alone");
        }
        return r->error == NULL;
    case JSON_TYPE_NULL:
        require(!json_read_null(r) || theirs == NULL || json_is_null(theirs), "null here alone");
        return r->error == NULL;
    case JSON_TYPE_NUMBER:
        return check_number(r, theirs);
    case JSON_TYPE_INVALID:
        break;
    }
    return json_skip_value(r, NULL);
}

static bool is_text(const char *text, const char *wanted)
{
    return text != NULL && strcmp(text, wanted) == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *bytes = (const char *)data;
    struct json_reader skipped = json_reader_on(bytes, size);
    struct json_span whole = {0};
    bool is_good = json_skip_value(&skipped, &whole);
    is_good = json_read_end(&skipped) && is_good;
    require(is_good == (skipped.error == NULL), "an error without a reason, or the reverse");

    const bool has_nul = size != 0 && memchr(bytes, '\0', size) != NULL;
    require(!has_nul || !is_good, "a NUL is accepted");
    json_error_t why = {0};
    const size_t flags = JSON_DECODE_ANY | JSON_ALLOW_NUL;
    json_t *theirs = has_nul ? NULL : json_loadb(bytes != NULL ? bytes : "", size, flags, &why);
    if (theirs == NULL && !has_nul) {
        const enum json_error_code code = json_error_code(&why);
        require(!is_good || code == json_error_numeric_overflow ||
                    code == json_error_null_byte_in_key,
                "accepted, but not by jansson");
    }
    require(theirs == NULL || is_good || is_text(skipped.error, "JSON nested too deeply"),
            "refused, but not by jansson");

    json_error_t duplicate;
    json_t *unique =
        theirs == NULL ? NULL : json_loadb(bytes, size, flags | JSON_REJECT_DUPLICATES, &duplicate);
    struct json_reader walked = json_reader_on(bytes, size);
    (void)walk(&walked, unique);  /* the reader knows */
    (void)json_read_end(&walked); /* likewise */
    if (!is_text(walked.error, "number beyond the range of a double")) {
        require((walked.error == NULL) == is_good, "read and skipped differ");
        require(walked.at == skipped.at || is_good, "read and skipped differ in where");
    }
    json_decref(unique);
    json_decref(theirs);
    return 0;
}
