/*
 * manual_journal: a store that keeps nothing and settles or returns a batch when the test says so,
 * on a loop whose time is virtual; and appends that remember what they were told.
 *
 * Ownership: the struct is the test's and must not move while open. Threading: none. Units: ns.
 */
#ifndef BENCH_TESTS_LIB_MANUAL_JOURNAL_H
#define BENCH_TESTS_LIB_MANUAL_JOURNAL_H

#include "engine/loop.h"
#include "journal/backend.h"

enum { MANUAL_HELD_MAX = 64, NOTE_UNANSWERED = 1 };

struct manual {
    struct journal *journal;
    struct journal_writer *writer;
    struct loop loop;
    struct journal_batch *held[MANUAL_HELD_MAX]; /* in the order of commits */
    unsigned held_count;
    unsigned commits;
    unsigned returns_left; /* batches that commit() itself returns */
};

/* False when it cannot be opened. */
bool manual_open(struct manual *manual, unsigned lanes, unsigned depth, uint64_t retry_for_ns);
/* Whatever is outstanding is forgotten. */
void manual_close(struct manual *manual);

/* The held batch `index`: all of its entries that have no result get this one, and it is done. */
void manual_settle(struct manual *manual, unsigned index, int result);
/* It comes back, to be tried again. */
void manual_return(struct manual *manual, unsigned index, int error, bool is_in_doubt);

/* Lets time pass, and timers fire. */
void manual_pass(struct manual *manual, uint64_t duration_ns);

/* Flushes, acks and delivers until nothing is outstanding. False when that does not end. */
bool manual_drain(struct manual *manual);

struct note {
    struct journal_append append;
    int result;     /* NOTE_UNANSWERED until it is known */
    unsigned fired; /* callbacks */
    unsigned order; /* of the last of them among all notes */
};

/* Appends under append.run and append.seq. */
void note_append(struct manual *manual, struct note *note, const void *payload, size_t bytes);

/* One record of the run in a batch of its own, if the lane takes one more. */
void note_send(struct manual *manual, struct note *note, uint64_t run);

/* --- runs --- */

/* The first run from `from` on that belongs to the lane. */
uint64_t manual_run_in(unsigned lane, unsigned lanes, uint64_t from);

/* Of the first record of a held batch. */
uint64_t manual_held_run(const struct manual *manual, unsigned index);

#endif
