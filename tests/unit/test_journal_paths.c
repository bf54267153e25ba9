/* Which files are a store's, whatever the name and whether or not there is a store yet. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "journal/journal.h"
#include "tests/lib/scratch.h"

static struct scratch scratch;

static int set_up(void **state)
{
    (void)state;
    return scratch_make(&scratch, "paths") != 0 || chdir(scratch.path) != 0;
}

static int tear_down(void **state)
{
    (void)state;
    return chdir("/") != 0 || scratch_remove(&scratch) != 0;
}

static void make(const char *path)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fclose(file), 0);
}

static bool owns(const char *uri, const char *path)
{
    const struct journal_config config = {.uri = uri};
    return journal_owns_path(&config, path);
}

static const char *const ours[] = {
    "x.db",   "x.db-wal",   "x.db-shm",      "x.db-journal", "./x.db",
    "x.db.1", "x.db.1-wal", "sub/../x.db.9", "x.db.63",      "x.db.63-journal",
};
static const char *const others[] = {
    "x", "x.db.0", "x.db.64", "x.db.01", "x.db.1.json", "x.db-wal.1", "sub/x.db", "none/x.db", "y",
};

static void assert_known(const char *uri)
{
    for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
        if (!owns(uri, ours[i]))
            fail_msg("%s: %s is not its own", uri, ours[i]);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (owns(uri, others[i]))
            fail_msg("%s: %s is its own", uri, others[i]);
}

static void files_of_a_store_are_known(void **state)
{
    char uri[PATH_MAX + 16];
    (void)state;
    (void)snprintf(uri, sizeof(uri), "sqlite:%s/x.db", scratch.path);
    assert_int_equal(mkdir("sub", 0755), 0);
    assert_known("sqlite:x.db");
    assert_known(uri);
    make("x.db");
    make("x.db.1");
    make("x.db-wal");
    assert_known("sqlite:x.db");
    assert_known("sqlite:sub/../x.db");
    assert_known(uri);
}

static void links_are_followed(void **state)
{
    (void)state;
    assert_int_equal(symlink("x.db", "link.db"), 0);
    assert_true(owns("sqlite:link.db", "x.db")); /* neither is there yet */
    assert_true(owns("sqlite:link.db", "x.db-wal"));
    assert_true(owns("sqlite:x.db", "link.db"));
    assert_false(owns("sqlite:x.db", "link.db-wal"));
    make("x.db");
    make("x.db.2");
    assert_int_equal(link("x.db.2", "hard"), 0);
    assert_true(owns("sqlite:link.db", "x.db-wal"));
    assert_true(owns("sqlite:x.db", "hard"));
    assert_true(owns("sqlite:hard", "x.db.2"));
    assert_false(owns("sqlite:x.db", "hard-wal"));
}

static void other_stores_have_no_files(void **state)
{
    (void)state;
    assert_false(owns("memory", "memory"));
    assert_false(owns("postgres://h/x.db", "x.db"));
    assert_false(owns("nonsense:x.db", "x.db"));
}

static uint64_t free_bytes(const char *uri)
{
    const struct journal_config config = {.uri = uri};
    return journal_disk(&config).free_bytes;
}

static void only_stores_with_files_have_a_disk(void **state)
{
    (void)state;
    struct statvfs disk;
    assert_int_equal(statvfs(".", &disk), 0);
    assert_true(free_bytes("sqlite:x.db") <= (uint64_t)disk.f_blocks * disk.f_frsize);
    assert_true(free_bytes("memory") == JOURNAL_NOT_KNOWN);
    assert_true(free_bytes("postgres://h/x.db") == JOURNAL_NOT_KNOWN);
    assert_true(free_bytes("nonsense:x.db") == JOURNAL_NOT_KNOWN);
}

/* The disk is that of the place that links lead to, be there anything or not. */
static void a_disk_in_memory_is_known(void **state)
{
    (void)state;
    static const char uri[] = "sqlite:x.link";
    const struct journal_config config = {.uri = uri};
    const char *path = uri + strlen("sqlite:");
    struct statfs memory;
    if (statfs("/dev/shm", &memory) != 0 || memory.f_type != TMPFS_MAGIC)
        skip();
    assert_int_equal(symlink("/dev/shm/bench-no-such.db", path), 0);
    assert_true(journal_disk(&config).is_memory);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("/proc/bench-no-such.db", path), 0);
    assert_false(journal_disk(&config).is_memory);
    assert_int_equal(unlink(path), 0);
}

static void what_names_a_store_is_known(void **state)
{
    (void)state;
    static const char *const names[] = {"memory", "sqlite:", "sqlite:x", "postgres://h",
                                        "postgresql:"};
    static const char *const no_names[] = {"",         ":",       "memory:", "sqlite",
                                           "postgres", "sqlit:x", "x"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        assert_true(journal_is_named_by(names[i]));
    for (size_t i = 0; i < sizeof(no_names) / sizeof(no_names[0]); i++)
        assert_false(journal_is_named_by(no_names[i]));
}

#define IN_A_FOLDER(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_A_FOLDER(files_of_a_store_are_known), IN_A_FOLDER(links_are_followed),
        IN_A_FOLDER(other_stores_have_no_files), IN_A_FOLDER(only_stores_with_files_have_a_disk),
        IN_A_FOLDER(a_disk_in_memory_is_known),  cmocka_unit_test(what_names_a_store_is_known),
    };
    return cmocka_run_group_tests_name("journal_paths", tests, NULL, NULL);
}
