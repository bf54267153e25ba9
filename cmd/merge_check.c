/* merge_check: see merge_check.h. The rules are rows: a sum of keys held against another. */
#include "cmd/merge_check.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "engine/base/clock.h"

enum { TERMS_MAX = 7 };
enum relation { EQUAL, AT_MOST };

/* Of a null, which stands where a closed loop has no schedule, nothing is held. */
static const struct rule {
    const char *left[TERMS_MAX];
    enum relation relation;
    const char *right[TERMS_MAX];
} rules[] = {
    {{"result.runs_completed"}, EQUAL, {"result.outcomes.completed"}},
    {{"result.errors"},
     EQUAL,
     {"result.outcomes.failed", "result.outcomes.timeout", "result.outcomes.journal",
      "result.outcomes.unknown", "result.outcomes.diverged"}},
    {{"result.runs_started"},
     EQUAL,
     {"result.runs_completed", "result.errors", "result.runs_abandoned"}},
    {{"result.runs_started"}, AT_MOST, {"result.runs_due"}},
    {{"result.runs_queued"}, AT_MOST, {"result.runs_due"}},
    {{"result.hedge_wins"}, AT_MOST, {"result.hedges"}},
    {{"result.model_retries"}, AT_MOST, {"result.model_failures"}},
    {{"store.records_before", "store.records_acked"}, AT_MOST, {"store.records"}},
    {{"store.records"},
     AT_MOST,
     {"store.records_before", "store.records_acked", "store.records_unknown"}},
};

/* The samples of histograms are those of runs. */
static const struct {
    const char *hists[2];
    const char *key;
} samples[] = {
    {{"response", "retried"}, "result.runs_completed"},
    {{"failed"}, "result.errors"},
};

/* False where a key is null. Sums stop at the greatest value. */
static int add_up(const struct result_file *file, const char *const *keys, uint64_t *sum,
                  bool *is_known, struct errmsg *why)
{
    *sum = 0;
    for (size_t i = 0; i < TERMS_MAX && keys[i] != NULL; i++) {
        uint64_t value = 0;
        int error = result_file_read_u64_or_null(file, keys[i], UINT64_MAX, &value, why);
        if (error != 0)
            return error;
        *is_known = *is_known && value != UINT64_MAX;
        if (__builtin_add_overflow(*sum, value, sum))
            *sum = UINT64_MAX;
    }
    return 0;
}

static int check_rule(const struct result_file *file, const struct rule *rule, struct errmsg *why)
{
    uint64_t left = 0;
    uint64_t right = 0;
    bool is_known = true;
    int error = add_up(file, rule->left, &left, &is_known, why);
    if (error == 0)
        error = add_up(file, rule->right, &right, &is_known, why);
    bool is_held = rule->relation == EQUAL ? left == right : left <= right;
    if (error != 0 || !is_known || is_held)
        return error;
    return errmsg_set(why, -EINVAL,
                      "%s does not hold together: %s%s is %" PRIu64 ", and %s%s is %" PRIu64,
                      file->name, rule->left[0], rule->left[1] != NULL ? " and more" : "", left,
                      rule->right[0], rule->right[1] != NULL ? " and more" : "", right);
}

static int check_samples(const struct result_file *file, size_t row, struct hist *hist,
                         struct errmsg *why)
{
    uint64_t runs = 0;
    uint64_t count = 0;
    int error = result_file_read_u64(file, samples[row].key, &runs, why);
    for (size_t i = 0; i < 2 && samples[row].hists[i] != NULL && error == 0; i++) {
        error = result_file_read_hist(file, samples[row].hists[i], hist, why);
        count += error == 0 ? hist->count : 0;
    }
    if (error != 0 || count == runs)
        return error;
    return errmsg_set(
        why, -EINVAL,
        "%s does not hold together: latency.%s%s has %" PRIu64 " samples, and %s is %" PRIu64,
        file->name, samples[row].hists[0], samples[row].hists[1] != NULL ? " and more" : "", count,
        samples[row].key, runs);
}

/* The rate is written with three decimals. */
static int check_time(const struct result_file *file, struct errmsg *why)
{
    uint64_t completed = 0;
    uint64_t elapsed_ns = 0;
    double rate = 0;
    int error = result_file_read_u64(file, "result.runs_completed", &completed, why);
    if (error == 0)
        error = result_file_read_u64(file, "result.elapsed_ns", &elapsed_ns, why);
    if (error == 0)
        error = result_file_read_double(file, "result.throughput_runs_per_s", &rate, why);
    if (error != 0 || elapsed_ns == 0)
        return error;
    double seconds = (double)elapsed_ns / NS_PER_S;
    if (fabs(rate * seconds - (double)completed) <= 0.001 * (double)completed + 0.001 * seconds)
        return 0;
    return errmsg_set(why, -EINVAL,
                      "%s does not hold together: result.throughput_runs_per_s is %g, and"
                      " result.runs_completed in result.elapsed_ns %g",
                      file->name, rate, (double)completed / seconds);
}

/* What was measured while, so that none may be more than the whole. */
static int check_intervals(const struct result_file *file, struct errmsg *why)
{
    static const char *const all[TERMS_MAX] = {"result.runs_started", "result.warmup.runs_started",
                                               NULL};
    static const char *const measured[TERMS_MAX] = {"result.runs_started", NULL};
    const json_t *warmup = result_file_find(file, "result.warmup");
    struct interval *rows = NULL;
    size_t count = 0;
    uint64_t started = 0;
    uint64_t sum_started = 0;
    uint64_t sum_ended = 0;
    bool is_known = true;
    int error = add_up(file, json_is_object(warmup) ? all : measured, &started, &is_known, why);
    if (error == 0)
        error = result_file_read_intervals(file, &rows, &count, why);
    for (size_t i = 0; i < count && error == 0; i++) {
        bool is_more = __builtin_add_overflow(sum_started, rows[i].started, &sum_started) ||
                       __builtin_add_overflow(sum_ended, rows[i].ended, &sum_ended);
        if (is_more || sum_started > started || sum_ended > started)
            error = errmsg_set(why, -EINVAL,
                               "%s does not hold together: its intervals have more runs than"
                               " result.runs_started, %" PRIu64,
                               file->name, started);
    }
    free(rows);
    return error;
}

int merge_check_result(const struct result_file *file, struct errmsg *why)
{
    struct hist *hist = malloc(sizeof(*hist));
    int error = hist == NULL ? errmsg_set(why, -ENOMEM, "no memory for a histogram") : 0;
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]) && error == 0; i++)
        error = check_rule(file, &rules[i], why);
    for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]) && error == 0; i++)
        error = check_samples(file, i, hist, why);
    free(hist);
    if (error == 0)
        error = check_time(file, why);
    return error != 0 ? error : check_intervals(file, why);
}
