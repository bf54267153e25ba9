/* The flag table: defaults, spellings, what each flag sets, and what is refused with which words.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "cmd/options.h"
#include "engine/base/clock.h"

enum { ARGUMENTS_MAX = 16 };

/* Parses arguments that are written with a space between. */
static int parse(struct options *options, const char *line, char *copy, size_t copy_bytes,
                 struct errmsg *why)
{
    char *argv[ARGUMENTS_MAX + 1] = {(char[]){"bench"}};
    int argc = 1;
    char *rest = NULL;
    assert_true(strlen(line) < copy_bytes);
    memcpy(copy, line, strlen(line) + 1);
    for (char *word = strtok_r(copy, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
        assert_true(argc < ARGUMENTS_MAX);
        argv[argc++] = word;
    }
    why->text[0] = '\0';
    return options_parse(options, argc, argv, why);
}

static char line_copy[512];

static struct options parse_good(const char *line)
{
    struct options options;
    struct errmsg why;
    if (parse(&options, line, line_copy, sizeof(line_copy), &why) != 0)
        fail_msg("\"%s\" is refused: %s", line, why.text);
    return options;
}

static void assert_refused(const char *line, const char *reason)
{
    struct options options;
    struct errmsg why;
    int error = parse(&options, line, line_copy, sizeof(line_copy), &why);
    if (error >= 0)
        fail_msg("\"%s\" is accepted", line);
    if (strcmp(why.text, reason) != 0)
        fail_msg("\"%s\" is refused with: %s", line, why.text);
}

static void test_defaults(void **state)
{
    struct options options = parse_good("");
    const struct campaign_config *campaign = &options.campaign;
    (void)state;
    assert_int_equal(options.action, OPTIONS_RUN);
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
    assert_null(campaign->ledger_path);
    assert_string_equal(campaign->loop_name, "auto");
    assert_string_equal(campaign->journal_uri, "memory");
    assert_int_equal(campaign->durability, DURABILITY_DEFAULT);
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

    options = parse_good("-json - -progress 0 -quiet --");
    assert_string_equal(options.json_path, "-");
    assert_true(options.is_progress_given);
    assert_int_equal(options.progress_ns, 0);
    assert_true(options.is_quiet);
    options_free(&options);
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
    assert_refused("-duration 0", "-duration must be longer than 0, got 0");
    assert_refused("-duration 0.5ns", "-duration must be at least 1ns, got \"0.5ns\"");
    assert_refused("-runs 1.k", "-runs must be a count such as 5000 or 20k, got \"1.k\": no digit"
                                " follows the point");
    assert_refused("-seed 18446744073709551616",
                   "-seed must be a whole number from 0 to "
                   "18446744073709551615, got \"18446744073709551616\"");
    assert_refused("-seed=",
                   "-seed must be a whole number from 0 to 18446744073709551615, got \"\"");
}

static void test_names(void **state)
{
    (void)state;
    assert_refused("-loop kqueue", "-loop must be auto, io_uring or epoll, got \"kqueue\"");
    assert_refused("-durability all", "-durability must be power, process or none, got \"all\"");
    assert_refused("-durability default",
                   "-durability must be power, process or none, got \"default\"");
    assert_refused("-tool-effect x", "-tool-effect must be none, noop or ledger, got \"x\"");
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
    assert_refused("-rate 5", "-rate is not built yet");
    assert_refused("-slo-abort", "-slo-abort is not built yet");
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
        cmocka_unit_test(test_help_and_version_end_the_parsing),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_spelling),
        cmocka_unit_test(test_values_and_operands),
        cmocka_unit_test(test_combinations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
