/* merge_take: see merge_take.h. */
#include "cmd/merge_take.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/flags.h"
#include "engine/loop.h"

enum { VALUE_BYTES = 80 };

static void *target(struct merged *merged, const struct merge_row *row)
{
    return (char *)merged + row->offset;
}

static int refuse_sum(const struct merge_row *row, const struct result_file *file,
                      struct errmsg *why)
{
    return errmsg_set(why, -ERANGE, "%s: %s: the sum with the results before is too large",
                      file->name, row->key);
}

/* --- what is added --- */

static int add(uint64_t *sum, uint64_t value, uint64_t max, const struct merge_row *row,
               const struct result_file *file, struct errmsg *why)
{
    if (__builtin_add_overflow(*sum, value, sum) || *sum > max)
        return refuse_sum(row, file, why);
    return 0;
}

int merge_add_u64(struct merged *merged, const struct merge_row *row,
                  const struct result_file *file, struct errmsg *why)
{
    uint64_t value = 0;
    int error = result_file_read_u64(file, row->key, &value, why);
    return error != 0 ? error : add(target(merged, row), value, INT64_MAX, row, file, why);
}

/* A null counts as 0: there is none. */
int merge_add_u32(struct merged *merged, const struct merge_row *row,
                  const struct result_file *file, struct errmsg *why)
{
    uint32_t *sum = target(merged, row);
    uint64_t wide = *sum;
    uint64_t value = 0;
    int error = result_file_read_u64_or_null(file, row->key, 0, &value, why);
    if (error == 0)
        error = add(&wide, value, UINT32_MAX, row, file, why);
    *sum = (uint32_t)wide;
    return error;
}

int merge_refuse_difference(const struct merged *merged, const char *key,
                            const struct result_file *file, struct errmsg *why)
{
    char *ours = json_dumps(result_file_find(&merged->first, key), JSON_COMPACT | JSON_ENCODE_ANY);
    char *theirs = json_dumps(result_file_find(file, key), JSON_COMPACT | JSON_ENCODE_ANY);
    (void)errmsg_set(why, -EINVAL, "%s and %s differ: %s is %.*s and %.*s", merged->first.name,
                     file->name, key, VALUE_BYTES, ours != NULL ? ours : "not there", VALUE_BYTES,
                     theirs != NULL ? theirs : "not there");
    free(ours);
    free(theirs);
    return -EINVAL;
}

/* All have it, or none. */
static int check_given(const struct merged *merged, const struct merge_row *row,
                       const struct result_file *file, struct errmsg *why)
{
    if (json_is_null(result_file_find(&merged->first, row->key)) ==
        json_is_null(result_file_find(file, row->key)))
        return 0;
    return merge_refuse_difference(merged, row->key, file, why);
}

int merge_add_u64_if_given(struct merged *merged, const struct merge_row *row,
                           const struct result_file *file, struct errmsg *why)
{
    uint64_t value = 0;
    int error = check_given(merged, row, file, why);
    if (error == 0)
        error = result_file_read_u64_or_null(file, row->key, 0, &value, why);
    return error != 0 ? error : add(target(merged, row), value, INT64_MAX, row, file, why);
}

/* What one does not know, nobody knows of the sum. */
static int add_known(struct merged *merged, const struct merge_row *row, uint64_t value,
                     const struct result_file *file, struct errmsg *why)
{
    uint64_t *sum = target(merged, row);
    if (value != JOURNAL_NOT_KNOWN && *sum != JOURNAL_NOT_KNOWN)
        return add(sum, value, INT64_MAX, row, file, why);
    *sum = JOURNAL_NOT_KNOWN;
    return 0;
}

int merge_add_if_known(struct merged *merged, const struct merge_row *row,
                       const struct result_file *file, struct errmsg *why)
{
    uint64_t value = 0;
    int error = result_file_read_u64_or_null(file, row->key, JOURNAL_NOT_KNOWN, &value, why);
    return error != 0 ? error : add_known(merged, row, value, file, why);
}

int merge_add_i64(struct merged *merged, const struct merge_row *row,
                  const struct result_file *file, struct errmsg *why)
{
    int64_t *sum = target(merged, row);
    int64_t value = 0;
    int error = result_file_read_i64(file, row->key, &value, why);
    if (error == 0 && __builtin_add_overflow(*sum, value, sum))
        error = refuse_sum(row, file, why);
    return error;
}

int merge_add_double(struct merged *merged, const struct merge_row *row,
                     const struct result_file *file, struct errmsg *why)
{
    double *sum = target(merged, row);
    double value = 0;
    int error = result_file_read_double(file, row->key, &value, why);
    *sum += value;
    if (error == 0 && *sum > 1e15) /* digits would be lost */
        error = refuse_sum(row, file, why);
    return error;
}

/* Adds what it is the mean of, back to the nanosecond. */
int merge_add_mean(struct merged *merged, const struct merge_row *row,
                   const struct result_file *file, struct errmsg *why)
{
    uint64_t mean = 0;
    uint64_t count = 0;
    uint64_t sum = JOURNAL_NOT_KNOWN;
    int error = result_file_read_u64_or_null(file, row->key, JOURNAL_NOT_KNOWN, &mean, why);
    if (error == 0)
        error = result_file_read_u64_or_null(file, row->of, JOURNAL_NOT_KNOWN, &count, why);
    if (error != 0)
        return error;
    if (count == 0)
        sum = 0;
    else if (mean != JOURNAL_NOT_KNOWN && count != JOURNAL_NOT_KNOWN &&
             __builtin_mul_overflow(mean, count, &sum))
        return refuse_sum(row, file, why);
    return add_known(merged, row, sum, file, why);
}

/* How long it took in all is known when all are there: merged.c. */
int merge_add_warmup(struct merged *merged, const struct merge_row *row,
                     const struct result_file *file, struct errmsg *why)
{
    struct campaign_warmup *warmup = target(merged, row);
    const struct merge_row sums[] = {
        {.key = "result.warmup.runs_started",
         .offset = offsetof(struct merged, result.warmup.runs_started)},
        {.key = "result.warmup.runs_due",
         .offset = offsetof(struct merged, result.warmup.runs_due)},
        {.key = "result.warmup.runs_completed",
         .offset = offsetof(struct merged, result.warmup.runs_by_outcome[OUTCOME_COMPLETED])},
        {.key = "result.warmup.errors",
         .offset = offsetof(struct merged, result.warmup.runs_by_outcome[OUTCOME_FAILED])},
        {.key = "result.warmup.runs_abandoned",
         .offset = offsetof(struct merged, result.warmup.runs_abandoned)},
        {.key = "result.warmup.records", .offset = offsetof(struct merged, result.warmup.records)},
    };
    int error = check_given(merged, row, file, why);
    if (error != 0 || json_is_null(result_file_find(file, row->key)))
        return error;
    for (size_t i = 0; i < sizeof(sums) / sizeof(sums[0]) && error == 0; i++) {
        uint64_t value = 0;
        error = result_file_read_u64_or_null(file, sums[i].key, 0, &value, why);
        if (error == 0)
            error = add(target(merged, &sums[i]), value, INT64_MAX, &sums[i], file, why);
    }
    bool is_over = json_is_true(result_file_find(file, "result.warmup.is_over"));
    warmup->is_over = is_over && (warmup->is_over || merged->part_count == 0);
    return error;
}

/* Both of stages and their rates: the same steps, to the sum of the rates. */
int merge_add_stages(struct merged *merged, const struct merge_row *row,
                     const struct result_file *file, struct errmsg *why)
{
    struct arrival_plan *plan = target(merged, row);
    const json_t *stages = result_file_find(file, row->key);
    size_t count = json_array_size(stages);
    if (!json_is_array(stages) || count > ARRIVAL_STAGES_MAX)
        return result_file_refuse(file, row->key, "an array of at most 64 stages", why);
    if (merged->part_count > 0 && count != plan->stage_count)
        return merge_refuse_difference(merged, row->key, file, why);
    for (size_t i = 0; i < count; i++) {
        struct arrival_stage *stage = &plan->stages[i];
        const json_t *duration = json_object_get(json_array_get(stages, i), "duration_ns");
        const json_t *rate = json_object_get(json_array_get(stages, i), "rate_runs_per_s");
        if (!json_is_integer(duration) || json_integer_value(duration) < 1 ||
            !json_is_number(rate) || json_number_value(rate) < 0)
            return result_file_refuse(file, row->key, "stages of a duration and a rate each", why);
        uint64_t duration_ns = (uint64_t)json_integer_value(duration);
        if (merged->part_count > 0 && duration_ns != stage->duration_ns)
            return merge_refuse_difference(merged, row->key, file, why);
        stage->duration_ns = duration_ns;
        stage->rate += json_number_value(rate);
    }
    plan->stage_count = (uint32_t)count;
    return 0;
}

/* --- what the largest or the first counts of --- */

int merge_max_u64(struct merged *merged, const struct merge_row *row,
                  const struct result_file *file, struct errmsg *why)
{
    uint64_t *max = target(merged, row);
    uint64_t value = 0;
    int error = check_given(merged, row, file, why);
    if (error == 0)
        error = result_file_read_u64_or_null(file, row->key, 0, &value, why);
    *max = value > *max ? value : *max;
    return error;
}

int merge_max_double(struct merged *merged, const struct merge_row *row,
                     const struct result_file *file, struct errmsg *why)
{
    double *max = target(merged, row);
    double value = 0;
    int error = result_file_read_double(file, row->key, &value, why);
    *max = value > *max ? value : *max;
    return error;
}

int merge_max_share(struct merged *merged, const struct merge_row *row,
                    const struct result_file *file, struct errmsg *why)
{
    double *max = target(merged, row);
    if (merged->part_count == 0)
        *max = -1; /* not known */
    if (json_is_null(result_file_find(file, row->key)))
        return 0;
    return merge_max_double(merged, row, file, why);
}

/* How long a part's starts took is told by their number and rate. */
int merge_max_begun(struct merged *merged, const struct merge_row *row,
                    const struct result_file *file, struct errmsg *why)
{
    uint64_t *begun_ns = target(merged, row);
    uint64_t started = 0;
    double per_s = 0;
    if (json_is_null(result_file_find(file, row->key)))
        return 0;
    int error = result_file_read_double(file, row->key, &per_s, why);
    if (error == 0)
        error = result_file_read_u64(file, row->of, &started, why);
    double begun = per_s > 0 ? (double)started / per_s * (double)NS_PER_S : 0;
    if (error == 0 && begun < 0x1p62 && (uint64_t)begun > *begun_ns)
        *begun_ns = (uint64_t)begun;
    return error;
}

/* Sixteen hexadecimal digits, of a sum that goes round. */
int merge_add_checksum(struct merged *merged, const struct merge_row *row,
                       const struct result_file *file, struct errmsg *why)
{
    uint64_t *sum = target(merged, row);
    const char *text = NULL;
    int error = result_file_read_text(file, row->key, &text, why);
    if (error != 0)
        return error;
    if (strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16)
        return result_file_refuse(file, row->key, "16 hexadecimal digits", why);
    *sum += strtoull(text, NULL, 16);
    return 0;
}

int merge_first_error(struct merged *merged, const struct merge_row *row,
                      const struct result_file *file, struct errmsg *why)
{
    struct errmsg *first = target(merged, row);
    const char *text = NULL;
    int error = result_file_read_text_or_null(file, row->key, &text, why);
    if (text != NULL && first->text[0] == '\0')
        (void)errmsg_set(first, 0, "%s: %s", file->name, text);
    return error;
}

int merge_take_seed(struct merged *merged, const struct merge_row *row,
                    const struct result_file *file, struct errmsg *why)
{
    uint64_t *seed = target(merged, row);
    const json_t *value = result_file_find(file, row->key);
    struct options options = {0};
    struct errmsg unused;
    const struct flag as_text = {.offset = offsetof(struct options, campaign.seed),
                                 .max = UINT64_MAX};
    if (!json_is_string(value)) {
        int error = result_file_read_u64(file, row->key, &options.campaign.seed, why);
        if (error != 0)
            return error;
    } else if (flags_parse_id(&as_text, json_string_value(value), &options, &unused) != 0) {
        return result_file_refuse(file, row->key, "a seed", why);
    }
    if (merged->part_count == 0)
        *seed = options.campaign.seed;
    return 0;
}

/* --- what is the same in all: taken from the first --- */

int merge_take_u64(struct merged *merged, const struct merge_row *row,
                   const struct result_file *file, struct errmsg *why)
{
    return result_file_read_u64(file, row->key, target(merged, row), why);
}

int merge_take_u32(struct merged *merged, const struct merge_row *row,
                   const struct result_file *file, struct errmsg *why)
{
    return merge_add_u32(merged, row, file, why);
}

int merge_take_bool(struct merged *merged, const struct merge_row *row,
                    const struct result_file *file, struct errmsg *why)
{
    const json_t *value = result_file_find(file, row->key);
    if (!json_is_boolean(value))
        return result_file_refuse(file, row->key, "true or false", why);
    *(bool *)target(merged, row) = json_is_true(value);
    return 0;
}

/* The values of a list are not here, and nobody draws from them. */
static int take_dist(struct merged *merged, const struct merge_row *row,
                     const struct result_file *file, enum dist_unit unit, struct errmsg *why)
{
    struct dist *dist = target(merged, row);
    struct errmsg reason;
    const char *text = NULL;
    int error = result_file_read_text_or_null(file, row->key, &text, why);
    if (error != 0 || text == NULL)
        return error;
    if (strncmp(text, "file:", strlen("file:")) != 0) {
        error = dist_parse(dist, text, unit, &reason);
        return error != 0 ? errmsg_set(why, error, "%s: %s %s", file->name, row->key, reason.text)
                          : 0;
    }
    if (strlen(text) >= sizeof(dist->spec))
        return result_file_refuse(file, row->key, "a distribution", why);
    dist->kind = DIST_FILE;
    dist->unit = unit;
    (void)memccpy(dist->spec, text, '\0', sizeof(dist->spec));
    return 0;
}

int merge_take_dist_ns(struct merged *merged, const struct merge_row *row,
                       const struct result_file *file, struct errmsg *why)
{
    return take_dist(merged, row, file, DIST_DURATION, why);
}

int merge_take_dist_bytes(struct merged *merged, const struct merge_row *row,
                          const struct result_file *file, struct errmsg *why)
{
    return take_dist(merged, row, file, DIST_BYTES, why);
}

int merge_take_name_if_given(struct merged *merged, const struct merge_row *row,
                             const struct result_file *file, struct errmsg *why)
{
    struct errmsg reason;
    struct options unused;
    const char *text = NULL;
    unsigned *value = target(merged, row);
    const struct flag as_flag = {.names = row->names};
    int error = result_file_read_text_or_null(file, row->key, &text, why);
    if (error != 0 || text == NULL)
        return error;
    for (unsigned i = 0; i < row->names->count; i++) {
        if (strcmp(text, row->names->name_of(row->names->first + i)) != 0)
            continue;
        *value = row->names->first + i;
        return 0;
    }
    /* What it must be, as the flag says it. */
    error = flags_parse_name(&as_flag, text, &unused, &reason);
    return errmsg_set(why, error, "%s: %s %s", file->name, row->key, reason.text);
}

int merge_take_name(struct merged *merged, const struct merge_row *row,
                    const struct result_file *file, struct errmsg *why)
{
    const char *text = NULL;
    int error = result_file_read_text(file, row->key, &text, why);
    return error != 0 ? error : merge_take_name_if_given(merged, row, file, why);
}

int merge_take_journal(struct merged *merged, const struct merge_row *row,
                       const struct result_file *file, struct errmsg *why)
{
    const char *name = NULL;
    int error = result_file_read_text(file, row->key, &name, why);
    if (error != 0)
        return error;
    (void)snprintf(merged->journal_name, sizeof(merged->journal_name), "%s", name);
    /* With nothing behind the scheme, which is all that a report wants of it. */
    (void)snprintf(merged->journal_uri, sizeof(merged->journal_uri), "%s", name);
    if (!journal_is_named_by(merged->journal_uri))
        (void)snprintf(merged->journal_uri, sizeof(merged->journal_uri),
                       "%.*s:", MERGED_URI_BYTES - 2, name);
    if (!journal_is_named_by(merged->journal_uri))
        return result_file_refuse(file, row->key, "a journal", why);
    merged->config.journal_uri = merged->journal_uri;
    merged->result.journal_name = merged->journal_name;
    return 0;
}

int merge_take_loop(struct merged *merged, const struct merge_row *row,
                    const struct result_file *file, struct errmsg *why)
{
    const char **loop_name = target(merged, row);
    const char *text = NULL;
    int error = result_file_read_text(file, row->key, &text, why);
    if (error != 0)
        return error;
    for (const struct loop_ops *const *loop = loop_table; *loop != NULL; loop++)
        if (strcmp(text, (*loop)->name) == 0)
            *loop_name = (*loop)->name;
    return *loop_name != NULL ? 0 : result_file_refuse(file, row->key, "a loop", why);
}

int merge_take_mode(struct merged *merged, const struct merge_row *row,
                    const struct result_file *file, struct errmsg *why)
{
    const json_t *mode = result_file_find(file, row->key);
    (void)merged;
    if (json_is_string(mode) && strcmp(json_string_value(mode), "run") == 0)
        return 0;
    return result_file_refuse(file, row->key, "\"run\": only new campaigns are merged", why);
}
