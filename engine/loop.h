/*
 * loop: waiting, for time, for file descriptors and for other threads, behind one interface with
 * two implementations: io_uring (SINGLE_ISSUER, DEFER_TASKRUN, one submit-and-wait a turn) and
 * epoll.
 *
 * A loop belongs to the thread that opened it: every call but loop_wake() is that thread's.
 * Callbacks fire from loop_poll() only, never from inside the call that asked for them. It owns its
 * wheel; timers and watches belong to the caller. All times are monotonic ns. Errors: 0 or -errno.
 *
 * A new implementation is one file and one row in loop.c.
 */
#ifndef BENCH_LOOP_H
#define BENCH_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/base/list.h"
#include "engine/base/wheel.h"

struct loop;

enum loop_event {
    LOOP_READABLE = 1, /* POLLIN; hang-ups and errors are reported as both */
    LOOP_WRITABLE = 2,
};

/* Interest in a descriptor, embedded in the caller's struct. Level-triggered: it fires in every
 * loop_poll() for as long as the descriptor is ready. It may fire once too often, when what made
 * the descriptor ready has been consumed elsewhere since, so descriptors should be non-blocking.
 * One watch a descriptor and loop. */
struct loop_watch {
    struct list link;
    int fd;
    uint8_t events;      /* enum loop_event, or'ed */
    uint32_t generation; /* the implementation's own */
    void (*ready)(struct loop_watch *watch, uint8_t events);
};

struct loop_ops {
    const char *name;   /* "io_uring", "epoll": the -loop flag and the report */
    size_t state_bytes; /* of the implementation's state, which loop_open() allocates zeroed at
                           loop->state */
    int (*open)(struct loop *loop, struct errmsg *why);
    void (*close)(struct loop *loop);
    /* Waits until something is ready, somebody wakes the loop, or timeout_ns is over (0: only
     * looks; UINT64_MAX: for ever), sets loop->now_ns, and then calls the watches that are ready. A
     * signal ends it with 0. */
    int (*wait)(struct loop *loop, uint64_t timeout_ns);
    int (*watch)(struct loop *loop, struct loop_watch *watch);
    void (*unwatch)(struct loop *loop, struct loop_watch *watch);
};

struct loop {
    const struct loop_ops *ops;
    void *state;
    struct list watches;
    int wake_fd;      /* an eventfd that the implementation watches and drains by itself */
    uint64_t now_ns;  /* when the wait last returned; the virtual time in the simulation */
    bool is_virtual;  /* now_ns is the time: the simulation's loop moves it */
    uint64_t idle_ns; /* spent waiting with nothing to do, in all */
    uint64_t late_ns; /* how late the most overdue timer was that the last poll fired */
    struct wheel wheel;
    struct errmsg fallback; /* why "auto" passed over what it prefers; empty if it did not */
};

extern const struct loop_ops loop_uring_ops;
extern const struct loop_ops loop_epoll_ops;

/* The table of implementations in order of preference, NULL-terminated. */
extern const struct loop_ops *const loop_table[];

/* Opens the implementation called `name`, or with "auto" the first in the table that this kernel
 * grants, and says in loop->fallback why it was not the very first. -EINVAL for an unknown name;
 * the kernel's errno, with the reason, when it refuses. Call it on the thread that will use the
 * loop, whose timer slack it sets to 1 ns. `loop` must not move afterwards. */
int loop_open(struct loop *loop, const char *name, struct errmsg *why);

/* Opens a given implementation, in or out of the table (the simulation's). */
int loop_open_ops(struct loop *loop, const struct loop_ops *ops, struct errmsg *why);

/* All watches must be gone. Timers still armed are forgotten. */
void loop_close(struct loop *loop);

/* One turn: waits until something is ready or until_ns is reached (the first timer ends the wait
 * earlier; 0 only looks), calls the watches, moves expired timers to the due list, and fires at
 * most timers_max of them; the rest stay due, in order. It may return before until_ns with nothing
 * done, after a signal for instance. Returns 0 or -errno. -EINTR never comes out. */
int loop_poll(struct loop *loop, uint64_t until_ns, unsigned timers_max);

/* Whether timers are due that the last loop_poll() left. */
bool loop_has_due(const struct loop *loop);

/* Makes the current or next wait of the loop return. Threading: any thread, while the loop is open.
 * Async-signal-safe. */
void loop_wake(struct loop *loop);

int loop_watch(struct loop *loop, struct loop_watch *watch);
void loop_unwatch(struct loop *loop, struct loop_watch *watch);

/* Fires timer->fire at or after deadline_ns, never from inside this call; what a timer's callback
 * starts fires in a later loop_poll(), even when its deadline is over already. */
static inline void loop_timer_start(struct loop *loop, struct timer *timer, uint64_t deadline_ns)
{
    timer->deadline_ns = deadline_ns;
    wheel_add(&loop->wheel, timer);
}

static inline void loop_timer_stop(struct loop *loop, struct timer *timer)
{
    wheel_cancel(&loop->wheel, timer);
}

/* The time now, not that of the last wait. */
static inline uint64_t loop_clock_ns(const struct loop *loop)
{
    return loop->is_virtual ? loop->now_ns : clock_monotonic_ns();
}

#endif
