/*
 * sqlite_vfs: what it counts is what the VFS below it was asked, whatever that is; shared memory
 * and mappings pass through it; what failed is remembered; and it is gone afterwards.
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

#include "engine/base/clock.h"
#include "journal/sqlite_db.h"
#include "tests/lib/fault_vfs.h"
#include "tests/lib/scratch.h"

static const char fault_path[] = "/disk/counted.db";

static int run(sqlite3 *db, const char *sql)
{
    return sqlite3_exec(db, sql, NULL, NULL, NULL);
}

static sqlite3 *open_through(const struct sqlite_vfs *vfs, const char *path, const char *pragmas)
{
    sqlite3 *db = NULL;
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_EXRESCODE;
    assert_int_equal(sqlite3_open_v2(path, &db, flags, vfs->name), SQLITE_OK);
    assert_int_equal(run(db, pragmas), SQLITE_OK);
    return db;
}

static int64_t ask(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *query = NULL;
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &query, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(query), SQLITE_ROW);
    int64_t number = sqlite3_column_int64(query, 0);
    assert_int_equal(sqlite3_finalize(query), SQLITE_OK);
    return number;
}

static const char exclusive[] =
    "PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;"
    "PRAGMA wal_autocheckpoint=0";
static const char work[] = "CREATE TABLE t(id INTEGER PRIMARY KEY, payload);"
                           "INSERT INTO t(payload) VALUES(randomblob(20000));"
                           "INSERT INTO t(payload) VALUES(randomblob(20000));"
                           "PRAGMA wal_checkpoint(TRUNCATE);"
                           "INSERT INTO t(payload) VALUES(randomblob(20000));";

/* --- over the VFS that counts, too --- */

struct fixture {
    struct fault_vfs *fault;
    struct sqlite_vfs vfs;
    struct sqlite_io io;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    *state = f;
    if (f == NULL)
        return -1;
    f->fault = fault_vfs_install();
    return f->fault != NULL ? sqlite_vfs_register(&f->vfs, &f->io, NULL) : -1;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    sqlite_vfs_unregister(&f->vfs);
    fault_vfs_uninstall(f->fault);
    free(f);
    return 0;
}

static void expect_counts(struct fixture *f, enum sqlite_file_kind kind, unsigned files)
{
    const struct sqlite_io_counts *counts = &f->io.counts[kind];
    uint64_t writes = fault_vfs_count(f->fault, files, FAULT_WRITE);
    assert_true(writes > 0);
    assert_int_equal(counts->writes_count, writes);
    assert_int_equal(counts->written_bytes, fault_vfs_written_bytes(f->fault, files));
    assert_int_equal(counts->syncs_count, fault_vfs_count(f->fault, files, FAULT_SYNC));
    assert_true(counts->syncs_count > 0);
}

static void counts_are_those_of_the_vfs_below(void **state)
{
    struct fixture *f = *state;
    sqlite3 *db = open_through(&f->vfs, fault_path, exclusive);
    assert_int_equal(run(db, work), SQLITE_OK);
    assert_int_equal(ask(db, "SELECT count(*) FROM t"), 3);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    expect_counts(f, SQLITE_FILE_MAIN, FAULT_MAIN);
    expect_counts(f, SQLITE_FILE_WAL, FAULT_WAL);
    expect_counts(f, SQLITE_FILE_OTHER, FAULT_JOURNAL | FAULT_TEMPORARY);
    assert_true(f->io.counts[SQLITE_FILE_WAL].written_bytes > 60000);
    assert_null(f->io.failure.call);
}

static void a_failure_is_remembered(void **state)
{
    static const struct {
        struct fault_rule rule;
        struct sqlite_io_failure failure;
        const char *sql;
    } cases[] = {
        {{.files = FAULT_WAL, .calls = FAULT_SYNC, .at = 1},
         {"sync", SQLITE_FILE_WAL, SQLITE_IOERR_FSYNC, EIO},
         "INSERT INTO t(payload) VALUES(1)"},
        {{.files = FAULT_WAL, .calls = FAULT_SYNC, .at = 1, .effect = FAULT_FULL},
         {"sync", SQLITE_FILE_WAL, SQLITE_IOERR_FSYNC, ENOSPC},
         "INSERT INTO t(payload) VALUES(1)"},
        {{.files = FAULT_WAL, .calls = FAULT_WRITE, .at = 1, .effect = FAULT_FULL},
         {"write", SQLITE_FILE_WAL, SQLITE_FULL, 0},
         "INSERT INTO t(payload) VALUES(1)"},
        {{.files = FAULT_MAIN, .calls = FAULT_WRITE, .at = 1},
         {"write", SQLITE_FILE_MAIN, SQLITE_IOERR_WRITE, EIO},
         "PRAGMA wal_checkpoint"},
        {{.files = FAULT_WAL, .calls = FAULT_READ, .at = 1},
         {"read", SQLITE_FILE_WAL, SQLITE_IOERR_READ, EIO},
         "PRAGMA wal_checkpoint"},
        {{.files = FAULT_WAL, .calls = FAULT_TRUNCATE, .at = 1},
         {"truncate", SQLITE_FILE_WAL, SQLITE_IOERR_TRUNCATE, EIO},
         "PRAGMA wal_checkpoint(TRUNCATE)"},
    };
    struct fixture *f = *state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        fault_vfs_reset(f->fault, 1);
        sqlite3 *db = open_through(&f->vfs, fault_path, exclusive);
        assert_int_equal(run(db, work), SQLITE_OK);
        memset(&f->io, 0, sizeof(f->io));
        fault_vfs_set(f->fault, &cases[i].rule);
        assert_int_equal(run(db, cases[i].sql), cases[i].failure.code);
        assert_string_equal(f->io.failure.call, cases[i].failure.call);
        assert_int_equal(f->io.failure.kind, cases[i].failure.kind);
        assert_int_equal(f->io.failure.code, cases[i].failure.code);
        assert_int_equal(f->io.failure.system, cases[i].failure.system);
        assert_int_equal(sqlite3_close(db), SQLITE_OK);
    }
    assert_string_equal(sqlite_file_kind_name(SQLITE_FILE_WAL), "WAL");
}

static void a_failed_write_has_no_bytes(void **state)
{
    struct fixture *f = *state;
    sqlite3 *db = open_through(&f->vfs, fault_path, exclusive);
    assert_int_equal(run(db, work), SQLITE_OK);
    uint64_t writes = f->io.counts[SQLITE_FILE_WAL].writes_count;
    uint64_t bytes = f->io.counts[SQLITE_FILE_WAL].written_bytes;
    fault_vfs_set(f->fault,
                  &(struct fault_rule){.files = FAULT_WAL, .calls = FAULT_WRITE, .at = 1});
    assert_int_equal(run(db, "INSERT INTO t(payload) VALUES(1)"), SQLITE_IOERR_WRITE);
    assert_int_equal(f->io.counts[SQLITE_FILE_WAL].writes_count, writes + 1);
    assert_int_equal(f->io.counts[SQLITE_FILE_WAL].written_bytes, bytes);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void opening_is_as_below(void **state)
{
    struct fixture *f = *state;
    sqlite3 *db = NULL;
    sqlite3_file *file = NULL;
    assert_int_equal(sqlite3_open_v2(fault_path, &db, SQLITE_OPEN_READWRITE, f->vfs.name),
                     SQLITE_CANTOPEN);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    /* Without shared memory and mappings below, SQLite must not try them. */
    db = open_through(&f->vfs, fault_path, "PRAGMA mmap_size=1000000; PRAGMA journal_mode=WAL");
    assert_int_equal(sqlite3_file_control(db, "main", SQLITE_FCNTL_FILE_POINTER, &file), 0);
    assert_int_equal(file->pMethods->iVersion, 1);
    assert_int_equal(run(db, work), SQLITE_OK);
    assert_int_equal(f->io.counts[SQLITE_FILE_WAL].writes_count, 0);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void it_is_one_of_several_and_never_the_default(void **state)
{
    struct fixture *f = *state;
    struct sqlite_io io = {0};
    struct sqlite_vfs other;
    char name[sizeof(other.name)];
    const sqlite3_vfs *before = sqlite3_vfs_find(NULL);
    assert_int_equal(sqlite_vfs_register(&other, &io, NULL), 0);
    assert_ptr_equal(sqlite3_vfs_find(NULL), before);
    assert_ptr_equal(sqlite3_vfs_find(other.name), &other.vfs);
    assert_ptr_equal(sqlite3_vfs_find(f->vfs.name), &f->vfs.vfs);
    sqlite3 *db = open_through(&other, fault_path, exclusive);
    assert_int_equal(run(db, work), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    assert_true(io.counts[SQLITE_FILE_WAL].writes_count > 0);
    assert_int_equal(f->io.counts[SQLITE_FILE_WAL].writes_count, 0);
    (void)snprintf(name, sizeof(name), "%s", other.name);
    sqlite_vfs_unregister(&other);
    assert_null(sqlite3_vfs_find(name));
    assert_ptr_equal(sqlite3_vfs_find(NULL), before);
}

/* --- over the system's files --- */

static void *watch(void *arg)
{
    const struct sqlite_io_counts *counts = arg;
    uint64_t before = 0;
    while (before < 200) {
        uint64_t now = atomic_load_explicit(&counts->syncs_count, memory_order_relaxed);
        if (now < before)
            return NULL;
        before = now;
    }
    return arg;
}

static void another_thread_reads_while_it_counts(void **state)
{
    (void)state;
    struct sqlite_io io = {0};
    struct sqlite_vfs vfs;
    struct scratch scratch;
    char path[128];
    pthread_t thread;
    void *result = NULL;
    assert_int_equal(scratch_make(&scratch, "sqlite-vfs"), 0);
    (void)snprintf(path, sizeof(path), "%s/real.db", scratch.path);
    assert_int_equal(sqlite_vfs_register(&vfs, &io, NULL), 0);
    assert_int_equal(pthread_create(&thread, NULL, watch, &io.counts[SQLITE_FILE_WAL]), 0);
    uint64_t start_ns = clock_monotonic_ns();
    sqlite3 *db = open_through(&vfs, path, exclusive);
    assert_int_equal(run(db, work), SQLITE_OK);
    for (unsigned i = 0; i < 200; i++)
        assert_int_equal(run(db, "INSERT INTO t(payload) VALUES(1)"), SQLITE_OK);
    uint64_t elapsed_ns = clock_monotonic_ns() - start_ns;
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_non_null(result);
    assert_in_range(io.counts[SQLITE_FILE_WAL].sync_ns, 1, elapsed_ns);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    sqlite_vfs_unregister(&vfs);
    assert_int_equal(scratch_remove(&scratch), 0);
}

static void shared_memory_and_mappings_pass_through(void **state)
{
    (void)state;
    struct sqlite_io io[2] = {0};
    struct sqlite_vfs vfs[2];
    sqlite3 *db[2];
    struct scratch scratch;
    char path[128];
    assert_int_equal(scratch_make(&scratch, "sqlite-vfs"), 0);
    (void)snprintf(path, sizeof(path), "%s/shared.db", scratch.path);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(sqlite_vfs_register(&vfs[i], &io[i], NULL), 0);
        db[i] = open_through(&vfs[i], path, "PRAGMA journal_mode=WAL; PRAGMA mmap_size=1000000");
        assert_int_equal(ask(db[i], "PRAGMA mmap_size"), 1000000);
    }
    assert_int_equal(run(db[0], work), SQLITE_OK);
    assert_int_equal(ask(db[1], "SELECT count(*) FROM t"), 3);
    assert_int_equal(ask(db[1], "SELECT sum(length(payload)) FROM t"), 60000);
    assert_int_equal(run(db[0], "BEGIN IMMEDIATE"), SQLITE_OK);
    assert_int_equal(run(db[1], "BEGIN IMMEDIATE"), SQLITE_BUSY);

    sqlite3_file *file = NULL;
    sqlite3_file *below = NULL;
    sqlite3 *plain = NULL;
    assert_int_equal(sqlite3_open_v2(path, &plain, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_file_control(db[0], "main", SQLITE_FCNTL_FILE_POINTER, &file), 0);
    assert_int_equal(sqlite3_file_control(plain, "main", SQLITE_FCNTL_FILE_POINTER, &below), 0);
    assert_int_equal(file->pMethods->iVersion, below->pMethods->iVersion);
    assert_int_equal(file->pMethods->xDeviceCharacteristics(file),
                     below->pMethods->xDeviceCharacteristics(below));
    assert_int_equal(file->pMethods->xSectorSize(file), below->pMethods->xSectorSize(below));
    assert_int_equal(sqlite3_close(plain), SQLITE_OK);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(sqlite3_close(db[i]), SQLITE_OK);
        sqlite_vfs_unregister(&vfs[i]);
    }
    assert_int_equal(scratch_remove(&scratch), 0);
}

/* SQLite may go on after a call that failed, and fail later for another reason. */
static void an_old_failure_is_not_told_for_a_new_one(void **state)
{
    (void)state;
    struct sqlite_db db = {.path = "some.db"};
    struct errmsg why;
    db.io.failure = (struct sqlite_io_failure){
        .call = "sync", .kind = SQLITE_FILE_WAL, .code = SQLITE_IOERR_FSYNC, .system = EDQUOT};
    assert_int_equal(sqlite_db_error(&db, SQLITE_IOERR_FSYNC, "COMMIT", &why), -EDQUOT);
    assert_non_null(strstr(why.text, "sync of the WAL"));
    assert_int_equal(sqlite_db_error(&db, SQLITE_IOERR_WRITE, "COMMIT", &why), -EIO);
    assert_null(strstr(why.text, "sync"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(counts_are_those_of_the_vfs_below, setup, teardown),
        cmocka_unit_test_setup_teardown(a_failure_is_remembered, setup, teardown),
        cmocka_unit_test_setup_teardown(a_failed_write_has_no_bytes, setup, teardown),
        cmocka_unit_test_setup_teardown(opening_is_as_below, setup, teardown),
        cmocka_unit_test_setup_teardown(it_is_one_of_several_and_never_the_default, setup,
                                        teardown),
        cmocka_unit_test(another_thread_reads_while_it_counts),
        cmocka_unit_test(shared_memory_and_mappings_pass_through),
        cmocka_unit_test(an_old_failure_is_not_told_for_a_new_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
