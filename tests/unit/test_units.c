/* units: what is read, what is refused and in which words, and what is written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/prng.h"
#include "engine/base/units.h"

#define MINUTE_NS (60 * NS_PER_S)
#define HOUR_NS (3600 * NS_PER_S)
#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

typedef int (*parser)(const char *text, uint64_t *value, struct errmsg *why);

struct good {
    const char *text;
    uint64_t value;
};

struct bad {
    const char *text;
    int error;
    const char *why;
};

static void expect_good(parser parse, const struct good *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t value = 12345;
        struct errmsg why = {""};
        if (parse(cases[i].text, &value, &why) != 0)
            fail_msg("\"%s\" is refused: %s", cases[i].text, why.text);
        if (value != cases[i].value)
            fail_msg("\"%s\" is %ju, not %ju", cases[i].text, (uintmax_t)value,
                     (uintmax_t)cases[i].value);
    }
}

static void expect_bad(parser parse, const struct bad *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t value = 12345;
        struct errmsg why = {""};
        int error = parse(cases[i].text, &value, &why);
        if (error != cases[i].error)
            fail_msg("\"%s\" gives %d, not %d", cases[i].text, error, cases[i].error);
        assert_string_equal(why.text, cases[i].why);
        assert_int_equal(value, 12345); /* untouched */
        assert_int_equal(parse(cases[i].text, &value, NULL), error);
    }
}

static void counts_are_read(void **state)
{
    (void)state;
    static const struct good cases[] = {
        {"0", 0},
        {"1", 1},
        {"007", 7},
        {"20000", 20000},
        {"20k", 20000},
        {"1.5m", 1500000},
        {"1.5k", 1500},
        {".5k", 500},
        {"3.0", 3},
        {"0.001k", 1},
        {"1.000000000000000000000000", 1}, /* lost digits that are all 0 */
        {"18446744073709551615", UINT64_MAX},
        {"18446744073709.551615m", UINT64_MAX},
    };
    expect_good(units_parse_count, cases, COUNT_OF(cases));
}

static void bad_counts_are_refused(void **state)
{
    (void)state;
#define MUST "must be a count such as 5000 or 20k, got "
#define SUFFIX ": only k (thousands) or m (millions) may follow the number"
#define POINT ": no digit follows the point"
    static const struct bad cases[] = {
        {"", -EINVAL, MUST "\"\": it is empty"},
        {" 5", -EINVAL, MUST "\" 5\""},
        {"5 ", -EINVAL, MUST "\"5 \"" SUFFIX},
        {"+5", -EINVAL, MUST "\"+5\""},
        {"-5", -EINVAL, "must not be negative, got \"-5\""},
        {"-.5k", -EINVAL, "must not be negative, got \"-.5k\""},
        {"-x", -EINVAL, MUST "\"-x\""},
        {"nan", -EINVAL, MUST "\"nan\""},
        {"inf", -EINVAL, MUST "\"inf\""},
        {".", -EINVAL, MUST "\".\""},
        {"k", -EINVAL, MUST "\"k\""},
        {"0x10", -EINVAL, MUST "\"0x10\"" SUFFIX},
        {"1e3", -EINVAL, MUST "\"1e3\"" SUFFIX},
        {"1,000", -EINVAL, MUST "\"1,000\"" SUFFIX},
        {"5K", -EINVAL, MUST "\"5K\"" SUFFIX},
        {"5kk", -EINVAL, MUST "\"5kk\"" SUFFIX},
        {"5k1", -EINVAL, MUST "\"5k1\"" SUFFIX},
        {"1.2.3", -EINVAL, MUST "\"1.2.3\"" SUFFIX},
        {"1.", -EINVAL, MUST "\"1.\"" POINT},
        {"1.k", -EINVAL, MUST "\"1.k\"" POINT},
        {"5\n", -EINVAL, MUST "\"5?\"" SUFFIX},
        {"1.5", -EINVAL, MUST "\"1.5\": it is not a whole number"},
        {"1.0001k", -EINVAL, MUST "\"1.0001k\": it is not a whole number"},
        {"1.0000000000000000001", -EINVAL,
         MUST "\"1.0000000000000000001\": it is not a whole number"},
        {"18446744073709551616", -ERANGE,
         "must be at most 18446744073709551615, got \"18446744073709551616\""},
        {"18446744073709551620", -ERANGE,
         "must be at most 18446744073709551615, got \"18446744073709551620\""},
        {"18446744073709551616k", -ERANGE,
         "must be at most 18446744073709551615, got \"18446744073709551616k\""},
        {"18446744073709.551616m", -ERANGE,
         "must be at most 18446744073709551615, got \"18446744073709.551616m\""},
        {"99999999999999999999999999999999999999999", -ERANGE,
         "must be at most 18446744073709551615, got \"99999999999999999999999999999999999999999\""},
    };
#undef MUST
#undef SUFFIX
#undef POINT
    expect_bad(units_parse_count, cases, COUNT_OF(cases));
}

static void durations_are_read(void **state)
{
    (void)state;
    static const struct good cases[] = {
        {"0", 0},
        {"0s", 0},
        {"1ns", 1},
        {"250us", 250 * NS_PER_US},
        {"250\u00b5s", 250 * NS_PER_US}, /* the micro sign */
        {"250\u03bcs", 250 * NS_PER_US}, /* the Greek letter */
        {"50ms", 50 * NS_PER_MS},
        {"1.5s", 1500 * NS_PER_MS},
        {".5s", 500 * NS_PER_MS},
        {"1.s", NS_PER_S},
        {"1m30s", 90 * NS_PER_S},
        {"1m1m", 120 * NS_PER_S},
        {"1h0.5m", HOUR_NS + 30 * NS_PER_S},
        {"1h2m3s4ms5us6ns",
         HOUR_NS + 2 * MINUTE_NS + 3 * NS_PER_S + 4 * NS_PER_MS + 5 * NS_PER_US + 6},
        {"0.0ns", 0},
        {"1ms0.5ns", NS_PER_MS}, /* finer than 1 ns is cut off, when something is left */
        {"1.9999999999ms", 1999999},
        {"0.333333333333333333333333333h", 1199999999999},
        {"24h", NS_MAX_DURATION},
        {"23h59m60s", NS_MAX_DURATION},
        {"86400000000000ns", NS_MAX_DURATION},
    };
    expect_good(units_parse_duration, cases, COUNT_OF(cases));
}

static void bad_durations_are_refused(void **state)
{
    (void)state;
#define MUST "must be a duration such as 50ms, got "
#define KNOWN " (known: ns, us, ms, s, m, h)"
    static const struct bad cases[] = {
        {"", -EINVAL, MUST "\"\": it is empty"},
        {"50", -EINVAL, MUST "\"50\": the unit is missing"},
        {"0.0", -EINVAL, MUST "\"0.0\": the unit is missing"},
        {"00", -EINVAL, MUST "\"00\": the unit is missing"},
        {"1m30", -EINVAL, MUST "\"1m30\": the unit is missing"},
        {"-50ms", -EINVAL, "must not be negative, got \"-50ms\""},
        {"-0", -EINVAL, "must not be negative, got \"-0\""},
        {"+50ms", -EINVAL, MUST "\"+50ms\""},
        {" 50ms", -EINVAL, MUST "\" 50ms\""},
        {"50 ms", -EINVAL, MUST "\"50 ms\": unknown unit \" ms\"" KNOWN},
        {"50ms ", -EINVAL, MUST "\"50ms \": unknown unit \"ms \"" KNOWN},
        {"ms", -EINVAL, MUST "\"ms\""},
        {".ms", -EINVAL, MUST "\".ms\""},
        {"1s.", -EINVAL, MUST "\"1s.\""},
        {"1..5s", -EINVAL, MUST "\"1..5s\""},
        {"1.2.3s", -EINVAL, MUST "\"1.2.3s\""},
        {"50MS", -EINVAL, MUST "\"50MS\": unknown unit \"MS\"" KNOWN},
        {"1d", -EINVAL, MUST "\"1d\": unknown unit \"d\"" KNOWN},
        {"1m-30s", -EINVAL, MUST "\"1m-30s\": unknown unit \"m-\"" KNOWN},
        {"1e999", -EINVAL, MUST "\"1e999\": unknown unit \"e\"" KNOWN},
        {"0x10s", -EINVAL, MUST "\"0x10s\": unknown unit \"x\"" KNOWN},
        {"1\xb5s", -EINVAL, MUST "\"1?s\": unknown unit \"?s\"" KNOWN}, /* Latin-1, not UTF-8 */
        {"nan", -EINVAL, MUST "\"nan\""},
        {"inf", -EINVAL, MUST "\"inf\""},
        {"0.9ns", -EINVAL, "must be at least 1ns, got \"0.9ns\""},
        {"0.0001us", -EINVAL, "must be at least 1ns, got \"0.0001us\""},
        {"0.5ns0.5ns", -EINVAL, "must be at least 1ns, got \"0.5ns0.5ns\""},
        {"0.00000000000000000001s", -EINVAL,
         "must be at least 1ns, got \"0.00000000000000000001s\""},
        {"24h1ns", -ERANGE, "must be at most 24h, got \"24h1ns\""},
        {"25h", -ERANGE, "must be at most 24h, got \"25h\""},
        {"18446744073709551617ns", -ERANGE, "must be at most 24h, got \"18446744073709551617ns\""},
        {"18446744073709551615h", -ERANGE, "must be at most 24h, got \"18446744073709551615h\""},
        {"12h12h12h", -ERANGE, "must be at most 24h, got \"12h12h12h\""},
    };
#undef MUST
#undef KNOWN
    expect_bad(units_parse_duration, cases, COUNT_OF(cases));
}

static void sizes_are_read(void **state)
{
    (void)state;
    static const struct good cases[] = {
        {"0", 0},
        {"0B", 0},
        {"17B", 17},
        {"2KB", 2000},
        {"2KiB", 2048},
        {"1.5KiB", 1536},
        {"0.3KiB", 307}, /* finer than a byte is cut off */
        {"3MB", 3000000},
        {"16MiB", 16 << 20},
        {"1GB", 1000000000},
        {"1GiB", 1 << 30},
        {"8388608GiB", UNITS_BYTES_MAX},
    };
    expect_good(units_parse_bytes, cases, COUNT_OF(cases));
}

static void bad_sizes_are_refused(void **state)
{
    (void)state;
#define MUST "must be a size such as 2KB, got "
#define KNOWN " (known: B, KB, MB, GB, KiB, MiB, GiB)"
    static const struct bad cases[] = {
        {"", -EINVAL, MUST "\"\": it is empty"},
        {"2048", -EINVAL, MUST "\"2048\": the unit is missing"},
        {"-1B", -EINVAL, "must not be negative, got \"-1B\""},
        {"2kb", -EINVAL, MUST "\"2kb\": unknown unit \"kb\"" KNOWN},
        {"2K", -EINVAL, MUST "\"2K\": unknown unit \"K\"" KNOWN},
        {"2KBx", -EINVAL, MUST "\"2KBx\": unknown unit \"KBx\"" KNOWN},
        {"2KB3B", -EINVAL, MUST "\"2KB3B\": something follows the unit"},
        {"1.5KB.", -EINVAL, MUST "\"1.5KB.\": something follows the unit"},
        {"1.B", -EINVAL, MUST "\"1.B\": no digit follows the point"},
        {"0.9B", -EINVAL, "must be at least 1B, got \"0.9B\""},
        {"0.0000001KiB", -EINVAL, "must be at least 1B, got \"0.0000001KiB\""},
        {"1.2.3B", -EINVAL, MUST "\"1.2.3B\""},
        {"KB", -EINVAL, MUST "\"KB\""},
        {"8388608.0001GiB", -ERANGE, "must be at most 8388608GiB, got \"8388608.0001GiB\""},
        {"9007199254740993B", -ERANGE, "must be at most 8388608GiB, got \"9007199254740993B\""},
        {"99999999999999999999999GiB", -ERANGE,
         "must be at most 8388608GiB, got \"99999999999999999999999GiB\""},
    };
#undef MUST
#undef KNOWN
    expect_bad(units_parse_bytes, cases, COUNT_OF(cases));
}

/* What a person typed is quoted in short, and never cut within a character. */
static void long_texts_are_quoted_in_short(void **state)
{
    (void)state;
    char text[10001];
    memset(text, '1', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    uint64_t value;
    struct errmsg why;
    assert_int_equal(units_parse_duration(text, &value, &why), -EINVAL);
    assert_non_null(strstr(why.text, "1…\": the unit is missing"));
    assert_true(strlen(why.text) < 200);

    for (size_t before = 76; before < 82; before++) {
        memset(text, '1', before);
        for (size_t i = before; i < 1000; i += 4)
            memcpy(text + i, "\U0001f600", 4);
        assert_int_equal(units_parse_count(text, &value, &why), -EINVAL);
        assert_non_null(strstr(why.text, "…\": only k"));
        assert_null(strchr(why.text, '?'));
    }
}

struct written {
    uint64_t value;
    const char *text;
};

static void durations_are_written_for_reading(void **state)
{
    (void)state;
    static const struct written cases[] = {
        {0, "0s"},
        {1, "1ns"},
        {999, "999ns"},
        {1000, "1µs"},
        {1049, "1µs"},
        {1050, "1.1µs"},
        {1234, "1.2µs"},
        {9949, "9.9µs"},
        {41000, "41µs"},
        {999949, "999.9µs"},
        {999950, "1ms"}, /* rounding comes before the choice of the unit */
        {100100000, "100.1ms"},
        {103000000, "103ms"},
        {999949999, "999.9ms"},
        {999950000, "1s"},
        {1500 * NS_PER_MS, "1.5s"},
        {59949 * NS_PER_MS, "59.9s"},
        {59950 * NS_PER_MS, "1m"},
        {90 * NS_PER_S, "1m30s"},
        {119500 * NS_PER_MS, "2m"},
        {HOUR_NS - NS_PER_S, "59m59s"},
        {HOUR_NS - NS_PER_S / 2, "1h"},
        {2 * HOUR_NS + 5 * MINUTE_NS, "2h5m"},
        {2 * HOUR_NS + 5 * MINUTE_NS + 29 * NS_PER_S, "2h5m"},
        {2 * HOUR_NS + 5 * MINUTE_NS + 30 * NS_PER_S, "2h6m"},
        {3 * HOUR_NS - 30 * NS_PER_S, "3h"},
        {NS_MAX_DURATION, "24h"},
        {UINT64_MAX, "5124095h35m"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char text[UNITS_TEXT_BYTES];
        assert_ptr_equal(units_format_duration(cases[i].value, text), text);
        assert_string_equal(text, cases[i].text);
    }
}

static void durations_are_written_exactly(void **state)
{
    (void)state;
    static const struct written cases[] = {
        {0, "0s"},
        {7, "7ns"},
        {1001, "1.001us"},
        {250 * NS_PER_US, "250us"},
        {50 * NS_PER_MS, "50ms"},
        {999999999, "999.999999ms"},
        {NS_PER_S, "1s"},
        {1500 * NS_PER_MS, "1.5s"},
        {10 * NS_PER_S, "10s"},
        {NS_PER_S + 1, "1.000000001s"},
        {MINUTE_NS, "1m"},
        {90 * NS_PER_S, "1m30s"},
        {HOUR_NS, "1h"},
        {HOUR_NS + 1, "1h0.000000001s"},
        {NS_MAX_DURATION, "24h"},
        {UINT64_MAX, "5124095h34m33.709551615s"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char text[UNITS_TEXT_BYTES];
        assert_ptr_equal(units_format_duration_exact(cases[i].value, text), text);
        assert_string_equal(text, cases[i].text);
    }
}

static void exact_durations_are_read_back(void **state)
{
    (void)state;
    struct prng p = prng_stream(1, 0, PRNG_TEST, 0);
    for (int i = 0; i < 100000; i++) {
        /* Every magnitude, not only the largest. */
        uint64_t value = prng_below(&p, NS_MAX_DURATION + 1) >> prng_below(&p, 47);
        char text[UNITS_TEXT_BYTES];
        uint64_t back = UINT64_MAX;
        (void)units_format_duration_exact(value, text);
        assert_int_equal(units_parse_duration(text, &back, NULL), 0);
        assert_int_equal(back, value);
    }
}

static void megabytes_are_written(void **state)
{
    (void)state;
    static const struct {
        int64_t value;
        const char *text;
    } cases[] = {
        {0, "0.0 MB"},
        {49999, "0.0 MB"},
        {-49999, "0.0 MB"},
        {50000, "0.1 MB"},
        {-50000, "-0.1 MB"},
        {12300000, "12.3 MB"},
        {-1950000, "-2.0 MB"},
        {INT64_MAX, "9223372036854.8 MB"},
        {INT64_MIN, "-9223372036854.8 MB"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char text[UNITS_TEXT_BYTES];
        assert_ptr_equal(units_format_megabytes(cases[i].value, text), text);
        assert_string_equal(text, cases[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_are_read),
        cmocka_unit_test(bad_counts_are_refused),
        cmocka_unit_test(durations_are_read),
        cmocka_unit_test(bad_durations_are_refused),
        cmocka_unit_test(sizes_are_read),
        cmocka_unit_test(bad_sizes_are_refused),
        cmocka_unit_test(long_texts_are_quoted_in_short),
        cmocka_unit_test(durations_are_written_for_reading),
        cmocka_unit_test(durations_are_written_exactly),
        cmocka_unit_test(exact_durations_are_read_back),
        cmocka_unit_test(megabytes_are_written),
    };
    return cmocka_run_group_tests_name("units", tests, NULL, NULL);
}
