/*
 * Every history that a small run can have, event by event, against the rules of the design, which
 * are written down here a second time: from any state that can be reached, any event that may
 * happen leads to an action that is allowed there. That a process is lost and the run resumed by
 * another may happen wherever a record is on its way, a few times a history. States that were
 * reached before are not gone through again, so the walk ends.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "engine/agent.h"

enum { NODES_MAX = 1 << 19, TOOLS_WALKED = 3, RESUMES_MAX = 2, RETRIES_WALKED = 2 };

/* What goes on outside of the agent, and what it has recorded. */
struct outside {
    uint8_t last; /* kind of the last record, 0: none */
    bool is_recording;
    bool is_asked;  /* the model is on it */
    bool has_reply; /* that is not recorded */
    bool must_end;  /* it failed: the next record is the end */
    bool is_finished;
    uint8_t calls;    /* of the last reply */
    uint8_t attempts; /* a bit a tool whose attempt is recorded or on its way, by this process */
    uint8_t unknown;  /* a bit a tool that another process has attempted; no result is recorded */
    uint8_t running;  /* a bit a tool */
    uint8_t answered; /* a bit a tool whose result has come and is not recorded */
    uint8_t recorded; /* a bit a tool */
    uint8_t models;
    bool has_run_tools; /* of the last reply, in this process */
    bool has_retried;
    bool must_end_unknown;
    uint8_t resumes;
};

struct node {
    struct agent agent;
    struct outside outside;
    bool is_used;
};

struct walk {
    struct node *nodes; /* those visited, by hash */
    size_t node_count;
    size_t finish_count;
    bool has_effect;
};

static uint8_t all_calls(const struct outside *o)
{
    return (uint8_t)((1u << o->calls) - 1);
}

static bool all_recorded(const struct outside *o)
{
    return o->recorded == all_calls(o);
}

/* The order of design.md: what may be recorded next. */
static void note_record(struct walk *walk, struct outside *o, struct agent_action action)
{
    assert_false(o->is_recording);
    assert_int_not_equal(o->last, RECORD_END);
    assert_true(!o->must_end || action.record == RECORD_END);
    o->is_recording = true;
    switch (action.record) {
    case RECORD_BEGIN:
        assert_int_equal(o->last, 0);
        break;
    case RECORD_MODEL:
        assert_true(o->has_reply);
        o->has_reply = false;
        o->models++;
        break;
    case RECORD_ATTEMPT:
        assert_true(walk->has_effect && !o->has_run_tools && !o->must_end_unknown);
        assert_true(o->last == RECORD_MODEL || o->last == RECORD_ATTEMPT || o->has_retried);
        assert_true(action.call < o->calls);
        assert_false(o->attempts >> action.call); /* in order, each once */
        assert_false(o->recorded >> action.call & 1);
        assert_true(o->unknown == 0 || o->has_retried);
        o->attempts |= (uint8_t)(1u << action.call);
        break;
    case RECORD_TOOL:
        assert_true(o->answered >> action.call & 1);
        assert_false(o->recorded >> action.call & 1);
        o->answered &= (uint8_t) ~(1u << action.call);
        o->recorded |= (uint8_t)(1u << action.call);
        break;
    case RECORD_DELTA:
        assert_true(o->is_asked && !o->must_end);
        break;
    case RECORD_RETRY:
        assert_true(!o->is_asked && !o->has_reply && !o->must_end);
        break;
    case RECORD_END:
        assert_true(o->last >= RECORD_BEGIN);
        o->must_end_unknown = false;
        break;
    }
    o->last = (uint8_t)action.record;
}

static void note_action(struct walk *walk, struct outside *o, const struct agent *agent,
                        struct agent_action action)
{
    bool ends_unknown = o->must_end_unknown;
    assert_true(!ends_unknown || (action.kind == AGENT_RECORD && action.record == RECORD_END));
    switch (action.kind) {
    case AGENT_WAIT:
        assert_true(o->is_recording || o->is_asked || o->running != 0);
        return;
    case AGENT_RECORD:
        note_record(walk, o, action);
        if (action.record == RECORD_END)
            assert_int_equal(agent->outcome == OUTCOME_UNKNOWN, ends_unknown);
        if (action.record == RECORD_END && agent->outcome == OUTCOME_COMPLETED)
            assert_true(o->models > 0 && o->calls == 0 && !o->must_end);
        return;
    case AGENT_ASK_MODEL:
        assert_true(!o->is_recording && !o->is_asked && !o->must_end && o->running == 0);
        assert_true(o->last == RECORD_BEGIN || all_recorded(o));
        assert_true(agent->turns <= agent->turns_max);
        o->is_asked = true;
        return;
    case AGENT_RUN_TOOLS:
        assert_true(!o->is_recording && !o->must_end && !o->has_run_tools && o->calls > 0);
        assert_int_equal(o->attempts | o->recorded, walk->has_effect ? all_calls(o) : o->recorded);
        o->has_run_tools = true;
        o->running = (uint8_t)(all_calls(o) & ~o->recorded);
        assert_int_equal(agent->open, o->running);
        return;
    case AGENT_FINISH:
        assert_false(o->is_finished);
        assert_true(!outcome_is_recorded(agent->outcome) || o->last == RECORD_END);
        o->is_finished = true;
        walk->finish_count++;
        return;
    }
    fail_msg("an action that is none");
}

static void note_event(struct outside *o, struct agent_event event)
{
    switch (event.kind) {
    case AGENT_START:
        return;
    case AGENT_RECORDED:
        o->is_recording = false;
        return;
    case AGENT_STREAMED:
        return;
    case AGENT_RETRIED:
        o->is_asked = false;
        return;
    case AGENT_REPLIED:
        o->is_asked = false;
        o->has_reply = true;
        o->calls = (uint8_t)event.value;
        o->attempts = 0;
        o->recorded = 0;
        o->has_run_tools = false;
        o->unknown = 0;
        return;
    case AGENT_RESULT:
        o->running &= (uint8_t) ~(1u << event.value);
        o->answered |= (uint8_t)(1u << event.value);
        return;
    case AGENT_FAIL: /* the caller lets go of everything but the record on its way */
        o->is_asked = false;
        o->running = 0;
        o->answered = 0;
        o->must_end = o->last != RECORD_END;
        return;
    case AGENT_RESUME: /* the record on its way is there; of the tools nothing more is heard */
        o->is_recording = false;
        o->is_asked = false;
        o->unknown = (uint8_t)((o->unknown | o->attempts) & ~o->recorded);
        o->attempts = 0;
        o->has_run_tools = false;
        o->running = 0;
        o->answered = 0;
        o->has_retried = event.value == AGENT_RETRY_UNKNOWN;
        o->must_end_unknown =
            o->unknown != 0 && o->last != RECORD_END && event.value == AGENT_RETRY_HALT;
        o->resumes++;
        return;
    }
}

/* Padding counts too: at worst a state is gone through twice. */
static bool are_same_bytes(const void *left, const void *right, size_t size)
{
    return memcmp(left, right, size) == 0;
}

/* Whether the node is new. */
static bool remember(struct walk *walk, const struct node *node)
{
    size_t at = 0;
    const unsigned char *bytes = (const unsigned char *)node;
    for (size_t i = 0; i < sizeof(*node); i++)
        at = at * 1099511628211u + bytes[i];
    at %= NODES_MAX;
    while (walk->nodes[at].is_used) {
        if (are_same_bytes(&walk->nodes[at], node, sizeof(*node)))
            return false;
        at = (at + 1) % NODES_MAX;
    }
    memcpy(&walk->nodes[at], node, sizeof(*node));
    assert_true(++walk->node_count < NODES_MAX / 2);
    return true;
}

static void explore(struct walk *walk, const struct node *node);

static void take(struct walk *walk, const struct node *node, enum agent_event_kind kind,
                 uint32_t value)
{
    struct node next;
    struct agent_event event = {kind, value};
    memcpy(&next, node, sizeof(next)); /* padding too: nodes are compared as bytes */
    if (kind == AGENT_RESUME) {        /* what replay makes of it: see tests/unit/test_replay.c */
        next.agent.results = 0;
        next.agent.is_failing = false;
        next.agent.outcome = node->outside.last == RECORD_END ? node->agent.outcome : 0;
        next.outside.must_end = false;
    }
    note_event(&next.outside, event);
    struct agent_action action = agent_step(&next.agent, event);
    note_action(walk, &next.outside, &next.agent, action);
    if (remember(walk, &next))
        explore(walk, &next);
}

/* Every event that may happen to a run in this state. */
static void explore(struct walk *walk, const struct node *node)
{
    const struct outside *o = &node->outside;
    if (o->is_finished)
        return;
    if (o->is_recording) {
        take(walk, node, AGENT_RECORDED, 0);
        take(walk, node, AGENT_FAIL, OUTCOME_JOURNAL);
        take(walk, node, AGENT_FAIL, OUTCOME_DIVERGED);
    }
    if (o->is_recording && o->resumes < RESUMES_MAX) {
        take(walk, node, AGENT_RESUME, AGENT_RETRY_HALT);
        take(walk, node, AGENT_RESUME, AGENT_RETRY_UNKNOWN);
    }
    if (o->is_asked && !o->is_recording) {
        take(walk, node, AGENT_STREAMED, 0);
        if (node->agent.retries < RETRIES_WALKED)
            take(walk, node, AGENT_RETRIED, 0);
    }
    if (o->is_asked && !o->is_recording)
        for (uint32_t calls = 0; calls <= TOOLS_WALKED; calls++)
            take(walk, node, AGENT_REPLIED, calls);
    for (uint32_t call = 0; call < TOOLS_WALKED; call++)
        if (o->running >> call & 1)
            take(walk, node, AGENT_RESULT, call);
    assert_true(o->is_recording || o->is_asked || o->running != 0); /* else it hangs for ever */
    take(walk, node, AGENT_FAIL, OUTCOME_FAILED);
    take(walk, node, AGENT_FAIL, OUTCOME_TIMEOUT);
}

static void every_history_of_small_runs_keeps_the_order(void **state)
{
    (void)state;
    for (uint16_t turns_max = 1; turns_max <= 3; turns_max++) {
        for (unsigned has_effect = 0; has_effect <= 1; has_effect++) {
            struct walk walk = {.nodes = calloc(NODES_MAX, sizeof(struct node)),
                                .has_effect = has_effect};
            struct node first;
            assert_non_null(walk.nodes);
            memset(&first, 0, sizeof(first));
            first.is_used = true;
            agent_init(&first.agent, turns_max, has_effect);
            take(&walk, &first, AGENT_START, 0);
            assert_true(walk.finish_count > 10);
            free(walk.nodes);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_history_of_small_runs_keeps_the_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
