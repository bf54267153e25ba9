/*
 * broken_journals: a small store of its own kind, and the ways to break it, each of which the
 * conformance suite must find.
 *
 * Rows without a fault must pass: what the others fail for is their fault alone.
 */
#ifndef BENCH_TESTS_BROKEN_JOURNALS_H
#define BENCH_TESTS_BROKEN_JOURNALS_H

#include "journal/backend.h"

enum fault {
    FAULT_NONE,
    FAULT_TWO_WINNERS,       /* each writer has a namespace of its own */
    FAULT_DUPLICATE,         /* a record is there twice */
    FAULT_GAP,               /* a record is taken without the one before it */
    FAULT_REORDERED,         /* a run's records come back in another order */
    FAULT_RUNS_REORDERED,    /* runs are not read in the order that was asked for */
    FAULT_EARLY_ACK,         /* acked while only buffered: stored with the next commit */
    FAULT_OVERCLAIMED,       /* says that records survive the process */
    FAULT_LOST,              /* acked, and never stored */
    FAULT_LOST_AT_CLOSE,     /* acked, read, and not there when the journal is opened again */
    FAULT_STALE_READ,        /* reads do not see the newest commit */
    FAULT_MISCOUNTED,        /* counts an end too few */
    FAULT_ALL_KINDS,         /* shows kinds of records that nobody asked for */
    FAULT_UNLISTED,          /* the campaign is not in the list */
    FAULT_CUT_AT_NUL,        /* a payload ends at its first NUL */
    FAULT_MUTABLE,           /* an append that is refused changes the record all the same */
    FAULT_CONFLICT_ACCEPTED, /* other bytes under the same key are acked */
    FAULT_RETRY_REFUSED,     /* the same bytes under the same key are a conflict */
    FAULT_UNBOUNDED,         /* takes more than it may */
    FAULT_TORN,              /* the last part of a payload is missing */
    FAULT_CALLBACK_TWICE,
    FAULT_CALLBACK_NEVER,
    FAULT_CALLBACK_INLINE,
};

struct broken_journal {
    const char *name;
    enum fault fault;
    unsigned breaks; /* the check that must find it: Jn; 0: none */
    bool is_kept;    /* records outlive a close, as on a disk */
    struct journal_ops ops;
};

extern const struct broken_journal broken_journals[]; /* ended by a row without a name */

#endif
