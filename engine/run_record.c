/*
 * run_record: what a run writes into its records, and what it keeps of a record once it is there.
 *
 * Composing is a pure function of the run: a record is composed again when the journal had no room
 * for it.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/prose.h"
#include "engine/exchange.h"
#include "engine/record.h"
#include "engine/run_parts.h"

enum { QUESTION_BYTES_MAX = 64 };

struct json_writer run_scratch(struct run_env *env, size_t bytes)
{
    if (bytes > env->scratch_bytes) {
        size_t wanted = env->scratch_bytes * 2 > bytes ? env->scratch_bytes * 2 : bytes;
        char *grown = realloc(env->scratch, wanted);
        if (grown == NULL)
            return (struct json_writer){.at = env->scratch, .end = env->scratch, .is_full = true};
        env->scratch = grown;
        env->scratch_bytes = wanted;
    }
    return json_writer_on(env->scratch, env->scratch_bytes);
}

/* The user's first message is a pure function of seed and run, as its length is, and nothing in it
 * needs escaping: it is made again wherever it is needed. This is the room for it. */
static inline size_t input_bytes_max(const struct run *run)
{
    const struct run_shape *shape = run->env->shape;
    if (__builtin_expect(shape->prompt_bytes == NULL, 1))
        return QUESTION_BYTES_MAX;
    return prose_draw_bytes(shape->prompt_bytes,
                            prng_stream(shape->seed, run_number(run), PRNG_PROMPT_BYTES, 0));
}

static size_t write_question(const struct run *run, char *text)
{
    struct json_writer w = json_writer_on(text, QUESTION_BYTES_MAX);
    json_write_literal(&w, "Where is order ");
    json_write_u64(&w, run_number(run));
    json_write_literal(&w, "?");
    return (size_t)(w.at - text);
}

static __attribute__((cold)) size_t write_prompt(const struct run *run, char *text, size_t bytes)
{
    struct prng p = prng_stream(run->env->shape->seed, run_number(run), PRNG_PROMPT_TEXT, 0);
    prose_write(&p, text, bytes);
    return bytes;
}

/* Returns its size. `room` is what input_bytes_max() says. */
static inline size_t write_input(const struct run *run, char *text, size_t room)
{
    return run->env->shape->prompt_bytes == NULL ? write_question(run, text)
                                                 : write_prompt(run, text, room);
}

const char *run_history_reason(int error)
{
    return error == -EMSGSIZE ? "the conversation is longer than 16 MiB"
                              : "no memory for the history";
}

/* The link that holds the tool call that the record on its way is about. */
static struct tool_task **recorded_tool(struct run *run)
{
    struct tool_task **link = &run->tools;
    while (*link != NULL && (*link)->call != run->agent.record_call)
        link = &(*link)->next;
    assert(*link != NULL);
    return link;
}

struct json_writer run_compose_begin(struct run *run)
{
    const struct run_shape *shape = run->env->shape;
    size_t room = input_bytes_max(run);
    size_t record_bytes = record_bytes_max(0) + room;
    struct json_writer w = run_scratch(run->env, record_bytes + room);
    if (!json_write_ok(&w))
        return w;
    char *input = w.at + record_bytes; /* behind the record, in the same scratch */
    w.end = input;
    struct record_begin begin = {
        .seed = shape->seed,
        .turns = shape->turns,
        .tools = shape->tools,
        .effect = shape->tool_effect,
        .input = input,
        .input_bytes = write_input(run, input, room),
    };
    record_write_begin(&w, &begin);
    return w;
}

static struct json_writer compose_model(struct run *run)
{
    bool is_snapshot = run->env->shape->history == HISTORY_SNAPSHOT;
    struct record_model model = {
        .message = is_snapshot ? messages_of_history(&run->history)
                               : message_of_reply(&run->history, &run->reply),
        .is_snapshot = is_snapshot,
        .finish = run->agent.tools > 0 ? "tool_calls" : "stop",
        .prompt_tokens = run->model_call.prompt_tokens,
        .completion_tokens = run->completion_tokens,
        .request_digest = run->request_digest,
    };
    struct json_writer w = run_scratch(run->env, record_bytes_max(0) + model.message.size);
    record_write_model(&w, &model);
    return w;
}

static struct json_writer compose_attempt(struct run *run)
{
    const struct tool_task *task = *recorded_tool(run);
    struct json_span name = message_call_name(&run->history, &task->message);
    struct json_span arguments = message_call_arguments(&run->history, &task->message);
    struct json_writer w = run_scratch(run->env, record_bytes_max(0) + name.size + arguments.size);
    record_write_attempt(&w, task->call_id, &name, &arguments, task->attempt + 1);
    return w;
}

static struct json_writer compose_tool(struct run *run)
{
    const struct tool_task *task = *recorded_tool(run);
    const struct tool_result *result = &task->result;
    struct json_writer w = run_scratch(run->env, record_bytes_max(result->size));
    record_write_tool(&w, task->call_id, result->text, result->size, result->is_error);
    return w;
}

static struct json_writer compose_end(struct run *run)
{
    struct record_end end = {
        .outcome = run->agent.outcome,
        .turns = run->agent.turns,
        .tool_calls = run->calls_total,
        .records = run->append.seq + 1,
        .prompt_tokens = run->prompt_tokens_total,
        .completion_tokens = run->completion_tokens_total,
    };
    struct json_writer w = run_scratch(run->env, record_bytes_max(0));
    record_write_end(&w, &end);
    return w;
}

static struct json_writer compose_retry(struct run *run)
{
    const struct exchange *exchange = run->exchange;
    size_t size = strlen(exchange->failure);
    struct json_writer w = run_scratch(run->env, record_bytes_max(size));
    record_write_retry(&w, run->agent.retries, exchange->failure, size);
    return w;
}

static struct json_writer compose_delta(struct run *run)
{
    struct json_span text;
    if (!exchange_take_delta(run->exchange, &text))
        return (struct json_writer){.is_full = true};
    struct json_writer w = run_scratch(run->env, record_bytes_max(text.size));
    record_write_delta(&w, run->exchange->pieces + 1, text.bytes, text.size);
    return w;
}

struct json_writer run_compose(struct run *run)
{
    switch ((enum record_kind)run->agent.record) {
    case RECORD_BEGIN:
        return run_compose_begin(run);
    case RECORD_MODEL:
        return compose_model(run);
    case RECORD_ATTEMPT:
        return compose_attempt(run);
    case RECORD_TOOL:
        return compose_tool(run);
    case RECORD_END:
        return compose_end(run);
    case RECORD_RETRY:
        return compose_retry(run);
    case RECORD_DELTA:
        return compose_delta(run);
    }
    assert(!"unknown record kind");
    return (struct json_writer){.is_full = true};
}

void run_name_tool_error(struct errmsg *failure, uint32_t call_id, const char *text, size_t size)
{
    (void)errmsg_set(failure, 0, "tool call c%" PRIu32 ": %.*s", call_id, (int)size, text);
}

/* The result of the tool call that has just been recorded goes into the history. */
static const char *keep_result(struct run *run, struct errmsg *failure)
{
    struct run_env *env = run->env;
    struct tool_task **link = recorded_tool(run);
    struct tool_task *task = *link;
    const char *reason = NULL;
    if (task->result.is_error) {
        run_name_tool_error(failure, task->call_id, task->result.text, task->result.size);
        reason = failure->text;
    }
    int error = history_add_result(&run->history, &env->pool, task->call_id, task->result.text,
                                   task->result.size);
    if (error != 0)
        reason = run_history_reason(error);
    run_drop_tool(run, link);
    return reason;
}

/* The user's message, once it is recorded: 0, -EMSGSIZE or -ENOMEM. Inline, so that the second
 * caller does not take it out of the hot path. */
static inline int keep_input(struct run *run)
{
    struct run_env *env = run->env;
    size_t room = input_bytes_max(run);
    struct json_writer w = run_scratch(env, room);
    if (!json_write_ok(&w))
        return -ENOMEM;
    size_t size = write_input(run, w.at, room);
    return history_add_user(&run->history, &env->pool, w.at, size);
}

int run_keep_input(struct run *run)
{
    return keep_input(run);
}

const char *run_keep(struct run *run, struct errmsg *failure)
{
    int error = 0;
    switch ((enum record_kind)run->agent.record) {
    case RECORD_BEGIN:
        error = keep_input(run);
        return error != 0 ? run_history_reason(error) : NULL;
    case RECORD_TOOL:
        return keep_result(run, failure);
    case RECORD_ATTEMPT:
        (*recorded_tool(run))->attempt++;
        return NULL;
    case RECORD_DELTA:
        exchange_keep_delta(run->exchange);
        return NULL;
    case RECORD_RETRY:
    case RECORD_MODEL:
    case RECORD_END:
        return NULL;
    }
    assert(!"unknown record kind");
    return NULL;
}
