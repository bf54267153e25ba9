/* sqlite_db: see sqlite_db.h. */
#include "journal/sqlite_db.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "engine/base/clock.h"

enum {
    LENGTH_MAX = JOURNAL_PAYLOAD_BYTES_MAX + (1 << 20), /* of a value or row: no larger is ours */
    CACHE_KIB = 8 << 10,
    WAL_KEPT_BYTES = 8 << 20, /* what a WAL keeps that a large transaction has made larger */
    /* Two that open at the same time may each keep the other out. */
    BUSY_TRIES_MAX = 4,
    BUSY_WAIT_MS = 10,
};

/* --- errors --- */

static bool is_system_call_code(int code)
{
    int primary = code & 0xff;
    return primary == SQLITE_IOERR || primary == SQLITE_FULL || primary == SQLITE_CANTOPEN;
}

/* The call below whose failure the code is; NULL for none: SQLite may have gone on after one that
 * failed earlier. */
static const struct sqlite_io_failure *failure_of(const struct sqlite_db *db, int code)
{
    const struct sqlite_io_failure *failure = &db->io.failure;
    return failure->call != NULL && failure->code == code ? failure : NULL;
}

static int errno_of(const struct sqlite_db *db, int code)
{
    const struct sqlite_io_failure *failure;
    int system = 0;
    switch (code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return -EBUSY;
    case SQLITE_FULL:
        return -ENOSPC;
    case SQLITE_NOMEM:
        return -ENOMEM;
    case SQLITE_READONLY:
        return sqlite_look_for_reason(db->full, -EROFS);
    case SQLITE_PERM:
    case SQLITE_AUTH:
        return -EACCES;
    case SQLITE_CANTOPEN:
        system = db->handle != NULL ? sqlite3_system_errno(db->handle) : 0;
        if (system == 0 || system == ENOENT || system == EACCES || system == EROFS)
            return sqlite_look_for_reason(db->full, system > 0 ? -system : -EIO);
        return -system;
    case SQLITE_IOERR:
        if (code == SQLITE_IOERR_NOMEM)
            return -ENOMEM;
        failure = failure_of(db, code);
        return failure != NULL && failure->system > 0 ? -failure->system : -EIO;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_TOOBIG:
    case SQLITE_ERROR: /* a table that is not as it should be */
        return -EBADMSG;
    default:
        return -EIO;
    }
}

int sqlite_db_error(struct sqlite_db *db, int code, const char *what, struct errmsg *why)
{
    int error = errno_of(db, code);
    const struct sqlite_io_failure *failure = failure_of(db, code);
    /* A code may be our own finding, of which SQLite has no more to say. */
    bool is_its = db->handle != NULL && sqlite3_extended_errcode(db->handle) == code;
    const char *text = is_its ? sqlite3_errmsg(db->handle) : sqlite3_errstr(code);

    if ((code & 0xff) == SQLITE_BUSY)
        return errmsg_set(why, error, SQLITE_PATH_SHOWN " is in use by another process", db->path);
    if (code == SQLITE_READONLY_ROLLBACK)
        return errmsg_set(why, error,
                          SQLITE_PATH_SHOWN " was left by a process that was stopped while making "
                                            "it: nothing is recorded in it",
                          db->path);
    if ((code & 0xff) == SQLITE_CORRUPT || (code & 0xff) == SQLITE_NOTADB)
        return errmsg_set(why, error, SQLITE_PATH_SHOWN " is damaged: %s: %s", db->path, what,
                          text);
    if ((code & 0xff) == SQLITE_CANTOPEN || (code & 0xff) == SQLITE_READONLY)
        return errmsg_set(why, error, SQLITE_PATH_SHOWN ": %s: %s", db->path, what,
                          strerror(-error));
    if (is_system_call_code(code) && failure != NULL && failure->system > 0)
        return errmsg_set(why, error, SQLITE_PATH_SHOWN ": %s: %s (%s of the %s: %s)", db->path,
                          what, text, failure->call, sqlite_file_kind_name(failure->kind),
                          strerror(failure->system));
    if (is_system_call_code(code) && failure != NULL)
        return errmsg_set(why, error, SQLITE_PATH_SHOWN ": %s: %s (%s of the %s)", db->path, what,
                          text, failure->call, sqlite_file_kind_name(failure->kind));
    return errmsg_set(why, error, SQLITE_PATH_SHOWN ": %s: %s", db->path, what, text);
}

/* --- statements --- */

int sqlite_db_execute(struct sqlite_db *db, const char *sql, const char *what, struct errmsg *why)
{
    int code = sqlite3_exec(db->handle, sql, NULL, NULL, NULL);
    return code == SQLITE_OK ? 0 : sqlite_db_error(db, code, what, why);
}

int sqlite_db_prepare(struct sqlite_db *db, const char *sql, sqlite3_stmt **statement,
                      struct errmsg *why)
{
    int code = sqlite3_prepare_v3(db->handle, sql, -1, SQLITE_PREPARE_PERSISTENT, statement, NULL);
    return code == SQLITE_OK ? 0 : sqlite_db_error(db, code, "preparing a statement", why);
}

bool sqlite_column_is_integer(sqlite3_stmt *row, int column, int64_t least, int64_t most,
                              int64_t *value)
{
    if (sqlite3_column_type(row, column) != SQLITE_INTEGER)
        return false;
    *value = sqlite3_column_int64(row, column);
    return *value >= least && *value <= most;
}

/* The rest of a statement that has one row: what it does it may do after it has shown the row, as
 * `PRAGMA journal_mode` does, which commits then. `error` is of what came before. */
static int finish(struct sqlite_db *db, sqlite3_stmt *statement, int error, const char *what,
                  struct errmsg *why)
{
    if (error == 0) {
        int code = sqlite3_step(statement);
        if (code != SQLITE_DONE)
            error = sqlite_db_error(db, code, what, why);
    }
    int code = sqlite3_finalize(statement);
    return error != 0 || code == SQLITE_OK ? error : sqlite_db_error(db, code, what, why);
}

int sqlite_db_get(struct sqlite_db *db, const char *sql, int64_t *value, struct errmsg *why)
{
    sqlite3_stmt *statement = NULL;
    int error = sqlite_db_prepare(db, sql, &statement, why);
    if (error != 0)
        return error;
    int code = sqlite3_step(statement);
    if (code != SQLITE_ROW)
        error = sqlite_db_error(db, code, "reading", why);
    else if (!sqlite_column_is_integer(statement, 0, INT64_MIN, INT64_MAX, value))
        error = errmsg_set(why, -EBADMSG, SQLITE_PATH_SHOWN " is damaged: no number for \"%s\"",
                           db->path, sql);
    return finish(db, statement, error, "reading", why);
}

/* Sets what a PRAGMA says and reads it back. */
static int set_and_check(struct sqlite_db *db, const char *set, const char *get, int64_t wanted,
                         struct errmsg *why)
{
    int64_t value = 0;
    int error = sqlite_db_execute(db, set, set, why);
    if (error == 0)
        error = sqlite_db_get(db, get, &value, why);
    if (error == 0 && value != wanted)
        error = errmsg_set(why, -ENOTSUP, SQLITE_PATH_SHOWN ": SQLite does not do \"%s\": %" PRId64,
                           db->path, set, value);
    return error;
}

int sqlite_db_set_level(struct sqlite_db *db, enum durability level, struct errmsg *why)
{
    switch (level) {
    case DURABILITY_POWER:
    case DURABILITY_DEFAULT:
        return set_and_check(db, "PRAGMA synchronous=FULL", "PRAGMA synchronous", 2, why);
    case DURABILITY_PROCESS:
        return set_and_check(db, "PRAGMA synchronous=NORMAL", "PRAGMA synchronous", 1, why);
    case DURABILITY_NONE:
        return set_and_check(db, "PRAGMA synchronous=OFF", "PRAGMA synchronous", 0, why);
    }
    return errmsg_set(why, -EINVAL, "unknown durability");
}

/* Sets a mode that SQLite answers with the name of, in lower case. */
static int set_mode(struct sqlite_db *db, const char *sql, const char *wanted, struct errmsg *why)
{
    sqlite3_stmt *statement = NULL;
    int error = sqlite_db_prepare(db, sql, &statement, why);
    if (error != 0)
        return error;
    int code = sqlite3_step(statement);
    if (code != SQLITE_ROW) {
        error = sqlite_db_error(db, code, sql, why);
    } else {
        const char *mode = (const char *)sqlite3_column_text(statement, 0);
        if (mode == NULL || strcmp(mode, wanted) != 0)
            error = errmsg_set(why, -ENOTSUP,
                               SQLITE_PATH_SHOWN ": SQLite does not do \"%s\" here: the mode is %s",
                               db->path, sql, mode != NULL ? mode : "unknown");
    }
    return finish(db, statement, error, sql, why);
}

int sqlite_db_set_wal(struct sqlite_db *db, struct errmsg *why)
{
    int64_t version = 0;
    int error = set_mode(db, "PRAGMA journal_mode=WAL", "wal", why);
    /* The WAL is opened by whoever reads first. */
    return error != 0 ? error : sqlite_db_get(db, "PRAGMA schema_version", &version, why);
}

/* Syncs the file that SQLite has open as `which` of its pointers, if it has. SQLite's code. */
static int sync_file(struct sqlite_db *db, int which)
{
    sqlite3_file *file = NULL;
    int code = sqlite3_file_control(db->handle, "main", which, &file);
    if (code != SQLITE_OK || file == NULL || file->pMethods == NULL)
        return code;
    return file->pMethods->xSync(file, SQLITE_SYNC_NORMAL);
}

int sqlite_db_empty_wal(struct sqlite_db *db, struct errmsg *why)
{
    /* SQLite syncs the database only if the WAL holds something for it. */
    int code = sync_file(db, SQLITE_FCNTL_FILE_POINTER);
    if (code == SQLITE_OK)
        code =
            sqlite3_wal_checkpoint_v2(db->handle, "main", SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    /* Nor does it sync what it has cut off. */
    if (code == SQLITE_OK)
        code = sync_file(db, SQLITE_FCNTL_JOURNAL_POINTER);
    return code == SQLITE_OK ? 0 : sqlite_db_error(db, code, "recovering the WAL", why);
}

void sqlite_db_trust(struct sqlite_db *db, bool is_trusted)
{
    int code = sqlite3_db_config(db->handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, !is_trusted, NULL);
    assert(code == SQLITE_OK); /* fails only for an option that it does not know */
    (void)code;
}

/* --- opening and closing --- */

/* What is in the file is not ours to trust: no triggers, no functions from the schema, no value
 * larger than ours, no mapping, which would end the process when the file is cut short under it. */
static int configure(struct sqlite_db *db, struct errmsg *why)
{
    static const int options[][2] = {
        {SQLITE_DBCONFIG_ENABLE_TRIGGER, 0}, {SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0},
        {SQLITE_DBCONFIG_ENABLE_FKEY, 0},    {SQLITE_DBCONFIG_DEFENSIVE, 1},
        {SQLITE_DBCONFIG_DQS_DML, 0},        {SQLITE_DBCONFIG_DQS_DDL, 0},
    };
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
        (void)sqlite3_db_config(db->handle, options[i][0], options[i][1], NULL);
    (void)sqlite3_limit(db->handle, SQLITE_LIMIT_LENGTH, LENGTH_MAX);
    char settings[512];
    (void)snprintf(settings, sizeof(settings),
                   "PRAGMA page_size=%d; PRAGMA cache_size=-%d; PRAGMA temp_store=MEMORY;"
                   "PRAGMA mmap_size=0; PRAGMA secure_delete=OFF; PRAGMA cell_size_check=ON;"
                   "PRAGMA wal_autocheckpoint=0; PRAGMA journal_size_limit=%d",
                   SQLITE_PAGE_BYTES, CACHE_KIB, WAL_KEPT_BYTES);
    int error = set_mode(db, "PRAGMA locking_mode=EXCLUSIVE", "exclusive", why);
    if (error == 0)
        error = sqlite_db_execute(db, settings, "setting up", why);
    if (error == 0 && !db->is_audit)
        error = sqlite_db_set_level(db, DURABILITY_POWER, why);
    return error;
}

static int register_vfs(struct sqlite_db *db, struct errmsg *why)
{
    int error = db->is_audit ? sqlite_audit_vfs_register(&db->audit_vfs, why)
                             : sqlite_vfs_register(&db->vfs, &db->io, why);
    db->is_vfs_registered = error == 0;
    return error;
}

bool sqlite_db_has_moved(struct sqlite_db *db)
{
    int has_moved = 0;
    int code = sqlite3_file_control(db->handle, "main", SQLITE_FCNTL_HAS_MOVED, &has_moved);
    return code == SQLITE_OK && has_moved != 0;
}

static int take_lock(struct sqlite_db *db, struct errmsg *why)
{
    int64_t tables = 0;
    int error = 0;
    if (!db->is_audit)
        error = sqlite_db_execute(db, "BEGIN EXCLUSIVE", "locking", why);
    /* Who has made it has deleted it, having failed, before we had the lock. */
    if (error == 0 && sqlite_db_has_moved(db))
        error = sqlite_db_error(db, SQLITE_BUSY, "locking", why);
    if (error == 0)
        error = sqlite_db_get(db, "SELECT count(*) FROM sqlite_schema", &tables, why);
    db->is_empty = error == 0 && tables == 0;
    db->is_made_here = db->is_empty && db->found == SQLITE_LOOK_ABSENT;
    return error;
}

static int open_once(struct sqlite_db *db, bool may_create, struct errmsg *why)
{
    int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE |
                (db->is_audit ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE) |
                (may_create ? SQLITE_OPEN_CREATE : 0);
    int error = register_vfs(db, why);
    if (error != 0)
        return error;
    const char *vfs = db->is_audit ? db->audit_vfs.name : db->vfs.name;
    /* A full path begins with a slash, so that it is no URI and has no special meaning. */
    int code = sqlite3_open_v2(db->full, &db->handle, flags, vfs);
    if (code != SQLITE_OK)
        error = sqlite_db_error(db, code, "opening", why);
    /* What may not be written is opened for reading all the same, and then cannot be locked. */
    else if (!db->is_audit && sqlite3_db_readonly(db->handle, "main") != 0)
        error = sqlite_db_error(db, SQLITE_READONLY, "opening", why);
    if (error == 0)
        sqlite_db_trust(db, false);
    if (error == 0)
        error = configure(db, why);
    if (error == 0)
        error = take_lock(db, why);
    return error;
}

int sqlite_db_open(struct sqlite_db *db, const char *path, bool is_audit, bool may_create,
                   struct errmsg *why)
{
    *db = (struct sqlite_db){.is_audit = is_audit};
    (void)snprintf(db->path, sizeof(db->path), "%s", path);
    for (unsigned tries = 1;; tries++) {
        int error = sqlite_look(path, db->full, &db->found, why);
        if (error == 0 && db->found == SQLITE_LOOK_ABSENT && !may_create)
            error = errmsg_set(why, -ENOENT, SQLITE_PATH_SHOWN ": %s", path, strerror(ENOENT));
        if (error == 0 && db->found == SQLITE_LOOK_EMPTY && !may_create)
            error = errmsg_set(why, -ENOENT, SQLITE_PATH_SHOWN " is empty", path);
        if (error == 0)
            error = open_once(db, may_create, why);
        if (error == 0)
            return 0;
        if (error != -EBUSY)
            sqlite_db_undo_create(db);
        sqlite_db_close(db);
        if (error != -EBUSY || tries == BUSY_TRIES_MAX)
            return error;
        const struct timespec pause = {.tv_nsec = BUSY_WAIT_MS * tries * (long)NS_PER_MS};
        (void)nanosleep(&pause, NULL); /* a signal ends it early: the sooner it is tried again */
    }
}

void sqlite_db_close(struct sqlite_db *db)
{
    int code = sqlite3_close(db->handle);
    assert(code == SQLITE_OK); /* all statements are finalized */
    (void)code;
    db->handle = NULL;
    if (!db->is_vfs_registered)
        return;
    if (db->is_audit)
        sqlite_audit_vfs_unregister(&db->audit_vfs);
    else
        sqlite_vfs_unregister(&db->vfs);
    db->is_vfs_registered = false;
}

static int delete_file(struct sqlite_db *db, const char *ending)
{
    char name[SQLITE_PATH_BYTES + 16];
    (void)snprintf(name, sizeof(name), "%s%s", db->full, ending);
    sqlite3_vfs *vfs = &db->vfs.vfs;
    /* "Exists" is not said of an empty file, and deleting what is not there is no error. */
    int code = vfs->xDelete(vfs, name, 1);
    return code == SQLITE_IOERR_DELETE_NOENT ? SQLITE_OK : code;
}

/* Whether the file is of size 0, and locked by us. */
static bool is_ours_and_empty(struct sqlite_db *db)
{
    static const int levels[] = {SQLITE_LOCK_SHARED, SQLITE_LOCK_RESERVED, SQLITE_LOCK_EXCLUSIVE};
    sqlite3_file *file = NULL;
    sqlite3_int64 bytes = 0;
    int code = sqlite3_file_control(db->handle, "main", SQLITE_FCNTL_FILE_POINTER, &file);
    if (code != SQLITE_OK || file == NULL || file->pMethods == NULL)
        return false;
    for (unsigned i = 0; i < sizeof(levels) / sizeof(levels[0]) && code == SQLITE_OK; i++)
        code = file->pMethods->xLock(file, levels[i]);
    return code == SQLITE_OK && file->pMethods->xFileSize(file, &bytes) == SQLITE_OK && bytes == 0;
}

void sqlite_db_undo_create(struct sqlite_db *db)
{
    if (db->handle == NULL || db->is_audit)
        return;
    if (!db->is_made_here && (db->found == SQLITE_LOOK_OURS || !is_ours_and_empty(db)))
        return;
    sqlite_db_trust(db, false);
    /* What cannot be deleted stays: an empty store, which the next process takes for a new one. */
    (void)delete_file(db, "-wal");
    if (db->found == SQLITE_LOOK_ABSENT)
        (void)delete_file(db, "");
    (void)delete_file(db, "-journal");
}

int sqlite_db_drop_journal(struct sqlite_db *db, struct errmsg *why)
{
    int code = delete_file(db, "-journal");
    return code == SQLITE_OK ? 0 : sqlite_db_error(db, code, "deleting its journal", why);
}
