/* The SQLite store and the files that it finds: what is not ours stays as it is, names are only
 * names, and an audit changes nothing. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/base/digest.h"
#include "engine/base/prng.h"
#include "journal/backend.h"
#include "tests/lib/store_client.h"
#include "tests/lib/store_place.h"

static const enum journal_mode modes[] = {JOURNAL_NEW, JOURNAL_RESUME, JOURNAL_AUDIT};

static struct store_place place;

static int make_place(void **state)
{
    (void)state;
    store_place_make(&place);
    return 0;
}

static int remove_place(void **state)
{
    (void)state;
    store_place_remove(&place);
    return 0;
}

static const char *name(const char *file)
{
    return store_place_name(&place, file);
}

/* --- what is not ours --- */

static void assert_untouched(const char *path, const char *text)
{
    struct store_client client;
    struct errmsg why;
    uint64_t before = store_place_digest(&place);
    for (unsigned i = 0; i < 3; i++) {
        assert_true(store_open_path(&client, path, modes[i], &why) < 0);
        if (strstr(why.text, text) == NULL)
            fail_msg("\"%s\" has no \"%s\"", why.text, text);
        assert_true(store_place_digest(&place) == before);
    }
}

static void leave_foreign_wal(const char *path)
{
    sqlite3 *db;
    if (sqlite3_open(path, &db) != SQLITE_OK ||
        sqlite3_exec(db,
                     "PRAGMA journal_mode=WAL; PRAGMA application_id=1; CREATE TABLE t(x);"
                     "INSERT INTO t VALUES(randomblob(100000))",
                     NULL, NULL, NULL) != SQLITE_OK)
        _exit(1);
}

static void foreign_files_stay_as_they_are(void **state)
{
    (void)state;
    char bytes[5000];
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (char)(i * 7);
    store_write_file(name("text"), "hello\n", 6);
    assert_untouched(name("text"), "is not a bench database");
    store_write_file(name("bytes"), bytes, sizeof(bytes));
    assert_untouched(name("bytes"), "is not a bench database");
    store_write_file(name("magic"), "SQLite format 3", 16);
    assert_untouched(name("magic"), "another program's");
    store_execute(name("foreign.db"), "CREATE TABLE t(x); INSERT INTO t VALUES(1)");
    assert_untouched(name("foreign.db"), "another program's");
    store_leave_behind(leave_foreign_wal, name("wal.db"));
    assert_int_equal(access(name("wal.db-wal"), F_OK), 0);
    assert_untouched(name("wal.db"), "another program's");
    store_execute(name("newer.db"), "CREATE TABLE t(x); PRAGMA user_version=2;"
                                    "PRAGMA application_id=0x424e4348");
    assert_untouched(name("newer.db"), "schema version 2, this bench knows 1");
    store_write_file(name("orphan-wal"), bytes, sizeof(bytes));
    assert_untouched(name("orphan"), "is there without its database");
    store_execute(name("other.db"), "CREATE TABLE t(x); PRAGMA user_version=1;"
                                    "PRAGMA application_id=0x424e4348");
    assert_untouched(name("other.db"), "\"store\" is not as bench makes it");
}

/* --- names --- */

static void assert_refused(const char *path, int error)
{
    struct store_client client;
    struct errmsg why;
    uint64_t before = store_place_digest(&place);
    for (unsigned i = 0; i < 3; i++) {
        int got = store_open_path(&client, path, modes[i], &why);
        if (got != error)
            fail_msg("%s: %d, not %d: %s", path, got, error, why.text);
        assert_true(strlen(why.text) > 0);
        assert_true(store_place_digest(&place) == before);
    }
}

static void what_is_no_file_is_refused(void **state)
{
    (void)state;
    char path[STORE_PATH_BYTES];
    assert_refused(place.folder.path, -EISDIR);
    assert_refused(name("new/"), -EISDIR);
    assert_refused(name("missing/new"), -ENOENT);
    assert_refused("/dev/null", -EINVAL);
    assert_int_equal(mkfifo(name("fifo"), 0600), 0);
    assert_refused(name("fifo"), -EINVAL);
    store_execute(name("piped.db"), "CREATE TABLE t(x)");
    assert_int_equal(mkfifo(name("piped.db-wal"), 0600), 0);
    assert_refused(name("piped.db"), -EINVAL);
    assert_int_equal(symlink("loop", name("loop")), 0);
    assert_refused(name("loop"), -ELOOP);
    store_write_file(name("plain"), "", 0);
    assert_refused(name("plain/new"), -ENOTDIR);
    for (unsigned bytes = 300; bytes < STORE_PATH_BYTES; bytes += 300) {
        (void)snprintf(path, sizeof(path), "%s/%0*d", place.folder.path, (int)bytes, 1);
        struct store_client client;
        struct errmsg why;
        assert_int_equal(store_open_path(&client, path, JOURNAL_NEW, &why), -ENAMETOOLONG);
        assert_true(strlen(why.text) < 400);
    }
}

static void a_long_uri_does_not_fill_the_text(void **state)
{
    (void)state;
    enum { URI_BYTES = 1 << 20 };
    struct store_client client;
    struct errmsg why;
    char *uri = malloc(URI_BYTES);
    assert_non_null(uri);
    memset(uri, '\n', URI_BYTES);
    memcpy(uri, "sqlite:", 7);
    uri[URI_BYTES - 1] = '\0';
    assert_int_equal(store_open(&client, &(struct journal_config){.uri = uri}, &why),
                     -ENAMETOOLONG);
    assert_true(strlen(why.text) < 200);
    assert_null(strchr(why.text, '\n'));
    free(uri);
}

/* Every name is the name of a file, and of no other. */
static void names_have_no_meaning(void **state)
{
    (void)state;
    static const char *const names[] = {
        ":memory:",
        "file:x.db",
        "file:x.db?mode=memory",
        "file::memory:?cache=shared",
        "a?vfs=none",
        "new\nline",
        "quo'te\"s; DROP",
        "%20%00",
        "per%cent%s%n",
        "\xff\xfe\x01",
        "-journal",
        "a-wal",
        " ",
        "~",
        "*",
        "x.db-x",
    };
    char old[STORE_PATH_BYTES];
    struct store_client client;
    struct errmsg why;
    assert_non_null(getcwd(old, sizeof(old)));
    assert_int_equal(chdir(place.folder.path), 0);
    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *path = i % 2 == 0 ? names[i] : name(names[i]);
        assert_int_equal(access(names[i], F_OK), -1);
        assert_int_equal(store_open_path(&client, path, JOURNAL_RESUME, &why), -ENOENT);
        assert_int_equal(access(names[i], F_OK), -1);
        if (store_open_path(&client, path, JOURNAL_NEW, &why) != 0)
            fail_msg("%s", why.text);
        assert_int_equal(store_put_runs(&client, 0, 3, 2, 9), 6);
        store_close(&client);
        assert_int_equal(access(names[i], F_OK), 0);
        assert_int_equal(store_open_path(&client, path, JOURNAL_RESUME, &why), 0);
        store_close(&client);
    }
    assert_int_equal(chdir(old), 0);
}

/* Through a link, dangling or not, the file is where the link points; an empty file is as good as
 * none. */
static void links_are_followed_and_empty_files_taken(void **state)
{
    (void)state;
    struct store_client client;
    struct errmsg why;
    assert_int_equal(symlink("target.db", name("link")), 0);
    assert_int_equal(store_open_path(&client, name("link"), JOURNAL_NEW, &why), 0);
    assert_int_equal(store_put_runs(&client, 0, 3, 2, 9), 6);
    assert_int_equal(access(name("target.db-wal"), F_OK), 0);
    assert_int_equal(
        store_open_path(&(struct store_client){0}, name("target.db"), JOURNAL_NEW, &why), -EBUSY);
    store_close(&client);
    assert_int_equal(store_open_path(&client, name("target.db"), JOURNAL_RESUME, &why), 0);
    store_close(&client);
    store_write_file(name("empty"), "", 0);
    assert_int_equal(store_open_path(&client, name("empty"), JOURNAL_AUDIT, &why), -ENOENT);
    assert_int_equal(store_open_path(&client, name("empty"), JOURNAL_RESUME, &why), -ENOENT);
    assert_int_equal(store_open_path(&client, name("empty"), JOURNAL_NEW, &why), 0);
    store_close(&client);
}

/* In a child: with too few descriptors for all files, or threads. */
static void open_with_limit(unsigned more, unsigned shards)
{
    char uri[STORE_PATH_BYTES + 8];
    struct journal *journal;
    struct errmsg why;
    int next = open("/dev/null", O_RDONLY | O_CLOEXEC);
    (void)close(next);
    struct rlimit limit = {.rlim_cur = (rlim_t)next + more, .rlim_max = (rlim_t)next + more};
    (void)snprintf(uri, sizeof(uri), "sqlite:%s", name("limited.db"));
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
        _exit(100);
    int error = journal_open(
        &journal, &(struct journal_config){.uri = uri, .writers = 1, .shards = shards}, &why);
    if (error == 0) {
        journal_close(journal);
        _exit(0);
    }
    _exit(error == -EMFILE && strstr(why.text, strerror(EMFILE)) != NULL ? 1 : 101);
}

static void too_few_descriptors_leave_nothing_behind(void **state)
{
    (void)state;
    enum { SHARDS = 3 };
    uint64_t before = store_place_digest(&place);
    for (unsigned more = 0;; more++) {
        int status = 0;
        pid_t child = fork();
        if (child == 0)
            open_with_limit(more, SHARDS);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        if (WEXITSTATUS(status) == 0) {
            assert_true(more >= 2 * SHARDS);
            return;
        }
        assert_int_equal(WEXITSTATUS(status), 1);
        assert_true(store_place_digest(&place) == before);
    }
}

/* --- an audit --- */

static void leave_store(const char *path)
{
    struct store_client client;
    struct errmsg why;
    if (store_open_path(&client, path, JOURNAL_NEW, &why) != 0 ||
        store_put_runs(&client, 0, 300, 3, 500) != 900)
        _exit(1);
}

static void assert_audits_alike(const char *path, uint64_t campaigns)
{
    struct store_client client;
    struct store_audit audit;
    struct errmsg why = {.text = ""};
    uint64_t before = store_place_digest(&place);
    for (unsigned i = 0; i < 2; i++) {
        if (store_open_path(&client, path, JOURNAL_AUDIT, &why) != 0)
            fail_msg("%s", why.text);
        assert_null(journal_campaign(client.journal));
        for (uint64_t id = 1; id <= campaigns; id++) {
            assert_int_equal(store_audit(client.journal, id, 500, &audit, &why), 0);
            assert_int_equal(audit.records, 900);
            assert_int_equal(audit.wrong, 0);
        }
        store_close(&client);
        assert_true(store_place_digest(&place) == before);
    }
}

static void an_audit_changes_nothing(void **state)
{
    (void)state;
    struct store_client client;
    struct errmsg why;
    const char *path = name("audit.db");
    store_leave_behind(leave_store, path);
    assert_int_equal(access(name("audit.db-wal"), F_OK), 0);
    assert_audits_alike(path, 1);
    assert_int_equal(store_open_path(&client, path, JOURNAL_NEW, &why), 0);
    assert_int_equal(store_put_runs(&client, 0, 300, 3, 500), 900);
    assert_int_equal(store_open_path(&(struct store_client){0}, path, JOURNAL_AUDIT, &why), -EBUSY);
    store_close(&client);
    assert_int_equal(access(name("audit.db-wal"), F_OK), -1);
    assert_audits_alike(path, 2);
    assert_int_equal(chmod(path, 0400), 0);
    assert_int_equal(chmod(place.folder.path, 0500), 0);
    assert_audits_alike(path, 2);
    assert_int_equal(chmod(place.folder.path, 0700), 0);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(foreign_files_stay_as_they_are, make_place, remove_place),
        cmocka_unit_test_setup_teardown(what_is_no_file_is_refused, make_place, remove_place),
        cmocka_unit_test_setup_teardown(a_long_uri_does_not_fill_the_text, make_place,
                                        remove_place),
        cmocka_unit_test_setup_teardown(names_have_no_meaning, make_place, remove_place),
        cmocka_unit_test_setup_teardown(links_are_followed_and_empty_files_taken, make_place,
                                        remove_place),
        cmocka_unit_test_setup_teardown(too_few_descriptors_leave_nothing_behind, make_place,
                                        remove_place),
        cmocka_unit_test_setup_teardown(an_audit_changes_nothing, make_place, remove_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
