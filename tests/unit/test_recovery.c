/*
 * Which runs are to be resumed, told from what a store shows of them, and their records, a block at
 * a time: each run once, whole, whoever asks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/prng.h"
#include "engine/recovery.h"
#include "tests/lib/script_journal.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

enum { KIND_UNKNOWN = 9, SLOTS = 1000000 };

static void add(struct script *script, unsigned part, uint64_t run, uint32_t seq,
                enum record_kind kind)
{
    static const char payload[] = "{}";
    const struct journal_record record = {.campaign = 1,
                                          .run = run,
                                          .digest = run * 1000 + seq,
                                          .payload = payload,
                                          .seq = seq,
                                          .bytes = sizeof(payload) - 1,
                                          .kind = kind};
    script_add(script, part, &record);
}

/* With slots for all. */
static void open_recovery(struct recovery *recovery, struct journal *journal, unsigned workers)
{
    struct errmsg why = {.text = ""};
    if (recovery_open(recovery, journal, workers, SLOTS, &why) != 0)
        fail_msg("%s", why.text);
}

/* --- which runs --- */

static void those_begun_and_not_ended_are_unfinished(void **state)
{
    (void)state;
    static const struct {
        uint64_t run;
        bool has_begun;
        bool has_ended;
        bool has_unknown;
    } runs[] = {
        {JOURNAL_RUN_MAX, true, false, false},
        {0, true, false, false},
        {1, true, true, false},
        {2, false, true, false}, /* damaged: verify tells of it */
        {63, true, false, true}, /* a kind that nobody knows is no end */
        {64, true, false, false},
        {127, true, true, true},
        {128, false, false, true},
        {UINT64_C(1) << 39, true, false, false},
        {JOURNAL_RUN_MAX - 1, true, true, false},
    };
    static const uint64_t unfinished[] = {0, 63, 64, UINT64_C(1) << 39, JOURNAL_RUN_MAX};
    struct script script;
    struct recovery recovery;
    script_init(&script, 1);
    for (size_t i = 0; i < COUNT_OF(runs); i++) {
        if (runs[i].has_begun)
            add(&script, 0, runs[i].run, 0, RECORD_BEGIN);
        add(&script, 0, runs[i].run, 1, RECORD_MODEL);
        if (runs[i].has_unknown)
            add(&script, 0, runs[i].run, 2, (enum record_kind)KIND_UNKNOWN);
    }
    for (size_t i = COUNT_OF(runs); i-- > 0;)
        if (runs[i].has_ended)
            add(&script, 0, runs[i].run, 3, RECORD_END);
    const struct journal_record other = {.campaign = 2, .run = 5, .kind = RECORD_BEGIN};
    script_add(&script, 0, &other); /* of another campaign */
    struct journal *journal = script_open(&script, JOURNAL_RESUME);
    open_recovery(&recovery, journal, 1);
    assert_int_equal(recovery.runs_begun, 8);
    assert_int_equal(recovery.runs_ended, 4);
    assert_int_equal(recovery.runs_unfinished, COUNT_OF(unfinished));
    assert_int_equal(recovery.parts[0].count, COUNT_OF(unfinished));
    for (size_t i = 0; i < COUNT_OF(unfinished); i++)
        assert_int_equal(recovery.parts[0].runs[i], unfinished[i]);
    recovery_close(&recovery);
    journal_close(journal);
    script_free(&script);
}

static void an_empty_campaign_has_none(void **state)
{
    (void)state;
    struct script script;
    struct recovery recovery;
    struct recovery_block block = {0};
    struct recovered_run run;
    struct errmsg why;
    int error = -1;
    script_init(&script, 3);
    struct journal *journal = script_open(&script, JOURNAL_RESUME);
    open_recovery(&recovery, journal, 4);
    assert_int_equal(recovery.runs_unfinished, 0);
    assert_false(recovery_next(&recovery, journal, &block, SLOTS, &run, &error, &why));
    assert_int_equal(error, 0);
    recovery_block_free(&block);
    recovery_close(&recovery);
    journal_close(journal);
    script_free(&script);
}

/* However far apart their numbers are, and in whichever order they come. */
static void sparse_runs_are_all_found_in_their_order(void **state)
{
    (void)state;
    enum { RUNS = 5000 };
    struct script script;
    struct recovery recovery;
    struct prng p = prng_stream(1, 0, PRNG_TEST, 0);
    script_init(&script, 1);
    for (unsigned i = 0; i < RUNS; i++) {
        uint64_t run = prng_below(&p, JOURNAL_RUN_MAX);
        add(&script, 0, run, 0, RECORD_BEGIN);
        if (i % 4 == 0)
            add(&script, 0, run, 1, RECORD_END);
    }
    struct journal *journal = script_open(&script, JOURNAL_RESUME);
    open_recovery(&recovery, journal, 1);
    const struct recovery_part *part = &recovery.parts[0];
    assert_int_equal(recovery.runs_begun, RUNS);
    assert_int_equal(part->count, RUNS - RUNS / 4);
    for (size_t i = 1; i < part->count; i++)
        assert_true(part->runs[i - 1] < part->runs[i]);
    recovery_close(&recovery);
    journal_close(journal);
    script_free(&script);
}

/* --- their records --- */

/* Checks the records of a run that has one more than its number says. */
static uint32_t records_of(uint64_t run)
{
    return 1 + (uint32_t)(run % 5);
}

static void check_run(const struct recovered_run *run)
{
    assert_int_equal(run->count, records_of(run->run));
    for (uint32_t seq = 0; seq < run->count; seq++) {
        const struct recovered_record *record = &run->records[seq];
        assert_int_equal(record->seq, seq);
        assert_int_equal(record->kind, seq == 0 ? RECORD_BEGIN : RECORD_MODEL);
        assert_int_equal(record->digest, run->run * 1000 + seq);
        assert_int_equal(record->bytes, 2);
        assert_memory_equal(run->bytes + record->offset, "{}", 2);
    }
}

enum { CLAIMERS = 4, CLAIMED_RUNS = 3000, CLAIMED_PARTS = 3 };

struct claimer {
    pthread_t id;
    struct recovery *recovery;
    struct journal *journal;
    struct recovery_block block;
    uint64_t seen[CLAIMED_RUNS];
    size_t count;
    uint64_t records;
    int error;
};

static void *claim_all(void *arg)
{
    struct claimer *claimer = arg;
    struct recovered_run run;
    struct errmsg why;
    while (claimer->count < CLAIMED_RUNS &&
           recovery_next(claimer->recovery, claimer->journal, &claimer->block, SLOTS, &run,
                         &claimer->error, &why)) {
        check_run(&run);
        claimer->seen[claimer->count++] = run.run;
        claimer->records += run.count;
    }
    return NULL;
}

static void each_run_is_handed_out_once_whoever_asks(void **state)
{
    (void)state;
    struct script script;
    struct recovery recovery;
    struct claimer *claimers = calloc(CLAIMERS, sizeof(*claimers));
    unsigned *seen = calloc(CLAIMED_RUNS, sizeof(*seen));
    uint64_t records = 0;
    assert_true(claimers != NULL && seen != NULL);
    script_init(&script, CLAIMED_PARTS);
    for (uint64_t run = 0; run < CLAIMED_RUNS; run++)
        for (uint32_t seq = 0; seq < records_of(run); seq++, records++)
            add(&script, (unsigned)(run % CLAIMED_PARTS), run, seq,
                seq == 0 ? RECORD_BEGIN : RECORD_MODEL);
    struct journal *journal = script_open(&script, JOURNAL_RESUME);
    open_recovery(&recovery, journal, CLAIMERS);
    for (unsigned i = 0; i < CLAIMERS; i++) {
        claimers[i].recovery = &recovery;
        claimers[i].journal = journal;
        claimers[i].block.part = i; /* there may be more workers than parts */
        assert_int_equal(pthread_create(&claimers[i].id, NULL, claim_all, &claimers[i]), 0);
    }
    size_t count = 0;
    for (unsigned i = 0; i < CLAIMERS; i++) {
        assert_int_equal(pthread_join(claimers[i].id, NULL), 0);
        assert_int_equal(claimers[i].error, 0);
        for (size_t k = 0; k < claimers[i].count; k++)
            seen[claimers[i].seen[k]]++;
        count += claimers[i].count;
        records -= claimers[i].records;
        recovery_block_free(&claimers[i].block);
    }
    assert_int_equal(count, CLAIMED_RUNS);
    assert_int_equal(records, 0);
    for (unsigned run = 0; run < CLAIMED_RUNS; run++)
        assert_int_equal(seen[run], 1);
    free(seen);
    free(claimers);
    recovery_close(&recovery);
    journal_close(journal);
    script_free(&script);
}

/* Few runs are shared out all the same. */
static void every_worker_gets_some(void **state)
{
    (void)state;
    struct script script;
    struct recovery recovery;
    struct recovery_block blocks[4];
    script_init(&script, 1);
    for (uint64_t run = 0; run < 40; run++)
        add(&script, 0, run, 0, RECORD_BEGIN);
    struct journal *journal = script_open(&script, JOURNAL_RESUME);
    open_recovery(&recovery, journal, COUNT_OF(blocks));
    for (unsigned i = 0; i < COUNT_OF(blocks); i++) {
        struct recovered_run run;
        struct errmsg why;
        int error = 0;
        blocks[i] = (struct recovery_block){.part = 0};
        assert_true(recovery_next(&recovery, journal, &blocks[i], SLOTS, &run, &error, &why));
        assert_in_range(blocks[i].claimed, 1, 10);
        recovery_block_free(&blocks[i]);
    }
    recovery_close(&recovery);
    journal_close(journal);
    script_free(&script);
}

/* --- claims and slots --- */

struct slots {
    struct recovery_block block;
    uint32_t free;
    uint64_t taken;
};

/* The worker fills a slot. False when nothing is left for it. */
static bool fill_slot(struct recovery *recovery, struct journal *journal, struct slots *slots)
{
    struct recovered_run run;
    struct errmsg why;
    int error = 0;
    assert_true(slots->free > 0);
    if (!recovery_next(recovery, journal, &slots->block, slots->free, &run, &error, &why))
        return false;
    slots->free--;
    slots->taken++;
    return true;
}

static unsigned held_back(const struct slots *slots)
{
    return slots->block.claimed - slots->block.next;
}

/* Whoever is first: where there is a slot for every run, every run has one in the end. */
static void nobody_claims_what_it_has_no_slot_for(void **state)
{
    (void)state;
    static const unsigned counts[] = {1, 2, 50, 99, 100, 1001, 5000};
    for (size_t i = 0; i < COUNT_OF(counts); i++) {
        struct script script;
        struct recovery recovery;
        struct errmsg why;
        unsigned count = counts[i];
        struct slots workers[2] = {{.free = count / 2}, {.free = count - count / 2}};
        script_init(&script, 2);
        for (uint64_t run = 0; run < count; run++)
            add(&script, run % 3 == 0, run, 0, RECORD_BEGIN);
        struct journal *journal = script_open(&script, JOURNAL_RESUME);
        assert_int_equal(recovery_open(&recovery, journal, 2, count, &why), 0);
        for (unsigned w = 0; w < 2; w++) {
            while (workers[w].free > 0)
                assert_true(fill_slot(&recovery, journal, &workers[w]));
            assert_int_equal(held_back(&workers[w]), 0);
            recovery_block_free(&workers[w].block);
        }
        recovery_close(&recovery);
        journal_close(journal);
        script_free(&script);
    }
}

/* With fewer slots than runs they are read in blocks all the same, and the last are shared out: one
 * worker whose runs never end keeps hardly any that another could resume. */
static void what_is_claimed_ahead_gets_less_to_the_end(void **state)
{
    (void)state;
    enum { RUNS = 5000, FREE = 5 };
    struct script script;
    struct recovery recovery;
    struct errmsg why;
    unsigned claimed_most = 0;
    struct slots workers[2] = {{.free = FREE}, {.free = FREE}};
    script_init(&script, 1);
    for (uint64_t run = 0; run < RUNS; run++)
        add(&script, 0, run, 0, RECORD_BEGIN);
    struct journal *journal = script_open(&script, JOURNAL_RESUME);
    assert_int_equal(recovery_open(&recovery, journal, 2, 2 * FREE, &why), 0);
    while (workers[0].free > 0)
        assert_true(fill_slot(&recovery, journal, &workers[0]));
    assert_int_equal(held_back(&workers[0]), 0); /* the other has had none */
    do {
        workers[1].free = 1; /* its runs end at once */
        if (workers[1].block.claimed > claimed_most)
            claimed_most = workers[1].block.claimed;
    } while (fill_slot(&recovery, journal, &workers[1]));
    assert_int_equal(workers[1].taken, RUNS - FREE);
    assert_in_range(claimed_most, RECOVERY_BLOCK_RUNS / 2, RECOVERY_BLOCK_RUNS);
    assert_in_range(workers[1].block.claimed, 1, 2); /* the last */
    for (unsigned w = 0; w < 2; w++)
        recovery_block_free(&workers[w].block);
    recovery_close(&recovery);
    journal_close(journal);
    script_free(&script);
}

enum { LARGE_RUNS = 40, LARGE_BYTES_MAX = JOURNAL_PAYLOAD_BYTES_MAX };

/* 3 MiB a record mostly, up to 16 MiB, and some of none; two a run. */
static uint32_t large_bytes(uint64_t run, uint32_t seq)
{
    return run % 7 == 3 ? LARGE_BYTES_MAX : run % 5 == 0 ? 0 : (3 << 20) + (uint32_t)run + seq;
}

static void a_block_that_is_full_is_continued(void **state)
{
    (void)state;
    struct script script;
    struct recovery recovery;
    struct recovery_block block = {0};
    struct recovered_run run;
    struct errmsg why;
    int error = 0;
    char *bytes = calloc(1, LARGE_BYTES_MAX);
    assert_non_null(bytes);
    script_init(&script, 1);
    for (uint64_t i = 0; i < 2 * LARGE_RUNS; i++) {
        uint32_t seq = i % 2;
        const struct journal_record record = {.campaign = 1,
                                              .run = i / 2,
                                              .seq = seq,
                                              .kind = seq == 0 ? RECORD_BEGIN : RECORD_MODEL,
                                              .payload = bytes,
                                              .bytes = large_bytes(i / 2, seq)};
        script_add(&script, 0, &record);
    }
    struct journal *journal = script_open(&script, JOURNAL_RESUME);
    open_recovery(&recovery, journal, 1);
    uint64_t count = 0;
    while (recovery_next(&recovery, journal, &block, SLOTS, &run, &error, &why)) {
        assert_int_equal(run.run, count++);
        assert_int_equal(run.count, 2);
        for (uint32_t seq = 0; seq < 2; seq++)
            assert_int_equal(run.records[seq].bytes, large_bytes(run.run, seq));
        assert_true(block.bytes_used < RECOVERY_BLOCK_BYTES + 2 * (size_t)LARGE_BYTES_MAX);
        /* What is counted beyond is for the copy. */
        assert_true(block.bytes_capacity <
                    (RECOVERY_BLOCK_BYTES + 2 * (size_t)LARGE_BYTES_MAX) / 4 * 5);
    }
    assert_int_equal(error, 0);
    assert_int_equal(count, LARGE_RUNS);
    recovery_block_free(&block);
    recovery_close(&recovery);
    journal_close(journal);
    script_free(&script);
    free(bytes);
}

/* The store has shown its begin, and shows nothing when the run is read: it is not left out. */
static void a_run_without_records_is_handed_out_too(void **state)
{
    (void)state;
    static const unsigned hidden[] = {0, 1, 4, 9}; /* at the start, in the middle, at the end */
    struct script script;
    struct recovery recovery;
    struct recovery_block block = {0};
    struct recovered_run run;
    struct errmsg why;
    int error = 0;
    script_init(&script, 1);
    for (uint64_t i = 0; i < 10; i++)
        add(&script, 0, i, 0, RECORD_BEGIN);
    for (unsigned i = 0; i < COUNT_OF(hidden); i++)
        script.records[hidden[i]].is_hidden = true;
    struct journal *journal = script_open(&script, JOURNAL_RESUME);
    open_recovery(&recovery, journal, 1);
    for (uint64_t i = 0; i < 10; i++) {
        assert_true(recovery_next(&recovery, journal, &block, SLOTS, &run, &error, &why));
        assert_int_equal(run.run, i);
        assert_int_equal(run.count, !script.records[i].is_hidden);
    }
    assert_false(recovery_next(&recovery, journal, &block, SLOTS, &run, &error, &why));
    recovery_block_free(&block);
    recovery_close(&recovery);
    journal_close(journal);
    script_free(&script);
}

/* --- failures --- */

static void a_store_that_cannot_be_read_is_told(void **state)
{
    (void)state;
    struct script script;
    struct recovery recovery;
    struct errmsg why = {.text = ""};
    script_init(&script, 3);
    for (uint64_t run = 0; run < 30; run++)
        add(&script, (unsigned)(run % 3), run, 0, RECORD_BEGIN);
    add(&script, 2, 2, 1, RECORD_MODEL);
    script.scan_fails_after = 10; /* the others have no more */
    struct journal *journal = script_open(&script, JOURNAL_RESUME);
    assert_int_equal(recovery_open(&recovery, journal, 2, SLOTS, &why), -EIO);
    assert_string_equal(why.text, "part 2 cannot be read");
    assert_null(recovery.parts);
    recovery_close(&recovery); /* once more does nothing */
    journal_close(journal);
    script_free(&script);
}

static void runs_that_cannot_be_read_are_told(void **state)
{
    (void)state;
    struct script script;
    struct recovery recovery;
    struct recovery_block block = {0};
    struct recovered_run run;
    struct errmsg why = {.text = "something else"};
    int error = 0;
    script_init(&script, 1);
    for (uint64_t i = 0; i < 30; i++)
        add(&script, 0, i, 0, RECORD_BEGIN);
    script.does_read_fail = true;
    struct journal *journal = script_open(&script, JOURNAL_RESUME);
    open_recovery(&recovery, journal, 1);
    assert_false(recovery_next(&recovery, journal, &block, SLOTS, &run, &error, &why));
    assert_int_equal(error, -EIO);
    assert_string_equal(why.text, "run 0 cannot be read");
    /* What could not be read whole is not handed out in part. */
    uint64_t first = atomic_load(&recovery.claimed);
    script.does_read_fail = false;
    assert_true(recovery_next(&recovery, journal, &block, SLOTS, &run, &error, &why));
    assert_int_equal(run.run, first);
    recovery_block_free(&block);
    recovery_close(&recovery);
    journal_close(journal);
    script_free(&script);
}

/* Damage of one run is that run's alone. */
static void a_run_that_cannot_be_shown_is_handed_out_as_such(void **state)
{
    (void)state;
    enum { RUNS = 200 };
    static const unsigned damaged[] = {0, 1, 17, 199};
    struct script script;
    struct recovery recovery;
    struct recovery_block block = {0};
    struct recovered_run run;
    struct errmsg why;
    int error = 0;
    script_init(&script, 1);
    for (uint64_t i = 0; i < RUNS; i++)
        for (uint32_t seq = 0; seq < 2; seq++)
            add(&script, 0, i, seq, seq == 0 ? RECORD_BEGIN : RECORD_MODEL);
    for (unsigned i = 0; i < COUNT_OF(damaged); i++)
        script.records[2 * damaged[i] + i % 2].is_unreadable = true;
    struct journal *journal = script_open(&script, JOURNAL_RESUME);
    open_recovery(&recovery, journal, 1);
    for (uint64_t i = 0, at = 0; i < RUNS; i++) {
        assert_true(recovery_next(&recovery, journal, &block, SLOTS, &run, &error, &why));
        assert_int_equal(run.run, i);
        bool is_damaged = at < COUNT_OF(damaged) && damaged[at] == i;
        assert_int_equal(run.count, is_damaged ? 0 : 2);
        if (is_damaged) {
            char expected[64];
            (void)snprintf(expected, sizeof(expected), "run %u is damaged", damaged[at++]);
            assert_string_equal(run.fault, expected);
        } else {
            assert_null(run.fault);
        }
    }
    assert_false(recovery_next(&recovery, journal, &block, SLOTS, &run, &error, &why));
    assert_int_equal(error, 0);
    recovery_block_free(&block);
    recovery_close(&recovery);
    journal_close(journal);
    script_free(&script);
}

/* A store that shows runs in another order than asked for is asked for one at a time. */
static void runs_in_another_order_are_read_alone(void **state)
{
    (void)state;
    struct script script;
    struct recovery recovery;
    struct recovery_block block = {0};
    struct recovered_run run;
    struct errmsg why;
    int error = 0;
    script_init(&script, 1);
    for (uint64_t i = 0; i < 30; i++)
        add(&script, 0, i, 0, RECORD_BEGIN);
    script.are_runs_reversed = true;
    struct journal *journal = script_open(&script, JOURNAL_RESUME);
    open_recovery(&recovery, journal, 1);
    for (uint64_t i = 0; i < 30; i++) {
        assert_true(recovery_next(&recovery, journal, &block, SLOTS, &run, &error, &why));
        assert_int_equal(run.run, i);
        assert_int_equal(run.count, 1);
        assert_null(run.fault);
    }
    recovery_block_free(&block);
    recovery_close(&recovery);
    journal_close(journal);
    script_free(&script);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(those_begun_and_not_ended_are_unfinished),
        cmocka_unit_test(an_empty_campaign_has_none),
        cmocka_unit_test(sparse_runs_are_all_found_in_their_order),
        cmocka_unit_test(each_run_is_handed_out_once_whoever_asks),
        cmocka_unit_test(every_worker_gets_some),
        cmocka_unit_test(nobody_claims_what_it_has_no_slot_for),
        cmocka_unit_test(what_is_claimed_ahead_gets_less_to_the_end),
        cmocka_unit_test(a_block_that_is_full_is_continued),
        cmocka_unit_test(a_run_without_records_is_handed_out_too),
        cmocka_unit_test(a_store_that_cannot_be_read_is_told),
        cmocka_unit_test(runs_that_cannot_be_read_are_told),
        cmocka_unit_test(a_run_that_cannot_be_shown_is_handed_out_as_such),
        cmocka_unit_test(runs_in_another_order_are_read_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
