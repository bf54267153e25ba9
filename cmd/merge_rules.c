/* merge_rules: see merge_rules.h. The table comes first, in the order of the schema's keys. */
#include <errno.h>
#include <string.h>

#include "cmd/flags.h"
#include "cmd/merge_take.h"

enum { KEY_BYTES = 160 };

#define AT(member) offsetof(struct merged, member)
#define OWN(name)                                                                                  \
    {                                                                                              \
        .key = name                                                                                \
    }
#define SAME(name)                                                                                 \
    {                                                                                              \
        .key = name, .is_same = true                                                               \
    }
#define SAME_AND(name, how, member)                                                                \
    {                                                                                              \
        .key = name, .is_same = true, .take = how, .offset = AT(member)                            \
    }
#define SAME_NAME(name, how, member, of_it)                                                        \
    {                                                                                              \
        .key = name, .is_same = true, .take = how, .offset = AT(member),                           \
        .names = &flags_##of_it##_names                                                            \
    }
#define TAKE(name, how, member)                                                                    \
    {                                                                                              \
        .key = name, .take = how, .offset = AT(member)                                             \
    }
#define MEAN(name, member, count)                                                                  \
    {                                                                                              \
        .key = name, .take = merge_add_mean, .offset = AT(member), .of = count                     \
    }
#define OUTCOME(name, outcome)                                                                     \
    TAKE("result.outcomes." name, merge_add_u64, result.runs_by_outcome[outcome])

static const struct merge_row rows[] = {
    SAME_AND("store.journal", merge_take_journal, result),
    SAME_NAME("store.durability", merge_take_name, result.durability, durability),
    TAKE("store.records", merge_add_u64, result.records),
    TAKE("store.records_acked", merge_add_u64, result.records_acked),
    TAKE("store.records_bytes", merge_add_u64, result.records_bytes),
    TAKE("store.commits", merge_add_if_known, result.io.commits),
    TAKE("store.records_before", merge_add_u64, result.records_before),
    TAKE("store.records_refused", merge_add_u64, result.records_refused),
    TAKE("store.records_unknown", merge_add_u64, result.records_unknown),
    TAKE("store.batches", merge_add_u64, result.batches),
    TAKE("store.retries", merge_add_u64, result.retries),
    OWN("store.records_per_commit"),
    MEAN("store.commit_mean_ns", result.io.commit_ns, "store.commits"),
    TAKE("store.checkpoints", merge_add_if_known, result.io.checkpoints),
    MEAN("store.checkpoint_mean_ns", result.io.checkpoint_ns, "store.checkpoints"),
    TAKE("store.syncs", merge_add_if_known, result.io.syncs),
    TAKE("store.wal_bytes", merge_add_if_known, result.io.wal_bytes),
    TAKE("store.db_bytes", merge_add_if_known, result.io.db_bytes),
    TAKE("store.store_bytes", merge_add_if_known, result.io.store_bytes),
    OWN("store.logical_bytes"),
    OWN("store.write_amplification"),
    OWN("store.commits_per_run"),
    OWN("store.syncs_per_run"),
    OWN("store.logical_per_run_bytes"),
    OWN("store.wal_per_run_bytes"),
    OWN("store.db_per_run_bytes"),
    OWN("store.records_per_run"),
    OWN("store.campaign"),
    SAME_NAME("store.run_id", merge_take_name, config.run_key, run_id),
    TAKE("store.shards", merge_add_u32, result.shards),
    TAKE("store.connections", merge_add_u32, result.connections),
    SAME_AND("store.io_is_servers", merge_take_bool, result.io.is_servers),

    TAKE("config.runs", merge_add_u64_if_given, config.runs),
    TAKE("config.duration_ns", merge_max_u64, config.duration_ns),
    TAKE("config.rate_runs_per_s", merge_add_double, config.arrival.rate),
    SAME_NAME("config.arrival", merge_take_name_if_given, config.arrival.process, arrival),
    TAKE("config.stages", merge_add_stages, config.arrival),
    TAKE("config.concurrency", merge_add_u32, config.concurrency),
    TAKE("config.threads", merge_add_u32, config.threads),
    SAME("config.loop"),
    TAKE("config.seed", merge_take_seed, config.seed),
    SAME_AND("config.timeout_ns", merge_take_u64, config.timeout_ns),
    SAME_AND("config.warmup_ns", merge_take_u64, config.warmup_ns),
    SAME_AND("config.latency", merge_take_dist_ns, config.latency),
    SAME_AND("config.turns", merge_take_u32, config.turns),
    SAME_AND("config.tools", merge_take_u32, config.tools),
    SAME_AND("config.tool_latency", merge_take_dist_ns, config.tool_latency),
    SAME_NAME("config.tool_effect", merge_take_name, config.tool_effect, effect),
    SAME_AND("config.prompt_bytes", merge_take_dist_bytes, config.prompt_bytes),
    SAME_AND("config.reply_bytes", merge_take_dist_bytes, config.reply_bytes),
    SAME_NAME("config.history", merge_take_name, config.history, history),
    SAME_AND("config.tokens", merge_take_u32, config.model.tokens),
    SAME_AND("config.token_interval_ns", merge_take_u64, config.model.token_interval_ns),
    SAME_NAME("config.stream_journal", merge_take_name, config.model.rules.stream_journal, stream),
    SAME_AND("config.model_error_rate", merge_add_double, config.model.error_rate),
    SAME_AND("config.model_timeout_ns", merge_take_u64, config.model.rules.timeout_ns),
    SAME_AND("config.model_retries", merge_take_u32, config.model.rules.retries),
    SAME_AND("config.hedge_ns", merge_take_u64, config.model.rules.hedge_ns),
    SAME("config.journal"),
    SAME("config.durability"),
    TAKE("config.mode", merge_take_mode, config),
    SAME("config.campaign"),
    SAME("config.tool_retry"),
    SAME("config.run_id"),
    SAME_AND("config.shards", merge_take_u32, config.shards),
    SAME_AND("config.connections", merge_take_u32, config.connections),
    SAME_AND("config.retry_for_ns", merge_take_u64, config.retry_for_ns),

    OWN("result.elapsed_ns"),
    OWN("result.started_unix_ns"),
    OWN("result.started"),
    SAME("result.slo_abort"),
    TAKE("result.warmup", merge_add_warmup, result.warmup),
    {.key = "result.achieved_runs_per_s",
     .take = merge_max_begun,
     .offset = AT(result.begun_ns),
     .of = "result.runs_started"},
    TAKE("result.cpu_throttled_ratio", merge_max_share, result.throttled),
    TAKE("result.cpu_stolen_ratio", merge_max_share, result.stolen),
    OWN("result.throughput_runs_per_s"),
    OWN("result.throughput_records_per_s"),
    TAKE("result.runs_started", merge_add_u64, result.runs_started),
    TAKE("result.runs_due", merge_add_u64_if_given, result.runs_due),
    TAKE("result.runs_queued", merge_add_u64_if_given, result.runs_queued),
    OWN("result.offered_runs_per_s"),
    OWN("result.issuing_ns"),
    OWN("result.runs_completed"),
    OWN("result.errors"),
    TAKE("result.runs_abandoned", merge_add_u64, result.runs_abandoned),
    MEAN("result.model_mean_ns", result.model_ns, "result.runs_completed"),
    MEAN("result.journal_mean_ns", result.journal_ns, "result.runs_completed"),
    MEAN("result.queue_mean_ns", result.queue_ns, "result.runs_completed"),
    MEAN("result.tool_mean_ns", result.tool_ns, "result.runs_completed"),
    MEAN("result.backoff_mean_ns", result.backoff_ns, "result.runs_completed"),
    MEAN("result.slot_mean_ns", result.slot_ns, "result.runs_started"),
    MEAN("result.slot_journal_mean_ns", result.slot_journal_ns, "result.runs_started"),
    TAKE("result.model_calls", merge_add_u64, result.model_calls),
    TAKE("result.tool_calls", merge_add_u64, result.tool_calls),
    TAKE("result.model_failures", merge_add_u64, result.model_count.failures),
    TAKE("result.model_timeouts", merge_add_u64, result.model_count.timeouts),
    TAKE("result.model_retries", merge_add_u64, result.model_count.retries),
    TAKE("result.hedges", merge_add_u64, result.model_count.hedges),
    TAKE("result.hedge_wins", merge_add_u64, result.model_count.hedge_wins),
    TAKE("result.replies_discarded", merge_add_u64, result.model_count.discarded),
    TAKE("result.deltas", merge_add_u64, result.model_count.deltas),
    TAKE("result.peak_tasks", merge_add_u64, result.peak_tasks),
    TAKE("result.heap_delta_bytes", merge_add_i64, result.heap_delta_bytes),
    TAKE("result.total_alloc_bytes", merge_add_if_known, result.total_alloc_bytes),
    TAKE("result.allocations", merge_add_if_known, result.counts.allocations),
    TAKE("result.syscalls", merge_add_if_known, result.counts.syscalls),
    TAKE("result.instructions", merge_add_if_known, result.counts.instructions),
    OWN("result.allocations_per_run"),
    OWN("result.alloc_per_run_bytes"),
    OWN("result.syscalls_per_run"),
    OWN("result.instructions_per_run"),
    TAKE("result.journal_checksum", merge_add_checksum, result.checksum),
    TAKE("result.peak_rss_bytes", merge_add_u64, result.peak_rss_bytes),
    TAKE("result.cpu_ns", merge_add_u64, result.cpu_ns),
    OWN("result.cpu_per_run_ns"),
    TAKE("result.scheduler_busy_ratio", merge_max_double, result.busiest),
    OUTCOME("completed", OUTCOME_COMPLETED),
    OUTCOME("failed", OUTCOME_FAILED),
    OUTCOME("timeout", OUTCOME_TIMEOUT),
    OUTCOME("journal", OUTCOME_JOURNAL),
    OUTCOME("unknown", OUTCOME_UNKNOWN),
    OUTCOME("diverged", OUTCOME_DIVERGED),
    TAKE("result.threads", merge_add_u32, result.threads),
    SAME_AND("result.loop", merge_take_loop, result.loop_name),
    OWN("result.loop_fallback"),
    TAKE("result.first_error", merge_first_error, result.first_error),
    SAME("result.runs_resumed"),
    SAME("result.records_replayed"),
    SAME("result.runs_not_begun"),
    SAME("result.recovery_ns"),
    TAKE("result.journal_error", merge_first_error, result.journal_error),
};

enum { ROW_COUNT = sizeof(rows) / sizeof(rows[0]) };

/* --- all keys --- */

static const struct merge_row *find_row(const char *key)
{
    for (size_t i = 0; i < ROW_COUNT; i++)
        if (strcmp(rows[i].key, key) == 0)
            return &rows[i];
    return NULL;
}

/* What has a row must be there. */
static int apply_rows(struct merged *merged, const struct result_file *file, struct errmsg *why)
{
    bool is_first = merged->part_count == 0;
    int error = 0;
    for (size_t i = 0; i < ROW_COUNT && error == 0; i++) {
        const struct merge_row *row = &rows[i];
        if (result_file_find(file, row->key) == NULL)
            return errmsg_set(why, -EINVAL, "%s: %s is missing", file->name, row->key);
        if (row->take != NULL && (is_first || !row->is_same))
            error = row->take(merged, row, file, why);
    }
    return error;
}

/* What the report writes in their place is not what they agreed on. */
static int carry(struct merged *merged, const char *section, const char *key, json_t *value,
                 const struct result_file *file, struct errmsg *why)
{
    json_t *into = json_object_get(merged->about.carried, section);
    if (into == NULL) {
        into = json_object();
        if (json_object_set_new(merged->about.carried, section, into) != 0)
            into = NULL;
    }
    if (into == NULL || json_object_set(into, key, value) != 0)
        return errmsg_set(why, -ENOMEM, "%s: no memory to merge it", file->name);
    return 0;
}

static int hold_against_first(const struct merged *merged, const char *key,
                              const struct result_file *file, struct errmsg *why)
{
    const json_t *ours = result_file_find(&merged->first, key);
    const json_t *theirs = result_file_find(file, key);
    if (ours != NULL && theirs != NULL && json_equal(ours, theirs))
        return 0;
    return merge_refuse_difference(merged, key, file, why);
}

/* Whether a key without a row is a setting, which must be the same. */
static bool is_setting(const char *section, const json_t *value)
{
    if (strcmp(section, "store") == 0)
        return !json_is_number(value);
    return strcmp(section, "result") != 0;
}

static int check_key(struct merged *merged, const char *section, const char *path, const char *key,
                     json_t *value, const struct result_file *file, struct errmsg *why)
{
    const struct merge_row *row = find_row(path);
    if (strcmp(section, "config") == 0 && result_file_is_of_output(key))
        return 0;
    bool is_same = row != NULL ? row->is_same : is_setting(section, value);
    if (row == NULL && !is_same)
        return errmsg_set(why, -EINVAL, "%s: %s: this bench does not know how to merge it",
                          file->name, path);
    if (!is_same)
        return 0;
    if (merged->part_count == 0)
        return carry(merged, section, key, value, file, why);
    return hold_against_first(merged, path, file, why);
}

static int check_section(struct merged *merged, const char *section, const struct result_file *file,
                         struct errmsg *why)
{
    const char *key;
    const char *inner;
    json_t *value;
    json_t *inner_value;
    char path[KEY_BYTES];
    int error = 0;
    json_object_foreach(result_file_find(file, section), key, value)
    {
        (void)snprintf(path, sizeof(path), "%s.%s", section, key);
        if (strcmp(path, "result.outcomes") != 0) {
            error = check_key(merged, section, path, key, value, file, why);
        } else {
            json_object_foreach(value, inner, inner_value)
            {
                (void)snprintf(path, sizeof(path), "%s.%s.%s", section, key, inner);
                if (error == 0 && find_row(path) == NULL)
                    error = errmsg_set(why, -EINVAL,
                                       "%s: %s: this bench does not know how to "
                                       "merge it",
                                       file->name, path);
            }
        }
        if (error != 0)
            return error;
    }
    /* What the first has beyond the others. */
    json_object_foreach(json_object_get(merged->about.carried, section), key, value)
    {
        (void)snprintf(path, sizeof(path), "%s.%s", section, key);
        if (error == 0 && result_file_find(file, path) == NULL)
            error = merge_refuse_difference(merged, path, file, why);
    }
    return error;
}

int merge_rules_apply(struct merged *merged, const struct result_file *file, struct errmsg *why)
{
    static const char *const sections[] = {"build", "store", "config", "result"};
    int error = 0;
    /* Settings first: what differs there is the reason for what else differs. */
    for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]) && error == 0; i++)
        error = check_section(merged, sections[i], file, why);
    return error != 0 ? error : apply_rows(merged, file, why);
}
