/*
 * record: see record.h.
 */
#include "engine/record.h"

enum {
    RECORD_FRAME_BYTES = 384, /* all keys, numbers and punctuation of the longest record */
};

size_t record_bytes_max(size_t content)
{
    return RECORD_FRAME_BYTES + JSON_ESCAPED_BYTES_MAX * content;
}

static void write_number(struct json_writer *w, const char *key, size_t key_bytes, uint64_t value)
{
    json_write_raw(w, key, key_bytes);
    json_write_u64(w, value);
}
#define write_field(w, key, value) write_number((w), "" key, sizeof(key) - 1, (value))

static void write_name(struct json_writer *w, const char *name)
{
    json_write_raw(w, name, strlen(name));
}

void record_write_begin(struct json_writer *w, const struct record_begin *begin)
{
    write_field(w, "{\"v\":", RECORD_FORMAT_VERSION);
    write_field(w, ",\"seed\":", begin->seed);
    write_field(w, ",\"turns\":", begin->turns);
    write_field(w, ",\"tools\":", begin->tools);
    json_write_literal(w, ",\"effect\":\"");
    write_name(w, tool_effect_name(begin->effect));
    json_write_literal(w, "\",\"input\":");
    json_write_string(w, begin->input, begin->input_bytes);
    json_write_literal(w, "}");
}

void record_write_model(struct json_writer *w, const struct record_model *model)
{
    if (model->is_snapshot)
        json_write_literal(w, "{\"messages\":[");
    else
        json_write_literal(w, "{\"message\":");
    json_write_raw(w, model->message.bytes, model->message.size);
    if (model->is_snapshot)
        json_write_literal(w, "]");
    json_write_literal(w, ",\"finish\":\"");
    write_name(w, model->finish);
    write_field(w, "\",\"usage\":{\"prompt_tokens\":", model->prompt_tokens);
    write_field(w, ",\"completion_tokens\":", model->completion_tokens);
    json_write_literal(w, "},\"request\":");
    json_write_hex64(w, model->request_digest);
    json_write_literal(w, "}");
}

void record_write_attempt(struct json_writer *w, uint32_t call_id, const struct json_span *name,
                          const struct json_span *arguments, uint32_t attempt)
{
    write_field(w, "{\"call\":\"c", call_id);
    json_write_literal(w, "\",\"tool\":\"");
    json_write_raw(w, name->bytes, name->size);
    write_field(w, "\",\"attempt\":", attempt);
    json_write_literal(w, ",\"arguments\":");
    json_write_raw(w, arguments->bytes, arguments->size);
    json_write_literal(w, "}");
}

void record_write_tool(struct json_writer *w, uint32_t call_id, const char *text, size_t size,
                       bool is_error)
{
    write_field(w, "{\"call\":\"c", call_id);
    if (is_error)
        json_write_literal(w, "\",\"error\":");
    else
        json_write_literal(w, "\",\"result\":");
    json_write_string(w, text, size);
    json_write_literal(w, "}");
}

void record_write_retry(struct json_writer *w, uint32_t attempt, const char *error, size_t size)
{
    write_field(w, "{\"attempt\":", attempt);
    json_write_literal(w, ",\"error\":");
    json_write_string(w, error, size);
    json_write_literal(w, "}");
}

void record_write_delta(struct json_writer *w, uint32_t piece, const char *text, size_t size)
{
    write_field(w, "{\"piece\":", piece);
    json_write_literal(w, ",\"text\":");
    json_write_string(w, text, size);
    json_write_literal(w, "}");
}

void record_write_end(struct json_writer *w, const struct record_end *end)
{
    json_write_literal(w, "{\"outcome\":\"");
    write_name(w, outcome_name(end->outcome));
    write_field(w, "\",\"turns\":", end->turns);
    write_field(w, ",\"tool_calls\":", end->tool_calls);
    write_field(w, ",\"records\":", end->records);
    write_field(w, ",\"prompt_tokens\":", end->prompt_tokens);
    write_field(w, ",\"completion_tokens\":", end->completion_tokens);
    json_write_literal(w, "}");
}
