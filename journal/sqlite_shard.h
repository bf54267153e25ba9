/*
 * sqlite_shard: one file of a store, and the thread that writes it.
 *
 * Writers queue batches. As soon as any are queued and the thread is free, it takes what there is,
 * of all writers, as one transaction: group commit by draining, with no lingering. When COMMIT has
 * returned, each writer gets its batches back and its loop is woken, once. Past a bound of the WAL
 * a checkpoint follows, on the same connection, after the acks.
 *
 * A shard that has had a rest now and then keeps up, and takes little at a time: five thousand runs
 * that come at once then go on one after the other to what they wait for next, instead of all
 * waiting for one large commit. One that has had none does not keep up, and takes all: a record
 * then costs least.
 *
 * There is one connection a file. Whoever reads borrows it between two commits, on the reader's own
 * thread (sqlite_shard_borrow()); so nothing ever uses the connection beside the thread, and what a
 * reader calls runs where the reader expects it.
 *
 * The first error of a write stops the store: all of its shards take nothing more. What has been
 * acked stays readable, in this process and the next.
 *
 * Ownership: a sent batch is the shard's from sqlite_shard_send() until it is on its writer's
 * stack. Threading: the store opens and closes a shard; sending is any writer's; borrowing is any
 * thread's, one at a time, and not from inside a visit. Errors: 0 or -errno with text. Units: in
 * the names.
 */
#ifndef BENCH_JOURNAL_SQLITE_SHARD_H
#define BENCH_JOURNAL_SQLITE_SHARD_H

#include <pthread.h>
#include <stdatomic.h>

#include "journal/backend.h"
#include "journal/run_table.h"
#include "journal/sqlite_db.h"
#include "journal/sqlite_schema.h"

enum {
    /* What one transaction takes at the most, but always one batch: while the shard keeps up, and
     * while it does not. */
    SQLITE_COMMIT_RECORDS_FEW = 512,
    SQLITE_COMMIT_RECORDS_MAX = 16 << 10,
    SQLITE_COMMIT_BYTES_MAX = 64 << 20,
    /* A checkpoint follows the commit that fills the WAL so far. */
    SQLITE_WAL_BYTES_BOUND = 1 << 20,
};

/* A batch on its way to a shard and back. */
struct sqlite_sent {
    struct sqlite_sent *next;
    struct journal_batch *batch;
    struct sqlite_writer *writer;
    uint64_t settled_ns;
};

struct sqlite_writer {
    struct journal_writer *writer;
    _Atomic(struct sqlite_sent *) settled; /* shards push, the writer takes all */
    struct sqlite_sent *free;
    char *buffer; /* of what was read last */
    size_t buffer_bytes;
    struct sqlite_sent slots[];
};

/* What a writer gets back of one commit, the newest first. */
struct sqlite_chain {
    struct sqlite_sent *first;
    struct sqlite_sent *last;
};

struct sqlite_shard {
    struct sqlite_db db;
    struct journal *journal;
    atomic_bool *has_failed; /* the store's */
    unsigned index;
    struct journal_campaign campaign; /* that is being written; the description is the journal's */

    /* The connection's owner's: the thread's, or a borrower's. */
    const struct sqlite_record_sql *sql;
    sqlite3_stmt *begin;
    sqlite3_stmt *commit;
    sqlite3_stmt *rollback;
    sqlite3_stmt *insert;      /* one record */
    sqlite3_stmt *insert_many; /* SQLITE_INSERT_ROWS of them */
    sqlite3_stmt *next_seq;
    sqlite3_stmt *find;
    struct run_table runs;
    struct sqlite_chain *chains; /* a writer each */
    uint64_t wal_pages;          /* in the WAL after the last commit */
    bool is_broken;              /* a write has failed */

    pthread_mutex_t lock;
    pthread_cond_t changed;    /* for the thread */
    pthread_cond_t given_back; /* for borrowers, and for who closes a writer */
    struct sqlite_sent *first; /* queued */
    struct sqlite_sent **end;
    unsigned borrowers; /* that wait */
    bool is_owned;      /* the connection is somebody's */
    bool is_committing; /* the thread's */
    uint64_t turns;     /* so often the connection was given back */
    bool must_stop;
    bool has_thread;
    bool is_behind;           /* the thread's, as are the next two */
    uint64_t window_start_ns; /* of the time in which its rests are added up */
    uint64_t rest_ns;         /* since then */
    pthread_t thread;

    _Atomic uint64_t commits;
    _Atomic uint64_t commit_ns;
    _Atomic uint64_t checkpoints;
    _Atomic uint64_t checkpoint_ns;
};

/* Prepares what a campaign needs, on an open connection. sqlite_shard_close() undoes it. */
int sqlite_shard_init(struct sqlite_shard *shard, struct journal *journal, atomic_bool *has_failed,
                      struct errmsg *why);

/* Statements and thread, to write the journal's campaign; as one of `shards`. */
int sqlite_shard_start(struct sqlite_shard *shard, unsigned shards, struct errmsg *why);

/* All writers must be closed. Closes the connection too. */
void sqlite_shard_close(struct sqlite_shard *shard);

void sqlite_shard_send(struct sqlite_shard *shard, struct sqlite_sent *sent);

/* Nothing of the writer is the shard's any more. */
void sqlite_shard_forget(struct sqlite_shard *shard, const struct sqlite_writer *writer);

/* The connection is the calling thread's until it gives it back. */
void sqlite_shard_borrow(struct sqlite_shard *shard);
void sqlite_shard_give_back(struct sqlite_shard *shard);

/* --- for the owner of the connection --- */

/* Binds the key of a run of the shard's campaign to a parameter. `uuid` must outlive the step. */
void sqlite_shard_bind_run(const struct sqlite_shard *shard, sqlite3_stmt *statement, int parameter,
                           uint64_t run, uint8_t uuid[RUN_KEY_UUID_BYTES]);

/* Puts the batches into one transaction and sets the results of all their entries
 * (sqlite_commit.c). The time at which they were settled. */
uint64_t sqlite_shard_commit(struct sqlite_shard *shard, struct sqlite_sent *first);

/* Brings what the WAL holds into the database. */
int sqlite_shard_checkpoint(struct sqlite_shard *shard, struct errmsg *why);

/* Checkpoints past the bound. A failure stops the store. */
void sqlite_shard_bound_wal(struct sqlite_shard *shard);

#endif
