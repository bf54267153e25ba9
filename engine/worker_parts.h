/*
 * worker_parts: what the files of the worker share, and nobody else.
 *
 * Ownership and threading are the worker's.
 */
#ifndef BENCH_WORKER_PARTS_H
#define BENCH_WORKER_PARTS_H

#include "engine/worker.h"

/* With -timeout, a timer a slot. They stand apart from the runs, so that they cost nothing without.
 */
struct slot_deadline {
    struct timer timer;
    struct run *run;
};
static_assert(sizeof(struct slot_deadline) == 40, "what memory_plan.c counts for it");

/* Its slots, histograms and blocks, for worker_close_memory() to give back. 0 or -ENOMEM. */
int worker_open_memory(struct worker *w);
void worker_close_memory(struct worker *w);

#endif
