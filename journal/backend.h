/*
 * backend: what a store implements, seen by journal.c, group_commit.c and the stores only.
 *
 * A store gets whole batches and says when each is settled; queueing, bounds, retries, acks and
 * callbacks are group_commit.c's, the same for every store, so that a comparison of two stores
 * compares the stores.
 *
 * Threading: a writer's functions are called on the writer's thread, and journal_batch_done() and
 * journal_batch_retry() too: a store with threads of its own keeps what it has settled until
 * poll(), and wakes the writer's loop. Ownership: a batch is the store's from commit() until one of
 * these two.
 */
#ifndef BENCH_JOURNAL_BACKEND_H
#define BENCH_JOURNAL_BACKEND_H

#include <pthread.h>
#include <stdatomic.h>

#include "engine/base/prng.h"
#include "journal/journal.h"

/* A result that the store forgets to set is an error, never an ack. */
enum { JOURNAL_UNSET = 1 }; /* no store's; -EIO by the time it is delivered */

struct journal_entry {
    struct journal_append *append;
    uint64_t run;
    uint64_t digest;
    uint32_t seq;
    uint32_t bytes;
    uint32_t offset; /* of the payload in journal_batch.bytes */
    uint16_t kind;   /* enum record_kind */
    int16_t result;  /* JOURNAL_UNSET until the store sets it, before journal_batch_done() */
};
static_assert(sizeof(struct journal_entry) == 40, "one a record of a batch");

/* What leaves together: records of one lane, in the order of their appends. */
struct journal_batch {
    struct journal_batch *next; /* the store's, while it has the batch */
    struct journal_entry *entries;
    char *bytes;
    uint32_t count;
    uint32_t bytes_used;
    uint32_t lane;
    bool was_sent; /* it may be recorded, in part or whole: this is a retry of what is in doubt */
};

struct journal_ops {
    const char *name; /* the scheme, and the report's name */
    /* The levels that it can keep, zero-terminated unless full; the default first. */
    enum durability levels[3];
    bool has_connections; /* a writer needs one of its own */
    bool has_shards;
    bool has_keys; /* of every kind */
    bool keeps_in_memory;
    /* As journal_owns_path() and journal_disk(); NULL: it has no files. */
    bool (*owns_path)(const char *uri, const char *path);
    struct journal_disk (*disk)(const char *uri);
    /* Fills journal->campaign unless it is opened for an audit, and journal->parts. */
    int (*open)(struct journal *journal, const struct journal_config *config, struct errmsg *why);
    void (*close)(struct journal *journal);
    /* Closes it and takes back what opening it for a new campaign has left in the store; what
     * cannot be taken back stays. NULL: nothing is left. */
    void (*discard)(struct journal *journal);
    /* May set writer->lanes and writer->depth. */
    int (*writer_open)(struct journal_writer *writer, struct errmsg *why);
    /* Batches that it has still are let go of, without a word. */
    void (*writer_close)(struct journal_writer *writer);
    /* Makes the batch durable, sets every entry's result, then calls journal_batch_done(), now or
     * later; or journal_batch_retry(). The batch does not move or change until then. An entry after
     * a refused one of the same run must be refused too: journal_batch_refuse(). */
    void (*commit)(struct journal_writer *writer, struct journal_batch *batch);
    void (*poll)(struct journal_writer *writer); /* may be NULL */
    int (*read)(struct journal_writer *writer, uint64_t run, uint32_t seq,
                struct journal_record *record);
    /* As in journal.h. */
    void (*io)(struct journal *journal, struct journal_io *io); /* may be NULL */
    /* By journal_settings_add(). NULL: there is nothing to tell. */
    void (*describe)(struct journal *journal, struct journal_settings *settings);
    int (*list)(struct journal *journal,
                int (*visit)(void *arg, const struct journal_campaign *campaign), void *arg,
                struct errmsg *why);
    int (*scan)(struct journal *journal, uint64_t campaign, unsigned part, uint32_t kinds,
                journal_visit *visit, void *arg, struct errmsg *why);
    int (*read_runs)(struct journal *journal, unsigned part, const uint64_t *runs, unsigned count,
                     journal_visit *visit, void *arg, struct errmsg *why);
    int (*count)(struct journal *journal, unsigned part, struct journal_count *count,
                 struct errmsg *why);
};

struct journal {
    const struct journal_ops *ops;
    enum durability durability;
    enum journal_mode mode;
    unsigned writers;
    atomic_uint writers_open; /* group_commit.c's: all must be closed before the journal is */
    atomic_bool has_sent;     /* likewise: something may be recorded */
    unsigned parts;
    unsigned connections; /* of all writers; 0 where there is no server */
    uint64_t bytes_max;
    uint64_t retry_for_ns;
    bool (*must_stop)(void);
    struct journal_campaign campaign; /* the store's to fill and to free */
    pthread_mutex_t failure_lock;
    struct errmsg failure; /* the first, see journal_fail() */
    void *impl;
};

/* --- for a store that opens --- */

/* The campaign that the config begins, now and at the journal's level; its id is the store's to
 * give. The description is a view. */
struct journal_campaign journal_new_campaign(const struct journal *journal,
                                             const struct journal_config *config);

/* Sets the level of a campaign that is resumed: its own unless another is asked for. -EINVAL when
 * it was begun at `none` and more is asked for: what it has may be lost already. */
int journal_resume_level(struct journal *journal, const struct journal_config *config,
                         const struct journal_campaign *campaign, struct errmsg *why);

/* --- writing --- */

/* The part of a writer that stores see; group_commit.c keeps the rest behind it. */
struct journal_writer {
    struct journal *journal;
    struct loop *loop;
    unsigned index;
    unsigned lanes; /* 1 to JOURNAL_LANES_MAX: a batch holds records of one lane; 1 unless set */
    unsigned depth; /* 1 to JOURNAL_DEPTH_MAX: so many batches of a lane may be the store's at a
                       time; 1 unless set */
    void *impl;
};

enum { JOURNAL_LANES_MAX = 256, JOURNAL_DEPTH_MAX = 32 };

/* Which of `lanes` a run belongs to: the same always, since shards outlive the process. */
static inline unsigned journal_lane_of(uint64_t run, unsigned lanes)
{
    return (unsigned)prng_below(&(struct prng){prng_mix(run)}, lanes);
}

/* The batch is settled, since `now_ns`. */
void journal_batch_done(struct journal_writer *writer, struct journal_batch *batch,
                        uint64_t now_ns);

/* The store could not do it, and may yet: the batch comes again, in the order of its lane, after a
 * while; or when retry_for_ns is over it is settled, with `error`, a -errno, for entries that have
 * no result yet, or JOURNAL_UNKNOWN when `is_in_doubt` now or before: it was sent, and may be
 * recorded. */
void journal_batch_retry(struct journal_writer *writer, struct journal_batch *batch, int error,
                         bool is_in_doubt);

/* Why the batch is about to return, in the store's words, before journal_batch_retry(). The last
 * words of a lane are what journal_has_failed() tells when it gives up; they are forgotten when one
 * of its batches is settled. */
void journal_lane_trouble(struct journal_writer *writer, const struct journal_batch *batch,
                          const struct errmsg *why);

/* Entry `index` is refused with `result`, and what follows of its run as well: it was chained on
 * bytes that are not there. */
void journal_batch_refuse(struct journal_batch *batch, uint32_t index, int result);

/* All entries without a result get this one. */
void journal_batch_fail(struct journal_batch *batch, int result);

/* Keeps the first reason for journal_has_failed(). Threading: any thread. */
void journal_fail(struct journal *journal, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Control characters and what is no UTF-8 do not get in; what is too long is cut. Of no effect
 * without a value. */
void journal_settings_add(struct journal_settings *settings, const char *key, const char *value);

/* --- reading --- */

/* Whether `kinds` of journal_scan() has this one, which may be none of the enum. */
static inline bool journal_wants(uint32_t kinds, int64_t kind)
{
    return kinds == UINT32_MAX || (kind >= 0 && kind < 32 && (kinds >> kind & 1) != 0);
}

/* A visit that adds the record to a struct journal_count. */
int journal_count_record(void *count, const struct journal_record *record);

/* --- the table of stores --- */

/* Opens a journal on a given store, in or out of the table (the tests' broken ones). */
int journal_open_ops(struct journal **journal, const struct journal_ops *ops,
                     const struct journal_config *config, struct errmsg *why);

/* What follows the scheme: nothing, or a colon and an address, of which a path does not begin like
 * a server's. */
enum journal_address { JOURNAL_NO_ADDRESS, JOURNAL_PATH, JOURNAL_SERVER };

/* A row a store. */
struct journal_store {
    const char *scheme;
    const char *usage; /* the form of its URI, for the message that lists them */
    enum journal_address address;
    const struct journal_ops *ops;
};
extern const struct journal_store journal_stores[]; /* ended by a row without a scheme */

extern const struct journal_ops journal_memory_ops;
extern const struct journal_ops journal_sqlite_ops;
extern const struct journal_ops journal_postgres_ops;

#endif
