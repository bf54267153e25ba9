/*
 * tape: see tape.h.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/digest.h"
#include "tests/lib/tape.h"

int tape_set_up(void **state)
{
    *state = malloc(sizeof(struct tape));
    return *state != NULL ? 0 : -1;
}

int tape_tear_down(void **state)
{
    free(*state);
    return 0;
}

struct tape_facts tape_facts(const struct tape *tape)
{
    struct tape_facts facts = {0};
    for (uint32_t i = 0; i < tape->count; i++) {
        const struct tape_record *at = &tape->records[i];
        struct record record;
        assert_null(record_read(&record, at->kind, at->payload, at->bytes));
        facts.results += at->kind == RECORD_TOOL;
        if (at->kind != RECORD_MODEL)
            continue;
        facts.models++;
        facts.calls_before += facts.calls;
        facts.calls = record.call_count;
        facts.prompt_tokens += record.model.prompt_tokens;
        facts.completion_tokens += record.model.completion_tokens;
    }
    return facts;
}

static struct json_writer next_payload(struct tape *tape)
{
    assert_true(tape->count < TAPE_RECORDS_MAX);
    return json_writer_on(tape->records[tape->count].payload, TAPE_PAYLOAD_BYTES_MAX);
}

static void add(struct tape *tape, enum record_kind kind, const struct json_writer *w)
{
    struct tape_record *record = &tape->records[tape->count];
    uint64_t previous = tape->count > 0 ? record[-1].digest : DIGEST_START;
    assert_true(json_write_ok(w));
    record->kind = kind;
    record->seq = tape->count++;
    record->bytes = (uint32_t)(w->at - record->payload);
    record->digest = digest_chain(previous, record->payload, record->bytes);
}

void tape_add_begin(struct tape *tape, uint32_t turns, enum tool_effect effect)
{
    struct json_writer w = next_payload(tape);
    record_write_begin(&w, &(struct record_begin){.seed = 1,
                                                  .turns = turns,
                                                  .tools = 1,
                                                  .effect = effect,
                                                  .input = "Where is it?",
                                                  .input_bytes = 12});
    add(tape, RECORD_BEGIN, &w);
}

void tape_add_model(struct tape *tape, uint32_t calls)
{
    char text[TAPE_PAYLOAD_BYTES_MAX];
    const struct tape_facts facts = tape_facts(tape);
    struct json_writer message = json_writer_on(text, sizeof(text));
    json_write_literal(&message, "{\"role\":\"assistant\",\"content\":\"Let me see.\"");
    for (uint32_t i = 0; i < calls; i++) {
        char call[64];
        int size =
            snprintf(call, sizeof(call), "%s{\"id\":\"c%u\",\"name\":\"noop\",\"arguments\":{}}",
                     i == 0 ? ",\"tool_calls\":[" : ",",
                     (unsigned)(facts.calls_before + facts.calls + i + 1));
        json_write_raw(&message, call, (size_t)size);
    }
    json_write_raw(&message, "]}", calls > 0 ? 1 : 0);
    json_write_literal(&message, "}");
    assert_true(json_write_ok(&message));
    struct json_writer w = next_payload(tape);
    const struct record_model model = {
        .message = {.bytes = text, .size = (size_t)(message.at - text)},
        .finish = calls > 0 ? "tool_calls" : "stop",
        .prompt_tokens = 40 + 50 * facts.models,
        .completion_tokens = 8 + facts.models,
        .request_digest = facts.models,
    };
    record_write_model(&w, &model);
    add(tape, RECORD_MODEL, &w);
}

void tape_add_attempt(struct tape *tape, uint32_t call_id, uint32_t attempt)
{
    const struct json_span name = {.bytes = "noop", .size = 4};
    const struct json_span arguments = {.bytes = "{}", .size = 2};
    struct json_writer w = next_payload(tape);
    record_write_attempt(&w, call_id, &name, &arguments, attempt);
    add(tape, RECORD_ATTEMPT, &w);
}

void tape_add_tool(struct tape *tape, uint32_t call_id, bool is_error)
{
    struct json_writer w = next_payload(tape);
    record_write_tool(&w, call_id, "Here.", 5, is_error);
    add(tape, RECORD_TOOL, &w);
}

void tape_add_retry(struct tape *tape, uint32_t attempt)
{
    struct json_writer w = next_payload(tape);
    record_write_retry(&w, attempt, "too busy", 8);
    add(tape, RECORD_RETRY, &w);
}

void tape_add_delta(struct tape *tape, uint32_t piece)
{
    struct json_writer w = next_payload(tape);
    record_write_delta(&w, piece, "Let ", 4);
    add(tape, RECORD_DELTA, &w);
}

void tape_add_end(struct tape *tape, enum outcome outcome, uint32_t turns)
{
    const struct tape_facts facts = tape_facts(tape);
    struct json_writer w = next_payload(tape);
    record_write_end(&w, &(struct record_end){.outcome = outcome,
                                              .turns = turns,
                                              .tool_calls = facts.results,
                                              .records = tape->count + 1,
                                              .prompt_tokens = facts.prompt_tokens,
                                              .completion_tokens = facts.completion_tokens});
    add(tape, RECORD_END, &w);
}

void tape_seal(struct tape *tape)
{
    uint64_t digest = DIGEST_START;
    for (uint32_t i = 0; i < tape->count; i++) {
        struct tape_record *record = &tape->records[i];
        digest = digest_chain(digest, record->payload, record->bytes);
        record->seq = i;
        record->digest = digest;
    }
}

struct journal_record tape_at(const struct tape *tape, uint32_t index)
{
    const struct tape_record *record = &tape->records[index];
    assert_true(index < tape->count);
    return (struct journal_record){.run = 7,
                                   .digest = record->digest,
                                   .payload = record->payload,
                                   .seq = record->seq,
                                   .bytes = record->bytes,
                                   .kind = record->kind};
}

enum replay_fault tape_replay(const struct tape *tape, struct replay *r, const char **why)
{
    *r = (struct replay){0};
    *why = NULL;
    for (uint32_t i = 0; i < tape->count; i++) {
        struct record record;
        const struct journal_record from = tape_at(tape, i);
        enum replay_fault fault = replay_step(r, &from, &record, why);
        if (fault != REPLAY_GOOD)
            return fault;
    }
    return REPLAY_GOOD;
}
