/*
 * report_text: the summary for the person at the keyboard. Scripts grep it: the first, second,
 * third, fifth and last line keep their shape; lines about what went wrong stand between the fifth
 * and the last.
 */
#include <inttypes.h>
#include <string.h>

#include "cmd/report.h"
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

/* A whole number, but for rates so low that it would say nothing. */
static void print_rate(FILE *out, const char *label, struct metric_value value)
{
    int decimals = value.rate > 0 && value.rate < 10 ? 2 : 0;
    (void)fprintf(out, "%s%.*f", label, decimals, value.rate);
}

static void print_percentiles(FILE *out, const struct hist *hist)
{
    static const struct {
        const char *label;
        double quantile;
    } columns[] = {{"p50=", 0.50}, {" p90=", 0.90}, {" p99=", 0.99}};

    for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++) {
        struct metric_value value = {
            .is_known = hist_quantile_is_known(hist, columns[i].quantile),
            .whole = (int64_t)hist_quantile_ns(hist, columns[i].quantile),
        };
        print_duration(out, columns[i].label, value);
    }
    struct metric_value max = {.is_known = hist->count > 0, .whole = (int64_t)hist->max_ns};
    print_duration(out, " max=", max);
}

static bool is_zero(const struct dist *dist)
{
    return dist->kind == DIST_CONSTANT && dist->a == 0;
}

/* What is not printed is at its default: two configurations never look the same. */
static void print_what_is_not_default(FILE *out, const struct campaign_config *config)
{
    char text[UNITS_TEXT_BYTES];
    if (config->turns != OPTIONS_TURNS_DEFAULT)
        (void)fprintf(out, " turns=%" PRIu32, config->turns);
    if (config->tools != OPTIONS_TOOLS_DEFAULT)
        (void)fprintf(out, " tools=%" PRIu32, config->tools);
    if (!is_zero(&config->tool_latency)) {
        (void)fputs(" tool-latency=", out);
        print_clean(out, config->tool_latency.spec);
    }
    if (config->tool_effect != TOOL_EFFECT_NOOP)
        (void)fprintf(out, " tool-effect=%s", tool_effect_name(config->tool_effect));
    if (config->timeout_ns > 0)
        (void)fprintf(out, " timeout=%s", units_format_duration_exact(config->timeout_ns, text));
}

static void print_configuration(FILE *out, const struct report *report)
{
    const struct campaign_config *config = &report->options->campaign;
    const struct campaign_result *result = report->result;
    char text[UNITS_TEXT_BYTES];
    if (config->runs > 0)
        (void)fprintf(out, "runs=%" PRIu64, config->runs);
    else
        (void)fprintf(out, "duration=%s", units_format_duration_exact(config->duration_ns, text));
    (void)fprintf(out, " concurrency=%" PRIu32 " sim-latency=", config->concurrency);
    print_clean(out, config->latency.spec);
    (void)fprintf(out, " journal=%s durability=%s threads=%" PRIu32 " loop=%s seed=%" PRIu64,
                  result->journal_name, durability_name(result->durability), result->threads,
                  result->loop_name, config->seed);
    print_what_is_not_default(out, config);
    (void)fputc('\n', out);
}

static void print_throughput(FILE *out, const struct report *report)
{
    const struct metric_value *metrics = report->metrics;
    const struct campaign_result *result = report->result;
    print_duration(out, "elapsed=", metrics[METRIC_ELAPSED]);
    print_rate(out, " throughput=", metrics[METRIC_THROUGHPUT]);
    print_rate(out, " runs/s (", metrics[METRIC_RECORD_RATE]);
    (void)fputs(" journal records/s, ", out);
    if (strcmp(result->journal_name, "memory") == 0)
        (void)fputs("in-memory journal", out);
    else
        (void)fprintf(out, "%s journal, durability=%s", result->journal_name,
                      durability_name(result->durability));
    (void)fprintf(out, "; %" PRId64 " records)\n", metrics[METRIC_RECORDS].whole);
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

static int write_text(FILE *out, const struct report *report)
{
    const struct metric_value *metrics = report->metrics;
    print_configuration(out, report);
    print_throughput(out, report);
    (void)fputs("run latency: ", out);
    print_percentiles(out, report->result->response);
    print_duration(out, "\nrun time: model=", metrics[METRIC_MODEL_MEAN]);
    print_duration(out, " journal=", metrics[METRIC_JOURNAL_MEAN]);
    print_duration(out, " queue=", metrics[METRIC_QUEUE_MEAN]);
    print_duration(out, " tool=", metrics[METRIC_TOOL_MEAN]);
    (void)fputs(" (mean)\n", out);
    print_resources(out, report);
    print_trouble(out, report);
    (void)fprintf(out, "errors=%" PRId64 "\n", metrics[METRIC_ERRORS].whole);
    return 0;
}

const struct report_format report_text = {.name = "text", .write = write_text};
