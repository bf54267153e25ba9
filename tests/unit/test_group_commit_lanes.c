/* Group commit's lanes and depth, its bounds over all of them, and giving up. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/base/prng.h"
#include "engine/base/resource.h"
#include "tests/lib/manual_journal.h"

enum { RECORDS_MAX = JOURNAL_BATCH_RECORDS_MAX, LARGE_BYTES = JOURNAL_PAYLOAD_BYTES_MAX };

#define LONG_NS (3600 * NS_PER_S)

static void teardown(struct manual *manual)
{
    assert_true(manual_drain(manual));
    manual_close(manual);
}

/* --- lanes --- */

static void the_lane_of_a_run_never_changes(void **state)
{
    (void)state;
    static const unsigned three[] = {2, 2, 0, 2, 0, 1, 0, 1, 2, 0, 0, 0, 2, 1, 1, 0};
    unsigned counts[64] = {0};
    for (uint64_t run = 0; run < sizeof(three) / sizeof(three[0]); run++)
        assert_int_equal(journal_lane_of(run, 3), three[run]); /* files on disks rely on it */
    for (uint64_t run = 0; run < 64000; run++) {
        assert_int_equal(journal_lane_of(run, 1), 0);
        counts[journal_lane_of(run, 64)]++;
    }
    for (unsigned i = 0; i < 64; i++)
        assert_in_range(counts[i], 800, 1200);
    assert_true(journal_lane_of(JOURNAL_RUN_MAX, 64) < 64);
}

static void a_batch_holds_records_of_one_lane(void **state)
{
    (void)state;
    enum { COUNT = 300, LANES = 5 };
    struct manual manual;
    struct note notes[COUNT] = {0};
    uint64_t last_run[LANES] = {0};
    unsigned records = 0;
    assert_true(manual_open(&manual, LANES, 1, 0));
    for (unsigned i = 0; i < COUNT; i++) {
        notes[i].append.run = i;
        note_append(&manual, &notes[i], "x", 1);
    }
    assert_int_equal(manual.commits, 0);
    journal_flush(manual.writer);
    assert_int_equal(manual.held_count, LANES);
    for (unsigned b = 0; b < LANES; b++) {
        const struct journal_batch *batch = manual.held[b];
        assert_int_equal(batch->lane, b);
        for (unsigned i = 0; i < batch->count; i++, records++) {
            assert_int_equal(journal_lane_of(batch->entries[i].run, LANES), b);
            assert_true(i == 0 || batch->entries[i].run > last_run[b]); /* as they were appended */
            last_run[b] = batch->entries[i].run;
        }
    }
    assert_int_equal(records, COUNT);
    teardown(&manual);
}

/* --- depth --- */

static void no_more_than_depth_are_at_the_store(void **state)
{
    (void)state;
    enum { COUNT = 12, LANES = 2, DEPTH = 3 };
    struct manual manual;
    struct note notes[LANES][COUNT] = {0};
    assert_true(manual_open(&manual, LANES, DEPTH, 0));
    for (unsigned i = 0; i < COUNT; i++)
        for (unsigned lane = 0; lane < LANES; lane++)
            note_send(&manual, &notes[lane][i], manual_run_in(lane, LANES, 1000 * i));
    assert_int_equal(manual.held_count, LANES * DEPTH);
    for (unsigned i = 0; i < LANES * DEPTH; i++) {
        assert_int_equal(manual.held[i]->count, 1);
        assert_int_equal(manual_held_run(&manual, i), notes[i % LANES][i / LANES].append.run);
    }
    /* A slot is free again when its batch is settled, and not when that is delivered. */
    manual_settle(&manual, 1, JOURNAL_ACKED); /* lane 1 */
    assert_int_equal(manual.commits, LANES * DEPTH);
    journal_flush(manual.writer);
    assert_int_equal(manual.held_count, LANES * DEPTH);
    const struct journal_batch *last = manual.held[LANES * DEPTH - 1];
    assert_int_equal(last->lane, 1);
    assert_int_equal(last->count, COUNT - DEPTH); /* what had waited left as one */
    for (unsigned i = 0; i < COUNT - DEPTH; i++)
        assert_int_equal(last->entries[i].run, notes[1][DEPTH + i].append.run);
    assert_int_equal(notes[1][0].fired, 0);
    assert_int_equal(journal_deliver(manual.writer), 1);
    assert_int_equal(notes[1][0].fired, 1);
    teardown(&manual);
    assert_int_equal(notes[0][COUNT - 1].result, JOURNAL_ACKED);
}

static void full_batches_leave_in_their_order(void **state)
{
    (void)state;
    enum { COUNT = 2 * RECORDS_MAX };
    struct manual manual;
    struct note *notes = calloc(COUNT, sizeof(*notes));
    assert_non_null(notes);
    assert_true(manual_open(&manual, 1, 2, 0));
    for (unsigned i = 0; i < 2; i++)
        note_send(&manual, &notes[i], i);
    for (unsigned i = 2; i < COUNT; i++) {
        notes[i].append.run = i;
        note_append(&manual, &notes[i], "x", 1);
    }
    assert_int_equal(manual.held_count, 2); /* a full one waits, and another fills */
    uint64_t next_run = 0;
    while (manual.held_count > 0) {
        const struct journal_batch *batch = manual.held[0];
        for (unsigned i = 0; i < batch->count; i++)
            assert_int_equal(batch->entries[i].run, next_run++);
        manual_settle(&manual, 0, JOURNAL_ACKED);
        journal_flush(manual.writer);
    }
    assert_int_equal(next_run, COUNT);
    assert_int_equal(manual.commits, 4);
    assert_int_equal(journal_deliver(manual.writer), COUNT);
    for (unsigned i = 1; i < COUNT; i++)
        assert_int_equal(notes[i].order, notes[i - 1].order + 1);
    teardown(&manual);
    free(notes);
}

/* --- bounds --- */

static void a_writer_is_bounded_over_all_its_lanes(void **state)
{
    (void)state;
    enum { COUNT = JOURNAL_WRITER_RECORDS_MAX + 7, LANES = 8 };
    struct manual manual;
    struct note *notes = calloc(COUNT, sizeof(*notes));
    char *payload = calloc(1, LARGE_BYTES);
    assert_non_null(notes);
    assert_non_null(payload);
    assert_true(manual_open(&manual, LANES, 4, 0));
    for (unsigned i = 0; i < COUNT; i++) {
        notes[i].append.run = i;
        note_append(&manual, &notes[i], "x", 1);
    }
    assert_int_equal(journal_deliver(manual.writer), 0);
    journal_flush(manual.writer);
    unsigned held = 0;
    for (unsigned i = 0; i < manual.held_count; i++)
        held += manual.held[i]->count;
    assert_int_equal(held, JOURNAL_WRITER_RECORDS_MAX);
    assert_true(manual_drain(&manual));
    for (unsigned i = 0; i < COUNT; i++)
        assert_int_equal(notes[i].result,
                         i < JOURNAL_WRITER_RECORDS_MAX ? JOURNAL_ACKED : JOURNAL_AGAIN);

    /* The same of bytes: four of the largest, and not one byte more. */
    memset(notes, 0, COUNT * sizeof(*notes));
    for (unsigned i = 0; i < 5; i++) {
        notes[i].append.run = manual_run_in(i, LANES, 0);
        note_append(&manual, &notes[i], payload, i < 4 ? LARGE_BYTES : 1);
    }
    assert_true(manual_drain(&manual));
    assert_int_equal(notes[3].result, JOURNAL_ACKED);
    assert_int_equal(notes[4].result, JOURNAL_AGAIN);
    teardown(&manual);
    free(payload);
    free(notes);
}

static uint64_t heap_bytes(void)
{
    resource_flush_thread_cache();
    return resource_heap_bytes();
}

/* Small batches are many, at the store and free: neither may take what large ones would. */
static void many_small_batches_are_small(void **state)
{
    (void)state;
    enum {
        LANES = 64,
        LARGE_RECORDS = 128,
        EACH_BYTES_MAX = 8 << 10,
        FREE_BYTES_MAX = 9 << 20,
    };
    struct manual manual;
    static struct note notes[LANES * LARGE_RECORDS];
    static char payload[4096];
    assert_true(manual_open(&manual, LANES, 1, 0));
    uint64_t before = heap_bytes();
    memset(notes, 0, sizeof(notes));
    for (unsigned i = 0; i < LANES; i++)
        note_send(&manual, &notes[i], manual_run_in(i, LANES, 0));
    assert_int_equal(manual.held_count, LANES);
    assert_true(heap_bytes() - before < LANES * EACH_BYTES_MAX);
    assert_true(manual_drain(&manual));

    /* 32 MiB once, in 64 batches. */
    for (unsigned i = 0; i < LANES; i++)
        for (unsigned n = 0; n < LARGE_RECORDS; n++) {
            struct note *note = &notes[i * LARGE_RECORDS + n];
            note->append.run = manual_run_in(i, LANES, 0);
            note->append.seq = n;
            note_append(&manual, note, payload, sizeof(payload));
        }
    assert_true(manual_drain(&manual));
    assert_true(heap_bytes() - before < FREE_BYTES_MAX);
    teardown(&manual);
}

/* --- giving up --- */

static void what_is_forgotten_is_never_called_back(void **state)
{
    (void)state;
    enum { LANES = 2 };
    struct manual manual;
    struct note notes[7] = {0};
    assert_true(manual_open(&manual, LANES, 1, LONG_NS));
    note_send(&manual, &notes[0],
              manual_run_in(0, LANES, 0)); /* will be acked, and not be delivered */
    note_send(&manual, &notes[1], manual_run_in(1, LANES, 0)); /* will wait to be tried again */
    manual_settle(&manual, 0, JOURNAL_ACKED);
    manual_return(&manual, 0, -EBUSY, true);
    note_send(&manual, &notes[2], manual_run_in(0, LANES, 100)); /* is at the store */
    note_send(&manual, &notes[3], manual_run_in(0, LANES, 200)); /* fills a batch */
    note_append(&manual, &notes[4], NULL, (size_t)LARGE_BYTES + 1);
    assert_int_equal(manual.held_count, 1);
    assert_true(journal_is_busy(manual.writer));

    journal_forget(manual.writer);
    journal_forget(manual.writer); /* once more is no more */
    assert_false(journal_is_busy(manual.writer));
    struct journal_totals totals = journal_writer_totals(manual.writer);
    assert_int_equal(totals.unknown, 4);
    assert_int_equal(totals.refused, 1);
    assert_int_equal(totals.records, 0);

    unsigned commits = manual.commits;
    manual_settle(&manual, 0, JOURNAL_ACKED); /* the store may still answer */
    journal_flush(manual.writer);
    manual_pass(&manual, 10 * NS_PER_S);
    assert_int_equal(journal_deliver(manual.writer), 0);
    assert_int_equal(manual.commits, commits);
    for (unsigned i = 0; i < 5; i++)
        assert_int_equal(notes[i].fired, 0);
    manual_close(&manual);
}

static void a_writer_closes_with_batches_at_the_store(void **state)
{
    (void)state;
    enum { COUNT = JOURNAL_WRITER_RECORDS_MAX + 3 };
    struct manual manual;
    struct note *notes = calloc(COUNT, sizeof(*notes));
    assert_non_null(notes);
    assert_true(manual_open(&manual, 3, 2, LONG_NS));
    for (unsigned i = 0; i < COUNT; i++) {
        notes[i].append.run = i;
        note_append(&manual, &notes[i], "x", 1);
        if (i == 10)
            journal_flush(manual.writer);
    }
    journal_flush(manual.writer);
    assert_int_equal(manual.held_count, 6);
    manual_return(&manual, 0, -EBUSY, false);
    manual_close(&manual);
    for (unsigned i = 0; i < COUNT; i++)
        assert_int_equal(notes[i].fired, 0);
    free(notes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_lane_of_a_run_never_changes),
        cmocka_unit_test(a_batch_holds_records_of_one_lane),
        cmocka_unit_test(no_more_than_depth_are_at_the_store),
        cmocka_unit_test(full_batches_leave_in_their_order),
        cmocka_unit_test(a_writer_is_bounded_over_all_its_lanes),
        cmocka_unit_test(many_small_batches_are_small),
        cmocka_unit_test(what_is_forgotten_is_never_called_back),
        cmocka_unit_test(a_writer_closes_with_batches_at_the_store),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
