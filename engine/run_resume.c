/*
 * run_resume: a run taken up where its records end.
 *
 * Each record is held against the transition function (replay.h) and against what this run would
 * have written or asked at that point, then it gives the run what the live one remembered of it:
 * messages, tool calls, totals. Then the agent goes on.
 *
 * What made the live run fail once a record was there (a tool's error, a conversation that grew too
 * long) makes the resumed one fail, by the same name. Without memory for what is recorded nothing
 * can be said of a run, so nothing is: it stays as it is, to be resumed another time.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "engine/record.h"
#include "engine/recovery.h"
#include "engine/replay.h"
#include "engine/run_parts.h"

/* What comes of a replay besides a run that goes on. */
struct verdict {
    const char *why; /* the run cannot have written the record; or, out of memory, what for */
    bool is_out_of_memory;
    struct errmsg failure; /* what made the live run fail, too, once this was recorded; or empty */
};

static const char *no_memory(struct verdict *verdict, const char *why)
{
    verdict->is_out_of_memory = true;
    return why;
}

/* NULL for what is recorded all the same, and after which the live run failed. */
static const char *refuse_history(struct verdict *verdict, int error)
{
    const char *reason = run_history_reason(error);
    if (error != -EMSGSIZE)
        return no_memory(verdict, reason);
    (void)errmsg_set(&verdict->failure, error, "%s", reason);
    return NULL;
}

/* The begin record is a function of seed, run and shape: it must be the very same. */
static const char *take_begin(struct run *run, const struct journal_record *from,
                              struct verdict *verdict)
{
    struct json_writer w = run_compose_begin(run);
    if (!json_write_ok(&w))
        return no_memory(verdict, "no memory to compose a record");
    size_t size = (size_t)(w.at - run->env->scratch);
    if (size != from->bytes || memcmp(run->env->scratch, from->payload, size) != 0)
        return "it is not the begin that this run would write";
    int error = run_keep_input(run);
    return error == 0 ? NULL : refuse_history(verdict, error);
}

static bool is_same(const struct json_span *a, const struct json_span *b)
{
    return a->size == b->size && memcmp(a->bytes, b->bytes, a->size) == 0;
}

/* Whether the record keeps the history as this campaign does, once the reply is in it. */
static bool is_kept_alike(const struct run *run, const struct record_model *model)
{
    if (run->env->shape->history != HISTORY_SNAPSHOT)
        return !model->is_snapshot;
    struct json_span messages = messages_of_history(&run->history);
    return model->is_snapshot && is_same(&model->message, &messages);
}

static const char *take_model(struct run *run, const struct record *record, struct verdict *verdict)
{
    const struct record_model *model = &record->model;
    struct message_call calls[AGENT_TOOLS_MAX];
    const char *why = NULL;
    uint64_t digest = 0;
    size_t size = 0;
    if (!run_compose_request(run, &digest, &size))
        return no_memory(verdict, "no memory to compose a request");
    if (digest != model->request_digest)
        return "the request that it answers is not the one that this run would make";
    int error = reply_add_whole(&run->reply, &run->history, &run->env->pool, &record->text,
                                record->call_count);
    if (error == -EMSGSIZE) /* then it would not have been recorded */
        return run_history_reason(error);
    if (error != 0)
        return no_memory(verdict, run_history_reason(error));
    if (message_check_reply(&run->history, &run->reply, run->calls_total + 1, calls, &why) != 0)
        return why;
    if (!is_kept_alike(run, model))
        return "it does not hold the history as this run would keep it";
    if (!run_add_tools(run, calls, record->call_count))
        return no_memory(verdict, "no memory for tool calls");
    run->prompt_tokens_total += model->prompt_tokens;
    run->completion_tokens_total += model->completion_tokens;
    return NULL;
}

/* NULL for a call that waits for nothing. */
static struct tool_task **find_tool(struct run *run, uint32_t call_id)
{
    for (struct tool_task **link = &run->tools; *link != NULL; link = &(*link)->next)
        if ((*link)->call_id == call_id)
            return link;
    return NULL;
}

static const char *take_attempt(struct run *run, const struct record *record)
{
    struct tool_task **link = find_tool(run, record->call_id);
    if (link == NULL)
        return "it is of a call that is not open";
    struct json_span name = message_call_name(&run->history, &(*link)->message);
    struct json_span arguments = message_call_arguments(&run->history, &(*link)->message);
    if (!is_same(&record->tool, &name) || !is_same(&record->text, &arguments))
        return "it is not the call that the model asked for";
    (*link)->attempt = record->attempt;
    return NULL;
}

static const char *take_tool(struct run *run, const struct record *record, struct verdict *verdict)
{
    struct tool_task **link = find_tool(run, record->call_id);
    if (link == NULL)
        return "it is of a call that is not open";
    struct json_writer w = run_scratch(run->env, record->text.size);
    if (!json_write_ok(&w))
        return no_memory(verdict, "no memory for the result of a tool");
    size_t size = json_unescape(&record->text, w.at);
    if (record->is_error)
        run_name_tool_error(&verdict->failure, record->call_id, w.at, size);
    int error = history_add_result(&run->history, &run->env->pool, record->call_id, w.at, size);
    run_drop_tool(run, link);
    return error == 0 ? NULL : refuse_history(verdict, error);
}

static const char *take(struct run *run, const struct journal_record *from,
                        const struct record *record, struct verdict *verdict)
{
    switch (record->kind) {
    case RECORD_BEGIN:
        return take_begin(run, from, verdict);
    case RECORD_MODEL:
        return take_model(run, record, verdict);
    case RECORD_ATTEMPT:
        return take_attempt(run, record);
    case RECORD_TOOL:
        return take_tool(run, record, verdict);
    case RECORD_RETRY:
    case RECORD_DELTA:
        return NULL; /* of what is asked again, nothing is kept but in the agent */
    case RECORD_END:
        return "the run has ended already";
    }
    return "it is of no known kind";
}

/* The verdict is about the record at append.seq. */
static void replay_run(struct run *run, const struct recovered_run *recovered,
                       struct replay *replay, struct verdict *verdict)
{
    const char *why = recovered->count == 0 ? "it is not there" : NULL;
    for (size_t i = 0; i < recovered->count && why == NULL; i++) {
        const struct recovered_record *kept = &recovered->records[i];
        struct journal_record from = {.run = recovered->run,
                                      .digest = kept->digest,
                                      .payload = recovered->bytes + kept->offset,
                                      .seq = kept->seq,
                                      .bytes = kept->bytes,
                                      .kind = (enum record_kind)kept->kind};
        struct record record;
        run->append.seq = kept->seq;
        if (verdict->failure.text[0] != '\0')
            why = "the run had failed";
        else if (replay_step(replay, &from, &record, &why) == REPLAY_GOOD)
            why = take(run, &from, &record, verdict);
    }
    verdict->why = why;
}

/* Neither records anything: the run stays as it is. */
static void stop_run(struct run *run, const struct recovered_run *recovered,
                     const struct verdict *verdict, uint64_t now_ns)
{
    struct errmsg reason;
    if (recovered->fault != NULL)
        (void)errmsg_set(&reason, 0, "diverged: its records cannot be read: %s", recovered->fault);
    else if (verdict->is_out_of_memory)
        (void)errmsg_set(&reason, 0, "at seq %" PRIu32 ": %s", run->append.seq, verdict->why);
    else
        (void)errmsg_set(&reason, 0, "diverged at seq %" PRIu32 ": %s", run->append.seq,
                         verdict->why);
    run_fail(run, verdict->is_out_of_memory ? OUTCOME_JOURNAL : OUTCOME_DIVERGED, reason.text,
             now_ns);
}

/* An end that nothing explains that happens from now on. */
static void note_end(const struct run *run, const struct errmsg *failure)
{
    struct errmsg *first = &run->env->first_error;
    if (run->agent.state != AGENT_ENDING || first->text[0] != '\0')
        return;
    if (run->agent.outcome == OUTCOME_UNKNOWN)
        (void)errmsg_set(first, 0,
                         "run %" PRIu64 ": tool call c%" PRIu32
                         " was attempted and its result is not recorded: its outcome is unknown",
                         run_number(run), run->tools->call_id);
    else if (failure->text[0] != '\0')
        (void)errmsg_set(first, 0, "run %" PRIu64 ": %s", run_number(run), failure->text);
}

void run_resume(struct run *run, struct run_env *env, const struct recovered_run *recovered,
                uint64_t intended_ns, uint64_t now_ns)
{
    struct replay replay = {0};
    struct verdict verdict = {.why = NULL};
    run_init(run, env, recovered->run, intended_ns, now_ns);
    replay_run(run, recovered, &replay, &verdict);
    run->agent = replay_agent(&replay);
    if (verdict.why != NULL) {
        stop_run(run, recovered, &verdict, now_ns);
        return;
    }
    run->append.seq = replay.seq;
    run->append.digest = replay.digest;
    if (verdict.failure.text[0] != '\0')
        (void)agent_step(&run->agent, (struct agent_event){AGENT_FAIL, OUTCOME_FAILED});
    /* The records say which turns and effects there were; what comes next is the campaign's. */
    run_advance(run, (struct agent_event){AGENT_RESUME, env->shape->tool_retry}, now_ns);
    note_end(run, &verdict.failure);
}
