/*
 * replay: see replay.h. First what is kept, then a function a kind of record, then what verify asks
 * of each.
 */
#include "engine/replay.h"

#include "engine/base/digest.h"

static const char text_order[] = "this record does not follow the one before it";
static const char text_call[] = "the last reply did not ask for this call";

const char *replay_fault_name(enum replay_fault fault)
{
    switch (fault) {
    case REPLAY_GOOD:
        return "good";
    case REPLAY_GAP:
        return "gap";
    case REPLAY_DUPLICATE:
        return "duplicate";
    case REPLAY_AFTER_END:
        return "after end";
    case REPLAY_DIGEST:
        return "digest";
    case REPLAY_PAYLOAD:
        return "payload";
    case REPLAY_TRANSITION:
        return "transition";
    case REPLAY_BROKEN:
        return "broken";
    case REPLAY_FAULT_COUNT:
        break;
    }
    return "invalid";
}

/* --- what is kept --- */

/* As it was when its last record was on its way, and nothing else had happened. */
static struct agent agent_of(const struct replay *r)
{
    return (struct agent){
        .state = r->state,
        .outcome = r->outcome,
        .has_effect = r->has_effect,
        .is_recording = r->state != AGENT_NEW,
        .tools = r->tools,
        .attempted = r->attempted,
        .passes = r->passes,
        .record = r->record,
        .retries = r->retries,
        .turns = r->turns,
        .turns_max = r->turns_max,
        .open = r->open,
    };
}

static void keep_agent(struct replay *r, const struct agent *a)
{
    assert(a->is_recording && !a->is_failing && a->results == 0);
    r->state = a->state;
    r->outcome = a->outcome & 7u;
    r->has_effect = a->has_effect;
    r->tools = a->tools;
    r->attempted = a->attempted;
    r->passes = a->passes;
    r->record = a->record;
    r->retries = a->retries;
    r->turns = a->turns;
    r->turns_max = a->turns_max;
    r->open = a->open;
}

struct agent replay_agent(const struct replay *r)
{
    struct agent a = agent_of(r);
    if (r->has_error) /* it was decided when the record was acked: fail() in run.c */
        (void)agent_step(&a, (struct agent_event){AGENT_FAIL, OUTCOME_FAILED});
    return a;
}

uint32_t replay_tool_calls(const struct replay *r)
{
    return r->calls + r->tools - (uint32_t)__builtin_popcountll(r->open);
}

/* Sums of both kinds of tokens in one word: what differs in either differs here, but for one chance
 * in four thousand million. */
static uint32_t tokens_sum(uint32_t prompt_tokens, uint32_t completion_tokens)
{
    return prompt_tokens * UINT32_C(0x9e3779b1) + completion_tokens;
}

static bool asks_to_record(struct agent_action action, enum record_kind kind, uint32_t call)
{
    return action.kind == AGENT_RECORD && action.record == kind && action.call == call;
}

static struct agent_action step(struct agent *a, enum agent_event_kind kind, uint32_t value)
{
    return agent_step(a, (struct agent_event){kind, value});
}

/* --- begin and model --- */

static const char *replay_begin(struct replay *r, const struct record_begin *begin)
{
    struct agent a;
    if (r->state != AGENT_NEW)
        return "a run begins once";
    if (begin->turns == 0 || begin->turns > UINT16_MAX)
        return "a run of 1 to 65535 turns was to begin";
    agent_init(&a, (uint16_t)begin->turns, begin->effect != TOOL_EFFECT_NONE);
    (void)step(&a, AGENT_START, 0);
    keep_agent(r, &a);
    return NULL;
}

/* The agent as the model is at work for it: NULL, or why it is not. A stream that was cut off, as
 * by a kill, leaves it as one that goes on. */
static const char *think(const struct replay *r, struct agent *a)
{
    *a = agent_of(r);
    (void)step(a, AGENT_RECORDED, 0);
    return a->state == AGENT_THINKING ? NULL : "the model was not asked";
}

static const char *replay_retry(struct replay *r, const struct record *record)
{
    struct agent a;
    const char *why = think(r, &a);
    if (why != NULL)
        return why;
    if (record->attempt != a.retries + 1u || record->attempt > AGENT_RETRIES_MAX)
        return "the number of the attempt is not one more than before";
    (void)step(&a, AGENT_RETRIED, 0);
    keep_agent(r, &a);
    r->pieces = 0;
    return NULL;
}

/* A reply streams from its beginning, again where the process that had asked was lost. */
static const char *replay_delta(struct replay *r, uint32_t piece)
{
    struct agent a;
    const char *why = think(r, &a);
    if (why != NULL)
        return why;
    if (piece != 1 && piece != r->pieces + 1)
        return "it is not the next piece of the reply";
    (void)step(&a, AGENT_STREAMED, 0);
    keep_agent(r, &a);
    r->pieces = piece;
    return NULL;
}

static const char *replay_model(struct replay *r, const struct record *record)
{
    struct agent a;
    const char *why = think(r, &a);
    if (why != NULL)
        return why;
    uint32_t calls = r->calls + r->tools;
    if (record->call_count > 0 && record->call_id != calls + 1)
        return "its tool calls are not numbered on from those before";
    (void)step(&a, AGENT_REPLIED, record->call_count);
    keep_agent(r, &a);
    r->calls = calls;
    r->tokens += tokens_sum(record->model.prompt_tokens, record->model.completion_tokens);
    r->pieces = 0;
    r->reach_more = 0;
    for (unsigned i = 0; i < REPLAY_REACH_MAX; i++)
        r->reach[i] = 0;
    return NULL;
}

/* --- attempt and tool --- */

/* The last pass of attempts is over; if it came to not every call, up to which it did. */
static void keep_reach(struct replay *r)
{
    bool is_whole = r->attempted == AGENT_TOOLS_MAX || r->open >> r->attempted == 0;
    if (r->passes == 0 || is_whole)
        return;
    for (unsigned i = 0; i < REPLAY_REACH_MAX; i++) {
        if (r->reach[i] == 0) {
            r->reach[i] = r->attempted;
            return;
        }
    }
    r->reach_more++;
}

/* Each pass that has come to a call has attempted it once. */
static bool is_attempt_number(const struct replay *r, uint32_t call, uint32_t attempt)
{
    uint32_t most = r->passes;
    for (unsigned i = 0; i < REPLAY_REACH_MAX; i++)
        most -= r->reach[i] != 0 && r->reach[i] <= call;
    return attempt <= most && attempt + r->reach_more >= most;
}

/* The call of the turn, from 0, which is open; or AGENT_TOOLS_MAX. */
static uint32_t open_call(const struct replay *r, uint32_t call_id)
{
    uint32_t call = call_id - r->calls - 1;
    return call < r->tools && (r->open >> call & 1) != 0 ? call : AGENT_TOOLS_MAX;
}

static const char *replay_attempt(struct replay *r, const struct record *record)
{
    struct agent a = agent_of(r);
    uint32_t call = open_call(r, record->call_id);
    if (call == AGENT_TOOLS_MAX)
        return text_call;
    if (!r->has_effect)
        return "read-only tools are not attempted";
    /* On with this pass, or a new one, which only a resumed run begins. */
    bool is_new = r->passes > 0 && call < r->attempted;
    struct agent_action action =
        is_new ? step(&a, AGENT_RESUME, AGENT_RETRY_UNKNOWN) : step(&a, AGENT_RECORDED, 0);
    if (!asks_to_record(action, RECORD_ATTEMPT, call))
        return "it is not this call's turn to be attempted";
    struct replay next = *r;
    if (is_new)
        keep_reach(&next);
    keep_agent(&next, &a);
    if (!is_attempt_number(&next, call, record->attempt))
        return "the number of the attempt is not one more than before";
    *r = next;
    return NULL;
}

static const char *replay_tool(struct replay *r, const struct record *record)
{
    struct agent a = agent_of(r);
    uint32_t call = open_call(r, record->call_id);
    if (call == AGENT_TOOLS_MAX)
        return text_call;
    struct agent_action action = step(&a, AGENT_RECORDED, 0);
    if (a.state != AGENT_ACTING || (action.kind != AGENT_RUN_TOOLS && action.kind != AGENT_WAIT))
        return "the tools were not run yet";
    (void)step(&a, AGENT_RESULT, call);
    keep_agent(r, &a);
    r->has_error = record->is_error;
    return NULL;
}

/* --- end --- */

/* It failed before its last record was acked, or else after, when it may have asked the model for
 * one turn more: the turns tell. */
static struct agent_action replay_failure(const struct replay *r, struct agent *a,
                                          const struct record_end *end)
{
    if (end->turns == r->turns || r->has_error) {
        (void)step(a, AGENT_FAIL, end->outcome);
        return step(a, AGENT_RECORDED, 0);
    }
    struct agent_action action = step(a, AGENT_RECORDED, 0);
    return action.kind == AGENT_ASK_MODEL ? step(a, AGENT_FAIL, end->outcome) : action;
}

static const char *replay_end(struct replay *r, const struct record_end *end)
{
    struct agent a = agent_of(r);
    struct agent_action action = {.kind = AGENT_WAIT};
    switch (end->outcome) {
    case OUTCOME_COMPLETED:
        action = step(&a, AGENT_RECORDED, 0);
        break;
    case OUTCOME_FAILED:
    case OUTCOME_TIMEOUT:
        action = replay_failure(r, &a, end);
        break;
    case OUTCOME_UNKNOWN:
        a = replay_agent(r); /* a tool's error is known, whatever became of the other calls */
        action = step(&a, AGENT_RESUME, AGENT_RETRY_HALT);
        break;
    case OUTCOME_JOURNAL:
    case OUTCOME_DIVERGED:
    case OUTCOME_COUNT:
        return "an outcome that is not recorded";
    }
    if (!asks_to_record(action, RECORD_END, 0) || a.outcome != (uint8_t)end->outcome)
        return "the run could not end so";
    if (end->turns != a.turns)
        return "not as many turns as the run has had";
    if (end->tool_calls != replay_tool_calls(r))
        return "not as many tool calls as there are results";
    if (end->records != r->seq + 1)
        return "not as many records as the run has";
    if (tokens_sum(end->prompt_tokens, end->completion_tokens) != r->tokens)
        return "not as many tokens as the replies have";
    keep_agent(r, &a);
    return NULL;
}

/* --- the whole --- */

const char *replay_record(struct replay *r, const struct record *record)
{
    const char *why = NULL;
    if ((r->state == AGENT_NEW && record->kind != RECORD_BEGIN) || replay_has_ended(r) ||
        (r->has_error && record->kind != RECORD_END))
        return text_order;
    switch (record->kind) {
    case RECORD_BEGIN:
        why = replay_begin(r, &record->begin);
        break;
    case RECORD_MODEL:
        why = replay_model(r, record);
        break;
    case RECORD_ATTEMPT:
        why = replay_attempt(r, record);
        break;
    case RECORD_TOOL:
        why = replay_tool(r, record);
        break;
    case RECORD_END:
        why = replay_end(r, &record->end);
        break;
    case RECORD_RETRY:
        why = replay_retry(r, record);
        break;
    case RECORD_DELTA:
        why = replay_delta(r, record->attempt);
        break;
    }
    r->seq += why == NULL;
    return why;
}

static enum replay_fault check(struct replay *r, const struct journal_record *from,
                               struct record *record, const char **why)
{
    *why = "a record before it had a fault";
    if (r->is_broken)
        return REPLAY_BROKEN;
    *why = "records before it are missing";
    if (from->seq > r->seq)
        return REPLAY_GAP;
    *why = "a record of this seq was there before";
    if (from->seq < r->seq)
        return REPLAY_DUPLICATE;
    *why = "the run had ended";
    if (replay_has_ended(r))
        return REPLAY_AFTER_END;
    *why = "its digest does not follow from its bytes and the record before it";
    if (digest_chain(r->digest, from->payload, from->bytes) != from->digest)
        return REPLAY_DIGEST;
    *why = record_read(record, from->kind, from->payload, from->bytes);
    if (*why != NULL)
        return REPLAY_PAYLOAD;
    *why = replay_record(r, record);
    if (*why != NULL)
        return REPLAY_TRANSITION;
    r->digest = from->digest;
    return REPLAY_GOOD;
}

enum replay_fault replay_step(struct replay *r, const struct journal_record *from,
                              struct record *record, const char **why)
{
    static_assert(DIGEST_START == 0, "a replay of all zeroes is at the start of the chain");
    enum replay_fault fault = check(r, from, record, why);
    r->is_broken = fault != REPLAY_GOOD;
    return fault;
}
