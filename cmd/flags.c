/* flags: see flags.h. */
#include "cmd/flags.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <strings.h>

#include "engine/base/clock.h"
#include "engine/base/units.h"
#include "engine/loop.h"

static void *target(const struct flag *flag, struct options *options)
{
    return (char *)options + flag->offset;
}

static int parse_limited_count(const struct flag *flag, const char *text, uint64_t *count,
                               struct errmsg *why)
{
    int error = units_parse_count(text, count, why);
    if (error != 0 && error != -ERANGE)
        return error;
    if (error == 0 && *count < flag->min)
        return errmsg_set(why, -EINVAL, "must be at least %" PRIu64 ", got %s", flag->min, text);
    if (error == -ERANGE || *count > flag->max)
        return errmsg_set(why, -ERANGE, "must be at most %" PRIu64 ", got %s", flag->max, text);
    return 0;
}

int flags_parse_count64(const struct flag *flag, const char *text, struct options *options,
                        struct errmsg *why)
{
    return parse_limited_count(flag, text, target(flag, options), why);
}

int flags_parse_count32(const struct flag *flag, const char *text, struct options *options,
                        struct errmsg *why)
{
    uint64_t count = 0;
    int error = parse_limited_count(flag, text, &count, why);
    if (error == 0)
        *(uint32_t *)target(flag, options) = (uint32_t)count;
    return error;
}

int flags_parse_id(const struct flag *flag, const char *text, struct options *options,
                   struct errmsg *why)
{
    uint64_t id = 0;
    bool is_valid = text[0] != '\0';
    for (const char *c = text; *c != '\0' && is_valid; c++) {
        uint64_t digit = (uint64_t)(unsigned char)*c - '0';
        is_valid = digit <= 9 && !__builtin_mul_overflow(id, UINT64_C(10), &id) &&
                   !__builtin_add_overflow(id, digit, &id);
    }
    if (!is_valid || id < flag->min || id > flag->max)
        return errmsg_set(why, -EINVAL,
                          "must be a whole number from %" PRIu64 " to %" PRIu64 ", got \"%s\"",
                          flag->min, flag->max, text);
    *(uint64_t *)target(flag, options) = id;
    return 0;
}

int flags_parse_duration(const struct flag *flag, const char *text, struct options *options,
                         struct errmsg *why)
{
    uint64_t duration_ns = 0;
    int error = units_parse_duration(text, &duration_ns, why);
    if (error != 0)
        return error;
    if (duration_ns < flag->min)
        return errmsg_set(why, -EINVAL, "must be longer than 0, got %s", text);
    if (duration_ns > flag->max)
        return errmsg_set(why, -ERANGE, "must be at most 24h, got %s", text);
    *(uint64_t *)target(flag, options) = duration_ns;
    return 0;
}

int flags_parse_share(const struct flag *flag, const char *text, struct options *options,
                      struct errmsg *why)
{
    double *share = target(flag, options);
    int error = units_parse_share(text, share, why);
    if (error == 0 && flag->min > 0 && *share == 0)
        return errmsg_set(why, -EINVAL, "must be more than 0, got %s", text);
    return error;
}

int flags_parse_rate(const struct flag *flag, const char *text, struct options *options,
                     struct errmsg *why)
{
    return units_parse_rate(text, target(flag, options), why);
}

int flags_parse_stages(const struct flag *flag, const char *text, struct options *options,
                       struct errmsg *why)
{
    (void)flag;
    return arrival_parse_stages(&options->campaign.arrival, text, why);
}

static int parse_dist(const struct flag *flag, const char *text, enum dist_unit unit,
                      struct options *options, struct errmsg *why)
{
    struct dist parsed;
    int error = dist_parse(&parsed, text, unit, why);
    if (error != 0)
        return error;
    struct dist *dist = target(flag, options);
    dist_free(dist);
    *dist = parsed;
    return 0;
}

int flags_parse_dist(const struct flag *flag, const char *text, struct options *options,
                     struct errmsg *why)
{
    return parse_dist(flag, text, DIST_DURATION, options, why);
}

int flags_parse_dist_bytes(const struct flag *flag, const char *text, struct options *options,
                           struct errmsg *why)
{
    return parse_dist(flag, text, DIST_BYTES, options, why);
}

int flags_parse_text(const struct flag *flag, const char *text, struct options *options,
                     struct errmsg *why)
{
    if (text[0] == '\0')
        return errmsg_set(why, -EINVAL, "must not be empty");
    *(const char **)target(flag, options) = text;
    return 0;
}

int flags_parse_slo(const struct flag *flag, const char *text, struct options *options,
                    struct errmsg *why)
{
    (void)flag;
    if (options->slo_count == SLOS_MAX)
        return errmsg_set(why, -ERANGE, "must be given at most %d times", SLOS_MAX);
    int error = slo_parse(&options->slos[options->slo_count], text, why);
    options->slo_count += error == 0;
    return error;
}

int flags_parse_loop(const struct flag *flag, const char *text, struct options *options,
                     struct errmsg *why)
{
    bool is_known = strcmp(text, "auto") == 0;
    for (const struct loop_ops *const *row = loop_table; *row != NULL; row++)
        is_known = is_known || strcmp(text, (*row)->name) == 0;
    if (!is_known)
        return errmsg_set(why, -EINVAL, "must be auto, io_uring or epoll, got \"%s\"", text);
    *(const char **)target(flag, options) = text;
    return 0;
}

/* --- names: what an enum's values are called, here and in the report --- */

static const char *name_of_durability(unsigned value)
{
    return durability_name((enum durability)value);
}

static const char *name_of_effect(unsigned value)
{
    return tool_effect_name((enum tool_effect)value);
}

static const char *name_of_run_id(unsigned value)
{
    return run_key_name((enum run_key_kind)value);
}

static const char *name_of_history(unsigned value)
{
    return history_mode_name((enum history_mode)value);
}

static const char *name_of_retry(unsigned value)
{
    return options_retry_name((enum agent_retry)value);
}

static const char *name_of_arrival(unsigned value)
{
    return arrival_process_name((enum arrival_process)value);
}

static const char *name_of_stream(unsigned value)
{
    return stream_journal_name((enum stream_journal)value);
}

const struct flag_names flags_durability_names = {name_of_durability, DURABILITY_NONE, 3};
const struct flag_names flags_effect_names = {name_of_effect, TOOL_EFFECT_NONE, 3};
const struct flag_names flags_run_id_names = {name_of_run_id, RUN_KEY_SEQ, RUN_KEY_COUNT};
const struct flag_names flags_history_names = {name_of_history, HISTORY_DELTA, 2};
const struct flag_names flags_retry_names = {name_of_retry, AGENT_RETRY_HALT, 2};
const struct flag_names flags_arrival_names = {name_of_arrival, ARRIVAL_CONSTANT, 2};
const struct flag_names flags_stream_names = {name_of_stream, STREAM_JOURNAL_NONE, 3};

static_assert(sizeof(enum durability) == sizeof(unsigned) &&
                  sizeof(enum tool_effect) == sizeof(unsigned) &&
                  sizeof(enum run_key_kind) == sizeof(unsigned) &&
                  sizeof(enum history_mode) == sizeof(unsigned) &&
                  sizeof(enum agent_retry) == sizeof(unsigned) &&
                  sizeof(enum arrival_process) == sizeof(unsigned) &&
                  sizeof(enum stream_journal) == sizeof(unsigned),
              "flags_parse_name() writes one like the other");

/* "none, noop or ledger" */
static void list_names(const struct flag_names *names, char *text, size_t bytes)
{
    size_t used = 0;
    for (unsigned i = 0; i < names->count; i++) {
        const char *separator = i == 0 ? "" : i + 1 < names->count ? ", " : " or ";
        int size = snprintf(text + used, bytes - used, "%s%s", separator,
                            names->name_of(names->first + i));
        used += (size_t)size;
        assert(used < bytes); /* constant texts */
    }
}

int flags_parse_name(const struct flag *flag, const char *text, struct options *options,
                     struct errmsg *why)
{
    const struct flag_names *names = flag->names;
    char known[128];
    for (unsigned i = 0; i < names->count; i++) {
        unsigned value = names->first + i;
        if (strcmp(text, names->name_of(value)) == 0) {
            memcpy(target(flag, options), &value, sizeof(value));
            return 0;
        }
    }
    list_names(names, known, sizeof(known));
    for (unsigned i = 0; i < names->count; i++)
        if (strcasecmp(text, names->name_of(names->first + i)) == 0)
            return errmsg_set(why, -EINVAL, "must be %s, in small letters, got \"%s\"", known,
                              text);
    return errmsg_set(why, -EINVAL, "must be %s, got \"%s\"", known, text);
}

/* --- flags without a value --- */

int flags_parse_switch(const struct flag *flag, const char *text, struct options *options,
                       struct errmsg *why)
{
    (void)text;
    (void)why;
    *(bool *)target(flag, options) = true;
    return 0;
}

int flags_parse_help(const struct flag *flag, const char *text, struct options *options,
                     struct errmsg *why)
{
    (void)flag;
    (void)text;
    (void)why;
    options->action = OPTIONS_HELP;
    return 0;
}

int flags_parse_version(const struct flag *flag, const char *text, struct options *options,
                        struct errmsg *why)
{
    (void)flag;
    (void)text;
    (void)why;
    options->action = OPTIONS_VERSION;
    return 0;
}

enum { NAME_BYTES_MAX = 32 };

/* Levenshtein's distance, one row at a time. Both texts are at most NAME_BYTES_MAX long. */
static size_t edit_distance(const char *a, size_t a_size, const char *b, size_t b_size)
{
    size_t row[NAME_BYTES_MAX + 1];
    for (size_t j = 0; j <= b_size; j++)
        row[j] = j;
    for (size_t i = 1; i <= a_size; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b_size; j++) {
            size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
            size_t one_less = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            diagonal = row[j];
            row[j] = replaced < one_less ? replaced : one_less;
        }
    }
    return row[b_size];
}

const struct flag *flags_find_nearest(const struct flag *flags, size_t count, const char *name,
                                      size_t size)
{
    if (size == 0 || size > NAME_BYTES_MAX)
        return NULL;
    /* The start of a name is the likeliest slip, since other programs take abbreviations. */
    for (size_t i = 0; size >= 3 && i < count; i++)
        if (strncmp(flags[i].name, name, size) == 0)
            return &flags[i];

    const struct flag *nearest = NULL;
    size_t nearest_distance = size / 3 + 1;
    for (size_t i = 0; i < count; i++) {
        size_t distance = edit_distance(name, size, flags[i].name, strlen(flags[i].name));
        if (distance < nearest_distance) {
            nearest = &flags[i];
            nearest_distance = distance;
        }
    }
    return nearest;
}

static void write_row(const struct flag *flag, enum options_command command, FILE *out)
{
    const char *argument = flag->argument == NULL ? "" : flag->argument;
    int width = 22 - (int)strlen(flag->name);
    (void)fprintf(out, "  -%s %-*s %s", flag->name, width, argument, flag->help);
    for (unsigned i = 0; i < FLAG_DEFAULTS_MAX; i++)
        if ((flag->defaults[i].commands & 1u << command) != 0)
            (void)fprintf(out, " (%s)", flag->defaults[i].text);
    (void)fputc('\n', out);
}

static void write_group(const struct flag *flags, size_t count, enum flag_group group,
                        enum options_command command, FILE *out)
{
    static const char *const titles[] = {
        [FLAG_LOAD] = "Load",
        [FLAG_AGENT] = "Agent (model and tools)",
        [FLAG_MODEL] = "Model (its replies, and what is done when they do not come)",
        [FLAG_JOURNAL] = "Journal",
        [FLAG_JUDGING] = "Judging",
        [FLAG_OUTPUT] = "Output",
    };
    bool has_title = false;
    for (size_t i = 0; i < count; i++) {
        if (flags[i].group != group || (flags[i].commands & 1u << command) == 0)
            continue;
        if (!has_title)
            (void)fprintf(out, "\n%s:\n", titles[group]);
        has_title = true;
        write_row(&flags[i], command, out);
    }
}

void flags_write_help(const struct flag *flags, size_t count, enum options_command command,
                      FILE *out)
{
    for (enum flag_group group = FLAG_LOAD; group < FLAG_LATER; group++)
        write_group(flags, count, group, command, out);
    if (command != OPTIONS_OF_RUN && command != OPTIONS_OF_RESUME)
        return; /* They have no values of these kinds. */
    (void)fputs("\n"
                "D: 250us, 50ms, 1m30s. N: 5000, 20k, 1.5m. DIST: 50ms, uniform:10ms,90ms,\n"
                "normal:50ms,10ms, lognormal:p50=800ms,p99=8s, exp:50ms, file:PATH; 2KB, 1MiB.\n",
                out);
}
