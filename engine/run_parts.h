/*
 * run_parts: what run.c, run_record.c and run_resume.c share, and nobody else sees.
 */
#ifndef BENCH_RUN_PARTS_H
#define BENCH_RUN_PARTS_H

#include "engine/base/json_write.h"
#include "engine/run.h"
#include "engine/tool.h"

/* A tool call from the reply that asks for it to its recorded result: a child that answers its run
 * when its latency is over. */
struct tool_task {
    struct timer timer;
    struct run *run;
    struct tool_task *next;
    uint32_t call;     /* of the turn, from 0 */
    uint32_t call_id;  /* of the run, from 1 */
    uint32_t capacity; /* of its block in the pool */
    uint32_t attempt;  /* the last that is recorded; 0: none */
    struct message_call message;
    struct tool_result result;
};

static inline uint64_t run_number(const struct run *run)
{
    return run->model_call.run;
}

/* Tells the agent what has happened, and does what it answers. */
void run_advance(struct run *run, struct agent_event event, uint64_t now_ns);

/* The run ends as it must; the first reason of all runs is kept. */
void run_fail(struct run *run, enum outcome outcome, const char *reason, uint64_t now_ns);

/* A piece of the model's reply, or its end. */
void run_hear(struct run *run, const struct model_event *event, uint64_t now_ns);

/* A writer on the scratch with room for `bytes`, or an empty one that is full at once. */
struct json_writer run_scratch(struct run_env *env, size_t bytes);

/* The payload of the record that is on its way, in the scratch. */
struct json_writer run_compose(struct run *run);

/* What the run remembers of that record once it is durable. NULL, or why the run cannot go on,
 * which may be written to *failure. */
const char *run_keep(struct run *run, struct errmsg *failure);

/* The same of a begin record, which is all that a resumed run composes again. They stand apart so
 * that the two above, on the hot path, have one caller only and become a part of it. */
struct json_writer run_compose_begin(struct run *run);
int run_keep_input(struct run *run); /* 0, or what run_history_reason() has the text of */

/* What a run fails with once the error of a tool is recorded. */
void run_name_tool_error(struct errmsg *failure, uint32_t call_id, const char *text, size_t size);

/* Why a history does not take more: -EMSGSIZE or -ENOMEM. */
const char *run_history_reason(int error);

/* The digest of the request that the history makes, which stands in the scratch with *size bytes.
 * False without memory. */
bool run_compose_request(struct run *run, uint64_t *digest, size_t *size);

/* The calls that a reply asks for, in its order. False without memory. */
bool run_add_tools(struct run *run, const struct message_call *calls, uint32_t count);

/* Takes the task at the link away, whose result is recorded. */
void run_drop_tool(struct run *run, struct tool_task **link);

/* A run that nothing has happened to yet. */
void run_init(struct run *run, struct run_env *env, uint64_t number, uint64_t intended_ns,
              uint64_t now_ns);

#endif
