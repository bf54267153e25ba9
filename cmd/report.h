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

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "cmd/host.h"
#include "cmd/intervals.h"
#include "cmd/options.h"
#include "cmd/output_file.h"
#include "cmd/slo_watch.h"
#include "cmd/version.h"
#include "cmd/warmup.h"
#include "engine/base/units.h"
#include "engine/campaign.h"

enum metric {
    METRIC_ELAPSED,
    METRIC_STARTED,
    METRIC_THROUGHPUT,
    METRIC_RECORD_RATE,
    METRIC_RUNS_STARTED,
    METRIC_RUNS_DUE,
    METRIC_RUNS_QUEUED,
    METRIC_OFFERED,
    METRIC_ISSUING,
    METRIC_ACHIEVED,
    METRIC_RUNS_COMPLETED,
    METRIC_ERRORS,
    METRIC_RUNS_ABANDONED,
    METRIC_MODEL_MEAN,
    METRIC_JOURNAL_MEAN,
    METRIC_QUEUE_MEAN,
    METRIC_TOOL_MEAN,
    METRIC_BACKOFF_MEAN,
    METRIC_SLOT_MEAN,
    METRIC_SLOT_JOURNAL_MEAN,
    METRIC_MODEL_CALLS,
    METRIC_TOOL_CALLS,
    METRIC_MODEL_FAILURES,
    METRIC_MODEL_TIMEOUTS,
    METRIC_MODEL_RETRIES,
    METRIC_HEDGES,
    METRIC_HEDGE_WINS,
    METRIC_DISCARDED,
    METRIC_DELTAS,
    METRIC_PEAK_TASKS,
    METRIC_HEAP_DELTA,
    METRIC_TOTAL_ALLOC,
    METRIC_ALLOCATIONS,
    METRIC_SYSCALLS,
    METRIC_INSTRUCTIONS,
    METRIC_ALLOCATIONS_PER_RUN,
    METRIC_ALLOC_PER_RUN,
    METRIC_SYSCALLS_PER_RUN,
    METRIC_INSTRUCTIONS_PER_RUN,
    METRIC_PEAK_RSS,
    METRIC_CPU,
    METRIC_CPU_PER_RUN,
    METRIC_BUSIEST,
    METRIC_STOLEN,
    METRIC_THROTTLED,
    METRIC_RECORDS,
    METRIC_RECORDS_ACKED,
    METRIC_RECORDS_BYTES,
    METRIC_COMMITS,
    METRIC_RUNS_RESUMED,
    METRIC_RECORDS_REPLAYED,
    METRIC_RUNS_NOT_BEGUN,
    METRIC_RECOVERY,
    METRIC_RECORDS_BEFORE,
    METRIC_RECORDS_REFUSED,
    METRIC_RECORDS_UNKNOWN,
    METRIC_BATCHES,
    METRIC_RETRIES,
    METRIC_RECORDS_PER_COMMIT,
    METRIC_COMMIT_MEAN,
    METRIC_CHECKPOINTS,
    METRIC_CHECKPOINT_MEAN,
    METRIC_SYNCS,
    METRIC_WAL,
    METRIC_DB,
    METRIC_STORE,
    METRIC_LOGICAL,
    METRIC_WRITE_AMPLIFICATION,
    METRIC_COMMITS_PER_RUN,
    METRIC_SYNCS_PER_RUN,
    METRIC_LOGICAL_PER_RUN,
    METRIC_WAL_PER_RUN,
    METRIC_DB_PER_RUN,
    METRIC_RECORDS_PER_RUN,
    METRIC_COUNT,
};

enum metric_unit {
    METRIC_UNIT_COUNT,
    METRIC_UNIT_NS,
    METRIC_UNIT_BYTES,
    METRIC_UNIT_PER_S,
    METRIC_UNIT_RATIO,
};
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
    double rate;   /* of METRIC_UNIT_PER_S and METRIC_UNIT_RATIO */
};

enum {
    REPORT_REASONS_MAX = 11,
    REPORT_WARNINGS_MAX = 7 + SLOS_MAX,
    REPORT_FORMATS_MAX = 10,
};

/* What an objective of the options was held against. */
struct report_slo {
    bool is_known;
    bool is_met;
    double value; /* in the unit of the bound */
};

/* Of which results a merged one is, and what of them the report cannot compute. */
struct report_merged {
    size_t count;
    struct json_t *sources; /* an array: the "merged" of the JSON */
    struct json_t *carried; /* an object of sections: takes the place of what they have */
    struct errmsg warning;  /* of the merge itself, which is carried as well; empty: none */
};

struct report {
    const struct options *options;
    const struct campaign_result *result;
    const struct intervals *intervals; /* set before it is written; NULL: none are known */
    struct version version;
    struct host host; /* filled before it is written */
    int stop_signal;  /* that ended the campaign early, or 0 */
    struct metric_value metrics[METRIC_COUNT];
    const struct report_merged *merged;            /* NULL: it is the result of one campaign */
    struct errmsg own_reasons[REPORT_REASONS_MAX]; /* why the measurement is not valid */
    struct errmsg *reasons;                        /* those, or of a merged result, the caller's */
    size_t reason_count;
    struct errmsg warnings[REPORT_WARNINGS_MAX]; /* what is to be known, and does not spoil it */
    size_t warning_count;
    struct report_slo slos[SLOS_MAX]; /* one an objective of the options */
    size_t slos_missed;
    bool shows_histogram; /* in the text; report_write() sets it, and the next */
    bool is_utf8;
    const struct warmup *warmup; /* set before it is written; NULL: not known */
    struct slo_abort slo_abort;  /* set before it is written */
};

struct report_format {
    const char *name;
    size_t path_offset; /* of the member of struct options that holds its path */
    bool is_appended;   /* to what is in the file */
    const char *infix;  /* of a flag that names several files: what comes before the extension */
    /* To memory, so that it can only fail for want of it: 0 or -ENOMEM. */
    int (*write)(FILE *out, const struct report *report);
};

/* All formats that go to files, NULL-terminated; the summary of report_text.c goes to standard
 * output besides. */
extern const struct report_format *const report_table[];
extern const struct report_format report_text;
extern const struct report_format report_json;
extern const struct report_format report_csv;
extern const struct report_format report_markdown;
extern const struct report_format report_hgrm;
extern const struct report_format report_gobench;
extern const struct report_format report_bmf;
extern const struct report_format report_openmetrics;
extern const struct report_format report_gha_smaller;
extern const struct report_format report_gha_bigger;

/* The files that the flags name, open while the campaign runs. */
struct report_outputs {
    struct output_file ledger;
    struct output_file files[REPORT_FORMATS_MAX]; /* a row of report_table each */
    char paths[REPORT_FORMATS_MAX][PATH_MAX];     /* of those with an infix */
};

/* Computes the metrics and the verdict. `journal_error` is why the journal did not hold what it had
 * acked, or NULL. */
void report_init(struct report *report, const struct options *options,
                 const struct campaign_result *result, int stop_signal,
                 const struct errmsg *journal_error);

/* Fills slos; report_init() does. */
void report_hold_slos(struct report *report);
/* What an objective of time is held against. */
const struct hist *report_slo_hist(const struct slo *slo, const struct campaign_result *result);

/* Adds the reasons that the figures themselves give; report_init() does. */
void report_judge(struct report *report);
/* Where the next reason why the measurement is not valid goes. */
struct errmsg *report_next_reason(struct report *report);

/* Fills warnings, from the figures, the build and the host; report_write() does. */
void report_warn(struct report *report);

/* Writes the summary and every format whose path is set. 0, or -errno with one line in `why`; a
 * format that fails does not keep the others from being written. */
int report_write(struct report *report, struct report_outputs *outputs, struct errmsg *why);

/* A text of one's own to where the options want this format, if they do; the summary's is always
 * wanted. 0 or -errno with one line. */
int report_outputs_write(struct report_outputs *outputs, const struct report_format *format,
                         const struct options *options, const char *text, size_t size,
                         struct errmsg *why);

/* Renders one format into memory that the caller frees, or -ENOMEM. */
int report_render(const struct report_format *format, const struct report *report, char **text,
                  size_t *size);

/* Makes sure that standard output and each path that is set can be written, and that no file has
 * two uses, without touching any. On failure nothing is left open. */
int report_outputs_open(struct report_outputs *outputs, const struct options *options,
                        struct errmsg *why);
void report_outputs_close(struct report_outputs *outputs);

const char *report_signal_name(int signal); /* "SIGINT", "SIGTERM" */

/* A value in the unit of an objective's bound. */
void report_format_slo(const struct slo *slo, double value, char text[UNITS_TEXT_BYTES]);

/* Blocks, or number signs where the locale knows no other. Nothing of an empty one. */
void report_print_histogram(FILE *out, const struct hist *hist, bool is_utf8);
bool report_is_utf8(void);

/* A count a second; 0 when there was no time. */
struct metric_value report_rate(uint64_t count, uint64_t elapsed_ns);

/* Runs of the warm-up that ended and did not complete. */
uint64_t report_warmup_errors(const struct campaign_result *result);

/* Records that this process has added, by reading back. */
uint64_t report_records_new(const struct campaign_result *result);

/* Whether the journal keeps anything once the process has ended. */
bool report_is_durable(const struct report *report);

#endif
