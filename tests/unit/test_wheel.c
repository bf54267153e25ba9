/*
 * The timing wheel: every boundary by hand, and thousands of random histories against a model that
 * knows only deadlines.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "engine/base/prng.h"
#include "engine/base/wheel.h"

#define TICK_NS (UINT64_C(1) << WHEEL_TICK_BITS)
#define HORIZON_NS (TICK_NS << (WHEEL_SLOT_BITS * WHEEL_LEVELS))

static struct wheel wheel; /* 16 KiB, so not on the stack of every test */

static void arm(struct timer *timer, uint64_t deadline_ns)
{
    timer_init(timer, NULL);
    timer->deadline_ns = deadline_ns;
    wheel_add(&wheel, timer);
}

/* A slot has its bit exactly while it holds a timer, and armed_count counts them all. */
static void check_invariants(const struct wheel *w)
{
    uint64_t count = 0;
    for (const struct list *l = w->due.next; l != &w->due; l = l->next)
        count++;
    for (unsigned level = 0; level < WHEEL_LEVELS; level++) {
        for (unsigned slot = 0; slot < WHEEL_SLOTS; slot++) {
            const struct list *head = &w->slots[level][slot];
            bool bit = (w->occupied[level][slot / 64] >> (slot % 64) & 1) != 0;
            assert_int_equal(bit, !list_empty(head));
            for (const struct list *l = head->next; l != head; l = l->next)
                count++;
        }
    }
    assert_int_equal(w->armed_count, count);
}

static void test_empty(void **state)
{
    (void)state;
    wheel_init(&wheel, 12345 * TICK_NS);
    assert_int_equal(wheel_next_ns(&wheel), UINT64_MAX);
    wheel_advance(&wheel, UINT64_MAX);
    assert_null(wheel_pop_due(&wheel));
    assert_int_equal(wheel_next_ns(&wheel), UINT64_MAX);
}

/* Never before the deadline, and at the latest at the first tick that begins after it. */
static void check_one(uint64_t start_ns, uint64_t deadline_ns)
{
    wheel_init(&wheel, start_ns);
    struct timer timer;
    arm(&timer, deadline_ns);
    uint64_t last_ns = start_ns;
    for (unsigned turns = 0; list_empty(&wheel.due); turns++) {
        assert_true(turns <= WHEEL_LEVELS);
        uint64_t next_ns = wheel_next_ns(&wheel);
        assert_true(next_ns > last_ns);
        assert_true(next_ns < deadline_ns + TICK_NS);
        /* A moment too early must change nothing. */
        wheel_advance(&wheel, next_ns - 1);
        assert_null(wheel_pop_due(&wheel));
        assert_int_equal(wheel_next_ns(&wheel), next_ns);
        wheel_advance(&wheel, next_ns);
        last_ns = next_ns;
    }
    assert_true(last_ns >= deadline_ns);
    assert_true(last_ns < deadline_ns + TICK_NS || last_ns == start_ns);
    check_invariants(&wheel);
    assert_ptr_equal(wheel_pop_due(&wheel), &timer);
    assert_false(timer_is_armed(&timer));
    assert_int_equal(wheel_next_ns(&wheel), UINT64_MAX);
}

static void test_boundaries(void **state)
{
    (void)state;
    const uint64_t starts[] = {0,
                               1,
                               TICK_NS - 1,
                               TICK_NS,
                               255 * TICK_NS,
                               256 * TICK_NS,
                               (TICK_NS << 16) - TICK_NS,
                               TICK_NS << 16,
                               (TICK_NS << 24) - 1,
                               HORIZON_NS - TICK_NS,
                               HORIZON_NS + 77777};
    for (size_t i = 0; i < sizeof(starts) / sizeof(*starts); i++) {
        for (unsigned bits = 0; bits < 47; bits++) {
            const uint64_t distance = UINT64_C(1) << bits;
            for (uint64_t offset = 0; offset < 3; offset++) {
                check_one(starts[i], starts[i] + distance - 1 + offset);
                check_one(starts[i], (starts[i] + distance) / distance * distance + offset);
                check_one(starts[i], (starts[i] + distance) / TICK_NS * TICK_NS + offset);
            }
        }
    }
}

static void test_past_deadline_is_due_at_once(void **state)
{
    (void)state;
    wheel_init(&wheel, 1000 * TICK_NS);
    struct timer past, now;
    arm(&past, 3);
    arm(&now, 1000 * TICK_NS);
    assert_int_equal(wheel_next_ns(&wheel), 0);
    assert_ptr_equal(wheel_pop_due(&wheel), &past);
    assert_ptr_equal(wheel_pop_due(&wheel), &now);
    assert_null(wheel_pop_due(&wheel));
}

static void test_order_within_a_tick(void **state)
{
    (void)state;
    struct timer timers[100];
    wheel_init(&wheel, 0);
    for (unsigned i = 0; i < 100; i++)
        arm(&timers[i], 7 * TICK_NS - i);
    wheel_advance(&wheel, 7 * TICK_NS);
    for (unsigned i = 0; i < 100; i++)
        assert_ptr_equal(wheel_pop_due(&wheel), &timers[i]);
}

/* Two timers of one tick on different levels: the one that was armed first waits higher up. */
static void test_order_across_levels(void **state)
{
    (void)state;
    const uint64_t deadline_ns = TICK_NS << 24;
    struct timer first, second;
    wheel_init(&wheel, 0);
    arm(&first, deadline_ns);
    wheel_advance(&wheel, deadline_ns - (TICK_NS << 12));
    arm(&second, deadline_ns);
    wheel_advance(&wheel, deadline_ns);
    assert_ptr_equal(wheel_pop_due(&wheel), &first);
    assert_ptr_equal(wheel_pop_due(&wheel), &second);
}

static void test_cancel_anywhere(void **state)
{
    (void)state;
    /* The first, the middle and the last of three in a slot of each level, and on the due list. */
    const uint64_t deadlines[] = {
        0, 5 * TICK_NS, TICK_NS << 9, TICK_NS << 17, TICK_NS << 25, HORIZON_NS * 3};
    for (size_t d = 0; d < sizeof(deadlines) / sizeof(*deadlines); d++) {
        for (unsigned victim = 0; victim < 3; victim++) {
            struct timer timers[3];
            wheel_init(&wheel, 0);
            for (unsigned i = 0; i < 3; i++)
                arm(&timers[i], deadlines[d]);
            wheel_cancel(&wheel, &timers[victim]);
            wheel_cancel(&wheel, &timers[victim]); /* does nothing */
            assert_false(timer_is_armed(&timers[victim]));
            check_invariants(&wheel);
            wheel_cancel(&wheel, &timers[(victim + 1) % 3]);
            check_invariants(&wheel);
            assert_true(wheel_next_ns(&wheel) != UINT64_MAX);
            wheel_cancel(&wheel, &timers[(victim + 2) % 3]);
            check_invariants(&wheel);
            assert_int_equal(wheel_next_ns(&wheel), UINT64_MAX);
        }
    }
}

static void test_beyond_the_horizon(void **state)
{
    (void)state;
    wheel_init(&wheel, 5 * TICK_NS);
    struct timer year, end;
    arm(&year, UINT64_C(365) * 86400 * 1000000000);
    arm(&end, UINT64_MAX);
    wheel_advance(&wheel, year.deadline_ns - 1);
    assert_null(wheel_pop_due(&wheel));
    wheel_advance(&wheel, year.deadline_ns + TICK_NS);
    assert_ptr_equal(wheel_pop_due(&wheel), &year);
    /* Half a million years of ticks: only the occupied slots may be visited. */
    wheel_advance(&wheel, UINT64_MAX - TICK_NS);
    assert_null(wheel_pop_due(&wheel));
    wheel_cancel(&wheel, &end);
    check_invariants(&wheel);
}

enum { MODEL_TIMERS = 200, MODEL_STEPS = 120, MODEL_SEEDS = 4000 };

struct model {
    struct prng prng;
    struct wheel *wheel;
    struct timer timers[MODEL_TIMERS];
    uint64_t now_ns;
    bool pops_all; /* else some of the due timers are left for later */
};

/* All magnitudes alike, and often on the edge of a slot. */
static uint64_t random_distance(struct prng *prng)
{
    uint64_t distance = prng_next(prng) >> (64 - (1 + prng_below(prng, 50)));
    if (prng_below(prng, 3) != 0)
        return distance;
    unsigned shift = (unsigned)(WHEEL_TICK_BITS + WHEEL_SLOT_BITS * prng_below(prng, 5));
    return ((prng_below(prng, 300) + 1) << shift) + prng_below(prng, 3) - 1;
}

static void model_add(struct model *m)
{
    struct timer *timer = &m->timers[prng_below(&m->prng, MODEL_TIMERS)];
    if (timer_is_armed(timer))
        return;
    uint64_t distance = random_distance(&m->prng);
    uint64_t base_ns = m->now_ns;
    if (prng_below(&m->prng, 4) == 0) /* exactly on a slot's edge */
        base_ns = m->now_ns >> WHEEL_TICK_BITS << WHEEL_TICK_BITS;
    timer->deadline_ns = base_ns + distance;
    if (prng_below(&m->prng, 10) == 0)
        timer->deadline_ns = base_ns > distance ? base_ns - distance : 0;
    wheel_add(m->wheel, timer);
}

static void model_cancel(struct model *m)
{
    struct timer *timer = &m->timers[prng_below(&m->prng, MODEL_TIMERS)];
    wheel_cancel(m->wheel, timer);
    assert_false(timer_is_armed(timer));
}

/* Whether the wheel owes us this timer at m->now_ns, to within a tick. */
static bool is_owed(const struct model *m, const struct timer *timer)
{
    return timer_is_armed(timer) && timer->deadline_ns <= m->now_ns >> WHEEL_TICK_BITS
                                                                           << WHEEL_TICK_BITS;
}

static void model_advance(struct model *m)
{
    bool was_empty = list_empty(&m->wheel->due);
    uint64_t next_ns = wheel_next_ns(m->wheel);
    switch (prng_below(&m->prng, 4)) {
    case 0: /* time stands still */
        break;
    case 1: /* as the loop does */
    case 2:
        if (next_ns > m->now_ns && next_ns != UINT64_MAX)
            m->now_ns = next_ns;
        break;
    case 3:
        m->now_ns += random_distance(&m->prng);
        break;
    }
    wheel_advance(m->wheel, m->now_ns);
    uint64_t last_tick = 0;
    bool keeps_order = was_empty;
    for (struct timer *timer; (timer = wheel_pop_due(m->wheel)) != NULL;) {
        assert_true(timer->deadline_ns <= m->now_ns);
        uint64_t tick = (timer->deadline_ns + TICK_NS - 1) >> WHEEL_TICK_BITS;
        assert_true(!keeps_order || tick >= last_tick);
        last_tick = tick;
        if (!m->pops_all && prng_below(&m->prng, 3) == 0)
            return;
    }
    for (unsigned i = 0; i < MODEL_TIMERS; i++)
        assert_false(is_owed(m, &m->timers[i]));
}

/* The next time is after now unless something is due, and no later than any deadline's tick. */
static void model_check_next(const struct model *m)
{
    uint64_t next_ns = wheel_next_ns(m->wheel);
    assert_int_equal(next_ns == 0, !list_empty(&m->wheel->due));
    assert_true(next_ns == 0 || next_ns > m->now_ns);
    bool is_any_armed = false;
    for (unsigned i = 0; i < MODEL_TIMERS; i++) {
        if (!timer_is_armed(&m->timers[i]))
            continue;
        is_any_armed = true;
        assert_true(next_ns < m->timers[i].deadline_ns + TICK_NS);
    }
    assert_int_equal(next_ns == UINT64_MAX, !is_any_armed);
}

static void test_model(void **state)
{
    (void)state;
    static struct model m;
    for (uint64_t seed = 0; seed < MODEL_SEEDS; seed++) {
        m.prng = prng_stream(seed, 0, PRNG_TEST, 0);
        m.wheel = &wheel;
        m.now_ns = random_distance(&m.prng);
        m.pops_all = prng_below(&m.prng, 2) == 0;
        for (unsigned i = 0; i < MODEL_TIMERS; i++)
            timer_init(&m.timers[i], NULL);
        wheel_init(&wheel, m.now_ns);
        const uint64_t adds = 1 + prng_below(&m.prng, 8); /* crowded and lonely wheels */
        for (unsigned step = 0; step < MODEL_STEPS; step++) {
            for (uint64_t i = prng_below(&m.prng, adds + 1); i > 0; i--)
                model_add(&m);
            for (uint64_t i = prng_below(&m.prng, 3); i > 0; i--)
                model_cancel(&m);
            model_check_next(&m);
            model_advance(&m);
            model_check_next(&m);
        }
        check_invariants(&wheel);
    }
}

static void test_million(void **state)
{
    (void)state;
    enum { COUNT = 1000000 };
    struct timer *timers = calloc(COUNT, sizeof(*timers));
    assert_non_null(timers);
    struct prng prng = prng_stream(1, 0, PRNG_TEST, 1);
    wheel_init(&wheel, 0);
    for (unsigned i = 0; i < COUNT; i++) {
        arm(&timers[i], prng_below(&prng, UINT64_C(60) * 1000000000));
    }
    for (unsigned i = 0; i < COUNT; i += 2)
        wheel_cancel(&wheel, &timers[i]);
    assert_int_equal(wheel.armed_count, COUNT / 2);
    unsigned popped = 0;
    for (uint64_t now_ns; (now_ns = wheel_next_ns(&wheel)) != UINT64_MAX;) {
        wheel_advance(&wheel, now_ns);
        for (struct timer *timer; (timer = wheel_pop_due(&wheel)) != NULL; popped++)
            assert_true(timer->deadline_ns <= now_ns && now_ns < timer->deadline_ns + TICK_NS);
    }
    assert_int_equal(popped, COUNT / 2);
    check_invariants(&wheel);
    free(timers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_boundaries),
        cmocka_unit_test(test_past_deadline_is_due_at_once),
        cmocka_unit_test(test_order_within_a_tick),
        cmocka_unit_test(test_order_across_levels),
        cmocka_unit_test(test_cancel_anywhere),
        cmocka_unit_test(test_beyond_the_horizon),
        cmocka_unit_test(test_model),
        cmocka_unit_test(test_million),
    };
    return cmocka_run_group_tests_name("wheel", tests, NULL, NULL);
}
