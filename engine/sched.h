/*
 * sched: tasks and their run queue on one loop: one scheduler a thread, nothing shared, no lock.
 *
 * A task is anything with a state and a wake-up. It is stepped from the top of a turn, never from
 * inside another task's step, so stacks stay flat. A turn polls the loop (timers and descriptors
 * fire), steps what is ready, then settles: gives the journal what has gathered and takes its acks,
 * until nothing moves. Each part of a turn is bounded by SCHED_TURN_MAX, so that nobody waits
 * behind a million others.
 *
 * Ownership: tasks are the caller's, embedded in its structs; queued from sched_ready() until
 * stepped. Threading: all calls on the scheduler's thread, but loop_wake() on its loop.
 */
#ifndef BENCH_SCHED_H
#define BENCH_SCHED_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/hist.h"
#include "engine/loop.h"

enum { SCHED_TURN_MAX = 128 };

struct sched;
struct task;

struct task_kind {
    const char *name;
    void (*step)(struct task *task, uint64_t now_ns);
};

struct task {
    struct task *next;
    const struct task_kind *kind;
};

struct sched {
    struct loop loop;
    struct task *first; /* ready, in order */
    struct task *last;
    void *owner; /* what `settle` and `is_over` are about */
    /* Before sleeping: moves on whatever waits for a group commit; true when something moved. */
    bool (*settle)(struct sched *sched);
    /* Asked once a turn: whether the scheduler has nothing left to do. */
    bool (*is_over)(struct sched *sched);
    struct hist *lag; /* may be NULL */
};

static inline void sched_ready(struct sched *s, struct task *task)
{
    task->next = NULL;
    if (s->first == NULL)
        s->first = task;
    else
        s->last->next = task;
    s->last = task;
}

/* Turns until is_over. 0, or the loop's -errno. */
int sched_run(struct sched *s);

#endif
