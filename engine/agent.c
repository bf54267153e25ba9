/*
 * agent: see agent.h. The states stand in the order of the story.
 */
#include "engine/agent.h"

const char *outcome_name(enum outcome outcome)
{
    switch (outcome) {
    case OUTCOME_COMPLETED:
        return "completed";
    case OUTCOME_FAILED:
        return "failed";
    case OUTCOME_TIMEOUT:
        return "timeout";
    case OUTCOME_JOURNAL:
        return "journal";
    case OUTCOME_UNKNOWN:
        return "unknown";
    case OUTCOME_DIVERGED:
        return "diverged";
    case OUTCOME_COUNT:
        break;
    }
    return "invalid";
}

bool outcome_is_recorded(enum outcome outcome)
{
    return outcome != OUTCOME_JOURNAL && outcome != OUTCOME_DIVERGED;
}

const char *tool_effect_name(enum tool_effect effect)
{
    switch (effect) {
    case TOOL_EFFECT_NONE:
        return "none";
    case TOOL_EFFECT_NOOP:
        return "noop";
    case TOOL_EFFECT_LEDGER:
        return "ledger";
    }
    return "invalid";
}

void agent_init(struct agent *a, uint16_t turns_max, bool has_effect)
{
    *a = (struct agent){.state = AGENT_NEW, .turns_max = turns_max, .has_effect = has_effect};
}

static struct agent_action wait_more(void)
{
    return (struct agent_action){.kind = AGENT_WAIT};
}

static struct agent_action record(struct agent *a, enum agent_state state, enum record_kind kind,
                                  uint32_t call)
{
    assert(!a->is_recording);
    a->state = (uint8_t)state;
    a->is_recording = true;
    a->record = (uint8_t)kind;
    a->record_call = (uint8_t)call;
    return (struct agent_action){.kind = AGENT_RECORD, .record = kind, .call = call};
}

static struct agent_action ask_model(struct agent *a)
{
    a->state = AGENT_THINKING;
    a->turns++;
    a->retries = 0;
    return (struct agent_action){.kind = AGENT_ASK_MODEL};
}

/* The turn's model call once more. */
static struct agent_action ask_again(void)
{
    return (struct agent_action){.kind = AGENT_ASK_MODEL};
}

static struct agent_action run_tools(struct agent *a)
{
    a->state = AGENT_ACTING;
    return (struct agent_action){.kind = AGENT_RUN_TOOLS};
}

/* Records the attempt of the next open call of this pass; behind the last one the tools may run. */
static struct agent_action attempt_next(struct agent *a)
{
    uint64_t left = a->attempted < AGENT_TOOLS_MAX ? a->open >> a->attempted << a->attempted : 0;
    if (left == 0)
        return run_tools(a);
    uint32_t call = (uint32_t)__builtin_ctzll(left);
    a->attempted = (uint8_t)(call + 1);
    return record(a, AGENT_ATTEMPTING, RECORD_ATTEMPT, call);
}

static struct agent_action attempt_all(struct agent *a)
{
    a->attempted = 0;
    a->passes++;
    return attempt_next(a);
}

static struct agent_action end(struct agent *a, enum outcome outcome)
{
    a->outcome = (uint8_t)outcome;
    a->is_failing = false;
    return record(a, AGENT_ENDING, RECORD_END, 0);
}

/* The reply is recorded: it may be acted on. */
static struct agent_action act_on_reply(struct agent *a)
{
    if (a->tools == 0)
        return end(a, OUTCOME_COMPLETED);
    if (a->turns >= a->turns_max)
        return end(a, OUTCOME_FAILED); /* the model goes on asking: a loop without end */
    return a->has_effect ? attempt_all(a) : run_tools(a);
}

/* Records the next result that has come, else waits for one, else goes on to the next turn. */
static struct agent_action record_result(struct agent *a)
{
    if (a->is_recording)
        return wait_more();
    if (a->results != 0) {
        uint32_t call = (uint32_t)__builtin_ctzll(a->results);
        a->results &= a->results - 1;
        a->open &= ~(UINT64_C(1) << call);
        return record(a, AGENT_ACTING, RECORD_TOOL, call);
    }
    return a->open != 0 ? wait_more() : ask_model(a);
}

static struct agent_action recorded(struct agent *a)
{
    assert(a->is_recording);
    a->is_recording = false;
    if (a->is_failing)
        return end(a, a->outcome);
    switch ((enum agent_state)a->state) {
    case AGENT_BEGINNING:
        return ask_model(a);
    case AGENT_DECIDING:
        return act_on_reply(a);
    case AGENT_ATTEMPTING:
        return attempt_next(a);
    case AGENT_ACTING:
        return record_result(a);
    case AGENT_ENDING:
        a->state = AGENT_ENDED;
        return (struct agent_action){.kind = AGENT_FINISH};
    case AGENT_THINKING:
        return a->record == RECORD_RETRY ? ask_again() : wait_more();
    case AGENT_NEW:
    case AGENT_ENDED:
        break;
    }
    assert(!"a record was acked that the agent did not ask for");
    return wait_more();
}

/* Goes on as after an ack, unless calls were begun that nothing more will be heard of: of the
 * model, which is then asked again, or of tools. */
static __attribute__((cold, noinline)) struct agent_action resume(struct agent *a,
                                                                  enum agent_retry retry)
{
    assert(a->is_recording && a->results == 0);
    bool has_begun = a->state == AGENT_ATTEMPTING || a->state == AGENT_ACTING;
    if (!a->is_failing && a->state == AGENT_THINKING) {
        a->is_recording = false;
        return ask_again();
    }
    if (a->is_failing || !has_begun || a->open == 0)
        return recorded(a);
    a->is_recording = false;
    if (!a->has_effect)
        return run_tools(a);
    if (retry == AGENT_RETRY_HALT || a->passes == AGENT_PASSES_MAX)
        return end(a, OUTCOME_UNKNOWN);
    return attempt_all(a);
}

static struct agent_action fail(struct agent *a, enum outcome outcome)
{
    assert(outcome != OUTCOME_COMPLETED && outcome != OUTCOME_UNKNOWN);
    assert(a->state != AGENT_ENDED);
    if (!outcome_is_recorded(outcome)) {
        a->outcome = (uint8_t)outcome;
        a->state = AGENT_ENDED;
        return (struct agent_action){.kind = AGENT_FINISH};
    }
    assert(a->state != AGENT_NEW);
    if (a->state == AGENT_ENDING || a->is_failing)
        return wait_more(); /* its end is on its way or decided already: that one counts */
    a->results = 0;
    if (!a->is_recording)
        return end(a, outcome);
    a->outcome = (uint8_t)outcome;
    a->is_failing = true;
    return wait_more();
}

struct agent_action agent_step(struct agent *a, struct agent_event event)
{
    switch (event.kind) {
    case AGENT_START:
        assert(a->state == AGENT_NEW);
        return record(a, AGENT_BEGINNING, RECORD_BEGIN, 0);
    case AGENT_RECORDED:
        return recorded(a);
    case AGENT_REPLIED:
        assert(a->state == AGENT_THINKING && event.value <= AGENT_TOOLS_MAX);
        a->tools = (uint8_t)event.value;
        a->open = event.value > 0 ? UINT64_MAX >> (AGENT_TOOLS_MAX - event.value) : 0;
        a->passes = 0;
        return record(a, AGENT_DECIDING, RECORD_MODEL, 0);
    case AGENT_RESULT:
        assert(a->state == AGENT_ACTING && event.value < a->tools);
        assert((a->open & ~a->results & (UINT64_C(1) << event.value)) != 0);
        a->results |= UINT64_C(1) << event.value;
        return record_result(a);
    case AGENT_STREAMED:
        assert(a->state == AGENT_THINKING);
        return record(a, AGENT_THINKING, RECORD_DELTA, 0);
    case AGENT_RETRIED:
        assert(a->state == AGENT_THINKING && a->retries < AGENT_RETRIES_MAX);
        a->retries++;
        return record(a, AGENT_THINKING, RECORD_RETRY, 0);
    case AGENT_FAIL:
        return fail(a, (enum outcome)event.value);
    case AGENT_RESUME:
        return resume(a, (enum agent_retry)event.value);
    }
    assert(!"unknown event");
    return wait_more();
}
