/*
 * The audit of a whole store: what is wrong is found and named, what is right is not, whatever
 * memory there is, however many parts and threads; and the deliberately broken journals are told by
 * what they hold.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/digest.h"
#include "engine/verify.h"
#include "engine/worker.h"
#include "tests/lib/broken_journals.h"
#include "tests/lib/loop_sim.h"
#include "tests/lib/parsed_dist.h"
#include "tests/lib/script_journal.h"
#include "tests/lib/sim_world.h"
#include "tests/lib/tape.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define MUCH_MEMORY (UINT64_C(64) << 20)

/* A default run. */
static void tell_run(struct tape *tape)
{
    tape->count = 0;
    tape_add_begin(tape, 2, TOOL_EFFECT_NOOP);
    tape_add_model(tape, 1);
    tape_add_attempt(tape, 1, 1);
    tape_add_tool(tape, 1, false);
    tape_add_model(tape, 0);
    tape_add_end(tape, OUTCOME_COMPLETED, 2);
}

static void add_record(struct script *script, unsigned part, uint64_t campaign, uint64_t run,
                       const struct tape *tape, uint32_t index)
{
    struct journal_record record = tape_at(tape, index);
    record.campaign = campaign;
    record.run = run;
    script_add_copy(script, part, &record);
}

static void add_run(struct script *script, unsigned part, uint64_t campaign, uint64_t run,
                    const struct tape *tape)
{
    for (uint32_t i = 0; i < tape->count; i++)
        add_record(script, part, campaign, run, tape, i);
}

static struct verify_result audit(struct script *script, const struct verify_config *config)
{
    struct verify_result result;
    struct errmsg why = {.text = ""};
    struct journal *journal = script_open(script, JOURNAL_AUDIT);
    if (verify_journal(journal, config, &result, &why) != 0)
        fail_msg("%s", why.text);
    journal_close(journal);
    return result;
}

/* --- one fault --- */

enum damage {
    DAMAGE_NONE,
    DAMAGE_GAP,
    DAMAGE_DUPLICATE,
    DAMAGE_AFTER_END,
    DAMAGE_DIGEST,
    DAMAGE_PAYLOAD,
    DAMAGE_TRANSITION,
    DAMAGE_UNFINISHED, /* which is none */
    DAMAGE_COUNT,
};

struct damaged {
    enum replay_fault fault;
    uint32_t seq;
    uint32_t records;
};

/* Does to a default run what is to be found. */
static struct damaged damage(struct tape *tape, enum damage kind)
{
    tell_run(tape);
    switch (kind) {
    case DAMAGE_NONE:
        return (struct damaged){REPLAY_GOOD, 0, 6};
    case DAMAGE_GAP:
        memmove(&tape->records[2], &tape->records[3], 3 * sizeof(tape->records[0]));
        tape->count--;
        return (struct damaged){REPLAY_GAP, 3, 5};
    case DAMAGE_DUPLICATE:
        tape->records[3] = tape->records[2];
        return (struct damaged){REPLAY_DUPLICATE, 2, 6};
    case DAMAGE_AFTER_END:
        tape->records[6] = tape->records[5];
        tape->records[6].seq = 6;
        tape->count = 7;
        return (struct damaged){REPLAY_AFTER_END, 6, 7};
    case DAMAGE_DIGEST:
        tape->records[4].payload[9] ^= 1;
        return (struct damaged){REPLAY_DIGEST, 4, 6};
    case DAMAGE_PAYLOAD:
        tape->records[1].bytes--;
        tape_seal(tape);
        return (struct damaged){REPLAY_PAYLOAD, 1, 6};
    case DAMAGE_TRANSITION:
        tape->records[2] = tape->records[3];
        tape_seal(tape);
        return (struct damaged){REPLAY_TRANSITION, 2, 6};
    case DAMAGE_UNFINISHED:
        tape->count = 3;
        return (struct damaged){REPLAY_GOOD, 0, 3};
    case DAMAGE_COUNT:
        break;
    }
    fail_msg("no damage");
    return (struct damaged){0};
}

static void each_fault_is_found_where_it_is(void **state)
{
    struct tape *tape = *state;
    for (unsigned kind = 0; kind < DAMAGE_COUNT; kind++) {
        struct script script;
        script_init(&script, 1);
        tell_run(tape);
        add_run(&script, 0, 1, 6, tape);
        struct damaged expected = damage(tape, (enum damage)kind);
        add_run(&script, 0, 1, 7, tape);
        tell_run(tape);
        add_run(&script, 0, 1, 8, tape);
        const struct verify_config config = {.memory_bytes = MUCH_MEMORY, .threads = 2};
        struct verify_result result = audit(&script, &config);
        bool is_faulty = expected.fault != REPLAY_GOOD;
        assert_int_equal(result.campaigns, 1);
        assert_int_equal(result.runs, 3);
        assert_int_equal(result.runs_ended, 2 + (kind == DAMAGE_NONE));
        assert_int_equal(result.records, 12 + expected.records);
        assert_int_equal(result.runs_faulty, is_faulty);
        assert_int_equal(result.first_count, is_faulty);
        assert_int_equal(result.passes, 1);
        for (unsigned i = 0; i < REPLAY_FAULT_COUNT; i++)
            assert_int_equal(result.faults[i], is_faulty && i == (unsigned)expected.fault);
        if (is_faulty) {
            assert_int_equal(result.first[0].campaign, 1);
            assert_int_equal(result.first[0].run, 7);
            assert_int_equal(result.first[0].seq, expected.seq);
            assert_int_equal(result.first[0].fault, expected.fault);
            assert_true(result.first[0].why[0] != '\0');
        }
        script_free(&script);
    }
}

/* --- any store, any memory --- */

enum { STORE_RUNS = 700, STORES = 12, LARGE_RUN_RANGE = 1 << 22 };

static bool is_lower(const struct verify_fault *a, const struct verify_fault *b)
{
    return a->campaign != b->campaign ? a->campaign < b->campaign : a->run < b->run;
}

/* The ten lowest, the slow way. */
static void expect_fault(struct verify_result *expected, const struct verify_fault *fault)
{
    struct verify_fault *first = expected->first;
    unsigned at = expected->first_count;
    if (at < VERIFY_FAULTS_KEPT)
        expected->first_count++;
    else if (is_lower(fault, &first[at - 1]))
        at--;
    else
        return;
    first[at] = *fault;
    for (; at > 0 && is_lower(&first[at], &first[at - 1]); at--) {
        struct verify_fault swapped = first[at];
        first[at] = first[at - 1];
        first[at - 1] = swapped;
    }
}

static void expect_run(struct verify_result *expected, enum damage kind,
                       const struct damaged *damaged, uint64_t campaign, uint64_t run)
{
    expected->runs++;
    expected->records += damaged->records;
    expected->runs_ended += kind == DAMAGE_NONE;
    if (damaged->fault == REPLAY_GOOD)
        return;
    expected->runs_faulty++;
    expected->faults[damaged->fault]++;
    expect_fault(expected, &(struct verify_fault){.campaign = campaign,
                                                  .run = run,
                                                  .seq = damaged->seq,
                                                  .fault = damaged->fault});
}

/* Runs far apart in two campaigns, in any order, interleaved: a page holds few of them, so that a
 * small memory holds few runs. */
static void make_store(struct script *script, struct verify_result *expected, struct tape *tapes,
                       uint64_t seed)
{
    struct prng p = prng_stream(seed, 0, PRNG_TEST, 0);
    struct {
        struct tape *tape;
        uint64_t campaign;
        uint64_t run;
        unsigned part;
        uint32_t next;
    } open[8] = {{0}};
    unsigned left = STORE_RUNS;
    script_init(script, 1 + (unsigned)prng_below(&p, 4));
    script->campaigns[1] = 3;
    script->campaign_count = 2;
    *expected = (struct verify_result){.campaigns = 2};
    for (unsigned open_count = 1; open_count > 0;) {
        open_count = 0;
        for (unsigned i = 0; i < COUNT_OF(open); i++) {
            if (open[i].tape == NULL && left > 0) {
                enum damage kind = prng_below(&p, 8) == 0
                                       ? (enum damage)prng_below(&p, DAMAGE_COUNT)
                                       : DAMAGE_NONE;
                left--;
                open[i].tape = &tapes[i];
                open[i].campaign = prng_below(&p, 2) == 0 ? 1 : 3;
                /* No two the same: the lower bits are a counter's. */
                open[i].run = prng_below(&p, LARGE_RUN_RANGE) * 1024 + left;
                open[i].part = (unsigned)prng_below(&p, script->parts);
                open[i].next = 0;
                struct damaged damaged = damage(open[i].tape, kind);
                expect_run(expected, kind, &damaged, open[i].campaign, open[i].run);
            }
            if (open[i].tape == NULL)
                continue;
            open_count++;
            add_record(script, open[i].part, open[i].campaign, open[i].run, open[i].tape,
                       open[i].next++);
            if (open[i].next == open[i].tape->count)
                open[i].tape = NULL;
        }
    }
    for (size_t i = 0; i < script->count; i++)
        expected->bytes += script->records[i].record.bytes;
}

static void assert_same_result(const struct verify_result *is, const struct verify_result *expected)
{
    assert_int_equal(is->campaigns, expected->campaigns);
    assert_int_equal(is->runs, expected->runs);
    assert_int_equal(is->runs_ended, expected->runs_ended);
    assert_int_equal(is->runs_faulty, expected->runs_faulty);
    assert_int_equal(is->records, expected->records);
    assert_int_equal(is->bytes, expected->bytes);
    assert_int_equal(is->first_count, expected->first_count);
    for (unsigned i = 0; i < REPLAY_FAULT_COUNT; i++)
        assert_int_equal(is->faults[i], expected->faults[i]);
    for (unsigned i = 0; i < is->first_count; i++) {
        assert_int_equal(is->first[i].campaign, expected->first[i].campaign);
        assert_int_equal(is->first[i].run, expected->first[i].run);
        assert_int_equal(is->first[i].seq, expected->first[i].seq);
        assert_int_equal(is->first[i].fault, expected->first[i].fault);
    }
}

static void the_result_is_the_same_whatever_memory_and_threads(void **state)
{
    (void)state;
    static const uint64_t memories[] = {0, 200 << 10, 400 << 10, 1 << 20, MUCH_MEMORY};
    struct tape *tapes = calloc(8, sizeof(*tapes));
    unsigned passes_max = 0;
    assert_non_null(tapes);
    for (uint64_t seed = 1; seed <= STORES; seed++) {
        struct script script;
        struct verify_result expected;
        make_store(&script, &expected, tapes, seed);
        for (unsigned i = 0; i < COUNT_OF(memories); i++) {
            for (unsigned threads = 1; threads <= 4; threads += 3) {
                const struct verify_config config = {.memory_bytes = memories[i],
                                                     .threads = threads};
                struct verify_result result = audit(&script, &config);
                assert_same_result(&result, &expected);
                passes_max = result.passes > passes_max ? result.passes : passes_max;
                if (memories[i] == MUCH_MEMORY)
                    assert_int_equal(result.passes, 1);
            }
        }
        script_free(&script);
    }
    assert_true(passes_max >= 5);
    free(tapes);
}

/* --- campaigns --- */

static void one_campaign_is_audited_alone(void **state)
{
    struct tape *tape = *state;
    struct script script;
    script_init(&script, 2);
    script.campaigns[1] = 5;
    script.campaign_count = 2;
    tell_run(tape);
    add_run(&script, 0, 1, 3, tape);
    (void)damage(tape, DAMAGE_GAP);
    add_run(&script, 1, 5, 3, tape);
    struct verify_config config = {.memory_bytes = MUCH_MEMORY, .threads = 2};
    struct verify_result result = audit(&script, &config);
    assert_int_equal(result.campaigns, 2);
    assert_int_equal(result.runs, 2);
    assert_int_equal(result.runs_faulty, 1);
    config.campaign = 1;
    result = audit(&script, &config);
    assert_int_equal(result.campaigns, 1);
    assert_int_equal(result.runs, 1);
    assert_int_equal(result.records, 6);
    assert_int_equal(result.runs_faulty, 0);
    config.campaign = 5;
    result = audit(&script, &config);
    assert_int_equal(result.runs_faulty, 1);
    assert_int_equal(result.first[0].campaign, 5);
    script_free(&script);
}

static int audit_fails(struct script *script, const struct verify_config *config,
                       struct verify_result *result, const char *reason)
{
    struct errmsg why = {.text = ""};
    struct journal *journal = script_open(script, JOURNAL_AUDIT);
    int error = verify_journal(journal, config, result, &why);
    assert_string_equal(why.text, reason);
    journal_close(journal);
    return error;
}

static void what_is_not_listed_is_told(void **state)
{
    struct tape *tape = *state;
    struct script script;
    struct verify_result result;
    struct verify_config config = {.memory_bytes = MUCH_MEMORY, .threads = 2, .campaign = 4};
    script_init(&script, 2);
    tell_run(tape);
    add_run(&script, 0, 1, 3, tape);
    assert_int_equal(audit_fails(&script, &config, &result, "the journal holds no campaign 4"),
                     -ENOENT);
    add_run(&script, 0, 9, 3, tape);
    add_run(&script, 1, 4, 3, tape);
    config.campaign = 0;
    result = audit(&script, &config);
    assert_true(verify_has_faults(&result));
    assert_int_equal(result.unlisted_campaign, 4);
    assert_int_equal(result.unlisted_records, result.records / 3 * 2);
    assert_int_equal(result.runs, 3); /* they were looked at all the same */
    assert_int_equal(result.runs_ended, 3);
    assert_int_equal(result.outcomes[OUTCOME_COMPLETED], 3);
    assert_int_equal(result.runs_faulty, 0);
    config.memory_bytes = 0; /* however often they are read */
    for (uint64_t run = 4; run < 20000; run += 64)
        add_run(&script, 1, 7, run, tape);
    result = audit(&script, &config);
    assert_true(result.passes > 1);
    assert_int_equal(result.unlisted_records, result.records - result.records / result.runs);
    script_free(&script);
}

static void an_empty_store_is_good(void **state)
{
    (void)state;
    struct script script;
    script_init(&script, 3);
    script.campaign_count = 0;
    const struct verify_config config = {.threads = 1};
    struct verify_result result = audit(&script, &config);
    assert_int_equal(result.campaigns + result.runs + result.records + result.runs_faulty, 0);
    script_free(&script);
}

static void a_store_that_cannot_be_read_is_told(void **state)
{
    struct tape *tape = *state;
    struct script script;
    struct verify_result result;
    const struct verify_config config = {.memory_bytes = MUCH_MEMORY, .threads = 1};
    script_init(&script, 1);
    (void)damage(tape, DAMAGE_DIGEST);
    add_run(&script, 0, 1, 3, tape);
    add_run(&script, 0, 1, 4, tape);
    script.scan_fails_after = 9;
    assert_int_equal(audit_fails(&script, &config, &result, "part 0 cannot be read"), -EIO);
    assert_int_equal(result.records, 9); /* what was seen until then is told */
    assert_int_equal(result.runs_faulty, 1);
    assert_int_equal(result.first[0].run, 3);
    script_free(&script);
}

/* --- the broken journals --- */

enum { BROKEN_RUNS = 20, PROVOKED_RUN = 900 };

/* What verify finds in the store that each leaves, or why nothing of it can be seen there. */
static const struct expectation {
    enum fault fault;
    enum replay_fault found;
    const char *unseen;
} expectations[] = {
    {FAULT_NONE, REPLAY_GOOD, "it is not broken"},
    {FAULT_TWO_WINNERS, REPLAY_DUPLICATE, NULL},
    {FAULT_DUPLICATE, REPLAY_DUPLICATE, NULL},
    {FAULT_GAP, REPLAY_GAP, NULL},
    {FAULT_REORDERED, REPLAY_GAP, NULL},
    {FAULT_RUNS_REORDERED, REPLAY_GOOD, "the audit scans; recovery refuses that order"},
    {FAULT_EARLY_ACK, REPLAY_GOOD, "records are missing at the end only: the campaign counts"},
    {FAULT_OVERCLAIMED, REPLAY_GOOD, "it has survived"},
    {FAULT_LOST, REPLAY_GAP, NULL},
    {FAULT_LOST_AT_CLOSE, REPLAY_GOOD, "a run without its last record is an unfinished one"},
    {FAULT_STALE_READ, REPLAY_GOOD, "it is there when nobody writes"},
    {FAULT_MISCOUNTED, REPLAY_GOOD, "the audit counts for itself; the campaign compares"},
    {FAULT_ALL_KINDS, REPLAY_GOOD, "the audit asks for all kinds"},
    {FAULT_UNLISTED, REPLAY_GOOD, NULL}, /* an error */
    {FAULT_CUT_AT_NUL, REPLAY_DIGEST, NULL},
    {FAULT_MUTABLE, REPLAY_DIGEST, NULL},
    {FAULT_CONFLICT_ACCEPTED, REPLAY_GOOD, "the first bytes are there, and whole"},
    {FAULT_RETRY_REFUSED, REPLAY_GOOD, "what is there is right"},
    {FAULT_UNBOUNDED, REPLAY_GOOD, "what is there is right"},
    {FAULT_TORN, REPLAY_DIGEST, NULL},
    {FAULT_CALLBACK_TWICE, REPLAY_GOOD, "what is there is right"},
    {FAULT_CALLBACK_NEVER, REPLAY_GOOD, "what is there is right"},
    {FAULT_CALLBACK_INLINE, REPLAY_GOOD, "what is there is right"},
};

static const struct expectation *expectation_of(enum fault fault)
{
    for (size_t i = 0; i < COUNT_OF(expectations); i++)
        if (expectations[i].fault == fault)
            return &expectations[i];
    fail_msg("nothing is expected of fault %u", (unsigned)fault);
    return NULL;
}

/* Whether a worker comes to its end on it, and the next store does not find what it has left. */
static bool can_be_driven(const struct broken_journal *broken)
{
    return !broken->is_kept && broken->fault != FAULT_CALLBACK_TWICE &&
           broken->fault != FAULT_CALLBACK_NEVER && broken->fault != FAULT_CALLBACK_INLINE;
}

static void drive(struct journal *journal, unsigned index)
{
    struct campaign_config campaign = sim_campaign(BROKEN_RUNS);
    struct load load;
    struct errmsg why = {.text = ""};
    struct worker *w = calloc(1, sizeof(*w));
    assert_non_null(w);
    campaign.prompt_bytes = parsed_dist("8KB", DIST_BYTES);
    campaign.latency = latency_of("1ms");
    load_init(&load, BROKEN_RUNS, UINT64_MAX);
    *w = (struct worker){
        .config = &campaign,
        .loop_ops = &loop_sim_ops,
        .journal = journal,
        .load = &load,
        .index = index,
        .count = 2,
        .slots = 7,
        .pool_bytes_max = 1 << 24,
        .shape = {.seed = 1,
                  .turns = 2,
                  .tools = 1,
                  .tool_effect = TOOL_EFFECT_NOOP,
                  .prompt_bytes = &campaign.prompt_bytes,
                  .tool_latency = campaign.tool_latency},
    };
    assert_int_equal(worker_open(w, &why), 0);
    worker_run(w, LOOP_SIM_START_NS);
    worker_close(w);
    free(w);
}

static void on_provoked(struct journal_append *append, int result)
{
    (void)append;
    (void)result; /* what it was told is the conformance suite's */
}

static void append_one(struct journal_writer *writer, uint64_t run, uint32_t seq, uint64_t digest,
                       const char *payload, size_t bytes)
{
    struct journal_append append = {.done = on_provoked, .run = run, .seq = seq, .digest = digest};
    journal_append(writer, &append, seq == 0 ? RECORD_BEGIN : RECORD_MODEL, payload, bytes);
    journal_flush(writer);
    while (journal_deliver(writer) > 0)
        ;
}

/* What no run of ours does, and what the store is to keep from doing harm. */
static void provoke(struct journal *journal, enum fault fault)
{
    static const char with_nul[] = "{\"v\":1\0}";
    struct loop loop;
    struct errmsg why;
    struct journal_writer *writer = NULL;
    assert_int_equal(loop_open_ops(&loop, &loop_sim_ops, &why), 0);
    assert_int_equal(journal_writer_open(journal, 0, &loop, &writer, &why), 0);
    struct journal_record record;
    assert_int_equal(journal_read(writer, 3, 0, &record), 0);
    char *begin = malloc(record.bytes);
    uint32_t bytes = record.bytes;
    assert_non_null(begin);
    memcpy(begin, record.payload, bytes);
    if (fault == FAULT_GAP) {
        append_one(writer, PROVOKED_RUN, 0, DIGEST_START, begin, bytes);
        append_one(writer, PROVOKED_RUN, 2, record.digest, begin, bytes);
    } else if (fault == FAULT_MUTABLE) {
        begin[bytes / 2] ^= 1;
        append_one(writer, 3, 0, DIGEST_START, begin, bytes);
    } else if (fault == FAULT_CUT_AT_NUL) {
        append_one(writer, PROVOKED_RUN, 0, DIGEST_START, with_nul, sizeof(with_nul));
    }
    free(begin);
    journal_writer_close(writer);
    loop_close(&loop);
}

static void check_broken(const struct broken_journal *broken)
{
    const struct expectation *expected = expectation_of(broken->fault);
    const struct verify_config config = {.memory_bytes = MUCH_MEMORY, .threads = 1};
    const struct journal_config journal_config = {
        .uri = "broken", .writers = 2, .bytes_max = 1 << 24};
    struct journal *journal = NULL;
    struct verify_result result;
    struct errmsg why = {.text = ""};
    assert_int_equal(journal_open_ops(&journal, &broken->ops, &journal_config, &why), 0);
    drive(journal, 0);
    if (broken->fault == FAULT_TWO_WINNERS)
        drive(journal, 1);
    if (broken->fault != FAULT_LOST) /* whose acks are about what is not there */
        provoke(journal, broken->fault);
    assert_int_equal(verify_journal(journal, &config, &result, &why), 0);
    assert_int_equal(result.unlisted_records > 0, broken->fault == FAULT_UNLISTED);
    if (expected->found == REPLAY_GOOD && result.runs_faulty > 0)
        fail_msg("%s: %s", broken->name, result.first[0].why);
    if (expected->found != REPLAY_GOOD && result.faults[expected->found] == 0)
        fail_msg("%s: no %s was found", broken->name, replay_fault_name(expected->found));
    assert_in_range(result.runs, BROKEN_RUNS, BROKEN_RUNS + 1);
    journal_close(journal);
}

static void broken_journals_are_told_by_what_they_hold(void **state)
{
    (void)state;
    unsigned told = 0;
    for (const struct broken_journal *broken = broken_journals; broken->name != NULL; broken++) {
        const struct expectation *expected = expectation_of(broken->fault);
        if (can_be_driven(broken))
            check_broken(broken);
        else
            assert_non_null(expected->unseen);
        told += expected->unseen == NULL;
    }
    assert_int_equal(told, 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_fault_is_found_where_it_is),
        cmocka_unit_test(the_result_is_the_same_whatever_memory_and_threads),
        cmocka_unit_test(one_campaign_is_audited_alone),
        cmocka_unit_test(what_is_not_listed_is_told),
        cmocka_unit_test(an_empty_store_is_good),
        cmocka_unit_test(a_store_that_cannot_be_read_is_told),
        cmocka_unit_test(broken_journals_are_told_by_what_they_hold),
    };
    return cmocka_run_group_tests(tests, tape_set_up, tape_tear_down);
}
