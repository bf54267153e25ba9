/* report: see report.h. */
#include "cmd/report.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/units.h"

const struct report_format *const report_table[] = {
    &report_json, &report_csv,         &report_markdown,    &report_hgrm,       &report_gobench,
    &report_bmf,  &report_openmetrics, &report_gha_smaller, &report_gha_bigger, NULL,
};

const struct metric_row metric_rows[METRIC_COUNT] = {
    [METRIC_ELAPSED] = {"elapsed_ns", METRIC_UNIT_NS, METRIC_OF_RESULT},
    [METRIC_STARTED] = {"started_unix_ns", METRIC_UNIT_NS, METRIC_OF_RESULT},
    [METRIC_THROUGHPUT] = {"throughput_runs_per_s", METRIC_UNIT_PER_S, METRIC_OF_RESULT},
    [METRIC_RECORD_RATE] = {"throughput_records_per_s", METRIC_UNIT_PER_S, METRIC_OF_RESULT},
    [METRIC_RUNS_STARTED] = {"runs_started", METRIC_UNIT_COUNT, METRIC_OF_RESULT},
    [METRIC_RUNS_DUE] = {"runs_due", METRIC_UNIT_COUNT, METRIC_OF_RESULT},
    [METRIC_RUNS_QUEUED] = {"runs_queued", METRIC_UNIT_COUNT, METRIC_OF_RESULT},
    [METRIC_OFFERED] = {"offered_runs_per_s", METRIC_UNIT_PER_S, METRIC_OF_RESULT},
    [METRIC_ISSUING] = {"issuing_ns", METRIC_UNIT_NS, METRIC_OF_RESULT},
    [METRIC_ACHIEVED] = {"achieved_runs_per_s", METRIC_UNIT_PER_S, METRIC_OF_RESULT},
    [METRIC_RUNS_COMPLETED] = {"runs_completed", METRIC_UNIT_COUNT, METRIC_OF_RESULT},
    [METRIC_ERRORS] = {"errors", METRIC_UNIT_COUNT, METRIC_OF_RESULT},
    [METRIC_RUNS_ABANDONED] = {"runs_abandoned", METRIC_UNIT_COUNT, METRIC_OF_RESULT},
    [METRIC_MODEL_MEAN] = {"model_mean_ns", METRIC_UNIT_NS, METRIC_OF_RESULT},
    [METRIC_JOURNAL_MEAN] = {"journal_mean_ns", METRIC_UNIT_NS, METRIC_OF_RESULT},
    [METRIC_QUEUE_MEAN] = {"queue_mean_ns", METRIC_UNIT_NS, METRIC_OF_RESULT},
    [METRIC_TOOL_MEAN] = {"tool_mean_ns", METRIC_UNIT_NS, METRIC_OF_RESULT},
    [METRIC_BACKOFF_MEAN] = {"backoff_mean_ns", METRIC_UNIT_NS, METRIC_OF_RESULT},
    [METRIC_SLOT_MEAN] = {"slot_mean_ns", METRIC_UNIT_NS, METRIC_OF_RESULT},
    [METRIC_SLOT_JOURNAL_MEAN] = {"slot_journal_mean_ns", METRIC_UNIT_NS, METRIC_OF_RESULT},
    [METRIC_MODEL_CALLS] = {"model_calls", METRIC_UNIT_COUNT, METRIC_OF_RESULT},
    [METRIC_TOOL_CALLS] = {"tool_calls", METRIC_UNIT_COUNT, METRIC_OF_RESULT},
    [METRIC_MODEL_FAILURES] = {"model_failures", METRIC_UNIT_COUNT, METRIC_OF_RESULT},
    [METRIC_MODEL_TIMEOUTS] = {"model_timeouts", METRIC_UNIT_COUNT, METRIC_OF_RESULT},
    [METRIC_MODEL_RETRIES] = {"model_retries", METRIC_UNIT_COUNT, METRIC_OF_RESULT},
    [METRIC_HEDGES] = {"hedges", METRIC_UNIT_COUNT, METRIC_OF_RESULT},
    [METRIC_HEDGE_WINS] = {"hedge_wins", METRIC_UNIT_COUNT, METRIC_OF_RESULT},
    [METRIC_DISCARDED] = {"replies_discarded", METRIC_UNIT_COUNT, METRIC_OF_RESULT},
    [METRIC_DELTAS] = {"deltas", METRIC_UNIT_COUNT, METRIC_OF_RESULT},
    [METRIC_PEAK_TASKS] = {"peak_tasks", METRIC_UNIT_COUNT, METRIC_OF_RESULT},
    [METRIC_HEAP_DELTA] = {"heap_delta_bytes", METRIC_UNIT_BYTES, METRIC_OF_RESULT},
    [METRIC_TOTAL_ALLOC] = {"total_alloc_bytes", METRIC_UNIT_BYTES, METRIC_OF_RESULT},
    [METRIC_ALLOCATIONS] = {"allocations", METRIC_UNIT_COUNT, METRIC_OF_RESULT},
    [METRIC_SYSCALLS] = {"syscalls", METRIC_UNIT_COUNT, METRIC_OF_RESULT},
    [METRIC_INSTRUCTIONS] = {"instructions", METRIC_UNIT_COUNT, METRIC_OF_RESULT},
    [METRIC_ALLOCATIONS_PER_RUN] = {"allocations_per_run", METRIC_UNIT_RATIO, METRIC_OF_RESULT},
    [METRIC_ALLOC_PER_RUN] = {"alloc_per_run_bytes", METRIC_UNIT_RATIO, METRIC_OF_RESULT},
    [METRIC_SYSCALLS_PER_RUN] = {"syscalls_per_run", METRIC_UNIT_RATIO, METRIC_OF_RESULT},
    [METRIC_INSTRUCTIONS_PER_RUN] = {"instructions_per_run", METRIC_UNIT_RATIO, METRIC_OF_RESULT},
    [METRIC_PEAK_RSS] = {"peak_rss_bytes", METRIC_UNIT_BYTES, METRIC_OF_RESULT},
    [METRIC_CPU] = {"cpu_ns", METRIC_UNIT_NS, METRIC_OF_RESULT},
    [METRIC_CPU_PER_RUN] = {"cpu_per_run_ns", METRIC_UNIT_NS, METRIC_OF_RESULT},
    [METRIC_BUSIEST] = {"scheduler_busy_ratio", METRIC_UNIT_RATIO, METRIC_OF_RESULT},
    [METRIC_STOLEN] = {"cpu_stolen_ratio", METRIC_UNIT_RATIO, METRIC_OF_RESULT},
    [METRIC_THROTTLED] = {"cpu_throttled_ratio", METRIC_UNIT_RATIO, METRIC_OF_RESULT},
    [METRIC_RECORDS] = {"records", METRIC_UNIT_COUNT, METRIC_OF_STORE},
    [METRIC_RECORDS_ACKED] = {"records_acked", METRIC_UNIT_COUNT, METRIC_OF_STORE},
    [METRIC_RECORDS_BYTES] = {"records_bytes", METRIC_UNIT_BYTES, METRIC_OF_STORE},
    [METRIC_COMMITS] = {"commits", METRIC_UNIT_COUNT, METRIC_OF_STORE},
    [METRIC_RUNS_RESUMED] = {"runs_resumed", METRIC_UNIT_COUNT, METRIC_OF_RESULT},
    [METRIC_RECORDS_REPLAYED] = {"records_replayed", METRIC_UNIT_COUNT, METRIC_OF_RESULT},
    [METRIC_RUNS_NOT_BEGUN] = {"runs_not_begun", METRIC_UNIT_COUNT, METRIC_OF_RESULT},
    [METRIC_RECOVERY] = {"recovery_ns", METRIC_UNIT_NS, METRIC_OF_RESULT},
    [METRIC_RECORDS_BEFORE] = {"records_before", METRIC_UNIT_COUNT, METRIC_OF_STORE},
    [METRIC_RECORDS_REFUSED] = {"records_refused", METRIC_UNIT_COUNT, METRIC_OF_STORE},
    [METRIC_RECORDS_UNKNOWN] = {"records_unknown", METRIC_UNIT_COUNT, METRIC_OF_STORE},
    [METRIC_BATCHES] = {"batches", METRIC_UNIT_COUNT, METRIC_OF_STORE},
    [METRIC_RETRIES] = {"retries", METRIC_UNIT_COUNT, METRIC_OF_STORE},
    [METRIC_RECORDS_PER_COMMIT] = {"records_per_commit", METRIC_UNIT_RATIO, METRIC_OF_STORE},
    [METRIC_COMMIT_MEAN] = {"commit_mean_ns", METRIC_UNIT_NS, METRIC_OF_STORE},
    [METRIC_CHECKPOINTS] = {"checkpoints", METRIC_UNIT_COUNT, METRIC_OF_STORE},
    [METRIC_CHECKPOINT_MEAN] = {"checkpoint_mean_ns", METRIC_UNIT_NS, METRIC_OF_STORE},
    [METRIC_SYNCS] = {"syncs", METRIC_UNIT_COUNT, METRIC_OF_STORE},
    [METRIC_WAL] = {"wal_bytes", METRIC_UNIT_BYTES, METRIC_OF_STORE},
    [METRIC_DB] = {"db_bytes", METRIC_UNIT_BYTES, METRIC_OF_STORE},
    [METRIC_STORE] = {"store_bytes", METRIC_UNIT_BYTES, METRIC_OF_STORE},
    [METRIC_LOGICAL] = {"logical_bytes", METRIC_UNIT_BYTES, METRIC_OF_STORE},
    [METRIC_WRITE_AMPLIFICATION] = {"write_amplification", METRIC_UNIT_RATIO, METRIC_OF_STORE},
    [METRIC_COMMITS_PER_RUN] = {"commits_per_run", METRIC_UNIT_RATIO, METRIC_OF_STORE},
    [METRIC_SYNCS_PER_RUN] = {"syncs_per_run", METRIC_UNIT_RATIO, METRIC_OF_STORE},
    [METRIC_LOGICAL_PER_RUN] = {"logical_per_run_bytes", METRIC_UNIT_BYTES, METRIC_OF_STORE},
    [METRIC_WAL_PER_RUN] = {"wal_per_run_bytes", METRIC_UNIT_BYTES, METRIC_OF_STORE},
    [METRIC_DB_PER_RUN] = {"db_per_run_bytes", METRIC_UNIT_BYTES, METRIC_OF_STORE},
    [METRIC_RECORDS_PER_RUN] = {"records_per_run", METRIC_UNIT_RATIO, METRIC_OF_STORE},
};

static struct metric_value whole(uint64_t value)
{
    return (struct metric_value){
        .is_known = true,
        .whole = value > INT64_MAX ? INT64_MAX : (int64_t)value,
    };
}

/* A figure of the journal's, which it may not be able to tell. */
static struct metric_value whole_if_known(uint64_t value)
{
    if (value == JOURNAL_NOT_KNOWN)
        return (struct metric_value){.is_known = false};
    return whole(value);
}

/* A share of a sum, rounded to the nearest; unknown when one of them is, or when there is nothing
 * to share it among. */
static struct metric_value mean(uint64_t sum, uint64_t count)
{
    if (sum == JOURNAL_NOT_KNOWN || count == JOURNAL_NOT_KNOWN || count == 0)
        return (struct metric_value){.is_known = false};
    return whole(sum / count + (sum % count >= count - count / 2));
}

/* The same, not rounded. */
static struct metric_value ratio(uint64_t sum, uint64_t count)
{
    if (sum == JOURNAL_NOT_KNOWN || count == JOURNAL_NOT_KNOWN || count == 0)
        return (struct metric_value){.is_known = false};
    return (struct metric_value){.is_known = true, .rate = (double)sum / (double)count};
}

/* Negative: it is not known. */
static struct metric_value share(double of_whole)
{
    return (struct metric_value){.is_known = of_whole >= 0, .rate = of_whole};
}

struct metric_value report_rate(uint64_t count, uint64_t elapsed_ns)
{
    if (elapsed_ns == 0)
        return (struct metric_value){.is_known = true, .rate = 0};
    double per_s = (double)count * (double)NS_PER_S / (double)elapsed_ns;
    return (struct metric_value){.is_known = true, .rate = per_s};
}

static uint64_t count_ended(const uint64_t runs_by_outcome[OUTCOME_COUNT])
{
    uint64_t ended = 0;
    for (int outcome = 0; outcome < OUTCOME_COUNT; outcome++)
        ended += runs_by_outcome[outcome];
    return ended;
}

uint64_t report_warmup_errors(const struct campaign_result *result)
{
    const uint64_t *outcomes = result->warmup.runs_by_outcome;
    return count_ended(outcomes) - outcomes[OUTCOME_COMPLETED];
}

static void compute_store(struct metric_value metrics[METRIC_COUNT],
                          const struct campaign_result *result)
{
    const struct journal_io *io = &result->io;
    /* The store's figures are of all runs. */
    uint64_t ended =
        count_ended(result->runs_by_outcome) + count_ended(result->warmup.runs_by_outcome);
    bool is_less = result->records_bytes < result->bytes_before; /* it could not be read back */
    uint64_t logical = is_less ? JOURNAL_NOT_KNOWN : result->records_bytes - result->bytes_before;
    bool is_written_known = io->wal_bytes != JOURNAL_NOT_KNOWN && io->db_bytes != JOURNAL_NOT_KNOWN;
    uint64_t written = is_written_known ? io->wal_bytes + io->db_bytes : JOURNAL_NOT_KNOWN;

    metrics[METRIC_RECORDS] = whole(result->records);
    metrics[METRIC_RECORDS_BEFORE] = whole(result->records_before);
    metrics[METRIC_RECORDS_ACKED] = whole(result->records_acked);
    metrics[METRIC_RECORDS_REFUSED] = whole(result->records_refused);
    metrics[METRIC_RECORDS_UNKNOWN] = whole(result->records_unknown);
    metrics[METRIC_RECORDS_BYTES] = whole(result->records_bytes);
    metrics[METRIC_BATCHES] = whole(result->batches);
    metrics[METRIC_RETRIES] = whole(result->retries);
    metrics[METRIC_COMMITS] = whole_if_known(io->commits);
    metrics[METRIC_RECORDS_PER_COMMIT] = ratio(result->records_acked, io->commits);
    metrics[METRIC_COMMIT_MEAN] = mean(io->commit_ns, io->commits);
    metrics[METRIC_CHECKPOINTS] = whole_if_known(io->checkpoints);
    metrics[METRIC_CHECKPOINT_MEAN] = mean(io->checkpoint_ns, io->checkpoints);
    metrics[METRIC_SYNCS] = whole_if_known(io->syncs);
    metrics[METRIC_WAL] = whole_if_known(io->wal_bytes);
    metrics[METRIC_DB] = whole_if_known(io->db_bytes);
    metrics[METRIC_STORE] = whole_if_known(io->store_bytes);
    metrics[METRIC_LOGICAL] = whole_if_known(logical);
    metrics[METRIC_WRITE_AMPLIFICATION] = ratio(written, logical);
    metrics[METRIC_COMMITS_PER_RUN] = ratio(io->commits, ended);
    metrics[METRIC_SYNCS_PER_RUN] = ratio(io->syncs, ended);
    metrics[METRIC_LOGICAL_PER_RUN] = mean(logical, ended);
    metrics[METRIC_WAL_PER_RUN] = mean(io->wal_bytes, ended);
    metrics[METRIC_DB_PER_RUN] = mean(io->db_bytes, ended);
    metrics[METRIC_RECORDS_PER_RUN] = ratio(report_records_new(result), ended);
}

static void compute_recovery(struct metric_value metrics[METRIC_COUNT],
                             const struct campaign_result *result)
{
    if (!result->is_resumed)
        return; /* Zeroed, they are not known. */
    metrics[METRIC_RUNS_RESUMED] = whole(result->runs_resumed);
    metrics[METRIC_RUNS_NOT_BEGUN] = whole(result->runs_not_begun);
    metrics[METRIC_RECORDS_REPLAYED] = whole(result->records_replayed);
    metrics[METRIC_RECOVERY] = whole(result->recovery_ns);
}

static void compute_schedule(struct metric_value metrics[METRIC_COUNT],
                             const struct campaign_result *result)
{
    if (!result->is_open_loop)
        return;
    metrics[METRIC_RUNS_DUE] = whole(result->runs_due);
    metrics[METRIC_RUNS_QUEUED] = whole(result->runs_queued);
    metrics[METRIC_ISSUING] = whole(result->issuing_ns);
    if (result->issuing_ns == 0)
        return;
    uint64_t begun_ns = result->begun_ns;
    metrics[METRIC_OFFERED] = report_rate(result->runs_due, result->issuing_ns);
    metrics[METRIC_ACHIEVED] = report_rate(
        result->runs_started, begun_ns > result->issuing_ns ? begun_ns : result->issuing_ns);
}

static void compute_model(struct metric_value metrics[METRIC_COUNT],
                          const struct campaign_result *result)
{
    const struct model_count *count = &result->model_count;
    metrics[METRIC_MODEL_FAILURES] = whole(count->failures);
    metrics[METRIC_MODEL_TIMEOUTS] = whole(count->timeouts);
    metrics[METRIC_MODEL_RETRIES] = whole(count->retries);
    metrics[METRIC_HEDGES] = whole(count->hedges);
    metrics[METRIC_HEDGE_WINS] = whole(count->hedge_wins);
    metrics[METRIC_DISCARDED] = whole(count->discarded);
    metrics[METRIC_DELTAS] = whole(count->deltas);
}

/* What was there when the warm-up ended is not part of a rate since. */
static uint64_t records_measured(const struct campaign_result *result)
{
    uint64_t records = report_records_new(result);
    return records > result->warmup.records ? records - result->warmup.records : 0;
}

/* A warm-up's runs are in what is counted. */
static void compute_counts(struct metric_value metrics[METRIC_COUNT],
                           const struct campaign_result *result)
{
    const struct counts *counts = &result->counts;
    uint64_t runs = result->runs_started + result->warmup.runs_started;
    uint64_t bytes = result->is_total_alloc_known ? result->total_alloc_bytes : COUNT_NOT_KNOWN;
    metrics[METRIC_TOTAL_ALLOC] = whole_if_known(bytes);
    metrics[METRIC_ALLOCATIONS] = whole_if_known(counts->allocations);
    metrics[METRIC_SYSCALLS] = whole_if_known(counts->syscalls);
    metrics[METRIC_INSTRUCTIONS] = whole_if_known(counts->instructions);
    metrics[METRIC_ALLOC_PER_RUN] = ratio(bytes, runs);
    metrics[METRIC_ALLOCATIONS_PER_RUN] = ratio(counts->allocations, runs);
    metrics[METRIC_SYSCALLS_PER_RUN] = ratio(counts->syscalls, runs);
    metrics[METRIC_INSTRUCTIONS_PER_RUN] = ratio(counts->instructions, runs);
}

static void compute_metrics(struct metric_value metrics[METRIC_COUNT],
                            const struct campaign_result *result)
{
    uint64_t ended = count_ended(result->runs_by_outcome);
    uint64_t completed = result->runs_by_outcome[OUTCOME_COMPLETED];

    metrics[METRIC_ELAPSED] = whole(result->elapsed_ns);
    metrics[METRIC_STARTED] = whole(result->started_unix_ns);
    metrics[METRIC_THROUGHPUT] = report_rate(completed, result->elapsed_ns);
    metrics[METRIC_RECORD_RATE] = report_rate(records_measured(result), result->elapsed_ns);
    metrics[METRIC_RUNS_STARTED] = whole(result->runs_started);
    metrics[METRIC_RUNS_COMPLETED] = whole(completed);
    metrics[METRIC_ERRORS] = whole(ended - completed);
    metrics[METRIC_RUNS_ABANDONED] = whole(result->runs_abandoned);
    metrics[METRIC_MODEL_MEAN] = mean(result->model_ns, completed);
    metrics[METRIC_JOURNAL_MEAN] = mean(result->journal_ns, completed);
    metrics[METRIC_QUEUE_MEAN] = mean(result->queue_ns, completed);
    metrics[METRIC_TOOL_MEAN] = mean(result->tool_ns, completed);
    metrics[METRIC_BACKOFF_MEAN] = mean(result->backoff_ns, completed);
    metrics[METRIC_SLOT_MEAN] = mean(result->slot_ns, result->runs_started);
    metrics[METRIC_SLOT_JOURNAL_MEAN] = mean(result->slot_journal_ns, result->runs_started);
    metrics[METRIC_MODEL_CALLS] = whole(result->model_calls);
    metrics[METRIC_TOOL_CALLS] = whole(result->tool_calls);
    metrics[METRIC_BUSIEST] = (struct metric_value){.is_known = true, .rate = result->busiest};
    metrics[METRIC_STOLEN] = share(result->stolen);
    metrics[METRIC_THROTTLED] = share(result->throttled);
    metrics[METRIC_PEAK_TASKS] = whole(result->peak_tasks);
    metrics[METRIC_HEAP_DELTA] =
        (struct metric_value){.is_known = true, .whole = result->heap_delta_bytes};
    metrics[METRIC_PEAK_RSS] = whole(result->peak_rss_bytes);
    metrics[METRIC_CPU] = whole(result->cpu_ns);
    metrics[METRIC_CPU_PER_RUN] = mean(result->cpu_ns, ended);
    compute_counts(metrics, result);
    compute_model(metrics, result);
    compute_store(metrics, result);
    compute_schedule(metrics, result);
    compute_recovery(metrics, result);
}

uint64_t report_records_new(const struct campaign_result *result)
{
    /* A store that has lost records may hold less than before; that has been found out. */
    return result->records > result->records_before ? result->records - result->records_before : 0;
}

bool report_is_durable(const struct report *report)
{
    struct journal_config config = campaign_journal_config(&report->options->campaign);
    return !journal_keeps_in_memory(&config);
}

const char *report_signal_name(int signal)
{
    return signal == SIGINT ? "SIGINT" : "SIGTERM";
}

struct errmsg *report_next_reason(struct report *report)
{
    assert(report->reason_count < REPORT_REASONS_MAX);
    return &report->reasons[report->reason_count++];
}

void report_init(struct report *report, const struct options *options,
                 const struct campaign_result *result, int stop_signal,
                 const struct errmsg *journal_error)
{
    memset(report, 0, sizeof(*report));
    report->options = options;
    report->reasons = report->own_reasons;
    report->result = result;
    report->version = version_of_build();
    report->stop_signal = stop_signal;
    compute_metrics(report->metrics, result);
    report_hold_slos(report);

    if (stop_signal != 0)
        (void)errmsg_set(report_next_reason(report), 0, "interrupted by %s",
                         report_signal_name(stop_signal));
    if (journal_error != NULL)
        (void)errmsg_set(report_next_reason(report), 0, "journal: %s", journal_error->text);
    if (result->scheduler_error.text[0] != '\0')
        (void)errmsg_set(report_next_reason(report), 0, "a scheduler gave up: %s",
                         result->scheduler_error.text);
    if (result->journal_error.text[0] != '\0')
        (void)errmsg_set(report_next_reason(report), 0, "the journal stopped taking records: %s",
                         result->journal_error.text);
    else if (result->has_store_failed)
        (void)errmsg_set(report_next_reason(report), 0,
                         "the journal refused records, and no more runs were started");
    report_judge(report);
    /* That there was nothing to resume is an answer. */
    bool is_nothing_to_do = result->is_resumed && result->runs_started == 0;
    if (result->runs_by_outcome[OUTCOME_COMPLETED] == 0 && !is_nothing_to_do)
        (void)errmsg_set(report_next_reason(report), 0, "no run completed");
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
