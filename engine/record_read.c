/*
 * record_read: the records of a run, read back.
 *
 * A record has one form, so what stands between its values is compared a piece at a time, and only
 * the values are read. That is strict, it is short, and it is fast: verify reads a store's every
 * record. Errors stick in the reader, as json_read.h has it: after the first, nothing more is read.
 */
#include "engine/record.h"

#include <string.h>

/* Whether that piece comes next; then it is passed. */
static bool passes_bytes(struct json_reader *r, const char *bytes, size_t size)
{
    if ((size_t)(r->end - r->at) < size || memcmp(r->at, bytes, size) != 0)
        return false;
    r->at += size;
    return true;
}
#define passes(r, literal) passes_bytes((r), "" literal, sizeof(literal) - 1)

static void pass_bytes(struct json_reader *r, const char *bytes, size_t size, const char *reason)
{
    if (!passes_bytes(r, bytes, size))
        (void)json_fail(r, reason);
}
/* Passes over a constant piece of the record; `reason` is what it is without. */
#define pass(r, literal, reason) pass_bytes((r), "" literal, sizeof(literal) - 1, (reason))

static bool is_digit(char byte)
{
    return (unsigned char)(byte - '0') < 10;
}

/* Whether the next byte is this one. */
static bool is_next(const struct json_reader *r, char byte)
{
    return r->at < r->end && *r->at == byte;
}

static void pass_space(struct json_reader *r)
{
    while (is_next(r, ' ') || is_next(r, '\n') || is_next(r, '\r') || is_next(r, '\t'))
        r->at++;
}

static void read_text(struct json_reader *r, struct json_span *text, const char *reason)
{
    if (!is_next(r, '"') || !json_read_string(r, text))
        (void)json_fail(r, reason);
}

static void read_object(struct json_reader *r, struct json_span *object, const char *reason)
{
    if (!is_next(r, '{') || !json_skip_value(r, object))
        (void)json_fail(r, reason);
}

/* Digits only, no more of them than needed, up to 32 bits. */
static uint32_t read_u32(struct json_reader *r, const char *reason)
{
    const char *first = r->at;
    const char *p = first;
    uint64_t value = 0;
    for (; p < r->end && is_digit(*p) && value <= UINT32_MAX; p++)
        value = value * 10 + (uint64_t)(*p - '0');
    if (p == first || value > UINT32_MAX || (*first == '0' && p - first > 1)) {
        (void)json_fail(r, reason);
        return 0;
    }
    r->at = p;
    return (uint32_t)value;
}

static uint64_t read_hex64(struct json_reader *r, const char *reason)
{
    uint64_t value = 0;
    if (r->end - r->at < 16) {
        (void)json_fail(r, reason);
        return 0;
    }
    for (unsigned i = 0; i < 16; i++) {
        unsigned digit = (unsigned char)r->at[i] - (unsigned)'0';
        unsigned letter = (unsigned char)r->at[i] - (unsigned)'a';
        if (digit > 9 && letter > 5) {
            (void)json_fail(r, reason);
            return 0;
        }
        value = value << 4 | (digit <= 9 ? digit : letter + 10);
    }
    r->at += 16;
    return value;
}

/* "cN", without the quotes around it; calls are numbered from 1. */
static uint32_t read_call_id(struct json_reader *r)
{
    static const char reason[] = "a call id that is none";
    pass(r, "c", reason);
    uint32_t call_id = read_u32(r, reason);
    if (call_id == 0)
        (void)json_fail(r, reason);
    return call_id;
}

/* --- begin --- */

static void read_begin(struct json_reader *r, struct record *record)
{
    struct record_begin *begin = &record->begin;
    struct json_span effect = {.bytes = ""};
    *begin = (struct record_begin){0};
    pass(r, "{\"v\":", "a begin record without a format version");
    if (read_u32(r, "a format version that is no number") != RECORD_FORMAT_VERSION)
        (void)json_fail(r, "a format version other than 1");
    pass(r, ",\"seed\":", "a begin record without a seed");
    if (r->at == r->end || !is_digit(*r->at) || !json_read_u64(r, &begin->seed))
        (void)json_fail(r, "a seed that is no number");
    pass(r, ",\"turns\":", "a begin record without turns");
    begin->turns = read_u32(r, "turns that are no number");
    pass(r, ",\"tools\":", "a begin record without tools");
    begin->tools = read_u32(r, "tools that are no number");
    pass(r, ",\"effect\":", "a begin record without an effect");
    read_text(r, &effect, "an effect that is no text");
    begin->effect = TOOL_EFFECT_NONE;
    if (json_span_is(&effect, "noop"))
        begin->effect = TOOL_EFFECT_NOOP;
    else if (json_span_is(&effect, "ledger"))
        begin->effect = TOOL_EFFECT_LEDGER;
    else if (!json_span_is(&effect, "none"))
        (void)json_fail(r, "an effect of an unknown name");
    pass(r, ",\"input\":", "a begin record without an input");
    read_text(r, &record->text, "an input that is no text");
}

/* --- model --- */

/* {"id":"cN","name":"…","arguments":{…}},… and the closing bracket. The arguments are the model's
 * own text, which may have space around it. */
static void read_calls(struct json_reader *r, struct record *record)
{
    struct json_span part;
    do {
        pass(r, "{\"id\":\"", "a tool call without an id");
        uint32_t call_id = read_call_id(r);
        if (record->call_count == 0)
            record->call_id = call_id;
        if (call_id - record->call_id != record->call_count)
            (void)json_fail(r, "tool calls that are not numbered in order");
        if (record->call_count++ == AGENT_TOOLS_MAX)
            (void)json_fail(r, "too many tool calls");
        pass(r, "\",\"name\":", "a tool call without a name");
        read_text(r, &part, "a tool name that is no text");
        pass(r, ",\"arguments\":", "a tool call without arguments");
        if (json_peek(r) != JSON_TYPE_OBJECT || !json_skip_value(r, &part))
            (void)json_fail(r, "arguments that are no object");
        pass_space(r);
        pass(r, "}", "a tool call with more than id, name and arguments");
    } while (passes(r, ","));
    pass(r, "]", "tool calls without an end");
}

/* The assistant's message. */
static void read_reply(struct json_reader *r, struct record *record)
{
    struct json_span content;
    const char *first = r->at;
    pass(r, "{\"role\":\"assistant\",\"content\":", "a reply without role and content");
    read_text(r, &content, "a reply whose content is no text");
    if (passes(r, ",\"tool_calls\":["))
        read_calls(r, record);
    pass(r, "}", "a reply with more than role, content and tool calls");
    record->text = (struct json_span){.bytes = first, .size = (size_t)(r->at - first)};
}

/* All messages so far: objects, of which the last one is the reply. */
static void read_messages(struct json_reader *r, struct record *record)
{
    struct json_span message = {0};
    const char *first = r->at;
    do
        read_object(r, &message, "a message that is no object");
    while (passes(r, ","));
    record->model.message = (struct json_span){.bytes = first, .size = (size_t)(r->at - first)};
    if (r->error != NULL)
        return;
    struct json_reader last = json_reader_on(message.bytes, message.size);
    read_reply(&last, record);
    if (!json_read_end(&last))
        (void)json_fail(r, last.error);
}

static void read_model(struct json_reader *r, struct record *record)
{
    struct record_model *model = &record->model;
    *model = (struct record_model){.finish = ""};
    model->is_snapshot = passes(r, "{\"messages\":[");
    if (model->is_snapshot) {
        read_messages(r, record);
        pass(r, "]", "messages without an end");
    } else {
        pass(r, "{\"message\":", "a model record without a message");
        read_reply(r, record);
        model->message = record->text;
    }
    pass(r, ",\"finish\":\"", "a model record without a finish reason");
    model->finish = record->call_count > 0 ? "tool_calls" : "stop";
    pass_bytes(r, model->finish, strlen(model->finish),
               "a finish reason that does not fit the tool calls");
    pass(r, "\",\"usage\":{\"prompt_tokens\":", "a model record without usage");
    model->prompt_tokens = read_u32(r, "tokens that are no number");
    pass(r, ",\"completion_tokens\":", "a usage without completion tokens");
    model->completion_tokens = read_u32(r, "tokens that are no number");
    pass(r, "},\"request\":\"", "a model record without the request's digest");
    model->request_digest = read_hex64(r, "a digest that is none");
    pass(r, "\"", "a digest that is none");
}

/* --- attempt and tool --- */

static void read_attempt(struct json_reader *r, struct record *record)
{
    pass(r, "{\"call\":\"", "an attempt record without a call");
    record->call_id = read_call_id(r);
    pass(r, "\",\"tool\":", "an attempt record without a tool");
    read_text(r, &record->tool, "a tool name that is no text");
    pass(r, ",\"attempt\":", "an attempt record without a number");
    record->attempt = read_u32(r, "an attempt that is no number");
    if (record->attempt == 0)
        (void)json_fail(r, "an attempt numbered 0");
    pass(r, ",\"arguments\":", "an attempt record without arguments");
    read_object(r, &record->text, "arguments that are no object");
}

static void read_tool(struct json_reader *r, struct record *record)
{
    pass(r, "{\"call\":\"", "a tool record without a call");
    record->call_id = read_call_id(r);
    record->is_error = passes(r, "\",\"error\":");
    if (!record->is_error)
        pass(r, "\",\"result\":", "a tool record without result or error");
    read_text(r, &record->text, "a result that is no text");
}

/* --- retry and delta --- */

static void read_retry(struct json_reader *r, struct record *record)
{
    pass(r, "{\"attempt\":", "a retry record without an attempt");
    record->attempt = read_u32(r, "an attempt that is no number");
    if (record->attempt == 0)
        (void)json_fail(r, "an attempt numbered 0");
    pass(r, ",\"error\":", "a retry record without an error");
    read_text(r, &record->text, "an error that is no text");
}

static void read_delta(struct json_reader *r, struct record *record)
{
    pass(r, "{\"piece\":", "a delta record without a number");
    record->attempt = read_u32(r, "a piece that is no number");
    if (record->attempt == 0)
        (void)json_fail(r, "a piece numbered 0");
    pass(r, ",\"text\":", "a delta record without text");
    read_text(r, &record->text, "a delta that is no text");
}

/* --- end --- */

static enum outcome read_outcome(struct json_reader *r)
{
    struct json_span name = {.bytes = ""};
    read_text(r, &name, "an outcome that is no text");
    for (unsigned i = 0; i < OUTCOME_COUNT; i++) {
        enum outcome outcome = (enum outcome)i;
        const char *known = outcome_name(outcome);
        if (outcome_is_recorded(outcome) && json_span_equals(&name, known, strlen(known)))
            return outcome;
    }
    (void)json_fail(r, "an outcome of an unknown name");
    return OUTCOME_COUNT;
}

static void read_end(struct json_reader *r, struct record *record)
{
    static const char reason[] = "a total that is no number";
    struct record_end *end = &record->end;
    pass(r, "{\"outcome\":", "an end record without an outcome");
    end->outcome = read_outcome(r);
    pass(r, ",\"turns\":", "an end record without turns");
    end->turns = read_u32(r, reason);
    pass(r, ",\"tool_calls\":", "an end record without tool calls");
    end->tool_calls = read_u32(r, reason);
    pass(r, ",\"records\":", "an end record without records");
    end->records = read_u32(r, reason);
    pass(r, ",\"prompt_tokens\":", "an end record without prompt tokens");
    end->prompt_tokens = read_u32(r, reason);
    pass(r, ",\"completion_tokens\":", "an end record without completion tokens");
    end->completion_tokens = read_u32(r, reason);
}

/* The values of a record, up to the brace that closes it. */
static void read_values(struct json_reader *r, struct record *record)
{
    switch (record->kind) {
    case RECORD_BEGIN:
        read_begin(r, record);
        return;
    case RECORD_MODEL:
        read_model(r, record);
        return;
    case RECORD_ATTEMPT:
        read_attempt(r, record);
        return;
    case RECORD_TOOL:
        read_tool(r, record);
        return;
    case RECORD_END:
        read_end(r, record);
        return;
    case RECORD_RETRY:
        read_retry(r, record);
        return;
    case RECORD_DELTA:
        read_delta(r, record);
        return;
    }
    (void)json_fail(r, "a record of an unknown kind"); /* as a damaged store may say */
}

const char *record_read(struct record *record, enum record_kind kind, const char *bytes,
                        size_t size)
{
    struct json_reader r = json_reader_on(bytes, size);
    record->kind = kind;
    record->call_id = 0;
    record->call_count = 0;
    record->attempt = 0;
    record->is_error = false;
    record->text = (struct json_span){0};
    read_values(&r, record);
    pass(&r, "}", "a record with more than its keys");
    if (r.at != r.end)
        (void)json_fail(&r, "text behind the record");
    return r.error;
}
