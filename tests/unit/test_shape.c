/*
 * The shape of a campaign, written into a store and read back by another process: nothing is lost,
 * what was given goes before, and a text that anybody may have changed is taken whole or refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/shape.h"
#include "tests/lib/json_assert.h"
#include "tests/lib/parsed_dist.h"
#include "tests/lib/scratch.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static const char good[] =
    "{\"v\":1,\"seed\":1,\"runs\":5000,\"duration_ns\":0,\"concurrency\":256,\"timeout_ns\":0,"
    "\"turns\":2,\"tools\":1,\"effect\":\"noop\",\"history\":\"delta\",\"latency\":\"50ms\","
    "\"tool_latency\":\"0\",\"prompt_bytes\":\"\",\"reply_bytes\":\"\",\"tokens\":0,"
    "\"token_interval_ns\":0,\"stream_journal\":\"none\",\"model_error_rate\":\"0.000000%\","
    "\"model_timeout_ns\":0,\"model_retries\":0,\"hedge_ns\":0}";

static struct campaign_config default_campaign(void)
{
    return (struct campaign_config){.runs = 5000,
                                    .concurrency = 256,
                                    .seed = 1,
                                    .latency = latency_of("50ms"),
                                    .tool_latency = latency_of("0"),
                                    .turns = 2,
                                    .tools = 1,
                                    .tool_effect = TOOL_EFFECT_NOOP};
}

static void free_dists(struct campaign_config *config)
{
    dist_free(&config->latency);
    dist_free(&config->tool_latency);
    dist_free(&config->prompt_bytes);
    dist_free(&config->reply_bytes);
}

static void assert_same_dist(const struct dist *is, const struct dist *was)
{
    assert_string_equal(is->spec, was->spec);
    assert_int_equal(is->kind, was->kind);
    assert_int_equal(is->unit, was->unit);
    assert_memory_equal(&is->a, &was->a, sizeof(is->a));
    assert_memory_equal(&is->b, &was->b, sizeof(is->b));
    assert_int_equal(is->value_count, was->value_count);
    if (was->value_count > 0)
        assert_memory_equal(is->values, was->values, was->value_count * sizeof(was->values[0]));
}

static void assert_round_trip(const struct campaign_config *was)
{
    char text[SHAPE_BYTES_MAX];
    char again[SHAPE_BYTES_MAX];
    struct campaign_config is = {.runs = 0};
    struct errmsg why = {.text = ""};
    shape_write(was, text);
    if (was->seed <= INT64_MAX) /* jansson's numbers are signed */
        json_decref(parse_json(text, strlen(text)));
    if (shape_read(&is, text, &why) != 0)
        fail_msg("%s: %s", text, why.text);
    assert_int_equal(is.seed, was->seed);
    assert_int_equal(is.runs, was->runs);
    assert_int_equal(is.duration_ns, was->duration_ns);
    assert_int_equal(is.warmup_ns, was->warmup_ns); /* what was not always written is 0 */
    assert_int_equal(is.concurrency, was->concurrency);
    assert_int_equal(is.timeout_ns, was->timeout_ns);
    assert_int_equal(is.turns, was->turns);
    assert_int_equal(is.tools, was->tools);
    assert_int_equal(is.tool_effect, was->tool_effect);
    assert_int_equal(is.history, was->history);
    assert_int_equal(is.model.tokens, was->model.tokens);
    assert_int_equal(is.model.token_interval_ns, was->model.token_interval_ns);
    assert_true(is.model.error_rate == was->model.error_rate);
    assert_int_equal(is.model.rules.stream_journal, was->model.rules.stream_journal);
    assert_int_equal(is.model.rules.retries, was->model.rules.retries);
    assert_int_equal(is.model.rules.timeout_ns, was->model.rules.timeout_ns);
    assert_int_equal(is.model.rules.hedge_ns, was->model.rules.hedge_ns);
    if (was->latency.spec[0] != '\0')
        assert_same_dist(&is.latency, &was->latency);
    if (was->tool_latency.spec[0] != '\0')
        assert_same_dist(&is.tool_latency, &was->tool_latency);
    assert_string_equal(is.prompt_bytes.spec, was->prompt_bytes.spec);
    if (was->prompt_bytes.spec[0] != '\0')
        assert_same_dist(&is.prompt_bytes, &was->prompt_bytes);
    assert_string_equal(is.reply_bytes.spec, was->reply_bytes.spec);
    if (was->reply_bytes.spec[0] != '\0')
        assert_same_dist(&is.reply_bytes, &was->reply_bytes);
    shape_write(&is, again);
    assert_string_equal(again, text);
    free_dists(&is);
}

static void the_text_is_as_ever(void **state)
{
    (void)state;
    char text[SHAPE_BYTES_MAX];
    const struct campaign_config config = default_campaign();
    shape_write(&config, text);
    assert_string_equal(text, good);
}

static void every_field_comes_back(void **state)
{
    (void)state;
    struct campaign_config config = default_campaign();
    assert_round_trip(&config);
    config.warmup_ns = 10 * NS_PER_S;
    assert_round_trip(&config);
    config.warmup_ns = 0;
    config.seed = UINT64_MAX;
    config.runs = 0;
    config.duration_ns = NS_MAX_DURATION;
    config.concurrency = CAMPAIGN_CONCURRENCY_MAX;
    config.timeout_ns = NS_MAX_DURATION;
    config.turns = CAMPAIGN_TURNS_MAX;
    config.tools = CAMPAIGN_TOOLS_MAX;
    config.tool_effect = TOOL_EFFECT_LEDGER;
    config.history = HISTORY_SNAPSHOT;
    config.model = (struct campaign_model){.tokens = CAMPAIGN_TOKENS_MAX,
                                           .token_interval_ns = NS_MAX_DURATION,
                                           .error_rate = 0.015625,
                                           .rules = {.stream_journal = STREAM_JOURNAL_TOKEN,
                                                     .retries = AGENT_RETRIES_MAX,
                                                     .timeout_ns = NS_MAX_DURATION,
                                                     .hedge_ns = 1}};
    assert_round_trip(&config);
    config.model.error_rate = 1;
    config.tool_effect = TOOL_EFFECT_NONE;
    config.concurrency = 1;
    assert_round_trip(&config);
}

/* As a store that an earlier version has made. */
static void what_came_later_may_be_missing(void **state)
{
    (void)state;
    char text[1024];
    struct campaign_config config = {.runs = 0};
    struct errmsg why = {.text = ""};
    const char *later = strstr(good, ",\"tokens\"");
    assert_non_null(later);
    (void)snprintf(text, sizeof(text), "%.*s}", (int)(later - good), good);
    if (shape_read(&config, text, &why) != 0)
        fail_msg("%s: %s", text, why.text);
    assert_int_equal(config.turns, 2);
    assert_int_equal(config.model.tokens, 0);
    free_dists(&config);
}

static void every_distribution_comes_back(void **state)
{
    (void)state;
    static const char *const durations[] = {
        "0", "1.5s", "uniform:1ms,20ms", "exp:50ms", "normal:1s,1ms", "lognormal:p50=800ms,p99=8s"};
    static const char *const sizes[] = {
        "0", "4KB", "uniform:0B,1MiB", "exp:500B", "normal:4KB,1KB", "lognormal:p50=2KB,p99=50KB"};
    for (size_t i = 0; i < COUNT_OF(durations); i++) {
        struct campaign_config config = default_campaign();
        config.latency = latency_of(durations[i]);
        config.tool_latency = latency_of(durations[COUNT_OF(durations) - 1 - i]);
        config.prompt_bytes = parsed_dist(sizes[i], DIST_BYTES);
        if (i % 2 == 0)
            config.reply_bytes = parsed_dist(sizes[COUNT_OF(sizes) - 1 - i], DIST_BYTES);
        assert_round_trip(&config);
    }
}

/* Its path may hold what JSON must escape, and be as long as a text may be. */
static void a_file_of_values_is_read_again(void **state)
{
    (void)state;
    struct scratch scratch = {""};
    char path[DIST_SPEC_BYTES];
    assert_int_equal(scratch_make(&scratch, "shape"), 0);
    size_t used = (size_t)snprintf(path, sizeof(path), "file:%s/\"\\\té ", scratch.path);
    while (used < sizeof(path) - 1)
        path[used++] = '\x01'; /* six bytes each, escaped */
    path[used] = '\0';
    FILE *file = fopen(path + strlen("file:"), "w");
    assert_non_null(file);
    assert_true(fputs("5ms\n1ms\n3ms\n", file) >= 0);
    assert_int_equal(fclose(file), 0);
    struct campaign_config config = default_campaign();
    config.latency = latency_of(path);
    assert_int_equal(config.latency.value_count, 3);
    assert_round_trip(&config);

    /* Gone, it is an error that names what it was for. */
    char text[SHAPE_BYTES_MAX];
    struct campaign_config is = {.runs = 0};
    struct errmsg why = {.text = ""};
    shape_write(&config, text);
    free_dists(&config);
    assert_int_equal(remove(path + strlen("file:")), 0);
    assert_int_equal(shape_read(&is, text, &why), -ENOENT);
    assert_int_equal(strncmp(why.text, "its latency ", 12), 0);
    assert_int_equal(scratch_remove(&scratch), 0);
}

static void what_was_given_goes_before(void **state)
{
    (void)state;
    struct campaign_config config = {.runs = 7, .concurrency = 3};
    struct errmsg why;
    config.latency = latency_of("7ms");
    assert_int_equal(shape_read(&config, good, &why), 0);
    assert_string_equal(config.latency.spec, "7ms");
    assert_string_equal(config.tool_latency.spec, "0");
    assert_int_equal(config.runs, 5000);
    assert_int_equal(config.concurrency, 256);
}

/* --- texts of others --- */

/* The good text with something in place of its first `from`. */
static void replaced(char *text, size_t bytes, const char *from, const char *to)
{
    const char *at = strstr(good, from);
    assert_non_null(at);
    int size = snprintf(text, bytes, "%.*s%s%s", (int)(at - good), good, to, at + strlen(from));
    assert_true(size > 0 && (size_t)size < bytes);
}

static void keys_of_later_versions_are_passed_over(void **state)
{
    (void)state;
    static const char *const more[] = {
        ",\"later\":[1,{\"a\":null}],\"turns\"", ",\"\\u0000\":0,\"turns\"",
        ",\"t\\u0075rns\":0,\"turns\"", /* an escaped key is another */
    };
    for (size_t i = 0; i < COUNT_OF(more); i++) {
        char text[1024];
        struct campaign_config config = {.runs = 0};
        struct errmsg why = {.text = ""};
        replaced(text, sizeof(text), ",\"turns\"", more[i]);
        if (shape_read(&config, text, &why) != 0)
            fail_msg("%s: %s", text, why.text);
        assert_int_equal(config.turns, 2);
    }
}

static void what_is_wrong_is_told(void **state)
{
    (void)state;
    static const struct {
        const char *from;
        const char *to;
        const char *why;
    } cases[] = {
        {"\"v\":1", "\"v\":2", "its description is of version 2, this bench knows 1"},
        {"\"v\":1,\"seed\":1", "\"v\":4294967297,\"seed\":-1",
         "its description is of version 4294967297, this bench knows 1"},
        {"\"v\":1", "\"v\":\"1\"", "its version cannot be read"},
        {"\"v\":1,", "", "its description is not complete"},
        {"\"seed\":1,", "", "its description is not complete"},
        {",\"reply_bytes\":\"\"", "", "its description is not complete"},
        {"\"seed\":1", "\"seed\":-1", "its seed cannot be read"},
        {"\"seed\":1", "\"seed\":18446744073709551616", "its seed cannot be read"},
        {"\"timeout_ns\":0", "\"timeout_ns\":9223372036854775808", "its timeout_ns cannot be read"},
        {"\"concurrency\":256", "\"concurrency\":0", "its concurrency cannot be read"},
        {"\"concurrency\":256", "\"concurrency\":10000001", "its concurrency cannot be read"},
        {"\"turns\":2", "\"turns\":0", "its turns cannot be read"},
        {"\"turns\":2", "\"turns\":1001", "its turns cannot be read"},
        {"\"turns\":2", "\"turns\":2.0", "its turns cannot be read"},
        {"\"tools\":1", "\"tools\":0", "its tools cannot be read"},
        {"\"tools\":1", "\"tools\":65", "its tools cannot be read"},
        {"\"tools\":1", "\"tools\":null", "its tools cannot be read"},
        {"noop", "NOOP", "its effect cannot be read"},
        {"\"noop\"", "1", "its effect cannot be read"},
        {"delta", "", "its history cannot be read"},
        {"50ms", "50", "its latency "},
        {"50ms", "50ms\\u0000", "its latency cannot be read"},
        {"50ms", "gamma:1ms", "its latency "},
        {"\"50ms\"", "50", "its latency cannot be read"},
        {"\"prompt_bytes\":\"\"", "\"prompt_bytes\":\"50ms\"", "its prompt_bytes "},
        {"{", "", "its description is no JSON: "},
        {"{", "[", "its description is no JSON: "},
        {"\"hedge_ns\":0}", "\"hedge_ns\":0", "its description is no JSON: "},
        {"\"hedge_ns\":0}", "\"hedge_ns\":0}}", "its description is no JSON: "},
        {"\"tokens\":0", "\"tokens\":1000001", "its tokens cannot be read"},
        {"\"none\"", "\"all\"", "its stream_journal cannot be read"},
        {"\"0.000000%\"", "\"101%\"", "its model_error_rate cannot be read"},
        {"\"0.000000%\"", "0", "its model_error_rate cannot be read"},
        {"\"model_retries\":0", "\"model_retries\":101", "its model_retries cannot be read"},
        {"\"runs\":5000,", "\"runs\":5000,,", "its description is no JSON: "},
        {"\"seed\":1,", "\"seed\":1,\"seed\":1,", "its seed stands there twice"},
        {"\"v\":1,", "\"v\":1,\"v\":1,", "its version stands there twice"},
        {"\"50ms\"", "\"\"", "its latency cannot be read"},
        {"\"tool_latency\":\"0\"", "\"tool_latency\":\"\"", "its tool_latency cannot be read"},
        {"\"runs\":5000", "\"runs\":0", "it has neither runs nor a duration"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char text[1024];
        struct campaign_config config = {.runs = 0};
        struct errmsg why = {.text = "from before"};
        replaced(text, sizeof(text), cases[i].from, cases[i].to);
        assert_int_equal(shape_read(&config, text, &why), -EINVAL);
        if (strncmp(why.text, cases[i].why, strlen(cases[i].why)) != 0)
            fail_msg("%s: %s", text, why.text);
        free_dists(&config);
    }
}

/* Cut off anywhere it is refused, and nothing is left. */
static void a_part_of_it_is_refused(void **state)
{
    (void)state;
    for (size_t size = 0; size + 1 < sizeof(good); size++) {
        char text[sizeof(good)];
        struct campaign_config config = {.runs = 0};
        struct errmsg why;
        (void)snprintf(text, sizeof(text), "%.*s", (int)size, good);
        assert_int_equal(shape_read(&config, text, &why), -EINVAL);
        assert_true(why.text[0] != '\0');
        free_dists(&config);
    }
}

static void a_text_that_is_too_long_is_refused(void **state)
{
    (void)state;
    char spec[4000];
    char text[SHAPE_BYTES_MAX];
    struct campaign_config config = {.runs = 0};
    struct errmsg why;
    memset(spec, 'x', sizeof(spec));
    for (size_t size = DIST_SPEC_BYTES - 1; size < sizeof(spec); size += 100) {
        char latency[sizeof(spec) + 16];
        (void)snprintf(latency, sizeof(latency), "file:%.*s", (int)size, spec);
        replaced(text, sizeof(text), "50ms", latency);
        assert_int_equal(shape_read(&config, text, &why), -EINVAL);
        assert_int_equal(strncmp(why.text, "its latency ", 12), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_text_is_as_ever),
        cmocka_unit_test(every_field_comes_back),
        cmocka_unit_test(what_came_later_may_be_missing),
        cmocka_unit_test(every_distribution_comes_back),
        cmocka_unit_test(a_file_of_values_is_read_again),
        cmocka_unit_test(what_was_given_goes_before),
        cmocka_unit_test(keys_of_later_versions_are_passed_over),
        cmocka_unit_test(what_is_wrong_is_told),
        cmocka_unit_test(a_part_of_it_is_refused),
        cmocka_unit_test(a_text_that_is_too_long_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
