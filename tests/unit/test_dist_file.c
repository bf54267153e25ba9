/* dist_file: lists of values are drawn from evenly, and what is no list is refused, naming the
 * line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/lib/parsed_dist.h"
#include "tests/lib/scratch.h"

enum { DRAWS = 200000 };

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* The files of one test, in a directory of their own. */
struct files {
    struct scratch scratch;
    char path[80];
    char spec[96]; /* "file:" and the path */
};

static int make_files(void **state)
{
    struct files *f = calloc(1, sizeof(*f));
    if (f == NULL || scratch_make(&f->scratch, "dist") != 0) {
        free(f);
        return -1;
    }
    (void)snprintf(f->path, sizeof(f->path), "%s/list", f->scratch.path);
    (void)snprintf(f->spec, sizeof(f->spec), "file:%s", f->path);
    *state = f;
    return 0;
}

static int remove_files(void **state)
{
    struct files *f = *state;
    int error = scratch_remove(&f->scratch);
    free(f);
    return error;
}

static void write_list(const struct files *f, const char *bytes, size_t size)
{
    FILE *list = fopen(f->path, "w");
    assert_non_null(list);
    assert_int_equal(fwrite(bytes, 1, size, list), size);
    assert_int_equal(fclose(list), 0);
}

static void files_are_drawn_from_evenly(void **state)
{
    const struct files *f = *state;
    static const char list[] = "30ms\n10ms\r\n20ms\n1m30s\n20ms"; /* no newline at the end */
    write_list(f, list, sizeof(list) - 1);
    struct dist d = parsed_dist(f->spec, DIST_DURATION);
    static const uint64_t values[] = {10000000, 20000000, 20000000, 30000000, 90000000000};
    assert_int_equal(d.value_count, COUNT_OF(values));
    assert_memory_equal(d.values, values, sizeof(values));
    for (size_t i = 0; i < COUNT_OF(values); i++)
        assert_true(dist_quantile(&d, 0.1 + 0.2 * (double)i) == (double)values[i]);

    struct prng p = prng_stream(4, 0, PRNG_TEST, 0);
    double twenties = 0;
    for (int i = 0; i < DRAWS; i++) {
        uint64_t draw = dist_sample(&d, &p);
        assert_true(draw == values[0] || draw == values[1] || draw == values[3] ||
                    draw == values[4]);
        twenties += draw == 20000000;
    }
    assert_true(fabs(twenties / DRAWS - 0.4) <= 5 * sqrt(0.4 * 0.6 / DRAWS));
    dist_free(&d);
    assert_null(d.values);
    dist_free(&d); /* harmless */

    write_list(f, "2KB\n", 4);
    d = parsed_dist(f->spec, DIST_BYTES);
    assert_int_equal(d.value_count, 1);
    assert_int_equal(dist_sample(&d, &p), 2000);
    dist_free(&d);
}

static void bad_files_are_refused(void **state)
{
    const struct files *f = *state;
#define LINE(number) "whose line " number " must be a duration such as 50ms, got "
    static const char long_line[] =
        "1ms\n"
        "000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
        "000"
        "0000000000000000000000000000000000000000000000000000000000001ms\n";
    static const struct {
        const char *list;
        size_t size;
        int error;
        const char *why;
    } cases[] = {
        {"", 0, -EINVAL, "which is empty"},
        {"\n", 1, -EINVAL, LINE("1") "\"\": it is empty"},
        {"1ms\n\n2ms\n", 9, -EINVAL, LINE("2") "\"\": it is empty"},
        {"1ms\n2ms\nabc\n", 12, -EINVAL, LINE("3") "\"abc\""},
        {"1ms\n50", 6, -EINVAL, LINE("2") "\"50\": the unit is missing"},
        {"5\0ms\n", 5, -EINVAL,
         LINE("1") "\"5?ms\": unknown unit \"?ms\" (known: ns, us, ms, s, m, h)"},
        {"1ms\n-2ms\n", 9, -EINVAL, "whose line 2 must not be negative, got \"-2ms\""},
        {"25h\n", 4, -ERANGE, "whose line 1 must be at most 24h, got \"25h\""},
        {"\xff\xfe\x31\n", 4, -EINVAL, LINE("1") "\"??1\""},
        {long_line, sizeof(long_line) - 1, -EINVAL, "whose line 2 is longer than 127 bytes"},
    };
#undef LINE
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct dist d;
        struct errmsg why = {""};
        char expected[ERRMSG_BYTES];
        write_list(f, cases[i].list, cases[i].size);
        int error = dist_parse(&d, f->spec, DIST_DURATION, &why);
        (void)snprintf(expected, sizeof(expected), "names the file \"%s\", %s", f->path,
                       cases[i].why);
        assert_string_equal(why.text, expected);
        assert_int_equal(error, cases[i].error);
        assert_null(d.values);
    }
}

static void too_many_values_are_refused(void **state)
{
    const struct files *f = *state;
    struct dist d;
    struct errmsg why;
    FILE *list = fopen(f->path, "w");
    assert_non_null(list);
    for (int i = 0; i < DIST_FILE_VALUES_MAX; i++)
        assert_true(fputs("1s\n", list) >= 0);
    assert_int_equal(fflush(list), 0);
    d = parsed_dist(f->spec, DIST_DURATION);
    assert_int_equal(d.value_count, DIST_FILE_VALUES_MAX);
    dist_free(&d);
    assert_true(fputs("1s\n", list) >= 0);
    assert_int_equal(fclose(list), 0);
    assert_int_equal(dist_parse(&d, f->spec, DIST_DURATION, &why), -ERANGE);
    assert_non_null(strstr(why.text, "which has more than 1000000 values"));
    assert_null(d.values);
}

/* Opening a FIFO that nobody writes to would wait for ever: the alarm ends the test instead. */
static void a_fifo_does_not_hang(void **state)
{
    const struct files *f = *state;
    struct dist d;
    struct errmsg why;
    assert_int_equal(mkfifo(f->path, 0600), 0);
    (void)alarm(10);
    assert_int_equal(dist_parse(&d, f->spec, DIST_DURATION, &why), -EINVAL);
    (void)alarm(0);
    assert_non_null(strstr(why.text, "which is not a regular file"));
}

enum { NOBODY = 65534 };

static void an_unreadable_file_is_named(void **state)
{
    const struct files *f = *state;
    struct dist d;
    struct errmsg why;
    const uid_t user = geteuid();
    write_list(f, "1s\n", 3);
    assert_int_equal(chmod(f->scratch.path, 0755), 0);
    assert_int_equal(chmod(f->path, 0), 0);
    if (user == 0) /* root reads everything: be nobody meanwhile */
        assert_int_equal(seteuid(NOBODY), 0);
    int error = dist_parse(&d, f->spec, DIST_DURATION, &why);
    if (user == 0)
        assert_int_equal(seteuid(user), 0);
    assert_int_equal(error, -EACCES);
    assert_non_null(strstr(why.text, "which cannot be read: Permission denied"));
}

#define WITH_FILES(test) cmocka_unit_test_setup_teardown(test, make_files, remove_files)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FILES(files_are_drawn_from_evenly), WITH_FILES(bad_files_are_refused),
        WITH_FILES(too_many_values_are_refused), WITH_FILES(a_fifo_does_not_hang),
        WITH_FILES(an_unreadable_file_is_named),
    };
    return cmocka_run_group_tests_name("dist_file", tests, NULL, NULL);
}
