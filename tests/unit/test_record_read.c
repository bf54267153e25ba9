/*
 * Records read back: what was written comes back, and what could not have been written is refused,
 * with the reason: keys that are missing, moved or unknown, values of another type or beyond their
 * range, and every record cut off or changed anywhere.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/record.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* In a block of exactly that size, for the sanitizer to see a byte too far. */
static const char *read_exact(struct record *record, enum record_kind kind, const char *bytes,
                              size_t size)
{
    char *block = malloc(size != 0 ? size : 1);
    assert_non_null(block);
    memcpy(block, bytes, size);
    const char *why = record_read(record, kind, block, size);
    free(block); /* the spans with it */
    return why;
}

static void assert_span(const struct json_span *span, const char *expected)
{
    assert_int_equal(span->size, strlen(expected));
    assert_memory_equal(span->bytes, expected, span->size);
}

/* --- what was written --- */

static void read_written(struct record *record, enum record_kind kind, const char *payload)
{
    const char *why = record_read(record, kind, payload, strlen(payload));
    if (why != NULL)
        fail_msg("%s: %s", payload, why);
    assert_int_equal(record->kind, kind);
}

static void begin_comes_back(void **state)
{
    (void)state;
    struct record record;
    read_written(&record, RECORD_BEGIN,
                 "{\"v\":1,\"seed\":18446744073709551615,\"turns\":7,\"tools\":4294967295,"
                 "\"effect\":\"ledger\",\"input\":\"Where\\nis \\u00e9?\"}");
    assert_true(record.begin.seed == UINT64_MAX);
    assert_int_equal(record.begin.turns, 7);
    assert_int_equal(record.begin.tools, UINT32_MAX);
    assert_int_equal(record.begin.effect, TOOL_EFFECT_LEDGER);
    assert_span(&record.text, "Where\\nis \\u00e9?");
    assert_true(record.text.has_escapes);
}

#define REPLY                                                                                      \
    "{\"role\":\"assistant\",\"content\":\"Let \\\"me\\\" see.\",\"tool_calls\":["                 \
    "{\"id\":\"c9\",\"name\":\"noop\",\"arguments\":{\"a\":[{}]}},"                                \
    "{\"id\":\"c10\",\"name\":\"noop\",\"arguments\": {} }]}"
#define USAGE                                                                                      \
    ",\"finish\":\"tool_calls\",\"usage\":{\"prompt_tokens\":4294967295,\"completion_tokens\":0}"  \
    ",\"request\":\"0123456789abcdef\"}"

static void model_comes_back(void **state)
{
    (void)state;
    static const char *const payloads[] = {
        "{\"message\":" REPLY USAGE,
        "{\"messages\":[{\"role\":\"user\",\"content\":\"\"}," REPLY "]" USAGE,
    };
    static const char *const messages[] = {REPLY, "{\"role\":\"user\",\"content\":\"\"}," REPLY};
    for (size_t i = 0; i < COUNT_OF(payloads); i++) {
        struct record record;
        read_written(&record, RECORD_MODEL, payloads[i]);
        assert_span(&record.text, REPLY);
        assert_span(&record.model.message, messages[i]);
        assert_int_equal(record.model.is_snapshot, i == 1);
        assert_int_equal(record.call_id, 9);
        assert_int_equal(record.call_count, 2);
        assert_string_equal(record.model.finish, "tool_calls");
        assert_int_equal(record.model.prompt_tokens, UINT32_MAX);
        assert_int_equal(record.model.completion_tokens, 0);
        assert_true(record.model.request_digest == UINT64_C(0x123456789abcdef));
    }
}

static void the_final_reply_comes_back(void **state)
{
    (void)state;
    struct record record;
    read_written(&record, RECORD_MODEL,
                 "{\"message\":{\"role\":\"assistant\",\"content\":\"\"},\"finish\":\"stop\","
                 "\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":2},"
                 "\"request\":\"0000000000000000\"}");
    assert_int_equal(record.call_count, 0);
    assert_int_equal(record.call_id, 0);
    assert_string_equal(record.model.finish, "stop");
}

static void attempt_and_tool_come_back(void **state)
{
    (void)state;
    struct record record;
    read_written(&record, RECORD_ATTEMPT,
                 "{\"call\":\"c17\",\"tool\":\"no\\\"op\",\"attempt\":3,\"arguments\":{\"a\":1}}");
    assert_int_equal(record.call_id, 17);
    assert_int_equal(record.attempt, 3);
    assert_span(&record.tool, "no\\\"op");
    assert_span(&record.text, "{\"a\":1}");
    read_written(&record, RECORD_TOOL, "{\"call\":\"c4294967295\",\"result\":\"Here.\"}");
    assert_int_equal(record.call_id, UINT32_MAX);
    assert_false(record.is_error);
    assert_span(&record.text, "Here.");
    read_written(&record, RECORD_TOOL, "{\"call\":\"c1\",\"error\":\"\"}");
    assert_true(record.is_error);
    assert_span(&record.text, "");
}

static void end_comes_back(void **state)
{
    (void)state;
    for (unsigned i = 0; i < OUTCOME_COUNT; i++) {
        char payload[256];
        struct json_writer w = json_writer_on(payload, sizeof(payload) - 1);
        struct record record;
        record_write_end(&w, &(struct record_end){(enum outcome)i, 1, 2, 3, 4, UINT32_MAX});
        *w.at = '\0';
        if (!outcome_is_recorded((enum outcome)i)) {
            assert_non_null(record_read(&record, RECORD_END, payload, strlen(payload)));
            continue;
        }
        read_written(&record, RECORD_END, payload);
        assert_int_equal(record.end.outcome, i);
        assert_int_equal(record.end.turns, 1);
        assert_int_equal(record.end.tool_calls, 2);
        assert_int_equal(record.end.records, 3);
        assert_int_equal(record.end.prompt_tokens, 4);
        assert_int_equal(record.end.completion_tokens, UINT32_MAX);
    }
}

/* --- what was not --- */

#define BEGIN_HEAD "{\"v\":1,\"seed\":1,\"turns\":2,\"tools\":1,"
#define MODEL_TAIL                                                                                 \
    ",\"finish\":\"stop\",\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":2},"                \
    "\"request\":\"0000000000000000\"}"
#define CALL "{\"id\":\"c1\",\"name\":\"noop\",\"arguments\":{}}"
#define CALLS_HEAD "{\"message\":{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":["

static const struct {
    enum record_kind kind;
    const char *payload;
    const char *why;
} refused[] = {
    {RECORD_BEGIN, "", "a begin record without a format version"},
    {RECORD_BEGIN, "{\"v\":2,\"seed\":1}", "a format version other than 1"},
    {RECORD_BEGIN, "{\"v\":\"1\"", "a format version that is no number"},
    {RECORD_BEGIN, " {\"v\":1", "a begin record without a format version"},
    {RECORD_BEGIN, "{\"v\":1,\"turns\":1", "a begin record without a seed"},
    {RECORD_BEGIN, "{\"v\":1,\"seed\":-1", "a seed that is no number"},
    {RECORD_BEGIN, "{\"v\":1,\"seed\":\n1", "a seed that is no number"},
    {RECORD_BEGIN, "{\"v\":1,\"seed\":01", "malformed number"},
    {RECORD_BEGIN, "{\"v\":1,\"seed\": 1", "a seed that is no number"},
    {RECORD_BEGIN, "{\"v\":1,\"seed\":1,\"turns\":01", "turns that are no number"},
    {RECORD_BEGIN, "{\"v\":1,\"seed\":1,\"turns\":4294967296", "turns that are no number"},
    {RECORD_BEGIN, "{\"v\":1,\"seed\":1,\"turns\":2.0", "a begin record without tools"},
    {RECORD_BEGIN, BEGIN_HEAD "\"effect\":\"Noop\"", "an effect of an unknown name"},
    {RECORD_BEGIN, BEGIN_HEAD "\"effect\":\"\\u006eoop\"", "an effect of an unknown name"},
    {RECORD_BEGIN, BEGIN_HEAD "\"effect\":1", "an effect that is no text"},
    {RECORD_BEGIN, BEGIN_HEAD "\"effect\":\"noop\",\"input\":null", "an input that is no text"},
    {RECORD_BEGIN, BEGIN_HEAD "\"effect\":\"noop\",\"input\":\"\",\"a\":1}",
     "a record with more than its keys"},
    {RECORD_BEGIN, BEGIN_HEAD "\"effect\":\"noop\",\"input\":\"\"}\n", "text behind the record"},
    {RECORD_MODEL, "{}", "a model record without a message"},
    {RECORD_MODEL, "{\"message\":{\"role\":\"user\",\"content\":\"\"}" MODEL_TAIL,
     "a reply without role and content"},
    {RECORD_MODEL, "{\"message\":{\"role\":\"assistant\",\"content\":1}" MODEL_TAIL,
     "a reply whose content is no text"},
    {RECORD_MODEL, "{\"message\":{\"role\":\"assistant\",\"content\":\"\",\"a\":1}" MODEL_TAIL,
     "a reply with more than role, content and tool calls"},
    {RECORD_MODEL, "{\"messages\":[]" MODEL_TAIL, "a message that is no object"},
    {RECORD_MODEL, "{\"messages\":[{},{}]" MODEL_TAIL, "a reply without role and content"},
    {RECORD_MODEL, "{\"messages\":[{},{\"role\":\"assistant\",\"content\":\"\"}" MODEL_TAIL,
     "a message that is no object"},
    {RECORD_MODEL, CALLS_HEAD "]}", "a tool call without an id"},
    {RECORD_MODEL, CALLS_HEAD "{\"id\":\"c0\"", "a call id that is none"},
    {RECORD_MODEL, CALLS_HEAD "{\"id\":\"c01\"", "a call id that is none"},
    {RECORD_MODEL, CALLS_HEAD "{\"id\":\"d1\"", "a call id that is none"},
    {RECORD_MODEL, CALLS_HEAD CALL "," CALL, "tool calls that are not numbered in order"},
    {RECORD_MODEL, CALLS_HEAD "{\"id\":\"c1\",\"name\":\"noop\",\"arguments\":[]",
     "arguments that are no object"},
    {RECORD_MODEL, CALLS_HEAD "{\"id\":\"c1\",\"name\":\"noop\",\"arguments\":{},\"a\":1",
     "a tool call with more than id, name and arguments"},
    {RECORD_MODEL, CALLS_HEAD CALL "]}" MODEL_TAIL,
     "a finish reason that does not fit the tool calls"},
    {RECORD_MODEL,
     "{\"message\":{\"role\":\"assistant\",\"content\":\"\"},\"finish\":\"tool_calls\"",
     "a finish reason that does not fit the tool calls"},
    {RECORD_MODEL,
     "{\"message\":{\"role\":\"assistant\",\"content\":\"\"},\"finish\":\"stop\",\"usage\":{"
     "\"prompt_tokens\":1,\"completion_tokens\":2},\"request\":\"000000000000000A\"}",
     "a digest that is none"},
    {RECORD_MODEL,
     "{\"message\":{\"role\":\"assistant\",\"content\":\"\"},\"finish\":\"stop\",\"usage\":{"
     "\"prompt_tokens\":1,\"completion_tokens\":2},\"request\":\"000000000000000g\"}",
     "a digest that is none"},
    {RECORD_ATTEMPT, "{\"call\":\"1\"", "a call id that is none"},
    {RECORD_ATTEMPT, "{\"call\":\"c4294967296\"", "a call id that is none"},
    {RECORD_ATTEMPT, "{\"call\":\"c1\",\"tool\":\"a\",\"attempt\":0", "an attempt numbered 0"},
    {RECORD_ATTEMPT, "{\"call\":\"c1\",\"tool\":\"a\",\"attempt\":1,\"arguments\":\"\"",
     "arguments that are no object"},
    {RECORD_TOOL, "{\"call\":\"c1\",\"results\":\"\"}", "a tool record without result or error"},
    {RECORD_TOOL, "{\"call\":\"c1\",\"result\":{}}", "a result that is no text"},
    {RECORD_TOOL, "{\"call\":\"c1\",\"result\":\"\xff\"}", "invalid UTF-8 in a string"},
    {RECORD_TOOL, "{\"call\":\"c1\",\"result\":\"\",\"error\":\"\"}",
     "a record with more than its keys"},
    {RECORD_END, "{\"outcome\":\"diverged\"", "an outcome of an unknown name"},
    {RECORD_END, "{\"outcome\":\"completed\",\"turns\":-1", "a total that is no number"},
    {RECORD_END, "{\"outcome\":\"completed\",\"tool_calls\":1", "an end record without turns"},
    {0, "{}", "a record of an unknown kind"},
    {RECORD_RETRY, "{\"error\":\"\"}", "a retry record without an attempt"},
    {RECORD_RETRY, "{\"attempt\":0,\"error\":\"\"}", "an attempt numbered 0"},
    {RECORD_RETRY, "{\"attempt\":1}", "a retry record without an error"},
    {RECORD_RETRY, "{\"attempt\":1,\"error\":null}", "an error that is no text"},
    {RECORD_DELTA, "{\"text\":\"\"}", "a delta record without a number"},
    {RECORD_DELTA, "{\"piece\":-1,", "a piece that is no number"},
    {RECORD_DELTA, "{\"piece\":0,", "a piece numbered 0"},
    {RECORD_DELTA, "{\"piece\":1}", "a delta record without text"},
    {RECORD_DELTA, "{\"piece\":1,\"text\":1}", "a delta that is no text"},
    {RECORD_DELTA, "{\"piece\":1,\"text\":\"\",\"final\":true}",
     "a record with more than its keys"},
    {8, "}", "a record of an unknown kind"},
};

static void what_is_not_written_so_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(refused); i++) {
        struct record record;
        const char *why =
            read_exact(&record, refused[i].kind, refused[i].payload, strlen(refused[i].payload));
        if (why == NULL || strstr(why, refused[i].why) == NULL)
            fail_msg("%s: \"%s\" instead of \"%s\"", refused[i].payload,
                     why != NULL ? why : "it was taken", refused[i].why);
    }
}

/* The calls of a reply, one more than a turn may have. */
static void more_calls_than_a_turn_has_are_refused(void **state)
{
    (void)state;
    for (unsigned count = AGENT_TOOLS_MAX; count <= AGENT_TOOLS_MAX + 1; count++) {
        char payload[8192];
        size_t used = (size_t)snprintf(payload, sizeof(payload), "%s", CALLS_HEAD);
        for (unsigned i = 1; i <= count; i++)
            used += (size_t)snprintf(payload + used, sizeof(payload) - used,
                                     "%s{\"id\":\"c%u\",\"name\":\"noop\",\"arguments\":{}}",
                                     i > 1 ? "," : "", i);
        used += (size_t)snprintf(payload + used, sizeof(payload) - used, "]}" USAGE);
        assert_true(used < sizeof(payload));
        struct record record;
        const char *why = read_exact(&record, RECORD_MODEL, payload, used);
        if (count > AGENT_TOOLS_MAX)
            assert_string_equal(why, "too many tool calls");
        else
            assert_null(why);
    }
}

static const struct {
    enum record_kind kind;
    const char *payload;
} good[] = {
    {RECORD_BEGIN, BEGIN_HEAD "\"effect\":\"noop\",\"input\":\"Where is order 0?\"}"},
    {RECORD_MODEL, "{\"message\":" REPLY USAGE},
    {RECORD_MODEL, "{\"messages\":[" REPLY "]" USAGE},
    {RECORD_ATTEMPT, "{\"call\":\"c1\",\"tool\":\"noop\",\"attempt\":1,\"arguments\":{\"o\":0}}"},
    {RECORD_TOOL, "{\"call\":\"c1\",\"result\":\"Order 0 was shipped.\"}"},
    {RECORD_END, "{\"outcome\":\"completed\",\"turns\":2,\"tool_calls\":1,\"records\":6,"
                 "\"prompt_tokens\":147,\"completion_tokens\":39}"},
    {RECORD_RETRY, "{\"attempt\":1,\"error\":\"the model is overloaded\"}"},
    {RECORD_DELTA, "{\"piece\":1,\"text\":\"Let me \"}"},
};

static void a_record_that_is_cut_off_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        struct record record;
        size_t size = strlen(good[i].payload);
        assert_null(read_exact(&record, good[i].kind, good[i].payload, size));
        for (size_t cut = 0; cut < size; cut++)
            assert_non_null(read_exact(&record, good[i].kind, good[i].payload, cut));
        for (enum record_kind kind = RECORD_BEGIN; kind <= RECORD_DELTA; kind++)
            if (kind != good[i].kind)
                assert_non_null(read_exact(&record, kind, good[i].payload, size));
    }
}

/* One more key between any two of them, or a blank, is not what is written. */
static void what_stands_between_values_is_fixed(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        const char *payload = good[i].payload;
        for (const char *comma = strstr(payload, ",\""); comma != NULL;
             comma = strstr(comma + 1, ",\"")) {
            static const char *const extras[] = {",\"extra\":1", " "};
            for (size_t j = 0; j < COUNT_OF(extras); j++) {
                char changed[1024];
                struct record record;
                int size = snprintf(changed, sizeof(changed), "%.*s%s%s", (int)(comma - payload),
                                    payload, extras[j], comma);
                if (read_exact(&record, good[i].kind, changed, (size_t)size) == NULL)
                    fail_msg("it was taken: %s", changed);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(begin_comes_back),
        cmocka_unit_test(model_comes_back),
        cmocka_unit_test(the_final_reply_comes_back),
        cmocka_unit_test(attempt_and_tool_come_back),
        cmocka_unit_test(end_comes_back),
        cmocka_unit_test(what_is_not_written_so_is_refused),
        cmocka_unit_test(more_calls_than_a_turn_has_are_refused),
        cmocka_unit_test(a_record_that_is_cut_off_is_refused),
        cmocka_unit_test(what_stands_between_values_is_fixed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
