/*
 * run: see run.h. First appending, then the model, then the tools, then what ties them together.
 */
#include "engine/run.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/digest.h"
#include "engine/exchange.h"
#include "engine/run_parts.h"

enum { SCRATCH_BYTES_MIN = 16 << 10 };

static void on_tool_due(struct timer *timer, uint64_t now_ns);

int run_env_open(struct run_env *env, size_t pool_bytes_max)
{
    pool_init(&env->pool, pool_bytes_max);
    env->scratch = malloc(SCRATCH_BYTES_MIN);
    env->scratch_bytes = SCRATCH_BYTES_MIN;
    return env->scratch != NULL ? 0 : -ENOMEM;
}

void run_env_close(struct run_env *env)
{
    free(env->scratch);
    env->scratch = NULL;
    pool_close(&env->pool);
}

static void fail_with(struct run *run, enum outcome outcome, const char *reason, size_t size,
                      uint64_t now_ns)
{
    struct errmsg *first = &run->env->first_error;
    bool is_decided = run->agent.state == AGENT_ENDING || run->agent.is_failing;
    if (is_decided && outcome_is_recorded(outcome))
        return; /* how it ends is on its way, or decided, already: that counts */
    if (first->text[0] == '\0')
        (void)errmsg_set(first, 0, "run %" PRIu64 ": %.*s", run_number(run), (int)size, reason);
    run_advance(run, (struct agent_event){AGENT_FAIL, outcome}, now_ns);
}

void run_fail(struct run *run, enum outcome outcome, const char *reason, uint64_t now_ns)
{
    fail_with(run, outcome, reason, strlen(reason), now_ns);
}

/* 0 when it is over before the wait began: a latency of 0 is due at once. */
static uint64_t time_until(uint64_t due_ns, uint64_t since_ns)
{
    return due_ns > since_ns ? due_ns - since_ns : 0;
}

/* --- records --- */

static void append_record(struct run *run, uint64_t now_ns)
{
    struct json_writer w = run_compose(run);
    if (!json_write_ok(&w)) {
        run_fail(run, OUTCOME_JOURNAL, "no memory to compose a record", now_ns);
        return;
    }
    journal_append(run->env->journal, &run->append, run->agent.record, run->env->scratch,
                   (size_t)(w.at - run->env->scratch));
}

/* What the run waits for is an append. While that of a delta is under way, it goes on waiting for
 * the model, unless the model is done, or the run has failed, meanwhile. */
static bool is_journals_turn(const struct run *run)
{
    const struct agent *agent = &run->agent;
    return agent->is_recording && (agent->record != RECORD_DELTA || agent->is_failing ||
                                   exchange_is_holding(run->exchange));
}

static __attribute__((noinline)) uint64_t settle_delta(struct run *run, uint64_t settled_ns,
                                                       uint64_t now_ns)
{
    if (is_journals_turn(run)) {
        run->time.journal_ns += time_until(settled_ns, run->since_ns);
        run->since_ns = now_ns;
    }
    return time_until(settled_ns, run->exchange->appended_ns);
}

/* How long the append took. What is between the ack and now, the run has waited for its scheduler.
 */
static inline uint64_t settle_append(struct run *run, bool is_delta, uint64_t now_ns)
{
    uint64_t settled_ns = journal_settled_ns(run->env->journal);
    if (__builtin_expect(is_delta, 0))
        return settle_delta(run, settled_ns, now_ns);
    uint64_t append_ns = time_until(settled_ns, run->since_ns);
    run->time.journal_ns += append_ns;
    run->since_ns = now_ns;
    return append_ns;
}

static void on_record_done(struct journal_append *append, int result)
{
    struct run *run = container_of(append, struct run, append);
    uint64_t now_ns = loop_clock_ns(&run->env->sched->loop);
    if (result == JOURNAL_AGAIN) {
        append_record(run, now_ns); /* the wait for room goes on counting as the journal's */
        return;
    }
    bool is_delta = run->agent.record == RECORD_DELTA;
    uint64_t append_ns = settle_append(run, is_delta, now_ns);
    if (result != JOURNAL_ACKED) {
        /* These three are about this record; anything else is about the store. */
        if (result != JOURNAL_CONFLICT && result != JOURNAL_GAP && result != JOURNAL_TOO_LARGE)
            run->env->has_store_failed = true;
        if (result == JOURNAL_FULL)
            run->env->is_journal_full = true;
        run_fail(run, OUTCOME_JOURNAL, journal_strerror(result), now_ns);
        return;
    }
    hist_record(run->env->append, append_ns);
    append->seq++;
    struct errmsg failure;
    const char *reason = run_keep(run, &failure);
    if (reason != NULL)
        run_fail(run, OUTCOME_FAILED, reason, now_ns);
    run_advance(run, (struct agent_event){AGENT_RECORDED, 0}, now_ns);
    if (is_delta && run->agent.state == AGENT_THINKING)
        exchange_go_on(run->exchange, now_ns);
}

/* --- the model --- */

/* Inline, so that the second caller does not take it out of the hot path. */
static inline bool add_tools(struct run *run, const struct message_call *calls, uint32_t count)
{
    struct pool *pool = &run->env->pool;
    struct tool_task **link = &run->tools;
    for (uint32_t call = 0; call < count; call++) {
        size_t capacity = 0;
        struct tool_task *task = pool_alloc(pool, sizeof(*task), &capacity);
        if (task == NULL)
            return false;
        timer_init(&task->timer, on_tool_due);
        task->run = run;
        task->next = NULL;
        task->call = call;
        task->call_id = run->calls_total + call + 1;
        task->capacity = (uint32_t)capacity;
        task->attempt = 0;
        task->message = calls[call];
        *link = task;
        link = &task->next;
    }
    return true;
}

bool run_add_tools(struct run *run, const struct message_call *calls, uint32_t count)
{
    return add_tools(run, calls, count);
}

static void on_reply_finished(struct run *run, const struct model_event *event, uint64_t now_ns)
{
    struct message_call calls[AGENT_TOOLS_MAX];
    const char *reason = NULL;
    int error = run->reply.error;
    if (error == 0)
        error = reply_finish(&run->reply, &run->history, &run->env->pool);
    if (error == 0)
        error =
            message_check_reply(&run->history, &run->reply, run->calls_total + 1, calls, &reason);
    if (error == 0 && (event->finish == MODEL_FINISH_TOOL_CALLS) != (run->reply.calls > 0)) {
        error = -EBADMSG;
        reason = "a reply whose finish reason does not fit its tool calls";
    }
    if (error == 0 && !add_tools(run, calls, run->reply.calls))
        error = -ENOMEM;
    if (error != 0) {
        if (error == -EMSGSIZE)
            reason = run_history_reason(error);
        run_fail(run, OUTCOME_FAILED, reason != NULL ? reason : strerrordesc_np(-error), now_ns);
        return;
    }
    run->completion_tokens = event->completion_tokens;
    run->prompt_tokens_total += run->model_call.prompt_tokens;
    run->completion_tokens_total += event->completion_tokens;
    run_advance(run, (struct agent_event){AGENT_REPLIED, run->reply.calls}, now_ns);
}

/* Pieces are written to the history as they come. The first that cannot be is remembered until the
 * stream ends: it is the model's to end it. Inline, so that the plain call's is one function. */
static inline void hear(struct run *run, const struct model_event *event, uint64_t now_ns)
{
    struct pool *pool = &run->env->pool;
    int error = 0;
    switch (event->kind) {
    case MODEL_TEXT:
        error = reply_add_text(&run->reply, &run->history, pool, event->bytes, event->size);
        break;
    case MODEL_TOOL_CALL:
        error = reply_add_call(&run->reply, &run->history, pool,
                               run->calls_total + event->call_index + 1, event->bytes, event->size);
        break;
    case MODEL_ARGUMENTS:
        error = reply_add_arguments(&run->reply, &run->history, pool, event->bytes, event->size);
        break;
    case MODEL_FINISH:
    case MODEL_ERROR:
        /* What is between the reply and now, the run has waited for its scheduler. */
        run->time.model_ns += time_until(event->due_ns, run->since_ns);
        now_ns = loop_clock_ns(&run->env->sched->loop);
        run->since_ns = now_ns;
        if (event->kind == MODEL_FINISH) {
            on_reply_finished(run, event, now_ns);
        } else {
            run->env->model_count.failures++;
            fail_with(run, OUTCOME_FAILED, event->bytes, event->size, now_ns);
        }
        return;
    }
    if (error != 0 && run->reply.error == 0)
        run->reply.error = (int16_t)error;
}

static void on_model_event(struct model_call *call, const struct model_event *event,
                           uint64_t now_ns)
{
    hear(container_of(call, struct run, model_call), event, now_ns);
}

void run_hear(struct run *run, const struct model_event *event, uint64_t now_ns)
{
    hear(run, event, now_ns);
}

bool run_compose_request(struct run *run, uint64_t *digest, size_t *size)
{
    struct json_writer w = run_scratch(run->env, request_bytes_max(&run->history));
    request_write(&w, &run->history);
    if (!json_write_ok(&w))
        return false;
    *size = (size_t)(w.at - run->env->scratch);
    *digest = digest_bytes(run->env->scratch, *size);
    return true;
}

static void ask_model(struct run *run, uint64_t now_ns)
{
    struct run_env *env = run->env;
    size_t size = 0;
    run->reply = (struct reply){.state = REPLY_NONE};
    if (exchange_is_wanted(&env->shape->exchange)) {
        exchange_ask(run, now_ns);
        return;
    }
    if (!run_compose_request(run, &run->request_digest, &size)) {
        run_fail(run, OUTCOME_FAILED, "no memory to compose a request", now_ns);
        return;
    }
    env->model_calls++;
    model_submit(env->model, &run->model_call, env->scratch, size, now_ns);
}

/* --- the tools --- */

/* `due_ns`: when its latency was over; 0 without one. */
static void finish_tool(struct tool_task *task, uint64_t due_ns)
{
    struct run *run = task->run;
    const struct run_shape *shape = run->env->shape;
    struct tool_context context = {
        .effect = shape->tool_effect,
        .ledger_fd = shape->ledger_fd,
        .run = run_number(run),
        .call_id = task->call_id,
        .attempt = task->attempt > 0 ? task->attempt : 1, /* read-only ones are not recorded */
    };
    struct json_span name = message_call_name(&run->history, &task->message);
    struct json_span arguments = message_call_arguments(&run->history, &task->message);
    tool_run(&context, &name, &arguments, &task->result);
    run->env->tool_calls++;
    uint64_t now_ns = loop_clock_ns(&run->env->sched->loop);
    if (!run->agent.is_recording) { /* else the wait counts as the journal's */
        run->time.tool_ns += time_until(due_ns != 0 ? due_ns : now_ns, run->since_ns);
        run->since_ns = now_ns;
    }
    run_advance(run, (struct agent_event){AGENT_RESULT, task->call}, now_ns);
}

static void on_tool_due(struct timer *timer, uint64_t now_ns)
{
    (void)now_ns;
    finish_tool(container_of(timer, struct tool_task, timer), timer->deadline_ns);
}

/* A tool without latency is a function call; its result goes no further than into an append, so the
 * stack stays flat. */
static void run_tools(struct run *run, uint64_t now_ns)
{
    struct run_env *env = run->env;
    struct tool_task *task = run->tools;
    while (task != NULL) {
        struct prng p =
            prng_stream(env->shape->seed, run_number(run), PRNG_TOOL_LATENCY, task->call_id);
        uint64_t latency_ns = dist_sample(&env->shape->tool_latency, &p);
        struct tool_task *next = task->next;
        if (latency_ns > 0)
            loop_timer_start(&env->sched->loop, &task->timer, now_ns + latency_ns);
        else
            finish_tool(task, 0);
        if (run->agent.state != AGENT_ACTING)
            return; /* the result could not be recorded: the run is over, and its tools are gone */
        task = next;
    }
}

void run_drop_tool(struct run *run, struct tool_task **link)
{
    struct tool_task *task = *link;
    *link = task->next;
    pool_free(&run->env->pool, task, task->capacity);
    run->calls_total++;
}

static void free_tools(struct run *run)
{
    while (run->tools != NULL) {
        struct tool_task *task = run->tools;
        run->tools = task->next;
        loop_timer_stop(&run->env->sched->loop, &task->timer);
        pool_free(&run->env->pool, task, task->capacity);
    }
}

/* --- the whole --- */

/* Lets go of the model and of tools whose time has not come: their effects have not happened. */
static void stop_waiting(struct run *run, uint64_t now_ns)
{
    if (!is_journals_turn(run))
        run->since_ns = now_ns; /* what it has waited for until now is not the journal's */
    if (run->exchange != NULL)
        exchange_stop(run->exchange);
    else if (run->agent.state == AGENT_THINKING)
        model_cancel(run->env->model, &run->model_call);
    for (struct tool_task *task = run->tools; task != NULL; task = task->next)
        loop_timer_stop(&run->env->sched->loop, &task->timer);
}

static void free_all(struct run *run)
{
    free_tools(run);
    if (run->exchange != NULL)
        exchange_close(run->exchange);
    history_free(&run->history, &run->env->pool);
}

static void finish(struct run *run, uint64_t now_ns)
{
    free_all(run);
    run->env->ended(run->env, run, now_ns);
}

void run_advance(struct run *run, struct agent_event event, uint64_t now_ns)
{
    if (event.kind == AGENT_FAIL)
        stop_waiting(run, now_ns);
    struct agent_action action = agent_step(&run->agent, event);
    switch (action.kind) {
    case AGENT_WAIT:
        return;
    case AGENT_RECORD:
        append_record(run, now_ns);
        return;
    case AGENT_ASK_MODEL:
        ask_model(run, now_ns);
        return;
    case AGENT_RUN_TOOLS:
        run_tools(run, now_ns);
        return;
    case AGENT_FINISH:
        finish(run, now_ns);
        return;
    }
    assert(!"unknown action");
}

void run_init(struct run *run, struct run_env *env, uint64_t number, uint64_t intended_ns,
              uint64_t now_ns)
{
    struct task task = run->task;
    *run = (struct run){
        .task = task,
        .env = env,
        .model_call = {.run = number, .on_event = on_model_event},
        .append = {.done = on_record_done, .run = number, .digest = DIGEST_START},
        .intended_ns = intended_ns,
        .started_ns = now_ns,
        .since_ns = now_ns,
    };
    timer_init(&run->model_call.timer, NULL);
}

void run_start(struct run *run, struct run_env *env, uint64_t number, uint64_t intended_ns,
               uint64_t now_ns)
{
    run_init(run, env, number, intended_ns, now_ns);
    agent_init(&run->agent, (uint16_t)env->shape->turns,
               tool_effect_is_declared(env->shape->tool_effect));
    run_advance(run, (struct agent_event){AGENT_START, 0}, now_ns);
}

void run_time_out(struct run *run, uint64_t now_ns)
{
    run_fail(run, OUTCOME_TIMEOUT, "-timeout is over", now_ns);
}

void run_abandon(struct run *run, uint64_t now_ns)
{
    if (is_journals_turn(run))
        run->time.journal_ns += time_until(now_ns, run->since_ns);
    stop_waiting(run, now_ns);
    free_all(run);
}
