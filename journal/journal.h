/*
 * journal: where the records of runs become durable. One contract, several stores.
 *
 * The contract (docs/journal.md):
 *
 *   J1  (run, seq) has one winner.
 *   J2  A record is visible only if all before it in its run are.
 *   J3  An ack means durable at the declared level, never earlier.
 *   J4  Read-your-writes after the ack.
 *   J5  Bytes come back as they went in, any byte, 0 to 16 MiB.
 *   J6  Records never change.
 *   J7  The same bytes appended again under their key succeed; other bytes are a conflict.
 *   J8  Memory is bounded: at the bound callers wait, nothing is dropped.
 *   J9  No partial record is ever visible.
 *   J10 A callback fires exactly once, on its own thread, never from inside the call.
 *
 * Group commit, once for all stores: appends are copied into the writer's open batch;
 * journal_flush() sends it as one commit when none is in flight; what arrives meanwhile leaves with
 * the next. journal_deliver() fires the callbacks of what a commit has settled.
 *
 * Ownership: a journal_append is embedded in the caller's struct and belongs to the journal from
 * journal_append() until its callback. Payload bytes are copied before journal_append() returns.
 * Threading: a journal is opened and closed by one thread; each writer belongs to the thread of its
 * loop, so that there is no lock on the append path. Errors: 0 or -errno, see below.
 *
 * A new store is one file and one row in journal.c.
 */
#ifndef BENCH_JOURNAL_H
#define BENCH_JOURNAL_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/err.h"

struct loop;
struct journal;
struct journal_writer;

enum {
    JOURNAL_PAYLOAD_BYTES_MAX = 16 << 20,
    JOURNAL_BATCH_RECORDS_MAX = 4096,   /* of one commit */
    JOURNAL_BATCH_BYTES_MAX = 32 << 20, /* of one commit; a writer holds two batches at the most */
};

/* Values reach disks: append-only. */
enum record_kind {
    RECORD_BEGIN = 1,
    RECORD_MODEL = 2,
    RECORD_ATTEMPT = 3,
    RECORD_TOOL = 4,
    RECORD_END = 5,
};

enum durability {
    DURABILITY_DEFAULT = 0, /* the store's own default */
    DURABILITY_NONE = 1,
    DURABILITY_PROCESS = 2,
    DURABILITY_POWER = 3,
};
const char *durability_name(enum durability level); /* "none", "process", "power" */

/* Results of an append, besides other -errno of the store. */
enum {
    JOURNAL_ACKED = 0,
    JOURNAL_AGAIN = -11,     /* -EAGAIN: nothing was taken for want of room; now append again */
    JOURNAL_CONFLICT = -17,  /* -EEXIST: other bytes are recorded under this key */
    JOURNAL_FULL = -28,      /* -ENOSPC: the store is at its bound */
    JOURNAL_TOO_LARGE = -90, /* -EMSGSIZE: a payload of more than 16 MiB */
    JOURNAL_GAP = -71,       /* -EPROTO: the record before it in its run is not there */
};
const char *journal_strerror(int result);

struct journal_append {
    struct journal_append *next; /* the journal's own */
    void (*done)(struct journal_append *append, int result);
    uint64_t run;
    /* In: of the run's previous record (DIGEST_START at seq 0); out, once taken: of this one. */
    uint64_t digest;
    uint32_t seq;
    uint32_t bytes; /* the journal's own: how much room is awaited */
};
static_assert(sizeof(struct journal_append) == 40, "embedded in every run");

/* A record as it is read back. `payload` is the journal's, until the next call on the same writer
 * or return from the visit. */
struct journal_record {
    uint64_t run;
    uint64_t digest;
    const char *payload;
    uint32_t seq;
    uint32_t bytes;
    enum record_kind kind;
};

struct journal_config {
    const char *uri;
    enum durability durability;
    unsigned writers;   /* how many journal_writer_open() will follow at the most */
    uint64_t bytes_max; /* what an in-memory store may hold altogether, all writers */
};

struct journal_totals {
    uint64_t records; /* acked */
    uint64_t bytes;   /* of their payloads */
    uint64_t commits;
};

/* Opens the store that the URI names. -EINVAL with the reason for an unknown scheme or a level that
 * the store cannot keep. No text of the URI past its scheme is repeated in `why`: it may hold a
 * password. */
int journal_open(struct journal **journal, const struct journal_config *config, struct errmsg *why);
void journal_close(struct journal *journal); /* after all writers */
/* Only checks what journal_open() would refuse without touching the store; for the command line. */
int journal_check(const struct journal_config *config, struct errmsg *why);

const char *journal_name(const struct journal *journal);           /* "memory" */
enum durability journal_durability(const struct journal *journal); /* the level in force */

int journal_writer_open(struct journal *journal, unsigned index, struct loop *loop,
                        struct journal_writer **writer, struct errmsg *why);
/* No append may be outstanding. */
void journal_writer_close(struct journal_writer *writer);

/* Hands over one record. append->{done, run, seq, digest} are set by the caller. The callback
 * follows exactly once, from a later journal_deliver(): JOURNAL_ACKED, JOURNAL_AGAIN, or why the
 * record was refused. Room is kept for who is told JOURNAL_AGAIN until the next journal_deliver();
 * who comes new while others wait goes behind them. */
void journal_append(struct journal_writer *writer, struct journal_append *append,
                    enum record_kind kind, const void *payload, size_t bytes);

/* Starts a commit of all that waits, unless one is in flight or awaits journal_deliver(). */
void journal_flush(struct journal_writer *writer);

/* Fires the callbacks of what has been settled; returns how many. New appends made by them wait for
 * the next journal_flush(). */
unsigned journal_deliver(struct journal_writer *writer);

/* When the batch was settled whose callbacks journal_deliver() is firing: the time of the ack,
 * which the callback may come after. Of an earlier batch for an append that was refused before it
 * was in one. */
uint64_t journal_settled_ns(const struct journal_writer *writer);

/* Whether appends await their callback. */
bool journal_is_busy(const struct journal_writer *writer);

struct journal_totals journal_writer_totals(const struct journal_writer *writer);

/* 0, or -ENOENT. Only acked records are found. */
int journal_read(struct journal_writer *writer, uint64_t run, uint32_t seq,
                 struct journal_record *record);

/* Visits every visible record that came through this writer, each run's in the order of seq, runs
 * interleaved in any order; stops at the first visit that returns not 0, and returns it. */
int journal_scan(struct journal_writer *writer,
                 int (*visit)(void *arg, const struct journal_record *record), void *arg);

#endif
