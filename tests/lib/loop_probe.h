/*
 * loop_probe: a watch and a timer that remember what happened to them, for tests of the loop.
 * cmocka.h comes first in the including file.
 */
#ifndef BENCH_TESTS_LIB_LOOP_PROBE_H
#define BENCH_TESTS_LIB_LOOP_PROBE_H

#include "engine/loop.h"

enum { HANG_SECONDS = 120, ALL_TIMERS = 1000000 };

struct probe {
    struct loop_watch watch;
    struct timer timer;
    struct loop *loop;
    unsigned ready_count;
    unsigned fire_count;
    uint8_t events;
    uint64_t fired_ns;
    struct probe *other;
    void (*then)(struct probe *probe); /* called by either callback */
};

static inline void probe_ready(struct loop_watch *watch, uint8_t events)
{
    struct probe *probe = container_of(watch, struct probe, watch);
    probe->ready_count++;
    probe->events = events;
    if (probe->then != NULL)
        probe->then(probe);
}

static inline void probe_fire(struct timer *timer, uint64_t now_ns)
{
    struct probe *probe = container_of(timer, struct probe, timer);
    assert_true(now_ns >= timer->deadline_ns);
    probe->fire_count++;
    probe->fired_ns = now_ns;
    if (probe->then != NULL)
        probe->then(probe);
}

static inline void probe_init(struct probe *probe, struct loop *loop, int fd, uint8_t events)
{
    *probe = (struct probe){.loop = loop};
    probe->watch = (struct loop_watch){.fd = fd, .events = events, .ready = probe_ready};
    timer_init(&probe->timer, probe_fire);
}

static inline void look(struct loop *loop)
{
    assert_int_equal(loop_poll(loop, 0, ALL_TIMERS), 0);
}

#endif
