/*
 * run_table: which record of a run comes next, for the runs that a store has lately written to.
 *
 * A store must refuse a record whose predecessor is not there (J2) and would have to look for it;
 * this remembers what the store itself has just recorded. It is a cache: what it does not hold is
 * to be looked up in the store. It holds a bounded number of runs, and is emptied when it is full.
 *
 * Ownership: the caller's struct, the slots its own. Threading: one thread at a time. Errors: none:
 * without memory it holds fewer runs, perhaps none.
 */
#ifndef BENCH_JOURNAL_RUN_TABLE_H
#define BENCH_JOURNAL_RUN_TABLE_H

#include <stdint.h>

struct run_slot {
    uint64_t run;
    uint64_t next_seq; /* 0: the slot is free */
};

struct run_table {
    struct run_slot *slots; /* open addressing, at most half of them taken */
    uint32_t capacity;      /* a power of two, or 0 */
    uint32_t count;
    uint32_t count_max;
    unsigned shift; /* of a hash, to the index of a slot */
};

/* It allocates nothing until it is put to use. `count_max` is at least 1. */
void run_table_init(struct run_table *table, uint32_t count_max);
void run_table_free(struct run_table *table);
void run_table_clear(struct run_table *table);

/* The seq after the run's newest record, at least 1; 0 for a run that is not held. */
uint64_t run_table_find(const struct run_table *table, uint64_t run);

/* `next_seq` is at least 1. */
void run_table_put(struct run_table *table, uint64_t run, uint64_t next_seq);

/* For a run that has ended: no more is expected of it. */
void run_table_drop(struct run_table *table, uint64_t run);

#endif
