/* Group commit and the batches that a store gives back: when they come again, in which order, and
 * when that ends. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/manual_journal.h"

enum { RECORDS_MAX = JOURNAL_BATCH_RECORDS_MAX };

#define RETRY_NS_FIRST (20 * NS_PER_MS)
#define RETRY_NS_MAX (2 * NS_PER_S)
/* A timer fires up to a tick of the wheel late. */
#define LATE_NS NS_PER_MS
#define LONG_NS (3600 * NS_PER_S)

static void teardown(struct manual *manual)
{
    assert_true(manual_drain(manual));
    manual_close(manual);
}

/* How long it takes until the store gets a batch again. */
static uint64_t wait_for_commit(struct manual *manual)
{
    uint64_t start_ns = manual->loop.now_ns;
    unsigned commits = manual->commits;
    while (manual->commits == commits) {
        journal_flush(manual->writer); /* does not hurry it */
        assert_int_equal(manual->commits, commits);
        assert_int_equal(journal_deliver(manual->writer), 0);
        manual_pass(manual, NS_PER_MS / 2);
        assert_true(manual->loop.now_ns - start_ns < 10 * NS_PER_S);
    }
    return manual->loop.now_ns - start_ns;
}

static void a_returned_batch_comes_again_after_a_while(void **state)
{
    (void)state;
    enum { RETURNS = 60 };
    struct manual manual;
    struct note note = {0};
    uint64_t longest_ns = 0;
    uint64_t shortest_ns = UINT64_MAX;
    assert_true(manual_open(&manual, 1, 1, LONG_NS));
    note_send(&manual, &note, 7);
    for (unsigned i = 0; i < RETURNS; i++) {
        const struct journal_batch *batch = manual.held[0];
        manual_return(&manual, 0, -EBUSY, false);
        uint64_t waited_ns = wait_for_commit(&manual);
        uint64_t most_ns = i < 7 ? RETRY_NS_FIRST << i : RETRY_NS_MAX;
        most_ns = most_ns < RETRY_NS_MAX ? most_ns : RETRY_NS_MAX;
        assert_true(waited_ns <= most_ns + LATE_NS);
        assert_ptr_equal(manual.held[0], batch);
        assert_false(batch->was_sent);
        longest_ns = waited_ns > longest_ns ? waited_ns : longest_ns;
        if (i >= 7)
            shortest_ns = waited_ns < shortest_ns ? waited_ns : shortest_ns;
    }
    assert_true(longest_ns > RETRY_NS_MAX * 3 / 4); /* it grows to that, */
    assert_true(shortest_ns < RETRY_NS_MAX / 4);    /* and jitter is of the whole of it */
    assert_int_equal(journal_writer_totals(manual.writer).retries, RETURNS);
    assert_int_equal(journal_writer_totals(manual.writer).batches, 0);
    manual_settle(&manual, 0, JOURNAL_ACKED);
    assert_int_equal(journal_deliver(manual.writer), 1);
    assert_int_equal(note.result, JOURNAL_ACKED);
    assert_int_equal(note.fired, 1);

    note_send(&manual, &note, 8); /* after a success the waits are short again */
    manual_return(&manual, 0, -EBUSY, false);
    assert_true(wait_for_commit(&manual) <= RETRY_NS_FIRST + LATE_NS);
    teardown(&manual);
}

static void what_is_newer_overtakes_nothing(void **state)
{
    (void)state;
    enum { LANES = 2, DEPTH = 3, COUNT = 6 };
    static const unsigned orders[][DEPTH] = {{0, 0, 0}, {2, 1, 0}, {1, 0, 0}, {1, 1, 0}};
    for (unsigned o = 0; o < sizeof(orders) / sizeof(orders[0]); o++) {
        struct manual manual;
        struct note notes[COUNT] = {0};
        struct note other = {0};
        uint64_t runs[COUNT];
        assert_true(manual_open(&manual, LANES, DEPTH, LONG_NS));
        for (unsigned i = 0; i < COUNT; i++)
            runs[i] = manual_run_in(0, LANES, 100 * i);
        for (unsigned i = 0; i < DEPTH + 1; i++)
            note_send(&manual, &notes[i], runs[i]); /* the last has no place yet */
        assert_int_equal(manual.held_count, DEPTH);
        for (unsigned i = 0; i < DEPTH; i++)
            manual_return(&manual, orders[o][i], -ECONNRESET, i == 1);
        for (unsigned i = DEPTH + 1; i < COUNT; i++)
            note_send(&manual, &notes[i], runs[i]);
        assert_int_equal(manual.held_count, 0);
        note_send(&manual, &other, manual_run_in(1, LANES, 0)); /* another lane goes on */
        assert_int_equal(manual.held_count, 1);
        manual_settle(&manual, 0, JOURNAL_ACKED);
        assert_int_equal(journal_deliver(manual.writer), 1);

        assert_true(wait_for_commit(&manual) <= RETRY_NS_FIRST + LATE_NS);
        assert_int_equal(manual.held_count, DEPTH);
        for (unsigned i = 0; i < DEPTH; i++)
            assert_int_equal(manual_held_run(&manual, i), runs[i]);
        manual_settle(&manual, 0, JOURNAL_ACKED);
        journal_flush(manual.writer);
        assert_int_equal(manual_held_run(&manual, DEPTH - 1), runs[DEPTH]);
        assert_int_equal(manual.held[DEPTH - 1]->count, COUNT - DEPTH);
        assert_int_equal(journal_writer_totals(manual.writer).retries, DEPTH);
        teardown(&manual);
        for (unsigned i = 1; i < COUNT; i++)
            assert_true(notes[i].order > notes[i - 1].order);
    }
}

/* A batch that returns while others of its lane are on their way still goes before what has not
 * left. */
static void a_late_return_goes_before_what_has_not_left(void **state)
{
    (void)state;
    struct manual manual;
    struct note notes[4] = {0};
    assert_true(manual_open(&manual, 1, 2, LONG_NS));
    for (unsigned i = 0; i < 3; i++)
        note_send(&manual, &notes[i], i);
    manual_return(&manual, 0, -EBUSY, false);
    (void)wait_for_commit(&manual);
    assert_int_equal(manual_held_run(&manual, 0), 1);
    assert_int_equal(manual_held_run(&manual, 1), 0);
    manual_return(&manual, 0, -EBUSY, false);
    manual_settle(&manual, 0, JOURNAL_ACKED); /* two places, and nobody may have them yet */
    assert_int_equal(journal_deliver(manual.writer), 1);
    note_send(&manual, &notes[3], 3);
    assert_int_equal(manual.held_count, 0);
    (void)wait_for_commit(&manual);
    assert_int_equal(manual_held_run(&manual, 0), 1);
    assert_int_equal(manual_held_run(&manual, 1), 2);
    assert_int_equal(manual.held[1]->count, 2);
    teardown(&manual);
}

static void a_return_goes_before_a_full_batch_that_waits(void **state)
{
    (void)state;
    struct manual manual;
    struct note *notes = calloc(RECORDS_MAX + 2, sizeof(*notes));
    assert_non_null(notes);
    assert_true(manual_open(&manual, 1, 1, LONG_NS));
    note_send(&manual, &notes[0], 0);
    for (unsigned i = 1; i < RECORDS_MAX + 2; i++) {
        notes[i].append.run = i;
        note_append(&manual, &notes[i], "x", 1);
    }
    manual_return(&manual, 0, -EBUSY, false);
    (void)wait_for_commit(&manual);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(manual_held_run(&manual, 0), i < 2 ? i : RECORDS_MAX + 1);
        manual_settle(&manual, 0, JOURNAL_ACKED);
        journal_flush(manual.writer);
    }
    teardown(&manual);
    free(notes);
}

/* A store that returns a batch from inside commit() is not asked again at once. */
static void a_batch_may_return_from_inside_the_call(void **state)
{
    (void)state;
    struct manual manual;
    struct note notes[2] = {0};
    assert_true(manual_open(&manual, 1, 4, LONG_NS));
    manual.returns_left = 3;
    for (unsigned i = 0; i < 2; i++)
        note_send(&manual, &notes[i], i);
    assert_int_equal(manual.commits, 1);
    for (unsigned i = 0; i < 3; i++)
        (void)wait_for_commit(&manual);
    assert_int_equal(manual.held_count, 2);
    assert_int_equal(manual_held_run(&manual, 0), 0);
    assert_int_equal(journal_writer_totals(manual.writer).retries, 3);
    teardown(&manual);
}

/* --- the end --- */

static void in_the_end_it_is_refused_or_unknown(void **state)
{
    (void)state;
    static const struct {
        uint64_t retry_for_ns;
        bool is_first_in_doubt;
        bool is_last_in_doubt;
        int result;
    } cases[] = {
        {0, false, false, -ECONNRESET},
        {0, true, true, JOURNAL_UNKNOWN},
        {5 * NS_PER_S, false, false, -ECONNRESET},
        {5 * NS_PER_S, true, false, JOURNAL_UNKNOWN}, /* once in doubt, always in doubt */
        {5 * NS_PER_S, false, true, JOURNAL_UNKNOWN},
    };
    for (unsigned c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        struct manual manual;
        struct note notes[3] = {0};
        assert_true(manual_open(&manual, 1, 1, cases[c].retry_for_ns));
        for (unsigned i = 0; i < 2; i++) {
            notes[i].append.run = i;
            note_append(&manual, &notes[i], "x", 1);
        }
        journal_flush(manual.writer);
        manual.held[0]->entries[1].result = JOURNAL_CONFLICT; /* this much is known */
        uint64_t start_ns = manual.loop.now_ns;
        unsigned returns = 0;
        while (manual.held_count > 0) {
            bool is_over = manual.loop.now_ns - start_ns >= cases[c].retry_for_ns;
            assert_true(manual.loop.now_ns - start_ns <= 5 * NS_PER_S + RETRY_NS_MAX + LATE_NS);
            manual_return(&manual, 0, -ECONNRESET,
                          is_over        ? cases[c].is_last_in_doubt
                          : returns == 0 ? cases[c].is_first_in_doubt
                                         : false);
            returns += !is_over;
            if (!is_over)
                (void)wait_for_commit(&manual);
        }
        assert_true(returns > 0 || cases[c].retry_for_ns == 0);
        assert_int_equal(journal_deliver(manual.writer), 2);
        assert_int_equal(notes[0].result, cases[c].result);
        assert_int_equal(notes[1].result, JOURNAL_CONFLICT);
        struct journal_totals totals = journal_writer_totals(manual.writer);
        assert_int_equal(totals.retries, returns);
        assert_int_equal(totals.batches, 1);
        assert_int_equal(totals.records, 0);
        assert_int_equal(totals.unknown, cases[c].result == JOURNAL_UNKNOWN);
        assert_int_equal(totals.refused + totals.unknown, 2);

        note_send(&manual, &notes[2], 3); /* a batch that was in doubt is used again */
        assert_false(manual.held[0]->was_sent);
        manual_settle(&manual, 0, JOURNAL_ACKED);
        assert_int_equal(journal_deliver(manual.writer), 1);
        assert_int_equal(notes[2].result, JOURNAL_ACKED);
        teardown(&manual);
    }
}

/* Returns the first batch that is held until it comes no more; how long that took. */
static uint64_t return_until_refused(struct manual *manual, const struct note *note)
{
    uint64_t start_ns = manual->loop.now_ns;
    for (;;) {
        manual_return(manual, 0, -ECONNRESET, false);
        if (journal_deliver(manual->writer) > 0)
            break;
        (void)wait_for_commit(manual);
    }
    assert_int_equal(note->result, -ECONNRESET);
    return manual->loop.now_ns - start_ns;
}

/* A store that is gone costs the time to try again once, not once a batch. */
static void the_time_to_try_again_is_the_lanes(void **state)
{
    (void)state;
    struct manual manual;
    struct note notes[4] = {0};
    assert_true(manual_open(&manual, 1, 1, 5 * NS_PER_S));
    note_send(&manual, &notes[0], 0);
    for (unsigned i = 1; i < 3; i++)
        note_send(&manual, &notes[i], i); /* these leave together, when the first is given up */
    assert_true(return_until_refused(&manual, &notes[0]) >= 5 * NS_PER_S);
    journal_flush(manual.writer);
    assert_int_equal(manual.held[0]->count, 2);
    assert_int_equal(return_until_refused(&manual, &notes[1]), 0);

    note_send(&manual, &notes[3], 3); /* it is back, */
    manual_settle(&manual, 0, JOURNAL_ACKED);
    assert_int_equal(journal_deliver(manual.writer), 1);
    note_send(&manual, &notes[0], 4); /* and gone another time */
    assert_true(return_until_refused(&manual, &notes[0]) >= 5 * NS_PER_S);
    teardown(&manual);
}

/* A store that answers nothing returns its first batch when the time is over already. */
static void a_silence_counts_from_when_the_batch_left(void **state)
{
    (void)state;
    struct manual manual;
    struct note notes[2] = {0};
    assert_true(manual_open(&manual, 1, 1, 5 * NS_PER_S));
    note_send(&manual, &notes[0], 0);
    manual_pass(&manual, 5 * NS_PER_S);
    assert_int_equal(return_until_refused(&manual, &notes[0]), 0);
    note_send(&manual, &notes[1], 1);
    assert_int_equal(return_until_refused(&manual, &notes[1]), 0);
    teardown(&manual);
}

/* Others of its lane are tried again beside it, and done. */
static void who_fails_alone_is_given_up_too(void **state)
{
    (void)state;
    struct manual manual;
    struct note bad = {0};
    assert_true(manual_open(&manual, 1, 2, 5 * NS_PER_S));
    note_send(&manual, &bad, 0);
    uint64_t start_ns = manual.loop.now_ns;
    while (bad.fired == 0) {
        struct note good = {0};
        assert_true(manual.loop.now_ns - start_ns < 10 * NS_PER_S);
        note_send(&manual, &good, 1);
        manual_return(&manual, 1, -EBUSY, false);
        manual_return(&manual, 0, -EBUSY, false);
        manual_pass(&manual, NS_PER_S);
        (void)journal_deliver(manual.writer);
        manual_settle(&manual, manual.held_count - 1, JOURNAL_ACKED);
        assert_int_equal(journal_deliver(manual.writer), 1);
        assert_int_equal(good.result, JOURNAL_ACKED);
    }
    assert_int_equal(bad.result, -EBUSY);
    teardown(&manual);
}

static void the_last_words_of_a_lane_are_told(void **state)
{
    (void)state;
    const struct errmsg words[] = {{"too many clients"}, {"shutting down"}, {"a deadlock"}};
    struct manual manual;
    struct note note = {0};
    struct errmsg why;
    assert_true(manual_open(&manual, 2, 1, 5 * NS_PER_S));
    note_send(&manual, &note, manual_run_in(0, 2, 0));
    journal_lane_trouble(manual.writer, manual.held[0], &words[2]);
    manual_return(&manual, 0, -EBUSY, false);
    (void)wait_for_commit(&manual);
    manual_settle(&manual, 0, JOURNAL_ACKED); /* what was said is forgotten */
    assert_int_equal(journal_deliver(manual.writer), 1);
    note_send(&manual, &note, manual_run_in(0, 2, 0));
    (void)return_until_refused(&manual, &note);
    assert_false(journal_has_failed(manual.journal, &why));

    note_send(&manual, &note, manual_run_in(1, 2, 0)); /* another lane */
    for (unsigned i = 0; manual.held_count > 0; i = 1) {
        journal_lane_trouble(manual.writer, manual.held[0], &words[i]);
        assert_false(journal_has_failed(manual.journal, &why)); /* not while there is hope */
        manual_return(&manual, 0, -EBUSY, false);
        if (journal_deliver(manual.writer) == 0)
            (void)wait_for_commit(&manual);
    }
    assert_true(journal_has_failed(manual.journal, &why));
    assert_string_equal(why.text, "shutting down");
    teardown(&manual);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_returned_batch_comes_again_after_a_while),
        cmocka_unit_test(what_is_newer_overtakes_nothing),
        cmocka_unit_test(a_late_return_goes_before_what_has_not_left),
        cmocka_unit_test(a_return_goes_before_a_full_batch_that_waits),
        cmocka_unit_test(a_batch_may_return_from_inside_the_call),
        cmocka_unit_test(in_the_end_it_is_refused_or_unknown),
        cmocka_unit_test(the_time_to_try_again_is_the_lanes),
        cmocka_unit_test(a_silence_counts_from_when_the_batch_left),
        cmocka_unit_test(who_fails_alone_is_given_up_too),
        cmocka_unit_test(the_last_words_of_a_lane_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
