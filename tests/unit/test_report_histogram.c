/* The histogram of the text report: every run is in it, and it fits whatever it is of. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "cmd/report.h"
#include "engine/base/clock.h"
#include "engine/base/prng.h"

#define HEADER "      up to        runs   so far\n"

static struct hist *new_hist(void)
{
    struct hist *h = malloc(sizeof(*h));
    assert_non_null(h);
    hist_init(h);
    return h;
}

static char *print(const struct hist *hist, bool is_utf8)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    report_print_histogram(out, hist, is_utf8);
    assert_int_equal(fclose(out), 0);
    return text;
}

/* Returns how many rows there are. */
static unsigned check(const struct hist *hist, bool is_utf8)
{
    char *text = print(hist, is_utf8);
    uint64_t runs = 0;
    unsigned rows = 0;
    assert_int_equal(strncmp(text, HEADER, strlen(HEADER)), 0);
    for (char *row = text + strlen(HEADER); *row != '\0'; rows++) {
        char bound[32];
        double percent = -1;
        uint64_t count = 0;
        char *end = strchr(row, '\n');
        unsigned columns = 0;
        assert_non_null(end);
        for (const char *c = row; c < end; c++) {
            columns += (*c & 0xc0) != 0x80; /* UTF-8 goes on with 0x80 */
            assert_true(is_utf8 || (*c & 0x80) == 0);
        }
        assert_in_range(columns, 1, 80);
        assert_int_equal(sscanf(row, "%31s %lu %lf%%", bound, &count, &percent), 3);
        runs += count;
        if (end[1] == '\0')
            assert_true(percent > 99.999);
        row = end + 1;
    }
    assert_int_equal(runs, hist->count);
    assert_in_range(rows, 1, 12);
    free(text);
    return rows;
}

static void every_run_is_in_it_whatever_the_range(void **state)
{
    struct prng p = prng_stream(1, 0, PRNG_TEST, 0);
    (void)state;
    for (unsigned shift = 0; shift < 46; shift++) {
        struct hist *hist = new_hist();
        for (unsigned i = 0; i < 500; i++)
            hist_record(hist, prng_below(&p, NS_MAX_DURATION) >> shift);
        (void)check(hist, true);
        (void)check(hist, false);
        hist_record(hist, 0);
        hist_record(hist, UINT64_MAX);
        (void)check(hist, true);
        free(hist);
    }
}

static void rows_are_not_finer_than_what_is_known(void **state)
{
    struct hist *hist = new_hist();
    (void)state;
    char *text = print(hist, true);
    assert_string_equal(text, "");
    free(text);
    hist_record(hist, 5 * NS_PER_MS);
    assert_int_equal(check(hist, true), 1);
    hist_record(hist, 5 * NS_PER_MS + 8192); /* a few buckets on */
    assert_in_range(check(hist, true), 2, 4);
    free(hist);
}

static void rows_are_drawn_to_scale(void **state)
{
    struct hist *hist = new_hist();
    (void)state;
    for (unsigned i = 0; i < 8800; i++)
        hist_record(hist, 100);
    for (unsigned i = 0; i < 2200; i++) /* a quarter: 11 of 44 blocks */
        hist_record(hist, 101);
    for (unsigned i = 0; i < 3300; i++) /* three eighths: 16 and a half */
        hist_record(hist, 102);
    hist_record(hist, 103); /* hardly any */
    char *text = print(hist, true);
    assert_string_equal(
        text,
        HEADER "    0.100µs        8800   61.53%  ████████████████████████████████████████████\n"
               "    0.101µs        2200   76.91%  ███████████\n"
               "    0.102µs        3300   99.99%  ████████████████▌\n"
               "    0.103µs           1  100.00%  ▏\n");
    free(text);
    text = print(hist, false);
    assert_string_equal(
        text,
        HEADER "    0.100us        8800   61.53%  ############################################\n"
               "    0.101us        2200   76.91%  ###########\n"
               "    0.102us        3300   99.99%  #################\n"
               "    0.103us           1  100.00%  .\n");
    free(text);
    free(hist);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_run_is_in_it_whatever_the_range),
        cmocka_unit_test(rows_are_not_finer_than_what_is_known),
        cmocka_unit_test(rows_are_drawn_to_scale),
    };
    return cmocka_run_group_tests_name("report_histogram", tests, NULL, NULL);
}
