/* Group commit above a store that settles when the test says so: order, bounds, fairness,
 * callbacks. */
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

enum { RECORDS_MAX = JOURNAL_BATCH_RECORDS_MAX, LARGE_BYTES = JOURNAL_PAYLOAD_BYTES_MAX };

/* The store. */

struct manual {
    struct journal *journal;
    struct journal_writer *writer;
    struct journal_batch *in_flight;
    unsigned commits;
};

static int manual_open(struct journal *journal, const struct journal_config *config,
                       struct errmsg *why)
{
    (void)journal;
    (void)config;
    (void)why;
    return 0;
}

static void manual_close(struct journal *journal)
{
    (void)journal;
}

static int manual_writer_open(struct journal_writer *writer, struct errmsg *why)
{
    (void)why;
    writer->impl = NULL;
    return 0;
}

static void manual_writer_close(struct journal_writer *writer)
{
    (void)writer;
}

static void manual_commit(struct journal_writer *writer, struct journal_batch *batch)
{
    struct manual *manual = writer->impl;
    assert_null(manual->in_flight);
    assert_true(batch->count > 0);
    manual->in_flight = batch;
    manual->commits++;
}

static const struct journal_ops manual_ops = {
    .name = "manual",
    .levels = {DURABILITY_POWER, DURABILITY_NONE},
    .open = manual_open,
    .close = manual_close,
    .writer_open = manual_writer_open,
    .writer_close = manual_writer_close,
    .commit = manual_commit,
};

/* Time stands still: a writer asks its loop for nothing else. */
static struct loop still = {.is_virtual = true};

static void setup(struct manual *manual)
{
    struct errmsg why;
    *manual = (struct manual){0};
    assert_int_equal(journal_open_ops(&manual->journal, &manual_ops,
                                      &(struct journal_config){.uri = "manual", .writers = 1},
                                      &why),
                     0);
    assert_int_equal(journal_durability(manual->journal), DURABILITY_POWER);
    assert_int_equal(journal_writer_open(manual->journal, 0, &still, &manual->writer, &why), 0);
    manual->writer->impl = manual;
}

static void settle(struct manual *manual, int result)
{
    struct journal_batch *batch = manual->in_flight;
    assert(batch != NULL);
    for (uint32_t i = 0; i < batch->count; i++)
        batch->entries[i].result = (int16_t)result;
    manual->in_flight = NULL;
    journal_commit_done(manual->writer);
}

/* Settles and delivers until nothing is outstanding. */
static void drain(struct manual *manual)
{
    while (journal_is_busy(manual->writer)) {
        journal_flush(manual->writer);
        if (manual->in_flight != NULL)
            settle(manual, JOURNAL_ACKED);
        assert_true(journal_deliver(manual->writer) > 0);
    }
    assert_int_equal(journal_deliver(manual->writer), 0);
}

static void teardown(struct manual *manual)
{
    drain(manual);
    journal_writer_close(manual->writer);
    journal_close(manual->journal);
}

/* Appends that keep what they are told. */

enum { UNANSWERED = 1 };

struct note {
    struct journal_append append;
    int result;
    unsigned fired;
    unsigned order; /* of its callback among all */
};

static unsigned note_order;

static void on_note(struct journal_append *append, int result)
{
    struct note *note = container_of(append, struct note, append);
    note->result = result;
    note->fired++;
    note->order = ++note_order;
}

static void note_append(struct manual *manual, struct note *note, const void *payload, size_t bytes)
{
    note->append.done = on_note;
    note->append.digest = 5;
    note->result = UNANSWERED;
    journal_append(manual->writer, &note->append, RECORD_MODEL, payload, bytes);
    assert_int_equal(note->result, UNANSWERED);
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
    assert_int_equal(manual.in_flight->count, 3);
    assert_memory_equal(manual.in_flight->bytes + manual.in_flight->entries[2].offset, "payload",
                        7);
    assert_int_equal(manual.in_flight->entries[2].digest, digest_chain(5, "payload", 7));
    assert_int_equal(notes[2].append.digest, digest_chain(5, "payload", 7));
    assert_int_equal(manual.in_flight->entries[2].result, -EIO);

    for (unsigned i = 3; i < 10; i++)
        note_append(&manual, &notes[i], "other", 5);
    journal_flush(manual.writer); /* one is in flight */
    assert_int_equal(journal_deliver(manual.writer), 0);
    settle(&manual, JOURNAL_ACKED);
    assert_int_equal(notes[0].fired, 0);
    journal_flush(manual.writer); /* not yet delivered */
    assert_int_equal(manual.commits, 1);
    assert_int_equal(journal_deliver(manual.writer), 3);
    journal_flush(manual.writer);
    assert_int_equal(manual.in_flight->count, 7);
    settle(&manual, JOURNAL_CONFLICT);
    assert_int_equal(journal_deliver(manual.writer), 7);
    for (unsigned i = 0; i < 10; i++) {
        assert_int_equal(notes[i].fired, 1);
        assert_int_equal(notes[i].result, i < 3 ? JOURNAL_ACKED : JOURNAL_CONFLICT);
        assert_true(i == 0 || notes[i].order == notes[i - 1].order + 1);
    }
    struct journal_totals totals = journal_writer_totals(manual.writer);
    assert_int_equal(totals.records, 3);
    assert_int_equal(totals.bytes, 21);
    assert_int_equal(totals.commits, 2);
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
    manual.in_flight = NULL;
    journal_commit_done(manual.writer);
    assert_int_equal(journal_deliver(manual.writer), 1);
    assert_int_equal(note.result, -EIO);
    assert_int_equal(journal_writer_totals(manual.writer).records, 0);
    teardown(&manual);
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
            if (manual.in_flight != NULL)
                settle(&manual, JOURNAL_ACKED);
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
    assert_int_equal(manual.in_flight->count, RECORDS_MAX);
    assert_int_equal(journal_deliver(manual.writer), 0);
    settle(&manual, JOURNAL_ACKED);
    /* The settled ones, then the waiting ones: room came since the second batch could leave. */
    assert_int_equal(journal_deliver(manual.writer), RECORDS_MAX + 10);
    assert_int_equal(manual.commits, 2);
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
    drain(&manual);
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
    assert_int_equal(manual->in_flight->count, 2);
    assert_int_equal(manual->in_flight->bytes_used, JOURNAL_BATCH_BYTES_MAX - hole);
}

static void small_ones_do_not_overtake_a_large_one(void **state)
{
    (void)state;
    struct manual manual;
    struct note full[4] = {0};
    struct note large = {0};
    struct note small = {0};
    struct note late = {0};
    char *payload = calloc(1, LARGE_BYTES);
    assert_non_null(payload);
    setup(&manual);
    fill(&manual, full, payload, 20);
    note_append(&manual, &large, payload, LARGE_BYTES);
    note_append(&manual, &small, payload, 1); /* fits into the hole, and must not take it */
    assert_int_equal(manual.in_flight->count, 2);
    settle(&manual, JOURNAL_ACKED);
    assert_int_equal(journal_deliver(manual.writer), 4);
    assert_int_equal(large.result, JOURNAL_AGAIN);
    assert_int_equal(small.result, JOURNAL_AGAIN);
    assert_true(large.order < small.order);

    /* The room is theirs until the next delivery, however late in the turn they come. */
    char *rest = calloc(1, LARGE_BYTES);
    assert_non_null(rest);
    note_append(&manual, &late, rest, LARGE_BYTES);
    note_append(&manual, &small, payload, 1);
    note_append(&manual, &large, payload, LARGE_BYTES);
    settle(&manual, JOURNAL_ACKED);
    assert_int_equal(journal_deliver(manual.writer), 3);
    assert_int_equal(late.result, JOURNAL_AGAIN);
    assert_int_equal(large.result, UNANSWERED);
    drain(&manual);
    assert_int_equal(large.result, JOURNAL_ACKED);
    assert_int_equal(small.result, JOURNAL_ACKED);
    teardown(&manual);
    free(rest);
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
    settle(&manual, JOURNAL_ACKED);
    assert_int_equal(journal_deliver(manual.writer), 4);
    settle(&manual, JOURNAL_ACKED);
    assert_int_equal(gone[1].result, JOURNAL_AGAIN);
    note_append(&manual, &late[0], payload, 1); /* all room is kept for the two */
    assert_int_equal(journal_deliver(manual.writer), 3);
    assert_int_equal(late[0].result, JOURNAL_AGAIN); /* and now it is not any more */
    note_append(&manual, &late[0], payload, 1);
    note_append(&manual, &late[1], payload, LARGE_BYTES);
    journal_flush(manual.writer);
    assert_int_equal(manual.in_flight->count, 2);
    drain(&manual);
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
        if (manual.in_flight != NULL && prng_below(&actor_prng, 3) > 0)
            settle(&manual, JOURNAL_ACKED);
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
        cmocka_unit_test(what_is_too_large_is_told_later),
        cmocka_unit_test(callbacks_may_append),
        cmocka_unit_test(a_full_batch_leaves_by_itself_and_the_third_waits),
        cmocka_unit_test(small_ones_do_not_overtake_a_large_one),
        cmocka_unit_test(who_never_comes_again_blocks_nobody),
        cmocka_unit_test(all_get_through),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
