/*
 * report_histogram: the response times as blocks, a row for each part of the range from the least
 * to the greatest: parts that grow by the same factor, so that a tail of many times the median
 * leaves the body more than a row. Where the locale's characters are not UTF-8, of number signs.
 */
#include <inttypes.h>
#include <langinfo.h>
#include <locale.h>
#include <math.h>
#include <string.h>

#include "cmd/report.h"
#include "engine/base/clock.h"

enum {
    ROWS_MAX = 12,
    BLOCKS = 44, /* of the longest row; with what stands before it 80 columns and less */
    EIGHTHS = 8,
    BOUND_BYTES = 32,
};

struct rows {
    unsigned count;
    uint64_t upper_ns[ROWS_MAX];
    uint64_t runs[ROWS_MAX];
    uint64_t most;
};

bool report_is_utf8(void)
{
    locale_t locale = newlocale(LC_CTYPE_MASK, "", (locale_t)0);
    if (locale == (locale_t)0)
        return false;
    bool is_utf8 = strcmp(nl_langinfo_l(CODESET, locale), "UTF-8") == 0;
    freelocale(locale);
    return is_utf8;
}

static void gather(struct rows *rows, const struct hist *hist)
{
    uint32_t first = hist_bucket(hist->min_ns);
    uint32_t last = hist_bucket(hist->max_ns);
    double least = hist->min_ns > 0 ? (double)hist->min_ns : 1;
    double factor = (double)hist->max_ns / least;
    /* Not more rows than the range has buckets: most would be empty. */
    *rows = (struct rows){.count = last - first + 1 < ROWS_MAX ? last - first + 1 : ROWS_MAX};
    for (unsigned i = 0; i + 1 < rows->count; i++)
        rows->upper_ns[i] = (uint64_t)(least * pow(factor, (i + 1.0) / rows->count));
    rows->upper_ns[rows->count - 1] = hist->max_ns;
    unsigned row = 0;
    for (uint32_t bucket = first; bucket <= last; bucket++) {
        /* A bucket is where its greatest value is. */
        uint64_t upper_ns = hist_bucket_upper_ns(bucket);
        while (row + 1 < rows->count && upper_ns > rows->upper_ns[row])
            row++;
        rows->runs[row] += hist->counts[bucket];
    }
    for (unsigned i = 0; i < rows->count; i++)
        rows->most = rows->runs[i] > rows->most ? rows->runs[i] : rows->most;
}

/* Four digits, or neighbours would look the same. */
static void format_bound(uint64_t ns, bool is_utf8, char text[BOUND_BYTES])
{
    double value = (double)ns;
    if (ns >= NS_PER_S)
        (void)snprintf(text, BOUND_BYTES, "%.*fs", value < 10e9 ? 3 : 2, value / 1e9);
    else if (ns >= NS_PER_MS)
        (void)snprintf(text, BOUND_BYTES, "%.*fms",
                       value < 10e6    ? 3
                       : value < 100e6 ? 2
                                       : 1,
                       value / 1e6);
    else
        (void)snprintf(text, BOUND_BYTES, "%.*f%s",
                       value < 10e3    ? 3
                       : value < 100e3 ? 2
                                       : 1,
                       value / 1e3, is_utf8 ? "µs" : "us");
}

/* A row with few of many runs still shows that there are some. */
static void print_bar(FILE *out, uint64_t runs, uint64_t most, bool is_utf8)
{
    static const char *const parts[EIGHTHS] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    double blocks = (double)runs / (double)most * BLOCKS;
    unsigned eighths = (unsigned)lround(blocks * (is_utf8 ? EIGHTHS : 1)) * (is_utf8 ? 1 : EIGHTHS);
    if (eighths == 0 && runs > 0)
        eighths = 1;
    for (unsigned i = 0; i < eighths / EIGHTHS; i++)
        (void)fputs(is_utf8 ? "█" : "#", out);
    if (eighths % EIGHTHS != 0)
        (void)fputs(is_utf8 ? parts[eighths % EIGHTHS] : ".", out);
}

void report_print_histogram(FILE *out, const struct hist *hist, bool is_utf8)
{
    struct rows rows;
    uint64_t seen = 0;
    if (hist->count == 0)
        return;
    gather(&rows, hist);
    (void)fputs("      up to        runs   so far\n", out);
    for (unsigned i = 0; i < rows.count; i++) {
        char bound[BOUND_BYTES];
        format_bound(rows.upper_ns[i], is_utf8, bound);
        seen += rows.runs[i];
        /* Of 99.9999 % not 100 % is said. */
        double percent = floor(1e4 * (double)seen / (double)hist->count) / 1e2;
        int wider = is_utf8 && strstr(bound, "µ") != NULL; /* a byte that takes no column */
        (void)fprintf(out, "%*s %11" PRIu64 " %7.2f%%", 11 + wider, bound, rows.runs[i], percent);
        if (rows.runs[i] > 0)
            (void)fputs("  ", out);
        print_bar(out, rows.runs[i], rows.most, is_utf8);
        (void)fputc('\n', out);
    }
}
