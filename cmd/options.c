/*
 * options: see options.h. The table comes first; below it, glibc's getopt_long_only() does the
 * splitting, after each argument's name has been looked up exactly, since getopt would take
 * abbreviations in silence.
 */
#include "cmd/options.h"

#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <string.h>

#include "cmd/flags.h"
#include "engine/base/clock.h"
#include "engine/base/resource.h"

#define TARGET(member) offsetof(struct options, member)
#define LATER(flag_name, flag_argument)                                                            \
    {                                                                                              \
        .name = flag_name, .argument = flag_argument, .group = FLAG_LATER                          \
    }

static const struct flag flags[] = {
    {"runs", "N", FLAG_LOAD, flags_parse_count64, TARGET(campaign.runs), 1, OPTIONS_RUNS_MAX,
     "runs to drive (5000)"},
    {"duration", "D", FLAG_LOAD, flags_parse_duration, TARGET(campaign.duration_ns), 1,
     NS_MAX_DURATION, "start runs for this long, instead of -runs"},
    {"concurrency", "N", FLAG_LOAD, flags_parse_count32, TARGET(campaign.concurrency), 1,
     CAMPAIGN_CONCURRENCY_MAX, "runs in flight (256)"},
    {"threads", "N", FLAG_LOAD, flags_parse_count32, TARGET(campaign.threads), 1,
     CAMPAIGN_THREADS_MAX, "scheduler threads (one a CPU)"},
    {"loop", "NAME", FLAG_LOAD, flags_parse_loop, TARGET(campaign.loop_name), 0, 0,
     "auto, io_uring or epoll (auto)"},
    {"seed", "N", FLAG_LOAD, flags_parse_seed, TARGET(campaign.seed), 0, 0,
     "the seed of everything random (1)"},
    {"timeout", "D", FLAG_LOAD, flags_parse_duration, TARGET(campaign.timeout_ns), 0,
     NS_MAX_DURATION, "fail a run that takes longer; 0: none (0)"},
    {"latency", "DIST", FLAG_AGENT, flags_parse_dist, TARGET(campaign.latency), 0, 0,
     "of a call of the stub model (0)"},
    {"turns", "N", FLAG_AGENT, flags_parse_count32, TARGET(campaign.turns), 1, CAMPAIGN_TURNS_MAX,
     "model calls a run; the last gives the answer (2)"},
    {"tools", "N", FLAG_AGENT, flags_parse_count32, TARGET(campaign.tools), 1, CAMPAIGN_TOOLS_MAX,
     "tool calls a turn (1)"},
    {"tool-latency", "DIST", FLAG_AGENT, flags_parse_dist, TARGET(campaign.tool_latency), 0, 0,
     "of a tool call (0)"},
    {"tool-effect", "E", FLAG_AGENT, flags_parse_effect, TARGET(campaign.tool_effect), 0, 0,
     "none, noop: journaled but empty, or ledger (noop)"},
    {"ledger", "FILE", FLAG_AGENT, flags_parse_text, TARGET(campaign.ledger_path), 0, 0,
     "gets a line a tool call, with -tool-effect ledger"},
    {"journal", "URI", FLAG_JOURNAL, flags_parse_text, TARGET(campaign.journal_uri), 0, 0,
     "where records become durable: memory (memory)"},
    {"durability", "LEVEL", FLAG_JOURNAL, flags_parse_durability, TARGET(campaign.durability), 0, 0,
     "power, process or none (the journal's own)"},
    {"json", "FILE", FLAG_OUTPUT, flags_parse_text, TARGET(json_path), 0, 0,
     "the result as JSON; -: to stdout, summary to stderr"},
    {"progress", "D", FLAG_OUTPUT, flags_parse_duration, TARGET(progress_ns), 0, NS_MAX_DURATION,
     "a line each D; 0: none (1s on a terminal, else 0)"},
    {"quiet", NULL, FLAG_OUTPUT, flags_parse_switch, TARGET(is_quiet), 0, 0,
     "no progress and no warnings"},
    {"version", NULL, FLAG_OUTPUT, flags_parse_version, 0, 0, 0, "print the version and exit"},
    {"help", NULL, FLAG_OUTPUT, flags_parse_help, 0, 0, 0, "print this and exit"},
    LATER("rate", "N"),
    LATER("arrival", "NAME"),
    LATER("warmup", "D"),
    LATER("prompt-bytes", "DIST"),
    LATER("reply-bytes", "DIST"),
    LATER("history", "NAME"),
    LATER("tokens", "N"),
    LATER("token-interval", "D"),
    LATER("stream-journal", "NAME"),
    LATER("model-error-rate", "P"),
    LATER("tool-retry", "RULE"),
    LATER("run-id", "NAME"),
    LATER("shards", "N"),
    LATER("connections", "N"),
    LATER("retry-for", "D"),
    LATER("slo", "EXPR"),
    LATER("slo-abort", NULL),
    LATER("csv", "FILE"),
    LATER("markdown", "FILE"),
    LATER("hgrm", "FILE"),
    LATER("gobench", "FILE"),
};

enum { FLAG_COUNT = sizeof(flags) / sizeof(flags[0]) };

/* An argument that looks like a flag: its name without dashes and value. */
struct flag_text {
    const char *name;
    size_t size;
    bool has_value;
};

static bool split_flag(const char *argument, struct flag_text *text)
{
    if (argument[0] != '-' || argument[1] == '\0')
        return false;
    text->name = argument + (argument[1] == '-' ? 2 : 1);
    text->size = strcspn(text->name, "=");
    text->has_value = text->name[text->size] == '=';
    return true;
}

static int find_flag(const struct flag_text *text)
{
    for (int i = 0; i < FLAG_COUNT; i++)
        if (strlen(flags[i].name) == text->size &&
            memcmp(flags[i].name, text->name, text->size) == 0)
            return i;
    return -1;
}

static int refuse_unknown(const char *argument, const struct flag_text *text, struct errmsg *why)
{
    int argument_size = (int)(text->name + text->size - argument);
    const struct flag *nearest = flags_find_nearest(flags, FLAG_COUNT, text->name, text->size);
    if (nearest == NULL)
        return errmsg_set(why, -EINVAL, "unknown flag %.*s", argument_size, argument);
    return errmsg_set(why, -EINVAL, "unknown flag %.*s; did you mean -%s?", argument_size, argument,
                      nearest->name);
}

/* Everything that can be wrong with a flag before its value is looked at. Returns the row's index
 * or -EINVAL. */
static int check_flag(const char *argument, const char *next, const bool *is_given,
                      struct errmsg *why)
{
    struct flag_text text;
    struct flag_text next_text;
    if (!split_flag(argument, &text))
        return errmsg_set(why, -EINVAL, "unexpected operand \"%s\"", argument);
    int index = find_flag(&text);
    if (index < 0)
        return refuse_unknown(argument, &text, why);

    const struct flag *flag = &flags[index];
    if (flag->group == FLAG_LATER)
        return errmsg_set(why, -EINVAL, "-%s is not built yet", flag->name);
    if (is_given[index])
        return errmsg_set(why, -EINVAL, "-%s must not be given twice", flag->name);
    if (flag->argument == NULL && text.has_value)
        return errmsg_set(why, -EINVAL, "-%s takes no value, got \"%s\"", flag->name,
                          text.name + text.size + 1);
    if (flag->argument == NULL || text.has_value)
        return index;
    if (next == NULL)
        return errmsg_set(why, -EINVAL, "-%s needs a value (%s)", flag->name, flag->argument);
    if (split_flag(next, &next_text) && find_flag(&next_text) >= 0)
        return errmsg_set(why, -EINVAL, "-%s needs a value (%s), got the flag %s", flag->name,
                          flag->argument, next);
    return index;
}

static void fill_long_options(struct option rows[FLAG_COUNT + 1])
{
    for (int i = 0; i < FLAG_COUNT; i++)
        rows[i] = (struct option){
            .name = flags[i].name,
            .has_arg = flags[i].argument == NULL ? no_argument : required_argument,
        };
    rows[FLAG_COUNT] = (struct option){0};
}

static int parse_flags(struct options *options, int argc, char **argv, bool *is_given,
                       struct errmsg *why)
{
    struct option rows[FLAG_COUNT + 1];
    fill_long_options(rows);
    /* 0 makes glibc start over; it is 1 after the first call. */
    optind = 0;
    opterr = 0;
    for (int at = 1; at < argc && options->action == OPTIONS_RUN; at = optind) {
        if (strcmp(argv[at], "--") == 0) {
            if (at + 1 < argc)
                return errmsg_set(why, -EINVAL, "unexpected operand \"%s\"", argv[at + 1]);
            return 0;
        }
        if (strcmp(argv[at], "-h") == 0) { /* what everybody types first */
            options->action = OPTIONS_HELP;
            return 0;
        }
        const char *next = at + 1 < argc ? argv[at + 1] : NULL;
        int checked = check_flag(argv[at], next, is_given, why);
        if (checked < 0)
            return checked;

        int index = -1;
        int answer = getopt_long_only(argc, argv, "+:", rows, &index);
        assert(answer == 0 && index == checked);
        is_given[index] = true;
        struct errmsg reason = {.text = ""};
        const char *text = optarg == NULL ? "" : optarg;
        int error = flags[index].parse(&flags[index], text, options, &reason);
        if (error != 0)
            return errmsg_set(why, error, "-%s %s", flags[index].name, reason.text);
    }
    return 0;
}

/* Whether the flag that sets the member at this offset was given. */
static bool was_given(const bool *is_given, size_t offset)
{
    for (int i = 0; i < FLAG_COUNT; i++)
        if (flags[i].offset == offset && flags[i].argument != NULL && is_given[i])
            return true;
    return false;
}

/* What no single flag can tell. */
static int check_together(struct options *options, const bool *is_given, struct errmsg *why)
{
    struct campaign_config *campaign = &options->campaign;
    bool is_ledger = campaign->tool_effect == TOOL_EFFECT_LEDGER;
    options->is_progress_given = was_given(is_given, TARGET(progress_ns));

    if (campaign->duration_ns > 0 && campaign->runs > 0)
        return errmsg_set(why, -EINVAL, "-runs and -duration exclude each other");
    if (campaign->duration_ns == 0 && campaign->runs == 0)
        campaign->runs = OPTIONS_RUNS_DEFAULT;
    if (is_ledger && campaign->ledger_path == NULL)
        return errmsg_set(why, -EINVAL, "-tool-effect ledger needs -ledger FILE");
    if (!is_ledger && campaign->ledger_path != NULL)
        return errmsg_set(why, -EINVAL, "-ledger needs -tool-effect ledger");
    if (options->is_quiet && options->progress_ns > 0)
        return errmsg_set(why, -EINVAL, "-quiet and -progress exclude each other");

    struct errmsg reason = {.text = ""};
    struct journal_config journal = {
        .uri = campaign->journal_uri,
        .durability = campaign->durability,
        .writers = 1,
    };
    int error = journal_check(&journal, &reason);
    if (error != 0)
        return errmsg_set(why, error, "%s", reason.text);
    return 0;
}

static unsigned default_threads(void)
{
    unsigned cpus = resource_cpus();
    return cpus < CAMPAIGN_THREADS_MAX ? cpus : CAMPAIGN_THREADS_MAX;
}

int options_parse(struct options *options, int argc, char **argv, struct errmsg *why)
{
    *options = (struct options){
        .action = OPTIONS_RUN,
        .campaign = {.concurrency = 256,
                     .threads = default_threads(),
                     .seed = 1,
                     .turns = OPTIONS_TURNS_DEFAULT,
                     .tools = OPTIONS_TOOLS_DEFAULT,
                     .tool_effect = TOOL_EFFECT_NOOP,
                     .loop_name = "auto",
                     .journal_uri = "memory",
                     .durability = DURABILITY_DEFAULT},
    };
    bool is_given[FLAG_COUNT] = {false};
    int error = dist_parse(&options->campaign.latency, "0", DIST_DURATION, why);
    if (error == 0)
        error = dist_parse(&options->campaign.tool_latency, "0", DIST_DURATION, why);
    if (error == 0)
        error = parse_flags(options, argc, argv, is_given, why);
    if (error == 0 && options->action == OPTIONS_RUN)
        error = check_together(options, is_given, why);
    if (error != 0)
        options_free(options);
    return error;
}

void options_free(struct options *options)
{
    dist_free(&options->campaign.latency);
    dist_free(&options->campaign.tool_latency);
}

void options_write_help(FILE *out)
{
    flags_write_help(flags, FLAG_COUNT, out);
}
