/*
 * The agent's transition function: stories from start to finish by hand, and events that cannot
 * happen. Every history there is, is walked in tests/sim/test_agent_walk.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/agent.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* --- stories --- */

static const char *kind_name(enum record_kind kind)
{
    switch (kind) {
    case RECORD_BEGIN:
        return "begin";
    case RECORD_MODEL:
        return "model";
    case RECORD_ATTEMPT:
        return "attempt";
    case RECORD_TOOL:
        return "tool";
    case RECORD_END:
        return "end";
    case RECORD_RETRY:
        return "retry";
    case RECORD_DELTA:
        return "delta";
    }
    return "?";
}

/* What the agent wants, in words: what the tables below compare. */
static void describe(char text[64], const struct agent *a, struct agent_action action)
{
    switch (action.kind) {
    case AGENT_WAIT:
        (void)snprintf(text, 64, "wait");
        return;
    case AGENT_RECORD:
        if (action.record == RECORD_END)
            (void)snprintf(text, 64, "record end %s", outcome_name(a->outcome));
        else
            (void)snprintf(text, 64, "record %s %u", kind_name(action.record), action.call);
        return;
    case AGENT_ASK_MODEL:
        (void)snprintf(text, 64, "ask %u", a->turns);
        return;
    case AGENT_RUN_TOOLS:
        (void)snprintf(text, 64, "run %d tools", __builtin_popcountll(a->open));
        return;
    case AGENT_FINISH:
        (void)snprintf(text, 64, "finish %s", outcome_name(a->outcome));
        return;
    }
    (void)snprintf(text, 64, "?");
}

struct step {
    enum agent_event_kind event;
    uint32_t value;
    const char *action;
};

struct story {
    const char *name;
    uint16_t turns_max;
    bool has_effect;
    struct step steps[24]; /* up to the first without an action */
};

#define START AGENT_START, 0
#define ACK AGENT_RECORDED, 0
#define FAILED AGENT_FAIL, OUTCOME_FAILED
#define TIMEOUT AGENT_FAIL, OUTCOME_TIMEOUT
#define REFUSED AGENT_FAIL, OUTCOME_JOURNAL
#define DIVERGED AGENT_FAIL, OUTCOME_DIVERGED
#define HALT AGENT_RESUME, AGENT_RETRY_HALT
#define RETRY AGENT_RESUME, AGENT_RETRY_UNKNOWN

static const struct story stories[] = {
    {"the default run: six records",
     2,
     true,
     {{START, "record begin 0"},
      {ACK, "ask 1"},
      {AGENT_REPLIED, 1, "record model 0"},
      {ACK, "record attempt 0"},
      {ACK, "run 1 tools"},
      {AGENT_RESULT, 0, "record tool 0"},
      {ACK, "ask 2"},
      {AGENT_REPLIED, 0, "record model 0"},
      {ACK, "record end completed"},
      {ACK, "finish completed"}}},
    {"a read-only tool has no attempt",
     2,
     false,
     {{START, "record begin 0"},
      {ACK, "ask 1"},
      {AGENT_REPLIED, 1, "record model 0"},
      {ACK, "run 1 tools"},
      {AGENT_RESULT, 0, "record tool 0"},
      {ACK, "ask 2"},
      {AGENT_REPLIED, 0, "record model 0"},
      {ACK, "record end completed"},
      {ACK, "finish completed"}}},
    {"no tool at all",
     1,
     true,
     {{START, "record begin 0"},
      {ACK, "ask 1"},
      {AGENT_REPLIED, 0, "record model 0"},
      {ACK, "record end completed"},
      {ACK, "finish completed"}}},
    {"fewer turns than allowed",
     9,
     true,
     {{START, "record begin 0"},
      {ACK, "ask 1"},
      {AGENT_REPLIED, 0, "record model 0"},
      {ACK, "record end completed"},
      {ACK, "finish completed"}}},
    {"the last turn asks for tools again",
     1,
     true,
     {{START, "record begin 0"},
      {ACK, "ask 1"},
      {AGENT_REPLIED, 3, "record model 0"},
      {ACK, "record end failed"},
      {ACK, "finish failed"}}},
    {"results come in another order, and while one is being recorded",
     2,
     true,
     {{START, "record begin 0"},
      {ACK, "ask 1"},
      {AGENT_REPLIED, 4, "record model 0"},
      {ACK, "record attempt 0"},
      {ACK, "record attempt 1"},
      {ACK, "record attempt 2"},
      {ACK, "record attempt 3"},
      {ACK, "run 4 tools"},
      {AGENT_RESULT, 2, "record tool 2"},
      {AGENT_RESULT, 3, "wait"},
      {AGENT_RESULT, 0, "wait"},
      {ACK, "record tool 0"},
      {ACK, "record tool 3"},
      {ACK, "wait"},
      {AGENT_RESULT, 1, "record tool 1"},
      {ACK, "ask 2"},
      {AGENT_REPLIED, 0, "record model 0"},
      {ACK, "record end completed"},
      {ACK, "finish completed"}}},
    {"the result of the highest call",
     2,
     false,
     {{START, "record begin 0"},
      {ACK, "ask 1"},
      {AGENT_REPLIED, AGENT_TOOLS_MAX, "record model 0"},
      {ACK, "run 64 tools"},
      {AGENT_RESULT, 63, "record tool 63"},
      {ACK, "wait"}}},
    {"failed while begin is being recorded",
     2,
     true,
     {{START, "record begin 0"},
      {FAILED, "wait"},
      {ACK, "record end failed"},
      {ACK, "finish failed"}}},
    {"failed while thinking",
     2,
     true,
     {{START, "record begin 0"},
      {ACK, "ask 1"},
      {FAILED, "record end failed"},
      {ACK, "finish failed"}}},
    {"timed out while the reply is being recorded",
     2,
     true,
     {{START, "record begin 0"},
      {ACK, "ask 1"},
      {AGENT_REPLIED, 1, "record model 0"},
      {TIMEOUT, "wait"},
      {ACK, "record end timeout"},
      {ACK, "finish timeout"}}},
    {"timed out while the final reply is being recorded",
     2,
     true,
     {{START, "record begin 0"},
      {ACK, "ask 1"},
      {AGENT_REPLIED, 0, "record model 0"},
      {TIMEOUT, "wait"},
      {ACK, "record end timeout"},
      {ACK, "finish timeout"}}},
    {"timed out between two attempts: no tool runs",
     2,
     true,
     {{START, "record begin 0"},
      {ACK, "ask 1"},
      {AGENT_REPLIED, 2, "record model 0"},
      {ACK, "record attempt 0"},
      {TIMEOUT, "wait"},
      {ACK, "record end timeout"},
      {ACK, "finish timeout"}}},
    {"timed out while the tools run",
     2,
     true,
     {{START, "record begin 0"},
      {ACK, "ask 1"},
      {AGENT_REPLIED, 1, "record model 0"},
      {ACK, "record attempt 0"},
      {ACK, "run 1 tools"},
      {TIMEOUT, "record end timeout"},
      {ACK, "finish timeout"}}},
    {"failed while one result is being recorded and another waits: that one is dropped",
     2,
     false,
     {{START, "record begin 0"},
      {ACK, "ask 1"},
      {AGENT_REPLIED, 2, "record model 0"},
      {ACK, "run 2 tools"},
      {AGENT_RESULT, 0, "record tool 0"},
      {AGENT_RESULT, 1, "wait"},
      {FAILED, "wait"},
      {ACK, "record end failed"},
      {ACK, "finish failed"}}},
    {"the first failure of a run names the outcome",
     2,
     true,
     {{START, "record begin 0"},
      {FAILED, "wait"},
      {TIMEOUT, "wait"},
      {ACK, "record end failed"},
      {ACK, "finish failed"}}},
    {"timed out while its end is being recorded: it has completed",
     1,
     true,
     {{START, "record begin 0"},
      {ACK, "ask 1"},
      {AGENT_REPLIED, 0, "record model 0"},
      {ACK, "record end completed"},
      {TIMEOUT, "wait"},
      {ACK, "finish completed"}}},
    {"pieces of a reply are recorded while it streams",
     2,
     true,
     {{START, "record begin 0"},
      {ACK, "ask 1"},
      {AGENT_STREAMED, 0, "record delta 0"},
      {ACK, "wait"},
      {AGENT_STREAMED, 0, "record delta 0"},
      {ACK, "wait"},
      {AGENT_REPLIED, 0, "record model 0"},
      {ACK, "record end completed"},
      {ACK, "finish completed"}}},
    {"a model call that fails is made again",
     2,
     true,
     {{START, "record begin 0"},
      {ACK, "ask 1"},
      {AGENT_RETRIED, 0, "record retry 0"},
      {ACK, "ask 1"},
      {AGENT_STREAMED, 0, "record delta 0"},
      {ACK, "wait"},
      {AGENT_RETRIED, 0, "record retry 0"},
      {ACK, "ask 1"},
      {AGENT_REPLIED, 1, "record model 0"}}},
    {"failed while a piece is being recorded",
     2,
     true,
     {{START, "record begin 0"},
      {ACK, "ask 1"},
      {AGENT_STREAMED, 0, "record delta 0"},
      {FAILED, "wait"},
      {ACK, "record end failed"}}},
    {"timed out while a retry is being recorded",
     2,
     true,
     {{START, "record begin 0"},
      {ACK, "ask 1"},
      {AGENT_RETRIED, 0, "record retry 0"},
      {TIMEOUT, "wait"},
      {ACK, "record end timeout"}}},
    {"resumed in mid stream: the model is asked again",
     2,
     true,
     {{START, "record begin 0"},
      {ACK, "ask 1"},
      {AGENT_STREAMED, 0, "record delta 0"},
      {HALT, "ask 1"},
      {AGENT_REPLIED, 0, "record model 0"}}},
    {"resumed behind a retry",
     2,
     true,
     {{START, "record begin 0"},
      {ACK, "ask 1"},
      {AGENT_RETRIED, 0, "record retry 0"},
      {HALT, "ask 1"}}},
    {"begin is refused", 2, true, {{START, "record begin 0"}, {REFUSED, "finish journal"}}},
    {"a reply is refused",
     2,
     true,
     {{START, "record begin 0"},
      {ACK, "ask 1"},
      {AGENT_REPLIED, 1, "record model 0"},
      {REFUSED, "finish journal"}}},
    {"an attempt is refused: no tool runs",
     2,
     true,
     {{START, "record begin 0"},
      {ACK, "ask 1"},
      {AGENT_REPLIED, 1, "record model 0"},
      {ACK, "record attempt 0"},
      {REFUSED, "finish journal"}}},
    {"a result is refused",
     2,
     false,
     {{START, "record begin 0"},
      {ACK, "ask 1"},
      {AGENT_REPLIED, 2, "record model 0"},
      {ACK, "run 2 tools"},
      {AGENT_RESULT, 1, "record tool 1"},
      {REFUSED, "finish journal"}}},
    {"the end is refused",
     1,
     true,
     {{START, "record begin 0"},
      {ACK, "ask 1"},
      {AGENT_REPLIED, 0, "record model 0"},
      {ACK, "record end completed"},
      {REFUSED, "finish journal"}}},
    {"refused after it had failed",
     2,
     true,
     {{START, "record begin 0"}, {FAILED, "wait"}, {REFUSED, "finish journal"}}},
    {"diverged: nothing more is recorded",
     2,
     true,
     {{START, "record begin 0"},
      {ACK, "ask 1"},
      {AGENT_REPLIED, 1, "record model 0"},
      {DIVERGED, "finish diverged"}}},
    {"diverged at its first record", 2, true, {{DIVERGED, "finish diverged"}}},
    {"resumed behind begin: the model is asked",
     2,
     true,
     {{START, "record begin 0"}, {HALT, "ask 1"}}},
    {"resumed behind a reply: no call was attempted",
     2,
     true,
     {{START, "record begin 0"},
      {ACK, "ask 1"},
      {AGENT_REPLIED, 2, "record model 0"},
      {HALT, "record attempt 0"},
      {ACK, "record attempt 1"},
      {ACK, "run 2 tools"}}},
    {"resumed behind the final reply",
     2,
     true,
     {{START, "record begin 0"},
      {ACK, "ask 1"},
      {AGENT_REPLIED, 0, "record model 0"},
      {HALT, "record end completed"},
      {HALT, "finish completed"}}},
    {"resumed behind an attempt: what became of it is unknown",
     2,
     true,
     {{START, "record begin 0"},
      {ACK, "ask 1"},
      {AGENT_REPLIED, 2, "record model 0"},
      {ACK, "record attempt 0"},
      {HALT, "record end unknown"},
      {ACK, "finish unknown"}}},
    {"resumed behind a result, while another call has none",
     2,
     true,
     {{START, "record begin 0"},
      {ACK, "ask 1"},
      {AGENT_REPLIED, 2, "record model 0"},
      {ACK, "record attempt 0"},
      {ACK, "record attempt 1"},
      {ACK, "run 2 tools"},
      {AGENT_RESULT, 1, "record tool 1"},
      {HALT, "record end unknown"},
      {ACK, "finish unknown"}}},
    {"resumed behind the last result of a turn",
     2,
     true,
     {{START, "record begin 0"},
      {ACK, "ask 1"},
      {AGENT_REPLIED, 1, "record model 0"},
      {ACK, "record attempt 0"},
      {ACK, "run 1 tools"},
      {AGENT_RESULT, 0, "record tool 0"},
      {HALT, "ask 2"}}},
    {"attempted anew: the calls without a result, from the first, as often as it takes",
     2,
     true,
     {{START, "record begin 0"},
      {ACK, "ask 1"},
      {AGENT_REPLIED, 3, "record model 0"},
      {ACK, "record attempt 0"},
      {RETRY, "record attempt 0"},
      {ACK, "record attempt 1"},
      {ACK, "record attempt 2"},
      {ACK, "run 3 tools"},
      {AGENT_RESULT, 1, "record tool 1"},
      {RETRY, "record attempt 0"},
      {ACK, "record attempt 2"},
      {RETRY, "record attempt 0"},
      {ACK, "record attempt 2"},
      {ACK, "run 2 tools"},
      {AGENT_RESULT, 2, "record tool 2"},
      {AGENT_RESULT, 0, "wait"},
      {ACK, "record tool 0"},
      {ACK, "ask 2"}}},
    {"the call of the highest number is attempted anew",
     2,
     true,
     {{START, "record begin 0"},
      {ACK, "ask 1"},
      {AGENT_REPLIED, 1, "record model 0"},
      {ACK, "record attempt 0"},
      {RETRY, "record attempt 0"},
      {ACK, "run 1 tools"}}},
    {"read-only tools without a result just run again",
     2,
     false,
     {{START, "record begin 0"},
      {ACK, "ask 1"},
      {AGENT_REPLIED, 3, "record model 0"},
      {ACK, "run 3 tools"},
      {AGENT_RESULT, 1, "record tool 1"},
      {HALT, "run 2 tools"},
      {AGENT_RESULT, 0, "record tool 0"},
      {ACK, "wait"},
      {AGENT_RESULT, 2, "record tool 2"},
      {ACK, "ask 2"}}},
    {"resumed where a tool had failed: it has, whatever became of the others",
     2,
     true,
     {{START, "record begin 0"},
      {ACK, "ask 1"},
      {AGENT_REPLIED, 2, "record model 0"},
      {ACK, "record attempt 0"},
      {ACK, "record attempt 1"},
      {ACK, "run 2 tools"},
      {AGENT_RESULT, 1, "record tool 1"},
      {FAILED, "wait"},
      {RETRY, "record end failed"},
      {ACK, "finish failed"}}},
};

static void every_story_goes_as_told(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(stories); i++) {
        const struct story *story = &stories[i];
        struct agent agent;
        agent_init(&agent, story->turns_max, story->has_effect);
        for (const struct step *step = story->steps; step->action != NULL; step++) {
            char action[64];
            struct agent_event event = {step->event, step->value};
            describe(action, &agent, agent_step(&agent, event));
            if (strcmp(action, step->action) != 0)
                fail_msg("%s, step %d: \"%s\" instead of \"%s\"", story->name,
                         (int)(step - story->steps), action, step->action);
        }
    }
}

/* --- events that cannot happen --- */

struct mistake {
    const char *name;
    struct step steps[8]; /* the last one is the mistake */
};

static const struct mistake mistakes[] = {
    {"failed before it began", {{FAILED, ""}}},
    {"acked before it began", {{ACK, ""}}},
    {"started twice", {{START, ""}, {START, ""}}},
    {"a reply nobody asked for", {{START, ""}, {AGENT_REPLIED, 0, ""}}},
    {"acked while thinking", {{START, ""}, {ACK, ""}, {ACK, ""}}},
    {"too many tools", {{START, ""}, {ACK, ""}, {AGENT_REPLIED, AGENT_TOOLS_MAX + 1, ""}}},
    {"a result while thinking", {{START, ""}, {ACK, ""}, {AGENT_RESULT, 0, ""}}},
    {"a result while attempting",
     {{START, ""}, {ACK, ""}, {AGENT_REPLIED, 1, ""}, {ACK, ""}, {AGENT_RESULT, 0, ""}}},
    {"a result of no call",
     {{START, ""}, {ACK, ""}, {AGENT_REPLIED, 1, ""}, {ACK, ""}, {ACK, ""}, {AGENT_RESULT, 1, ""}}},
    {"a failure that is none", {{START, ""}, {AGENT_FAIL, OUTCOME_COMPLETED, ""}}},
    {"a failure that only a resumed run knows of",
     {{START, ""}, {AGENT_FAIL, OUTCOME_UNKNOWN, ""}}},
    {"resumed before it began", {{HALT, ""}}},
    {"resumed while it runs", {{START, ""}, {ACK, ""}, {HALT, ""}}},
    {"a second result of a call",
     {{START, ""},
      {ACK, ""},
      {AGENT_REPLIED, 1, ""},
      {ACK, ""},
      {ACK, ""},
      {AGENT_RESULT, 0, ""},
      {AGENT_RESULT, 0, ""}}},
    {"failed after it was over", {{START, ""}, {REFUSED, ""}, {FAILED, ""}}},
};

static void every_mistake_of_the_caller_asserts(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(mistakes); i++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            struct agent agent;
            (void)signal(SIGABRT, SIG_DFL);
            (void)close(STDERR_FILENO); /* what assert() prints is expected */
            agent_init(&agent, 2, true);
            for (const struct step *step = mistakes[i].steps; step->action != NULL; step++)
                (void)agent_step(&agent, (struct agent_event){step->event, step->value});
            _exit(0);
        }
        int status = 0;
        assert_int_equal(waitpid(child, &status, 0), child);
        if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT)
            fail_msg("%s: it passed", mistakes[i].name);
    }
}

/* At the bound it ends as if it had not been told to try again. */
static void calls_are_attempted_so_often_and_no_more(void **state)
{
    (void)state;
    struct agent agent;
    const struct agent_event events[] = {{START}, {ACK}, {AGENT_REPLIED, 1}, {ACK}};
    agent_init(&agent, 2, true);
    for (size_t i = 0; i < COUNT_OF(events); i++)
        (void)agent_step(&agent, events[i]);
    for (unsigned pass = 2; pass <= AGENT_PASSES_MAX; pass++)
        assert_int_equal(agent_step(&agent, (struct agent_event){RETRY}).record, RECORD_ATTEMPT);
    assert_int_equal(agent_step(&agent, (struct agent_event){RETRY}).record, RECORD_END);
    assert_int_equal(agent.outcome, OUTCOME_UNKNOWN);
}

static void every_outcome_has_a_name(void **state)
{
    (void)state;
    static const char *const names[OUTCOME_COUNT] = {"completed", "failed",  "timeout",
                                                     "journal",   "unknown", "diverged"};
    for (unsigned i = 0; i < OUTCOME_COUNT; i++)
        assert_string_equal(outcome_name((enum outcome)i), names[i]); /* they are on disks */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_story_goes_as_told),
        cmocka_unit_test(every_mistake_of_the_caller_asserts),
        cmocka_unit_test(calls_are_attempted_so_often_and_no_more),
        cmocka_unit_test(every_outcome_has_a_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
