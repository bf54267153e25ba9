/* merged: see merged.h. */
#include "cmd/merged.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cmd/merge_intervals.h"
#include "cmd/merge_rules.h"
#include "cmd/merged_place.h"
#include "cmd/report_hists.h"
#include "engine/base/clock.h"
#include "engine/base/units.h"

enum { TIME_BYTES = 40 };

static int refuse_memory(struct errmsg *why)
{
    return errmsg_set(why, -ENOMEM, "no memory to merge the results");
}

int merged_init(struct merged *merged, struct errmsg *why)
{
    *merged = (struct merged){
        .config = {.mode = JOURNAL_NEW, .loop_name = "auto"},
        .about = {.sources = json_array(), .carried = json_object()},
        .hists = calloc(REPORT_HISTS + 1, sizeof(struct hist)),
    };
    if (merged->hists == NULL || merged->about.sources == NULL || merged->about.carried == NULL)
        return refuse_memory(why);
    for (size_t i = 0; i < REPORT_HISTS; i++) {
        hist_init(&merged->hists[i]);
        *report_hist_at(&merged->result, i) = &merged->hists[i];
    }
    return 0;
}

void merged_free(struct merged *merged)
{
    for (size_t i = 0; i < merged->part_count; i++)
        free(merged->parts[i].rows);
    free(merged->parts);
    free(merged->hists);
    free(merged->reasons);
    intervals_free(&merged->intervals);
    dist_free(&merged->config.latency);
    dist_free(&merged->config.tool_latency);
    dist_free(&merged->config.prompt_bytes);
    dist_free(&merged->config.reply_bytes);
    json_decref(merged->first.tree);
    json_decref(merged->about.sources);
    json_decref(merged->about.carried);
}

/* --- one more result --- */

static int check_sections(const struct result_file *file, struct errmsg *why)
{
    static const char *const known[] = {"schema", "build",  "host",     "store", "config",
                                        "result", "merged", "validity", "slo"};
    const char *key;
    json_t *value;
    json_object_foreach(file->tree, key, value)
    {
        bool is_known = false;
        for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
            is_known = is_known || strcmp(key, known[i]) == 0;
        if (!is_known)
            return errmsg_set(why, -EINVAL, "%s: %s: this bench does not know how to merge it",
                              file->name, key);
    }
    for (size_t i = 0; i < file->hist_count; i++) {
        bool is_known = false;
        const struct json_span *name = &file->hists[i].name;
        for (size_t j = 0; j < REPORT_HISTS; j++)
            is_known = is_known ||
                       json_span_equals(name, report_hists[j].name, strlen(report_hists[j].name));
        if (!is_known)
            return errmsg_set(why, -EINVAL,
                              "%s: latency.%.*s: this bench does not know how to merge it",
                              file->name, (int)name->size, name->bytes);
    }
    return 0;
}

static int add_hists(struct merged *merged, const struct result_file *file, struct errmsg *why)
{
    struct hist *scratch = &merged->hists[REPORT_HISTS];
    for (size_t i = 0; i < REPORT_HISTS; i++) {
        struct hist *sum = *report_hist_at(&merged->result, i);
        uint64_t count = sum->count;
        int error = result_file_read_hist(file, report_hists[i].name, scratch, why);
        if (error != 0)
            return error;
        if (__builtin_add_overflow(count, scratch->count, &count))
            return errmsg_set(why, -ERANGE, "%s: latency.%s has too many samples", file->name,
                              report_hists[i].name);
        hist_merge(sum, scratch);
    }
    return 0;
}

static int add_reason(struct merged *merged, const struct result_file *file, const char *reason,
                      struct errmsg *why)
{
    struct errmsg *grown =
        reallocarray(merged->reasons, merged->reason_count + 1, sizeof(grown[0]));
    if (grown == NULL)
        return refuse_memory(why);
    merged->reasons = grown;
    (void)errmsg_set(&grown[merged->reason_count++], 0, "%s: %s", file->name, reason);
    return 0;
}

/* What an object has under a key, if need be now; NULL without memory. */
static json_t *get_or_set_new(json_t *object, const char *key, json_t *fresh)
{
    json_t *value = json_object_get(object, key);
    if (value == NULL)
        return json_object_set_new(object, key, fresh) == 0 ? fresh : NULL;
    json_decref(fresh);
    return value;
}

/* Remarks of all beside the reasons; NULL without memory. */
static json_t *remarks_of(struct merged *merged, const char *key)
{
    json_t *validity = get_or_set_new(merged->about.carried, "validity", json_object());
    return get_or_set_new(validity, key, json_array());
}

/* Each with its file, under the same key. */
static int add_remarks(struct merged *merged, const struct result_file *file, const char *key,
                       const json_t *remarks, struct errmsg *why)
{
    json_t *sum = remarks_of(merged, key);
    bool has_failed = sum == NULL;
    for (size_t i = 0; i < json_array_size(remarks) && !has_failed; i++) {
        const char *text = json_string_value(json_array_get(remarks, i));
        struct errmsg remark;
        if (text == NULL)
            return result_file_refuse(file, "validity", "of texts", why);
        (void)errmsg_set(&remark, 0, "%s: %s", file->name, text);
        has_failed = json_array_append_new(sum, json_string(remark.text)) != 0;
    }
    return has_failed ? refuse_memory(why) : 0;
}

static int add_validity(struct merged *merged, const struct result_file *file, struct errmsg *why)
{
    const char *verdict = NULL;
    const json_t *reasons = result_file_find(file, "validity.reasons");
    const char *key;
    json_t *value;
    int error = result_file_read_text(file, "validity.verdict", &verdict, why);
    if (error != 0)
        return error;
    if (!json_is_array(reasons))
        return result_file_refuse(file, "validity.reasons", "an array", why);
    bool is_valid = strcmp(verdict, "valid") == 0;
    if ((!is_valid && strcmp(verdict, "invalid") != 0) ||
        is_valid != (json_array_size(reasons) == 0))
        return result_file_refuse(file, "validity", "valid without reasons, or invalid with them",
                                  why);
    for (size_t i = 0; i < json_array_size(reasons) && error == 0; i++) {
        const char *reason = json_string_value(json_array_get(reasons, i));
        error = reason != NULL ? add_reason(merged, file, reason, why)
                               : result_file_refuse(file, "validity.reasons", "of texts", why);
    }
    json_object_foreach(result_file_find(file, "validity"), key, value)
    {
        if (error != 0 || strcmp(key, "verdict") == 0 || strcmp(key, "reasons") == 0)
            continue;
        error = json_is_array(value)
                    ? add_remarks(merged, file, key, value, why)
                    : errmsg_set(why, -EINVAL,
                                 "%s: validity.%s: this bench does not know how to merge it",
                                 file->name, key);
    }
    return error;
}

/* A merged result stands for those that it was made of. */
static int add_sources(struct merged *merged, const struct result_file *file,
                       const struct merged_part *part, struct errmsg *why)
{
    json_t *inner = result_file_find(file, "merged");
    bool has_failed = false;
    if (inner != NULL && !json_is_array(inner))
        return result_file_refuse(file, "merged", "an array", why);
    for (size_t i = 0; i < json_array_size(inner) && !has_failed; i++) {
        const json_t *source = json_array_get(inner, i);
        if (!json_is_string(json_object_get(source, "file")) ||
            !json_is_integer(json_object_get(source, "started_unix_ns")) ||
            !json_is_object(json_object_get(source, "host")) ||
            json_object_get(source, "seed") == NULL)
            return result_file_refuse(file, "merged", "of file, host, seed and start each", why);
        has_failed = json_array_append(merged->about.sources, json_array_get(inner, i)) != 0;
    }
    if (!json_is_object(result_file_find(file, "host")))
        return result_file_refuse(file, "host", "an object", why);
    if (json_array_size(inner) == 0) {
        json_t *source = json_pack(
            "{s:s, s:O, s:O, s:I, s:I}", "file", file->name, "host", result_file_find(file, "host"),
            "seed", result_file_find(file, "config.seed"), "started_unix_ns",
            (json_int_t)part->started_ns, "elapsed_ns", (json_int_t)part->elapsed_ns);
        has_failed = json_array_append_new(merged->about.sources, source) != 0;
    }
    return has_failed ? refuse_memory(why) : 0;
}

static int read_part(const struct result_file *file, struct merged_part *part, struct errmsg *why)
{
    memcpy(part->name, file->name, sizeof(part->name));
    int error = result_file_read_u64(file, "result.started_unix_ns", &part->started_ns, why);
    if (error == 0 && json_is_object(result_file_find(file, "result.warmup")))
        error = result_file_read_u64(file, "result.warmup.elapsed_ns", &part->warmup_ns, why);
    if (error == 0 && part->warmup_ns > NS_MAX_DURATION)
        error = result_file_refuse(file, "result.warmup.elapsed_ns", "at most 24h", why);
    if (error == 0)
        error = result_file_read_u64(file, "result.elapsed_ns", &part->elapsed_ns, why);
    if (error == 0)
        error = result_file_read_u64_or_null(file, "result.issuing_ns", 0, &part->issuing_ns, why);
    if (error == 0)
        error = result_file_read_u64_or_null(file, "config.progress_ns", 0, &part->every_ns, why);
    if (part->every_ns == 0)
        part->every_ns = NS_PER_S; /* what it is without -progress */
    return error != 0 ? error
                      : result_file_read_intervals(file, &part->rows, &part->row_count, why);
}

static int add_part(struct merged *merged, const struct result_file *file, struct errmsg *why)
{
    if (merged->part_count == merged->part_capacity) {
        size_t capacity = merged->part_capacity == 0 ? 16 : 2 * merged->part_capacity;
        struct merged_part *grown = reallocarray(merged->parts, capacity, sizeof(grown[0]));
        if (grown == NULL)
            return refuse_memory(why);
        merged->parts = grown;
        merged->part_capacity = capacity;
    }
    struct merged_part *part = &merged->parts[merged->part_count];
    *part = (struct merged_part){.rows = NULL};
    int error = read_part(file, part, why);
    if (error == 0)
        error = add_sources(merged, file, part, why);
    if (error != 0)
        free(part->rows);
    merged->part_count += error == 0;
    return error;
}

static void take_first(struct merged *merged, const struct result_file *file)
{
    json_t *host = result_file_find(file, "host");
    memcpy(merged->first.name, file->name, sizeof(file->name));
    merged->first.tree = json_incref(file->tree);
    (void)json_object_set(merged->about.carried, "host", host);
}

int merged_add(struct merged *merged, const struct result_file *file, struct errmsg *why)
{
    int error = check_sections(file, why);
    if (error == 0 && merged->part_count == 0)
        take_first(merged, file);
    if (error == 0)
        error = merge_rules_apply(merged, file, why);
    if (error == 0)
        error = add_validity(merged, file, why);
    if (error == 0)
        error = add_hists(merged, file, why);
    return error != 0 ? error : add_part(merged, file, why);
}

/* --- all of them --- */

/* "2026-12-01T00:07:38.123456Z" */
static const char *format_time(uint64_t unix_ns, char text[TIME_BYTES])
{
    struct tm parts;
    const time_t seconds = (time_t)(unix_ns / NS_PER_S);
    if (gmtime_r(&seconds, &parts) == NULL || strftime(text, TIME_BYTES, "%FT%T", &parts) == 0)
        text[0] = '\0';
    size_t used = strlen(text);
    (void)snprintf(text + used, TIME_BYTES - used, ".%06uZ",
                   (unsigned)(unix_ns % NS_PER_S / NS_PER_US));
    return text;
}

static uint64_t end_of(const struct merged_part *part)
{
    return part->started_ns + part->warmup_ns + part->elapsed_ns;
}

/* Any two of them have run at the same time where the last to start did so before the first to end.
 */
static int check_overlap(const struct merged *merged, struct errmsg *why)
{
    const struct merged_part *last = &merged->parts[0];
    const struct merged_part *first = &merged->parts[0];
    char times[3][TIME_BYTES];
    for (size_t i = 1; i < merged->part_count; i++) {
        const struct merged_part *part = &merged->parts[i];
        last = part->started_ns > last->started_ns ? part : last;
        first = end_of(part) < end_of(first) ? part : first;
    }
    if (last->started_ns < end_of(first) || first == last)
        return 0;
    return errmsg_set(why, -EINVAL,
                      "%s and %s did not run at the same time: the first from %s to %s, the second "
                      "from %s",
                      first->name, last->name, format_time(first->started_ns, times[0]),
                      format_time(end_of(first), times[1]),
                      format_time(last->started_ns, times[2]));
}

/* What is measured in each, and in all of them at once. */
static int warn_of_parts_alone(struct merged *merged, struct errmsg *why)
{
    enum { COMMON_PERCENT_MIN = 90 };
    const struct merged_part *longest = &merged->parts[0];
    uint64_t start_ns = 0;
    uint64_t end_ns = UINT64_MAX;
    char together[UNITS_TEXT_BYTES];
    char alone[UNITS_TEXT_BYTES];
    for (size_t i = 0; i < merged->part_count; i++) {
        const struct merged_part *part = &merged->parts[i];
        uint64_t measured_ns = part->started_ns + part->warmup_ns;
        start_ns = measured_ns > start_ns ? measured_ns : start_ns;
        end_ns = end_of(part) < end_ns ? end_of(part) : end_ns;
        longest = part->elapsed_ns > longest->elapsed_ns ? part : longest;
    }
    uint64_t common_ns = end_ns > start_ns ? end_ns - start_ns : 0;
    if (common_ns >= longest->elapsed_ns / 100 * COMMON_PERCENT_MIN)
        return 0;
    (void)errmsg_set(&merged->about.warning, 0,
                     "the results ran together for %s only, and %s for %s: the rates are of the "
                     "time from the first start to the last end",
                     units_format_duration(common_ns, together), longest->name,
                     units_format_duration(longest->elapsed_ns, alone));
    json_t *warnings = remarks_of(merged, "warnings");
    if (warnings == NULL ||
        json_array_append_new(warnings, json_string(merged->about.warning.text)) != 0)
        return refuse_memory(why);
    return 0;
}

/* No host starts two with one seed within the same nanosecond. */
static int check_twice(const struct merged *merged, struct errmsg *why)
{
    const json_t *sources = merged->about.sources;
    char text[TIME_BYTES];
    for (size_t i = 0; i < json_array_size(sources); i++)
        for (size_t j = 0; j < i; j++) {
            const json_t *a = json_array_get(sources, j);
            const json_t *b = json_array_get(sources, i);
            json_int_t started_ns = json_integer_value(json_object_get(a, "started_unix_ns"));
            if (started_ns != json_integer_value(json_object_get(b, "started_unix_ns")) ||
                !json_equal(json_object_get(a, "seed"), json_object_get(b, "seed")) ||
                !json_equal(json_object_get(a, "host"), json_object_get(b, "host")))
                continue;
            return errmsg_set(why, -EINVAL,
                              "%s and %s are the same result: one host and seed, and both started "
                              "at %s",
                              json_string_value(json_object_get(a, "file")),
                              json_string_value(json_object_get(b, "file")),
                              format_time((uint64_t)started_ns, text));
        }
    return 0;
}

/* What is told of a server is all that it did, for whomever: the others' work is in each figure,
 * and no sum or share of them is right. */
static void forget_servers_io(struct journal_io *io)
{
    if (!io->is_servers)
        return;
    *io = journal_io_unknown();
    io->is_servers = true;
}

static void set_times(struct merged *merged)
{
    struct campaign_result *result = &merged->result;
    uint64_t start_ns = UINT64_MAX;
    uint64_t from_ns = UINT64_MAX; /* what is measured */
    uint64_t end_ns = 0;
    uint64_t issued_ns = 0;
    for (size_t i = 0; i < merged->part_count; i++) {
        const struct merged_part *part = &merged->parts[i];
        uint64_t measured_ns = part->started_ns + part->warmup_ns;
        start_ns = part->started_ns < start_ns ? part->started_ns : start_ns;
        from_ns = measured_ns < from_ns ? measured_ns : from_ns;
        end_ns = end_of(part) > end_ns ? end_of(part) : end_ns;
        uint64_t issued = part->issuing_ns > 0 ? measured_ns + part->issuing_ns : 0;
        issued_ns = issued > issued_ns ? issued : issued_ns;
    }
    result->started_unix_ns = start_ns;
    result->warmup.elapsed_ns = from_ns - start_ns;
    result->elapsed_ns = end_ns - from_ns;
    result->issuing_ns = issued_ns > from_ns ? issued_ns - from_ns : 0;
}

int merged_finish(struct merged *merged, struct errmsg *why)
{
    struct campaign_result *result = &merged->result;
    /* The same twice has run at the same time, of course. */
    int error = check_twice(merged, why);
    if (error == 0)
        error = check_overlap(merged, why);
    if (error == 0)
        error = warn_of_parts_alone(merged, why);
    if (error != 0)
        return error;
    error = merged_place_settings(&merged->first, &merged->settings, why);
    if (error != 0)
        return error;
    result->settings = &merged->settings;
    merged->version = merged_place_build(&merged->first);
    merged_place_host(merged->about.sources, &merged->host);
    set_times(merged);
    result->is_open_loop = campaign_is_open_loop(&merged->config);
    forget_servers_io(&result->io);
    result->is_total_alloc_known = result->total_alloc_bytes != JOURNAL_NOT_KNOWN;
    result->total_alloc_bytes = result->is_total_alloc_known ? result->total_alloc_bytes : 0;
    merged->about.count = json_array_size(merged->about.sources);
    error = merge_intervals(&merged->intervals, merged->parts, merged->part_count,
                            result->started_unix_ns);
    for (size_t i = 0; i < merged->intervals.count; i++)
        merged->intervals.rows[i].is_warmup =
            merged->intervals.rows[i].end_ns <= result->warmup.elapsed_ns;
    return error != 0 ? refuse_memory(why) : 0;
}

void merged_report(const struct merged *merged, const struct options *options,
                   struct report *report)
{
    report_init(report, options, &merged->result, 0, NULL);
    report->intervals = &merged->intervals;
    report->merged = &merged->about;
    report->host = merged->host;
    report->version = merged->version;
    /* What the whole shows counts only where each of its parts is valid: else it is said twice. */
    if (merged->reason_count == 0)
        return;
    report->reasons = merged->reasons;
    report->reason_count = merged->reason_count;
}
