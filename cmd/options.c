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

#define TARGET(member) OPTIONS_AT(member)
#define NO_DEFAULT DEFAULT(0, NULL)
#define DEFAULT(commands_of_it, text) .defaults = {{commands_of_it, text}}
#define DEFAULTS(first, first_text, second, second_text)                                           \
    .defaults = {{first, first_text}, {second, second_text}}
#define NAMES(of) .names = &flags_##of##_names
#define LATER(flag_name, flag_argument)                                                            \
    {                                                                                              \
        .name = flag_name, .argument = flag_argument, .group = FLAG_LATER, .commands = RUN         \
    }

/* Which commands have a flag, or a default of it. */
enum {
    RUN = 1 << OPTIONS_OF_RUN,
    RESUME = 1 << OPTIONS_OF_RESUME,
    VERIFY = 1 << OPTIONS_OF_VERIFY,
    MERGE = 1 << OPTIONS_OF_MERGE,
    COMPARE = 1 << OPTIONS_OF_COMPARE,
    DRIVE = RUN | RESUME,
    REPORT = RUN | MERGE, /* what a result is written as */
    ALL = RUN | RESUME | VERIFY,
    EVERY = ALL | MERGE | COMPARE,
};

static const struct flag flags[] = {
    {"runs", "N", FLAG_LOAD, RUN, flags_parse_count64, TARGET(campaign.runs), 1, OPTIONS_RUNS_MAX,
     "runs to drive", DEFAULT(RUN, "5000")},
    {"duration", "D", FLAG_LOAD, RUN, flags_parse_duration, TARGET(campaign.duration_ns), 1,
     NS_MAX_DURATION, "start runs for this long, instead of -runs", NO_DEFAULT},
    {"warmup", "D", FLAG_LOAD, RUN, flags_parse_duration, TARGET(campaign.warmup_ns), 0,
     NS_MAX_DURATION, "drive runs that do not count for this long first", DEFAULT(RUN, "0")},
    {"steady", "SLOPE%", FLAG_LOAD, RUN, flags_parse_share, TARGET(steady_ratio), 1, 0,
     "or until runs/s have come to rest; -warmup: 60s", NO_DEFAULT},
    {"rate", "N[/s|/m]", FLAG_LOAD, RUN, flags_parse_rate, TARGET(campaign.arrival.rate), 0, 0,
     "open loop: runs start at this rate; 0: closed", DEFAULT(RUN, "0")},
    {"arrival", "NAME", FLAG_LOAD, RUN, flags_parse_name, TARGET(campaign.arrival.process), 0, 0,
     "of an open loop: constant or poisson", DEFAULT(RUN, "constant"), NAMES(arrival)},
    {"stages", "LIST", FLAG_LOAD, RUN, flags_parse_stages, TARGET(campaign.arrival.stages), 0, 0,
     "ramps of the rate: 30s:500/s,1m:2000/s", NO_DEFAULT},
    {"concurrency", "N", FLAG_LOAD, DRIVE, flags_parse_count32, TARGET(campaign.concurrency), 1,
     CAMPAIGN_CONCURRENCY_MAX, "runs in flight, at the most", DEFAULT(RUN, "256")},
    {"threads", "N", FLAG_LOAD, DRIVE, flags_parse_count32, TARGET(campaign.threads), 1,
     CAMPAIGN_THREADS_MAX, "scheduler threads", DEFAULT(ALL, "one a CPU")},
    {"loop", "NAME", FLAG_LOAD, DRIVE, flags_parse_loop, TARGET(campaign.loop_name), 0, 0,
     "auto, io_uring or epoll", DEFAULT(ALL, "auto")},
    {"seed", "N", FLAG_LOAD, RUN, flags_parse_id, TARGET(campaign.seed), 0, UINT64_MAX,
     "the seed of everything random", DEFAULT(ALL, "1")},
    {"timeout", "D", FLAG_LOAD, DRIVE, flags_parse_duration, TARGET(campaign.timeout_ns), 0,
     NS_MAX_DURATION, "fail a run that takes longer; 0: none", DEFAULT(RUN, "0")},
    {"latency", "DIST", FLAG_AGENT, DRIVE, flags_parse_dist, TARGET(campaign.latency), 0, 0,
     "of a call of the stub model", DEFAULT(RUN, "0")},
    {"turns", "N", FLAG_AGENT, RUN, flags_parse_count32, TARGET(campaign.turns), 1,
     CAMPAIGN_TURNS_MAX, "model calls a run; the last gives the answer", DEFAULT(ALL, "2")},
    {"tools", "N", FLAG_AGENT, RUN, flags_parse_count32, TARGET(campaign.tools), 1,
     CAMPAIGN_TOOLS_MAX, "tool calls a turn", DEFAULT(ALL, "1")},
    {"tool-latency", "DIST", FLAG_AGENT, DRIVE, flags_parse_dist, TARGET(campaign.tool_latency), 0,
     0, "of a tool call", DEFAULT(RUN, "0")},
    {"tool-effect", "E", FLAG_AGENT, RUN, flags_parse_name, TARGET(campaign.tool_effect), 0, 0,
     "none, noop: journaled but empty, or ledger", DEFAULT(ALL, "noop"), NAMES(effect)},
    {"ledger", "FILE", FLAG_AGENT, DRIVE, flags_parse_text, TARGET(campaign.ledger_path), 0, 0,
     "gets a line a tool call, with -tool-effect ledger", NO_DEFAULT},
    {"prompt-bytes", "DIST", FLAG_AGENT, RUN, flags_parse_dist_bytes, TARGET(campaign.prompt_bytes),
     0, 0, "of the user's message", DEFAULT(ALL, "a short question")},
    {"reply-bytes", "DIST", FLAG_AGENT, RUN, flags_parse_dist_bytes, TARGET(campaign.reply_bytes),
     0, 0, "of the text of each reply", DEFAULT(ALL, "a few words")},
    {"tokens", "N", FLAG_MODEL, RUN, flags_parse_count32, TARGET(campaign.model.tokens), 0,
     CAMPAIGN_TOKENS_MAX, "of each reply, which streams; 0: in one go", DEFAULT(RUN, "0")},
    {"token-interval", "D", FLAG_MODEL, DRIVE, flags_parse_duration,
     TARGET(campaign.model.token_interval_ns), 0, NS_MAX_DURATION, "from one token to the next",
     DEFAULT(RUN, "0")},
    {"stream-journal", "MODE", FLAG_MODEL, DRIVE, flags_parse_name,
     TARGET(campaign.model.rules.stream_journal), 0, 0, "of a stream: none, coalesced or token",
     DEFAULT(RUN, "none"), NAMES(stream)},
    {"model-error-rate", "P", FLAG_MODEL, DRIVE, flags_parse_share,
     TARGET(campaign.model.error_rate), 0, 0, "share of calls that fail: 0.01 or 1%",
     DEFAULT(RUN, "0")},
    {"model-timeout", "D", FLAG_MODEL, DRIVE, flags_parse_duration,
     TARGET(campaign.model.rules.timeout_ns), 0, NS_MAX_DURATION,
     "a call that takes longer fails; 0: none", DEFAULT(RUN, "0")},
    {"model-retries", "N", FLAG_MODEL, DRIVE, flags_parse_count32,
     TARGET(campaign.model.rules.retries), 0, AGENT_RETRIES_MAX,
     "of a call that fails, each after a back-off", DEFAULT(RUN, "0")},
    {"hedge", "D", FLAG_MODEL, DRIVE, flags_parse_duration, TARGET(campaign.model.rules.hedge_ns),
     0, NS_MAX_DURATION, "call again without an answer by then; 0: never", DEFAULT(RUN, "0")},
    {"journal", "URI", FLAG_JOURNAL, ALL, flags_parse_text, TARGET(campaign.journal_uri), 0, 0,
     "sqlite:PATH, postgres://… or, to run, memory", DEFAULT(RUN, "memory")},
    {"durability", "LEVEL", FLAG_JOURNAL, DRIVE, flags_parse_name, TARGET(campaign.durability), 0,
     0, "power, process or none", DEFAULT(RUN, "power; memory: none"), NAMES(durability)},
    {"campaign", "ID", FLAG_JOURNAL, RESUME | VERIFY, flags_parse_id, TARGET(campaign.campaign), 1,
     RUN_KEY_CAMPAIGN_MAX, "of those in the journal",
     DEFAULTS(RESUME, "the newest", VERIFY, "all")},
    {"tool-retry", "RULE", FLAG_AGENT, RESUME, flags_parse_name, TARGET(campaign.tool_retry), 0, 0,
     "unknown=halt or unknown=retry", DEFAULT(ALL, "unknown=halt"), NAMES(retry)},
    {"run-id", "KIND", FLAG_JOURNAL, RUN, flags_parse_name, TARGET(campaign.run_key), 0, 0,
     "the store's key: seq, uuidv7 or uuidv4", DEFAULT(ALL, "seq"), NAMES(run_id)},
    {"shards", "N", FLAG_JOURNAL, RUN, flags_parse_count32, TARGET(campaign.shards), 1,
     JOURNAL_SHARDS_MAX, "files of an sqlite journal", DEFAULT(ALL, "1")},
    {"connections", "N", FLAG_JOURNAL, DRIVE, flags_parse_count32, TARGET(campaign.connections), 1,
     JOURNAL_CONNECTIONS_MAX, "to a postgres journal", DEFAULT(ALL, "4")},
    {"retry-for", "D", FLAG_JOURNAL, DRIVE, flags_parse_duration, TARGET(campaign.retry_for_ns), 0,
     NS_MAX_DURATION, "try again what a server may yet do; 0: not", DEFAULT(ALL, "30s")},
    {"history", "MODE", FLAG_JOURNAL, RUN, flags_parse_name, TARGET(campaign.history), 0, 0,
     "of a turn: delta, or snapshot: all so far", DEFAULT(ALL, "delta"), NAMES(history)},
    {"threshold", "P%", FLAG_JUDGING, COMPARE, flags_parse_share, TARGET(threshold), 1, 0,
     "what a change must exceed to matter", DEFAULT(COMPARE, "5%")},
    {"floor", "P%", FLAG_JUDGING, COMPARE, flags_parse_share, TARGET(floor), 0, 0,
     "and what a build differs by from itself", DEFAULT(COMPARE, "0")},
    {"paired", NULL, FLAG_JUDGING, COMPARE, flags_parse_switch, TARGET(is_paired), 0, 0,
     "the n-th of a side ran next to the n-th of the other", NO_DEFAULT},
    {"force", NULL, FLAG_JUDGING, COMPARE, flags_parse_switch, TARGET(is_forced), 0, 0,
     "compare what was not measured alike all the same", NO_DEFAULT},
    {"json", "FILE", FLAG_OUTPUT, DRIVE | MERGE | COMPARE, flags_parse_text, TARGET(json_path), 0,
     0, "the result as JSON; -: to stdout, summary to stderr", NO_DEFAULT},
    {"slo", "EXPR", FLAG_OUTPUT, REPORT, flags_parse_slo, TARGET(slos), 0, 0,
     "exit with 99 unless it holds: p(99)<250ms; repeatable", NO_DEFAULT, .is_repeatable = true},
    {"slo-abort", NULL, FLAG_OUTPUT, RUN, flags_parse_switch, TARGET(is_slo_abort), 0, 0,
     "stop as soon as an objective is missed", NO_DEFAULT},
    {"slo-delay", "D", FLAG_OUTPUT, RUN, flags_parse_duration, TARGET(slo_delay_ns), 1,
     NS_MAX_DURATION, "how long -slo-abort waits first", DEFAULT(RUN, "1s")},
    {"csv", "FILE", FLAG_OUTPUT, REPORT, flags_parse_text, TARGET(csv_path), 0, 0,
     "a line a second, or each -progress", NO_DEFAULT},
    {"markdown", "FILE", FLAG_OUTPUT, REPORT | COMPARE, flags_parse_text, TARGET(markdown_path), 0,
     0, "appends a table, as to $GITHUB_STEP_SUMMARY", NO_DEFAULT},
    {"hgrm", "FILE", FLAG_OUTPUT, REPORT, flags_parse_text, TARGET(hgrm_path), 0, 0,
     "percentiles as HdrHistogram prints them", NO_DEFAULT},
    {"gobench", "FILE", FLAG_OUTPUT, REPORT, flags_parse_text, TARGET(gobench_path), 0, 0,
     "in Go's benchmark format, for benchstat", NO_DEFAULT},
    {"bmf", "FILE", FLAG_OUTPUT, REPORT, flags_parse_text, TARGET(bmf_path), 0, 0,
     "in Bencher's metric format", NO_DEFAULT},
    {"openmetrics", "FILE", FLAG_OUTPUT, REPORT, flags_parse_text, TARGET(openmetrics_path), 0, 0,
     "in the OpenMetrics text format", NO_DEFAULT},
    {"gha", "FILE", FLAG_OUTPUT, REPORT, flags_parse_text, TARGET(gha_path), 0, 0,
     "two files, for github-action-benchmark", NO_DEFAULT},
    {"progress", "D", FLAG_OUTPUT, DRIVE, flags_parse_duration, TARGET(progress_ns), 0,
     NS_MAX_DURATION, "a line each D; 0: none", DEFAULT(ALL, "on a terminal, else 0")},
    {"histogram", NULL, FLAG_OUTPUT, REPORT, flags_parse_switch, TARGET(is_histogram), 0, 0,
     "of the latency, in the report; always on a terminal", NO_DEFAULT},
    {"quiet", NULL, FLAG_OUTPUT, DRIVE, flags_parse_switch, TARGET(is_quiet), 0, 0,
     "no progress and no warnings", NO_DEFAULT},
    {"version", NULL, FLAG_OUTPUT, EVERY, flags_parse_version, 0, 0, 0, "the version", NO_DEFAULT},
    {"help", NULL, FLAG_OUTPUT, EVERY, flags_parse_help, 0, 0, 0, "print this and exit",
     NO_DEFAULT},
};

enum { FLAG_COUNT = sizeof(flags) / sizeof(flags[0]) };
static_assert(FLAG_COUNT <= 64, "options.given has a bit each");

static uint64_t bit_of(int index)
{
    return UINT64_C(1) << index;
}

static bool is_dist(const struct flag *flag)
{
    return flag->parse == flags_parse_dist || flag->parse == flags_parse_dist_bytes;
}

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

/* What differs between the commands, beside their flags. */
static const struct command_row {
    const char *name;
    const char *help;
    const char *purpose; /* the first lines of the help */
    enum journal_mode mode;
} command_rows[] = {
    [OPTIONS_OF_RUN] = {"run", "bench -help",
                        "usage: bench [run] [flags]  (bench resume, verify, merge, compare -help)\n"
                        "Drives durable agent runs against a stub model and a journal, and"
                        " reports.\n",
                        JOURNAL_NEW},
    [OPTIONS_OF_RESUME] = {"resume", "bench resume -help",
                           "usage: bench resume -journal URI [flags]\n"
                           "Finishes a campaign's unfinished runs. What is not given"
                           " is as it was there.\n",
                           JOURNAL_RESUME},
    [OPTIONS_OF_VERIFY] = {"verify", "bench verify -help",
                           "usage: bench verify -journal URI [flags]\n"
                           "Audits every record of a journal; exits with 1 and names the first"
                           " faults.\n",
                           JOURNAL_AUDIT},
    [OPTIONS_OF_MERGE] = {"merge", "bench merge -help",
                          "usage: bench merge [flags] A.json B.json…\n"
                          "Makes one result of those of several generators that ran at the same"
                          " time.\n",
                          JOURNAL_NEW},
    [OPTIONS_OF_COMPARE] = {"compare", "bench compare -help",
                            "usage: bench compare [flags] BASE.json… -- HEAD.json…\n"
                            "Judges two sets of results; exits with 3 when something is worse."
                            " A directory\nstands for the results in it, and for the scenarios"
                            " that are directories there.\n",
                            JOURNAL_NEW},
};

/* Where the operand names a journal, its flag was forgotten. */
static int refuse_operand(const char *operand, struct errmsg *why)
{
    bool is_journal = journal_is_named_by(operand);
    /* The hint goes first: what is quoted may be long, and hidden from where it may be a secret. */
    return errmsg_set(why, -EINVAL, "unexpected operand%s \"%s\"",
                      is_journal ? " (did you mean -journal …?)" : "", operand);
}

/* Everything that can be wrong with a flag before its value is looked at. Returns the row's index
 * or -EINVAL. */
static int check_flag(const struct options *options, const char *argument, const char *next,
                      struct errmsg *why)
{
    struct flag_text text;
    struct flag_text next_text;
    if (!split_flag(argument, &text))
        return refuse_operand(argument, why);
    int index = find_flag(&text);
    if (index < 0)
        return refuse_unknown(argument, &text, why);

    const struct flag *flag = &flags[index];
    if (flag->group == FLAG_LATER)
        return errmsg_set(why, -EINVAL, "-%s is not built yet", flag->name);
    if ((flag->commands & 1u << options->command) == 0)
        return errmsg_set(why, -EINVAL, "bench %s has no flag -%s",
                          command_rows[options->command].name, flag->name);
    if ((options->given & bit_of(index)) != 0 && !flag->is_repeatable)
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

/* Of the command that has any: moves what stands here, or behind a "--", up to those before, over
 * arguments that have been read. */
static bool take_operands(struct options *options, int argc, char **argv, int at)
{
    struct flag_text text;
    bool is_rest = strcmp(argv[at], "--") == 0;
    bool has_operands =
        options->command == OPTIONS_OF_MERGE || options->command == OPTIONS_OF_COMPARE;
    if (!has_operands || (!is_rest && split_flag(argv[at], &text)))
        return false;
    if (is_rest)
        options->operands_before = options->operand_count;
    optind = is_rest ? argc : at + 1;
    for (at += is_rest; at < optind; at++)
        argv[1 + options->operand_count++] = argv[at];
    options->operands = argv + 1;
    return true;
}

static int parse_flags(struct options *options, int argc, char **argv, struct errmsg *why)
{
    struct option rows[FLAG_COUNT + 1];
    fill_long_options(rows);
    /* 0 makes glibc start over; it is 1 after the first call. */
    optind = 0;
    opterr = 0;
    for (int at = 1; at < argc && options->action == OPTIONS_GO; at = optind) {
        if (take_operands(options, argc, argv, at))
            continue;
        if (strcmp(argv[at], "--") == 0) {
            if (at + 1 < argc)
                return refuse_operand(argv[at + 1], why);
            return 0;
        }
        if (strcmp(argv[at], "-h") == 0) { /* what everybody types first */
            options->action = OPTIONS_HELP;
            return 0;
        }
        const char *next = at + 1 < argc ? argv[at + 1] : NULL;
        int checked = check_flag(options, argv[at], next, why);
        if (checked < 0)
            return checked;

        int index = -1;
        int answer = getopt_long_only(argc, argv, "+:", rows, &index);
        assert(answer == 0 && index == checked);
        options->given |= bit_of(index);
        struct errmsg reason = {.text = ""};
        const char *text = optarg == NULL ? "" : optarg;
        int error = flags[index].parse(&flags[index], text, options, &reason);
        if (error != 0)
            return errmsg_set(why, error, "-%s %s", flags[index].name, reason.text);
    }
    return 0;
}

bool options_is_given(const struct options *options, size_t offset)
{
    for (int i = 0; i < FLAG_COUNT; i++)
        if (flags[i].offset == offset && flags[i].argument != NULL &&
            (options->given & bit_of(i)) != 0)
            return true;
    return false;
}

static unsigned default_threads(void)
{
    unsigned cpus = resource_cpus();
    return cpus < CAMPAIGN_THREADS_MAX ? cpus : CAMPAIGN_THREADS_MAX;
}

/* The defaults of new runs. The other commands are told by the store, unless by a flag. */
static int set_run_defaults(struct campaign_config *campaign, struct errmsg *why)
{
    campaign->concurrency = 256;
    campaign->seed = 1;
    campaign->turns = OPTIONS_TURNS_DEFAULT;
    campaign->tools = OPTIONS_TOOLS_DEFAULT;
    campaign->tool_effect = TOOL_EFFECT_NOOP;
    campaign->history = HISTORY_DELTA;
    campaign->journal_uri = "memory";
    int error = dist_parse(&campaign->latency, "0", DIST_DURATION, why);
    return error != 0 ? error : dist_parse(&campaign->tool_latency, "0", DIST_DURATION, why);
}

int options_parse(struct options *options, enum options_command command, int argc, char **argv,
                  struct errmsg *why)
{
    *options = (struct options){
        .command = command,
        .action = OPTIONS_GO,
        .campaign = {.mode = command_rows[command].mode,
                     .threads = default_threads(),
                     .loop_name = "auto",
                     .durability = DURABILITY_DEFAULT,
                     .retry_for_ns = OPTIONS_RETRY_FOR_NS_DEFAULT},
        .slo_delay_ns = NS_PER_S,
        .threshold = OPTIONS_THRESHOLD_DEFAULT,
        .operands_before = -1,
    };
    int error = command == OPTIONS_OF_RUN ? set_run_defaults(&options->campaign, why) : 0;
    if (command == OPTIONS_OF_MERGE || command == OPTIONS_OF_COMPARE)
        options->campaign.journal_uri = "memory"; /* They have none, so that no file is of it. */
    if (error == 0)
        error = parse_flags(options, argc, argv, why);
    if (error == 0 && options->action == OPTIONS_GO)
        error = options_check(options, why);
    if (error != 0)
        options_free(options);
    return error;
}

void options_free(struct options *options)
{
    for (int i = 0; i < FLAG_COUNT; i++)
        if (is_dist(&flags[i]))
            dist_free((struct dist *)((char *)options + flags[i].offset));
}

const struct dist *options_next_dist(const struct options *options, size_t *at, const char **flag)
{
    while (*at < FLAG_COUNT) {
        const struct flag *row = &flags[(*at)++];
        if (!is_dist(row))
            continue;
        *flag = row->name;
        return (const struct dist *)((const char *)options + row->offset);
    }
    return NULL;
}

const char *options_retry_name(enum agent_retry retry)
{
    switch (retry) {
    case AGENT_RETRY_HALT:
        return "unknown=halt";
    case AGENT_RETRY_UNKNOWN:
        return "unknown=retry";
    }
    return "unknown";
}

const char *options_name_of(enum options_command command)
{
    return command_rows[command].name;
}

const char *options_help_of(enum options_command command)
{
    return command_rows[command].help;
}

void options_write_help(enum options_command command, FILE *out)
{
    (void)fputs(command_rows[command].purpose, out);
    flags_write_help(flags, FLAG_COUNT, command, out);
}
