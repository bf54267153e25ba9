/* What is in the files of a SQLite store is not trusted: what is out of range is named, damage is
 * survived, and what a power cut may leave is known again. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/base/prng.h"
#include "tests/lib/store_client.h"
#include "tests/lib/store_place.h"

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

static void leave_store(const char *path)
{
    struct store_client client;
    struct errmsg why;
    if (store_open_path(&client, path, JOURNAL_NEW, &why) != 0 ||
        store_put_runs(&client, 0, 300, 3, 500) != 900)
        _exit(1);
}

static int ignore(void *arg, const struct journal_record *record)
{
    uint64_t *sum = arg;
    for (uint32_t i = 0; i < record->bytes; i++)
        *sum += (unsigned char)record->payload[i];
    return 0;
}

/* Reads all that there is in every way. The first error. */
static int read_all(struct journal *journal, struct errmsg *why)
{
    static const uint64_t runs[] = {0, 1, 2, 299, 300};
    uint64_t sum = 0;
    struct journal_count count = {.records = 0};
    int error = journal_scan(journal, 1, 0, UINT32_MAX, ignore, &sum, why);
    if (error == 0)
        error = journal_scan(journal, 0, 0, UINT32_MAX, ignore, &sum, why);
    if (error == 0 && journal_campaign(journal) != NULL)
        error = journal_read_runs(journal, 0, runs, 5, ignore, &sum, why);
    if (error == 0 && journal_campaign(journal) != NULL)
        error = journal_count(journal, 0, &count, why);
    return error;
}

/* A change by SQL, and what a reader says of it: an error that names what, or nothing. */
static void what_is_out_of_range_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *sql;
        const char *text; /* NULL: it is read as it is */
    } changes[] = {
        {"UPDATE records SET payload='text' WHERE id=5", "is not as bench records it"},
        {"UPDATE records SET payload=7 WHERE id=5", "seq 0, is not as bench records it"},
        {"UPDATE records SET payload=zeroblob(17000000) WHERE id=5", "is not as bench"},
        {"UPDATE records SET seq=-1 WHERE id=5", "seq -1, is not as bench records it"},
        {"UPDATE records SET seq=4294967296 WHERE id=5", "seq 4294967296"},
        {"UPDATE records SET seq='x' WHERE id=5", "is not as bench records it"},
        {"UPDATE records SET kind='x' WHERE id=5", "is not as bench records it"},
        {"UPDATE records SET kind=-1 WHERE id=5", "is not as bench records it"},
        {"UPDATE records SET digest='x' WHERE id=5", "is not as bench records it"},
        {"UPDATE records SET run=-1 WHERE id=5", "row 5 is of no run of the store"},
        {"UPDATE records SET run='x' WHERE id=5", "row 5 is of no run of the store"},
        {"UPDATE records SET run=77 WHERE id=5", "row 5 is of no run of the store"},
        {"INSERT INTO uuid_records SELECT * FROM records", "row 1 is of no run of the store"},
        {"INSERT INTO uuid_records SELECT id, x'00112233445566778899aabbccddeeff', seq, kind,"
         " digest, payload FROM records WHERE id=1",
         "row 1 is of no run of the store"},
        {"UPDATE records SET kind=77 WHERE id=5", NULL},
        {"UPDATE records SET kind=0 WHERE id=5", NULL},
        {"UPDATE records SET seq=4294967295 WHERE id=5", NULL},
        {"UPDATE campaigns SET key=9", "campaign 1 is not as bench records it"},
        {"UPDATE campaigns SET description=x'00'", "campaign 1 is not as bench records it"},
        {"UPDATE campaigns SET description=hex(zeroblob(40000))", "campaign 1 is not as"},
        {"CREATE TRIGGER t AFTER INSERT ON records BEGIN DELETE FROM records; END", NULL},
    };
    store_leave_behind(leave_store, name("origin.db"));
    store_execute(name("origin.db"), "PRAGMA wal_checkpoint(TRUNCATE)");
    for (unsigned i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
        struct store_client client;
        struct errmsg why = {.text = ""};
        char copy[STORE_PATH_BYTES + 16];
        (void)snprintf(copy, sizeof(copy), "cp %s %s", name("origin.db"), name("copy.db"));
        assert_int_equal(system(copy), 0); // NOLINT(cert-env33-c): names are our own
        store_execute(name("copy.db"), changes[i].sql);
        int error = store_open_path(&client, name("copy.db"), JOURNAL_AUDIT, &why);
        if (error == 0) {
            error = read_all(client.journal, &why);
            store_close(&client);
        }
        assert_int_equal(error, changes[i].text == NULL ? 0 : -EBADMSG);
        if (changes[i].text != NULL && strstr(why.text, changes[i].text) == NULL)
            fail_msg("%s: %s", changes[i].sql, why.text);
    }
}

/* Who reads a single record is told as well. */
static void what_cannot_be_read_is_named(void **state)
{
    (void)state;
    struct store_client client;
    struct journal_record record;
    struct errmsg why = {.text = ""};
    store_leave_behind(leave_store, name("one.db"));
    store_execute(name("one.db"), "UPDATE records SET payload='text' WHERE id=1");
    assert_int_equal(store_open_path(&client, name("one.db"), JOURNAL_RESUME, &why), 0);
    struct journal_writer *writer = client.writers[0].writer;
    assert_int_equal(journal_read(writer, 9999, 0, &record), -ENOENT);
    assert_false(journal_has_failed(client.journal, &why));
    assert_int_equal(journal_read(writer, 0, 0, &record), -EBADMSG);
    assert_true(journal_has_failed(client.journal, &why));
    assert_non_null(strstr(why.text, "one.db is damaged: a record of run 0, seq 0, is not as"));
    store_close(&client);
}

static void leave_uuid_store(const char *path)
{
    struct store_client client;
    struct errmsg why;
    char uri[STORE_PATH_BYTES + 8];
    (void)snprintf(uri, sizeof(uri), "sqlite:%s", path);
    if (store_open(&client, &(struct journal_config){.uri = uri, .key = RUN_KEY_UUIDV7}, &why) !=
            0 ||
        store_put_runs(&client, 0, 300, 3, 500) != 900)
        _exit(1);
}

static void keys_of_no_run_are_named(void **state)
{
    (void)state;
    static const char *const changes[] = {
        "UPDATE uuid_records SET run=CAST(x'ff' || substr(run, 2) AS BLOB) WHERE id=7",
        "UPDATE uuid_records SET run=substr(run, 1, 15) WHERE id=7",
        "UPDATE uuid_records SET run=CAST(run AS TEXT) WHERE id=7",
        "INSERT INTO records SELECT id, (1<<40)|1, 0, 1, 0, payload FROM uuid_records WHERE id=7",
    };
    for (unsigned i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
        struct store_client client;
        struct errmsg why;
        char path[STORE_PATH_BYTES];
        uint64_t sum = 0;
        (void)snprintf(path, sizeof(path), "%s/uuid%u.db", place.folder.path, i);
        store_leave_behind(leave_uuid_store, path);
        assert_int_equal(store_open_path(&client, path, JOURNAL_RESUME, &why), 0);
        assert_int_equal(journal_scan(client.journal, 0, 0, UINT32_MAX, ignore, &sum, &why), 0);
        store_close(&client);
        store_execute(path, changes[i]);
        assert_int_equal(store_open_path(&client, path, JOURNAL_AUDIT, &why), 0);
        assert_int_equal(journal_scan(client.journal, 0, 0, UINT32_MAX, ignore, &sum, &why),
                         -EBADMSG);
        assert_non_null(strstr(why.text, "row 7 is of no run of the store"));
        store_close(&client);
    }
}

/* An index that is not that of its table shows other records than there are, and takes what is
 * there already: neither an audit nor who would go on with the store believes it. */
static void an_index_of_other_records_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *table;
        const char *change;
    } changes[] = {
        {"records", "UPDATE records SET run = run + 1000 WHERE id = 7"},
        {"records", "DELETE FROM records WHERE id = 7"},
        {"records", "INSERT INTO records VALUES(7777, (1<<40)|7777, 0, 1, 0, x'')"},
        {"uuid_records", "UPDATE uuid_records SET seq = 9 WHERE id = 7"},
    };
    for (unsigned i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
        bool is_uuid = strcmp(changes[i].table, "records") != 0;
        struct store_client client;
        struct errmsg why;
        char path[STORE_PATH_BYTES];
        char sql[256];
        uint64_t sum = 0;
        (void)snprintf(path, sizeof(path), "%s/index%u.db", place.folder.path, i);
        store_leave_behind(is_uuid ? leave_uuid_store : leave_store, path);
        (void)snprintf(
            sql, sizeof(sql),
            "PRAGMA writable_schema=ON; CREATE TABLE kept AS SELECT * FROM sqlite_schema "
            "WHERE name = '%s_key'; DELETE FROM sqlite_schema WHERE name = '%s_key'",
            changes[i].table, changes[i].table);
        store_execute(path, sql); /* the index stays, and nobody keeps it */
        store_execute(path, changes[i].change);
        store_execute(path, "PRAGMA writable_schema=ON; "
                            "INSERT INTO sqlite_schema SELECT * FROM kept");
        for (enum journal_mode mode = JOURNAL_RESUME; mode <= JOURNAL_AUDIT; mode++) {
            assert_int_equal(store_open_path(&client, path, mode, &why), 0);
            assert_int_equal(journal_scan(client.journal, 1, 0, UINT32_MAX, ignore, &sum, &why),
                             -EBADMSG);
            if (strstr(why.text, "the index of its records is not theirs") == NULL)
                fail_msg("%s: %s", changes[i].change, why.text);
            store_close(&client);
        }
        store_execute(path, "REINDEX");
        assert_int_equal(store_open_path(&client, path, JOURNAL_AUDIT, &why), 0);
        assert_int_equal(journal_scan(client.journal, 1, 0, UINT32_MAX, ignore, &sum, &why), 0);
        store_close(&client);
    }
}

/* A trigger that somebody has added does not run; a journal without content is cleared away; page 1
 * that was torn by a power cut is in the WAL, and the file may end within a page. */
static void a_store_is_known_again(void **state)
{
    (void)state;
    struct store_client client;
    struct store_audit audit;
    struct errmsg why;
    struct stat status;
    char garbage[512];
    char path[STORE_PATH_BYTES];
    memset(garbage, 0x5a, sizeof(garbage));
    (void)snprintf(path, sizeof(path), "%s", name("known.db"));
    store_leave_behind(leave_store, path);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_int_equal(pwrite(fd, garbage, sizeof(garbage), 0), sizeof(garbage));
    assert_int_equal(fstat(fd, &status), 0);
    assert_int_equal(ftruncate(fd, status.st_size + (off_t)sizeof(garbage)), 0);
    assert_int_equal(close(fd), 0);
    memset(garbage, 0, sizeof(garbage));
    store_write_file(name("known.db-journal"), garbage, sizeof(garbage));
    static const enum journal_mode ways[] = {JOURNAL_AUDIT, JOURNAL_RESUME};
    for (unsigned i = 0; i < 2; i++) {
        if (store_open_path(&client, path, ways[i], &why) != 0)
            fail_msg("%s", why.text);
        assert_int_equal(store_audit(client.journal, 1, 500, &audit, &why), 0);
        assert_int_equal(audit.records, 900);
        assert_int_equal(audit.wrong, 0);
        store_close(&client);
    }
    assert_int_equal(access(name("known.db-journal"), F_OK), -1);
    store_execute(path, "CREATE TRIGGER t AFTER INSERT ON records BEGIN DELETE FROM records; END");
    assert_int_equal(store_open_path(&client, path, JOURNAL_RESUME, &why), 0);
    assert_int_equal(store_put_runs(&client, 1000, 10, 3, 500), 30);
    assert_int_equal(store_audit(client.journal, 1, 500, &audit, &why), 0);
    assert_int_equal(audit.records, 930);
    store_close(&client);
}

/* Bytes are turned all over the file: whatever happens, it is not a crash, and a refusal has its
 * text. */
static void damage_is_survived(void **state)
{
    (void)state;
    struct prng prng = prng_stream(11, 1, PRNG_TEST, 0);
    struct stat status;
    unsigned refused = 0;
    const char *path = name("damaged.db");
    store_leave_behind(leave_store, path);
    store_execute(path, "PRAGMA wal_checkpoint(TRUNCATE)");
    assert_int_equal(stat(path, &status), 0);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    for (unsigned i = 0; i < 400; i++) {
        struct store_client client;
        struct errmsg why = {.text = ""};
        /* Heads of pages above all: there is the structure. */
        off_t at = (off_t)prng_below(&prng, (uint64_t)status.st_size);
        if (i % 2 == 0)
            at = at / 8192 * 8192 + (off_t)prng_below(&prng, 200);
        unsigned char byte = 0;
        unsigned char turned = 0;
        assert_int_equal(pread(fd, &byte, 1, at), 1);
        turned = byte ^ (unsigned char)(1 + prng_below(&prng, 255));
        assert_int_equal(pwrite(fd, &turned, 1, at), 1);
        int error = store_open_path(&client, path, JOURNAL_AUDIT, &why);
        if (error == 0) {
            error = read_all(client.journal, &why);
            store_close(&client);
        }
        refused += error != 0;
        assert_true(error == 0 || strlen(why.text) > 0);
        assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    }
    assert_int_equal(close(fd), 0);
    assert_true(refused > 20);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_out_of_range_is_named, make_place, remove_place),
        cmocka_unit_test_setup_teardown(what_cannot_be_read_is_named, make_place, remove_place),
        cmocka_unit_test_setup_teardown(keys_of_no_run_are_named, make_place, remove_place),
        cmocka_unit_test_setup_teardown(an_index_of_other_records_is_named, make_place,
                                        remove_place),
        cmocka_unit_test_setup_teardown(a_store_is_known_again, make_place, remove_place),
        cmocka_unit_test_setup_teardown(damage_is_survived, make_place, remove_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
