/*
 * The event loop. Every test of the first table runs on every implementation; an implementation
 * that this kernel refuses is a visible skip, and a failure where CI is set. A test that hangs is
 * killed by SIGALRM.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/prng.h"
#include "engine/loop.h"
#include "tests/lib/loop_probe.h"
#include "tests/lib/loop_sim.h"

static void open_pipe(int ends[2])
{
    assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
}

static void close_pipe(const int ends[2])
{
    close(ends[0]);
    close(ends[1]);
}

/* ---- time ---- */

static void timer_is_never_early(struct loop *loop)
{
    enum { COUNT = 500 };
    static struct probe probes[COUNT];
    struct prng prng = prng_stream(7, 0, PRNG_TEST, 0);
    const uint64_t start_ns = loop_clock_ns(loop);
    for (unsigned i = 0; i < COUNT; i++) {
        probe_init(&probes[i], loop, -1, 0);
        loop_timer_start(loop, &probes[i].timer, start_ns + prng_below(&prng, 20 * NS_PER_MS));
    }
    while (wheel_next_ns(&loop->wheel) != UINT64_MAX) {
        assert_int_equal(loop_poll(loop, UINT64_MAX, ALL_TIMERS), 0);
        assert_true(loop->now_ns <= clock_monotonic_ns());
    }
    for (unsigned i = 0; i < COUNT; i++)
        assert_int_equal(probes[i].fire_count, 1);
}

static void wait_neither_spins_nor_ends_early(struct loop *loop)
{
    struct probe probe;
    probe_init(&probe, loop, -1, 0);
    loop_timer_start(loop, &probe.timer, loop_clock_ns(loop) + 30 * NS_PER_MS);
    unsigned polls = 0;
    for (; probe.fire_count == 0; polls++)
        assert_int_equal(loop_poll(loop, UINT64_MAX, ALL_TIMERS), 0);
    assert_true(polls <= 2 * WHEEL_LEVELS);
    /* And with a bound instead of a timer. */
    const uint64_t until_ns = loop_clock_ns(loop) + 5 * NS_PER_MS + 1;
    for (polls = 0; loop->now_ns < until_ns; polls++)
        assert_int_equal(loop_poll(loop, until_ns, ALL_TIMERS), 0);
    assert_true(polls <= 2);
}

static void timers_beyond_the_maximum_stay_due(struct loop *loop)
{
    struct probe probes[10];
    for (unsigned i = 0; i < 10; i++) {
        probe_init(&probes[i], loop, -1, 0);
        loop_timer_start(loop, &probes[i].timer, i);
    }
    for (unsigned turn = 1; turn <= 4; turn++) {
        /* It would hang if it forgot that timers are due. */
        assert_int_equal(loop_poll(loop, UINT64_MAX, 3), 0);
        for (unsigned i = 0; i < 10; i++)
            assert_int_equal(probes[i].fire_count, i < 3 * turn);
        assert_int_equal(loop_has_due(loop), turn < 4);
    }
    assert_int_equal(wheel_next_ns(&loop->wheel), UINT64_MAX);
}

static void start_again(struct probe *probe)
{
    loop_timer_start(probe->loop, &probe->timer, 1);
}

static void timer_started_by_a_timer_waits_for_the_next_turn(struct loop *loop)
{
    struct probe probe;
    probe_init(&probe, loop, -1, 0);
    probe.then = start_again;
    loop_timer_start(loop, &probe.timer, 0);
    for (unsigned turn = 1; turn <= 5; turn++) {
        look(loop);
        assert_int_equal(probe.fire_count, turn);
    }
    loop_timer_stop(loop, &probe.timer);
    look(loop);
    assert_int_equal(probe.fire_count, 5);
}

static void stop_other(struct probe *probe)
{
    loop_timer_stop(probe->loop, &probe->other->timer);
}

static void timer_may_stop_one_that_is_due(struct loop *loop)
{
    struct probe probes[3];
    for (unsigned victim = 1; victim < 3; victim++) {
        for (unsigned i = 0; i < 3; i++) {
            probe_init(&probes[i], loop, -1, 0);
            loop_timer_start(loop, &probes[i].timer, 0);
        }
        probes[0].then = stop_other;
        probes[0].other = &probes[victim];
        look(loop);
        for (unsigned i = 0; i < 3; i++)
            assert_int_equal(probes[i].fire_count, i != victim);
        assert_false(loop_has_due(loop));
    }
}

static void close_forgets_armed_timers(struct loop *loop)
{
    static struct probe probes[2];
    for (unsigned i = 0; i < 2; i++) {
        probe_init(&probes[i], loop, -1, 0);
        loop_timer_start(loop, &probes[i].timer, i == 0 ? 0 : loop_clock_ns(loop) + NS_PER_S);
    }
    loop_wake(loop); /* nor does a wake that nobody has taken matter */
}

/* ---- wakes ---- */

static void wake_before_the_wait_is_kept(struct loop *loop)
{
    for (unsigned i = 0; i < 1000; i++) {
        loop_wake(loop);
        if (i % 3 == 0)
            loop_wake(loop);
        assert_int_equal(loop_poll(loop, UINT64_MAX, ALL_TIMERS), 0);
    }
    /* They are used up now: a wait is a wait again. */
    look(loop);
    const uint64_t until_ns = loop_clock_ns(loop) + 2 * NS_PER_MS;
    assert_int_equal(loop_poll(loop, until_ns, ALL_TIMERS), 0);
    assert_true(loop->now_ns >= until_ns);
}

enum { ROUNDS = 10000, WAKERS = 4 };

struct wakers {
    struct loop *loop;
    atomic_uint posted;
    atomic_uint answered;
};

static void *wake_and_await_answer(void *argument)
{
    struct wakers *w = argument;
    for (unsigned i = 1; i <= ROUNDS; i++) {
        atomic_store(&w->posted, i);
        loop_wake(w->loop);
        while (atomic_load(&w->answered) != i)
            sched_yield();
    }
    return NULL;
}

/* One wake a wait: it hangs if any is lost. */
static void wake_from_another_thread_is_never_lost(struct loop *loop)
{
    struct wakers w = {.loop = loop};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, wake_and_await_answer, &w), 0);
    while (atomic_load(&w.answered) < ROUNDS) {
        assert_int_equal(loop_poll(loop, UINT64_MAX, ALL_TIMERS), 0);
        atomic_store(&w.answered, atomic_load(&w.posted));
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static void *wake_often(void *argument)
{
    struct wakers *w = argument;
    for (unsigned i = 0; i < ROUNDS; i++) {
        atomic_fetch_add(&w->posted, 1);
        loop_wake(w->loop);
    }
    return NULL;
}

/* Wakes that arrive in any phase of a turn, and several at once. */
static void wakes_of_many_threads_are_never_lost(struct loop *loop)
{
    struct wakers w = {.loop = loop};
    pthread_t threads[WAKERS];
    for (unsigned i = 0; i < WAKERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, wake_often, &w), 0);
    while (atomic_load(&w.posted) < WAKERS * ROUNDS)
        assert_int_equal(loop_poll(loop, UINT64_MAX, ALL_TIMERS), 0);
    for (unsigned i = 0; i < WAKERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
}

static struct loop *signalled_loop;
static volatile sig_atomic_t signal_count;

static void on_signal(int number)
{
    (void)number;
    signal_count++;
    loop_wake(signalled_loop);
}

static void signals_interrupt_nothing_and_may_wake(struct loop *loop)
{
    signalled_loop = loop;
    signal_count = 0;
    const struct sigaction action = {.sa_handler = on_signal}; /* no SA_RESTART */
    struct sigaction before;
    assert_int_equal(sigaction(SIGVTALRM, &action, &before), 0);
    timer_t source;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGVTALRM};
    assert_int_equal(timer_create(CLOCK_MONOTONIC, &event, &source), 0);
    const struct itimerspec every_ms = {.it_interval.tv_nsec = 1000000,
                                        .it_value.tv_nsec = 1000000};
    assert_int_equal(timer_settime(source, 0, &every_ms, NULL), 0);
    while (signal_count < 50)
        assert_int_equal(loop_poll(loop, UINT64_MAX, ALL_TIMERS), 0);
    assert_int_equal(timer_delete(source), 0);
    assert_int_equal(sigaction(SIGVTALRM, &before, NULL), 0);
}

/* ---- descriptors ---- */

static void pipe_is_readable_writable_and_hung_up(struct loop *loop)
{
    int ends[2];
    open_pipe(ends);
    struct probe in, out;
    probe_init(&in, loop, ends[0], LOOP_READABLE);
    probe_init(&out, loop, ends[1], LOOP_WRITABLE);
    assert_int_equal(loop_watch(loop, &in.watch), 0);
    look(loop);
    assert_int_equal(in.ready_count, 0);
    assert_int_equal(write(ends[1], "ab", 2), 2);
    char byte;
    for (unsigned i = 1; i <= 4; i++) { /* level-triggered: it fires until all is read */
        assert_int_equal(loop_poll(loop, UINT64_MAX, ALL_TIMERS), 0);
        assert_int_equal(in.ready_count, i);
        assert_int_equal(in.events, LOOP_READABLE);
        if (i > 2)
            assert_int_equal(read(ends[0], &byte, 1), 1);
    }
    look(loop);
    assert_int_equal(in.ready_count, 4);
    assert_int_equal(loop_watch(loop, &out.watch), 0);
    look(loop);
    look(loop);
    assert_int_equal(out.ready_count, 2);
    assert_int_equal(out.events, LOOP_WRITABLE);
    loop_unwatch(loop, &out.watch);
    close(ends[1]);
    assert_int_equal(loop_poll(loop, UINT64_MAX, ALL_TIMERS), 0);
    assert_int_equal(in.ready_count, 5);
    assert_int_equal(in.events, LOOP_READABLE | LOOP_WRITABLE);
    loop_unwatch(loop, &in.watch);
    close(ends[0]);
}

static void unwatch_self(struct probe *probe)
{
    loop_unwatch(probe->loop, &probe->watch);
}

static void unwatch_inside_the_callback(struct loop *loop)
{
    int fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
    struct probe probe;
    probe_init(&probe, loop, fd, LOOP_READABLE);
    probe.then = unwatch_self;
    for (unsigned i = 1; i <= 3; i++) { /* and it can be watched again */
        assert_int_equal(loop_watch(loop, &probe.watch), 0);
        look(loop);
        look(loop);
        assert_int_equal(probe.ready_count, i);
    }
    close(fd);
}

static void free_both(struct probe *probe)
{
    struct loop *loop = probe->loop;
    struct probe *other = probe->other;
    loop_unwatch(loop, &other->watch);
    loop_unwatch(loop, &probe->watch);
    close(other->watch.fd);
    close(probe->watch.fd);
    free(other);
    free(probe);
}

/* Both are ready; whichever is called first ends and frees both. ASan sees a callback after that.
 */
static void unwatch_and_free_another_inside_the_callback(struct loop *loop)
{
    for (unsigned turn = 0; turn < 10; turn++) {
        struct probe *probes[2];
        for (unsigned i = 0; i < 2; i++) {
            probes[i] = malloc(sizeof(*probes[i]));
            assert_non_null(probes[i]);
            probe_init(probes[i], loop, eventfd(turn > 0, EFD_CLOEXEC), LOOP_READABLE);
            assert_int_equal(loop_watch(loop, &probes[i]->watch), 0);
            probes[i]->then = free_both;
        }
        probes[0]->other = probes[1];
        probes[1]->other = probes[0];
        look(loop);
        if (turn == 0) /* this time with requests that are in flight, and nothing ready */
            free_both(probes[0]);
        look(loop);
        assert_true(list_empty(&loop->watches));
    }
}

static void watch_other_instead(struct probe *probe)
{
    loop_unwatch(probe->loop, &probe->watch);
    assert_int_equal(loop_watch(probe->loop, &probe->other->watch), 0);
}

static void rewatch_with_another_struct_and_other_events(struct loop *loop)
{
    int ends[2];
    open_pipe(ends);
    struct probe first, second;
    probe_init(&first, loop, ends[1], LOOP_WRITABLE);
    probe_init(&second, loop, ends[1], LOOP_READABLE | LOOP_WRITABLE);
    first.then = watch_other_instead;
    first.other = &second;
    assert_int_equal(loop_watch(loop, &first.watch), 0);
    look(loop);
    assert_int_equal(first.ready_count, 1);
    assert_int_equal(second.ready_count, 0);
    look(loop);
    assert_int_equal(first.ready_count, 1);
    assert_int_equal(second.ready_count, 1);
    assert_int_equal(second.events, LOOP_WRITABLE);
    /* Outside a callback, with a request in flight whose completion comes too late. */
    for (unsigned i = 0; i < 100; i++) {
        loop_unwatch(loop, &second.watch);
        second.watch.events = i % 2 == 0 ? LOOP_READABLE : LOOP_WRITABLE;
        assert_int_equal(loop_watch(loop, &second.watch), 0);
        look(loop);
        assert_int_equal(second.ready_count, 1 + (i + 1) / 2);
    }
    loop_unwatch(loop, &second.watch);
    close_pipe(ends);
}

/* After loop_unwatch() nothing holds the file: closing it closes it. */
static void unwatch_lets_go_of_the_file(struct loop *loop)
{
    int ends[2];
    open_pipe(ends);
    struct probe probe;
    probe_init(&probe, loop, ends[0], LOOP_READABLE);
    assert_int_equal(loop_watch(loop, &probe.watch), 0);
    look(loop);
    loop_unwatch(loop, &probe.watch);
    close(ends[0]);
    assert_int_equal(write(ends[1], "x", 1), -1);
    assert_int_equal(errno, EPIPE);
    close(ends[1]);
    look(loop);
    assert_int_equal(probe.ready_count, 0);
}

static void watch_and_timer_in_one_turn(struct loop *loop)
{
    int fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
    struct probe probe;
    probe_init(&probe, loop, fd, LOOP_READABLE);
    assert_int_equal(loop_watch(loop, &probe.watch), 0);
    loop_timer_start(loop, &probe.timer, 0);
    look(loop);
    assert_int_equal(probe.ready_count, 1);
    assert_int_equal(probe.fire_count, 1);
    /* A descriptor that is always ready keeps no timer from firing. */
    loop_timer_start(loop, &probe.timer, loop_clock_ns(loop) + 2 * NS_PER_MS);
    while (probe.fire_count == 1)
        assert_int_equal(loop_poll(loop, UINT64_MAX, ALL_TIMERS), 0);
    assert_true(probe.ready_count > 1);
    loop_unwatch(loop, &probe.watch);
    close(fd);
}

/* More than the implementations' first arrays and rings hold. */
static void many_descriptors_each_fire_once_a_turn(struct loop *loop)
{
    enum { COUNT = 700 };
    static struct probe probes[COUNT];
    for (unsigned i = 0; i < COUNT; i++) {
        int fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
        assert_true(fd >= 0);
        probe_init(&probes[i], loop, fd, LOOP_READABLE);
        assert_int_equal(loop_watch(loop, &probes[i].watch), 0);
    }
    for (unsigned turn = 1; turn <= 20; turn++) {
        loop_wake(loop);
        look(loop);
        for (unsigned i = 0; i < COUNT; i++)
            assert_int_equal(probes[i].ready_count, turn);
    }
    for (unsigned i = 0; i < COUNT; i++) {
        loop_unwatch(loop, &probes[i].watch);
        close(probes[i].watch.fd);
    }
    look(loop);
}

static void watch_refuses_what_makes_no_sense(struct loop *loop)
{
    int ends[2];
    open_pipe(ends);
    struct probe first, second, closed;
    probe_init(&first, loop, ends[0], LOOP_READABLE);
    probe_init(&second, loop, ends[0], LOOP_READABLE);
    probe_init(&closed, loop, -1, LOOP_READABLE);
    assert_int_equal(loop_watch(loop, &first.watch), 0);
    assert_int_equal(loop_watch(loop, &second.watch), -EEXIST);
    loop_unwatch(loop, &first.watch);
    assert_int_equal(loop_watch(loop, &closed.watch), -EBADF);
    closed.watch.fd = ends[1];
    close_pipe(ends);
    assert_int_equal(loop_watch(loop, &closed.watch), -EBADF);
}

/* ---- the simulation's loop ---- */

static void sim_sleeps_no_more_often_than_it_must(struct loop *loop)
{
    enum { COUNT = 1000 };
    static struct probe probes[COUNT];
    const uint64_t deadline_ns = loop_clock_ns(loop) + 5 * NS_PER_S;
    for (unsigned i = 0; i < COUNT; i++) {
        probe_init(&probes[i], loop, -1, 0);
        loop_timer_start(loop, &probes[i].timer, deadline_ns);
    }
    while (probes[0].fire_count == 0)
        assert_int_equal(loop_poll(loop, UINT64_MAX, ALL_TIMERS), 0);
    assert_true(loop_sim_wait_count(loop) <= WHEEL_LEVELS);
    assert_int_equal(loop_sim_sleep_count(loop), loop_sim_wait_count(loop));
    for (unsigned i = 0; i < COUNT; i++) {
        assert_int_equal(probes[i].fire_count, 1);
        assert_true(probes[i].fired_ns - deadline_ns < UINT64_C(1) << WHEEL_TICK_BITS);
    }
}

static void sim_fails_rather_than_hangs(struct loop *loop)
{
    assert_int_equal(loop_poll(loop, UINT64_MAX, ALL_TIMERS), -EDEADLK);
    loop_wake(loop);
    assert_int_equal(loop_poll(loop, UINT64_MAX, ALL_TIMERS), 0);
    assert_int_equal(loop->now_ns, LOOP_SIM_START_NS);
    assert_int_equal(loop_poll(loop, LOOP_SIM_START_NS + 7, ALL_TIMERS), 0);
    assert_int_equal(loop_clock_ns(loop), LOOP_SIM_START_NS + 7);
    struct probe probe;
    probe_init(&probe, loop, 0, LOOP_READABLE);
    assert_int_equal(loop_watch(loop, &probe.watch), -ENOTSUP);
}

/* A callback that was busy for longer than the next timer had left must not make it sleep too long.
 */
static void sim_does_not_sleep_past_a_deadline(struct loop *loop)
{
    struct probe probe;
    probe_init(&probe, loop, -1, 0);
    loop_timer_start(loop, &probe.timer, LOOP_SIM_START_NS + NS_PER_MS);
    loop_sim_spend(loop, 3 * NS_PER_MS);
    const uint64_t now_ns = loop->now_ns;
    look(loop);
    assert_int_equal(probe.fire_count, 1);
    assert_int_equal(loop->now_ns, now_ns);
    loop_timer_start(loop, &probe.timer, UINT64_MAX - NS_PER_S);
    assert_int_equal(loop_poll(loop, UINT64_MAX - 1, ALL_TIMERS), 0);
    assert_int_equal(probe.fire_count, 1);
}

/* ---- the table ---- */

struct loop_case {
    const char *title;
    char name[96]; /* with the implementation's before it */
    const struct loop_ops *ops;
    void (*body)(struct loop *loop);
};

static void run_case(void **state)
{
    const struct loop_case *c = *state;
    static struct loop loop;
    struct errmsg why = {""};
    (void)alarm(HANG_SECONDS);
    int rc = loop_open_ops(&loop, c->ops, &why);
    if (rc != 0 && c->ops == &loop_uring_ops && getenv("CI") == NULL) {
        print_message("skipped: %s\n", why.text);
        skip();
    }
    if (rc != 0)
        fail_msg("%s", why.text);
    c->body(&loop);
    loop_close(&loop);
    (void)alarm(0);
}

#define CASE(function)                                                                             \
    {                                                                                              \
        .title = #function, .body = function                                                       \
    }

static const struct loop_case table_cases[] = {
    CASE(timer_is_never_early),
    CASE(wait_neither_spins_nor_ends_early),
    CASE(timers_beyond_the_maximum_stay_due),
    CASE(timer_started_by_a_timer_waits_for_the_next_turn),
    CASE(timer_may_stop_one_that_is_due),
    CASE(close_forgets_armed_timers),
    CASE(wake_before_the_wait_is_kept),
    CASE(wake_from_another_thread_is_never_lost),
    CASE(wakes_of_many_threads_are_never_lost),
    CASE(signals_interrupt_nothing_and_may_wake),
    CASE(pipe_is_readable_writable_and_hung_up),
    CASE(unwatch_inside_the_callback),
    CASE(unwatch_and_free_another_inside_the_callback),
    CASE(rewatch_with_another_struct_and_other_events),
    CASE(unwatch_lets_go_of_the_file),
    CASE(watch_and_timer_in_one_turn),
    CASE(many_descriptors_each_fire_once_a_turn),
    CASE(watch_refuses_what_makes_no_sense),
};

static const struct loop_case sim_cases[] = {
    CASE(sim_sleeps_no_more_often_than_it_must),
    CASE(sim_fails_rather_than_hangs),
    CASE(sim_does_not_sleep_past_a_deadline),
    CASE(timers_beyond_the_maximum_stay_due),
    CASE(timer_started_by_a_timer_waits_for_the_next_turn),
    CASE(timer_may_stop_one_that_is_due),
    CASE(close_forgets_armed_timers),
    CASE(wake_before_the_wait_is_kept),
};

enum { CASES_MAX = 128 };

static struct loop_case cases[CASES_MAX];
static struct CMUnitTest tests[CASES_MAX];
static size_t test_count;

static void add_cases(const struct loop_ops *ops, const struct loop_case *from, size_t count)
{
    for (size_t i = 0; i < count; i++, test_count++) {
        assert_true(test_count < CASES_MAX);
        struct loop_case *c = &cases[test_count];
        *c = from[i];
        c->ops = ops;
        (void)snprintf(c->name, sizeof(c->name), "%s: %s", ops->name, c->title);
        tests[test_count] =
            (struct CMUnitTest){.name = c->name, .test_func = run_case, .initial_state = c};
    }
}

int main(void)
{
    (void)signal(SIGPIPE, SIG_IGN);
    for (size_t i = 0; loop_table[i] != NULL; i++)
        add_cases(loop_table[i], table_cases, sizeof(table_cases) / sizeof(*table_cases));
    add_cases(&loop_sim_ops, sim_cases, sizeof(sim_cases) / sizeof(*sim_cases));
    return _cmocka_run_group_tests("loop", tests, test_count, NULL, NULL);
}
