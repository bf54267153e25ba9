/* The in-memory store: what it costs, its bound, who has a run, and that it outlives its writers.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/base/list.h"
#include "engine/base/prng.h"
#include "engine/loop.h"
#include "journal/journal.h"

struct store {
    struct journal *journal;
    struct journal_writer *writers[2];
};

/* Time stands still: a writer asks its loop for nothing else. */
static struct loop still = {.is_virtual = true};

static void setup(struct store *store, uint64_t bytes_max)
{
    struct errmsg why;
    const struct journal_config config = {.uri = "memory", .writers = 2, .bytes_max = bytes_max};
    assert_int_equal(journal_open(&store->journal, &config, &why), 0);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(journal_writer_open(store->journal, i, &still, &store->writers[i], &why),
                         0);
}

static void teardown(struct store *store)
{
    for (unsigned i = 0; i < 2; i++)
        journal_writer_close(store->writers[i]);
    journal_close(store->journal);
}

struct note {
    struct journal_append append;
    int result;
};

static void on_note(struct journal_append *append, int result)
{
    container_of(append, struct note, append)->result = result;
}

static int put(struct journal_writer *writer, uint64_t run, uint32_t seq, const void *payload,
               size_t bytes)
{
    struct note note = {.append = {.done = on_note, .run = run, .seq = seq}, .result = 1};
    journal_append(writer, &note.append, RECORD_MODEL, payload, bytes);
    journal_flush(writer);
    assert_int_equal(journal_deliver(writer), 1);
    return note.result;
}

static int count_visit(void *arg, const struct journal_record *record)
{
    (void)record;
    ++*(unsigned *)arg;
    return 0;
}

static unsigned count_records(const struct store *store, unsigned part)
{
    unsigned count = 0;
    struct journal_count counted = {0};
    struct errmsg why;
    assert_int_equal(
        journal_scan(store->journal, 1, part, 1u << RECORD_MODEL, count_visit, &count, &why), 0);
    assert_int_equal(journal_count(store->journal, part, &counted, &why), 0);
    assert_int_equal(counted.records, count);
    return count;
}

static uint64_t run_of_any_number(unsigned i)
{
    return (prng_mix(i) & JOURNAL_RUN_MAX) |
           (i % 2 == 0 ? JOURNAL_RUN_MAX & ~(JOURNAL_RUN_MAX >> 1) : 0);
}

static void runs_of_any_number_have_a_place(void **state)
{
    (void)state;
    enum { RUNS = 3000 };
    struct store store;
    struct journal_record record;
    setup(&store, UINT64_C(1) << 30);
    for (unsigned i = 0; i < RUNS; i++) {
        uint64_t run = run_of_any_number(i);
        for (uint32_t seq = 0; seq < 3; seq++)
            assert_int_equal(put(store.writers[0], run, seq, &run, sizeof(run)), JOURNAL_ACKED);
    }
    for (unsigned i = 0; i < RUNS; i++) {
        uint64_t run = run_of_any_number(i);
        for (uint32_t seq = 0; seq < 3; seq++) {
            assert_int_equal(journal_read(store.writers[0], run, seq, &record), 0);
            assert_memory_equal(record.payload, &run, sizeof(run));
            assert_int_equal(record.seq, seq);
        }
        assert_int_equal(journal_read(store.writers[0], run, 3, &record), -ENOENT);
        assert_int_equal(journal_read(store.writers[0], run ^ 1, 0, &record), -ENOENT);
    }
    assert_int_equal(count_records(&store, 0), 3 * RUNS);
    assert_int_equal(count_records(&store, 1), 0);
    teardown(&store);
}

static void a_run_belongs_to_the_writer_of_its_first_record(void **state)
{
    (void)state;
    struct store store;
    setup(&store, 1 << 24);
    for (unsigned i = 0; i < 2000; i++)
        assert_int_equal(put(store.writers[i % 2], i, 0, "x", 1), JOURNAL_ACKED);
    for (unsigned i = 0; i < 2000; i++) {
        assert_int_equal(put(store.writers[(i + 1) % 2], i, 0, "x", 1), JOURNAL_CONFLICT);
        assert_int_equal(put(store.writers[(i + 1) % 2], i, 1, "y", 1), JOURNAL_GAP);
        assert_int_equal(put(store.writers[i % 2], i, 1, "y", 1), JOURNAL_ACKED);
    }
    assert_int_equal(count_records(&store, 0) + count_records(&store, 1), 4000);
    teardown(&store);
}

static void records_outlive_their_writer(void **state)
{
    (void)state;
    struct store store;
    struct journal_record record;
    struct errmsg why;
    setup(&store, 1 << 24);
    assert_int_equal(put(store.writers[0], 7, 0, "kept", 4), JOURNAL_ACKED);
    journal_writer_close(store.writers[0]);
    assert_int_equal(journal_writer_open(store.journal, 0, &still, &store.writers[0], &why), 0);
    assert_int_equal(journal_read(store.writers[0], 7, 0, &record), 0);
    assert_memory_equal(record.payload, "kept", 4);
    assert_int_equal(put(store.writers[0], 7, 1, "on", 2), JOURNAL_ACKED);
    teardown(&store);
}

/* At any bound, of one writer or two: some prefix of each run is taken, and the rest is
 * JOURNAL_FULL. */
static void at_the_bound_a_run_ends_without_a_gap(void **state)
{
    (void)state;
    static const uint64_t bounds[] = {1,      63,     4096,    5000,          69000,
                                      100000, 400000, 1 << 20, (1 << 20) + 1, 5 << 20};
    static const char payload[1000] = "x";
    struct store store;
    for (unsigned b = 0; b < sizeof(bounds) / sizeof(bounds[0]); b++) {
        uint64_t taken[2] = {0, 0};
        setup(&store, bounds[b]);
        for (unsigned i = 0; i < 4000; i++) {
            unsigned w = i % 2;
            bool is_full = false;
            for (uint32_t seq = 0; seq < 2; seq++) {
                int result = put(store.writers[w], i, seq, payload, sizeof(payload));
                assert_true(result == (is_full ? JOURNAL_FULL : result));
                assert_true(result == JOURNAL_ACKED || result == JOURNAL_FULL);
                is_full = result == JOURNAL_FULL;
                taken[w] += result == JOURNAL_ACKED;
            }
        }
        assert_true((taken[0] + taken[1]) * sizeof(payload) <= bounds[b]);
        if (bounds[b] >= 1 << 20)
            assert_true((taken[0] + taken[1]) * sizeof(payload) >= bounds[b] / 2);
        for (unsigned w = 0; w < 2; w++)
            assert_int_equal(count_records(&store, w), taken[w]);
        teardown(&store);
    }
}

static void a_large_record_that_finds_no_room_leaves_room_for_small_ones(void **state)
{
    (void)state;
    struct store store;
    struct journal_record record;
    char *payload = calloc(1, JOURNAL_PAYLOAD_BYTES_MAX);
    assert_non_null(payload);
    setup(&store, 4 << 20);
    struct journal_writer *writer = store.writers[0];
    assert_int_equal(put(writer, 1, 0, "a", 1), JOURNAL_ACKED);
    assert_int_equal(put(writer, 1, 1, payload, JOURNAL_PAYLOAD_BYTES_MAX), JOURNAL_FULL);
    assert_int_equal(put(writer, 1, 2, "c", 1), JOURNAL_FULL);
    assert_int_equal(journal_read(writer, 1, 1, &record), -ENOENT);
    assert_int_equal(put(writer, 2, 0, "a", 1), JOURNAL_ACKED);
    assert_int_equal(put(writer, 1, 1, "b", 1), JOURNAL_ACKED);
    assert_int_equal(put(writer, 1, 2, "c", 1), JOURNAL_ACKED);
    assert_int_equal(put(writer, 1, 9, "far", 3), JOURNAL_GAP); /* full no more */
    assert_int_equal(count_records(&store, 0), 4);
    teardown(&store);
    free(payload);
}

/* The order of a run in a scan holds when large records have chunks of their own between small
 * ones. */
static int order_visit(void *arg, const struct journal_record *record)
{
    uint32_t *next_seq = arg;
    assert_int_equal(record->seq, (*next_seq)++);
    return 0;
}

static void a_scan_keeps_the_order_whatever_the_sizes(void **state)
{
    (void)state;
    struct store store;
    char *payload = calloc(1, JOURNAL_PAYLOAD_BYTES_MAX);
    struct prng prng = prng_stream(3, 3, PRNG_TEST, 0);
    assert_non_null(payload);
    setup(&store, UINT64_C(1) << 32);
    for (uint32_t seq = 0; seq < 60; seq++) {
        size_t bytes = prng_below(&prng, UINT64_C(1) << prng_below(&prng, 24));
        assert_int_equal(put(store.writers[0], 9, seq, payload, bytes), JOURNAL_ACKED);
    }
    uint32_t next_seq = 0;
    static const uint64_t runs[] = {8, 9, 10};
    struct errmsg why;
    assert_int_equal(journal_scan(store.journal, 1, 0, UINT32_MAX, order_visit, &next_seq, &why),
                     0);
    assert_int_equal(next_seq, 60);
    next_seq = 0;
    assert_int_equal(journal_read_runs(store.journal, 0, runs, 3, order_visit, &next_seq, &why), 0);
    assert_int_equal(next_seq, 60);
    next_seq = 0;
    assert_int_equal(journal_read_runs(store.journal, 1, runs, 3, order_visit, &next_seq, &why), 0);
    assert_int_equal(next_seq, 0); /* the other writer's part */
    teardown(&store);
    free(payload);
}

/* The bound counts all that the store takes, so what fits into it says what a run costs. */
static void a_run_of_six_records_costs_little(void **state)
{
    (void)state;
    enum { RUNS = 50000, RECORDS = 6, PAYLOAD_BYTES = 152, OVERHEAD_BYTES_MAX = 214 };
    const uint64_t chunks = 3 * UINT64_C(2 << 20); /* the last ones are not full */
    const uint64_t bound = RUNS * (RECORDS * PAYLOAD_BYTES + OVERHEAD_BYTES_MAX) + chunks;
    static const char payload[PAYLOAD_BYTES] = "x";
    struct store store;
    struct note *notes = calloc(RUNS, sizeof(*notes));
    assert_non_null(notes);
    setup(&store, bound);
    for (uint32_t seq = 0; seq < RECORDS; seq++) {
        for (unsigned i = 0; i < RUNS; i++) {
            notes[i].append = (struct journal_append){.done = on_note, .run = i, .seq = seq};
            journal_append(store.writers[0], &notes[i].append, RECORD_TOOL, payload,
                           sizeof(payload));
            if (i % 1000 == 999) {
                journal_flush(store.writers[0]);
                assert_int_equal(journal_deliver(store.writers[0]), 1000);
            }
        }
    }
    assert_int_equal(journal_writer_totals(store.writers[0]).records, RUNS * RECORDS);
    teardown(&store);
    free(notes);
}

/* A reader that asks for some kinds is not shown what it cannot have asked for. */
static void kinds_that_nobody_knows_are_shown_to_who_wants_all(void **state)
{
    (void)state;
    static const unsigned kinds[] = {0, 1, 5, 6, 31, 32, 63, 127};
    enum { COUNT = sizeof(kinds) / sizeof(kinds[0]) };
    struct store store;
    struct note notes[COUNT];
    struct errmsg why;
    unsigned count = 0;
    setup(&store, 1 << 20);
    for (unsigned i = 0; i < COUNT; i++) {
        notes[i].append = (struct journal_append){.done = on_note, .run = i};
        journal_append(store.writers[0], &notes[i].append, (enum record_kind)kinds[i], "x", 1);
    }
    journal_flush(store.writers[0]);
    assert_int_equal(journal_deliver(store.writers[0]), COUNT);
    assert_int_equal(journal_scan(store.journal, 1, 0, 1u << RECORD_END, count_visit, &count, &why),
                     0);
    assert_int_equal(count, 1);
    assert_int_equal(journal_scan(store.journal, 1, 0, 1u << 31, count_visit, &count, &why), 0);
    assert_int_equal(count, 2);
    count = 0;
    assert_int_equal(journal_scan(store.journal, 0, 0, UINT32_MAX, count_visit, &count, &why), 0);
    assert_int_equal(count, COUNT);
    assert_int_equal(journal_scan(store.journal, 2, 0, UINT32_MAX, count_visit, &count, &why),
                     -ENOENT);
    assert_non_null(strstr(why.text, "no campaign 2"));
    struct journal_count counted = {.records = 1, .ends = 1};
    assert_int_equal(journal_count(store.journal, 0, &counted, &why), 0);
    assert_int_equal(counted.records, 1 + COUNT); /* added to */
    assert_int_equal(counted.begins, 1);
    assert_int_equal(counted.ends, 2);
    teardown(&store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_of_any_number_have_a_place),
        cmocka_unit_test(a_run_belongs_to_the_writer_of_its_first_record),
        cmocka_unit_test(records_outlive_their_writer),
        cmocka_unit_test(at_the_bound_a_run_ends_without_a_gap),
        cmocka_unit_test(a_large_record_that_finds_no_room_leaves_room_for_small_ones),
        cmocka_unit_test(a_scan_keeps_the_order_whatever_the_sizes),
        cmocka_unit_test(kinds_that_nobody_knows_are_shown_to_who_wants_all),
        cmocka_unit_test(a_run_of_six_records_costs_little),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
