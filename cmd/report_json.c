/*
 * report_json: the result for programs, schema "bench.run/1", described by
 * docs/bench.run.schema.json. Changes to it are append-only. A percentile that fewer than ten
 * samples lie beyond is null. Built with jansson in the order of the schema.
 */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/report.h"
#include "cmd/report_hists.h"
#include "cmd/report_provenance.h"

/* The only way that building can fail is to run out of memory; `failed` remembers it to the end. */
static void set(bool *failed, json_t *object, const char *key, json_t *value)
{
    if (json_object_set_new(object, key, value) != 0)
        *failed = true;
}

static void append(bool *failed, json_t *array, json_t *value)
{
    if (json_array_append_new(array, value) != 0)
        *failed = true;
}

static json_t *whole(uint64_t value)
{
    return json_integer(value > INT64_MAX ? INT64_MAX : (json_int_t)value);
}

/* Paths and reasons may hold bytes that are no UTF-8, which JSON cannot carry: each becomes '?'. */
static json_t *text_or_null(const char *text)
{
    if (text == NULL)
        return json_null();
    json_t *value = json_string(text);
    if (value != NULL)
        return value;
    char *copy = strdup(text);
    if (copy == NULL)
        return NULL;
    for (char *c = copy; *c != '\0'; c++)
        *c = (unsigned char)*c >= 0x80 ? '?' : *c;
    value = json_string(copy);
    free(copy);
    return value;
}

/* JSON integers end at 2^63 - 1 in jansson: the seeds above are written as a text of digits. */
static json_t *seed(uint64_t value)
{
    char digits[32];
    if (value <= INT64_MAX)
        return json_integer((json_int_t)value);
    (void)snprintf(digits, sizeof(digits), "%" PRIu64, value);
    return json_string(digits);
}

static json_t *metric(struct metric_value value, enum metric_unit unit)
{
    if (!value.is_known)
        return json_null();
    switch (unit) {
    case METRIC_UNIT_COUNT:
    case METRIC_UNIT_NS:
    case METRIC_UNIT_BYTES:
        return json_integer(value.whole);
    case METRIC_UNIT_RATIO:
        return json_real(round(value.rate * 1e6) / 1e6);
    case METRIC_UNIT_PER_S:
        return json_real(round(value.rate * 1000) / 1000);
    }
    return NULL;
}

static void set_metrics(bool *failed, json_t *object, const struct report *report,
                        enum metric_section section)
{
    for (int i = 0; i < METRIC_COUNT; i++)
        if (metric_rows[i].section == section)
            set(failed, object, metric_rows[i].name,
                metric(report->metrics[i], metric_rows[i].unit));
}

static json_t *build(bool *failed, const struct version *version)
{
    json_t *object = json_object();
    set(failed, object, "version", text_or_null(version->version));
    set(failed, object, "revision", text_or_null(version->revision));
    set(failed, object, "compiler", text_or_null(version->compiler));
    set(failed, object, "sanitizers", text_or_null(version->sanitizers));
    set(failed, object, "is_dirty", json_boolean(version->is_dirty));
    set(failed, object, "flags", text_or_null(version->flags));
    set(failed, object, "is_optimized", json_boolean(version->is_optimized));
    return object;
}

/* Rounded to what a flag can say. */
static json_t *rate(double value)
{
    return json_real(round(value * 1e8) / 1e8);
}

static json_t *host(bool *failed, const struct host *machine)
{
    json_t *object = json_object();
    set(failed, object, "cpu_model", text_or_null(machine->cpu_model));
    set(failed, object, "cpus", whole(machine->cpus));
    set(failed, object, "kernel", text_or_null(machine->kernel));
    set(failed, object, "memory_bytes", whole(machine->memory_bytes));
    set(failed, object, "cpus_online", whole(machine->cpus_online));
    set(failed, object, "cpu_quota",
        machine->cpu_quota > 0 ? rate(machine->cpu_quota) : json_null());
    set(failed, object, "cpu_governor",
        text_or_null(machine->cpu_governor[0] != '\0' ? machine->cpu_governor : NULL));
    set(failed, object, "clock_source", text_or_null(machine->clock_source));
    set(failed, object, "clock_step_ns", whole(machine->clock_step_ns));
    return object;
}

/* A count that was not given is the journal's to choose, and one of nothing is none. */
static json_t *whole_or_null(uint64_t count)
{
    return count != 0 ? whole(count) : json_null();
}

static json_t *settings(bool *failed, const struct journal_settings *settings)
{
    json_t *object = json_object();
    for (unsigned i = 0; settings != NULL && i < settings->count; i++)
        set(failed, object, settings->all[i].key, text_or_null(settings->all[i].value));
    return object;
}

static json_t *store(bool *failed, const struct report *report)
{
    json_t *object = json_object();
    set(failed, object, "journal", text_or_null(report->result->journal_name));
    set(failed, object, "durability", text_or_null(durability_name(report->result->durability)));
    set_metrics(failed, object, report, METRIC_OF_STORE);
    set(failed, object, "campaign", whole(report->result->campaign));
    set(failed, object, "run_id", text_or_null(run_key_name(report->options->campaign.run_key)));
    set(failed, object, "shards", whole_or_null(report->result->shards));
    set(failed, object, "connections", whole_or_null(report->result->connections));
    set(failed, object, "io_is_servers", json_boolean(report->result->io.is_servers));
    set(failed, object, "settings", settings(failed, report->result->settings));
    return object;
}

static json_t *dist_or_null(const struct dist *dist)
{
    return text_or_null(campaign_dist_if_given(dist) != NULL ? dist->spec : NULL);
}

static json_t *arrival(const struct campaign_config *campaign)
{
    return text_or_null(
        campaign_is_open_loop(campaign) ? arrival_process_name(campaign->arrival.process) : NULL);
}

static json_t *stages(bool *failed, const struct arrival_plan *plan)
{
    json_t *array = json_array();
    for (uint32_t i = 0; i < plan->stage_count; i++) {
        json_t *stage = json_object();
        set(failed, stage, "duration_ns", whole(plan->stages[i].duration_ns));
        set(failed, stage, "rate_runs_per_s", rate(plan->stages[i].rate));
        append(failed, array, stage);
    }
    return array;
}

static void set_model(bool *failed, json_t *object, const struct campaign_model *model)
{
    set(failed, object, "tokens", whole(model->tokens));
    set(failed, object, "token_interval_ns", whole(model->token_interval_ns));
    set(failed, object, "stream_journal",
        text_or_null(stream_journal_name(model->rules.stream_journal)));
    set(failed, object, "model_error_rate", rate(model->error_rate));
    set(failed, object, "model_timeout_ns", whole(model->rules.timeout_ns));
    set(failed, object, "model_retries", whole(model->rules.retries));
    set(failed, object, "hedge_ns", whole(model->rules.hedge_ns));
}

/* The value of every flag, as given, as the store says, or by default. */
static json_t *config(bool *failed, const struct report *report)
{
    const struct options *options = report->options;
    const struct campaign_config *campaign = &options->campaign;
    json_t *object = json_object();
    bool is_counted = campaign->runs > 0;
    bool is_resume = campaign->mode == JOURNAL_RESUME;
    set(failed, object, "runs", is_counted ? whole(campaign->runs) : json_null());
    set(failed, object, "duration_ns", is_counted ? json_null() : whole(campaign->duration_ns));
    set(failed, object, "warmup_ns", whole(campaign->warmup_ns));
    set(failed, object, "steady_ratio",
        options->steady_ratio > 0 ? rate(options->steady_ratio) : json_null());
    set(failed, object, "rate_runs_per_s", rate(campaign->arrival.rate));
    set(failed, object, "arrival", arrival(campaign));
    set(failed, object, "stages", stages(failed, &campaign->arrival));
    set(failed, object, "concurrency", whole(campaign->concurrency));
    set(failed, object, "threads", whole(campaign->threads));
    set(failed, object, "loop", text_or_null(campaign->loop_name));
    set(failed, object, "seed", seed(campaign->seed));
    set(failed, object, "timeout_ns", whole(campaign->timeout_ns));
    set(failed, object, "latency", text_or_null(campaign->latency.spec));
    set(failed, object, "turns", whole(campaign->turns));
    set(failed, object, "tools", whole(campaign->tools));
    set(failed, object, "tool_latency", text_or_null(campaign->tool_latency.spec));
    set(failed, object, "tool_effect", text_or_null(tool_effect_name(campaign->tool_effect)));
    set(failed, object, "prompt_bytes", dist_or_null(&campaign->prompt_bytes));
    set(failed, object, "reply_bytes", dist_or_null(&campaign->reply_bytes));
    set(failed, object, "history", text_or_null(history_mode_name(campaign->history)));
    set_model(failed, object, &campaign->model);
    set(failed, object, "ledger", text_or_null(campaign->ledger_path));
    /* What follows the scheme of a URI may be a password. */
    set(failed, object, "journal", text_or_null(report->result->journal_name));
    set(failed, object, "durability", text_or_null(durability_name(report->result->durability)));
    set(failed, object, "json", text_or_null(options->json_path));
    set(failed, object, "csv", text_or_null(options->csv_path));
    set(failed, object, "markdown", text_or_null(options->markdown_path));
    set(failed, object, "hgrm", text_or_null(options->hgrm_path));
    set(failed, object, "gobench", text_or_null(options->gobench_path));
    set(failed, object, "bmf", text_or_null(options->bmf_path));
    set(failed, object, "openmetrics", text_or_null(options->openmetrics_path));
    set(failed, object, "gha", text_or_null(options->gha_path));
    set(failed, object, "progress_ns",
        options->is_progress_given ? whole(options->progress_ns) : json_null());
    set(failed, object, "quiet", json_boolean(options->is_quiet));
    set(failed, object, "mode", json_string(is_resume ? "resume" : "run"));
    set(failed, object, "campaign", is_resume ? whole(campaign->campaign) : json_null());
    set(failed, object, "tool_retry",
        is_resume ? text_or_null(options_retry_name(campaign->tool_retry)) : json_null());
    set(failed, object, "run_id", text_or_null(run_key_name(campaign->run_key)));
    set(failed, object, "shards", whole_or_null(campaign->shards));
    set(failed, object, "connections", whole_or_null(campaign->connections));
    set(failed, object, "retry_for_ns", whole(campaign->retry_for_ns));
    set(failed, object, "histogram", json_boolean(options->is_histogram));
    set(failed, object, "slo_abort", json_boolean(options->is_slo_abort));
    set(failed, object, "slo_delay_ns", whole(options->slo_delay_ns));
    return object;
}

/* null unless an objective ended the campaign. */
static json_t *slo_abort(bool *failed, const struct report *report)
{
    const struct slo_abort *abort = &report->slo_abort;
    if (!abort->is_aborted)
        return json_null();
    json_t *object = json_object();
    set(failed, object, "objective", text_or_null(report->options->slos[abort->slo].text));
    set(failed, object, "value", rate(abort->value));
    set(failed, object, "at_ns", whole(abort->at_ns));
    return object;
}

static json_t *steady(bool *failed, const struct report *report)
{
    const struct warmup *warmup = report->warmup;
    if (report->options->steady_ratio <= 0 || warmup == NULL)
        return json_null();
    json_t *object = json_object();
    set(failed, object, "is_reached", json_boolean(warmup->is_steady));
    set(failed, object, "slope_ratio", warmup->is_slope_known ? rate(warmup->slope) : json_null());
    set(failed, object, "window_ns", whole(STEADY_WINDOW * warmup->interval_ns));
    return object;
}

static json_t *warmup(bool *failed, const struct report *report)
{
    const struct campaign_warmup *warmup = &report->result->warmup;
    if (!campaign_has_warmup(&report->options->campaign))
        return json_null();
    json_t *object = json_object();
    set(failed, object, "is_over", json_boolean(warmup->is_over));
    set(failed, object, "elapsed_ns", whole(warmup->elapsed_ns));
    set(failed, object, "runs_started", whole(warmup->runs_started));
    set(failed, object, "runs_due", whole_or_null(warmup->runs_due));
    set(failed, object, "runs_completed", whole(warmup->runs_by_outcome[OUTCOME_COMPLETED]));
    set(failed, object, "errors", whole(report_warmup_errors(report->result)));
    set(failed, object, "runs_abandoned", whole(warmup->runs_abandoned));
    set(failed, object, "records", whole(warmup->records));
    set(failed, object, "steady", steady(failed, report));
    return object;
}

static json_t *result(bool *failed, const struct report *report)
{
    const struct campaign_result *campaign = report->result;
    const char *first_error = campaign->first_error.text;
    const char *journal_error = campaign->journal_error.text;
    char started[REPORT_TIME_BYTES];
    char checksum[17];
    json_t *object = json_object();
    json_t *outcomes = json_object();
    for (int i = 0; i < OUTCOME_COUNT; i++)
        set(failed, outcomes, outcome_name((enum outcome)i), whole(campaign->runs_by_outcome[i]));
    set_metrics(failed, object, report, METRIC_OF_RESULT);
    set(failed, object, "outcomes", outcomes);
    set(failed, object, "threads", whole(campaign->threads));
    set(failed, object, "loop", text_or_null(campaign->loop_name));
    set(failed, object, "loop_fallback", text_or_null(campaign->loop_fallback));
    set(failed, object, "first_error", text_or_null(first_error[0] == '\0' ? NULL : first_error));
    set(failed, object, "journal_error",
        text_or_null(journal_error[0] == '\0' ? NULL : journal_error));
    set(failed, object, "slo_abort", slo_abort(failed, report));
    (void)snprintf(checksum, sizeof(checksum), "%016" PRIx64, campaign->checksum);
    set(failed, object, "journal_checksum", json_string(checksum));
    set(failed, object, "started", json_string(report_time(campaign->started_unix_ns, started)));
    set(failed, object, "warmup", warmup(failed, report));
    return object;
}

static json_t *percentile(const struct hist *hist, double quantile)
{
    if (!hist_quantile_is_known(hist, quantile))
        return json_null();
    return whole(hist_quantile_ns(hist, quantile));
}

static json_t *histogram(bool *failed, const struct hist *hist)
{
    json_t *object = json_object();
    json_t *buckets = json_array();
    set(failed, object, "count", whole(hist->count));
    set(failed, object, "min_ns", whole(hist->count == 0 ? 0 : hist->min_ns));
    set(failed, object, "mean_ns", whole(hist_mean_ns(hist)));
    /* So that added histograms have an exact mean, as far as JSON has numbers for it. */
    set(failed, object, "sum_ns", hist->sum_ns <= INT64_MAX ? whole(hist->sum_ns) : json_null());
    set(failed, object, "p50_ns", percentile(hist, 0.50));
    set(failed, object, "p90_ns", percentile(hist, 0.90));
    set(failed, object, "p99_ns", percentile(hist, 0.99));
    set(failed, object, "p999_ns", percentile(hist, 0.999));
    set(failed, object, "max_ns", whole(hist->max_ns));
    for (uint32_t i = 0; i < HIST_BUCKETS && hist->count > 0; i++) {
        if (hist->counts[i] == 0)
            continue;
        json_t *bucket = json_array();
        append(failed, bucket, whole(hist_bucket_upper_ns(i)));
        append(failed, bucket, whole(hist->counts[i]));
        append(failed, buckets, bucket);
    }
    set(failed, object, "buckets", buckets);
    return object;
}

static json_t *latency(bool *failed, const struct campaign_result *campaign)
{
    json_t *object = json_object();
    for (size_t i = 0; i < REPORT_HISTS; i++)
        set(failed, object, report_hists[i].name, histogram(failed, report_hist_of(campaign, i)));
    return object;
}

static json_t *time_or_null(uint64_t time_ns)
{
    return time_ns != INTERVAL_NOT_KNOWN ? whole(time_ns) : json_null();
}

static json_t *intervals(bool *failed, const struct intervals *intervals)
{
    json_t *array = json_array();
    for (size_t i = 0; intervals != NULL && i < intervals->count; i++) {
        const struct interval *row = &intervals->rows[i];
        json_t *object = json_object();
        set(failed, object, "end_ns", whole(row->end_ns));
        set(failed, object, "runs_started", whole(row->started));
        set(failed, object, "runs_ended", whole(row->ended));
        set(failed, object, "errors", whole(row->errors));
        set(failed, object, "records", whole(row->records));
        set(failed, object, "in_flight", whole(row->in_flight));
        set(failed, object, "backlog", whole(row->backlog));
        set(failed, object, "p50_ns", time_or_null(row->p50_ns));
        set(failed, object, "p99_ns", time_or_null(row->p99_ns));
        set(failed, object, "is_warmup", json_boolean(row->is_warmup));
        append(failed, array, object);
    }
    return array;
}

/* Times in ns, shares and rates as they are. */
static json_t *slos(bool *failed, const struct report *report)
{
    json_t *array = json_array();
    for (size_t i = 0; i < report->options->slo_count; i++) {
        const struct report_slo *held = &report->slos[i];
        json_t *object = json_object();
        set(failed, object, "objective", text_or_null(report->options->slos[i].text));
        set(failed, object, "value", held->is_known ? rate(held->value) : json_null());
        set(failed, object, "is_met", json_boolean(held->is_met));
        append(failed, array, object);
    }
    return array;
}

static json_t *validity(bool *failed, const struct report *report)
{
    json_t *object = json_object();
    json_t *reasons = json_array();
    for (size_t i = 0; i < report->reason_count; i++)
        append(failed, reasons, text_or_null(report->reasons[i].text));
    set(failed, object, "verdict", json_string(report->reason_count == 0 ? "valid" : "invalid"));
    set(failed, object, "reasons", reasons);
    json_t *warnings = json_array();
    for (size_t i = 0; i < report->warning_count; i++)
        append(failed, warnings, text_or_null(report->warnings[i].text));
    set(failed, object, "warnings", warnings);
    return object;
}

static json_t *merged(const struct report *report)
{
    return report->merged != NULL ? json_incref(report->merged->sources) : json_array();
}

/* What the results that were merged agreed on. */
static void carry(bool *failed, json_t *object, const struct report *report)
{
    const char *key;
    json_t *section;
    if (report->merged == NULL)
        return;
    json_object_foreach(report->merged->carried, key, section)
    {
        if (json_object_update(json_object_get(object, key), section) != 0)
            *failed = true;
    }
}

static int write_json(FILE *out, const struct report *report)
{
    bool has_failed = false;
    json_t *object = json_object();
    set(&has_failed, object, "schema", json_string("bench.run/1"));
    set(&has_failed, object, "build", build(&has_failed, &report->version));
    set(&has_failed, object, "host", host(&has_failed, &report->host));
    set(&has_failed, object, "store", store(&has_failed, report));
    set(&has_failed, object, "config", config(&has_failed, report));
    set(&has_failed, object, "result", result(&has_failed, report));
    set(&has_failed, object, "latency", latency(&has_failed, report->result));
    set(&has_failed, object, "intervals", intervals(&has_failed, report->intervals));
    set(&has_failed, object, "slo", slos(&has_failed, report));
    set(&has_failed, object, "validity", validity(&has_failed, report));
    set(&has_failed, object, "merged", merged(report));
    carry(&has_failed, object, report);
    if (!has_failed && json_dumpf(object, out, JSON_COMPACT | JSON_REAL_PRECISION(15)) != 0)
        has_failed = true;
    (void)fputc('\n', out);
    json_decref(object);
    return has_failed ? -ENOMEM : 0;
}

const struct report_format report_json = {
    .name = "json",
    .path_offset = offsetof(struct options, json_path),
    .write = write_json,
};
