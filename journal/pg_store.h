/*
 * pg_store: what the parts of the Postgres journal share: the open store, its statements, and its
 * control connection.
 *
 * The data connections are the lanes' (pg_lane.h). Everything else (set-up, reading, figures) goes
 * over one blocking connection that is opened when it is needed. Ownership: the journal's impl.
 * Threading: pg_control_begin() to pg_control_end() is one thread at a time; what is not atomic is
 * written while the journal is opened, and only read afterwards. Errors: 0 or -errno, with the
 * reason.
 */
#ifndef BENCH_JOURNAL_PG_STORE_H
#define BENCH_JOURNAL_PG_STORE_H

#include <pthread.h>
#include <stdatomic.h>

#include "engine/base/clock.h"
#include "engine/base/list.h"
#include "journal/backend.h"
#include "journal/pg_batch.h"
#include "journal/pg_uri.h"

enum {
    PG_SCHEMA_VERSION = 1,
    /* Of the advisory locks: "benc" and "bena". The other half is the campaign's id, or 0 for the
     * schema. */
    PG_LOCK_CLASS = 0x62656e63,
    PG_LOCK_CLASS_AUDIT = 0x62656e61,
    PG_STATEMENT_BYTES = 2048,
};
#define PG_ALL_CAMPAIGNS ((uint64_t)INT64_MAX) /* in the place of an id: above all of them */
#define PG_INSERT_NAME "bench_insert" /* of the statement that data connections have prepared */

struct pg_store {
    struct journal *journal;
    struct pg_uri uri;
    struct campaign_key keys; /* of the campaign in force */
    const char *table;        /* likewise */
    int64_t epoch; /* written into the campaign: whoever writes another has taken it over */
    char session[PG_STATEMENT_BYTES]; /* what a data connection says first */
    char question[PG_STATEMENT_BYTES];

    atomic_bool is_stopped; /* after a failure that is never tried again */
    _Atomic uint64_t commits;
    _Atomic uint64_t commit_ns;

    pthread_mutex_t lanes_lock;
    struct list lanes;           /* of all writers, for the figures */
    char synchronous_commit[16]; /* as a data connection was told last; guarded likewise */

    pthread_mutex_t control_lock;
    PGconn *control;           /* NULL: not connected */
    atomic_bool keeps_control; /* between uses */
    bool is_control_lost;      /* as an answer has told; libpq may not have noticed */
    bool is_bounded;           /* its statements end after a while */
    bool holds_campaign;       /* that is resumed: it has the lock */
    uint64_t audited; /* campaign that the control connection has locked to audit it; 0: none */
    uint64_t newest;  /* campaign, when an audit first listed them: later ones are none of its */
};

static inline struct pg_store *pg_store_of(struct journal *journal)
{
    return journal->impl;
}

/* From now on. */
static inline struct pg_patience pg_store_patience(const struct pg_store *store)
{
    return (struct pg_patience){.until_ns = clock_monotonic_ns() + store->journal->retry_for_ns,
                                .must_stop = store->journal->must_stop};
}

/* Fails for good: no later batch is tried. */
void pg_store_stop(struct pg_store *store, const struct pg_failure *failure);

/* Whether a server with these settings keeps the level; the reason when not. `is_read_only` and
 * the others are as the server says them: "on" or "off". */
int pg_store_check_level(enum durability level, const char *fsync, const char *full_page_writes,
                         const char *is_read_only, struct errmsg *why);

/* --- the control connection --- */

/* Takes it, and connects it if it is not. Its statements end with an error after seconds, whatever
 * holds them up: another session's lock, or a server that does not answer. */
int pg_control_begin(struct pg_store *store, struct errmsg *why);
/* For reading records: takes it, to be connected by pg_control_renew(), and keeps it connected
 * afterwards, as more is likely to be read. */
void pg_control_take(struct pg_store *store);
void pg_control_end(struct pg_store *store);
/* In between: connects it if it is not, which is tried while the patience lasts, unless the server
 * says that it will not do. A new connection has no locks, and is in no transaction. Its statements
 * may take their time from then on. */
int pg_control_renew(struct pg_store *store, const struct pg_patience *patience,
                     struct errmsg *why);

/* Runs one statement or several, without parameters. NULL with the failure. */
PGresult *pg_control_ask(struct pg_store *store, const char *sql, struct pg_failure *failure);
/* The same for who needs no answer; 0 or -errno. */
int pg_control_do(struct pg_store *store, const char *sql, struct errmsg *why);
/* Waits for the server's next word, if need be until `until_ns` (UINT64_MAX: as long as it takes).
 * False when it has none; then the connection counts as lost. */
bool pg_control_listen(struct pg_store *store, uint64_t until_ns);

/* What a result with an error tells, of the connection as well. */
void pg_control_judge(struct pg_store *store, const PGresult *result, struct pg_failure *failure);
static inline bool pg_control_is_lost(const struct pg_store *store)
{
    return PQstatus(store->control) != CONNECTION_OK || store->is_control_lost;
}

/* An answer of one number; -errno also for any other answer. */
int pg_control_number(struct pg_store *store, const char *sql, int64_t *number, struct errmsg *why);

#endif
