/*
 * report_text: the summary for the person at the keyboard. Scripts grep it: the first, second,
 * third, fifth and last line keep their shape; lines about what went wrong stand between the fifth
 * and the last.
 */
#include <inttypes.h>
#include <string.h>

#include "cmd/report.h"
#include "cmd/report_config.h"
#include "engine/base/units.h"

/* Prints a text that came from the command line or the journal as part of one line. */
static void print_clean(FILE *out, const char *text)
{
    struct errmsg clean;
    (void)errmsg_set(&clean, 0, "%s", text); /* All that is printed fits. */
    (void)fputs(clean.text, out);
}

static void print_duration(FILE *out, const char *label, struct metric_value value)
{
    char text[UNITS_TEXT_BYTES];
    (void)fprintf(out, "%s%s", label,
                  value.is_known ? units_format_duration((uint64_t)value.whole, text) : "-");
}

static void print_megabytes(FILE *out, const char *label, struct metric_value value)
{
    char text[UNITS_TEXT_BYTES];
    (void)fprintf(out, "%s%s", label,
                  value.is_known ? units_format_megabytes(value.whole, text) : "-");
}

static void print_count(FILE *out, const char *label, struct metric_value value)
{
    (void)fputs(label, out);
    if (value.is_known)
        (void)fprintf(out, "%" PRId64, value.whole);
    else
        (void)fputc('-', out);
}

static void print_ratio(FILE *out, const char *label, struct metric_value value)
{
    (void)fputs(label, out);
    if (value.is_known)
        (void)fprintf(out, "%.*f", value.rate < 10 ? 1 : 0, value.rate);
    else
        (void)fputc('-', out);
}

/* A whole number, but for rates so low that it would say nothing. */
static void print_rate(FILE *out, const char *label, struct metric_value value)
{
    int decimals = value.rate > 0 && value.rate < 10 ? 2 : 0;
    (void)fprintf(out, "%s%.*f", label, decimals, value.rate);
}

static void print_percentile(FILE *out, const char *label, const struct hist *hist, double quantile)
{
    struct metric_value value = {
        .is_known = hist_quantile_is_known(hist, quantile),
        .whole = (int64_t)hist_quantile_ns(hist, quantile),
    };
    print_duration(out, label, value);
}

static void print_percentiles(FILE *out, const struct hist *hist)
{
    print_percentile(out, "p50=", hist, 0.50);
    print_percentile(out, " p90=", hist, 0.90);
    print_percentile(out, " p99=", hist, 0.99);
    struct metric_value max = {.is_known = hist->count > 0, .whole = (int64_t)hist->max_ns};
    print_duration(out, " max=", max);
}

static void print_throughput(FILE *out, const struct report *report)
{
    const struct metric_value *metrics = report->metrics;
    const struct campaign_result *result = report->result;
    print_duration(out, "elapsed=", metrics[METRIC_ELAPSED]);
    print_rate(out, " throughput=", metrics[METRIC_THROUGHPUT]);
    print_rate(out, " runs/s (", metrics[METRIC_RECORD_RATE]);
    (void)fputs(" journal records/s, ", out);
    if (report_is_durable(report))
        (void)fprintf(out, "%s journal, durability=%s", result->journal_name,
                      durability_name(result->durability));
    else
        (void)fputs("in-memory journal", out);
    (void)fprintf(out, "; %" PRIu64 " records)\n", report_records_new(result));
}

static void print_resources(FILE *out, const struct report *report)
{
    const struct metric_value *metrics = report->metrics;
    (void)fprintf(out, "peak tasks=%" PRId64, metrics[METRIC_PEAK_TASKS].whole);
    print_megabytes(out, "  heap alloc delta=", metrics[METRIC_HEAP_DELTA]);
    print_megabytes(out, "  total alloc=", metrics[METRIC_TOTAL_ALLOC]);
    print_megabytes(out, "  peak rss=", metrics[METRIC_PEAK_RSS]);
    print_duration(out, "  cpu=", metrics[METRIC_CPU_PER_RUN]);
    (void)fputs("/run\n", out);
}

/* What the records cost the store. */
static void print_store(FILE *out, const struct report *report)
{
    const struct metric_value *metrics = report->metrics;
    const struct campaign_result *result = report->result;
    print_percentile(out, "store: append p50=", result->append, 0.50);
    print_percentile(out, " p99=", result->append, 0.99);
    print_count(out, "  commits=", metrics[METRIC_COMMITS]);
    print_ratio(out, " (", metrics[METRIC_RECORDS_PER_COMMIT]);
    print_duration(out, " records, ", metrics[METRIC_COMMIT_MEAN]);
    print_count(out, ")  fsyncs=", metrics[METRIC_SYNCS]);
    print_count(out, "  bytes/run=", metrics[METRIC_LOGICAL_PER_RUN]);
    print_count(out, " wal=", metrics[METRIC_WAL_PER_RUN]);
    print_count(out, " db=", metrics[METRIC_DB_PER_RUN]);
    print_ratio(out, " (", metrics[METRIC_WRITE_AMPLIFICATION]);
    (void)fprintf(out, "%s%s)", metrics[METRIC_WRITE_AMPLIFICATION].is_known ? "x" : "",
                  result->io.is_servers ? ", whole server" : "");
    if (result->retries > 0)
        (void)fprintf(out, " retries=%" PRIu64, result->retries);
    (void)fputc('\n', out);
}

static void print_resumed(FILE *out, const struct report *report)
{
    const struct campaign_result *result = report->result;
    const struct metric_value *metrics = report->metrics;
    struct metric_value runs = report_rate(result->runs_resumed, result->recovery_ns);
    struct metric_value records = report_rate(result->records_replayed, result->recovery_ns);
    (void)fprintf(
        out,
        "resumed=%" PRIu64 " replayed=%" PRIu64 " records unknown=%" PRIu64 " diverged=%" PRIu64
        " completed=%" PRIu64,
        result->runs_resumed, result->records_replayed, result->runs_by_outcome[OUTCOME_UNKNOWN],
        result->runs_by_outcome[OUTCOME_DIVERGED], result->runs_by_outcome[OUTCOME_COMPLETED]);
    if (result->runs_not_begun > 0)
        (void)fprintf(out, " not begun=%" PRIu64, result->runs_not_begun);
    print_duration(out, " recovery=", metrics[METRIC_RECOVERY]);
    print_rate(out, " (", runs);
    print_rate(out, " runs/s, ", records);
    (void)fputs(" records/s)\n", out);
}

/* The lines that stand there only when something was not as it should be. */
static void print_trouble(FILE *out, const struct report *report)
{
    const struct campaign_result *result = report->result;
    for (size_t i = 0; i < report->reason_count; i++) {
        (void)fputs("not valid: ", out);
        print_clean(out, report->reasons[i].text);
        if (i == 0 && report->stop_signal != 0)
            (void)fprintf(
                out, "; %" PRId64 " runs started, %" PRId64 " completed, %" PRIu64 " abandoned",
                report->metrics[METRIC_RUNS_STARTED].whole,
                report->metrics[METRIC_RUNS_COMPLETED].whole, result->runs_abandoned);
        (void)fputc('\n', out);
    }
    if (report->slo_abort.is_aborted) {
        const struct slo *slo = &report->options->slos[report->slo_abort.slo];
        char value[UNITS_TEXT_BYTES];
        char at[UNITS_TEXT_BYTES];
        report_format_slo(slo, report->slo_abort.value, value);
        (void)fprintf(out, "aborted after %s: slo %s: %s; %" PRIu64 " runs abandoned\n",
                      units_format_duration(report->slo_abort.at_ns, at), slo->text, value,
                      result->runs_abandoned);
    }
    for (size_t i = 0; i < report->warning_count && !report->options->is_quiet; i++) {
        (void)fputs("warning: ", out);
        print_clean(out, report->warnings[i].text);
        (void)fputc('\n', out);
    }
    if (result->records_refused > 0 || result->records_unknown > 0)
        (void)fprintf(out, "records: acked=%" PRIu64 " refused=%" PRIu64 " unknown=%" PRIu64 "\n",
                      result->records_acked, result->records_refused, result->records_unknown);
    if (report->metrics[METRIC_ERRORS].whole == 0)
        return;
    (void)fputs("failed run latency: ", out);
    print_percentiles(out, result->failed);
    const char *separator = " (";
    for (int outcome = OUTCOME_COMPLETED + 1; outcome < OUTCOME_COUNT; outcome++) {
        if (result->runs_by_outcome[outcome] == 0)
            continue;
        (void)fprintf(out, "%s%s=%" PRIu64, separator, outcome_name((enum outcome)outcome),
                      result->runs_by_outcome[outcome]);
        separator = " ";
    }
    (void)fputs(")\n", out);
}

/* What became of model calls where they did not all just answer, and of a stream's tokens. */
static void print_exchange(FILE *out, const struct report *report)
{
    const struct campaign_result *result = report->result;
    const struct model_count *count = &result->model_count;
    if (result->retried->count > 0) {
        (void)fputs("retried run latency: ", out);
        print_percentiles(out, result->retried);
        (void)fprintf(out, " (%" PRIu64 " runs, which run latency is without)\n",
                      result->retried->count);
    }
    if (count->failures > 0 || count->hedges > 0)
        (void)fprintf(out,
                      "model: calls=%" PRIu64 " failures=%" PRIu64 " (timeouts=%" PRIu64
                      ") retries=%" PRIu64 " hedges=%" PRIu64 " (won=%" PRIu64 " discarded=%" PRIu64
                      ")\n",
                      result->model_calls, count->failures, count->timeouts, count->retries,
                      count->hedges, count->hedge_wins, count->discarded);
    if (result->token_lag->count == 0)
        return;
    (void)fputs("token lag: ", out);
    print_percentiles(out, result->token_lag);
    (void)fprintf(out, " (%" PRIu64 " tokens, %" PRIu64 " deltas recorded)\n",
                  result->token_lag->count, count->deltas);
}

/* Whether the rate has come to rest, and how far it was from that. */
static void print_steady(FILE *out, const struct report *report)
{
    const struct warmup *warmup = report->warmup;
    char elapsed[UNITS_TEXT_BYTES];
    char window[UNITS_TEXT_BYTES];
    (void)units_format_duration(report->result->warmup.elapsed_ns, elapsed);
    (void)units_format_duration_exact(STEADY_WINDOW * warmup->interval_ns, window);
    (void)fprintf(out, "steady state: %s %s (", warmup->is_steady ? "after" : "not reached in",
                  elapsed);
    if (warmup->is_slope_known)
        (void)fprintf(out, "slope %.2g%% over %s; at most %.9g%% was asked for)\n",
                      100 * warmup->slope, window, 100 * report->options->steady_ratio);
    else
        (void)fputs("too little has ended to tell)\n", out);
}

static void print_warmup(FILE *out, const struct report *report)
{
    const struct campaign_warmup *warmup = &report->result->warmup;
    char elapsed[UNITS_TEXT_BYTES];
    if (!campaign_has_warmup(&report->options->campaign))
        return;
    (void)fprintf(out, "warm-up%s: %s, %" PRIu64 " runs that are not in the figures of runs, ",
                  warmup->is_over ? "" : ", which did not end",
                  units_format_duration(warmup->elapsed_ns, elapsed), warmup->runs_started);
    print_percentiles(out, warmup->response);
    (void)fprintf(out, " errors=%" PRIu64 "\n", report_warmup_errors(report->result));
    if (report->options->steady_ratio > 0 && report->warmup != NULL)
        print_steady(out, report);
}

/* In a closed loop nobody knows what an arrival would have waited. */
static void print_load(FILE *out, const struct report *report)
{
    const struct campaign_result *result = report->result;
    const struct metric_value *metrics = report->metrics;
    if (!campaign_is_open_loop(&report->options->campaign)) {
        (void)fputs(
            "closed loop: a run starts when another has ended, so a stall holds up arrivals, "
            "and no percentile tells of their wait; -rate does\n",
            out);
        return;
    }
    const char *process = arrival_process_name(report->options->campaign.arrival.process);
    (void)fprintf(out, "open loop: %s arrivals", process);
    print_rate(out, ", offered=", metrics[METRIC_OFFERED]);
    print_rate(out, " achieved=", metrics[METRIC_ACHIEVED]);
    (void)fprintf(out,
                  " runs/s due=%" PRIu64 " started=%" PRIu64 " queued=%" PRIu64 "\ndispatch lag: ",
                  result->runs_due, result->runs_started, result->runs_queued);
    print_percentiles(out, result->dispatch);
    (void)fputs("\nservice time: ", out);
    print_percentiles(out, result->service);
    (void)fputc('\n', out);
}

static void print_slos(FILE *out, const struct report *report)
{
    for (size_t i = 0; i < report->options->slo_count; i++) {
        const struct slo *slo = &report->options->slos[i];
        const struct report_slo *held = &report->slos[i];
        char value[UNITS_TEXT_BYTES] = "-";
        if (held->is_known)
            report_format_slo(slo, held->value, value);
        (void)fprintf(out, "slo %s: %s: %s\n", held->is_met ? "met" : "MISSED", slo->text, value);
    }
}

static int write_text(FILE *out, const struct report *report)
{
    const struct metric_value *metrics = report->metrics;
    report_print_configuration(out, report);
    print_throughput(out, report);
    (void)fputs("run latency: ", out);
    print_percentiles(out, report->result->response);
    print_duration(out, "\nrun time: model=", metrics[METRIC_MODEL_MEAN]);
    print_duration(out, " journal=", metrics[METRIC_JOURNAL_MEAN]);
    print_duration(out, " queue=", metrics[METRIC_QUEUE_MEAN]);
    print_duration(out, " tool=", metrics[METRIC_TOOL_MEAN]);
    if (report->result->model_count.retries > 0)
        print_duration(out, " backoff=", metrics[METRIC_BACKOFF_MEAN]);
    (void)fprintf(out, " (mean%s)\n",
                  report->result->retried->count > 0 ? ", with the retried runs" : "");
    print_resources(out, report);
    if (report_is_durable(report))
        print_store(out, report);
    print_exchange(out, report);
    print_trouble(out, report);
    print_warmup(out, report);
    if (report->result->is_resumed)
        print_resumed(out, report); /* which is no load that is measured */
    else
        print_load(out, report);
    if (report->shows_histogram)
        report_print_histogram(out, report->result->response, report->is_utf8);
    print_slos(out, report);
    (void)fprintf(out, "errors=%" PRId64 "\n", metrics[METRIC_ERRORS].whole);
    return 0;
}

const struct report_format report_text = {.name = "text", .write = write_text};
