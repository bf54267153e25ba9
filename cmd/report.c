/* report: see report.h. */
#include "cmd/report.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"

const struct report_format *const report_table[] = {&report_json, NULL};

const struct metric_row metric_rows[METRIC_COUNT] = {
    [METRIC_ELAPSED] = {"elapsed_ns", METRIC_UNIT_NS, METRIC_OF_RESULT},
    [METRIC_THROUGHPUT] = {"throughput_runs_per_s", METRIC_UNIT_PER_S, METRIC_OF_RESULT},
    [METRIC_RECORD_RATE] = {"throughput_records_per_s", METRIC_UNIT_PER_S, METRIC_OF_RESULT},
    [METRIC_RUNS_STARTED] = {"runs_started", METRIC_UNIT_COUNT, METRIC_OF_RESULT},
    [METRIC_RUNS_COMPLETED] = {"runs_completed", METRIC_UNIT_COUNT, METRIC_OF_RESULT},
    [METRIC_ERRORS] = {"errors", METRIC_UNIT_COUNT, METRIC_OF_RESULT},
    [METRIC_RUNS_ABANDONED] = {"runs_abandoned", METRIC_UNIT_COUNT, METRIC_OF_RESULT},
    [METRIC_MODEL_MEAN] = {"model_mean_ns", METRIC_UNIT_NS, METRIC_OF_RESULT},
    [METRIC_JOURNAL_MEAN] = {"journal_mean_ns", METRIC_UNIT_NS, METRIC_OF_RESULT},
    [METRIC_QUEUE_MEAN] = {"queue_mean_ns", METRIC_UNIT_NS, METRIC_OF_RESULT},
    [METRIC_TOOL_MEAN] = {"tool_mean_ns", METRIC_UNIT_NS, METRIC_OF_RESULT},
    [METRIC_MODEL_CALLS] = {"model_calls", METRIC_UNIT_COUNT, METRIC_OF_RESULT},
    [METRIC_TOOL_CALLS] = {"tool_calls", METRIC_UNIT_COUNT, METRIC_OF_RESULT},
    [METRIC_PEAK_TASKS] = {"peak_tasks", METRIC_UNIT_COUNT, METRIC_OF_RESULT},
    [METRIC_HEAP_DELTA] = {"heap_delta_bytes", METRIC_UNIT_BYTES, METRIC_OF_RESULT},
    [METRIC_TOTAL_ALLOC] = {"total_alloc_bytes", METRIC_UNIT_BYTES, METRIC_OF_RESULT},
    [METRIC_PEAK_RSS] = {"peak_rss_bytes", METRIC_UNIT_BYTES, METRIC_OF_RESULT},
    [METRIC_CPU] = {"cpu_ns", METRIC_UNIT_NS, METRIC_OF_RESULT},
    [METRIC_CPU_PER_RUN] = {"cpu_per_run_ns", METRIC_UNIT_NS, METRIC_OF_RESULT},
    [METRIC_RECORDS] = {"records", METRIC_UNIT_COUNT, METRIC_OF_STORE},
    [METRIC_RECORDS_ACKED] = {"records_acked", METRIC_UNIT_COUNT, METRIC_OF_STORE},
    [METRIC_RECORDS_BYTES] = {"records_bytes", METRIC_UNIT_BYTES, METRIC_OF_STORE},
    [METRIC_COMMITS] = {"commits", METRIC_UNIT_COUNT, METRIC_OF_STORE},
};

static struct metric_value whole(uint64_t value)
{
    return (struct metric_value){
        .is_known = true,
        .whole = value > INT64_MAX ? INT64_MAX : (int64_t)value,
    };
}

/* A share of a sum, rounded to the nearest; unknown when there is nothing to share it among. */
static struct metric_value mean(uint64_t sum, uint64_t count)
{
    if (count == 0)
        return (struct metric_value){.is_known = false};
    return whole(sum / count + (sum % count >= count - count / 2));
}

static struct metric_value rate(uint64_t count, uint64_t elapsed_ns)
{
    if (elapsed_ns == 0)
        return (struct metric_value){.is_known = true, .rate = 0};
    double per_s = (double)count * (double)NS_PER_S / (double)elapsed_ns;
    return (struct metric_value){.is_known = true, .rate = per_s};
}

static void compute_metrics(struct metric_value metrics[METRIC_COUNT],
                            const struct campaign_result *result)
{
    uint64_t ended = 0;
    for (int outcome = 0; outcome < OUTCOME_COUNT; outcome++)
        ended += result->runs_by_outcome[outcome];
    uint64_t completed = result->runs_by_outcome[OUTCOME_COMPLETED];

    metrics[METRIC_ELAPSED] = whole(result->elapsed_ns);
    metrics[METRIC_THROUGHPUT] = rate(completed, result->elapsed_ns);
    metrics[METRIC_RECORD_RATE] = rate(result->records, result->elapsed_ns);
    metrics[METRIC_RUNS_STARTED] = whole(result->runs_started);
    metrics[METRIC_RUNS_COMPLETED] = whole(completed);
    metrics[METRIC_ERRORS] = whole(ended - completed);
    metrics[METRIC_RUNS_ABANDONED] = whole(result->runs_abandoned);
    metrics[METRIC_MODEL_MEAN] = mean(result->model_ns, completed);
    metrics[METRIC_JOURNAL_MEAN] = mean(result->journal_ns, completed);
    metrics[METRIC_QUEUE_MEAN] = mean(result->queue_ns, completed);
    metrics[METRIC_TOOL_MEAN] = mean(result->tool_ns, completed);
    metrics[METRIC_MODEL_CALLS] = whole(result->model_calls);
    metrics[METRIC_TOOL_CALLS] = whole(result->tool_calls);
    metrics[METRIC_PEAK_TASKS] = whole(result->peak_tasks);
    metrics[METRIC_HEAP_DELTA] =
        (struct metric_value){.is_known = true, .whole = result->heap_delta_bytes};
    metrics[METRIC_TOTAL_ALLOC] = whole(result->total_alloc_bytes);
    metrics[METRIC_TOTAL_ALLOC].is_known = result->is_total_alloc_known;
    metrics[METRIC_PEAK_RSS] = whole(result->peak_rss_bytes);
    metrics[METRIC_CPU] = whole(result->cpu_ns);
    metrics[METRIC_CPU_PER_RUN] = mean(result->cpu_ns, ended);
    metrics[METRIC_RECORDS] = whole(result->records);
    metrics[METRIC_RECORDS_ACKED] = whole(result->records_acked);
    metrics[METRIC_RECORDS_BYTES] = whole(result->records_bytes);
    metrics[METRIC_COMMITS] = whole(result->commits);
}

const char *report_signal_name(int signal)
{
    return signal == SIGINT ? "SIGINT" : "SIGTERM";
}

void report_init(struct report *report, const struct options *options,
                 const struct campaign_result *result, int stop_signal,
                 const struct errmsg *journal_error)
{
    memset(report, 0, sizeof(*report));
    report->options = options;
    report->result = result;
    report->version = version_of_build();
    report->stop_signal = stop_signal;
    compute_metrics(report->metrics, result);

    if (stop_signal != 0)
        (void)errmsg_set(&report->reasons[report->reason_count++], 0, "interrupted by %s",
                         report_signal_name(stop_signal));
    if (journal_error != NULL)
        (void)errmsg_set(&report->reasons[report->reason_count++], 0, "journal: %s",
                         journal_error->text);
    if (result->scheduler_error.text[0] != '\0')
        (void)errmsg_set(&report->reasons[report->reason_count++], 0, "a scheduler gave up: %s",
                         result->scheduler_error.text);
    if (result->has_store_failed)
        (void)errmsg_set(&report->reasons[report->reason_count++], 0,
                         "the journal refused records, and no more runs were started");
    if (result->runs_by_outcome[OUTCOME_COMPLETED] == 0)
        (void)errmsg_set(&report->reasons[report->reason_count++], 0, "no run completed");
}

int report_render(const struct report_format *format, const struct report *report, char **text,
                  size_t *size)
{
    FILE *memory = open_memstream(text, size);
    if (memory == NULL)
        return -errno;
    bool has_failed = format->write(memory, report) != 0 || ferror(memory) != 0;
    has_failed = fclose(memory) != 0 || has_failed;
    if (!has_failed)
        return 0;
    free(*text);
    return -ENOMEM;
}
