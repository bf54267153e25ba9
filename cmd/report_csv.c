/* report_csv: a line an interval, for spreadsheets and plots. */
#include <inttypes.h>

#include "cmd/report.h"
#include "engine/base/clock.h"

/* Nothing where it is not known. */
static void write_time(FILE *out, uint64_t time_ns)
{
    if (time_ns == INTERVAL_NOT_KNOWN)
        (void)fputc(',', out);
    else
        (void)fprintf(out, ",%.9f", (double)time_ns / NS_PER_S);
}

static int write_csv(FILE *out, const struct report *report)
{
    const struct intervals *intervals = report->intervals;
    uint64_t start_ns = 0;
    (void)fputs("start_s,end_s,started,ended,errors,records,in_flight,backlog,runs_per_s,"
                "records_per_s,p50_s,p99_s,warmup\n",
                out);
    for (size_t i = 0; intervals != NULL && i < intervals->count; i++) {
        const struct interval *row = &intervals->rows[i];
        uint64_t length_ns = row->end_ns - start_ns;
        (void)fprintf(out,
                      "%.6f,%.6f,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64
                      ",%" PRIu64 ",%.3f,%.3f",
                      (double)start_ns / NS_PER_S, (double)row->end_ns / NS_PER_S, row->started,
                      row->ended, row->errors, row->records, row->in_flight, row->backlog,
                      report_rate(row->ended, length_ns).rate,
                      report_rate(row->records, length_ns).rate);
        write_time(out, row->p50_ns);
        write_time(out, row->p99_ns);
        (void)fprintf(out, ",%d\n", row->is_warmup);
        start_ns = row->end_ns;
    }
    return 0;
}

const struct report_format report_csv = {
    .name = "csv",
    .path_offset = offsetof(struct options, csv_path),
    .write = write_csv,
};
