/* flags: see flags.h. */
#include "cmd/flags.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

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

/* A seed is an identity, not a quantity: all 64 bits, digits only. */
int flags_parse_seed(const struct flag *flag, const char *text, struct options *options,
                     struct errmsg *why)
{
    uint64_t seed = 0;
    bool is_valid = text[0] != '\0';
    for (const char *c = text; *c != '\0' && is_valid; c++) {
        uint64_t digit = (uint64_t)(unsigned char)*c - '0';
        is_valid = digit <= 9 && !__builtin_mul_overflow(seed, UINT64_C(10), &seed) &&
                   !__builtin_add_overflow(seed, digit, &seed);
    }
    if (!is_valid)
        return errmsg_set(why, -EINVAL, "must be a whole number from 0 to %" PRIu64 ", got \"%s\"",
                          UINT64_MAX, text);
    *(uint64_t *)target(flag, options) = seed;
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

int flags_parse_dist(const struct flag *flag, const char *text, struct options *options,
                     struct errmsg *why)
{
    struct dist parsed;
    int error = dist_parse(&parsed, text, DIST_DURATION, why);
    if (error != 0)
        return error;
    struct dist *dist = target(flag, options);
    dist_free(dist);
    *dist = parsed;
    return 0;
}

int flags_parse_text(const struct flag *flag, const char *text, struct options *options,
                     struct errmsg *why)
{
    if (text[0] == '\0')
        return errmsg_set(why, -EINVAL, "must not be empty");
    *(const char **)target(flag, options) = text;
    return 0;
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

int flags_parse_durability(const struct flag *flag, const char *text, struct options *options,
                           struct errmsg *why)
{
    static const enum durability levels[] = {DURABILITY_NONE, DURABILITY_PROCESS, DURABILITY_POWER};
    for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++) {
        if (strcmp(text, durability_name(levels[i])) == 0) {
            *(enum durability *)target(flag, options) = levels[i];
            return 0;
        }
    }
    return errmsg_set(why, -EINVAL, "must be power, process or none, got \"%s\"", text);
}

int flags_parse_effect(const struct flag *flag, const char *text, struct options *options,
                       struct errmsg *why)
{
    static const enum tool_effect effects[] = {TOOL_EFFECT_NONE, TOOL_EFFECT_NOOP,
                                               TOOL_EFFECT_LEDGER};
    for (size_t i = 0; i < sizeof(effects) / sizeof(effects[0]); i++) {
        if (strcmp(text, tool_effect_name(effects[i])) == 0) {
            *(enum tool_effect *)target(flag, options) = effects[i];
            return 0;
        }
    }
    return errmsg_set(why, -EINVAL, "must be none, noop or ledger, got \"%s\"", text);
}

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

void flags_write_help(const struct flag *flags, size_t count, FILE *out)
{
    static const char *const titles[] = {
        [FLAG_LOAD] = "Load",
        [FLAG_AGENT] = "Agent (model and tools)",
        [FLAG_JOURNAL] = "Journal",
        [FLAG_OUTPUT] = "Output",
    };
    (void)fputs("usage: bench [run] [flags]\n"
                "Drives durable agent runs against a stub model and a journal, and reports.\n",
                out);
    for (enum flag_group group = FLAG_LOAD; group < FLAG_LATER; group++) {
        (void)fprintf(out, "\n%s:\n", titles[group]);
        for (size_t i = 0; i < count; i++) {
            if (flags[i].group != group)
                continue;
            const char *argument = flags[i].argument == NULL ? "" : flags[i].argument;
            int width = 22 - (int)strlen(flags[i].name);
            (void)fprintf(out, "  -%s %-*s %s\n", flags[i].name, width, argument, flags[i].help);
        }
    }
    (void)fputs("\n"
                "D: 250us, 50ms, 1m30s. N: 5000, 20k, 1.5m. DIST: 50ms, uniform:10ms,90ms,\n"
                "normal:50ms,10ms, lognormal:p50=800ms,p99=8s, exp:50ms, file:PATH.\n"
                "\n"
                "Examples:\n"
                "  bench -runs 20000 -concurrency 5000 -latency 50ms\n"
                "  bench -duration 30s -latency lognormal:p50=800ms,p99=8s -json result.json\n",
                out);
}
