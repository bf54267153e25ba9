/*
 * tool: see tool.h.
 */
#include "engine/tool.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/json_write.h"

struct tool {
    const char *name;
    void (*run)(const struct tool_context *context, const struct json_span *arguments,
                struct tool_result *result);
};

static void fail(struct tool_result *result, const char *text)
{
    size_t size = strlen(text);
    size = size < sizeof(result->text) ? size : sizeof(result->text);
    memcpy(result->text, text, size);
    result->size = (uint16_t)size;
    result->is_error = true;
}

/* {"order":N}: that key, that type, nothing else. */
static bool read_order(const struct json_span *arguments, uint64_t *order, const char **error)
{
    struct json_reader reader = json_reader_on(arguments->bytes, arguments->size);
    struct json_span key;
    bool has_order = false;
    (void)json_read_object(&reader);
    while (json_read_key(&reader, &key)) {
        if (has_order || !json_span_is(&key, "order"))
            (void)json_fail(&reader, "arguments: unknown or repeated key");
        has_order = json_read_u64(&reader, order);
    }
    if (json_read_end(&reader) && !has_order)
        (void)json_fail(&reader, "arguments: order is missing");
    *error = reader.error;
    return reader.error == NULL;
}

/* One line, one write: the kernel appends it whole or the call has failed. */
static int append_to_ledger(const struct tool_context *context)
{
    char line[64];
    int size = snprintf(line, sizeof(line), "%" PRIu64 " c%" PRIu32 " %" PRIu32 "\n", context->run,
                        context->call_id, context->attempt);
    ssize_t written = write(context->ledger_fd, line, (size_t)size);
    if (written == size)
        return 0;
    return written < 0 ? -errno : -ENOSPC;
}

static void run_noop(const struct tool_context *context, const struct json_span *arguments,
                     struct tool_result *result)
{
    uint64_t order = 0;
    const char *error = NULL;
    if (!read_order(arguments, &order, &error)) {
        fail(result, error);
        return;
    }
    if (context->effect == TOOL_EFFECT_LEDGER) {
        int failure = append_to_ledger(context);
        if (failure != 0) {
            fail(result, strerrordesc_np(-failure));
            return;
        }
    }
    struct json_writer w = json_writer_on(result->text, sizeof(result->text));
    json_write_literal(&w, "Order ");
    json_write_u64(&w, order);
    json_write_literal(&w, " was shipped.");
    result->size = (uint16_t)(w.at - result->text);
    result->is_error = false;
}

static const struct tool tools[] = {
    {"noop", run_noop},
};

void tool_run(const struct tool_context *context, const struct json_span *name,
              const struct json_span *arguments, struct tool_result *result)
{
    for (size_t i = 0; i < sizeof(tools) / sizeof(tools[0]); i++) {
        if (json_span_equals(name, tools[i].name, strlen(tools[i].name))) {
            tools[i].run(context, arguments, result);
            return;
        }
    }
    fail(result, "unknown tool");
}
