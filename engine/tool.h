/*
 * tool: the tools on offer to the model, and what they do.
 *
 * A tool checks its arguments, then has its effect, if any is configured, then answers with a text.
 * It is called when its latency is over, on the scheduler's thread. The ledger is written there
 * too, in one write(2) to a file opened for appending: the kernel's page cache takes it. Ownership:
 * the caller's. Threading: stateless but for the ledger's descriptor, which all threads may share.
 * Errors: the result says.
 *
 * A new tool is one row in tool.c.
 */
#ifndef BENCH_TOOL_H
#define BENCH_TOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/agent.h"
#include "engine/base/json_read.h"

enum { TOOL_RESULT_BYTES_MAX = 128 };

struct tool_context {
    enum tool_effect effect;
    int ledger_fd; /* with TOOL_EFFECT_LEDGER */
    uint64_t run;
    uint32_t call_id;
    uint32_t attempt;
};

struct tool_result {
    uint16_t size;
    bool is_error;
    char text[TOOL_RESULT_BYTES_MAX];
};

/* Whether the tool's effect is recorded before it happens, and so whether attempts are. */
static inline bool tool_effect_is_declared(enum tool_effect effect)
{
    return effect != TOOL_EFFECT_NONE;
}

/* Runs the tool called `name`; an unknown name, arguments that do not fit, and a ledger that cannot
 * be written are results with is_error. */
void tool_run(const struct tool_context *context, const struct json_span *name,
              const struct json_span *arguments, struct tool_result *result);

#endif
