/* The scheduler on a virtual clock: order, flat stacks, the bound of a turn, settling, its end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>

#include "engine/sched.h"
#include "tests/lib/loop_sim.h"

enum { TASKS = 1000 };

struct bench_task {
    struct task task;
    struct world *world;
    unsigned number;
    unsigned again; /* how often it makes itself ready once more */
};

/* A scheduler, and what happened on it, in order. */
struct world {
    struct sched sched;
    unsigned steps;
    unsigned turns;
    unsigned settles;
    unsigned settles_wanted; /* how often settling moves something, a turn */
    unsigned settles_left;
    unsigned turn_steps; /* of this turn */
    unsigned turn_steps_max;
    unsigned steps_until_timer;
    unsigned fired;
    unsigned fired_before_step; /* timers, before the last step */
    uint64_t step_ns;           /* of virtual time that a step takes */
    uint64_t spin_ns;           /* of real time */
    unsigned is_over_after;     /* turns; 0: when no task is ready */
    bool is_stepping;
    unsigned order[4 * TASKS];
    struct timer timer;
    struct bench_task tasks[TASKS];
};

static void step(struct task *task, uint64_t now_ns)
{
    struct bench_task *t = container_of(task, struct bench_task, task);
    struct world *world = t->world;
    assert_false(world->is_stepping); /* never from inside another step */
    world->is_stepping = true;
    assert_true(now_ns <= loop_clock_ns(&world->sched.loop));
    assert_true(world->steps < 4 * TASKS);
    world->order[world->steps++] = t->number;
    world->turn_steps++;
    world->fired_before_step = world->fired;
    if (world->step_ns > 0)
        loop_sim_spend(&world->sched.loop, world->step_ns);
    while (clock_monotonic_ns() - now_ns < world->spin_ns)
        ;
    if (t->again > 0) {
        t->again--;
        sched_ready(&world->sched, task);
    }
    world->is_stepping = false;
}

static const struct task_kind kind = {.name = "bench", .step = step};

static bool settle(struct sched *sched)
{
    struct world *world = sched->owner;
    world->settles++;
    if (world->settles_left == 0)
        return false;
    world->settles_left--;
    return true;
}

static bool is_over(struct sched *sched)
{
    struct world *world = sched->owner;
    if (world->turn_steps > world->turn_steps_max)
        world->turn_steps_max = world->turn_steps;
    world->turn_steps = 0;
    world->settles_left = world->settles_wanted;
    if (world->is_over_after > 0 ? world->turns == world->is_over_after : sched->first == NULL)
        return true;
    world->turns++;
    return false;
}

static void note_timer(struct timer *timer, uint64_t now_ns)
{
    struct world *world = container_of(timer, struct world, timer);
    (void)now_ns;
    world->steps_until_timer = world->steps;
}

static struct world *open_world(void)
{
    struct errmsg why = {""};
    struct world *world = calloc(1, sizeof(*world));
    assert_non_null(world);
    assert_int_equal(loop_open_ops(&world->sched.loop, &loop_sim_ops, &why), 0);
    world->sched.owner = world;
    world->sched.settle = settle;
    world->sched.is_over = is_over;
    timer_init(&world->timer, note_timer);
    for (unsigned i = 0; i < TASKS; i++)
        world->tasks[i] = (struct bench_task){.task = {.kind = &kind}, .world = world, .number = i};
    return world;
}

static void close_world(struct world *world)
{
    loop_close(&world->sched.loop);
    free(world);
}

static void make_ready(struct world *world, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        sched_ready(&world->sched, &world->tasks[i].task);
}

static void tasks_are_stepped_in_the_order_they_became_ready(void **state)
{
    (void)state;
    struct world *world = open_world();
    for (unsigned i = 0; i < 3; i++)
        world->tasks[i].again = i;
    make_ready(world, 3);
    assert_int_equal(sched_run(&world->sched), 0);
    static const unsigned expected[] = {0, 1, 2, 1, 2, 2};
    assert_int_equal(world->steps, 6);
    assert_memory_equal(world->order, expected, sizeof(expected));
    close_world(world);
}

static void a_turn_steps_a_bounded_number_of_tasks(void **state)
{
    (void)state;
    struct world *world = open_world();
    make_ready(world, TASKS);
    assert_int_equal(sched_run(&world->sched), 0);
    assert_int_equal(world->steps, TASKS);
    assert_int_equal(world->turn_steps_max, SCHED_TURN_MAX);
    assert_int_equal(world->turns, (TASKS + SCHED_TURN_MAX - 1) / SCHED_TURN_MAX);
    for (unsigned i = 0; i < TASKS; i++)
        assert_int_equal(world->order[i], i);
    close_world(world);
}

/* Tasks that are always ready: time moves only because their steps take some. */
static void busy_tasks_do_not_starve_a_timer(void **state)
{
    (void)state;
    struct world *world = open_world();
    world->step_ns = NS_PER_MS;
    world->tasks[0].again = 900;
    world->tasks[1].again = 900;
    make_ready(world, 2);
    loop_timer_start(&world->sched.loop, &world->timer, LOOP_SIM_START_NS + 10 * NS_PER_MS);
    assert_int_equal(sched_run(&world->sched), 0);
    assert_int_equal(world->steps, 1802);
    assert_in_range(world->steps_until_timer, 10, 10 + 2 * SCHED_TURN_MAX);
    close_world(world);
}

struct bench_timer {
    struct timer timer;
    struct world *world;
};

static void count_timer(struct timer *timer, uint64_t now_ns)
{
    (void)now_ns;
    container_of(timer, struct bench_timer, timer)->world->fired++;
}

/* However many timers are due at once, a task that is ready waits for so many at the most. */
static void due_timers_do_not_starve_a_task(void **state)
{
    (void)state;
    struct world *world = open_world();
    struct bench_timer *timers = calloc(TASKS, sizeof(*timers));
    assert_non_null(timers);
    world->is_over_after = TASKS / SCHED_TURN_MAX + 1;
    make_ready(world, 1);
    for (unsigned i = 0; i < TASKS; i++) {
        timers[i].world = world;
        timer_init(&timers[i].timer, count_timer);
        loop_timer_start(&world->sched.loop, &timers[i].timer, 0); /* over for long */
    }
    assert_int_equal(sched_run(&world->sched), 0);
    assert_int_equal(world->fired_before_step, SCHED_TURN_MAX);
    assert_int_equal(world->fired, TASKS);
    free(timers);
    close_world(world);
}

static void settling_goes_on_until_nothing_moves_in_every_turn(void **state)
{
    (void)state;
    struct world *world = open_world();
    world->settles_wanted = 3;
    make_ready(world, 5 * SCHED_TURN_MAX);
    assert_int_equal(sched_run(&world->sched), 0);
    assert_int_equal(world->turns, 5);
    assert_int_equal(world->settles, 5 * (3 + 1)); /* the last of a turn moves nothing */
    close_world(world);
}

static void what_is_over_takes_no_turn(void **state)
{
    (void)state;
    struct world *world = open_world();
    assert_int_equal(sched_run(&world->sched), 0);
    assert_int_equal(world->turns, 0);
    assert_int_equal(world->settles, 0);
    assert_int_equal(loop_sim_wait_count(&world->sched.loop), 0);
    close_world(world);
}

static void it_sleeps_only_when_nothing_is_ready(void **state)
{
    (void)state;
    struct world *world = open_world();
    make_ready(world, 2 * SCHED_TURN_MAX);
    world->is_over_after = 2;
    loop_timer_start(&world->sched.loop, &world->timer, LOOP_SIM_START_NS + NS_PER_S);
    assert_int_equal(sched_run(&world->sched), 0);
    assert_int_equal(loop_sim_wait_count(&world->sched.loop), 2);
    assert_int_equal(world->sched.loop.now_ns, LOOP_SIM_START_NS);
    world->is_over_after = 3;
    assert_int_equal(sched_run(&world->sched), 0);
    assert_int_equal(loop_sim_sleep_count(&world->sched.loop), 1);
    assert_true(world->sched.loop.now_ns > LOOP_SIM_START_NS);
    close_world(world);
}

static void an_error_of_the_loop_ends_it(void **state)
{
    (void)state;
    struct world *world = open_world();
    world->is_over_after = 10;
    assert_int_equal(sched_run(&world->sched), -EDEADLK); /* asleep for ever */
    loop_wake(&world->sched.loop);
    assert_int_equal(sched_run(&world->sched), -EDEADLK); /* but for one turn */
    assert_int_equal(world->turns, 3);
    close_world(world);
}

/* On a virtual clock a turn takes no time, so this one waits for the time it takes. */
static void lag_is_what_the_last_of_a_turn_has_waited(void **state)
{
    (void)state;
    struct errmsg why = {""};
    struct world *world = open_world();
    loop_close(&world->sched.loop);
    assert_int_equal(loop_open(&world->sched.loop, "epoll", &why), 0);
    world->sched.lag = calloc(1, sizeof(*world->sched.lag));
    assert_non_null(world->sched.lag);
    hist_init(world->sched.lag);
    world->spin_ns = NS_PER_MS / 64;
    make_ready(world, 2 * SCHED_TURN_MAX);
    assert_int_equal(sched_run(&world->sched), 0);
    assert_int_equal(world->sched.lag->count, 2); /* a sample a turn */
    assert_true(world->sched.lag->min_ns >= SCHED_TURN_MAX * world->spin_ns);
    free(world->sched.lag);
    close_world(world);
}

static void an_overdue_timer_lags_by_what_it_is_late(void **state)
{
    (void)state;
    struct world *world = open_world();
    world->sched.lag = calloc(1, sizeof(*world->sched.lag));
    assert_non_null(world->sched.lag);
    hist_init(world->sched.lag);
    world->is_over_after = 1;
    loop_timer_start(&world->sched.loop, &world->timer, LOOP_SIM_START_NS + NS_PER_MS);
    loop_sim_spend(&world->sched.loop, 10 * NS_PER_MS);
    make_ready(world, 1); /* so that the turn does not sleep */
    assert_int_equal(sched_run(&world->sched), 0);
    assert_int_equal(world->sched.lag->count, 1);
    assert_int_equal(world->sched.lag->max_ns, 9 * NS_PER_MS);
    free(world->sched.lag);
    close_world(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tasks_are_stepped_in_the_order_they_became_ready),
        cmocka_unit_test(a_turn_steps_a_bounded_number_of_tasks),
        cmocka_unit_test(busy_tasks_do_not_starve_a_timer),
        cmocka_unit_test(due_timers_do_not_starve_a_task),
        cmocka_unit_test(settling_goes_on_until_nothing_moves_in_every_turn),
        cmocka_unit_test(what_is_over_takes_no_turn),
        cmocka_unit_test(it_sleeps_only_when_nothing_is_ready),
        cmocka_unit_test(an_error_of_the_loop_ends_it),
        cmocka_unit_test(an_overdue_timer_lags_by_what_it_is_late),
        cmocka_unit_test(lag_is_what_the_last_of_a_turn_has_waited),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
