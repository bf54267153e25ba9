/*
 * backend: what a store implements, seen by journal.c, group_commit.c and the stores only.
 *
 * A store gets whole batches and says when each is settled; queueing, bounds, acks and callbacks
 * are group_commit.c's, the same for every store, so that a comparison of two stores compares the
 * stores. Threading: everything on the writer's thread; a store with threads of its own comes back
 * to it through the loop.
 */
#ifndef BENCH_JOURNAL_BACKEND_H
#define BENCH_JOURNAL_BACKEND_H

#include <stdatomic.h>

#include "journal/journal.h"

struct journal_entry {
    struct journal_append *append;
    uint64_t run;
    uint64_t digest;
    uint32_t seq;
    uint32_t bytes;
    uint32_t offset; /* of the payload in journal_batch.bytes */
    uint16_t kind;   /* enum record_kind */
    int16_t result;  /* -EIO until the store sets it, before journal_commit_done() */
};
static_assert(sizeof(struct journal_entry) == 40, "one a record of a batch");

struct journal_batch {
    struct journal_entry *entries;
    char *bytes;
    uint32_t count;
    uint32_t bytes_used;
};

struct journal_ops {
    const char *name; /* the scheme, and the report's name */
    /* The levels that it can keep, zero-terminated unless full; the default first. */
    enum durability levels[3];
    int (*open)(struct journal *journal, const struct journal_config *config, struct errmsg *why);
    void (*close)(struct journal *journal);
    int (*writer_open)(struct journal_writer *writer, struct errmsg *why);
    void (*writer_close)(struct journal_writer *writer);
    /* Makes the batch durable, sets every entry's result, then calls journal_commit_done(), now or
     * later. The batch does not move or change until then. Results within a batch hold in its
     * order: an entry after a refused one of the same run must be refused too. */
    void (*commit)(struct journal_writer *writer, struct journal_batch *batch);
    int (*read)(struct journal_writer *writer, uint64_t run, uint32_t seq,
                struct journal_record *record);
    int (*scan)(struct journal_writer *writer,
                int (*visit)(void *arg, const struct journal_record *record), void *arg);
};

struct journal {
    const struct journal_ops *ops;
    enum durability durability;
    unsigned writers;
    atomic_uint writers_open; /* group_commit.c's: all must be closed before the journal is */
    uint64_t bytes_max;
    void *impl;
};

/* The part of a writer that stores see; group_commit.c keeps the rest behind it. */
struct journal_writer {
    struct journal *journal;
    struct loop *loop;
    unsigned index;
    void *impl;
};

/* The batch given to commit() is settled. */
void journal_commit_done(struct journal_writer *writer);

/* Opens a journal on a given store, in or out of the table (the tests' broken ones). */
int journal_open_ops(struct journal **journal, const struct journal_ops *ops,
                     const struct journal_config *config, struct errmsg *why);

/* A row a store. */
struct journal_store {
    const char *scheme;
    const char *usage; /* the form of its URI, for the message that lists them */
    bool has_address; /* a colon and something behind it must follow the scheme; else nothing may */
    const struct journal_ops *ops;
};
extern const struct journal_store journal_stores[]; /* ended by a row without a scheme */

extern const struct journal_ops journal_memory_ops;

#endif
