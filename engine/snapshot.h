/*
 * snapshot: a look at what a worker has measured while it goes on measuring.
 *
 * The histograms on the hot path are plain memory with one writer. So the controlling thread does
 * not read them: it asks, and the worker copies them when it next comes to the top of a turn. The
 * copy is the worker's from being asked to answering, and the controlling thread's from then on
 * until it asks again, which it does not before the answer. A worker that is stuck answers late,
 * and nobody waits for it. One that has come to its end says so: then its histograms are at rest,
 * and are read themselves.
 *
 * Ownership: the worker's. Threading: snapshot_ask() and snapshot_answered() are the controlling
 * thread's, the rest the worker's. Errors: without memory snapshot_open() says so.
 */
#ifndef BENCH_SNAPSHOT_H
#define BENCH_SNAPSHOT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/hist.h"
#include "engine/campaign.h"

#define SNAPSHOT_AT_REST UINT64_MAX

struct snapshot {
    _Atomic uint64_t asked;
    _Atomic uint64_t answered;
    uint64_t seen;                   /* of `asked`, by the worker */
    struct hist *block;              /* that holds those below */
    struct hist *hists[WATCH_COUNT]; /* NULL: not watched */
    uint64_t failed;                 /* runs that ended and did not complete */
};

/* `watched` has a bit 1 << WATCH_… for each histogram. False without memory. */
bool snapshot_open(struct snapshot *s, uint32_t watched);
void snapshot_close(struct snapshot *s);

/* Numbers go up. */
static inline void snapshot_ask(struct snapshot *s, uint64_t number)
{
    /* Released: what was read of the last answer has been read. */
    atomic_store_explicit(&s->asked, number, memory_order_release);
}

static inline bool snapshot_is_asked(const struct snapshot *s)
{
    return atomic_load_explicit(&s->asked, memory_order_relaxed) != s->seen;
}

void snapshot_answer(struct snapshot *s, const struct hist *const hists[WATCH_COUNT],
                     uint64_t failed);

/* The worker is done: whatever is asked, it is answered. */
void snapshot_end(struct snapshot *s);

/* The last number that was answered, or SNAPSHOT_AT_REST. */
static inline uint64_t snapshot_answered(const struct snapshot *s)
{
    return atomic_load_explicit(&s->answered, memory_order_acquire);
}

#endif
