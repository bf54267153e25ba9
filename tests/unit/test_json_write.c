/* json_write: what is written, that it reads back, and that not a byte goes beyond the buffer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/json_read.h"
#include "engine/base/json_write.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static void expect_u64(uint64_t value)
{
    char written[32];
    char want[32];
    const int size = snprintf(want, sizeof(want), "%" PRIu64, value);
    struct json_writer w = json_writer_on(written, (size_t)size);
    json_write_u64(&w, value);
    assert_true(json_write_ok(&w));
    assert_ptr_equal(w.at, written + size);
    assert_memory_equal(written, want, (size_t)size);
    w = json_writer_on(written, (size_t)size - 1);
    json_write_u64(&w, value);
    assert_false(json_write_ok(&w));
}

static void whole_numbers_are_written(void **state)
{
    for (uint64_t value = 0; value < 100000; value++) {
        expect_u64(value);
    }
    for (uint64_t power = 1;; power *= 10) {
        expect_u64(power - 1);
        expect_u64(power);
        expect_u64(power + 1);
        if (power > UINT64_MAX / 10) {
            break;
        }
    }
    for (int bit = 0; bit < 64; bit++) {
        expect_u64((UINT64_C(1) << bit) - 1);
        expect_u64(UINT64_C(1) << bit);
        expect_u64(UINT64_MAX >> bit);
    }
    (void)state; /* cmocka's, not needed here, as in all tests below */
}

static void digests_are_written_in_hex(void **state)
{
    uint64_t value = 0;
    for (int i = 0; i < 2000; i++) {
        char written[18];
        char want[32];
        (void)snprintf(want, sizeof(want), "\"%016" PRIx64 "\"", value); /* fits */
        struct json_writer w = json_writer_on(written, sizeof(written));
        json_write_hex64(&w, value);
        assert_true(json_write_ok(&w));
        assert_memory_equal(written, want, sizeof(written));
        w = json_writer_on(written, sizeof(written) - 1);
        json_write_hex64(&w, value);
        assert_false(json_write_ok(&w));
        value = i < 64 ? UINT64_C(0xf) << i : value * UINT64_C(6364136223846793005) + 1;
    }
    (void)state;
}

static void strings_are_escaped(void **state)
{
    static const struct {
        const char *text;
        size_t size;
        const char *want;
    } cases[] = {
        {"", 0, "\"\""},
        {"noop", 4, "\"noop\""},
        {"say \"hi\" \\ /", 12, "\"say \\\"hi\\\" \\\\ /\""},
        {"\b\f\n\r\t", 5, "\"\\b\\f\\n\\r\\t\""},
        {"\0\x01\x0b\x1f\x7f", 5, "\"\\u0000\\u0001\\u000b\\u001f\x7f\""},
        {"na\xc3\xafve \xe2\x82\xac \xf0\x9f\x98\x80", 15,
         "\"na\xc3\xafve \xe2\x82\xac \xf0\x9f\x98\x80\""},
        {"one line of more than a block\nand \"another\" one of as many", 58,
         "\"one line of more than a block\\nand \\\"another\\\" one of as many\""},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char written[128];
        struct json_writer w = json_writer_on(written, sizeof(written));
        json_write_string(&w, cases[i].text, cases[i].size);
        assert_true(json_write_ok(&w));
        assert_int_equal(w.at - written, strlen(cases[i].want));
        assert_memory_equal(written, cases[i].want, strlen(cases[i].want));
    }
    (void)state;
}

/* Any text of any length into a buffer of any size: whole and read back as it was, or refused. The
 * buffers are heap blocks of that size, so that a sanitizer sees what goes beyond. */
static void strings_are_read_back_or_do_not_fit(void **state)
{
    uint64_t seed = 1;
    for (size_t size = 0; size < 80; size++) {
        char text[80];
        for (uint32_t kind = 0; kind < 6; kind++) {
            for (size_t i = 0; i < size; i++) {
                seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
                const uint32_t random = (uint32_t)(seed >> 40);
                const bool is_odd = kind > 0 && random % (kind + 1) == 0;
                text[i] = is_odd ? (char)(random >> 8 & 0x7f) : 'a';
            }
            size_t need = 2;
            for (size_t i = 0; i < size; i++) {
                const char c = text[i];
                const bool is_short =
                    c == '"' || c == '\\' || (c >= '\b' && c <= '\r' && c != '\v');
                need += is_short ? 2 : c < ' ' ? 6 : 1;
            }
            for (size_t room = need < 40 ? 0 : need - 40; room < need + 40; room++) {
                char *written = malloc(room + 1);
                assert_non_null(written);
                written[room] = '#';
                struct json_writer w = json_writer_on(written, room);
                json_write_string(&w, text, size);
                assert_int_equal(json_write_ok(&w), room >= need);
                assert_int_equal(written[room], '#');
                if (room >= need) {
                    char back[80 * 6];
                    struct json_span span = {0};
                    assert_int_equal(w.at - written, need);
                    struct json_reader r = json_reader_on(written, need);
                    assert_true(json_read_string(&r, &span));
                    assert_true(json_read_end(&r));
                    assert_int_equal(json_unescape(&span, back), size);
                    assert_memory_equal(back, text, size);
                }
                free(written);
            }
        }
    }
    (void)state;
}

static void a_full_writer_stays_full(void **state)
{
    char buffer[8] = "........";
    struct json_writer w = json_writer_on(buffer, 6);
    json_write_literal(&w, "[1,");
    assert_true(json_write_ok(&w));
    json_write_u64(&w, 12345678);
    assert_false(json_write_ok(&w));
    json_write_u64(&w, 1);
    json_write_literal(&w, "]");
    json_write_string(&w, "a", 1);
    json_write_escaped(&w, "a", 1);
    json_write_hex64(&w, 1);
    json_write_raw(&w, "", 0);
    assert_false(json_write_ok(&w));
    assert_ptr_equal(w.at, buffer + 3);
    assert_memory_equal(buffer, "[1,.....", 8);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_numbers_are_written),
        cmocka_unit_test(digests_are_written_in_hex),
        cmocka_unit_test(strings_are_escaped),
        cmocka_unit_test(strings_are_read_back_or_do_not_fit),
        cmocka_unit_test(a_full_writer_stays_full),
    };
    return cmocka_run_group_tests_name("json_write", tests, NULL, NULL);
}
