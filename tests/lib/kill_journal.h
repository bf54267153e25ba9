/*
 * kill_journal: any store of the table, behind something that kills its own process at a chosen
 * point, and keeps a log outside of it of what the store was given and what it has acked.
 *
 * Life: the parent makes a log in memory that its children share, chooses a point, forks; the child
 * arms the log and opens its journal with kill_journal_open() instead of journal_open(). What the
 * log says of a record outlives any number of children. Between two, kill_log_begin_process().
 *
 * Ownership: the log is the parent's; what surrounds an open journal goes with it. Threading: a run
 * is one writer's, so its records are one thread's; counts are atomic. Errors: those of the store.
 */
#ifndef BENCH_TESTS_LIB_KILL_JOURNAL_H
#define BENCH_TESTS_LIB_KILL_JOURNAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "journal/backend.h"

enum {
    KILL_RUNS_MAX = 64,
    KILL_SEQS_MAX = 64,
    KILL_WRITERS_MAX = 2,
    KILL_APPENDS_MAX = 64, /* of a writer that the store has */
};

enum kill_point {
    KILL_NEVER,
    KILL_BEFORE_APPEND,    /* the batch that holds the nth record does not reach the store */
    KILL_AFTER_COMMIT,     /* the store has been given the nth batch, whatever it has done since */
    KILL_BEFORE_CALLBACKS, /* the nth batch is settled, and nobody has been told */
    KILL_AFTER_CALLBACKS,  /* everybody has */
    KILL_AT_CALL,          /* whatever calls kill_log_step() for it */
    KILL_POINT_COUNT,
};
const char *kill_point_name(enum kill_point point);

struct kill_witness {
    uint64_t digest; /* of what was handed over last */
    bool is_handed;
    bool is_acked;
    bool is_recorded; /* the parent's: it has been read from the store */
};

struct kill_log {
    /* Set by the parent before it forks. */
    enum kill_point point;
    uint64_t at; /* from 1 */

    /* Of the present process. */
    atomic_uint_fast64_t reached[KILL_POINT_COUNT];
    atomic_uint_fast64_t acked; /* callbacks, by what they said */
    atomic_uint_fast64_t refused;
    atomic_uint_fast64_t unknown;
    atomic_uint_fast64_t models; /* records of model calls that were handed over */

    /* Of all. */
    uint64_t campaign;             /* 0: none that its process has known of */
    atomic_uint_fast64_t repeated; /* records handed over that were recorded before: a step that
                                      was run again */
    struct kill_witness records[KILL_RUNS_MAX][KILL_SEQS_MAX];
};

void kill_log_begin_process(struct kill_log *log, enum kill_point point, uint64_t at);

/* Counts `more` at the point, and ends the process if it is this one's. */
void kill_log_step(struct kill_log *log, enum kill_point point, uint64_t more);

/* From now on kill_journal_open() of this process opens journals that write this log: the engine's
 * call has no place to say it. */
void kill_journal_arm(struct kill_log *log);

/* As journal_open(), of a journal that is closed as any other. */
int kill_journal_open(struct journal **journal, const struct journal_config *config,
                      struct errmsg *why);

#endif
