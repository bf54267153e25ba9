/*
 * sqlite_schema: the tables of a store, how they come to be, and what tells its files apart.
 *
 * Every file has the same tables. Shard 0 alone holds campaigns; every file says which shard of how
 * many it is, and of which store. Records lie in the order of their arrival, so that a commit
 * writes at one end of the table whatever its keys are; an index gives each key one winner.
 *
 * A file is made in one transaction with a rollback journal, before it becomes a WAL database: so
 * the main file holds the application id and all tables as soon as it holds anything, and no WAL is
 * needed to tell whose it is.
 *
 * Threading: as the connection. Errors: 0 or -errno with text.
 */
#ifndef BENCH_JOURNAL_SQLITE_SCHEMA_H
#define BENCH_JOURNAL_SQLITE_SCHEMA_H

#include "journal/run_key.h"
#include "journal/sqlite_db.h"

enum { SQLITE_STORE_ID_BYTES = 16 };

struct sqlite_identity {
    uint8_t store[SQLITE_STORE_ID_BYTES]; /* drawn when the store was made */
    unsigned shard;
    unsigned shards;
};

/* Makes the tables of an empty file, in the transaction that is open; `identity` is to be recorded.
 */
int sqlite_schema_create(struct sqlite_db *db, const struct sqlite_identity *identity,
                         struct errmsg *why);

/* Checks that the tables are ours, and reads the identity. */
int sqlite_schema_check(struct sqlite_db *db, struct sqlite_identity *identity, struct errmsg *why);

/* --- the statements of a table of records: one for keys that are numbers, one for UUIDs --- */

enum {
    SQLITE_INSERT_ROWS = 16,
    SQLITE_INSERT_PARAMETERS = 5, /* a row */
};

struct sqlite_record_sql {
    const char *insert;      /* run, seq, kind, digest, payload; not what has a key that is there */
    const char *insert_many; /* SQLITE_INSERT_ROWS of them */
    const char *next_seq;    /* of a run: the seq after its newest record, or 0 */
    const char *find;        /* kind, digest, payload, seq of a run and seq */
    const char *run;         /* the same of a run, in the order of seq */
    const char *scan; /* kind, digest, payload, seq, run, id of all, in the order of arrival */
    const char *keys; /* the same of all, but NULL for the first three: as the index has it */
};

/* The columns of find, run and scan. */
enum {
    SQLITE_COLUMN_KIND,
    SQLITE_COLUMN_DIGEST,
    SQLITE_COLUMN_PAYLOAD,
    SQLITE_COLUMN_SEQ,
    SQLITE_COLUMN_RUN,
    SQLITE_COLUMN_ID,
};

const struct sqlite_record_sql *sqlite_record_sql(enum run_key_kind key);

#endif
