/*
 * Runs replayed from their records: stories told record by record, those that no run can write and
 * what is said of them, and what makes a record a fault before anything is read of it. Every
 * history that chance comes upon is in tests/sim/test_replay_walk.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/replay.h"
#include "tests/lib/tape.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* --- stories --- */

/* A record a word: "begin2" of two turns; "model3" that asks for three tool calls; "attempt4.1" of
 * call c4, its first; "tool4" or "error4", its result; "retry1" behind the first failure of a model
 * call; "delta1", the first piece of a reply; or an outcome, with a + for the turn that
 * was begun and not recorded. */
struct story {
    const char *name;
    enum tool_effect effect;
    const char *records;
    const char *why; /* the last record cannot follow; NULL: all can */
};

static const char order[] = "this record does not follow the one before it";
static const char no_call[] = "the last reply did not ask for this call";
static const char no_turn[] = "it is not this call's turn to be attempted";
static const char no_number[] = "the number of the attempt is not one more than before";
static const char no_piece[] = "it is not the next piece of the reply";
static const char not_asked[] = "the model was not asked";
static const char not_run[] = "the tools were not run yet";
static const char not_so[] = "the run could not end so";
static const char no_turns[] = "not as many turns as the run has had";

#define NONE TOOL_EFFECT_NONE
#define NOOP TOOL_EFFECT_NOOP

static const struct story stories[] = {
    {"the default run", NOOP, "begin2 model1 attempt1.1 tool1 model0 completed", NULL},
    {"read-only tools", NONE, "begin2 model2 tool2 tool1 model0 completed", NULL},
    {"calls are numbered on", NOOP,
     "begin3 model2 attempt1.1 attempt2.1 tool2 tool1 model1 attempt3.1 tool3 model0 completed",
     NULL},
    {"too many turns", NOOP, "begin1 model1 failed", NULL},
    {"it may have timed out all the same", NOOP, "begin1 model1 timeout", NULL},
    {"failed before it was asked", NOOP, "begin2 failed", NULL},
    {"failed while it was asked", NOOP, "begin2 failed+", NULL},
    {"timed out between attempts", NOOP, "begin2 model2 attempt1.1 timeout", NULL},
    {"timed out while the tools ran", NOOP, "begin2 model2 attempt1.1 attempt2.1 timeout", NULL},
    {"timed out before the next turn", NOOP, "begin2 model1 attempt1.1 tool1 timeout", NULL},
    {"timed out in the next turn", NOOP, "begin2 model1 attempt1.1 tool1 timeout+", NULL},
    {"timed out behind the final reply", NOOP, "begin2 model0 timeout", NULL},
    {"a tool failed", NONE, "begin2 model2 error2 failed", NULL},
    {"and it had timed out before", NONE, "begin2 model2 error2 timeout", NULL},
    {"resumed, and halted", NOOP, "begin2 model2 attempt1.1 attempt2.1 tool1 unknown", NULL},
    {"halted between attempts", NOOP, "begin2 model2 attempt1.1 unknown", NULL},
    {"attempted anew", NOOP,
     "begin2 model2 attempt1.1 attempt2.1 tool1 attempt2.2 attempt2.3 tool2 model0 completed",
     NULL},
    {"attempted anew before all were", NOOP,
     "begin2 model3 attempt1.1 attempt2.1 attempt1.2 attempt2.2 attempt3.1 attempt1.3 attempt1.4 "
     "attempt2.3 attempt3.2 tool2 attempt1.5 attempt3.3 tool3 tool1 model0 completed",
     NULL},
    {"cut off more often than is kept", NOOP,
     "begin2 model2 attempt1.1 attempt1.2 attempt1.3 attempt1.4 attempt2.1 tool1 attempt2.2 tool2",
     NULL},
    {"a number too low behind whole passes", NOOP,
     "begin2 model1 attempt1.1 attempt1.2 attempt1.3 attempt1.4 attempt1.4", no_number},
    {"what was cut off in another turn", NOOP,
     "begin3 model2 attempt1.1 attempt1.2 attempt1.3 attempt1.4 attempt2.1 tool1 tool2 model1 "
     "attempt3.1 attempt3.1",
     no_number},
    {"an attempt fewer than could have been", NOOP,
     "begin2 model2 attempt1.1 attempt1.2 attempt1.3 attempt1.2", no_number},
    {"halted when retrying", NOOP, "begin2 model1 attempt1.1 attempt1.2 unknown", NULL},
    {"the numbers start anew each turn", NOOP,
     "begin3 model1 attempt1.1 attempt1.2 tool1 model2 attempt2.1 attempt2.2 attempt3.1 tool2",
     NULL},

    {"a reply that streams", NOOP, "begin2 delta1 delta2 model0 completed", NULL},
    {"it streams again for another process", NOOP,
     "begin2 delta1 delta2 delta1 delta2 delta3 model0 completed", NULL},
    {"asked again", NOOP, "begin2 retry1 retry2 model1 attempt1.1 tool1 retry1 model0 completed",
     NULL},
    {"asked again in mid stream", NOOP, "begin2 delta1 retry1 delta1 retry2 model0 completed",
     NULL},
    {"each turn streams", NOOP, "begin2 delta1 model1 attempt1.1 tool1 delta1 model0 completed",
     NULL},
    {"timed out in mid stream", NOOP, "begin2 delta1 timeout+", NULL},
    {"failed at last", NOOP, "begin2 retry1 failed+", NULL},

    {"a piece left out", NOOP, "begin2 delta1 delta3", no_piece},
    {"a piece twice", NOOP, "begin2 delta1 delta2 delta2", no_piece},
    {"not the first piece", NOOP, "begin2 delta2", no_piece},
    {"on where the failed one had ended", NOOP, "begin2 delta1 retry1 delta2", no_piece},
    {"on where another turn had ended", NOOP, "begin2 delta1 model1 attempt1.1 tool1 delta2",
     no_piece},
    {"not the first retry", NOOP, "begin2 retry2", no_number},
    {"the same retry again", NOOP, "begin2 retry1 retry1", no_number},
    {"the retries start anew each turn", NOOP, "begin2 retry1 model1 attempt1.1 tool1 retry2",
     no_number},
    {"a piece behind the final reply", NOOP, "begin2 model0 delta1", not_asked},
    {"a retry between attempts", NOOP, "begin2 model2 attempt1.1 retry1", not_asked},
    {"completed in mid stream", NOOP, "begin2 delta1 completed+", not_so},
    {"failed in mid stream of no turn", NOOP, "begin2 delta1 failed", not_so},
    {"unknown in mid stream", NOOP, "begin2 delta1 unknown+", not_so},
    {"a result in mid stream", NOOP, "begin2 model1 attempt1.1 tool1 delta1 tool1", no_call},

    {"nothing before begin", NOOP, "model1", order},
    {"not even the end", NOOP, "failed", order},
    {"begun twice", NOOP, "begin2 begin2", "a run begins once"},
    {"no turns", NOOP, "begin0", "a run of 1 to 65535 turns was to begin"},
    {"more turns than can be", NOOP, "begin65536", "a run of 1 to 65535 turns was to begin"},
    {"nothing was asked", NOOP, "begin2 attempt1.1", no_call},
    {"a result of nothing", NOOP, "begin2 tool1", no_call},
    {"two replies", NOOP, "begin2 model1 model1", not_asked},
    {"a reply behind the final one", NOOP, "begin2 model0 model0", not_asked},
    {"a reply before the results", NOOP, "begin2 model1 attempt1.1 model0", not_asked},
    {"a reply before all results", NONE, "begin2 model2 tool1 model0", not_asked},
    {"a result before the attempt", NOOP, "begin2 model1 tool1", not_run},
    {"a result before all attempts", NOOP, "begin2 model2 attempt1.1 tool1", not_run},
    {"a result before all attempts anew", NOOP,
     "begin2 model2 attempt1.1 attempt2.1 attempt1.2 tool1", not_run},
    {"an attempt of a read-only tool", NONE, "begin2 model1 attempt1.1",
     "read-only tools are not attempted"},
    {"the second attempt first", NOOP, "begin2 model2 attempt2.1", no_turn},
    {"an attempt left out", NOOP, "begin2 model3 attempt1.1 attempt3.1", no_turn},
    {"anew from the second", NOOP, "begin2 model2 attempt1.1 attempt2.1 attempt2.2", no_turn},
    {"beyond the turns", NOOP, "begin1 model1 attempt1.1", no_turn},
    {"not the first attempt", NOOP, "begin2 model1 attempt1.2", no_number},
    {"the same attempt again", NOOP, "begin2 model1 attempt1.1 attempt1.1", no_number},
    {"an attempt too many", NOOP, "begin2 model1 attempt1.1 attempt1.3", no_number},
    {"not the first of that call", NOOP, "begin2 model2 attempt1.1 attempt1.2 attempt2.2",
     no_number},
    {"attempted behind its result", NOOP, "begin2 model2 attempt1.1 attempt2.1 tool1 attempt1.2",
     no_call},
    {"two results", NONE, "begin2 model2 tool1 tool1", no_call},
    {"a call of another turn", NOOP, "begin3 model1 attempt1.1 tool1 model1 attempt1.1", no_call},
    {"a call of no turn", NOOP, "begin3 model1 attempt2.1", no_call},
    {"on with a tool's error", NONE, "begin2 model1 error1 model0", order},
    {"another result behind an error", NONE, "begin2 model2 error1 tool2", order},
    {"completed in spite of an error", NONE, "begin2 model1 error1 completed", not_so},
    {"unknown in spite of an error", NOOP, "begin2 model2 attempt1.1 attempt2.1 error1 unknown",
     not_so},
    {"a turn begun in spite of an error", NONE, "begin2 model1 error1 failed+", no_turns},
    {"completed without a reply", NOOP, "begin2 completed", not_so},
    {"completed before the results", NOOP, "begin2 model1 attempt1.1 completed", not_so},
    {"completed when it had failed", NOOP, "begin1 model1 completed", not_so},
    {"completed with a turn begun", NOOP, "begin2 model0 completed+", no_turns},
    {"failed with a turn that was not begun", NOOP, "begin2 model1 failed+", not_so},
    {"unknown without an attempt", NOOP, "begin2 model1 unknown", not_so},
    {"unknown with all results", NOOP, "begin2 model1 attempt1.1 tool1 unknown", not_so},
    {"unknown of read-only tools", NONE, "begin2 model2 tool1 unknown", not_so},
};

static bool takes(const char **word, const char *head)
{
    if (strncmp(*word, head, strlen(head)) != 0)
        return false;
    *word += strlen(head);
    return true;
}

static void add_end(struct tape *tape, const char *word)
{
    for (unsigned i = 0; i < OUTCOME_COUNT; i++) {
        const char *rest = word;
        if (!takes(&rest, outcome_name((enum outcome)i)))
            continue;
        tape_add_end(tape, (enum outcome)i, tape_facts(tape).models + (*rest == '+'));
        return;
    }
    fail_msg("\"%s\" is no record", word);
}

static void add_word(struct tape *tape, const char *word, enum tool_effect effect)
{
    char *rest = NULL;
    if (takes(&word, "begin")) {
        tape_add_begin(tape, (uint32_t)strtoul(word, NULL, 10), effect);
    } else if (takes(&word, "model")) {
        tape_add_model(tape, (uint32_t)strtoul(word, NULL, 10));
    } else if (takes(&word, "attempt")) {
        uint32_t call_id = (uint32_t)strtoul(word, &rest, 10);
        tape_add_attempt(tape, call_id, (uint32_t)strtoul(rest + 1, NULL, 10));
    } else if (takes(&word, "retry")) {
        tape_add_retry(tape, (uint32_t)strtoul(word, NULL, 10));
    } else if (takes(&word, "delta")) {
        tape_add_delta(tape, (uint32_t)strtoul(word, NULL, 10));
    } else if (takes(&word, "tool")) {
        tape_add_tool(tape, (uint32_t)strtoul(word, NULL, 10), false);
    } else if (takes(&word, "error")) {
        tape_add_tool(tape, (uint32_t)strtoul(word, NULL, 10), true);
    } else {
        add_end(tape, word);
    }
}

static void tell(struct tape *tape, const char *records, enum tool_effect effect)
{
    char words[512];
    char *rest = NULL;
    assert_true(strlen(records) < sizeof(words));
    (void)snprintf(words, sizeof(words), "%s", records);
    tape->count = 0;
    for (char *word = strtok_r(words, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest))
        add_word(tape, word, effect);
}

static void every_story_is_taken_or_refused(void **state)
{
    struct tape *tape = *state;
    for (size_t i = 0; i < COUNT_OF(stories); i++) {
        const struct story *story = &stories[i];
        struct replay r;
        const char *why = NULL;
        tell(tape, story->records, story->effect);
        enum replay_fault fault = tape_replay(tape, &r, &why);
        const char *taken = "it was taken";
        if (strcmp(why != NULL ? why : taken, story->why != NULL ? story->why : taken) != 0)
            fail_msg("%s: %s", story->name, why != NULL ? why : taken);
        if (story->why == NULL)
            continue;
        assert_int_equal(fault, REPLAY_TRANSITION);
        tape->count--; /* up to the last record it can be */
        assert_int_equal(tape_replay(tape, &r, &why), REPLAY_GOOD);
    }
}

/* A mask of 64 bits has its edges. */
static void a_turn_may_have_as_many_calls_as_there_are(void **state)
{
    struct tape *tape = *state;
    struct replay r = {0};
    struct record record = {.kind = RECORD_BEGIN, .begin = {.turns = 2, .effect = NOOP}};
    (void)tape;
    assert_null(replay_record(&r, &record));
    record = (struct record){.kind = RECORD_MODEL, .call_id = 1, .call_count = AGENT_TOOLS_MAX};
    assert_null(replay_record(&r, &record));
    for (uint32_t pass = 1; pass <= 2; pass++) {
        for (uint32_t call_id = 1; call_id <= AGENT_TOOLS_MAX; call_id++) {
            record = (struct record){.kind = RECORD_ATTEMPT, .call_id = call_id, .attempt = pass};
            assert_null(replay_record(&r, &record));
        }
    }
    for (uint32_t call_id = AGENT_TOOLS_MAX; call_id >= 1; call_id--) {
        record = (struct record){.kind = RECORD_TOOL, .call_id = call_id};
        assert_null(replay_record(&r, &record));
        assert_int_equal(replay_tool_calls(&r), AGENT_TOOLS_MAX + 1 - call_id);
    }
    record = (struct record){.kind = RECORD_MODEL, .call_id = AGENT_TOOLS_MAX + 2, .call_count = 1};
    assert_non_null(replay_record(&r, &record));
    record.call_id--;
    assert_null(replay_record(&r, &record));
}

static void totals_must_be_those_of_the_records(void **state)
{
    struct tape *tape = *state;
    tell(tape, "begin2 model1 attempt1.1 tool1 model0 completed", NOOP);
    const struct journal_record last = tape_at(tape, tape->count - 1);
    struct record record;
    struct record good;
    assert_null(record_read(&good, RECORD_END, last.payload, last.bytes));
    tape->count--;
    const struct {
        uint32_t *total;
        const char *why;
    } totals[] = {
        {&record.end.turns, no_turns},
        {&record.end.tool_calls, "not as many tool calls as there are results"},
        {&record.end.records, "not as many records as the run has"},
        {&record.end.prompt_tokens, "not as many tokens as the replies have"},
        {&record.end.completion_tokens, "not as many tokens as the replies have"},
    };
    for (size_t i = 0; i < COUNT_OF(totals); i++) {
        struct replay r;
        const char *why = NULL;
        assert_int_equal(tape_replay(tape, &r, &why), REPLAY_GOOD);
        record = good;
        ++*totals[i].total;
        assert_string_equal(replay_record(&r, &record), totals[i].why);
        *totals[i].total -= 2;
        assert_string_equal(replay_record(&r, &record), totals[i].why);
        record = good;
        record.end.prompt_tokens++;
        record.end.completion_tokens--;
        assert_non_null(replay_record(&r, &record));
        assert_null(replay_record(&r, &good)); /* what was refused has changed nothing */
        assert_true(replay_has_ended(&r));
        assert_int_equal(r.outcome, OUTCOME_COMPLETED);
    }
}

/* --- faults --- */

static enum replay_fault first_fault(const struct tape *tape, const char *expected_why)
{
    struct replay r;
    const char *why = NULL;
    enum replay_fault fault = tape_replay(tape, &r, &why);
    assert_string_equal(why, expected_why);
    assert_true(r.is_broken);
    struct record record;
    const struct journal_record any = tape_at(tape, 0);
    assert_int_equal(replay_step(&r, &any, &record, &why), REPLAY_BROKEN);
    return fault;
}

static void each_fault_has_its_name(void **state)
{
    struct tape *tape = *state;
    static const char story[] = "begin2 model1 attempt1.1 tool1 model0 completed";
    static const char digest[] =
        "its digest does not follow from its bytes and the record before it";

    tell(tape, story, NOOP);
    tape->records[2] = tape->records[3];
    assert_int_equal(first_fault(tape, "records before it are missing"), REPLAY_GAP);

    tell(tape, story, NOOP);
    tape->records[3] = tape->records[2];
    assert_int_equal(first_fault(tape, "a record of this seq was there before"), REPLAY_DUPLICATE);

    tell(tape, story, NOOP);
    tape->records[6] = tape->records[5];
    tape->records[6].seq = tape->count++;
    assert_int_equal(first_fault(tape, "the run had ended"), REPLAY_AFTER_END);

    for (uint32_t i = 0; i < 6; i++) {
        tell(tape, story, NOOP);
        tape->records[i].payload[tape->records[i].bytes - 3] ^= 1;
        assert_int_equal(first_fault(tape, digest), REPLAY_DIGEST);
        tell(tape, story, NOOP);
        tape->records[i].bytes--;
        assert_int_equal(first_fault(tape, digest), REPLAY_DIGEST);
        tell(tape, story, NOOP);
        tape->records[i].digest ^= UINT64_C(1) << 63;
        assert_int_equal(first_fault(tape, digest), REPLAY_DIGEST);
    }

    tell(tape, story, NOOP);
    tape->records[3].payload[tape->records[3].bytes++] = ' ';
    tape_seal(tape);
    assert_int_equal(first_fault(tape, "text behind the record"), REPLAY_PAYLOAD);

    tell(tape, story, NOOP);
    tape->records[3].kind = 9;
    assert_int_equal(first_fault(tape, "a record of an unknown kind"), REPLAY_PAYLOAD);

    tell(tape, "begin2 model1 tool1", NOOP);
    assert_int_equal(first_fault(tape, not_run), REPLAY_TRANSITION);
}

static void fault_names_are_as_ever(void **state)
{
    (void)state;
    static const char *const names[] = {"good",   "gap",     "duplicate",  "after end",
                                        "digest", "payload", "transition", "broken"};
    assert_int_equal(COUNT_OF(names), REPLAY_FAULT_COUNT);
    for (unsigned i = 0; i < COUNT_OF(names); i++)
        assert_string_equal(replay_fault_name((enum replay_fault)i), names[i]);
}

/* --- what is resumed --- */

static const struct resumption {
    const char *records;
    enum tool_effect effect;
    enum agent_retry retry;
    enum agent_action_kind action;
    enum record_kind record;
    uint32_t call;
} resumptions[] = {
    {"begin2", NOOP, AGENT_RETRY_HALT, AGENT_ASK_MODEL, 0, 0},
    {"begin2 model1", NOOP, AGENT_RETRY_HALT, AGENT_RECORD, RECORD_ATTEMPT, 0},
    {"begin2 model2 attempt1.1", NOOP, AGENT_RETRY_HALT, AGENT_RECORD, RECORD_END, 0},
    {"begin2 model2 attempt1.1", NOOP, AGENT_RETRY_UNKNOWN, AGENT_RECORD, RECORD_ATTEMPT, 0},
    {"begin2 model2 attempt1.1 attempt2.1 tool1", NOOP, AGENT_RETRY_UNKNOWN, AGENT_RECORD,
     RECORD_ATTEMPT, 1},
    {"begin2 model1 attempt1.1 tool1", NOOP, AGENT_RETRY_HALT, AGENT_ASK_MODEL, 0, 0},
    {"begin2 model2 tool1", NONE, AGENT_RETRY_HALT, AGENT_RUN_TOOLS, 0, 0},
    {"begin2 model2 error1", NONE, AGENT_RETRY_HALT, AGENT_RECORD, RECORD_END, 0},
    {"begin2 model0", NOOP, AGENT_RETRY_HALT, AGENT_RECORD, RECORD_END, 0},
    {"begin2 delta1", NOOP, AGENT_RETRY_HALT, AGENT_ASK_MODEL, 0, 0},
    {"begin2 retry1", NOOP, AGENT_RETRY_UNKNOWN, AGENT_ASK_MODEL, 0, 0},
    {"begin2 model1 attempt1.1 tool1 delta1", NOOP, AGENT_RETRY_HALT, AGENT_ASK_MODEL, 0, 0},
    {"begin2 model0 completed", NOOP, AGENT_RETRY_HALT, AGENT_FINISH, 0, 0},
};

static void a_run_goes_on_where_its_records_end(void **state)
{
    struct tape *tape = *state;
    for (size_t i = 0; i < COUNT_OF(resumptions); i++) {
        const struct resumption *c = &resumptions[i];
        struct replay r;
        const char *why = NULL;
        tell(tape, c->records, c->effect);
        assert_int_equal(tape_replay(tape, &r, &why), REPLAY_GOOD);
        struct agent agent = replay_agent(&r);
        struct agent_action action =
            agent_step(&agent, (struct agent_event){AGENT_RESUME, c->retry});
        if (action.kind != c->action ||
            (c->action == AGENT_RECORD && (action.record != c->record || action.call != c->call)))
            fail_msg("behind %s: another action", c->records);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_story_is_taken_or_refused),
        cmocka_unit_test(a_turn_may_have_as_many_calls_as_there_are),
        cmocka_unit_test(totals_must_be_those_of_the_records),
        cmocka_unit_test(each_fault_has_its_name),
        cmocka_unit_test(fault_names_are_as_ever),
        cmocka_unit_test(a_run_goes_on_where_its_records_end),
    };
    return cmocka_run_group_tests(tests, tape_set_up, tape_tear_down);
}
