/*
 * wheel: a hierarchical timing wheel (Varghese and Lauck, SOSP 1987): arming, cancelling and firing
 * a timer are O(1) whatever the number of timers, so a million runs can sleep.
 *
 * Four levels of 256 slots over a tick of 2^15 ns (33 µs) reach 39 h; deadlines beyond wait in the
 * last slot and are looked at again. A timer never fires before its deadline, and at most one tick
 * after the first wheel_advance() that is past it. No clock and no I/O: the caller says what time
 * it is, so the simulation can lie.
 *
 * Ownership: timers are the caller's, embedded in its structs, on the wheel from wheel_add() until
 * they are popped or cancelled. Threading: none, one wheel a scheduler.
 */
#ifndef BENCH_BASE_WHEEL_H
#define BENCH_BASE_WHEEL_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/list.h"

enum {
    WHEEL_TICK_BITS = 15, /* one tick is 2^15 ns */
    WHEEL_SLOT_BITS = 8,
    WHEEL_SLOTS = 1 << WHEEL_SLOT_BITS,
    WHEEL_LEVELS = 4,
};

struct timer {
    struct list link; /* points at itself while not armed; timer_init() first */
    uint64_t deadline_ns;
    void (*fire)(struct timer *timer, uint64_t now_ns);
};
static_assert(sizeof(struct timer) == 32, "one timer a sleeping run: keep it small");

struct wheel {
    uint64_t tick;        /* all ticks before this one have been handled */
    uint64_t armed_count; /* timers in slots and on the due list */
    struct list due;      /* expired, in order, waiting to be popped */
    uint64_t occupied[WHEEL_LEVELS][WHEEL_SLOTS / 64]; /* a bit a slot that is not empty */
    struct list slots[WHEEL_LEVELS][WHEEL_SLOTS];
};

static inline void timer_init(struct timer *timer, void (*fire)(struct timer *, uint64_t))
{
    list_init(&timer->link);
    timer->deadline_ns = 0;
    timer->fire = fire;
}

static inline bool timer_is_armed(const struct timer *timer)
{
    return timer->link.next != &timer->link;
}

/* When a timer that has just fired is to fire again, each `every_ns`: ticks that a stall has passed
 * over are left out, and those to come keep their times. */
static inline uint64_t timer_next_tick_ns(const struct timer *timer, uint64_t every_ns,
                                          uint64_t now_ns)
{
    uint64_t next_ns = timer->deadline_ns + every_ns;
    return next_ns > now_ns ? next_ns : next_ns + ((now_ns - next_ns) / every_ns + 1) * every_ns;
}

void wheel_init(struct wheel *w, uint64_t now_ns);

/* Arms the timer for timer->deadline_ns. A deadline that the wheel has passed already goes straight
 * to the end of the due list: it is popped later, never fired from here. The timer must not be
 * armed. */
void wheel_add(struct wheel *w, struct timer *timer);

/* Disarms the timer, also one on the due list; does nothing to one that is not armed. */
void wheel_cancel(struct wheel *w, struct timer *timer);

/* Moves every timer whose deadline is at or before now_ns (to within a tick: never early) to the
 * due list, in the order of ticks and, within a tick, of arming as far as cascading keeps it. Time
 * may stand still but must not run backwards. */
void wheel_advance(struct wheel *w, uint64_t now_ns);

/* The next due timer, disarmed, or NULL. The caller fires it. */
struct timer *wheel_pop_due(struct wheel *w);

/* When wheel_advance() next has something to do: 0 when timers are due already, UINT64_MAX when
 * none is armed. It may be earlier than the first deadline (a slot of a higher level must be
 * cascaded), never later than the end of its tick. */
uint64_t wheel_next_ns(const struct wheel *w);

#endif
