/* report_config: the name of a series tells apart what was run differently, whichever flag did it,
 * and stays what it was where none did. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/report_config.h"

enum { WORDS_MAX = 32, TEXT_BYTES = 8192 };

/* The command line that it is parsed of, at spaces. */
static void parse(struct options *options, const char *line, char words[TEXT_BYTES])
{
    char *arguments[WORDS_MAX] = {(char[]){"bench"}};
    int count = 1;
    char *rest = NULL;
    struct errmsg why = {.text = ""};
    (void)snprintf(words, TEXT_BYTES, "%s", line);
    for (char *word = strtok_r(words, " ", &rest); word != NULL;
         word = strtok_r(NULL, " ", &rest)) {
        assert_true(count < WORDS_MAX);
        arguments[count++] = word;
    }
    if (options_parse(options, OPTIONS_OF_RUN, count, arguments, &why) != 0)
        fail_msg("%s: %s", line, why.text);
}

static void name_options(const struct options *options, char name[SERIES_BYTES])
{
    const struct campaign_result result = {
        .journal_name = options->campaign.journal_uri,
        .durability = options->campaign.durability == DURABILITY_DEFAULT
                          ? DURABILITY_POWER
                          : options->campaign.durability,
    };
    const struct report report = {.options = options, .result = &result};
    assert_int_equal(report_series(&report, name), 0);
    assert_true(strlen(name) < SERIES_BYTES);
    for (const char *c = name; *c != '\0'; c++)
        if ((*c < 'a' || *c > 'z') && (*c < 'A' || *c > 'Z') &&
            strchr("0123456789=/.:,+_-", *c) == NULL)
            fail_msg("%s: %c", name, *c);
}

static void name_line(const char *line, char name[SERIES_BYTES])
{
    char words[TEXT_BYTES];
    struct options options;
    parse(&options, line, words);
    name_options(&options, name);
    options_free(&options);
}

/* Of each flag that says what is run two values, and what it needs besides. */
static const struct {
    const char *flag;
    const char *besides;
    const char *one;
    const char *other;
} flags[] = {
    {"warmup", "", "5s", "6s"},
    {"steady", "", "5%", "2%"},
    {"rate", "", "100/s", "101/s"},
    {"arrival", "-rate 5", "poisson", "constant"},
    {"stages", "", "1s:500/s", "1s:5000/s"},
    {"stages", "-rate 7", "1s:500/s,2s:3/s", "1s:500/s,1s:3/s"},
    {"concurrency", "", "1", "2"},
    {"timeout", "", "1s", "2s"},
    {"latency", "", "50ms", "exp:50ms"},
    {"turns", "", "3", "4"},
    {"tools", "", "2", "3"},
    {"tool-latency", "", "1ms", "2ms"},
    {"tool-effect", "", "none", "noop"},
    {"prompt-bytes", "", "1KB", "2KB"},
    {"reply-bytes", "", "1KB", "2KB"},
    {"tokens", "", "5", "6"},
    {"token-interval", "-tokens 5", "1ms", "2ms"},
    {"stream-journal", "-tokens 5", "coalesced", "token"},
    {"model-error-rate", "", "1%", "2%"},
    {"model-timeout", "", "1s", "2s"},
    {"model-retries", "", "1", "2"},
    {"hedge", "", "1s", "2s"},
    {"journal", "", "sqlite:a.db", "memory"},
    {"durability", "-journal sqlite:a.db", "process", "none"},
    {"run-id", "-journal sqlite:a.db", "uuidv4", "uuidv7"},
    {"shards", "-journal sqlite:a.db", "2", "3"},
    {"connections", "-journal postgres://h/d", "2", "3"},
    {"retry-for", "", "1s", "0"},
    {"history", "", "snapshot", "delta"},
};
/* What says how much of it, with what and under which seed; where a ledger is. */
static const char *const others[] = {"runs", "duration", "threads", "loop", "seed", "ledger"};

static void test_each_flag_of_what_is_run_tells_apart(void **state)
{
    char line[TEXT_BYTES];
    char names[2][SERIES_BYTES];
    (void)state;
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
        for (int value = 0; value < 2; value++) {
            (void)snprintf(line, sizeof(line), "%s -%s %s", flags[i].besides, flags[i].flag,
                           value == 0 ? flags[i].one : flags[i].other);
            name_line(line, names[value]);
        }
        if (strcmp(names[0], names[1]) == 0)
            fail_msg("-%s %s and %s: %s", flags[i].flag, flags[i].one, flags[i].other, names[0]);
        name_line(flags[i].besides, names[1]);
        if (strcmp(names[0], names[1]) == 0)
            fail_msg("-%s %s and nothing: %s", flags[i].flag, flags[i].one, names[0]);
    }
}

static bool is_listed(const char *flag)
{
    bool is_found = false;
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
        is_found = is_found || strcmp(flags[i].flag, flag) == 0;
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        is_found = is_found || strcmp(others[i], flag) == 0;
    return is_found;
}

/* A new one is to be put into one of the lists. */
static void test_lists_have_all_flags(void **state)
{
    char *help = NULL;
    size_t size = 0;
    char *rest = NULL;
    unsigned count = 0;
    (void)state;
    FILE *memory = open_memstream(&help, &size);
    assert_non_null(memory);
    options_write_help(OPTIONS_OF_RUN, memory);
    assert_int_equal(fclose(memory), 0);
    *strstr(help, "\nOutput:\n") = '\0';
    for (char *line = strtok_r(help, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        char flag[64];
        if (sscanf(line, "  -%63[a-z-]", flag) != 1)
            continue;
        count++;
        if (!is_listed(flag))
            fail_msg("-%s", flag);
    }
    assert_true(count > 30);
    free(help);
}

/* Those that follow series know them by these. */
static void test_names_are_what_they_were(void **state)
{
    static const char *const cases[][2] = {
        {"", "journal=memory/durability=power/concurrency=256/latency=0/turns=2/tools=1"},
        {"-runs 7 -seed 8 -threads 1 -loop epoll -concurrency 5k -latency lognormal:p50=5ms,p99=1s"
         " -turns 3 -tools 2",
         "journal=memory/durability=power/concurrency=5000/latency=lognormal:p50=5ms,p99=1s/turns=3"
         "/tools=2"},
        {"-rate 300/m -duration 3s",
         "journal=memory/durability=power/concurrency=256/latency=0/turns=2/tools=1/rate=5"
         "/arrival=constant"},
    };
    char name[SERIES_BYTES];
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        name_line(cases[i][0], name);
        assert_string_equal(name, cases[i][1]);
    }
}

/* What a name has no room or no character for is in its digest. */
static void test_what_a_name_cannot_show_tells_apart(void **state)
{
    char line[TEXT_BYTES] = "-stages ";
    char words[TEXT_BYTES];
    char names[2][SERIES_BYTES];
    struct options options;
    (void)state;
    size_t size = strlen(line);
    for (int i = 0; i < 63; i++)
        size += (size_t)snprintf(line + size, sizeof(line) - size, "100ms:12345.6/s,");
    for (int i = 0; i < 2; i++) {
        (void)snprintf(line + size, sizeof(line) - size, "100ms:%d/s", i + 1);
        name_line(line, names[i]);
        assert_int_equal(strlen(names[i]), SERIES_BYTES - 1);
    }
    assert_string_not_equal(names[0], names[1]);

    parse(&options, "", words);
    for (int i = 0; i < 2; i++) {
        (void)snprintf(options.campaign.latency.spec, DIST_SPEC_BYTES, "file:a%cb",
                       i == 0 ? ' ' : '_');
        name_options(&options, names[i]);
        assert_non_null(strstr(names[i], "/latency=file:a_b/"));
    }
    assert_string_not_equal(names[0], names[1]);
    options_free(&options);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_flag_of_what_is_run_tells_apart),
        cmocka_unit_test(test_lists_have_all_flags),
        cmocka_unit_test(test_names_are_what_they_were),
        cmocka_unit_test(test_what_a_name_cannot_show_tells_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
