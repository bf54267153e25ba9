/* json_read: what each call reads and refuses, how errors stick, and what escapes mean. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/json_read.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static struct json_reader reader_of(const char *text)
{
    return json_reader_on(text, strlen(text));
}

static void expect_error(const struct json_reader *r, const char *reason, size_t offset)
{
    assert_non_null(r->error);
    assert_string_equal(r->error, reason);
    assert_int_equal(r->at - r->start, offset);
}

static void a_request_is_read(void **state)
{
    struct json_reader r =
        reader_of("{ \"run\" : 7, \"roles\":[\"user\",\"tool\"], \"skipped\":{\"a\":"
                  "[1,{\"b\":null}]},\"ok\":true,\"none\":null,\"list\":[ ] } ");
    struct json_span key;
    struct json_span text;
    struct json_span skipped = {0};
    uint64_t run = 0;
    bool is_ok = false;
    int nulls = 0;
    size_t roles = 0;
    assert_true(json_read_object(&r));
    while (json_read_key(&r, &key)) {
        if (json_span_is(&key, "run")) {
            assert_true(json_read_u64(&r, &run));
        } else if (json_span_is(&key, "roles")) {
            assert_true(json_read_array(&r));
            for (; json_read_element(&r); roles++) {
                assert_true(json_read_string(&r, &text));
                assert_true(roles == 0 ? json_span_is(&text, "user") : json_span_is(&text, "tool"));
            }
        } else if (json_span_is(&key, "ok")) {
            assert_true(json_read_bool(&r, &is_ok));
        } else if (json_span_is(&key, "none")) {
            nulls += json_read_null(&r);
        } else if (json_span_is(&key, "list")) {
            assert_true(json_read_array(&r));
            assert_false(json_read_element(&r));
        } else {
            assert_true(json_span_is(&key, "skipped"));
            assert_true(json_skip_value(&r, &skipped));
        }
    }
    assert_true(json_read_end(&r));
    assert_null(r.error);
    assert_int_equal(run, 7);
    assert_int_equal(roles, 2);
    assert_true(is_ok);
    assert_int_equal(nulls, 1);
    assert_true(json_span_is(&skipped, "{\"a\":[1,{\"b\":null}]}"));
    (void)state; /* cmocka's, not needed here, as in all tests below */
}

static void types_are_told_from_the_first_byte(void **state)
{
    static const struct {
        const char *text;
        enum json_type type;
    } cases[] = {
        {"{", JSON_TYPE_OBJECT},  {" [", JSON_TYPE_ARRAY},  {"\n\"", JSON_TYPE_STRING},
        {"0", JSON_TYPE_NUMBER},  {"-", JSON_TYPE_NUMBER},  {"t", JSON_TYPE_TRUE},
        {"f", JSON_TYPE_FALSE},   {"n", JSON_TYPE_NULL},    {"", JSON_TYPE_INVALID},
        {" ", JSON_TYPE_INVALID}, {"}", JSON_TYPE_INVALID}, {"x", JSON_TYPE_INVALID},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct json_reader r = reader_of(cases[i].text);
        assert_int_equal(json_peek(&r), cases[i].type);
        assert_null(r.error);
        assert_false(json_fail(&r, "refused"));
        assert_int_equal(json_peek(&r), JSON_TYPE_INVALID);
    }
    struct json_reader nothing = json_reader_on(NULL, 0);
    assert_int_equal(json_peek(&nothing), JSON_TYPE_INVALID);
    assert_false(json_read_end(&nothing));
    (void)state;
}

static void whole_numbers_are_read_to_the_last(void **state)
{
    static const struct {
        const char *text;
        uint64_t value;
    } good[] = {
        {"0", 0},
        {" 9,", 9},
        {"10]", 10},
        {"1844674407370955161", UINT64_MAX / 10},
        {"18446744073709551609", UINT64_MAX - 6},
        {"18446744073709551615", UINT64_MAX},
    };
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        struct json_reader r = reader_of(good[i].text);
        uint64_t value = 77;
        assert_true(json_read_u64(&r, &value));
        assert_int_equal(value, good[i].value);
    }
    static const char *const bad[] = {"",
                                      "-1",
                                      "-0",
                                      "1.0",
                                      "1e2",
                                      "1E2",
                                      "00",
                                      "01",
                                      "+1",
                                      "\"1\"",
                                      "18446744073709551616",
                                      "18446744073709551620",
                                      "99999999999999999999",
                                      "184467440737095516150",
                                      "null"};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct json_reader r = reader_of(bad[i]);
        uint64_t value = 77;
        assert_false(json_read_u64(&r, &value));
        assert_int_equal(value, 77);
        expect_error(&r, r.error, 0);
    }
    (void)state;
}

static void doubles_are_rounded_as_strtod_rounds(void **state)
{
    static const char *const good[] = {
        "0",
        "-0",
        "0.0",
        "1",
        "-1.5",
        "0.1",
        "3.141592653589793",
        "1e22",
        "1e23",
        "-1E-5",
        "0.000125",
        "1234567890.0987654321e-10",
        "9007199254740993",
        "2.2250738585072011e-308",
        "4.9e-324",
        "2e-324",
        "1e-999999999999999999999",
        "0e999999999999999999999",
        "1.7976931348623157e308",
        "123456789012345678901234567890",
        "8.5e+0",
        "100000000000000000000000e-20",
    };
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        struct json_reader r = reader_of(good[i]);
        double value = 77;
        const double want = strtod(good[i], NULL);
        assert_true(json_read_double(&r, &value));
        assert_memory_equal(&value, &want, sizeof(value));
        assert_true(json_read_end(&r));
    }
    static const char *const bad[] = {"1e309", "-1e309", "1e999999999999999999999",
                                      "",      "-",      "1.",
                                      "1e",    ".5",     "01",
                                      "true",  "NaN",    "-Infinity",
                                      "\"1\""};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct json_reader r = reader_of(bad[i]);
        double value = 77;
        assert_false(json_read_double(&r, &value));
        assert_true(value > 76 && value < 78);
        assert_non_null(r.error);
    }
    (void)state;
}

/* Halfway between two doubles, decided by a digit thousands of places on; zeros that only shift. */
static void long_numbers_are_rounded_by_their_last_digit(void **state)
{
    static char text[9000];
    for (int last = 0; last <= 1; last++) {
        const int size = snprintf(text, sizeof(text), "9007199254740993.%04000d%d", 0, last);
        struct json_reader r = json_reader_on(text, (size_t)size);
        double value = 0;
        assert_true(json_read_double(&r, &value));
        assert_true(value == (last == 0 ? 9007199254740992.0 : 9007199254740994.0));
    }
    int size = snprintf(text, sizeof(text), "0.%04000d125e4003", 0);
    struct json_reader r = json_reader_on(text, (size_t)size);
    double value = 0;
    assert_true(json_read_double(&r, &value));
    assert_true(value == 125.0);
    size = snprintf(text, sizeof(text), "125%04000de-4002", 0);
    r = json_reader_on(text, (size_t)size);
    assert_true(json_read_double(&r, &value));
    assert_true(value == 1.25);
    (void)state;
}

static void values_of_another_type_are_refused(void **state)
{
    struct json_span text;
    bool flag;
    struct json_reader r = reader_of(" 1");
    assert_false(json_read_object(&r));
    expect_error(&r, "expected an object", 1);
    r = reader_of("{}");
    assert_false(json_read_array(&r));
    expect_error(&r, "expected an array", 0);
    r = reader_of("nul");
    assert_false(json_read_string(&r, &text));
    expect_error(&r, "expected a string", 0);
    r = reader_of("nul");
    assert_false(json_read_null(&r));
    expect_error(&r, "expected null", 0);
    r = reader_of("falsy");
    assert_false(json_read_bool(&r, &flag));
    expect_error(&r, "expected true or false", 0);
    r = reader_of("\"a\\q\"");
    assert_false(json_read_string(&r, &text));
    expect_error(&r, "invalid escape in a string", 2);
    r = reader_of("\"\x01\"");
    assert_false(json_read_string(&r, &text));
    expect_error(&r, "control character in a string", 1);
    r = reader_of("\"abc\xff\"");
    assert_false(json_skip_value(&r, NULL));
    expect_error(&r, "invalid UTF-8 in a string", 4);
    (void)state;
}

static void the_first_error_sticks(void **state)
{
    struct json_reader r = reader_of("{\"a\":1,\"b\":[true],\"c\":\"d\"}");
    struct json_span span = {0};
    uint64_t number;
    double real;
    bool flag;
    assert_true(json_read_object(&r));
    assert_true(json_read_key(&r, &span));
    assert_true(json_read_u64(&r, &number));
    assert_false(json_fail(&r, "unknown role"));
    assert_false(json_fail(&r, "another"));
    assert_false(json_read_key(&r, &span));
    assert_false(json_read_element(&r));
    assert_false(json_read_object(&r));
    assert_false(json_read_array(&r));
    assert_false(json_read_string(&r, &span));
    assert_false(json_read_u64(&r, &number));
    assert_false(json_read_double(&r, &real));
    assert_false(json_read_bool(&r, &flag));
    assert_false(json_read_null(&r));
    assert_false(json_skip_value(&r, NULL));
    assert_false(json_read_end(&r));
    expect_error(&r, "unknown role", strlen("{\"a\":1"));

    r = reader_of("7");
    assert_true(json_read_u64(&r, &number));
    assert_false(json_fail(&r, "not seven"));
    assert_false(json_read_end(&r));
    expect_error(&r, "not seven", 1);

    r = reader_of("7");
    assert_false(json_read_object(&r));
    assert_false(json_read_key(&r, &span));
    assert_false(json_read_element(&r));
    expect_error(&r, "expected an object", 0);
    (void)state;
}

static void an_end_too_early_is_an_error(void **state)
{
    struct json_span key;
    struct json_reader r = reader_of("{\"a\":");
    assert_true(json_read_object(&r));
    assert_true(json_read_key(&r, &key));
    assert_false(json_read_end(&r));
    expect_error(&r, "unexpected end of JSON", 5);
    r = reader_of("{\"a\":1}");
    assert_true(json_read_object(&r));
    assert_false(json_read_end(&r));
    expect_error(&r, "text behind the JSON value", 1);
    r = reader_of("  ");
    assert_int_equal(json_peek(&r), JSON_TYPE_INVALID);
    assert_false(json_read_end(&r));
    (void)state;
}

static void escapes_mean_what_they_should(void **state)
{
    static const struct {
        const char *text;
        const char *meant;
        size_t size;
    } cases[] = {
        {"\"\"", "", 0},
        {"\"plain \xc3\xa9\"", "plain \xc3\xa9", 8},
        {"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t", 8},
        {"\"a\\nb\\\\n\"", "a\nb\\n", 5},
        {"\"\\u0000x\"", "\0x", 2},
        {"\"\\u007f\\u0080\\u07FF\"", "\x7f\xc2\x80\xdf\xbf", 5},
        {"\"\\u0800\\uffff\"", "\xe0\xa0\x80\xef\xbf\xbf", 6},
        {"\"\\ud800\\udc00\\uDBFF\\uDFFF.\"", "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf.", 9},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct json_reader r = reader_of(cases[i].text);
        struct json_span span;
        char meant[64];
        assert_true(json_read_string(&r, &span));
        assert_true(json_read_end(&r));
        assert_in_range(cases[i].size, 0, span.size);
        assert_int_equal(json_unescape(&span, meant), cases[i].size);
        assert_memory_equal(meant, cases[i].meant, cases[i].size);
    }
    struct json_reader r = reader_of("\"us\\u0065r\"");
    struct json_span span;
    assert_true(json_read_string(&r, &span));
    assert_false(json_span_is(&span, "us\\u0065r"));
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_is_read),
        cmocka_unit_test(types_are_told_from_the_first_byte),
        cmocka_unit_test(whole_numbers_are_read_to_the_last),
        cmocka_unit_test(doubles_are_rounded_as_strtod_rounds),
        cmocka_unit_test(long_numbers_are_rounded_by_their_last_digit),
        cmocka_unit_test(values_of_another_type_are_refused),
        cmocka_unit_test(the_first_error_sticks),
        cmocka_unit_test(an_end_too_early_is_an_error),
        cmocka_unit_test(escapes_mean_what_they_should),
    };
    return cmocka_run_group_tests_name("json_read", tests, NULL, NULL);
}
