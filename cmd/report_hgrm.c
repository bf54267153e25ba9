/*
 * report_hgrm: the response times as HdrHistogram prints its percentile distribution, for its
 * plotter: value in ms, percentile, how many values are not above, and one over how many are.
 *
 * Five lines for each halving of what is left above, as HdrHistogram has it.
 */
#include <inttypes.h>
#include <math.h>

#include "cmd/report_provenance.h"

enum { TICKS_A_HALVING = 5 };
#define NS_PER_MS_REAL 1e6

static double deviation_ns(const struct hist *h)
{
    double mean = (double)h->sum_ns / (double)h->count;
    double sum = 0;
    for (uint32_t i = 0; i < HIST_BUCKETS; i++) {
        double difference = (double)hist_bucket_upper_ns(i) - mean;
        sum += (double)h->counts[i] * difference * difference;
    }
    return sqrt(sum / (double)h->count);
}

/* How many values are not above the bucket that this one is in. */
static uint64_t count_until(const struct hist *h, uint64_t value_ns)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i <= hist_bucket(value_ns); i++)
        count += h->counts[i];
    return count;
}

static void print_line(FILE *out, const struct hist *h, double quantile)
{
    uint64_t value_ns = hist_quantile_ns(h, quantile);
    (void)fprintf(out, "%12.3f %2.12f %10" PRIu64, (double)value_ns / NS_PER_MS_REAL, quantile,
                  count_until(h, value_ns));
    if (quantile < 1)
        (void)fprintf(out, " %14.2f", 1 / (1 - quantile));
    (void)fputc('\n', out);
}

/* The plotter leaves out what begins with a number sign. */
static void print_fact(void *arg, const struct fact *fact)
{
    FILE *out = (FILE *)arg;
    (void)fprintf(out, "#[%s = %s]\n", fact->key, fact->value);
}

static int write_hgrm(FILE *out, const struct report *report)
{
    const struct hist *h = report->result->response;
    (void)fputs("       Value     Percentile TotalCount 1/(1-Percentile)\n\n", out);
    if (h->count > 0) {
        /* Until less than one value is left above. */
        for (int halvings = 0; halvings < 64 && h->count >> halvings > 0; halvings++)
            for (int tick = 0; tick < TICKS_A_HALVING; tick++) {
                double left = ldexp(1, -halvings);
                print_line(out, h, 1 - left + left / 2 * tick / TICKS_A_HALVING);
            }
        print_line(out, h, 1);
    }
    double mean = h->count > 0 ? (double)h->sum_ns / (double)h->count : 0;
    double deviation = h->count > 0 ? deviation_ns(h) : 0;
    (void)fprintf(out, "#[Mean    = %12.3f, StdDeviation   = %12.3f]\n", mean / NS_PER_MS_REAL,
                  deviation / NS_PER_MS_REAL);
    (void)fprintf(out, "#[Max     = %12.3f, Total count    = %12" PRIu64 "]\n",
                  (double)h->max_ns / NS_PER_MS_REAL, h->count);
    (void)fprintf(out, "#[Buckets = %12d, SubBuckets     = %12d]\n", HIST_OCTAVES + 1,
                  2 * HIST_SUB_COUNT);
    report_provenance(report, print_fact, out);
    return 0;
}

const struct report_format report_hgrm = {
    .name = "hgrm",
    .path_offset = offsetof(struct options, hgrm_path),
    .write = write_hgrm,
};
