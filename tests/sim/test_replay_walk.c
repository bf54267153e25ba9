/*
 * Runs that chance drives, kills and resumes, by the live agent, with what they record replayed as
 * verify does: every record that the engine can write is taken, replay knows of the agent what the
 * agent knows of itself, nothing recorded is ever done again, effects happen at most once unless
 * retries are asked for, and no record can be left out, moved, doubled or changed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/prng.h"
#include "engine/replay.h"
#include "tests/lib/tape.h"

enum {
    RUNS = 5000,
    TURNS_WALKED = 3,
    TOOLS_WALKED = 4,
    CALLS_WALKED = TURNS_WALKED * TOOLS_WALKED,
    KILLS_MAX = 8,
    RETRIES_WALKED = 3,
};

/* One run, over all its processes. */
struct life {
    struct prng chance;
    struct tape *tape; /* what is recorded, and the record on its way */
    struct agent agent;
    struct replay audit; /* of the records that are acked */
    bool has_effect;
    bool has_retried; /* a process of it was told to */
    bool is_asked;
    uint32_t pieces; /* of the reply that is streaming */
    bool is_over;
    bool is_loose; /* cut off between attempts more often than replay keeps, in a turn */
    uint64_t running;
    unsigned kills;
    unsigned effects[CALLS_WALKED + 1]; /* by call id */
};

/* What the walk has come upon: a test that reaches nothing passes, too. */
struct tally {
    unsigned outcomes[OUTCOME_COUNT];
    unsigned records;
    unsigned kills;
    unsigned swaps;
};

static bool happens(struct life *life, unsigned percent)
{
    return prng_below(&life->chance, 100) < percent;
}

/* --- what a process does --- */

static void act(struct life *life, struct agent_event event);

static uint32_t id_of(const struct life *life, uint32_t call)
{
    return tape_facts(life->tape).calls_before + call + 1;
}

/* How often a call is recorded as attempted, or to have a result. */
static uint32_t count_of(const struct tape *tape, enum record_kind kind, uint32_t call_id)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < tape->count; i++) {
        const struct tape_record *at = &tape->records[i];
        struct record record;
        assert_null(record_read(&record, at->kind, at->payload, at->bytes));
        count += at->kind == kind && record.call_id == call_id;
    }
    return count;
}

static void append(struct life *life, struct agent_action action)
{
    struct tape *tape = life->tape;
    switch (action.record) {
    case RECORD_BEGIN:
        assert_int_equal(tape->count, 0);
        tape_add_begin(tape, life->agent.turns_max,
                       life->has_effect ? TOOL_EFFECT_NOOP : TOOL_EFFECT_NONE);
        return;
    case RECORD_MODEL:
        tape_add_model(tape, life->agent.tools);
        return;
    case RECORD_ATTEMPT: {
        uint32_t call_id = id_of(life, action.call);
        assert_int_equal(count_of(tape, RECORD_TOOL, call_id), 0);
        tape_add_attempt(tape, call_id, count_of(tape, RECORD_ATTEMPT, call_id) + 1);
        return;
    }
    case RECORD_TOOL: {
        uint32_t call_id = id_of(life, action.call);
        assert_int_equal(count_of(tape, RECORD_TOOL, call_id), 0);
        tape_add_tool(tape, call_id, happens(life, 5));
        return;
    }
    case RECORD_RETRY:
        tape_add_retry(tape, life->agent.retries);
        return;
    case RECORD_DELTA:
        assert_true(life->is_asked);
        tape_add_delta(tape, ++life->pieces);
        return;
    case RECORD_END:
        tape_add_end(tape, life->agent.outcome, life->agent.turns);
        return;
    }
}

static void run_tools(struct life *life)
{
    assert_int_equal(life->running, 0);
    life->running = life->agent.open;
    for (uint32_t call = 0; call < life->agent.tools; call++)
        if (life->running >> call & 1)
            assert_int_equal(count_of(life->tape, RECORD_TOOL, id_of(life, call)), 0);
}

static void have_effect(struct life *life, uint32_t call)
{
    unsigned *effects = &life->effects[id_of(life, call)];
    ++*effects;
    if (life->has_effect && !life->has_retried)
        assert_int_equal(*effects, 1);
    assert_int_equal(count_of(life->tape, RECORD_TOOL, id_of(life, call)), 0);
}

static void act(struct life *life, struct agent_event event)
{
    if (event.kind == AGENT_FAIL) {
        life->is_asked = false;
        life->running = 0;
    }
    struct agent_action action = agent_step(&life->agent, event);
    switch (action.kind) {
    case AGENT_WAIT:
        return;
    case AGENT_RECORD:
        append(life, action);
        return;
    case AGENT_ASK_MODEL:
        assert_int_equal(tape_facts(life->tape).models, life->agent.turns - 1);
        life->is_asked = true;
        life->pieces = 0;
        return;
    case AGENT_RUN_TOOLS:
        run_tools(life);
        return;
    case AGENT_FINISH:
        life->is_over = true;
        return;
    }
}

/* --- what replay makes of it --- */

/* What a replay knows of an agent: all but what is lost with its process. */
static struct agent known(struct agent agent)
{
    agent.results = 0;
    agent.is_failing = false;
    if (agent.state != AGENT_ENDING)
        agent.outcome = OUTCOME_COMPLETED;
    return agent;
}

static void assert_same_agent(struct agent left, struct agent right)
{
    assert_int_equal(left.state, right.state);
    assert_int_equal(left.outcome, right.outcome);
    assert_int_equal(left.has_effect, right.has_effect);
    assert_int_equal(left.is_recording, right.is_recording);
    assert_int_equal(left.tools, right.tools);
    assert_int_equal(left.attempted, right.attempted);
    assert_int_equal(left.passes, right.passes);
    assert_int_equal(left.turns, right.turns);
    assert_int_equal(left.record, right.record);
    assert_int_equal(left.retries, right.retries);
    assert_int_equal(left.turns_max, right.turns_max);
    assert_int_equal(left.open, right.open);
}

/* The record on its way is there: verify may see it. Returns whether it is a tool's error. */
static bool audit(struct life *life)
{
    const char *why = NULL;
    struct record record;
    const struct journal_record from = tape_at(life->tape, life->tape->count - 1);
    if (replay_step(&life->audit, &from, &record, &why) != REPLAY_GOOD)
        fail_msg("record %u, %.*s: %s", from.seq, (int)from.bytes, from.payload, why);
    life->is_loose = life->is_loose || life->audit.reach_more > 0;
    assert_same_agent(known(replay_agent(&life->audit)), known(life->agent));
    assert_int_equal(replay_tool_calls(&life->audit), tape_facts(life->tape).results);
    return from.kind == RECORD_TOOL && record.is_error;
}

/* As run.c does it: a tool's error fails the run before the ack leads on. */
static void ack(struct life *life)
{
    if (audit(life))
        act(life, (struct agent_event){AGENT_FAIL, OUTCOME_FAILED});
    act(life, (struct agent_event){AGENT_RECORDED, 0});
}

/* The process is lost, wherever it was: tools may have had their effect, and what was on its way to
 * the journal may be there. Another one resumes the run. */
static void resume(struct life *life)
{
    struct replay r;
    const char *why = NULL;
    bool is_retry = happens(life, 70);
    for (uint32_t call = 0; call < life->agent.tools; call++)
        if ((life->running >> call & 1) != 0 && happens(life, 50))
            have_effect(life, call);
    if (life->agent.is_recording && happens(life, 50))
        life->tape->count--;
    else if (life->agent.is_recording)
        (void)audit(life); /* its error is known to replay */
    life->is_asked = false;
    life->running = 0;
    life->kills++;
    if (life->tape->count == 0) {
        agent_init(&life->agent, life->agent.turns_max, life->has_effect);
        act(life, (struct agent_event){AGENT_START, 0});
        return;
    }
    assert_int_equal(tape_replay(life->tape, &r, &why), REPLAY_GOOD);
    assert_memory_equal(&r, &life->audit, sizeof(r));
    life->agent = replay_agent(&r);
    life->has_retried = life->has_retried || is_retry;
    act(life, (struct agent_event){AGENT_RESUME, is_retry});
}

/* --- chance --- */

static void let_something_happen(struct life *life)
{
    uint32_t call = (uint32_t)prng_below(&life->chance, TOOLS_WALKED);
    if (life->kills < KILLS_MAX && happens(life, 9)) {
        resume(life);
    } else if (happens(life, 1)) {
        bool is_failure = happens(life, 50);
        act(life, (struct agent_event){AGENT_FAIL, is_failure ? OUTCOME_FAILED : OUTCOME_TIMEOUT});
    } else if (life->agent.is_recording && happens(life, 50)) {
        ack(life);
    } else if (life->is_asked && life->agent.is_recording) {
        return; /* the reply's end is held until the piece is acked */
    } else if (life->is_asked && happens(life, 20)) {
        act(life, (struct agent_event){AGENT_STREAMED, 0});
    } else if (life->is_asked && life->agent.retries < RETRIES_WALKED && happens(life, 10)) {
        life->is_asked = false;
        act(life, (struct agent_event){AGENT_RETRIED, 0});
    } else if (life->is_asked) {
        bool is_final = life->agent.turns >= life->agent.turns_max && happens(life, 90);
        uint32_t calls = is_final ? 0 : (uint32_t)prng_below(&life->chance, TOOLS_WALKED + 1);
        life->is_asked = false;
        act(life, (struct agent_event){AGENT_REPLIED, calls});
    } else if (life->running >> call & 1) {
        have_effect(life, call);
        life->running &= ~(UINT64_C(1) << call);
        act(life, (struct agent_event){AGENT_RESULT, call});
    }
}

static void live(struct life *life, struct tape *tape, uint64_t number)
{
    *life = (struct life){.chance = prng_stream(1, number, PRNG_TEST, 0), .tape = tape};
    tape->count = 0;
    life->has_effect = happens(life, 70);
    agent_init(&life->agent, (uint16_t)(1 + prng_below(&life->chance, TURNS_WALKED)),
               life->has_effect);
    act(life, (struct agent_event){AGENT_START, 0});
    while (!life->is_over)
        let_something_happen(life);
    assert_true(replay_has_ended(&life->audit));
    assert_int_equal(life->audit.outcome, life->agent.outcome);
}

/* --- what must be refused --- */

static bool is_refused(const struct tape *tape)
{
    struct replay r;
    const char *why = NULL;
    return tape_replay(tape, &r, &why) != REPLAY_GOOD;
}

static void copy(struct tape *to, const struct tape *from)
{
    to->count = from->count;
    memcpy(to->records, from->records, from->count * sizeof(from->records[0]));
}

static void drop(struct tape *tape, uint32_t at)
{
    tape->count--;
    memmove(&tape->records[at], &tape->records[at + 1],
            (tape->count - at) * sizeof(tape->records[0]));
}

static void swap(struct tape *tape, uint32_t at)
{
    struct tape_record kept = tape->records[at];
    tape->records[at] = tape->records[at + 1];
    tape->records[at + 1] = kept;
}

static void insert_copy(struct tape *tape, uint32_t at)
{
    memmove(&tape->records[at + 1], &tape->records[at],
            (tape->count - at) * sizeof(tape->records[0]));
    tape->count++;
}

/* Whether the kind is of what a model call leaves before its reply. */
static bool is_of_exchange(enum record_kind kind)
{
    return kind == RECORD_RETRY || kind == RECORD_DELTA;
}

/* Results of a turn come in any order. So may a first piece and a failure: it may have been of the
 * one before or of the next; and another process has the reply stream from its first piece. And
 * where a pass of attempts was cut off before the next one began, it may have been cut off an
 * attempt sooner. */
static bool may_swap(const struct tape *tape, uint32_t at)
{
    const struct tape_record *record = &tape->records[at];
    if (is_of_exchange(record->kind) && is_of_exchange(record[1].kind))
        return true;
    return record->kind == record[1].kind &&
           (record->kind == RECORD_TOOL || record->kind == RECORD_ATTEMPT);
}

/* The same call or attempt in all but its number. */
static void rewrite(struct tape *tape, uint32_t at, uint32_t call_id, uint32_t attempt)
{
    uint32_t count = tape->count;
    tape->count = at;
    if (tape->records[at].kind == RECORD_ATTEMPT)
        tape_add_attempt(tape, call_id, attempt);
    else
        tape_add_tool(tape, call_id, false);
    tape->count = count;
}

static void assert_rewritten_is_refused(struct tape *changed, const struct tape *tape, uint32_t at)
{
    const struct tape_record *from = &tape->records[at];
    struct record record;
    assert_null(record_read(&record, from->kind, from->payload, from->bytes));
    const uint32_t other[][2] = {
        {record.call_id + CALLS_WALKED, record.attempt},
        {record.call_id, record.attempt + 1},
        {record.call_id, record.attempt - 1},
    };
    unsigned changes = from->kind == RECORD_ATTEMPT ? record.attempt > 1 ? 3 : 2 : 1;
    for (unsigned i = 0; i < changes; i++) {
        copy(changed, tape);
        rewrite(changed, at, other[i][0], other[i][1]);
        tape_seal(changed);
        assert_true(is_refused(changed));
    }
}

/* The numbers and the digests of what was changed are those of a journal that was written so: it is
 * the story that does not hold. As they stand, they tell of it sooner. */
static void assert_changed_is_refused(struct life *life, struct tape *changed, struct tally *tally)
{
    static void (*const changes[])(struct tape * tape, uint32_t at) = {drop, swap, insert_copy};
    const struct tape *tape = life->tape;
    uint32_t at = (uint32_t)prng_below(&life->chance, tape->count - 1);
    for (unsigned i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
        copy(changed, tape);
        changes[i](changed, at);
        assert_true(is_refused(changed));
        tape_seal(changed);
        bool is_story = !is_refused(changed);
        assert_true(!is_story || (changes[i] == swap && may_swap(tape, at)));
        tally->swaps += is_story;
    }
    copy(changed, tape);
    insert_copy(changed, changed->count - 1); /* a second end */
    tape_seal(changed);
    assert_true(is_refused(changed));
    if (tape->records[at].kind == RECORD_TOOL ||
        (tape->records[at].kind == RECORD_ATTEMPT && !life->is_loose))
        assert_rewritten_is_refused(changed, tape, at);
}

static void what_is_written_is_replayed_and_nothing_else(void **state)
{
    (void)state;
    struct tally tally = {0};
    struct tape *tape = calloc(2, sizeof(*tape));
    assert_non_null(tape);
    for (uint64_t number = 0; number < RUNS; number++) {
        struct life life;
        live(&life, &tape[0], number);
        tally.outcomes[life.agent.outcome]++;
        tally.records += tape->count;
        tally.kills += life.kills;
        assert_changed_is_refused(&life, &tape[1], &tally);
    }
    free(tape);
    assert_in_range(tally.outcomes[OUTCOME_COMPLETED], RUNS / 50, RUNS);
    assert_in_range(tally.outcomes[OUTCOME_FAILED], RUNS / 50, RUNS);
    assert_in_range(tally.outcomes[OUTCOME_TIMEOUT], RUNS / 50, RUNS);
    assert_in_range(tally.outcomes[OUTCOME_UNKNOWN], RUNS / 50, RUNS);
    assert_true(tally.records > 5 * RUNS && tally.kills > RUNS && tally.swaps > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_replayed_and_nothing_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
