/*
 * recovery: which runs of a campaign have begun and not ended, and their records, a block of runs
 * at a time.
 *
 * Life: recovery_open() reads the begin and end records of the whole campaign; recovery_next() then
 * hands out the unfinished runs, each once, in the order of their numbers in a part; each worker
 * keeps a block, claims runs for it and fills it with their records. As long as there is a slot for
 * every run no worker claims more than it has free slots; what no slot is left for is claimed
 * ahead, ever less of it towards the end.
 *
 * Ownership: the campaign's; a block is its worker's. Threading: recovery_open() and
 * recovery_close() on the controlling thread, recovery_next() from any, which reads the store on
 * that thread: a scheduler's other runs wait meanwhile. Errors: 0 or -errno, with the reason; a run
 * whose records the store cannot show is handed out without them, with what the store says.
 *
 * Memory, beside what memory_plan.h counts: up to 96 bytes for each 64 runs of a part while it is
 * opened, half as much again while that grows; 8 bytes an unfinished run from then on. A block
 * takes runs until it holds RECOVERY_BLOCK_BYTES, the last of them whole: see
 * recovery_block_bytes_max().
 */
#ifndef BENCH_RECOVERY_H
#define BENCH_RECOVERY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "journal/journal.h"

enum { RECOVERY_BLOCK_RUNS = 512, RECOVERY_BLOCK_BYTES = 16 << 20 };

/* The unfinished runs of a part of the journal. */
struct recovery_part {
    uint64_t *runs;
    size_t count;
    _Atomic size_t claimed;
};

struct recovery {
    struct recovery_part *parts;
    unsigned part_count;
    uint64_t runs_begun;
    uint64_t runs_ended;
    uint64_t runs_unfinished;
    uint64_t slots;           /* of all workers */
    _Atomic uint64_t claimed; /* runs, of all parts */
    unsigned workers;
};

/* A record in a block. */
struct recovered_record {
    uint64_t digest;
    uint32_t seq;
    uint32_t kind; /* as recorded */
    uint32_t offset;
    uint32_t bytes;
};

/* Runs with all their records. */
struct recovery_block {
    uint64_t runs[RECOVERY_BLOCK_RUNS];      /* claimed */
    uint32_t first[RECOVERY_BLOCK_RUNS + 1]; /* record of each that has been read */
    unsigned part;
    unsigned claimed;
    unsigned filled; /* runs whose records are here */
    unsigned next;   /* run to be handed out */
    bool is_wary;    /* one of them cannot be read: they are read one at a time */
    struct recovered_record *records;
    size_t record_count;
    size_t record_capacity;
    char *bytes;
    size_t bytes_used;
    size_t bytes_capacity;
    struct errmsg fault; /* why the only run that is here has no records; mostly empty */
};

/* A run with its records, from a block: valid until the next call for this block. */
struct recovered_run {
    uint64_t run;
    const struct recovered_record *records;
    size_t count;
    const char *bytes; /* where the records' offsets begin */
    const char *fault; /* why they cannot be read, which leaves none of them; NULL: they can */
};

/* `slots`: how many runs all workers together can have in flight. */
int recovery_open(struct recovery *recovery, struct journal *journal, unsigned workers,
                  uint64_t slots, struct errmsg *why);
void recovery_close(struct recovery *recovery);

/* The next unfinished run of the block, which reads more from the journal when it is used up; false
 * when no run is left, or with *error set. `slots_free`: how many the worker has, this run's
 * included. */
bool recovery_next(struct recovery *recovery, struct journal *journal, struct recovery_block *block,
                   uint32_t slots_free, struct recovered_run *run, int *error, struct errmsg *why);
void recovery_block_free(struct recovery_block *block);

/* What a block may take, while it grows and is copied, where runs have this much each, in the mean
 * and the largest. */
uint64_t recovery_block_bytes_max(uint64_t run_bytes, uint64_t run_bytes_max);

#endif
