/* err: one line of valid UTF-8, whatever it quotes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/err.h"

static void returns_the_code_and_takes_null(void **state)
{
    (void)state;
    struct errmsg e;
    assert_int_equal(errmsg_set(&e, -EINVAL, "must be %d", 7), -EINVAL);
    assert_string_equal(e.text, "must be 7");
    assert_int_equal(errmsg_set(NULL, -ENOMEM, "must be %d", 7), -ENOMEM);
}

static void replaces_what_must_not_be_shown(void **state)
{
    (void)state;
    static const struct {
        const char *given;
        const char *shown;
    } cases[] = {
        {"", ""},
        {"plain ~ text", "plain ~ text"},
        {"two\nlines\r", "two?lines?"},
        {"\x1b[31mred\x1b[0m", "?[31mred?[0m"},
        {"tab\tbell\a", "tab?bell?"},
        {"del\x7f", "del?"},
        {"\u00b5s \u20ac \U0001f600", "\u00b5s \u20ac \U0001f600"}, /* two, three, four bytes */
        {"c1 \xc2\x9b", "c1 ??"},                 /* U+009B starts a terminal's sequence */
        {"\xc2\xa0", "\xc2\xa0"},                 /* the first behind the C1 controls */
        {"\x80\xbf", "??"},                       /* continuation bytes alone */
        {"\xc3", "?"},                            /* cut short */
        {"\xc3(", "?("},                          /* cut short by another character */
        {"\xe2\x82", "??"},                       /* cut short */
        {"\xf0\x9f\x98", "???"},                  /* cut short */
        {"\xc0\xaf \xc1\xbf", "?? ??"},           /* overlong */
        {"\xe0\x9f\xbf", "???"},                  /* overlong */
        {"\xf0\x8f\xbf\xbf", "????"},             /* overlong */
        {"\xed\xa0\x80", "???"},                  /* a surrogate */
        {"\xed\x9f\xbf", "\xed\x9f\xbf"},         /* the last before them */
        {"\xf4\x90\x80\x80", "????"},             /* beyond U+10FFFF */
        {"\xf4\x8f\xbf\xbf", "\xf4\x8f\xbf\xbf"}, /* U+10FFFF */
        {"\xf5\xff", "??"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct errmsg e;
        assert_int_equal(errmsg_set(&e, -EIO, "%s", cases[i].given), -EIO);
        assert_string_equal(e.text, cases[i].shown);
    }
}

/* A text that is cut ends between characters, and where exactly is known. */
static void cuts_between_characters(void **state)
{
    (void)state;
    static const struct {
        const char *character;
        size_t before; /* bytes of 'x' in front */
        size_t size;   /* that remain */
    } cases[] = {
        {"y", ERRMSG_BYTES - 1, ERRMSG_BYTES - 1},
        {"\u00b5", ERRMSG_BYTES - 2, ERRMSG_BYTES - 2}, /* one byte of two would fit */
        {"\u00b5", ERRMSG_BYTES - 3, ERRMSG_BYTES - 1}, /* fits */
        {"\u20ac", ERRMSG_BYTES - 3, ERRMSG_BYTES - 3}, /* two bytes of three */
        {"\u20ac", ERRMSG_BYTES - 4, ERRMSG_BYTES - 1},
        {"\U0001f600", ERRMSG_BYTES - 4, ERRMSG_BYTES - 4}, /* three bytes of four */
        {"\U0001f600", ERRMSG_BYTES - 5, ERRMSG_BYTES - 1},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[2 * ERRMSG_BYTES];
        memset(text, 'x', cases[i].before);
        (void)snprintf(text + cases[i].before, sizeof(text) - cases[i].before,
                       "%sand so on, to be longer than the buffer", cases[i].character);
        struct errmsg e;
        (void)errmsg_set(&e, -EIO, "%s", text);
        assert_int_equal(strlen(e.text), cases[i].size);
        assert_memory_equal(e.text, text, cases[i].size);
    }
}

static void may_quote_itself(void **state)
{
    (void)state;
    struct errmsg e;
    (void)errmsg_set(&e, -EIO, "disk full");
    assert_int_equal(errmsg_set(&e, -EIO, "shard %d: %s", 3, e.text), -EIO);
    assert_string_equal(e.text, "shard 3: disk full");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(returns_the_code_and_takes_null),
        cmocka_unit_test(replaces_what_must_not_be_shown),
        cmocka_unit_test(cuts_between_characters),
        cmocka_unit_test(may_quote_itself),
    };
    return cmocka_run_group_tests_name("err", tests, NULL, NULL);
}
