/* What a line shows of URIs and passwords, wherever they stand in it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "cmd/redact.h"

static void assert_shown(const char *line, bool was_cut, const char *expected)
{
    char copy[1024];
    redact_line(line, was_cut, copy, sizeof(copy));
    assert_string_equal(copy, expected);
}

static void user_and_password_are_hidden(void **state)
{
    static const char *const cases[][2] = {
        {"", ""},
        {"-runs must be at least 1, got 0", "-runs must be at least 1, got 0"},
        {"got \"postgres://u:s3cret@h/d\"", "got \"postgres://…@h/d\""},
        {"got postgres://u@h/d twice", "got postgres://…@h/d twice"},
        {"flag --journal:postgres://u:s3@cret@h", "flag --journal:postgres://…@h"},
        {"\"postgres://u:a://b@h/d\"", "\"postgres://…@h/d\""},
        {"\"postgres://u:s3 \"cret@h/d\"", "\"postgres://…@h/d\""},
        {"http://h/d", "http://h/d"},
        {"sqlite:a@b.db", "sqlite:a@b.db"},
        {"http://h:80/d and a://:5432", "http://h:80/d and a://:5432"},
        {"postgres://a:b@h, postgresql://c:d@i", "postgres://…@h, postgresql://…@i"},
        {"x://a:b@h,y://c:d@i z://h/d", "x://…@i z://h/d"},
        {"known: postgres://USER@HOST/DATABASE", "known: postgres://USER@HOST/DATABASE"},
        {"://@", "://@"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_shown(cases[i][0], false, cases[i][1]);
}

/* The @ is not on the line. */
static void half_a_secret_is_hidden(void **state)
{
    (void)state;
    assert_shown("directory postgres://u:s3: none", false, "directory postgres://… none");
    assert_shown("got \"postgres://u:s3cr…\" (a count)", false, "got \"postgres://…\" (a count)");
    assert_shown("got \"postgres://us3cr…\" (a count)", false, "got \"postgres://…\" (a count)");
    assert_shown("got \"postgres://u:s3 cr…\" (a count)", false, "got \"postgres://…\" (a count)");
    assert_shown("got \"postgres://s3cr", true, "got \"postgres://…");
    assert_shown("got \"postgres://u:s3 cr", true, "got \"postgres://…");
    assert_shown("\"postgres://u:a@h/d\" postgres://b", true, "\"postgres://…@h/d\" postgres://…");
}

static void values_of_password_are_hidden(void **state)
{
    static const char *const cases[][2] = {
        {"postgres://h/d?password=s3cret", "postgres://h/d?password=…"},
        {"\"postgres://h/d?password=s3cret&x=1\"", "\"postgres://h/d?password=…&x=1\""},
        {"\"postgres://h/d?PassWord=s3cret\" no", "\"postgres://h/d?PassWord=…\" no"},
        {"host=h password=s3&cret user=u", "host=h password=… user=u"},
        {"\"host=h sslpassword='s3 \\' cret' x=1\"", "\"host=h sslpassword=…' x=1\""},
        {"password=s3\\ cret x=1", "password=… x=1"},
        {"password=a password=b", "password=… password=…"},
        {"postgres://u:p@h/d?password=q@r", "postgres://…@r"},
        {"password='s3 cret", "password=…"},
        {"password=s3cret\\", "password=…"},
        {"password=", "password=…"},
        {"no password supplied", "no password supplied"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_shown(cases[i][0], false, cases[i][1]);
}

static void copy_is_cut_between_characters(void **state)
{
    char copy[32];
    (void)state;
    memset(copy, 'x', sizeof(copy));
    redact_line("a://u@hé", false, copy, 11); /* "a://…@h" has 9 bytes */
    assert_string_equal(copy, "a://…@h");
    redact_line("a://u@hé", false, copy, 12);
    assert_string_equal(copy, "a://…@hé");
    redact_line("a://u@h b://v@h", false, copy, 7);
    assert_string_equal(copy, "a://");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(user_and_password_are_hidden),
        cmocka_unit_test(half_a_secret_is_hidden),
        cmocka_unit_test(values_of_password_are_hidden),
        cmocka_unit_test(copy_is_cut_between_characters),
    };
    return cmocka_run_group_tests_name("redact", tests, NULL, NULL);
}
