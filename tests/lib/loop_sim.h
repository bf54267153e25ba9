/*
 * loop_sim: a loop whose time is virtual. A wait moves the time forward by its timeout and returns
 * at once, so hours of timers pass in milliseconds and every test sees the same times.
 *
 * Open it with loop_open_ops(loop, &loop_sim_ops, why). It begins at LOOP_SIM_START_NS. A wake
 * makes the next wait return without moving the time. A wait for ever that nobody has woken fails
 * with -EDEADLK, so that a test which has lost a wake-up fails rather than hangs. Descriptors
 * cannot be watched: loop_watch() fails with -ENOTSUP.
 */
#ifndef BENCH_TESTS_LIB_LOOP_SIM_H
#define BENCH_TESTS_LIB_LOOP_SIM_H

#include <stdint.h>

#include "engine/loop.h"

/* Not 0, so that a time that somebody forgot to set is noticed. */
#define LOOP_SIM_START_NS (1000 * NS_PER_S)

extern const struct loop_ops loop_sim_ops;

/* How many waits there have been, and how many of them moved the time. */
uint64_t loop_sim_wait_count(const struct loop *loop);
uint64_t loop_sim_sleep_count(const struct loop *loop);

/* Moves the time as if a callback had been busy for that long. */
void loop_sim_spend(struct loop *loop, uint64_t duration_ns);

#endif
