/*
 * report: what is said about a campaign: the metric values, computed once, and the formats that
 * print them.
 *
 * A new format is one file that defines a `const struct report_format`, one row in report.c, and
 * one row in the flag table for its path. Ownership: everything a report points to is the caller's.
 * Threading: main thread. Units: ns, bytes.
 */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "cmd/host.h"
#include "cmd/options.h"
#include "cmd/output_file.h"
#include "cmd/version.h"
#include "engine/campaign.h"

enum metric {
    METRIC_ELAPSED,
    METRIC_THROUGHPUT,
    METRIC_RECORD_RATE,
    METRIC_RUNS_STARTED,
    METRIC_RUNS_COMPLETED,
    METRIC_ERRORS,
    METRIC_RUNS_ABANDONED,
    METRIC_MODEL_MEAN,
    METRIC_JOURNAL_MEAN,
    METRIC_QUEUE_MEAN,
    METRIC_TOOL_MEAN,
    METRIC_MODEL_CALLS,
    METRIC_TOOL_CALLS,
    METRIC_PEAK_TASKS,
    METRIC_HEAP_DELTA,
    METRIC_TOTAL_ALLOC,
    METRIC_PEAK_RSS,
    METRIC_CPU,
    METRIC_CPU_PER_RUN,
    METRIC_RECORDS,
    METRIC_RECORDS_ACKED,
    METRIC_RECORDS_BYTES,
    METRIC_COMMITS,
    METRIC_COUNT,
};

enum metric_unit { METRIC_UNIT_COUNT, METRIC_UNIT_NS, METRIC_UNIT_BYTES, METRIC_UNIT_PER_S };
enum metric_section { METRIC_OF_RESULT, METRIC_OF_STORE };

struct metric_row {
    const char *name; /* in every machine-readable format; the unit stands last */
    enum metric_unit unit;
    enum metric_section section;
};
extern const struct metric_row metric_rows[METRIC_COUNT];

struct metric_value {
    bool is_known;
    int64_t whole; /* of counts, ns and bytes */
    double rate;   /* of METRIC_UNIT_PER_S */
};

enum { REPORT_REASONS_MAX = 5, REPORT_FORMATS_MAX = 4 };

struct report {
    const struct options *options;
    const struct campaign_result *result;
    struct version version;
    struct host host; /* filled when a format that is wanted needs it */
    int stop_signal;  /* that ended the campaign early, or 0 */
    struct metric_value metrics[METRIC_COUNT];
    struct errmsg reasons[REPORT_REASONS_MAX]; /* why the measurement is not valid */
    size_t reason_count;
};

struct report_format {
    const char *name;
    size_t path_offset; /* of the member of struct options that holds its path */
    bool needs_host;
    /* To memory, so that it can only fail for want of it: 0 or -ENOMEM. */
    int (*write)(FILE *out, const struct report *report);
};

/* All formats that go to files, NULL-terminated; the summary of report_text.c goes to standard
 * output besides. */
extern const struct report_format *const report_table[];
extern const struct report_format report_text;
extern const struct report_format report_json;

/* The files that the flags name, open while the campaign runs. */
struct report_outputs {
    struct output_file ledger;
    struct output_file files[REPORT_FORMATS_MAX]; /* a row of report_table each */
};

/* Computes the metrics and the verdict. `journal_error` is why the journal did not hold what it had
 * acked, or NULL. */
void report_init(struct report *report, const struct options *options,
                 const struct campaign_result *result, int stop_signal,
                 const struct errmsg *journal_error);

/* Writes the summary and every format whose path is set. 0, or -errno with one line in `why`; a
 * format that fails does not keep the others from being written. */
int report_write(struct report *report, struct report_outputs *outputs, struct errmsg *why);

/* Renders one format into memory that the caller frees, or -ENOMEM. */
int report_render(const struct report_format *format, const struct report *report, char **text,
                  size_t *size);

/* Makes sure that standard output and each path that is set can be written, and that no file has
 * two uses, without touching any. On failure nothing is left open. */
int report_outputs_open(struct report_outputs *outputs, const struct options *options,
                        struct errmsg *why);
void report_outputs_close(struct report_outputs *outputs);

const char *report_signal_name(int signal); /* "SIGINT", "SIGTERM" */

#endif
