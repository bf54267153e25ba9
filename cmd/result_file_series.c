/* result_file_series: the histograms and intervals of a result, read exactly or refused. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/result_file.h"

/* --- histograms --- */

enum field { COUNT, MIN, MEAN, SUM, MAX, BUCKETS, FIELD_COUNT };

static const char *const field_names[FIELD_COUNT] = {"count",  "min_ns", "mean_ns",
                                                     "sum_ns", "max_ns", "buckets"};

struct fields {
    uint64_t values[FIELD_COUNT]; /* of BUCKETS the first of them */
    uint32_t last;                /* bucket */
    uint64_t samples;             /* in all buckets */
    bool is_there[FIELD_COUNT];   /* and not null */
};

/* One pair of the bucket's bound and its samples: adds them. NULL, or what is wrong. */
static const char *read_bucket(struct json_reader *r, struct fields *fields, struct hist *hist)
{
    uint64_t upper_ns = 0;
    uint64_t samples = 0;
    (void)json_read_array(r); /* An error sticks to the last of them. */
    (void)json_read_element(r);
    (void)json_read_u64(r, &upper_ns);
    (void)json_read_element(r);
    (void)json_read_u64(r, &samples);
    bool is_pair = !json_read_element(r) && r->error == NULL;
    if (!is_pair)
        return r->error != NULL ? r->error : "a bucket is a bound and its samples";
    uint32_t bucket = hist_bucket(upper_ns);
    if (hist_bucket_upper_ns(bucket) != upper_ns)
        return "a bound is not that of a bucket";
    if (fields->samples > 0 && bucket <= fields->last)
        return "the buckets do not ascend";
    if (samples == 0 || __builtin_add_overflow(fields->samples, samples, &fields->samples))
        return "a bucket has no samples, or too many";
    if (fields->samples == samples)
        fields->values[BUCKETS] = bucket;
    fields->last = bucket;
    hist->counts[bucket] = samples;
    return NULL;
}

static const char *read_field(struct json_reader *r, enum field field, struct fields *fields,
                              struct hist *hist)
{
    const char *fault = NULL;
    if (fields->is_there[field])
        return "it stands there twice";
    if (field == SUM && json_peek(r) == JSON_TYPE_NULL)
        return json_read_null(r) ? NULL : r->error;
    fields->is_there[field] = true;
    if (field != BUCKETS)
        return json_read_u64(r, &fields->values[field]) ? NULL : r->error;
    (void)json_read_array(r);
    while (fault == NULL && json_read_element(r))
        fault = read_bucket(r, fields, hist);
    return fault != NULL ? fault : r->error;
}

static enum field find_field(const struct json_span *key)
{
    enum field field = COUNT;
    while (field < FIELD_COUNT &&
           !json_span_equals(key, field_names[field], strlen(field_names[field])))
        field++;
    return field;
}

/* Whether the figures are of these samples. */
static const char *check_figures(const struct fields *fields)
{
    const uint64_t *values = fields->values;
    if (values[COUNT] != fields->samples)
        return "count is not the sum of the buckets";
    if (values[COUNT] == 0) {
        bool is_zero = values[MIN] == 0 && values[MAX] == 0 && values[MEAN] == 0 &&
                       (!fields->is_there[SUM] || values[SUM] == 0);
        return is_zero ? NULL : "without samples it must have zeros";
    }
    if (values[MIN] > values[MAX] || hist_bucket(values[MIN]) != values[BUCKETS] ||
        hist_bucket(values[MAX]) != fields->last)
        return "min_ns and max_ns are not in the first and the last bucket";
    if (values[MEAN] > values[MAX] || (fields->is_there[SUM] && values[MEAN] < values[MIN]))
        return "mean_ns is not between min_ns and max_ns";
    if (fields->is_there[SUM] && values[SUM] / values[COUNT] != values[MEAN])
        return "sum_ns over count is not mean_ns";
    return NULL;
}

/* Without a sum, that which has this mean. */
static void set_figures(const struct fields *fields, struct hist *hist)
{
    const uint64_t *values = fields->values;
    if (values[COUNT] == 0)
        return;
    hist->count = values[COUNT];
    hist->min_ns = values[MIN];
    hist->max_ns = values[MAX];
    hist->sum_ns = values[SUM];
    if (!fields->is_there[SUM] &&
        __builtin_mul_overflow(values[MEAN], values[COUNT], &hist->sum_ns))
        hist->sum_ns = UINT64_MAX;
}

static const struct json_span *find_hist(const struct result_file *file, const char *name)
{
    for (size_t i = 0; i < file->hist_count; i++)
        if (json_span_equals(&file->hists[i].name, name, strlen(name)))
            return &file->hists[i].value;
    return NULL;
}

int result_file_read_hist(const struct result_file *file, const char *name, struct hist *hist,
                          struct errmsg *why)
{
    const struct json_span *span = find_hist(file, name);
    struct fields fields = {0};
    struct json_span key;
    if (span == NULL)
        return errmsg_set(why, -EINVAL, "%s: latency.%s is missing", file->name, name);
    struct json_reader r = json_reader_on(span->bytes, span->size);
    hist_init(hist);
    (void)json_read_object(&r);
    while (json_read_key(&r, &key)) {
        enum field field = find_field(&key);
        if (field == FIELD_COUNT) {
            (void)json_skip_value(&r, NULL); /* a percentile, or what later builds know */
            continue;
        }
        const char *fault = read_field(&r, field, &fields, hist);
        if (fault != NULL)
            return errmsg_set(why, -EINVAL, "%s: latency.%s.%s: %s", file->name, name,
                              field_names[field], fault);
    }
    if (!json_read_end(&r))
        return errmsg_set(why, -EINVAL, "%s: latency.%s: %s", file->name, name, r.error);
    for (enum field field = COUNT; field < FIELD_COUNT; field++)
        if (!fields.is_there[field] && field != SUM)
            return errmsg_set(why, -EINVAL, "%s: latency.%s.%s is missing", file->name, name,
                              field_names[field]);
    const char *fault = check_figures(&fields);
    if (fault != NULL)
        return errmsg_set(why, -EINVAL, "%s: latency.%s: %s", file->name, name, fault);
    set_figures(&fields, hist);
    return 0;
}

/* --- intervals --- */

enum { ROWS_FIRST = 64 };

static const struct {
    const char *name;
    size_t offset;
} columns[] = {
    {"end_ns", offsetof(struct interval, end_ns)},
    {"runs_started", offsetof(struct interval, started)},
    {"runs_ended", offsetof(struct interval, ended)},
    {"errors", offsetof(struct interval, errors)},
    {"records", offsetof(struct interval, records)},
    {"in_flight", offsetof(struct interval, in_flight)},
    {"backlog", offsetof(struct interval, backlog)},
};
enum { COLUMN_COUNT = sizeof(columns) / sizeof(columns[0]) };

/* NULL, or what is wrong. */
static const char *read_row(struct json_reader *r, struct interval *row)
{
    struct json_span key;
    unsigned seen = 0;
    (void)json_read_object(r);
    while (json_read_key(r, &key)) {
        unsigned i = 0;
        while (i < COLUMN_COUNT &&
               !json_span_equals(&key, columns[i].name, strlen(columns[i].name)))
            i++;
        if (i == COLUMN_COUNT) {
            (void)json_skip_value(r, NULL);
            continue;
        }
        if ((seen & 1u << i) != 0)
            return "a key stands there twice";
        seen |= 1u << i;
        (void)json_read_u64(r, (uint64_t *)((char *)row + columns[i].offset));
    }
    if (r->error != NULL)
        return r->error;
    return seen == (1u << COLUMN_COUNT) - 1 ? NULL : "a key is missing";
}

static int refuse_row(const struct result_file *file, size_t index, const char *fault,
                      struct errmsg *why)
{
    return errmsg_set(why, -EINVAL, "%s: intervals[%zu]: %s", file->name, index, fault);
}

static int read_rows(const struct result_file *file, struct json_reader *r, struct interval **rows,
                     size_t *count, struct errmsg *why)
{
    size_t capacity = 0;
    (void)json_read_array(r);
    while (json_read_element(r)) {
        if (*count == capacity) {
            capacity = capacity == 0 ? ROWS_FIRST : 2 * capacity;
            struct interval *grown = reallocarray(*rows, capacity, sizeof(grown[0]));
            if (grown == NULL)
                return errmsg_set(why, -ENOMEM, "%s: no memory for its intervals", file->name);
            *rows = grown;
        }
        struct interval *row = &(*rows)[*count];
        const char *fault = read_row(r, row);
        if (fault != NULL)
            return refuse_row(file, *count, fault, why);
        if (row->end_ns <= (*count > 0 ? row[-1].end_ns : 0) || row->end_ns > INT64_MAX)
            return refuse_row(file, *count, "it does not end after the one before", why);
        ++*count;
    }
    if (!json_read_end(r))
        return refuse_row(file, *count, r->error, why);
    return 0;
}

int result_file_read_intervals(const struct result_file *file, struct interval **rows,
                               size_t *count, struct errmsg *why)
{
    struct json_reader r = json_reader_on(file->intervals.bytes, file->intervals.size);
    *rows = NULL;
    *count = 0;
    int error = read_rows(file, &r, rows, count, why);
    if (error != 0) {
        free(*rows);
        *rows = NULL;
        *count = 0;
    }
    return error;
}
