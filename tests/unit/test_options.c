/* The flag table: defaults, spellings, what each flag sets, and what is refused with which words.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/options.h"
#include "engine/base/clock.h"

enum { ARGUMENTS_MAX = 24 };

/* Parses arguments that are written with a space between. */
static int parse(struct options *options, enum options_command command, const char *line,
                 char *copy, size_t copy_bytes, struct errmsg *why)
{
    static char name[] = "bench";
    static char *argv[ARGUMENTS_MAX + 1]; /* what operands point into */
    int argc = 1;
    char *rest = NULL;
    argv[0] = name;
    assert_true(strlen(line) < copy_bytes);
    memcpy(copy, line, strlen(line) + 1);
    for (char *word = strtok_r(copy, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
        assert_true(argc < ARGUMENTS_MAX);
        argv[argc++] = word;
    }
    argv[argc] = NULL;
    why->text[0] = '\0';
    return options_parse(options, command, argc, argv, why);
}

static char line_copy[512];

static struct options parse_good_of(enum options_command command, const char *line)
{
    struct options options;
    struct errmsg why;
    if (parse(&options, command, line, line_copy, sizeof(line_copy), &why) != 0)
        fail_msg("\"%s\" is refused: %s", line, why.text);
    return options;
}

static struct options parse_good(const char *line)
{
    return parse_good_of(OPTIONS_OF_RUN, line);
}

static void assert_refused_by(enum options_command command, const char *line, const char *reason)
{
    struct options options;
    struct errmsg why;
    int error = parse(&options, command, line, line_copy, sizeof(line_copy), &why);
    if (error >= 0)
        fail_msg("\"%s\" is accepted", line);
    if (strcmp(why.text, reason) != 0)
        fail_msg("\"%s\" is refused with: %s", line, why.text);
}

static void assert_refused(const char *line, const char *reason)
{
    assert_refused_by(OPTIONS_OF_RUN, line, reason);
}

static void test_defaults(void **state)
{
    struct options options = parse_good("");
    const struct campaign_config *campaign = &options.campaign;
    (void)state;
    assert_int_equal(options.action, OPTIONS_GO);
    assert_int_equal(options.command, OPTIONS_OF_RUN);
    assert_int_equal(campaign->mode, JOURNAL_NEW);
    assert_int_equal(campaign->runs, 5000);
    assert_int_equal(campaign->duration_ns, 0);
    assert_int_equal(campaign->concurrency, 256);
    assert_true(campaign->threads >= 1 && campaign->threads <= CAMPAIGN_THREADS_MAX);
    assert_int_equal(campaign->seed, 1);
    assert_int_equal(campaign->timeout_ns, 0);
    assert_string_equal(campaign->latency.spec, "0");
    assert_string_equal(campaign->tool_latency.spec, "0");
    assert_int_equal(campaign->turns, 2);
    assert_int_equal(campaign->tools, 1);
    assert_int_equal(campaign->tool_effect, TOOL_EFFECT_NOOP);
    assert_null(campaign_dist_if_given(&campaign->prompt_bytes));
    assert_null(campaign_dist_if_given(&campaign->reply_bytes));
    assert_int_equal(campaign->history, HISTORY_DELTA);
    assert_null(campaign->ledger_path);
    assert_string_equal(campaign->loop_name, "auto");
    assert_string_equal(campaign->journal_uri, "memory");
    assert_int_equal(campaign->durability, DURABILITY_DEFAULT);
    assert_int_equal(campaign->campaign, 0);
    assert_int_equal(campaign->run_key, RUN_KEY_SEQ);
    assert_int_equal(campaign->shards, 0); /* the journal's to choose */
    assert_int_equal(campaign->connections, 0);
    assert_int_equal(campaign->retry_for_ns, 30 * NS_PER_S);
    assert_null(options.json_path);
    assert_false(options.is_progress_given);
    assert_false(options.is_quiet);
    options_free(&options);
}

static void test_every_flag(void **state)
{
    struct options options =
        parse_good("-runs 20k -concurrency=5000 --threads 3 --loop=epoll -seed 18446744073709551615"
                   " -timeout 1m30s -latency 50ms -turns 3");
    (void)state;
    assert_int_equal(options.campaign.runs, 20000);
    assert_int_equal(options.campaign.concurrency, 5000);
    assert_int_equal(options.campaign.threads, 3);
    assert_string_equal(options.campaign.loop_name, "epoll");
    assert_int_equal(options.campaign.seed, UINT64_MAX);
    assert_int_equal(options.campaign.timeout_ns, 90 * NS_PER_S);
    assert_string_equal(options.campaign.latency.spec, "50ms");
    assert_int_equal(options.campaign.turns, 3);
    options_free(&options);

    options = parse_good("-duration 1s -tools 4 -tool-latency exp:1ms -tool-effect ledger -ledger l"
                         " -journal memory -durability none");
    assert_int_equal(options.campaign.runs, 0);
    assert_int_equal(options.campaign.duration_ns, NS_PER_S);
    assert_int_equal(options.campaign.tools, 4);
    assert_string_equal(options.campaign.tool_latency.spec, "exp:1ms");
    assert_int_equal(options.campaign.tool_effect, TOOL_EFFECT_LEDGER);
    assert_string_equal(options.campaign.ledger_path, "l");
    assert_int_equal(options.campaign.durability, DURABILITY_NONE);
    options_free(&options);

    options = parse_good("-prompt-bytes uniform:1KB,2KiB -reply-bytes 0 -history snapshot");
    assert_string_equal(options.campaign.prompt_bytes.spec, "uniform:1KB,2KiB");
    assert_int_equal(options.campaign.prompt_bytes.kind, DIST_UNIFORM);
    assert_int_equal(options.campaign.prompt_bytes.unit, DIST_BYTES);
    assert_true(dist_quantile(&options.campaign.prompt_bytes, 0.5) == 1524);
    assert_ptr_equal(campaign_dist_if_given(&options.campaign.reply_bytes),
                     &options.campaign.reply_bytes);
    assert_int_equal(options.campaign.history, HISTORY_SNAPSHOT);
    options_free(&options);

    options = parse_good("-journal sqlite:a/b.db -shards 4 -durability process");
    assert_string_equal(options.campaign.journal_uri, "sqlite:a/b.db");
    assert_int_equal(options.campaign.shards, 4);
    assert_int_equal(options.campaign.durability, DURABILITY_PROCESS);
    options_free(&options);

    options = parse_good("-journal postgres://h/d -connections 16 -retry-for 1m -run-id uuidv7");
    assert_int_equal(options.campaign.connections, 16);
    assert_int_equal(options.campaign.retry_for_ns, 60 * NS_PER_S);
    assert_int_equal(options.campaign.run_key, RUN_KEY_UUIDV7);
    options_free(&options);

    options = parse_good("-json - -progress 0 -quiet --");
    assert_string_equal(options.json_path, "-");
    assert_true(options.is_progress_given);
    assert_int_equal(options.progress_ns, 0);
    assert_true(options.is_quiet);
    options_free(&options);
}

/* What is not given stays open: the store says it. */
static void test_resume(void **state)
{
    struct options options = parse_good_of(OPTIONS_OF_RESUME, "-journal sqlite:a.db");
    (void)state;
    assert_int_equal(options.command, OPTIONS_OF_RESUME);
    assert_int_equal(options.campaign.mode, JOURNAL_RESUME);
    assert_int_equal(options.campaign.campaign, 0);
    assert_int_equal(options.campaign.runs, 0);
    assert_int_equal(options.campaign.concurrency, 0);
    assert_int_equal(options.campaign.turns, 0);
    assert_string_equal(options.campaign.latency.spec, "");
    assert_int_equal(options.campaign.tool_retry, AGENT_RETRY_HALT);
    assert_int_equal(options.campaign.retry_for_ns, 30 * NS_PER_S);
    options_free(&options);

    options = parse_good_of(OPTIONS_OF_RESUME,
                            "-journal postgresql://h/d -campaign 3 -tool-retry unknown=retry"
                            " -concurrency 9 -latency 1ms -ledger l -connections 2 -json r");
    assert_int_equal(options.campaign.campaign, 3);
    assert_int_equal(options.campaign.tool_retry, AGENT_RETRY_UNKNOWN);
    assert_int_equal(options.campaign.concurrency, 9);
    assert_string_equal(options.campaign.latency.spec, "1ms");
    assert_string_equal(options.campaign.ledger_path, "l");
    assert_int_equal(options.campaign.connections, 2);
    assert_string_equal(options.json_path, "r");
    options_free(&options);
}

#define AT(member) offsetof(struct options, member)

/* 0 may be what somebody wants, and differs from not saying anything. */
static void test_what_was_given(void **state)
{
    struct options options = parse_good_of(OPTIONS_OF_RESUME, "-journal sqlite:a.db -timeout 0");
    (void)state;
    assert_true(options_is_given(&options, AT(campaign.timeout_ns)));
    assert_true(options_is_given(&options, AT(campaign.journal_uri)));
    assert_false(options_is_given(&options, AT(campaign.concurrency)));
    assert_false(options_is_given(&options, AT(campaign.retry_for_ns)));
    options_free(&options);
    options = parse_good("-timeout 0 -history delta");
    assert_true(options_is_given(&options, AT(campaign.history)));
    assert_false(options_is_given(&options, AT(campaign.durability)));
    options_free(&options);
}

static void test_distributions(void **state)
{
    struct options options = parse_good("-latency 1ms -reply-bytes 5B");
    size_t at = 0;
    const char *flag = "";
    (void)state;
    assert_ptr_equal(options_next_dist(&options, &at, &flag), &options.campaign.latency);
    assert_string_equal(flag, "latency");
    assert_ptr_equal(options_next_dist(&options, &at, &flag), &options.campaign.tool_latency);
    assert_string_equal(flag, "tool-latency");
    assert_ptr_equal(options_next_dist(&options, &at, &flag), &options.campaign.prompt_bytes);
    assert_string_equal(flag, "prompt-bytes");
    assert_ptr_equal(options_next_dist(&options, &at, &flag), &options.campaign.reply_bytes);
    assert_string_equal(flag, "reply-bytes");
    assert_null(options_next_dist(&options, &at, &flag));
    options_free(&options);
}

static void test_verify(void **state)
{
    struct options options =
        parse_good_of(OPTIONS_OF_VERIFY, "-journal sqlite:a.db -campaign 8388607");
    (void)state;
    assert_int_equal(options.command, OPTIONS_OF_VERIFY);
    assert_int_equal(options.campaign.mode, JOURNAL_AUDIT);
    assert_int_equal(options.campaign.campaign, 8388607);
    options_free(&options);
}

static void test_flags_of_another_command(void **state)
{
    (void)state;
    assert_refused_by(OPTIONS_OF_RESUME, "-runs 5", "bench resume has no flag -runs");
    assert_refused_by(OPTIONS_OF_RESUME, "-turns=3", "bench resume has no flag -turns");
    assert_refused_by(OPTIONS_OF_RESUME, "-run-id seq", "bench resume has no flag -run-id");
    assert_refused_by(OPTIONS_OF_RESUME, "-shards 1", "bench resume has no flag -shards");
    assert_refused_by(OPTIONS_OF_VERIFY, "-json f", "bench verify has no flag -json");
    assert_refused_by(OPTIONS_OF_VERIFY, "-latency 1ms", "bench verify has no flag -latency");
    assert_refused("-campaign 3", "bench run has no flag -campaign");
    assert_refused("-tool-retry unknown=halt", "bench run has no flag -tool-retry");
}

static void test_journal_is_needed(void **state)
{
    (void)state;
    assert_refused_by(OPTIONS_OF_RESUME, "", "bench resume needs -journal URI");
    assert_refused_by(OPTIONS_OF_RESUME, "-campaign 3", "bench resume needs -journal URI");
    assert_refused_by(OPTIONS_OF_VERIFY, "", "bench verify needs -journal URI");
    assert_refused_by(OPTIONS_OF_VERIFY, "-journal", "-journal needs a value (URI)");
}

static void test_what_a_journal_does_not_have(void **state)
{
    (void)state;
    assert_refused("-shards 2", "journal memory has no shards");
    assert_refused("-connections 2", "journal memory has no connections");
    assert_refused("-run-id uuidv7", "journal memory cannot key its runs by uuidv7");
    assert_refused("-journal postgres://h/d -shards 2", "journal postgres has no shards");
    assert_refused("-journal sqlite:a.db -connections 2", "journal sqlite has no connections");
    assert_refused("-journal sqlite", "journal sqlite must be given as sqlite:PATH");
    assert_refused("-journal memory:x", "journal memory must be given as memory");
}

/* Operands may stand between flags, and anything behind a "--" is one. */
static void test_operands_of_a_merge(void **state)
{
    static const struct {
        const char *line;
        const char *operands; /* with a space behind each */
    } cases[] = {
        {"a b", "a b "},
        {"-json f a -slo p(99)<1s b c", "a b c "},
        {"a -json=f b -", "a b - "},
        {"-json f a -- b -json", "a b -json "},
        {"-- a b", "a b "},
        {"a b --", "a b "},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct options options = parse_good_of(OPTIONS_OF_MERGE, cases[i].line);
        char found[64] = "";
        for (int j = 0; j < options.operand_count; j++) {
            size_t used = strlen(found);
            (void)snprintf(found + used, sizeof(found) - used, "%s ", options.operands[j]);
        }
        assert_string_equal(found, cases[i].operands);
        bool has_json = strstr(cases[i].line, "json f") || strstr(cases[i].line, "json=f");
        assert_true(has_json == (options.json_path != NULL));
        options_free(&options);
    }
    assert_refused_by(OPTIONS_OF_MERGE, "", "bench merge needs two results or more, got 0");
    assert_refused_by(OPTIONS_OF_MERGE, "a -json f",
                      "bench merge needs two results or more, got 1");
    assert_refused_by(OPTIONS_OF_MERGE, "a b -runs 5", "bench merge has no flag -runs");
    assert_refused_by(OPTIONS_OF_MERGE, "a b -json", "-json needs a value (FILE)");
    assert_refused_by(OPTIONS_OF_MERGE, "a b -jsn f", "unknown flag -jsn; did you mean -json?");
}

static void test_help_and_version_end_the_parsing(void **state)
{
    struct options options = parse_good("-runs 5 -help -bogus");
    (void)state;
    assert_int_equal(options.action, OPTIONS_HELP);
    options_free(&options);
    options = parse_good("--version extra");
    assert_int_equal(options.action, OPTIONS_VERSION);
    options_free(&options);
    assert_refused("-bogus -help", "unknown flag -bogus");
    for (enum options_command command = OPTIONS_OF_RUN; command <= OPTIONS_OF_MERGE; command++) {
        options = parse_good_of(command, "-h -bogus"); /* also without the journal it needs */
        assert_int_equal(options.action, OPTIONS_HELP);
        options_free(&options);
        options = parse_good_of(command, "-help");
        assert_int_equal(options.action, OPTIONS_HELP);
        options_free(&options);
        options = parse_good_of(command, "-version");
        assert_int_equal(options.action, OPTIONS_VERSION);
        options_free(&options);
    }
}

static void test_limits(void **state)
{
    (void)state;
    assert_refused("-runs 0", "-runs must be at least 1, got 0");
    assert_refused("-runs 2000000m", "-runs must be at most 1000000000000, got 2000000m");
    assert_refused("-concurrency 10000001", "-concurrency must be at most 10000000, got 10000001");
    assert_refused("-threads 257", "-threads must be at most 256, got 257");
    assert_refused("-turns 0", "-turns must be at least 1, got 0");
    assert_refused("-tools 65", "-tools must be at most 64, got 65");
    assert_refused("-prompt-bytes 17MiB", "-prompt-bytes must be at most 16MiB, got \"17MiB\"");
    assert_refused("-duration 0", "-duration must be longer than 0, got 0");
    assert_refused("-duration 0.5ns", "-duration must be at least 1ns, got \"0.5ns\"");
    assert_refused("-runs 1.k", "-runs must be a count such as 5000 or 20k, got \"1.k\": no digit"
                                " follows the point");
    assert_refused("-seed 18446744073709551616",
                   "-seed must be a whole number from 0 to "
                   "18446744073709551615, got \"18446744073709551616\"");
    assert_refused("-shards 0", "-shards must be at least 1, got 0");
    assert_refused("-shards 65", "-shards must be at most 64, got 65");
    assert_refused("-connections 257", "-connections must be at most 256, got 257");
    assert_refused("-retry-for 30",
                   "-retry-for must be a duration such as 50ms, got \"30\": the unit"
                   " is missing");
    assert_refused("-retry-for 25h", "-retry-for must be at most 24h, got \"25h\"");
    static const char *const campaigns[] = {"0", "8388608", "1k", "0.001k", "1.0", "+1"};
    for (size_t i = 0; i < sizeof(campaigns) / sizeof(campaigns[0]); i++) {
        char line[64];
        char reason[128];
        (void)snprintf(line, sizeof(line), "-campaign %s", campaigns[i]);
        (void)snprintf(reason, sizeof(reason),
                       "-campaign must be a whole number from 1 to 8388607, got \"%s\"",
                       campaigns[i]);
        assert_refused_by(OPTIONS_OF_VERIFY, line, reason);
        assert_refused_by(OPTIONS_OF_RESUME, line, reason);
    }
    assert_refused("-seed=",
                   "-seed must be a whole number from 0 to 18446744073709551615, got \"\"");
}

static void test_names(void **state)
{
    (void)state;
    assert_refused("-loop kqueue", "-loop must be auto, io_uring or epoll, got \"kqueue\"");
    assert_refused("-durability all", "-durability must be none, process or power, got \"all\"");
    assert_refused("-durability Power",
                   "-durability must be none, process or power, in small letters, got \"Power\"");
    assert_refused("-durability default",
                   "-durability must be none, process or power, got \"default\"");
    assert_refused("-history all", "-history must be delta or snapshot, got \"all\"");
    assert_refused("-tool-effect x", "-tool-effect must be none, noop or ledger, got \"x\"");
    assert_refused("-run-id uuid", "-run-id must be seq, uuidv7 or uuidv4, got \"uuid\"");
    assert_refused_by(OPTIONS_OF_RESUME, "-tool-retry retry",
                      "-tool-retry must be unknown=halt or unknown=retry, got \"retry\"");
    assert_refused("-durability power",
                   "journal memory cannot keep durability power; it can keep: none");
}

static void test_spelling(void **state)
{
    (void)state;
    assert_refused("-run 5", "unknown flag -run; did you mean -runs?");
    assert_refused("-conc 5", "unknown flag -conc; did you mean -concurrency?");
    assert_refused("--latencyy=5ms", "unknown flag --latencyy; did you mean -latency?");
    assert_refused("-tool-latncy 5ms", "unknown flag -tool-latncy; did you mean -tool-latency?");
    assert_refused("-x", "unknown flag -x");
    assert_refused("---runs 5", "unknown flag ---runs; did you mean -runs?");
    assert_refused("-=5", "unknown flag -");
    assert_refused("-Runs 5", "unknown flag -Runs; did you mean -runs?");
    assert_refused("-warmup 5",
                   "-warmup must be a duration such as 50ms, got \"5\": the unit is missing");
    assert_refused("-steady 101%", "-steady must be at most 100%, got \"101%\"");
    assert_refused("-steady %", "-steady must be a share such as 5% or 0.05, got \"%\"");
    assert_refused("-slo-abort", "-slo-abort needs -slo EXPR");
    assert_refused("-slo max<1s -slo-delay 1s", "-slo-delay needs -slo-abort");
    assert_refused("-slo max<1s -slo-abort -slo-delay 0",
                   "-slo-delay must be longer than 0, got 0");
}

static void test_values_and_operands(void **state)
{
    (void)state;
    assert_refused("-runs", "-runs needs a value (N)");
    assert_refused("-json -quiet", "-json needs a value (FILE), got the flag -quiet");
    assert_refused("-quiet=yes", "-quiet takes no value, got \"yes\"");
    assert_refused("-json=", "-json must not be empty");
    assert_refused("-runs 5 -runs=5", "-runs must not be given twice");
    assert_refused("-quiet -quiet", "-quiet must not be given twice");
    assert_refused("-runs 5 extra -bogus", "unexpected operand \"extra\"");
    assert_refused("sqlite:s.db", "unexpected operand (did you mean -journal …?) \"sqlite:s.db\"");
    assert_refused("-- memory", "unexpected operand (did you mean -journal …?) \"memory\"");
    assert_refused("-- extra", "unexpected operand \"extra\"");
    assert_refused("-", "unexpected operand \"-\"");
}

static void test_combinations(void **state)
{
    (void)state;
    assert_refused("-runs 5 -duration 5s", "-runs and -duration exclude each other");
    assert_refused("-ledger l", "-ledger needs -tool-effect ledger");
    assert_refused("-tool-effect ledger", "-tool-effect ledger needs -ledger FILE");
    assert_refused("-quiet -progress 1s", "-quiet and -progress exclude each other");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_every_flag),
        cmocka_unit_test(test_resume),
        cmocka_unit_test(test_what_was_given),
        cmocka_unit_test(test_distributions),
        cmocka_unit_test(test_verify),
        cmocka_unit_test(test_flags_of_another_command),
        cmocka_unit_test(test_journal_is_needed),
        cmocka_unit_test(test_what_a_journal_does_not_have),
        cmocka_unit_test(test_operands_of_a_merge),
        cmocka_unit_test(test_help_and_version_end_the_parsing),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_spelling),
        cmocka_unit_test(test_values_and_operands),
        cmocka_unit_test(test_combinations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
