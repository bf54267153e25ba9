/*
 * fault_vfs and its disk: what a power cut may and may not do to bytes and names, that each fault
 * comes out of SQLite as the error it stands for and leaves a sound database, locks, and damage.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/fault_vfs.h"
#include "tests/lib/scratch.h"

enum {
    SEEDS = 300,
    WRITE_AT = 700, /* not on a sector's boundary */
    WRITE_BYTES = 2000,
    SYNCED_BYTES = 4096,
};

static const char path[] = "/disk/fault.db";
static const char wal_path[] = "/disk/fault.db-wal";

static int install(void **state)
{
    *state = fault_vfs_install();
    return *state != NULL ? 0 : -1;
}

static int uninstall(void **state)
{
    fault_vfs_uninstall(*state);
    return 0;
}

static int reset(void **state)
{
    fault_vfs_reset(*state, 1);
    return 0;
}

/* --- files without SQLite's pager --- */

static sqlite3_file *file_open(const char *name, int kind)
{
    sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
    sqlite3_file *file = calloc(1, (size_t)vfs->szOsFile);
    assert_non_null(file);
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | kind;
    assert_int_equal(vfs->xOpen(vfs, name, file, flags, NULL), SQLITE_OK);
    return file;
}

static void file_close(sqlite3_file *file)
{
    assert_int_equal(file->pMethods->xClose(file), SQLITE_OK);
    free(file);
}

static int file_write(sqlite3_file *file, int byte, int size, int offset)
{
    char bytes[SYNCED_BYTES];
    memset(bytes, byte, sizeof(bytes));
    return file->pMethods->xWrite(file, bytes, size, offset);
}

static int file_sync(sqlite3_file *file)
{
    return file->pMethods->xSync(file, SQLITE_SYNC_NORMAL);
}

static int file_delete(const char *name, int sync_folder)
{
    sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
    return vfs->xDelete(vfs, name, sync_folder);
}

static bool exists(struct fault_vfs *vfs, const char *name)
{
    uint64_t size;
    return fault_vfs_size(vfs, name, &size) == 0;
}

static void cut_and_close(struct fault_vfs *vfs, uint64_t seed, sqlite3_file *file)
{
    fault_vfs_power_cut(vfs, seed);
    file_close(file);
    fault_vfs_power_on(vfs);
}

/* --- what a power cut does --- */

static void a_write_is_kept_lost_or_torn_within_itself(void **state)
{
    struct fault_vfs *vfs = *state;
    unsigned kept = 0;
    unsigned lost = 0;
    unsigned torn = 0;
    unsigned garbled = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        unsigned char bytes[SYNCED_BYTES];
        size_t fresh = 0;
        size_t old = 0;
        fault_vfs_reset(vfs, 1);
        sqlite3_file *file = file_open(path, SQLITE_OPEN_MAIN_DB);
        assert_int_equal(file_write(file, 'o', SYNCED_BYTES, 0), SQLITE_OK);
        assert_int_equal(file_sync(file), SQLITE_OK);
        assert_int_equal(file_write(file, 'n', WRITE_BYTES, WRITE_AT), SQLITE_OK);
        cut_and_close(vfs, seed, file);
        assert_int_equal(fault_vfs_peek(vfs, path, 0, bytes, sizeof(bytes)), 0);
        for (size_t i = 0; i < SYNCED_BYTES; i++) {
            if (i < WRITE_AT || i >= WRITE_AT + WRITE_BYTES)
                assert_int_equal(bytes[i], 'o');
            else if (bytes[i] == 'o')
                old++;
            else if (bytes[i] == 'n')
                fresh++;
        }
        kept += fresh == WRITE_BYTES;
        lost += old == WRITE_BYTES;
        torn += fresh > 0 && old > 0 && fresh + old == WRITE_BYTES;
        garbled += fresh + old < WRITE_BYTES;
    }
    assert_true(kept > SEEDS / 10);
    assert_true(lost > SEEDS / 10);
    assert_true(torn > SEEDS / 20);
    assert_true(garbled > SEEDS / 20);
}

/* Two writes and two sizes a seed; all four ends of the pair of writes must turn up. */
static void later_changes_may_survive_earlier_ones(void **state)
{
    struct fault_vfs *vfs = *state;
    unsigned seen[4] = {0};
    bool size_seen[3] = {false};   /* as synced, truncated, written */
    bool is_grown_by_loss = false; /* longer by a write whose bytes did not come */
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        unsigned char first = 0;
        unsigned char second = 0;
        uint64_t size = 0;
        fault_vfs_reset(vfs, 1);
        sqlite3_file *file = file_open(path, SQLITE_OPEN_MAIN_DB);
        assert_int_equal(file_write(file, 'o', SYNCED_BYTES, 0), SQLITE_OK);
        assert_int_equal(file_sync(file), SQLITE_OK);
        assert_int_equal(file_write(file, 'n', 512, 0), SQLITE_OK);
        assert_int_equal(file_write(file, 'n', 512, 512), SQLITE_OK);
        assert_int_equal(file->pMethods->xTruncate(file, 1024), SQLITE_OK);
        assert_int_equal(file_write(file, 'n', 512, 8192), SQLITE_OK);
        cut_and_close(vfs, seed, file);
        assert_int_equal(fault_vfs_peek(vfs, path, 0, &first, 1), 0);
        assert_int_equal(fault_vfs_peek(vfs, path, 512, &second, 1), 0);
        assert_int_equal(fault_vfs_size(vfs, path, &size), 0);
        seen[(first == 'n' ? 1 : 0) + (second == 'n' ? 2 : 0)]++;
        assert_true(size == SYNCED_BYTES || size == 1024 || size == 8192 + 512);
        size_seen[size == SYNCED_BYTES ? 0 : size == 1024 ? 1 : 2] = true;
        if (fault_vfs_peek(vfs, path, 8192 + 511, &first, 1) == 0 && first == 0)
            is_grown_by_loss = true;
    }
    for (size_t i = 0; i < 4; i++)
        assert_true(seen[i] > SEEDS / 50);
    assert_true(size_seen[0] && size_seen[1] && size_seen[2] && is_grown_by_loss);
}

/* A name's change, and how often a file is there after it and a power cut. */
static unsigned count_survivors(struct fault_vfs *vfs, bool is_synced, bool is_deleted,
                                bool syncs_folder)
{
    unsigned count = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        fault_vfs_reset(vfs, 1);
        sqlite3_file *file = file_open(path, SQLITE_OPEN_MAIN_DB);
        assert_int_equal(file_write(file, 'o', 1, 0), SQLITE_OK);
        if (is_synced)
            assert_int_equal(file_sync(file), SQLITE_OK);
        if (is_deleted) {
            assert_int_equal(file_delete(path, syncs_folder), SQLITE_OK);
            assert_false(exists(vfs, path));
        }
        cut_and_close(vfs, seed, file);
        count += exists(vfs, path);
    }
    return count;
}

static void names_survive_as_synced(void **state)
{
    unsigned made = count_survivors(*state, false, false, false);
    unsigned deleted = count_survivors(*state, true, true, false);
    assert_true(made > SEEDS / 3 && made < SEEDS * 2 / 3);
    assert_true(deleted > SEEDS / 3 && deleted < SEEDS * 2 / 3);
    assert_int_equal(count_survivors(*state, true, false, false), SEEDS);
    assert_int_equal(count_survivors(*state, true, true, true), 0);
}

static void a_journal_syncs_its_folder_once(void **state)
{
    struct fault_vfs *vfs = *state;
    for (uint64_t seed = 1; seed <= SEEDS / 10; seed++) {
        fault_vfs_reset(vfs, 1);
        sqlite3_file *main = file_open(path, SQLITE_OPEN_MAIN_DB);
        sqlite3_file *other = file_open("/disk/other", SQLITE_OPEN_MAIN_DB);
        assert_int_equal(file_sync(other), SQLITE_OK);
        file_close(other);
        assert_int_equal(file_delete("/disk/other", 0), SQLITE_OK);
        sqlite3_file *wal = file_open(wal_path, SQLITE_OPEN_WAL);
        assert_int_equal(file_sync(wal), SQLITE_OK);
        fault_vfs_power_cut(vfs, seed);
        file_close(main);
        file_close(wal);
        assert_true(exists(vfs, path));
        assert_false(exists(vfs, "/disk/other"));
    }
}

static void a_failed_sync_may_lose_what_it_had_to_write(void **state)
{
    struct fault_vfs *vfs = *state;
    for (uint64_t seed = 1; seed <= SEEDS / 10; seed++) {
        unsigned char byte = 0;
        fault_vfs_reset(vfs, 1);
        sqlite3_file *file = file_open(path, SQLITE_OPEN_MAIN_DB);
        assert_int_equal(file_write(file, 'o', 512, 0), SQLITE_OK);
        assert_int_equal(file_sync(file), SQLITE_OK);
        fault_vfs_set(vfs,
                      &(struct fault_rule){.calls = FAULT_SYNC, .at = 1, .loses_unsynced = true});
        assert_int_equal(file_write(file, 'n', 512, 0), SQLITE_OK);
        assert_int_equal(file_sync(file), SQLITE_IOERR_FSYNC);
        assert_int_equal(fault_vfs_peek(vfs, path, 0, &byte, 1), 0);
        assert_int_equal(byte, 'n'); /* still seen, and the next sync says that all is well */
        assert_int_equal(file_sync(file), SQLITE_OK);
        cut_and_close(vfs, seed, file);
        assert_int_equal(fault_vfs_peek(vfs, path, 0, &byte, 1), 0);
        assert_int_equal(byte, 'o');
    }
}

static void a_kill_keeps_every_write(void **state)
{
    struct fault_vfs *vfs = *state;
    unsigned char byte = 0;
    sqlite3_file *file = file_open(path, SQLITE_OPEN_MAIN_DB);
    assert_int_equal(file_write(file, 'n', 512, 0), SQLITE_OK);
    fault_vfs_kill(vfs);
    assert_true(fault_vfs_is_off(vfs));
    assert_int_equal(file_write(file, 'x', 512, 0), SQLITE_IOERR_WRITE);
    assert_int_equal(file_sync(file), SQLITE_IOERR_FSYNC);
    assert_int_equal(file_delete(path, 0), SQLITE_IOERR_DELETE);
    file_close(file);
    fault_vfs_power_on(vfs);
    assert_int_equal(fault_vfs_peek(vfs, path, 0, &byte, 1), 0);
    assert_int_equal(byte, 'n');
    assert_int_equal(fault_vfs_peek(vfs, path, 512, &byte, 1), -ERANGE);
    assert_int_equal(fault_vfs_peek(vfs, wal_path, 0, &byte, 1), -ENOENT);
}

/* --- rules --- */

static void rules_count_down(void **state)
{
    struct fault_vfs *vfs = *state;
    uint64_t size = 0;
    sqlite3_file *file = file_open(path, SQLITE_OPEN_MAIN_DB);
    sqlite3_file *wal = file_open(wal_path, SQLITE_OPEN_WAL);
    fault_vfs_set(vfs, &(struct fault_rule){.files = FAULT_MAIN, .calls = FAULT_WRITE, .at = 2});
    fault_vfs_set(vfs, &(struct fault_rule){.path = "-wal",
                                            .calls = FAULT_WRITE,
                                            .at = 2,
                                            .is_sticky = true,
                                            .is_partial = true,
                                            .effect = FAULT_FULL});
    assert_int_equal(file_write(file, 'a', 10, 0), SQLITE_OK);
    assert_int_equal(file_write(wal, 'a', 10, 0), SQLITE_OK);
    assert_int_equal(file_write(file, 'a', 10, 10), SQLITE_IOERR_WRITE);
    assert_int_equal(file_write(file, 'a', 10, 10), SQLITE_OK);
    assert_int_equal(file_write(wal, 'a', 100, 10), SQLITE_FULL);
    assert_int_equal(fault_vfs_size(vfs, wal_path, &size), 0);
    assert_true(size > 10 && size < 110);
    assert_int_equal(file_write(wal, 'a', 100, 10), SQLITE_FULL);
    assert_int_equal(fault_vfs_fault_count(vfs), 3);
    assert_int_equal(fault_vfs_count(vfs, FAULT_ANY_FILE, FAULT_WRITE), 6);
    assert_int_equal(fault_vfs_count(vfs, FAULT_WAL, FAULT_WRITE | FAULT_OPEN), 4);
    assert_int_equal(fault_vfs_written_bytes(vfs, FAULT_MAIN), 20);
    fault_vfs_clear_rules(vfs);
    assert_int_equal(file_write(wal, 'a', 100, 10), SQLITE_OK);
    file_close(file);
    file_close(wal);
}

/* --- faults below SQLite --- */

static int run(sqlite3 *db, const char *sql)
{
    return sqlite3_exec(db, sql, NULL, NULL, NULL);
}

static int open_database(sqlite3 **db)
{
    int code = sqlite3_open_v2(
        path, db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_EXRESCODE, NULL);
    if (code != SQLITE_OK)
        return code;
    return run(*db, "PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=WAL;"
                    "PRAGMA synchronous=FULL; PRAGMA wal_autocheckpoint=0");
}

static const char insert[] = "INSERT INTO t(payload) VALUES(randomblob(6000))";
static const char checkpoint[] = "PRAGMA wal_checkpoint(TRUNCATE)";

struct fault {
    struct fault_rule rule;
    const char *sql;
    int code;
};

static const struct fault faults[] = {
    {{.files = FAULT_WAL, .calls = FAULT_WRITE, .at = 1}, insert, SQLITE_IOERR_WRITE},
    {{.files = FAULT_WAL, .calls = FAULT_WRITE, .at = 3}, insert, SQLITE_IOERR_WRITE},
    {{.files = FAULT_WAL, .calls = FAULT_WRITE, .at = 1, .effect = FAULT_FULL},
     insert,
     SQLITE_FULL},
    {{.files = FAULT_WAL, .calls = FAULT_WRITE, .at = 2, .is_partial = true},
     insert,
     SQLITE_IOERR_WRITE},
    {{.calls = FAULT_WRITE, .at = 4, .is_partial = true, .effect = FAULT_FULL},
     insert,
     SQLITE_FULL},
    {{.files = FAULT_WAL, .calls = FAULT_SYNC, .at = 1}, insert, SQLITE_IOERR_FSYNC},
    {{.files = FAULT_WAL, .calls = FAULT_SYNC, .at = 1, .effect = FAULT_FULL},
     insert,
     SQLITE_IOERR_FSYNC},
    {{.calls = FAULT_SYNC, .at = 1, .loses_unsynced = true}, insert, SQLITE_IOERR_FSYNC},
    {{.files = FAULT_WAL, .calls = FAULT_READ, .at = 1}, checkpoint, SQLITE_IOERR_READ},
    {{.files = FAULT_MAIN, .calls = FAULT_WRITE, .at = 2}, checkpoint, SQLITE_IOERR_WRITE},
    {{.files = FAULT_MAIN, .calls = FAULT_WRITE, .at = 1, .effect = FAULT_FULL},
     checkpoint,
     SQLITE_FULL},
    {{.files = FAULT_MAIN, .calls = FAULT_SYNC, .at = 1}, checkpoint, SQLITE_IOERR_FSYNC},
    {{.files = FAULT_WAL, .calls = FAULT_TRUNCATE, .at = 1}, checkpoint, SQLITE_IOERR_TRUNCATE},
    {{.files = FAULT_JOURNAL, .calls = FAULT_OPEN, .at = 1},
     "PRAGMA journal_mode=DELETE; INSERT INTO t(payload) VALUES(1)",
     SQLITE_CANTOPEN},
    {{.files = FAULT_MAIN, .calls = FAULT_TRUNCATE, .at = 1},
     "PRAGMA journal_mode=DELETE; DELETE FROM t; VACUUM",
     SQLITE_IOERR_TRUNCATE},
};

static uint64_t row_count(sqlite3 *db)
{
    sqlite3_stmt *query = NULL;
    assert_int_equal(sqlite3_prepare_v2(db, "SELECT count(*) FROM t", -1, &query, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(query), SQLITE_ROW);
    uint64_t count = (uint64_t)sqlite3_column_int64(query, 0);
    assert_int_equal(sqlite3_finalize(query), SQLITE_OK);
    return count;
}

static void assert_intact(sqlite3 *db)
{
    sqlite3_stmt *query = NULL;
    assert_int_equal(sqlite3_prepare_v2(db, "PRAGMA integrity_check", -1, &query, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(query), SQLITE_ROW);
    assert_string_equal(sqlite3_column_text(query, 0), "ok");
    assert_int_equal(sqlite3_finalize(query), SQLITE_OK);
}

static void each_fault_is_told_and_survived(void **state)
{
    struct fault_vfs *vfs = *state;
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        const struct fault *fault = &faults[i];
        sqlite3 *db = NULL;
        fault_vfs_reset(vfs, 1);
        assert_int_equal(open_database(&db), SQLITE_OK);
        assert_int_equal(run(db, "CREATE TABLE t(id INTEGER PRIMARY KEY, payload)"), SQLITE_OK);
        assert_int_equal(run(db, insert), SQLITE_OK);
        fault_vfs_set(vfs, &fault->rule);
        int code = run(db, fault->sql);
        if (code != fault->code || sqlite3_extended_errcode(db) != fault->code)
            fail_msg("fault %zu: SQLite says %d: %s", i, code, sqlite3_errmsg(db));
        assert_int_equal(fault_vfs_fault_count(vfs), 1);

        /* What was committed before is there, and the next insertion works. */
        fault_vfs_power_cut(vfs, i);
        assert_int_equal(sqlite3_close(db), SQLITE_OK);
        fault_vfs_power_on(vfs);
        assert_int_equal(open_database(&db), SQLITE_OK);
        assert_intact(db);
        uint64_t count = row_count(db);
        if (strstr(fault->sql, "DELETE FROM") == NULL)
            assert_in_range(count, 1, 2); /* a commit that failed may have happened */
        assert_int_equal(run(db, insert), SQLITE_OK);
        assert_int_equal(row_count(db), count + 1);
        assert_int_equal(sqlite3_close(db), SQLITE_OK);
    }
}

static void opening_and_reading_fail_to_order(void **state)
{
    struct fault_vfs *vfs = *state;
    sqlite3 *db = NULL;
    fault_vfs_set(vfs, &(struct fault_rule){.calls = FAULT_OPEN, .at = 1});
    assert_int_equal(open_database(&db), SQLITE_CANTOPEN);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    assert_int_equal(open_database(&db), SQLITE_OK);
    assert_int_equal(run(db, "CREATE TABLE t(id INTEGER PRIMARY KEY, payload)"), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    assert_false(exists(vfs, wal_path)); /* its last connection deletes it */
    fault_vfs_set(vfs, &(struct fault_rule){.files = FAULT_MAIN, .calls = FAULT_READ, .at = 2});
    assert_int_equal(open_database(&db), SQLITE_IOERR_READ);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

/* --- locks --- */

static void one_connection_at_a_time(void **state)
{
    struct fault_vfs *vfs = *state;
    sqlite3 *first = NULL;
    sqlite3 *second = NULL;
    assert_int_equal(open_database(&first), SQLITE_OK);
    assert_int_equal(run(first, "CREATE TABLE t(id INTEGER PRIMARY KEY, payload)"), SQLITE_OK);
    assert_int_equal(open_database(&second), SQLITE_BUSY);
    assert_int_equal(sqlite3_close(first), SQLITE_OK);
    assert_int_equal(run(second, insert), SQLITE_OK);
    fault_vfs_kill(vfs); /* its lock dies with it, and its WAL stays */
    assert_int_equal(open_database(&first), SQLITE_CANTOPEN);
    assert_int_equal(sqlite3_close(first), SQLITE_OK);
    assert_int_equal(sqlite3_close(second), SQLITE_OK);
    fault_vfs_power_on(vfs);
    assert_true(exists(vfs, wal_path));
    assert_int_equal(open_database(&first), SQLITE_OK);
    assert_int_equal(row_count(first), 1);
    assert_int_equal(sqlite3_close(first), SQLITE_OK);
}

static void locks_are_a_ladder(void **state)
{
    (void)state;
    sqlite3_file *files[3];
    for (size_t i = 0; i < 3; i++) {
        files[i] = file_open(path, SQLITE_OPEN_MAIN_DB);
        if (i < 2)
            assert_int_equal(files[i]->pMethods->xLock(files[i], SQLITE_LOCK_SHARED), SQLITE_OK);
    }
    const sqlite3_io_methods *methods = files[0]->pMethods;
    int is_reserved = 1;
    assert_int_equal(methods->xCheckReservedLock(files[1], &is_reserved), SQLITE_OK);
    assert_false(is_reserved);
    assert_int_equal(methods->xLock(files[0], SQLITE_LOCK_RESERVED), SQLITE_OK);
    assert_int_equal(methods->xLock(files[1], SQLITE_LOCK_RESERVED), SQLITE_BUSY);
    assert_int_equal(methods->xCheckReservedLock(files[1], &is_reserved), SQLITE_OK);
    assert_true(is_reserved);
    assert_int_equal(methods->xLock(files[0], SQLITE_LOCK_EXCLUSIVE), SQLITE_BUSY);
    assert_int_equal(methods->xLock(files[2], SQLITE_LOCK_SHARED), SQLITE_BUSY); /* pending */
    assert_int_equal(methods->xUnlock(files[1], SQLITE_LOCK_NONE), SQLITE_OK);
    assert_int_equal(methods->xLock(files[0], SQLITE_LOCK_EXCLUSIVE), SQLITE_OK);
    assert_int_equal(methods->xUnlock(files[0], SQLITE_LOCK_SHARED), SQLITE_OK);
    assert_int_equal(methods->xLock(files[2], SQLITE_LOCK_SHARED), SQLITE_OK);
    for (size_t i = 0; i < 3; i++)
        file_close(files[i]);
}

/* --- damage, copies, threads --- */

static void damage_is_seen(void **state)
{
    struct fault_vfs *vfs = *state;
    sqlite3 *db = NULL;
    uint64_t size = 0;
    assert_int_equal(open_database(&db), SQLITE_OK);
    assert_int_equal(run(db, "CREATE TABLE t(id INTEGER PRIMARY KEY, payload)"), SQLITE_OK);
    assert_int_equal(run(db, insert), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    assert_int_equal(fault_vfs_size(vfs, path, &size), 0);
    uint64_t digest = fault_vfs_digest(vfs);
    assert_int_equal(fault_vfs_flip(vfs, path, 3), 0);
    assert_int_not_equal(fault_vfs_digest(vfs), digest);
    assert_int_not_equal(open_database(&db), SQLITE_OK); /* no database by its first bytes */
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    assert_int_equal(fault_vfs_flip(vfs, path, 3), 0);
    assert_int_equal(fault_vfs_digest(vfs), digest);

    assert_int_equal(fault_vfs_resize(vfs, path, size - 4096), 0);
    assert_int_equal(open_database(&db), SQLITE_CORRUPT);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    assert_int_equal(fault_vfs_flip(vfs, path, size), -ERANGE);
    assert_int_equal(fault_vfs_flip(vfs, "/disk/none", 0), -ENOENT);
    assert_int_equal(fault_vfs_resize(vfs, "/disk/none", 0), -ENOENT);
}

static void files_are_copied_out_and_in(void **state)
{
    struct fault_vfs *vfs = *state;
    struct scratch scratch;
    char real_path[128];
    sqlite3 *db = NULL;
    assert_int_equal(scratch_make(&scratch, "fault-vfs"), 0);
    (void)snprintf(real_path, sizeof(real_path), "%s/copy.db", scratch.path);
    assert_int_equal(open_database(&db), SQLITE_OK);
    assert_int_equal(run(db, "CREATE TABLE t(id INTEGER PRIMARY KEY, payload)"), SQLITE_OK);
    assert_int_equal(run(db, insert), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    assert_int_equal(fault_vfs_copy_out(vfs, path, real_path), 0);
    assert_int_equal(fault_vfs_copy_out(vfs, wal_path, real_path), -ENOENT);

    assert_int_equal(sqlite3_open_v2(real_path, &db, SQLITE_OPEN_READWRITE, "unix"), SQLITE_OK);
    assert_int_equal(row_count(db), 1);
    assert_int_equal(run(db, insert), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);

    assert_int_equal(fault_vfs_copy_in(vfs, real_path, path), 0);
    fault_vfs_power_cut(vfs, 1); /* what was copied in is durable */
    fault_vfs_power_on(vfs);
    assert_int_equal(open_database(&db), SQLITE_OK);
    assert_int_equal(row_count(db), 2);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    assert_int_equal(scratch_remove(&scratch), 0);
    assert_int_equal(fault_vfs_copy_in(vfs, real_path, path), -ENOENT);
}

static void *insert_rows(void *arg)
{
    const char *name = arg;
    sqlite3 *db = NULL;
    bool works = sqlite3_open(name, &db) == SQLITE_OK &&
                 run(db, "PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=WAL;"
                         "CREATE TABLE t(id INTEGER PRIMARY KEY, payload)") == SQLITE_OK;
    for (unsigned i = 0; works && i < 100; i++)
        works = run(db, insert) == SQLITE_OK;
    return sqlite3_close(db) == SQLITE_OK && works ? arg : NULL;
}

static void threads_share_the_disk(void **state)
{
    static const char *const names[] = {"/disk/a.db", "/disk/b.db"};
    pthread_t threads[2];
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, insert_rows, (void *)names[i]), 0);
    for (size_t i = 0; i < 2; i++) {
        void *result = NULL;
        uint64_t size = 0;
        assert_int_equal(pthread_join(threads[i], &result), 0);
        assert_ptr_equal(result, names[i]);
        assert_int_equal(fault_vfs_size(*state, names[i], &size), 0);
        assert_true(size > 600000);
    }
}

static void uninstalling_brings_the_default_back(void **state)
{
    (void)state;
    const sqlite3_vfs *before = sqlite3_vfs_find(NULL);
    struct fault_vfs *vfs = fault_vfs_install();
    assert_non_null(vfs);
    assert_ptr_not_equal(sqlite3_vfs_find(NULL), before);
    fault_vfs_uninstall(vfs);
    assert_ptr_equal(sqlite3_vfs_find(NULL), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_write_is_kept_lost_or_torn_within_itself, reset),
        cmocka_unit_test_setup(later_changes_may_survive_earlier_ones, reset),
        cmocka_unit_test_setup(names_survive_as_synced, reset),
        cmocka_unit_test_setup(a_journal_syncs_its_folder_once, reset),
        cmocka_unit_test_setup(a_failed_sync_may_lose_what_it_had_to_write, reset),
        cmocka_unit_test_setup(a_kill_keeps_every_write, reset),
        cmocka_unit_test_setup(rules_count_down, reset),
        cmocka_unit_test_setup(each_fault_is_told_and_survived, reset),
        cmocka_unit_test_setup(opening_and_reading_fail_to_order, reset),
        cmocka_unit_test_setup(one_connection_at_a_time, reset),
        cmocka_unit_test_setup(locks_are_a_ladder, reset),
        cmocka_unit_test_setup(damage_is_seen, reset),
        cmocka_unit_test_setup(files_are_copied_out_and_in, reset),
        cmocka_unit_test_setup(threads_share_the_disk, reset),
        cmocka_unit_test_setup(uninstalling_brings_the_default_back, reset),
    };
    return cmocka_run_group_tests(tests, install, uninstall);
}
