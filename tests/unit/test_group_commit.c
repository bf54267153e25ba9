/* Group commit above a store that settles when the test says so: order, bounds, fairness,
 * callbacks, results. Lanes, depth and retries are test_group_commit_lanes.c's. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/base/digest.h"
#include "engine/base/list.h"
#include "engine/base/prng.h"
#include "engine/loop.h"
#include "journal/backend.h"
#include "journal/batch.h"
#include "tests/lib/manual_journal.h"

enum { RECORDS_MAX = JOURNAL_BATCH_RECORDS_MAX, LARGE_BYTES = JOURNAL_PAYLOAD_BYTES_MAX };

static void setup(struct manual *manual)
{
    assert_true(manual_open(manual, 1, 1, 0));
    assert_int_equal(journal_durability(manual->journal), DURABILITY_POWER);
}

static void teardown(struct manual *manual)
{
    assert_true(manual_drain(manual));
    manual_close(manual);
}

static void what_arrives_meanwhile_leaves_as_one(void **state)
{
    (void)state;
    struct manual manual;
    struct note notes[10] = {0};
    char payload[] = "payload";

    setup(&manual);
    journal_flush(manual.writer);
    assert_int_equal(manual.commits, 0);
    for (unsigned i = 0; i < 3; i++)
        note_append(&manual, &notes[i], payload, 7);
    memset(payload, '?', 7); /* copied by now */
    assert_int_equal(manual.commits, 0);
    assert_true(journal_is_busy(manual.writer));
    journal_flush(manual.writer);
    assert_int_equal(manual.held[0]->count, 3);
    assert_memory_equal(manual.held[0]->bytes + manual.held[0]->entries[2].offset, "payload", 7);
    assert_int_equal(manual.held[0]->entries[2].digest, digest_chain(5, "payload", 7));
    assert_int_equal(notes[2].append.digest, digest_chain(5, "payload", 7));
    assert_int_equal(manual.held[0]->entries[2].result, JOURNAL_UNSET);

    for (unsigned i = 3; i < 10; i++)
        note_append(&manual, &notes[i], "other", 5);
    journal_flush(manual.writer); /* one is in flight */
    assert_int_equal(journal_deliver(manual.writer), 0);
    manual_settle(&manual, 0, JOURNAL_ACKED);
    assert_int_equal(notes[0].fired, 0);
    journal_flush(manual.writer); /* what is settled is out of the way, though not delivered */
    assert_int_equal(manual.commits, 2);
    assert_int_equal(manual.held[0]->count, 7);
    assert_int_equal(journal_deliver(manual.writer), 3);
    manual_settle(&manual, 0, JOURNAL_CONFLICT);
    assert_int_equal(journal_deliver(manual.writer), 7);
    for (unsigned i = 0; i < 10; i++) {
        assert_int_equal(notes[i].fired, 1);
        assert_int_equal(notes[i].result, i < 3 ? JOURNAL_ACKED : JOURNAL_CONFLICT);
        assert_true(i == 0 || notes[i].order == notes[i - 1].order + 1);
    }
    struct journal_totals totals = journal_writer_totals(manual.writer);
    assert_int_equal(totals.records, 3);
    assert_int_equal(totals.bytes, 21);
    assert_int_equal(totals.refused, 7);
    assert_int_equal(totals.unknown, 0);
    assert_int_equal(totals.batches, 2);
    assert_int_equal(totals.retries, 0);
    assert_false(journal_is_busy(manual.writer));
    teardown(&manual);
}

static void a_result_that_is_not_set_is_no_ack(void **state)
{
    (void)state;
    struct manual manual;
    struct note note = {0};
    setup(&manual);
    note_append(&manual, &note, "", 0);
    journal_flush(manual.writer);
    struct journal_batch *batch = manual.held[0];
    manual.held_count = 0;
    journal_batch_done(manual.writer, batch, 1);
    assert_int_equal(journal_deliver(manual.writer), 1);
    assert_int_equal(note.result, -EIO);
    assert_int_equal(journal_writer_totals(manual.writer).records, 0);
    teardown(&manual);
}

/* What follows a refused record in its run goes with it; other runs do not. */
static void what_follows_a_refused_record_is_refused(void **state)
{
    (void)state;
    static const struct {
        int refusal;
        int follower;
    } cases[] = {
        {JOURNAL_CONFLICT, JOURNAL_GAP},
        {JOURNAL_GAP, JOURNAL_GAP},
        {JOURNAL_FULL, JOURNAL_FULL},
        {-ENOMEM, -ENOMEM},
    };
    struct manual manual;
    setup(&manual);
    for (unsigned c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        struct note notes[8] = {0};
        for (unsigned i = 0; i < 8; i++) {
            notes[i].append.run = i % 2;
            notes[i].append.seq = i / 2;
            note_append(&manual, &notes[i], "x", 1);
        }
        journal_flush(manual.writer);
        manual.held[0]->entries[6].result = JOURNAL_ACKED; /* it was there before */
        journal_batch_refuse(manual.held[0], 2, cases[c].refusal);
        journal_batch_fail(manual.held[0], JOURNAL_STOPPED); /* only what has no result yet */
        manual_settle(&manual, 0, JOURNAL_ACKED);
        assert_int_equal(journal_deliver(manual.writer), 8);
        assert_int_equal(notes[0].result, JOURNAL_STOPPED);
        assert_int_equal(notes[2].result, cases[c].refusal);
        assert_int_equal(notes[4].result, cases[c].follower);
        assert_int_equal(notes[6].result, JOURNAL_ACKED);
        for (unsigned i = 1; i < 8; i += 2)
            assert_int_equal(notes[i].result, JOURNAL_STOPPED);
    }
    struct journal_totals totals = journal_writer_totals(manual.writer);
    assert_int_equal(totals.records, 4);
    assert_int_equal(totals.refused, 4 * 7);
    teardown(&manual);
}

static uint32_t capacity_of(const struct manual *manual)
{
    return container_of(manual->held[0], struct batch, batch)->bytes_capacity;
}

/* What a batch has once needed for large payloads is not kept for ever. */
static void memory_of_a_large_batch_is_given_back(void **state)
{
    (void)state;
    enum { KEPT_BYTES_MAX = 2 << 20 };
    static const struct {
        size_t bytes;
        bool is_kept;
    } cases[] = {{100, true}, {1 << 20, true}, {KEPT_BYTES_MAX, true}, {LARGE_BYTES, false}};
    struct manual manual;
    char *payload = calloc(1, LARGE_BYTES);
    assert_non_null(payload);
    setup(&manual);
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct note note = {0};
        note_append(&manual, &note, payload, cases[i].bytes);
        journal_flush(manual.writer);
        uint32_t capacity = capacity_of(&manual);
        assert_true(capacity >= cases[i].bytes);
        assert_true(manual_drain(&manual));
        note_append(&manual, &note, "x", 1);
        journal_flush(manual.writer);
        if (cases[i].is_kept)
            assert_int_equal(capacity_of(&manual), capacity);
        else
            assert_true(capacity_of(&manual) <= KEPT_BYTES_MAX);
        assert_true(manual_drain(&manual));
    }
    teardown(&manual);
    free(payload);
}

static void what_is_too_large_is_told_later(void **state)
{
    (void)state;
    struct manual manual;
    struct note notes[2] = {0};
    setup(&manual);
    note_append(&manual, &notes[0], NULL, (size_t)LARGE_BYTES + 1);
    note_append(&manual, &notes[1], NULL, SIZE_MAX);
    assert_true(journal_is_busy(manual.writer));
    assert_int_equal(journal_deliver(manual.writer), 2);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(notes[i].result, JOURNAL_TOO_LARGE);
        assert_int_equal(notes[i].append.digest, 5);
    }
    assert_int_equal(manual.commits, 0);
    teardown(&manual);
}

struct chain_note {
    struct journal_append append;
    struct manual *manual;
    unsigned left;
    size_t bytes;
};

static void on_chain(struct journal_append *append, int result)
{
    struct chain_note *note = container_of(append, struct chain_note, append);
    (void)result;
    if (note->left-- > 0)
        journal_append(note->manual->writer, append, RECORD_MODEL, "x", note->bytes);
}

/* Also a callback that asks for the same refusal again and again does not keep journal_deliver()
 * busy for ever. */
static void callbacks_may_append(void **state)
{
    (void)state;
    struct manual manual;
    static const size_t sizes[] = {1, (size_t)LARGE_BYTES + 1};
    setup(&manual);
    for (unsigned i = 0; i < 2; i++) {
        struct chain_note note = {
            .append = {.done = on_chain}, .manual = &manual, .left = 3, .bytes = sizes[i]};
        on_chain(&note.append, 0);
        for (unsigned round = 0; round < 3; round++) {
            journal_flush(manual.writer);
            if (manual.held_count > 0)
                manual_settle(&manual, 0, JOURNAL_ACKED);
            assert_int_equal(journal_deliver(manual.writer), 1);
        }
        assert_false(journal_is_busy(manual.writer));
    }
    assert_int_equal(manual.commits, 3);
    teardown(&manual);
}

static void a_full_batch_leaves_by_itself_and_the_third_waits(void **state)
{
    (void)state;
    enum { COUNT = 2 * RECORDS_MAX + 10 };
    struct manual manual;
    struct note *notes = calloc(COUNT, sizeof(*notes));
    assert_non_null(notes);
    setup(&manual);
    for (unsigned i = 0; i < COUNT; i++) {
        note_append(&manual, &notes[i], "abc", 3);
        assert_int_equal(manual.commits, i < RECORDS_MAX ? 0 : 1);
    }
    assert_int_equal(manual.held[0]->count, RECORDS_MAX);
    assert_int_equal(journal_deliver(manual.writer), 0);
    manual_settle(&manual, 0, JOURNAL_ACKED);
    journal_flush(manual.writer);
    assert_int_equal(manual.commits, 2);
    /* The settled ones, then the waiting ones, for whom there is room now. */
    assert_int_equal(journal_deliver(manual.writer), RECORDS_MAX + 10);
    for (unsigned i = 0; i < COUNT; i++) {
        bool is_second = i >= RECORDS_MAX && i < 2 * RECORDS_MAX;
        assert_int_equal(notes[i].fired, is_second ? 0 : 1);
        if (i >= 2 * RECORDS_MAX) {
            assert_int_equal(notes[i].result, JOURNAL_AGAIN);
            assert_int_equal(notes[i].append.digest, 5);
            assert_true(i == 2 * RECORDS_MAX || notes[i].order == notes[i - 1].order + 1);
        }
    }
    assert_int_equal(journal_deliver(manual.writer), 0); /* told once */
    assert_true(manual_drain(&manual));
    assert_int_equal(journal_writer_totals(manual.writer).records, 2 * RECORDS_MAX);
    teardown(&manual);
    free(notes);
}

/* Fills both batches with large payloads, two in flight, two filling, but for a hole of `hole`
 * bytes. */
static void fill(struct manual *manual, struct note notes[4], const char *payload, size_t hole)
{
    for (unsigned i = 0; i < 4; i++)
        note_append(manual, &notes[i], payload, LARGE_BYTES - hole / 2);
    assert_int_equal(manual->held[0]->count, 2);
    assert_int_equal(manual->held[0]->bytes_used, JOURNAL_BATCH_BYTES_MAX - hole);
}

static void small_ones_do_not_overtake_a_large_one(void **state)
{
    (void)state;
    struct manual manual;
    struct note full[4] = {0};
    struct note large[2] = {0};
    struct note small = {0};
    struct note late = {0};
    char *payload = calloc(1, LARGE_BYTES);
    assert_non_null(payload);
    setup(&manual);
    fill(&manual, full, payload, 20);
    for (unsigned i = 0; i < 2; i++)
        note_append(&manual, &large[i], payload, LARGE_BYTES);
    note_append(&manual, &small, payload, 1); /* fits into the hole, and must not take it */
    assert_int_equal(manual.held[0]->count, 2);
    manual_settle(&manual, 0, JOURNAL_ACKED);
    assert_int_equal(journal_deliver(manual.writer), 5);
    assert_int_equal(large[0].result, JOURNAL_AGAIN);
    assert_int_equal(large[1].result, JOURNAL_AGAIN);
    assert_int_equal(small.result, JOURNAL_AGAIN);
    assert_true(large[1].order < small.order);

    /* The room is theirs until the next delivery, however late in the turn they come. */
    char *rest = calloc(1, LARGE_BYTES);
    assert_non_null(rest);
    note_append(&manual, &late, rest, LARGE_BYTES);
    note_append(&manual, &small, payload, 1);
    for (unsigned i = 0; i < 2; i++)
        note_append(&manual, &large[i], payload, LARGE_BYTES);
    manual_settle(&manual, 0, JOURNAL_ACKED);
    assert_int_equal(journal_deliver(manual.writer), 4);
    assert_int_equal(late.result, JOURNAL_AGAIN);
    assert_int_equal(large[1].result, NOTE_UNANSWERED);
    assert_true(manual_drain(&manual));
    assert_int_equal(large[1].result, JOURNAL_ACKED);
    assert_int_equal(small.result, JOURNAL_ACKED);
    teardown(&manual);
    free(rest);
    free(payload);
}

static void who_comes_late_takes_nobodys_room(void **state)
{
    (void)state;
    struct manual manual;
    struct note full[4] = {0};
    struct note notes[3] = {0};
    char *payload = calloc(1, LARGE_BYTES);
    assert_non_null(payload);
    setup(&manual);
    fill(&manual, full, payload, 0);
    for (unsigned i = 0; i < 3; i++)
        note_append(&manual, &notes[i], payload, LARGE_BYTES);
    manual_settle(&manual, 0, JOURNAL_ACKED);
    assert_int_equal(journal_deliver(manual.writer), 4); /* there is room for two of the three */
    assert_int_equal(notes[1].result, JOURNAL_AGAIN);
    assert_int_equal(notes[2].result, NOTE_UNANSWERED);
    note_append(&manual, &notes[1], payload, LARGE_BYTES);
    assert_int_equal(journal_deliver(manual.writer), 1); /* the first did not come */
    assert_int_equal(notes[2].result, JOURNAL_AGAIN);
    note_append(&manual, &notes[0], payload, LARGE_BYTES);
    note_append(&manual, &notes[2], payload, LARGE_BYTES);
    for (unsigned i = 0; i < 2; i++) {
        journal_flush(manual.writer);
        manual_settle(&manual, 0, JOURNAL_ACKED);
    }
    (void)journal_deliver(manual.writer);
    assert_int_equal(notes[0].result, JOURNAL_AGAIN);
    assert_int_equal(notes[2].result, JOURNAL_ACKED);
    teardown(&manual);
    free(payload);
}

static void who_never_comes_again_blocks_nobody(void **state)
{
    (void)state;
    struct manual manual;
    struct note full[4] = {0};
    struct note gone[2] = {0};
    struct note late[2] = {0};
    char *payload = calloc(1, LARGE_BYTES);
    assert_non_null(payload);
    setup(&manual);
    fill(&manual, full, payload, 0);
    for (unsigned i = 0; i < 2; i++)
        note_append(&manual, &gone[i], payload, LARGE_BYTES);
    manual_settle(&manual, 0, JOURNAL_ACKED);
    assert_int_equal(journal_deliver(manual.writer), 4);
    journal_flush(manual.writer);
    manual_settle(&manual, 0, JOURNAL_ACKED);
    assert_int_equal(gone[1].result, JOURNAL_AGAIN);
    note_append(&manual, &late[0], payload, 1); /* all room is kept for the two */
    assert_int_equal(journal_deliver(manual.writer), 3);
    assert_int_equal(late[0].result, JOURNAL_AGAIN); /* and now it is not any more */
    note_append(&manual, &late[0], payload, 1);
    note_append(&manual, &late[1], payload, LARGE_BYTES);
    journal_flush(manual.writer);
    assert_int_equal(manual.held[0]->count, 2);
    assert_true(manual_drain(&manual));
    assert_int_equal(late[0].result, JOURNAL_ACKED);
    assert_int_equal(late[1].result, JOURNAL_ACKED);
    teardown(&manual);
    free(payload);
}

/* Many appenders of all sizes, who come again at once, later or never: all others get through. */

enum { ACTORS = 12000, TURNS_MAX = 2000, ROUNDS = 3 };

struct actor {
    struct journal_append append;
    size_t bytes;
    unsigned acked;
    bool is_ready; /* to append */
    bool is_gone;
};

static struct prng actor_prng;

static void on_actor(struct journal_append *append, int result)
{
    struct actor *actor = container_of(append, struct actor, append);
    assert_false(actor->is_ready);
    assert_true(result == JOURNAL_ACKED || result == JOURNAL_AGAIN);
    actor->acked += result == JOURNAL_ACKED;
    actor->is_gone = result == JOURNAL_AGAIN && prng_below(&actor_prng, 50) == 0;
    actor->is_ready = actor->acked < ROUNDS && !actor->is_gone;
}

static void all_get_through(void **state)
{
    (void)state;
    struct manual manual;
    struct actor *actors = calloc(ACTORS, sizeof(*actors));
    char *payload = calloc(1, LARGE_BYTES);
    assert_non_null(actors);
    assert_non_null(payload);
    setup(&manual);
    actor_prng = prng_stream(1, 1, PRNG_TEST, 0);
    for (unsigned i = 0; i < ACTORS; i++) {
        bool is_large = prng_below(&actor_prng, 1000) == 0;
        actors[i].append.done = on_actor;
        actors[i].bytes = prng_below(&actor_prng, is_large ? LARGE_BYTES : 2000);
        actors[i].is_ready = true;
    }
    unsigned turns = 0;
    unsigned left = ACTORS;
    for (; left > 0 && turns < TURNS_MAX; turns++) {
        left = 0;
        for (unsigned i = 0; i < ACTORS; i++) {
            struct actor *actor = &actors[i];
            left += !actor->is_gone && actor->acked < ROUNDS;
            if (!actor->is_ready || prng_below(&actor_prng, 4) == 0)
                continue;
            actor->is_ready = false;
            journal_append(manual.writer, &actor->append, RECORD_MODEL, payload, actor->bytes);
        }
        journal_flush(manual.writer);
        if (manual.held_count > 0 && prng_below(&actor_prng, 3) > 0)
            manual_settle(&manual, 0, JOURNAL_ACKED);
        (void)journal_deliver(manual.writer);
    }
    assert_int_equal(left, 0);
    teardown(&manual);
    free(payload);
    free(actors);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_arrives_meanwhile_leaves_as_one),
        cmocka_unit_test(a_result_that_is_not_set_is_no_ack),
        cmocka_unit_test(what_follows_a_refused_record_is_refused),
        cmocka_unit_test(memory_of_a_large_batch_is_given_back),
        cmocka_unit_test(what_is_too_large_is_told_later),
        cmocka_unit_test(callbacks_may_append),
        cmocka_unit_test(a_full_batch_leaves_by_itself_and_the_third_waits),
        cmocka_unit_test(small_ones_do_not_overtake_a_large_one),
        cmocka_unit_test(who_comes_late_takes_nobodys_room),
        cmocka_unit_test(who_never_comes_again_blocks_nobody),
        cmocka_unit_test(all_get_through),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
