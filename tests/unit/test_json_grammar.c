/*
 * json_read, the grammar: what is accepted and refused (and that jansson thinks so too), what is
 * read, and that not a byte beyond the input is looked at: every input stands against a page that
 * cannot be read, once with its end and once with its start.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "engine/base/json_read.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define BYTES_OF(literal) literal, sizeof(literal) - 1

enum { GUARD_BYTES = 1 << 16 };

struct input {
    const char *bytes;
    size_t size;
};

static const char document[] =
    "{\"model\":\"stub\",\"run\":18446744073709551615,\"turn\":0,\"temperature\":-0.5e+1,\"seen\":"
    "true,"
    "\"messages\":[{\"role\":\"user\",\"content\":\"say \\\"hi\\\" \\u00e9 \\ud83d\\ude00 "
    "na\xc3\xafve "
    "\xe2\x82\xac\"},{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"c1\","
    "\"arguments\":{}}]},[],[false,[{}]]], \"a rather long key, of more than a block\" :\t1e5\r\n}";

static bool walk(struct json_reader *r)
{
    struct json_span text;
    bool flag;
    switch (json_peek(r)) {
    case JSON_TYPE_OBJECT:
        if (!json_read_object(r)) {
            return false;
        }
        while (json_read_key(r, &text) && walk(r)) {
        }
        return r->error == NULL;
    case JSON_TYPE_ARRAY:
        if (!json_read_array(r)) {
            return false;
        }
        while (json_read_element(r) && walk(r)) {
        }
        return r->error == NULL;
    case JSON_TYPE_STRING:
        return json_read_string(r, &text);
    case JSON_TYPE_TRUE:
    case JSON_TYPE_FALSE:
        return json_read_bool(r, &flag);
    case JSON_TYPE_NULL:
        return json_read_null(r);
    case JSON_TYPE_NUMBER:
    case JSON_TYPE_INVALID:
        break;
    }
    return json_skip_value(r, NULL);
}

/* The error, or NULL: the same however the input lies in memory and whether it is skipped or read.
 */
static const char *verdict(char *guarded, const char *bytes, size_t size)
{
    assert_in_range(size, 0, GUARD_BYTES);
    char *const places[] = {
        memcpy(guarded, bytes, size),
        memcpy(guarded + GUARD_BYTES - size, bytes, size),
    };
    const char *errors[4] = {0};
    size_t offsets[4] = {0};
    for (size_t i = 0; i < COUNT_OF(errors); i++) {
        /* The first place again, which the second copy may have overwritten in part. */
        char *place = places[i % 2];
        memcpy(place, bytes, size);
        struct json_reader r = json_reader_on(place, size);
        bool is_good = i < 2 ? json_skip_value(&r, NULL) : walk(&r);
        is_good = json_read_end(&r) && is_good;
        assert_int_equal(is_good, r.error == NULL);
        errors[i] = r.error;
        offsets[i] = (size_t)(r.at - r.start);
        assert_in_range(offsets[i], 0, size);
    }
    for (size_t i = 1; i < COUNT_OF(errors); i++) {
        if ((errors[i] == NULL) != (errors[0] == NULL) || offsets[i] != offsets[0]) {
            fail_msg("\"%.*s\": \"%s\" at %zu, or \"%s\" at %zu", (int)size, bytes,
                     errors[0] ? errors[0] : "good", offsets[0], errors[i] ? errors[i] : "good",
                     offsets[i]);
        }
    }
    return errors[0];
}

static void expect_agreement(char *guarded, const char *bytes, size_t size)
{
    const char *error = verdict(guarded, bytes, size);
    /* To jansson a NUL between tokens is the end of the input. It is legal nowhere. */
    if (memchr(bytes, '\0', size) != NULL) {
        assert_non_null(error);
        return;
    }
    json_error_t why;
    json_t *theirs = json_loadb(bytes, size, JSON_DECODE_ANY | JSON_ALLOW_NUL, &why);
    const bool is_theirs = theirs != NULL;
    json_decref(theirs);
    /* jansson keeps numbers and has no keys with a NUL: it refuses what is only too much for it. */
    if (!is_theirs && (json_error_code(&why) == json_error_numeric_overflow ||
                       json_error_code(&why) == json_error_null_byte_in_key)) {
        return;
    }
    if (is_theirs != (error == NULL)) {
        fail_msg("\"%.*s\": %s here, %s in jansson", (int)size, bytes, error ? error : "good",
                 is_theirs ? "good" : why.text);
    }
}

static void good_documents_are_accepted(void **state)
{
    static const struct input good[] = {
        {BYTES_OF("0")},
        {BYTES_OF("-0")},
        {BYTES_OF("-1")},
        {BYTES_OF("1e5")},
        {BYTES_OF("1E+5")},
        {BYTES_OF("0.5e-7")},
        {BYTES_OF("1234567890123456789012345678901234567890")},
        {BYTES_OF("1e999999999999999999999")},
        {BYTES_OF("true")},
        {BYTES_OF("false")},
        {BYTES_OF("null")},
        {BYTES_OF("\"\"")},
        {BYTES_OF("[]")},
        {BYTES_OF("{}")},
        {BYTES_OF(" \t\r\n[ 1 , 2 ] \n")},
        {BYTES_OF("{\"a\":1,\"a\":2,\"\":3}")},
        {BYTES_OF("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0000\\uABCD\\uabcd\"")},
        {BYTES_OF("\"\\ud800\\udc00\\uDBFF\\uDFFF\"")},
        {BYTES_OF("\"\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf\"")},
        {BYTES_OF("\"\xf0\x90\x80\x80\xf4\x8f\xbf\xbf\"")},
        {BYTES_OF(document)},
    };
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        const char *error = verdict(*state, good[i].bytes, good[i].size);
        if (error != NULL) {
            fail_msg("\"%s\" is refused: %s", good[i].bytes, error);
        }
        expect_agreement(*state, good[i].bytes, good[i].size);
    }
}

/* Everything but strings. */
static const struct input bad_syntax[] = {
    {BYTES_OF("")},          {BYTES_OF(" ")},         {BYTES_OF("\0")},
    {BYTES_OF("1\0")},       {BYTES_OF("[1]\0")},     {BYTES_OF("\xef\xbb\xbf[]")},
    {BYTES_OF("-")},         {BYTES_OF("+1")},        {BYTES_OF("01")},
    {BYTES_OF("-01")},       {BYTES_OF("00")},        {BYTES_OF("1.")},
    {BYTES_OF(".5")},        {BYTES_OF("1.e5")},      {BYTES_OF("1e")},
    {BYTES_OF("1e+")},       {BYTES_OF("1e5.0")},     {BYTES_OF("0x10")},
    {BYTES_OF("1 2")},       {BYTES_OF("--1")},       {BYTES_OF("NaN")},
    {BYTES_OF("Infinity")},  {BYTES_OF("tru")},       {BYTES_OF("truee")},
    {BYTES_OF("True")},      {BYTES_OF("nul")},       {BYTES_OF("fals")},
    {BYTES_OF("[")},         {BYTES_OF("]")},         {BYTES_OF("[1,]")},
    {BYTES_OF("[,1]")},      {BYTES_OF("[1 2]")},     {BYTES_OF("[1}")},
    {BYTES_OF("[]]")},       {BYTES_OF("{")},         {BYTES_OF("{]")},
    {BYTES_OF("{\"a\"}")},   {BYTES_OF("{\"a\":}")},  {BYTES_OF("{\"a\":1,}")},
    {BYTES_OF("{,}")},       {BYTES_OF("{a:1}")},     {BYTES_OF("{1:1}")},
    {BYTES_OF("{\"a\",1}")}, {BYTES_OF("{\"a\":1]")}, {BYTES_OF("{\"a\":1 \"b\":2}")},
    {BYTES_OF("[1],")},      {BYTES_OF("//\n1")},     {BYTES_OF("'a'")},
    {BYTES_OF("[\v1]")},     {BYTES_OF("[1]\f")},     {BYTES_OF("[1]\xc2\xa0")}};

/* Ends, escapes and control characters. */
static const struct input bad_text[] = {
    {BYTES_OF("\"")},        {BYTES_OF("\"a")},      {BYTES_OF("\"\\\"")},
    {BYTES_OF("\"\\")},      {BYTES_OF("\"\\a\"")},  {BYTES_OF("\"\\u\"")},
    {BYTES_OF("\"\\u12\"")}, {BYTES_OF("\"\\ug\"")}, {BYTES_OF("\"\\u123g\"")},
    {BYTES_OF("\"\0\"")},    {BYTES_OF("\"\n\"")},   {BYTES_OF("\"\x1f\"")}};

/* Alone, in the wrong order, twice the first, cut short. */
static const struct input bad_surrogates[] = {
    {BYTES_OF("\"\\ud800\"")},        {BYTES_OF("\"\\udc00\"")},
    {BYTES_OF("\"\\udc00\\ud800\"")}, {BYTES_OF("\"\\ud800\\ud800\"")},
    {BYTES_OF("\"\\ud800\\u0041\"")}, {BYTES_OF("\"\\ud800\\n12345\"")},
    {BYTES_OF("\"\\ud800\\udc0\"")},  {BYTES_OF("\"\\udc00\\udc00\"")},
    {BYTES_OF("\"\\udfff\\udfff\"")}, {BYTES_OF("\"\\ud800\\udbff\"")},
    {BYTES_OF("\"\\udbff\\ue000\"")}};

/* Alone, overlong, surrogates, beyond the last character, cut short. */
static const struct input bad_utf8[] = {{BYTES_OF("\"\x80\"")},
                                        {BYTES_OF("\"\xbf\"")},
                                        {BYTES_OF("\"\xc0\xaf\"")},
                                        {BYTES_OF("\"\xc1\xbf\"")},
                                        {BYTES_OF("\"\xe0\x9f\xbf\"")},
                                        {BYTES_OF("\"\xf0\x8f\xbf\xbf\"")},
                                        {BYTES_OF("\"\xed\xa0\x80\"")},
                                        {BYTES_OF("\"\xed\xbf\xbf\"")},
                                        {BYTES_OF("\"\xf4\x90\x80\x80\"")},
                                        {BYTES_OF("\"\xf5\x80\x80\x80\"")},
                                        {BYTES_OF("\"\xff\"")},
                                        {BYTES_OF("\"\xc2\"")},
                                        {BYTES_OF("\"\xe2\x82\"")},
                                        {BYTES_OF("\"\xf0\x9f\x98\"")},
                                        {BYTES_OF("\"\xe2\x82")},
                                        {BYTES_OF("\"\xe2\x28\xa1\"")},
                                        {BYTES_OF("\"\xf0\x9f\x28\xa1\"")},
                                        {BYTES_OF("\xc3\xa9")}};

static void expect_refusal(char *guarded, const struct input *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (verdict(guarded, cases[i].bytes, cases[i].size) == NULL) {
            fail_msg("case %zu, \"%s\", is accepted", i, cases[i].bytes);
        }
        expect_agreement(guarded, cases[i].bytes, cases[i].size);
    }
}

static void bad_documents_are_refused(void **state)
{
    expect_refusal(*state, bad_syntax, COUNT_OF(bad_syntax));
    expect_refusal(*state, bad_text, COUNT_OF(bad_text));
    expect_refusal(*state, bad_surrogates, COUNT_OF(bad_surrogates));
    expect_refusal(*state, bad_utf8, COUNT_OF(bad_utf8));
}

static void truncated_documents_are_refused(void **state)
{
    const char *end = strrchr(document, '}');
    for (size_t size = 0; size <= (size_t)(end - document); size++) {
        assert_non_null(verdict(*state, document, size));
    }
}

static void changed_documents_are_judged_as_jansson_does(void **state)
{
    char text[sizeof(document)];
    memcpy(text, document, sizeof(text));
    for (size_t i = 0; i < sizeof(text) - 1; i++) {
        for (int byte = 0; byte < 256; byte++) {
            text[i] = (char)byte;
            expect_agreement(*state, text, sizeof(text) - 1);
        }
        text[i] = document[i];
    }
}

/* Every kind of byte at every place of strings of every length: block edges, tails, short rests. */
static void strings_are_scanned_at_any_length(void **state)
{
    static const struct input marks[] = {
        {BYTES_OF("a")},        {BYTES_OF("\\n")},
        {BYTES_OF("\x01")},     {BYTES_OF("\x7f")},
        {BYTES_OF("\xc3\xa9")}, {BYTES_OF("\xe2\x82\xac")},
        {BYTES_OF("\xc3")},     {BYTES_OF("\\ud83d\\ude00")},
        {BYTES_OF("\\")},
    };
    char text[128];
    for (size_t length = 0; length < 50; length++) {
        for (size_t place = 0; place <= length; place++) {
            for (size_t i = 0; i < COUNT_OF(marks); i++) {
                const size_t size = length + marks[i].size;
                memset(text, 'x', sizeof(text));
                text[0] = '"';
                memcpy(text + 1 + place, marks[i].bytes, marks[i].size);
                text[1 + size] = '"';
                expect_agreement(*state, text, size + 2);
                expect_agreement(*state, text, size + 1);
                struct json_reader r = json_reader_on(text, size + 2);
                struct json_span span;
                if (json_read_string(&r, &span)) {
                    assert_ptr_equal(span.bytes, text + 1);
                    assert_int_equal(span.size, size);
                    assert_int_equal(span.has_escapes, memchr(text, '\\', size) != NULL);
                }
            }
        }
    }
}

static void every_character_is_accepted(void **state)
{
    for (uint32_t code = 0x80; code <= 0x10ffff; code++) {
        char text[8] = "\"";
        size_t size = 1;
        if (code < 0x800) {
            text[size++] = (char)(0xc0 | code >> 6);
        } else if (code < 0x10000) {
            text[size++] = (char)(0xe0 | code >> 12);
            text[size++] = (char)(0x80 | (code >> 6 & 63));
        } else {
            text[size++] = (char)(0xf0 | code >> 18);
            text[size++] = (char)(0x80 | (code >> 12 & 63));
            text[size++] = (char)(0x80 | (code >> 6 & 63));
        }
        text[size++] = (char)(0x80 | (code & 63));
        text[size++] = '"';
        struct json_reader r = json_reader_on(text, size);
        const bool is_surrogate = code >= 0xd800 && code <= 0xdfff;
        assert_int_equal(json_skip_value(&r, NULL), !is_surrogate);
    }
    (void)state; /* cmocka's, not needed here */
}

static void nesting_is_bounded(void **state)
{
    char text[2 * JSON_DEPTH_MAX * 5 + 8];
    for (size_t depth = JSON_DEPTH_MAX; depth <= JSON_DEPTH_MAX + 1; depth++) {
        for (int kind = 0; kind < 3; kind++) {
            size_t size = 0;
            for (size_t i = 0; i < depth; i++) {
                const bool is_object = kind == 1 || (kind == 2 && i % 3 == 1);
                const char *open = !is_object ? "[" : i + 1 == depth ? "{" : "{\"k\":";
                size = (size_t)(stpcpy(text + size, open) - text);
            }
            for (size_t i = depth; i-- > 0;) {
                text[size++] = kind == 1 || (kind == 2 && i % 3 == 1) ? '}' : ']';
            }
            const char *error = verdict(*state, text, size);
            if (depth <= JSON_DEPTH_MAX) {
                assert_null(error);
            } else {
                assert_string_equal(error, "JSON nested too deeply");
            }
        }
    }
    char *deep = *state;
    memset(deep, '[', GUARD_BYTES);
    struct json_reader r = json_reader_on(deep, GUARD_BYTES);
    assert_false(json_skip_value(&r, NULL));
    assert_int_equal(r.at - r.start, JSON_DEPTH_MAX);
}

static int guard_setup(void **state)
{
    char *pages =
        mmap(NULL, 3 * (size_t)GUARD_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) {
        return -1;
    }
    *state = pages + GUARD_BYTES;
    return mprotect(*state, GUARD_BYTES, PROT_READ | PROT_WRITE);
}

static int guard_teardown(void **state)
{
    return munmap((char *)*state - GUARD_BYTES, 3 * (size_t)GUARD_BYTES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_documents_are_accepted),
        cmocka_unit_test(bad_documents_are_refused),
        cmocka_unit_test(truncated_documents_are_refused),
        cmocka_unit_test(changed_documents_are_judged_as_jansson_does),
        cmocka_unit_test(strings_are_scanned_at_any_length),
        cmocka_unit_test(every_character_is_accepted),
        cmocka_unit_test(nesting_is_bounded),
    };
    return cmocka_run_group_tests_name("json_read, the grammar", tests, guard_setup,
                                       guard_teardown);
}
