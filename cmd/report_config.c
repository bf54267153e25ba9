/* report_config: see report_config.h. */
#include "cmd/report_config.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/digest.h"
#include "engine/base/units.h"

/* "key=value", each behind a separator. */
struct pairs {
    FILE *out;
    char separator;
};

static void __attribute__((format(printf, 2, 3)))
print(const struct pairs *pairs, const char *format, ...)
{
    va_list arguments;
    (void)fputc(pairs->separator, pairs->out);
    va_start(arguments, format);
    (void)vfprintf(pairs->out, format, arguments);
    va_end(arguments);
}

/* A text that came from the command line or a file, as part of one line. */
static void print_text(const struct pairs *pairs, const char *key, const char *text)
{
    struct errmsg clean;
    (void)errmsg_set(&clean, 0, "%s", text); /* All that is printed fits. */
    print(pairs, "%s=%s", key, clean.text);
}

static void print_duration(const struct pairs *pairs, const char *key, uint64_t duration_ns)
{
    char text[UNITS_TEXT_BYTES];
    print(pairs, "%s=%s", key, units_format_duration_exact(duration_ns, text));
}

static void print_duration_if_any(const struct pairs *pairs, const char *key, uint64_t duration_ns)
{
    if (duration_ns > 0)
        print_duration(pairs, key, duration_ns);
}

static void print_count_if_any(const struct pairs *pairs, const char *key, uint32_t count)
{
    if (count > 0)
        print(pairs, "%s=%" PRIu32, key, count);
}

static void print_dist_if_given(const struct pairs *pairs, const char *key, const struct dist *dist)
{
    if (campaign_dist_if_given(dist) != NULL)
        print_text(pairs, key, dist->spec);
}

static bool is_zero(const struct dist *dist)
{
    return dist->kind == DIST_CONSTANT && dist->a == 0;
}

/* --- what is not default --- */

static void print_model(const struct pairs *pairs, const struct campaign_model *model)
{
    print_count_if_any(pairs, "tokens", model->tokens);
    print_duration_if_any(pairs, "token-interval", model->token_interval_ns);
    print_duration_if_any(pairs, "model-timeout", model->rules.timeout_ns);
    print_duration_if_any(pairs, "hedge", model->rules.hedge_ns);
    if (model->rules.stream_journal != STREAM_JOURNAL_NONE)
        print(pairs, "stream-journal=%s", stream_journal_name(model->rules.stream_journal));
    if (model->error_rate > 0)
        print(pairs, "model-error-rate=%.8g", model->error_rate);
    print_count_if_any(pairs, "model-retries", model->rules.retries);
}

static void print_journal_settings(const struct pairs *pairs, const struct campaign_config *config)
{
    if (config->run_key != RUN_KEY_SEQ)
        print(pairs, "run-id=%s", run_key_name(config->run_key));
    print_count_if_any(pairs, "shards", config->shards);
    print_count_if_any(pairs, "connections", config->connections);
    if (config->retry_for_ns != OPTIONS_RETRY_FOR_NS_DEFAULT)
        print_duration(pairs, "retry-for", config->retry_for_ns);
}

/* Beside turns and tools: what is not printed is at its default. */
static void print_what_is_not_default(const struct pairs *pairs,
                                      const struct campaign_config *config)
{
    if (!is_zero(&config->tool_latency))
        print_text(pairs, "tool-latency", config->tool_latency.spec);
    if (config->tool_effect != TOOL_EFFECT_NOOP)
        print(pairs, "tool-effect=%s", tool_effect_name(config->tool_effect));
    print_dist_if_given(pairs, "prompt-bytes", &config->prompt_bytes);
    print_dist_if_given(pairs, "reply-bytes", &config->reply_bytes);
    if (config->history != HISTORY_DELTA)
        print(pairs, "history=%s", history_mode_name(config->history));
    if (campaign_has_warmup(config))
        print_duration(pairs, "warmup", config->warmup_ns);
    print_duration_if_any(pairs, "timeout", config->timeout_ns);
    print_model(pairs, &config->model);
    print_journal_settings(pairs, config);
    if (config->tool_retry != AGENT_RETRY_HALT)
        print(pairs, "tool-retry=%s", options_retry_name(config->tool_retry));
}

static void print_stages(const struct pairs *pairs, const struct arrival_plan *plan)
{
    char text[UNITS_TEXT_BYTES];
    const struct pairs others = {pairs->out, ','};
    if (plan->stage_count == 0)
        return;
    print(pairs, "stages=%s:%.9g/s", units_format_duration_exact(plan->stages[0].duration_ns, text),
          plan->stages[0].rate);
    for (uint32_t i = 1; i < plan->stage_count; i++)
        print(&others, "%s:%.9g/s", units_format_duration_exact(plan->stages[i].duration_ns, text),
              plan->stages[i].rate);
}

/* --- the line --- */

void report_print_configuration(FILE *out, const struct report *report)
{
    const struct campaign_config *config = &report->options->campaign;
    const struct campaign_result *result = report->result;
    const struct pairs pairs = {out, ' '};
    char text[UNITS_TEXT_BYTES];
    if (config->runs > 0)
        (void)fprintf(out, "runs=%" PRIu64, config->runs);
    else
        (void)fprintf(out, "duration=%s", units_format_duration_exact(config->duration_ns, text));
    print(&pairs, "concurrency=%" PRIu32, config->concurrency);
    print_text(&pairs, "sim-latency", config->latency.spec);
    print(&pairs, "journal=%s durability=%s threads=%" PRIu32 " loop=%s", result->journal_name,
          durability_name(result->durability), result->threads, result->loop_name);
    if (report->merged == NULL) /* each of its results has a seed of its own */
        print(&pairs, "seed=%" PRIu64, config->seed);
    if (config->turns != OPTIONS_TURNS_DEFAULT)
        print(&pairs, "turns=%" PRIu32, config->turns);
    if (config->tools != OPTIONS_TOOLS_DEFAULT)
        print(&pairs, "tools=%" PRIu32, config->tools);
    print_what_is_not_default(&pairs, config);
    if (result->is_resumed)
        print(&pairs, "resume of campaign=%" PRIu64, result->campaign);
    if (report->options->steady_ratio > 0)
        print(&pairs, "steady=%.9g%%", 100 * report->options->steady_ratio);
    if (config->arrival.rate > 0)
        print(&pairs, "rate=%.9g/s", config->arrival.rate);
    print_stages(&pairs, &config->arrival);
    if (config->arrival.process != ARRIVAL_CONSTANT)
        print(&pairs, "arrival=%s", arrival_process_name(config->arrival.process));
    if (report->merged != NULL)
        print(&pairs, "merged=%zu", report->merged->count);
    (void)fputc('\n', out);
}

/* --- the name --- */

/* What it has always told comes first, be it at its default. */
static void print_series(FILE *out, const struct report *report)
{
    const struct campaign_config *config = &report->options->campaign;
    const struct campaign_result *result = report->result;
    const struct pairs pairs = {out, '/'};
    (void)fprintf(out, "journal=%s", result->journal_name);
    print(&pairs, "durability=%s", durability_name(result->durability));
    print(&pairs, "concurrency=%" PRIu32, config->concurrency);
    print_text(&pairs, "latency", config->latency.spec);
    print(&pairs, "turns=%" PRIu32, config->turns);
    print(&pairs, "tools=%" PRIu32, config->tools);
    if (config->arrival.rate > 0)
        print(&pairs, "rate=%.9g", config->arrival.rate);
    if (campaign_is_open_loop(config))
        print(&pairs, "arrival=%s", arrival_process_name(config->arrival.process));
    print_stages(&pairs, &config->arrival);
    if (report->options->steady_ratio > 0)
        print(&pairs, "steady=%.9g", report->options->steady_ratio);
    print_what_is_not_default(&pairs, config);
}

/* Returns whether there were others. */
static bool replace_other_characters(char *text)
{
    bool has_others = false;
    for (char *c = text; *c != '\0'; c++) {
        if (isalnum((unsigned char)*c) || strchr("=/.:,+_-", *c) != NULL)
            continue;
        *c = '_';
        has_others = true;
    }
    return has_others;
}

static void shorten(char text[SERIES_BYTES], const char *whole, size_t size)
{
    char end[18] = "";
    bool is_cut = size >= SERIES_BYTES;
    (void)snprintf(text, SERIES_BYTES, "%s", whole);
    if (replace_other_characters(text) || is_cut)
        (void)snprintf(end, sizeof(end), "+%016" PRIx64, digest_bytes(whole, size));
    size_t room = SERIES_BYTES - 1 - strlen(end);
    size_t kept = size < room ? size : room;
    memcpy(text + kept, end, strlen(end) + 1);
}

int report_series(const struct report *report, char text[SERIES_BYTES])
{
    char *whole = NULL;
    size_t size = 0;
    FILE *memory = open_memstream(&whole, &size);
    text[0] = '\0';
    if (memory == NULL)
        return -ENOMEM;
    print_series(memory, report);
    bool has_failed = ferror(memory) != 0;
    has_failed = fclose(memory) != 0 || has_failed;
    if (!has_failed)
        shorten(text, whole, size);
    free(whole);
    return has_failed ? -ENOMEM : 0;
}
