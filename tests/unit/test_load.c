/* Arrivals: which run starts next, until when, and how many are in flight; from many threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdlib.h>

#include "engine/load.h"

static void runs_are_handed_out_in_order_and_no_more(void **state)
{
    (void)state;
    struct load load;
    uint64_t run = 77;
    load_init(&load, 3, UINT64_MAX);
    assert_int_equal(load_claimed(&load), 0);
    for (uint64_t i = 0; i < 3; i++) {
        assert_true(load_claim(&load, 1000, &run));
        assert_int_equal(run, i);
        assert_int_equal(load_claimed(&load), i + 1);
    }
    for (unsigned i = 0; i < 1000; i++)
        assert_false(load_claim(&load, 1000, &run));
    assert_int_equal(load_claimed(&load), 3);
    assert_int_equal(atomic_load(&load.next_run), 3); /* idle slots do not push it on */
}

static void no_run_starts_when_the_time_is_over(void **state)
{
    (void)state;
    struct load load;
    uint64_t run = 77;
    load_init(&load, UINT64_MAX, 1000);
    assert_true(load_claim(&load, 0, &run));
    assert_true(load_claim(&load, 999, &run));
    assert_int_equal(run, 1);
    assert_false(load_claim(&load, 1000, &run));
    assert_false(load_claim(&load, UINT64_MAX, &run));
    assert_int_equal(load_claimed(&load), 2);
}

static void no_run_starts_after_a_stop(void **state)
{
    (void)state;
    struct load load;
    uint64_t run = 77;
    load_init(&load, 10, UINT64_MAX);
    assert_true(load_claim(&load, 0, &run));
    assert_false(load_is_stopped(&load));
    load_stop(&load);
    assert_true(load_is_stopped(&load));
    load_stop(&load); /* a second time changes nothing */
    assert_false(load_claim(&load, 0, &run));
    assert_int_equal(load_claimed(&load), 1);
}

/* Those of the warm-up have numbers as well, but only what is measured has a bound. */
static void a_warm_up_is_not_counted(void **state)
{
    (void)state;
    struct load load;
    uint64_t run = 77;
    load_init(&load, 3, UINT64_MAX);
    load.has_warmup = true;
    for (uint64_t i = 0; i < 10; i++) {
        assert_true(load_claim_warmup(&load, 1000, &run));
        assert_int_equal(run, i);
    }
    for (uint64_t i = 10; i < 13; i++) {
        assert_true(load_claim(&load, 1000, &run));
        assert_int_equal(run, i);
    }
    for (unsigned i = 0; i < 1000; i++)
        assert_false(load_claim(&load, 1000, &run));
    assert_int_equal(atomic_load(&load.measured), 3);
    assert_true(load_claim_warmup(&load, 1000, &run)); /* one that was to start before */
    assert_int_equal(run, 13);
    assert_int_equal(load_claimed(&load), 14);
    load.until_ns = 1000;
    assert_false(load_claim_warmup(&load, 1000, &run));
    load_stop(&load);
    assert_false(load_claim_warmup(&load, 0, &run));
}

static void the_peak_is_the_most_at_one_time(void **state)
{
    (void)state;
    struct load load;
    load_init(&load, 10, UINT64_MAX);
    assert_int_equal(load.in_flight_peak, 0);
    for (unsigned i = 0; i < 3; i++)
        load_slot_filled(&load);
    load_slot_emptied(&load);
    load_slot_emptied(&load);
    load_slot_filled(&load);
    assert_int_equal(load.in_flight, 2);
    assert_int_equal(load.in_flight_peak, 3);
    load_slot_filled(&load);
    load_slot_filled(&load);
    assert_int_equal(load.in_flight_peak, 4);
}

/* --- from many threads --- */

/* Many short rounds: what may go wrong is the last claim of one. */
enum { THREADS = 4, ROUNDS = 300, RUNS = 2000 };

struct shared {
    struct load load;
    pthread_barrier_t start;
    _Atomic unsigned char seen[RUNS]; /* how often each run was handed out */
};

struct claimer {
    pthread_t id;
    struct shared *shared;
    uint64_t count;
};

static void *claim_all(void *arg)
{
    struct claimer *claimer = arg;
    struct shared *shared = claimer->shared;
    uint64_t run = 0;
    (void)pthread_barrier_wait(&shared->start); /* cannot fail; says which thread was the last */
    while (load_claim(&shared->load, 0, &run)) {
        load_slot_filled(&shared->load);
        if (run < RUNS)
            atomic_fetch_add(&shared->seen[run], 1);
        claimer->count++;
        load_slot_emptied(&shared->load);
    }
    return NULL;
}

static void claim_round(struct shared *shared)
{
    struct claimer claimers[THREADS];
    uint64_t count = 0;
    load_init(&shared->load, RUNS, UINT64_MAX);
    assert_int_equal(pthread_barrier_init(&shared->start, NULL, THREADS), 0);
    for (unsigned i = 0; i < RUNS; i++)
        atomic_init(&shared->seen[i], 0);
    for (unsigned i = 0; i < THREADS; i++) {
        claimers[i] = (struct claimer){.shared = shared};
        assert_int_equal(pthread_create(&claimers[i].id, NULL, claim_all, &claimers[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(claimers[i].id, NULL), 0);
        count += claimers[i].count;
    }
    assert_int_equal(pthread_barrier_destroy(&shared->start), 0);
    assert_int_equal(count, RUNS);
    for (unsigned i = 0; i < RUNS; i++)
        assert_int_equal(shared->seen[i], 1);
    assert_int_equal(load_claimed(&shared->load), RUNS);
    assert_int_equal(shared->load.in_flight, 0);
    assert_in_range(shared->load.in_flight_peak, 1, THREADS);
}

static void each_run_is_handed_out_once_whoever_asks(void **state)
{
    (void)state;
    struct shared *shared = aligned_alloc(64, (sizeof(*shared) + 63) / 64 * 64);
    assert_non_null(shared);
    for (unsigned round = 0; round < ROUNDS; round++)
        claim_round(shared);
    free(shared);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_are_handed_out_in_order_and_no_more),
        cmocka_unit_test(no_run_starts_when_the_time_is_over),
        cmocka_unit_test(no_run_starts_after_a_stop),
        cmocka_unit_test(a_warm_up_is_not_counted),
        cmocka_unit_test(the_peak_is_the_most_at_one_time),
        cmocka_unit_test(each_run_is_handed_out_once_whoever_asks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
