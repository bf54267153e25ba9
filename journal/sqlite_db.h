/*
 * sqlite_db: one connection to one file of a store, set up as a shard needs it, and SQLite's errors
 * as ours.
 *
 * The connection holds its file for itself (locking_mode=EXCLUSIVE), so that no second process gets
 * in and the index of the WAL is on the heap. A process that is killed leaves no lock behind. Until
 * sqlite_db_trust() it neither checkpoints nor deletes a WAL on closing.
 *
 * Ownership: the caller's struct, which must not move while it is open. Threading: one thread at a
 * time. Errors: 0 or -errno with text that names the file as it was given. Units: bytes.
 */
#ifndef BENCH_JOURNAL_SQLITE_DB_H
#define BENCH_JOURNAL_SQLITE_DB_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "journal/journal.h"
#include "journal/sqlite_audit.h"
#include "journal/sqlite_look.h"
#include "journal/sqlite_vfs.h"

enum { SQLITE_PAGE_BYTES = 8192 };

struct sqlite_db {
    sqlite3 *handle;              /* NULL while it is not open */
    char path[SQLITE_PATH_BYTES]; /* as it was given, for texts */
    char full[SQLITE_PATH_BYTES];
    enum sqlite_look found;
    bool is_audit;
    bool is_empty;     /* no tables, when the lock was taken */
    bool is_made_here; /* nor a file, before */
    bool is_vfs_registered;
    struct sqlite_vfs vfs; /* unless it is an audit */
    struct sqlite_audit_vfs audit_vfs;
    struct sqlite_io io;
};

/* Looks at the file and opens it, or makes an empty one when there is none and `may_create`. An
 * audit opens it without changing anything; else a transaction is open afterwards, which has taken
 * the lock, and for the first page of a file must hold the tables, too: sqlite_db_execute() a
 * COMMIT. -EBUSY while another process has it, -ENOENT when it is empty and must not be made. */
int sqlite_db_open(struct sqlite_db *db, const char *path, bool is_audit, bool may_create,
                   struct errmsg *why);

/* Whether the file that is open is no longer the one of that name: it has been deleted or renamed.
 */
bool sqlite_db_has_moved(struct sqlite_db *db);

/* All statements must be finalized. Fine on one that did not open. */
void sqlite_db_close(struct sqlite_db *db);

/* Deletes what opening has left beside the file of a store that is not there yet, and the file
 * itself unless it was there, empty, before; leaves a store alone. To be followed by
 * sqlite_db_close(). */
void sqlite_db_undo_create(struct sqlite_db *db);

/* WAL mode, which must be had, and the WAL opened. */
int sqlite_db_set_wal(struct sqlite_db *db, struct errmsg *why);

/* Brings what the WAL holds into the database, and leaves the database synced and the WAL empty and
 * durably so. A campaign at `none` has synced nothing of either, and its WAL is gone when it ended
 * well: what is written now refers to pages that only the system's memory may hold. A process whose
 * sync of the WAL failed leaves one that reads otherwise than what a power cut would leave of it:
 * an older one, which must not come back over what is newer. */
int sqlite_db_empty_wal(struct sqlite_db *db, struct errmsg *why);

/* Deletes the rollback journal that making the file has left behind. */
int sqlite_db_drop_journal(struct sqlite_db *db, struct errmsg *why);

/* The synchronous setting of a level; it is read back. */
int sqlite_db_set_level(struct sqlite_db *db, enum durability level, struct errmsg *why);

/* Whether the WAL is checkpointed and deleted on closing. Not after a failure: what it holds is
 * what the next process recovers. */
void sqlite_db_trust(struct sqlite_db *db, bool is_trusted);

/* -errno for SQLite's code, and the text: the file, what was being done, SQLite's words, and the
 * system's for a call that failed. */
int sqlite_db_error(struct sqlite_db *db, int code, const char *what, struct errmsg *why);

int sqlite_db_execute(struct sqlite_db *db, const char *sql, const char *what, struct errmsg *why);
int sqlite_db_prepare(struct sqlite_db *db, const char *sql, sqlite3_stmt **statement,
                      struct errmsg *why);

/* The single integer that a query answers with. */
int sqlite_db_get(struct sqlite_db *db, const char *sql, int64_t *value, struct errmsg *why);

/* Whether a column of the row holds an integer from `least` to `most`, and which. */
bool sqlite_column_is_integer(sqlite3_stmt *row, int column, int64_t least, int64_t most,
                              int64_t *value);

#endif
