/*
 * message: see message.h.
 */
#include "engine/message.h"

#include <errno.h>
#include <string.h>

#include "engine/agent.h"
#include "journal/journal.h"

#define REQUEST_HEAD                                                                               \
    "{\"model\":\"stub\",\"messages\":["                                                           \
    "{\"role\":\"system\",\"content\":\"You look up orders.\"}"
#define REQUEST_TAIL                                                                               \
    "],\"tools\":[{\"name\":\"noop\",\"parameters\":{\"order\":\"integer\"}}],\"max_tokens\":"     \
    "1024}"

const char *history_mode_name(enum history_mode mode)
{
    switch (mode) {
    case HISTORY_DELTA:
        return "delta";
    case HISTORY_SNAPSHOT:
        return "snapshot";
    }
    return "invalid";
}

void history_free(struct history *h, struct pool *pool)
{
    if (h->bytes != NULL)
        pool_free(pool, h->bytes, h->capacity);
    *h = (struct history){0};
}

/* Writes to the end of a history, which grows as needed. The first error sticks; what is written of
 * the message until then does not matter, since it ends the run. */
struct appender {
    struct history *history;
    struct pool *pool;
    int error;
};

static_assert((HISTORY_BYTES_MIN & (HISTORY_BYTES_MIN - 1)) == 0 &&
                  (JOURNAL_PAYLOAD_BYTES_MAX & (JOURNAL_PAYLOAD_BYTES_MAX - 1)) == 0,
              "doubling ends in a block of the largest size");

/* The least that is at least `bytes`, which is more than 1. */
static inline size_t next_power_of_two(size_t bytes)
{
    return (size_t)1 << (64 - __builtin_clzll(bytes - 1));
}

static bool grow(struct appender *a, size_t extra)
{
    struct history *h = a->history;
    size_t needed = h->size + extra;
    size_t wanted = h->capacity == 0 ? HISTORY_BYTES_MIN : (size_t)h->capacity * 2;
    size_t capacity = 0;
    if (needed > JOURNAL_PAYLOAD_BYTES_MAX)
        a->error = -EMSGSIZE;
    if (a->error != 0)
        return false;
    if (wanted < needed)
        wanted = next_power_of_two(needed);
    if (wanted > JOURNAL_PAYLOAD_BYTES_MAX)
        wanted = JOURNAL_PAYLOAD_BYTES_MAX; /* a block of that very size: what fits is in bounds */
    char *bytes = pool_alloc(a->pool, wanted, &capacity);
    if (bytes == NULL) {
        a->error = -ENOMEM;
        return false;
    }
    if (h->bytes != NULL) {
        memcpy(bytes, h->bytes, h->size);
        pool_free(a->pool, h->bytes, h->capacity);
    }
    h->bytes = bytes;
    h->capacity = (uint32_t)capacity;
    return true;
}

static inline void put(struct appender *a, const char *bytes, size_t size)
{
    struct history *h = a->history;
    if (h->capacity - h->size < size && !grow(a, size))
        return;
    memcpy(h->bytes + h->size, bytes, size);
    h->size += (uint32_t)size;
}
#define put_literal(a, literal) put((a), "" literal, sizeof(literal) - 1)

/* Texts seldom need escaping, so room for the worst case is made only when one did not fit as it
 * is. */
static void put_escaped(struct appender *a, const char *text, size_t size)
{
    struct history *h = a->history;
    if (h->capacity - h->size < size && !grow(a, size))
        return;
    struct json_writer w = json_writer_on(h->bytes + h->size, h->capacity - h->size);
    json_write_escaped(&w, text, size);
    if (!json_write_ok(&w)) {
        size_t worst = size * JSON_ESCAPED_BYTES_MAX;
        size_t allowed = JOURNAL_PAYLOAD_BYTES_MAX - h->size;
        if (!grow(a, worst < allowed ? worst : allowed))
            return;
        w = json_writer_on(h->bytes + h->size, h->capacity - h->size);
        json_write_escaped(&w, text, size);
        if (!json_write_ok(&w)) {
            a->error = -EMSGSIZE;
            return;
        }
    }
    h->size = (uint32_t)(w.at - h->bytes);
}

static void put_call_id(struct appender *a, uint32_t call_id)
{
    char digits[16];
    struct json_writer w = json_writer_on(digits, sizeof(digits));
    json_write_literal(&w, "\"c");
    json_write_u64(&w, call_id);
    json_write_literal(&w, "\"");
    put(a, digits, (size_t)(w.at - digits));
}

int history_add_user(struct history *h, struct pool *pool, const char *text, size_t size)
{
    struct appender a = {h, pool, 0};
    put_literal(&a, ",{\"role\":\"user\",\"content\":\"");
    put_escaped(&a, text, size);
    put_literal(&a, "\"}");
    return a.error;
}

int history_add_result(struct history *h, struct pool *pool, uint32_t call_id, const char *text,
                       size_t size)
{
    struct appender a = {h, pool, 0};
    put_literal(&a, ",{\"role\":\"tool\",\"call\":");
    put_call_id(&a, call_id);
    put_literal(&a, ",\"content\":\"");
    put_escaped(&a, text, size);
    put_literal(&a, "\"}");
    return a.error;
}

int reply_add_text(struct reply *r, struct history *h, struct pool *pool, const char *text,
                   size_t size)
{
    struct appender a = {h, pool, 0};
    if (r->state > REPLY_TEXT)
        return -EPROTO;
    if (r->state == REPLY_NONE) {
        r->state = REPLY_TEXT;
        r->start = h->size + 1; /* behind the comma */
        put_literal(&a, ",{\"role\":\"assistant\",\"content\":\"");
    }
    put_escaped(&a, text, size);
    return a.error;
}

int reply_add_call(struct reply *r, struct history *h, struct pool *pool, uint32_t call_id,
                   const char *name, size_t size)
{
    struct appender a = {h, pool, 0};
    if (r->state == REPLY_NONE)
        a.error = reply_add_text(r, h, pool, "", 0);
    if (r->state == REPLY_DONE || r->calls == AGENT_TOOLS_MAX)
        return -EPROTO;
    if (r->state == REPLY_TEXT)
        put_literal(&a, "\",\"tool_calls\":[");
    else
        put_literal(&a, "},");
    r->state = REPLY_CALLS;
    r->calls++;
    put_literal(&a, "{\"id\":");
    put_call_id(&a, call_id);
    put_literal(&a, ",\"name\":\"");
    put_escaped(&a, name, size);
    put_literal(&a, "\",\"arguments\":");
    return a.error;
}

int reply_add_arguments(struct reply *r, struct history *h, struct pool *pool, const char *json,
                        size_t size)
{
    struct appender a = {h, pool, 0};
    if (r->state != REPLY_CALLS)
        return -EPROTO;
    put(&a, json, size);
    return a.error;
}

void reply_discard(struct reply *r, struct history *h)
{
    if (r->state != REPLY_NONE)
        h->size = r->start - 1; /* with the comma before it */
    *r = (struct reply){.state = REPLY_NONE};
}

int reply_finish(struct reply *r, struct history *h, struct pool *pool)
{
    struct appender a = {h, pool, 0};
    if (r->state == REPLY_TEXT)
        put_literal(&a, "\"}");
    else if (r->state == REPLY_CALLS)
        put_literal(&a, "}]}");
    else
        return -EPROTO;
    r->state = REPLY_DONE;
    return a.error;
}

int reply_add_whole(struct reply *r, struct history *h, struct pool *pool,
                    const struct json_span *message, uint32_t calls)
{
    struct appender a = {h, pool, 0};
    assert(calls <= AGENT_TOOLS_MAX);
    *r = (struct reply){.start = h->size + 1, .calls = (uint8_t)calls, .state = REPLY_DONE};
    put_literal(&a, ",");
    put(&a, message->bytes, message->size);
    return a.error;
}

/* "c17" → 17; 0 for anything else, which no call is numbered. */
static uint32_t parse_call_id(const struct json_span *id)
{
    uint32_t number = 0;
    if (id->size < 2 || id->size > 10 || id->bytes[0] != 'c')
        return 0;
    for (size_t i = 1; i < id->size; i++) {
        unsigned digit = (unsigned)id->bytes[i] - '0';
        if (digit > 9)
            return 0;
        number = number * 10 + digit;
    }
    return number;
}

/* Reads {"id":…,"name":…,"arguments":{…}}, whose keys stand in this order. */
static bool read_call(struct json_reader *r, uint32_t call_id, const char *base,
                      struct message_call *call)
{
    struct json_span key;
    struct json_span id;
    struct json_span name;
    struct json_span arguments;
    if (!json_read_object(r))
        return false;
    if (!json_read_key(r, &key) || !json_span_is(&key, "id") || !json_read_string(r, &id))
        return json_fail(r, "a tool call without an id");
    if (parse_call_id(&id) != call_id)
        return json_fail(r, "tool calls are not numbered in order");
    if (!json_read_key(r, &key) || !json_span_is(&key, "name") || !json_read_string(r, &name))
        return json_fail(r, "a tool call without a name");
    if (!json_read_key(r, &key) || !json_span_is(&key, "arguments") ||
        json_peek(r) != JSON_TYPE_OBJECT || !json_skip_value(r, &arguments))
        return json_fail(r, "a tool call's arguments are not a JSON object");
    if (json_read_key(r, &key))
        return json_fail(r, "a tool call with an unknown key");
    *call = (struct message_call){
        .name_at = (uint32_t)(name.bytes - base),
        .name_bytes = (uint32_t)name.size,
        .arguments_at = (uint32_t)(arguments.bytes - base),
        .arguments_bytes = (uint32_t)arguments.size,
    };
    return r->error == NULL;
}

static uint32_t read_calls(struct json_reader *r, uint32_t first_call_id, const char *base,
                           struct message_call calls[AGENT_TOOLS_MAX])
{
    uint32_t count = 0;
    if (!json_read_array(r))
        return 0;
    while (json_read_element(r)) {
        if (count == AGENT_TOOLS_MAX) {
            (void)json_fail(r, "too many tool calls");
            break;
        }
        if (!read_call(r, first_call_id + count, base, &calls[count]))
            break;
        count++;
    }
    return count;
}

int message_check_reply(const struct history *h, const struct reply *r, uint32_t first_call_id,
                        struct message_call calls[AGENT_TOOLS_MAX], const char **error)
{
    struct json_span message = message_of_reply(h, r);
    struct json_reader reader = json_reader_on(message.bytes, message.size);
    struct json_span key;
    struct json_span text;
    uint32_t call_count = 0;
    bool has_role = false;
    bool has_content = false;

    (void)json_read_object(&reader);
    while (json_read_key(&reader, &key)) {
        if (json_span_is(&key, "role") && !has_role) {
            has_role = json_read_string(&reader, &text) && json_span_is(&text, "assistant");
        } else if (json_span_is(&key, "content") && !has_content) {
            has_content = json_read_string(&reader, &text);
        } else if (json_span_is(&key, "tool_calls") && call_count == 0) {
            call_count = read_calls(&reader, first_call_id, h->bytes, calls);
        } else {
            (void)json_fail(&reader, "a reply with an unknown or repeated key");
        }
    }
    if (json_read_end(&reader) && (!has_role || !has_content))
        (void)json_fail(&reader, "a reply without role and content");
    if (reader.error == NULL && call_count != r->calls)
        (void)json_fail(&reader, "a reply with more or fewer tool calls than were streamed");
    *error = reader.error;
    return reader.error == NULL ? 0 : -EBADMSG;
}

struct json_span message_of_reply(const struct history *h, const struct reply *r)
{
    assert(r->state == REPLY_DONE);
    return (struct json_span){.bytes = h->bytes + r->start, .size = h->size - r->start};
}

struct json_span messages_of_history(const struct history *h)
{
    assert(h->size > 0);
    return (struct json_span){.bytes = h->bytes + 1, .size = h->size - 1}; /* behind the comma */
}

size_t request_bytes_max(const struct history *h)
{
    return sizeof(REQUEST_HEAD) + h->size + sizeof(REQUEST_TAIL);
}

void request_write(struct json_writer *w, const struct history *h)
{
    json_write_literal(w, REQUEST_HEAD);
    json_write_raw(w, h->bytes, h->size);
    json_write_literal(w, REQUEST_TAIL);
}
