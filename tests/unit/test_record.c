/*
 * The payloads of the six records, read back by another JSON library; and those of one real run,
 * byte for byte against tests/golden/default_run.jsonl. Run from the root of the tree.
 * BENCH_GOLDEN_UPDATE=1 writes the file anew: read the difference before committing it, since
 * these bytes are on people's disks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "engine/message.h"
#include "engine/record.h"
#include "tests/lib/json_assert.h"
#include "tests/lib/sim_log.h"
#include "tests/lib/sim_world.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define GOLDEN_PATH "tests/golden/default_run.jsonl"

enum { BUFFER_BYTES = 4096 };

static json_t *parse_written(const struct json_writer *w, const char *buffer)
{
    assert_true(json_write_ok(w));
    return parse_json(buffer, (size_t)(w->at - buffer));
}

static void begin_holds_the_shape_and_the_input(void **state)
{
    (void)state;
    static const struct {
        enum tool_effect effect;
        const char *name;
    } effects[] = {
        {TOOL_EFFECT_NONE, "none"}, {TOOL_EFFECT_NOOP, "noop"}, {TOOL_EFFECT_LEDGER, "ledger"}};
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        for (size_t j = 0; j < COUNT_OF(effects); j++) {
            char buffer[BUFFER_BYTES];
            struct json_writer w = json_writer_on(buffer, sizeof(buffer));
            const struct record_begin begin = {.seed = INT64_MAX,
                                               .turns = 7,
                                               .tools = UINT32_MAX,
                                               .effect = effects[j].effect,
                                               .input = texts[i].bytes,
                                               .input_bytes = texts[i].size};
            record_write_begin(&w, &begin);
            json_t *json = parse_written(&w, buffer);
            assert_int_equal(json_object_size(json), 6);
            assert_json_integer(json, "v", 1);
            assert_json_integer(json, "seed", INT64_MAX);
            assert_json_integer(json, "turns", 7);
            assert_json_integer(json, "tools", UINT32_MAX);
            assert_json_string(json, "effect", effects[j].name);
            assert_json_text(json, "input", texts[i].bytes, texts[i].size);
            json_decref(json);
        }
    }
}

static void model_holds_the_message_as_it_is(void **state)
{
    (void)state;
    static const char message[] = "{\"role\":\"assistant\",\"content\":\"\\u00e9\"}";
    char buffer[BUFFER_BYTES];
    struct json_writer w = json_writer_on(buffer, sizeof(buffer));
    const struct record_model model = {
        .message = {.bytes = message, .size = sizeof(message) - 1},
        .finish = "tool_calls",
        .prompt_tokens = UINT32_MAX,
        .completion_tokens = 3,
        .request_digest = 0xabc,
    };
    record_write_model(&w, &model);
    json_t *json = parse_written(&w, buffer);
    const json_t *usage = json_object_get(json, "usage");
    assert_int_equal(json_object_size(json), 4);
    assert_json_string(json_object_get(json, "message"), "content", "é");
    assert_json_string(json, "finish", "tool_calls");
    assert_int_equal(json_object_size(usage), 2);
    assert_json_integer(usage, "prompt_tokens", UINT32_MAX);
    assert_json_integer(usage, "completion_tokens", 3);
    assert_json_string(json, "request", "0000000000000abc");
    assert_non_null(memmem(buffer, (size_t)(w.at - buffer), message, sizeof(message) - 1));
    json_decref(json);
}

static void a_snapshot_holds_all_messages(void **state)
{
    (void)state;
    static const char messages[] = "{\"role\":\"user\",\"content\":\"Where?\"},"
                                   "{\"role\":\"assistant\",\"content\":\"Here.\"}";
    char buffer[BUFFER_BYTES];
    struct json_writer w = json_writer_on(buffer, sizeof(buffer));
    const struct record_model model = {
        .message = {.bytes = messages, .size = sizeof(messages) - 1},
        .finish = "stop",
        .is_snapshot = true,
    };
    record_write_model(&w, &model);
    json_t *json = parse_written(&w, buffer);
    const json_t *list = json_object_get(json, "messages");
    assert_int_equal(json_object_size(json), 4);
    assert_int_equal(json_array_size(list), 2);
    assert_json_string(json_array_get(list, 1), "content", "Here.");
    assert_json_string(json, "finish", "stop");
    json_decref(json);
}

static void attempt_holds_call_tool_and_arguments(void **state)
{
    (void)state;
    const struct json_span name = {.bytes = "no\\\"op", .size = 6}; /* as it stands in a message */
    const struct json_span arguments = {.bytes = "{\"order\":[1,{}]}", .size = 16};
    char buffer[BUFFER_BYTES];
    struct json_writer w = json_writer_on(buffer, sizeof(buffer));
    record_write_attempt(&w, 17, &name, &arguments, 3);
    json_t *json = parse_written(&w, buffer);
    assert_int_equal(json_object_size(json), 4);
    assert_json_string(json, "call", "c17");
    assert_json_string(json, "tool", "no\"op");
    assert_json_integer(json, "attempt", 3);
    assert_true(json_is_array(json_object_get(json_object_get(json, "arguments"), "order")));
    json_decref(json);
}

static void tool_holds_a_result_or_an_error(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        for (unsigned is_error = 0; is_error <= 1; is_error++) {
            char buffer[BUFFER_BYTES];
            struct json_writer w = json_writer_on(buffer, sizeof(buffer));
            record_write_tool(&w, UINT32_MAX, texts[i].bytes, texts[i].size, is_error);
            json_t *json = parse_written(&w, buffer);
            assert_int_equal(json_object_size(json), 2);
            assert_json_string(json, "call", "c4294967295");
            assert_json_text(json, is_error ? "error" : "result", texts[i].bytes, texts[i].size);
            json_decref(json);
        }
    }
}

static void end_holds_outcome_and_totals(void **state)
{
    (void)state;
    for (unsigned outcome = 0; outcome < OUTCOME_COUNT; outcome++) {
        char buffer[BUFFER_BYTES];
        struct json_writer w = json_writer_on(buffer, sizeof(buffer));
        const struct record_end end = {.outcome = (enum outcome)outcome,
                                       .turns = 1,
                                       .tool_calls = 2,
                                       .records = 3,
                                       .prompt_tokens = 4,
                                       .completion_tokens = 5};
        record_write_end(&w, &end);
        json_t *json = parse_written(&w, buffer);
        assert_int_equal(json_object_size(json), 6);
        assert_json_string(json, "outcome", outcome_name((enum outcome)outcome));
        assert_json_integer(json, "turns", 1);
        assert_json_integer(json, "tool_calls", 2);
        assert_json_integer(json, "records", 3);
        assert_json_integer(json, "prompt_tokens", 4);
        assert_json_integer(json, "completion_tokens", 5);
        json_decref(json);
    }
}

/* --- bounds --- */

enum { WORST_TEXT_BYTES = 500 };

/* Each record with the longest numbers and texts that grow most; returns its content in bytes. */
static size_t write_worst(struct json_writer *w, enum record_kind kind)
{
    char text[WORST_TEXT_BYTES];
    memset(text, 1, sizeof(text)); /* becomes \u0001 */
    const struct json_span span = {.bytes = text, .size = sizeof(text)};
    switch (kind) {
    case RECORD_BEGIN:
        record_write_begin(w, &(struct record_begin){UINT64_MAX, UINT32_MAX, UINT32_MAX,
                                                     TOOL_EFFECT_LEDGER, text, sizeof(text)});
        return sizeof(text);
    case RECORD_MODEL:
        record_write_model(w, &(struct record_model){span, "tool_calls", UINT32_MAX, UINT32_MAX,
                                                     UINT64_MAX, true});
        return sizeof(text);
    case RECORD_ATTEMPT:
        record_write_attempt(w, UINT32_MAX, &span, &span, UINT32_MAX);
        return 2 * sizeof(text);
    case RECORD_TOOL:
        record_write_tool(w, UINT32_MAX, text, sizeof(text), true);
        return sizeof(text);
    case RECORD_END:
        record_write_end(w, &(struct record_end){OUTCOME_COMPLETED, UINT32_MAX, UINT32_MAX,
                                                 UINT32_MAX, UINT32_MAX, UINT32_MAX});
        return 0;
    case RECORD_RETRY:
        record_write_retry(w, UINT32_MAX, text, sizeof(text));
        return sizeof(text);
    case RECORD_DELTA:
        record_write_delta(w, UINT32_MAX, text, sizeof(text));
        return sizeof(text);
    }
    return 0;
}

static void the_bound_is_enough_and_less_than_needed_is_told(void **state)
{
    (void)state;
    for (unsigned kind = RECORD_BEGIN; kind <= RECORD_DELTA; kind++) {
        char whole[2 * BUFFER_BYTES];
        struct json_writer w = json_writer_on(whole, sizeof(whole));
        size_t content = write_worst(&w, (enum record_kind)kind);
        size_t size = (size_t)(w.at - whole);
        assert_true(json_write_ok(&w));
        assert_true(size <= record_bytes_max(content));
        for (size_t room = 0; room < size; room++) {
            char *buffer = malloc(room + 1); /* of exactly that size, for the sanitizer to see */
            assert_non_null(buffer);
            buffer[room] = '!';
            w = json_writer_on(buffer, room);
            (void)write_worst(&w, (enum record_kind)kind);
            assert_false(json_write_ok(&w));
            assert_int_equal(buffer[room], '!');
            free(buffer);
        }
    }
}

/* --- a real run --- */

static void run_default(struct sim_log *log, uint64_t runs)
{
    const struct sim_world_config config = {.campaign = sim_campaign(runs), .ledger_fd = -1};
    struct sim_world *world = aligned_alloc(64, sizeof(*world));
    assert_non_null(world);
    assert_int_equal(sim_world_open(world, &config), 0);
    sim_world_run(world);
    assert_string_equal(world->fault.text, "");
    assert_int_equal(world->ends[0].outcome, OUTCOME_COMPLETED);
    assert_int_equal(sim_log_read(log, world->journal, UINT64_MAX), 0);
    sim_log_sort(log);
    sim_world_close(world);
    free(world);
}

static void the_default_run_is_as_ever(void **state)
{
    (void)state;
    struct sim_log log = {0};
    char text[BUFFER_BYTES] = "";
    char golden[BUFFER_BYTES] = "";
    size_t used = 0;
    run_default(&log, 1);
    assert_int_equal(log.count, 6);
    for (size_t i = 0; i < log.count; i++) {
        static const enum record_kind kinds[] = {RECORD_BEGIN, RECORD_MODEL, RECORD_ATTEMPT,
                                                 RECORD_TOOL,  RECORD_MODEL, RECORD_END};
        const char *payload = sim_log_payload(&log, &log.records[i]);
        json_decref(parse_json(payload, log.records[i].bytes));
        assert_int_equal(log.records[i].kind, kinds[i]);
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s\n", payload);
        assert_true(used < sizeof(text));
    }
    sim_log_free(&log);

    if (getenv("BENCH_GOLDEN_UPDATE") != NULL) {
        FILE *file = fopen(GOLDEN_PATH, "w");
        assert_non_null(file);
        assert_true(fputs(text, file) >= 0);
        assert_int_equal(fclose(file), 0);
    }
    FILE *file = fopen(GOLDEN_PATH, "r");
    assert_non_null(file);
    golden[fread(golden, 1, sizeof(golden) - 1, file)] = '\0';
    (void)fclose(file); /* it was only read */
    assert_string_equal(text, golden);
}

static void default_runs_take_about_a_kilobyte(void **state)
{
    (void)state;
    struct sim_log log = {0};
    size_t payload_bytes = 0;
    run_default(&log, 1000);
    assert_int_equal(log.count, 6000);
    for (size_t i = 0; i < log.count; i++)
        payload_bytes += log.records[i].bytes;
    assert_in_range(payload_bytes / 1000, 800, 1100);
    sim_log_free(&log);
}

/* Resume will replay a run from its records: the requests rebuilt from them must be those that the
 * recorded replies answered. */
static void requests_rebuilt_from_records_have_the_recorded_digest(void **state)
{
    (void)state;
    struct sim_log log = {0};
    char bytes[BUFFER_BYTES];
    struct history history = {.bytes = bytes, .capacity = sizeof(bytes)};
    struct pool pool;
    unsigned model_count = 0;
    run_default(&log, 1);
    pool_init(&pool, 0); /* it is not to grow */
    for (size_t i = 0; i < log.count; i++) {
        const char *payload = sim_log_payload(&log, &log.records[i]);
        json_t *json = parse_json(payload, log.records[i].bytes);
        if (log.records[i].kind == RECORD_BEGIN) {
            const char *input = json_string_value(json_object_get(json, "input"));
            assert_int_equal(history_add_user(&history, &pool, input, strlen(input)), 0);
        } else if (log.records[i].kind == RECORD_TOOL) {
            const char *text = json_string_value(json_object_get(json, "result"));
            assert_int_equal(history_add_result(&history, &pool, 1, text, strlen(text)), 0);
        } else if (log.records[i].kind == RECORD_MODEL) {
            char request[BUFFER_BYTES];
            char hex[17];
            struct json_writer w = json_writer_on(request, sizeof(request));
            request_write(&w, &history);
            assert_true(json_write_ok(&w));
            (void)snprintf(hex, sizeof(hex), "%016llx",
                           (unsigned long long)XXH3_64bits(request, (size_t)(w.at - request)));
            assert_json_string(json, "request", hex);
            model_count++;
            /* The message stands in the record as it stood in the history. */
            const char *message = strchr(payload, ':') + 1;
            size_t size = (size_t)(strstr(payload, ",\"finish\"") - message);
            assert_true(history.size + size + 1 <= history.capacity);
            history.bytes[history.size] = ',';
            memcpy(history.bytes + history.size + 1, message, size);
            history.size += (uint32_t)size + 1;
        }
        json_decref(json);
    }
    assert_int_equal(model_count, 2);
    pool_close(&pool);
    sim_log_free(&log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(begin_holds_the_shape_and_the_input),
        cmocka_unit_test(model_holds_the_message_as_it_is),
        cmocka_unit_test(a_snapshot_holds_all_messages),
        cmocka_unit_test(attempt_holds_call_tool_and_arguments),
        cmocka_unit_test(tool_holds_a_result_or_an_error),
        cmocka_unit_test(end_holds_outcome_and_totals),
        cmocka_unit_test(the_bound_is_enough_and_less_than_needed_is_told),
        cmocka_unit_test(the_default_run_is_as_ever),
        cmocka_unit_test(default_runs_take_about_a_kilobyte),
        cmocka_unit_test(requests_rebuilt_from_records_have_the_recorded_digest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
