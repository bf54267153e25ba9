/* The SQLite store on a disk that fails, case by case: what it says of each record, that it stops,
 * that what it has acked is there afterwards, and that a store is made whatever fails meanwhile.
 * The sweep over all calls is test_sqlite_faults.c's. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "engine/base/digest.h"
#include "journal/backend.h"
#include "tests/lib/fault_vfs.h"
#include "tests/lib/store_client.h"

#define PATH "/no-such-folder/store.db"
#define URI "sqlite:" PATH

enum { BYTES_MAX = 600 };

static struct fault_vfs *disk;

static int install(void **state)
{
    (void)state;
    disk = fault_vfs_install();
    return disk != NULL ? 0 : -1;
}

static int uninstall(void **state)
{
    (void)state;
    fault_vfs_uninstall(disk);
    return 0;
}

static int open_store(struct store_client *client, enum journal_mode mode, struct errmsg *why)
{
    why->text[0] = '\0';
    return store_open(client, &(struct journal_config){.uri = URI, .mode = mode, .shards = 2}, why);
}

static void must_open(struct store_client *client, enum journal_mode mode)
{
    struct errmsg why;
    int error = open_store(client, mode, &why);
    if (error != 0)
        fail_msg("%d: %s", error, why.text);
}

/* Runs [0, count) are there whole, and nothing else unless `may_hold_more`. */
static void assert_holds(struct journal *journal, unsigned count, uint32_t records,
                         bool may_hold_more)
{
    struct store_audit audit;
    struct errmsg why = {.text = ""};
    if (store_audit(journal, 1, BYTES_MAX, &audit, &why) != 0)
        fail_msg("%s", why.text);
    assert_int_equal(audit.wrong, 0);
    assert_true(audit.records >= (uint64_t)count * records);
    if (!may_hold_more)
        assert_int_equal(audit.records, (uint64_t)count * records);
}

static void power_on(void)
{
    fault_vfs_clear_rules(disk);
    if (fault_vfs_is_off(disk))
        fault_vfs_power_on(disk);
}

/* --- making a store --- */

static bool is_there(const char *path)
{
    uint64_t bytes = 0;
    return fault_vfs_size(disk, path, &bytes) == 0;
}

static void assert_nothing_is_left(void)
{
    static const char *const files[] = {PATH,      PATH "-wal",   PATH "-journal",
                                        PATH ".1", PATH ".1-wal", PATH ".1-journal"};
    for (unsigned i = 0; i < sizeof(files) / sizeof(files[0]); i++)
        if (is_there(files[i]))
            fail_msg("%s is left behind", files[i]);
}

/* Whatever call fails while a store is made, written to or closed, the next attempt succeeds, and
 * what was acked is there. Without a power cut an attempt that fails leaves nothing behind. */
static void assert_made_after(enum fault_effect effect, uint64_t seed)
{
    bool had_effect = true;
    for (uint64_t at = 1; had_effect; at++) {
        struct store_client client;
        struct errmsg why;
        fault_vfs_reset(disk, seed + at);
        fault_vfs_set(disk, &(struct fault_rule){.calls = FAULT_ANY_CHANGE | FAULT_OPEN,
                                                 .at = at,
                                                 .seed = seed,
                                                 .is_partial = seed % 2 == 1,
                                                 .effect = effect});
        struct store_audit audit = {.records = 0};
        uint64_t acked = 0;
        int error = open_store(&client, JOURNAL_NEW, &why);
        if (error == 0) {
            acked = store_put_runs(&client, 0, 10, 3, BYTES_MAX);
            store_close(&client);
        } else if (effect != FAULT_POWER_CUT) {
            assert_nothing_is_left();
        }
        had_effect = fault_vfs_fault_count(disk) > 0;
        power_on();
        assert_true(error == 0 || (had_effect && strlen(why.text) > 0));
        error = open_store(&client, JOURNAL_NEW, &why);
        if (error != 0)
            fail_msg("after call %d (effect %d, seed %d): %s", (int)at, (int)effect, (int)seed,
                     why.text);
        assert_int_equal(store_put_runs(&client, 0, 10, 3, BYTES_MAX), 30);
        uint64_t campaign = journal_campaign(client.journal)->id;
        assert_int_equal(store_audit(client.journal, 1, BYTES_MAX, &audit, &why), 0);
        assert_true(campaign <= 2 && (campaign == 2 || acked == 0));
        assert_true(audit.wrong == 0 && audit.records >= acked);
        store_close(&client);
        assert_true(had_effect || at > 20);
    }
}

static void a_store_is_made_in_spite_of_failures(void **state)
{
    (void)state;
    assert_made_after(FAULT_EIO, 2);
    assert_made_after(FAULT_EIO, 3);
    assert_made_after(FAULT_FULL, 2);
    for (uint64_t seed = 0; seed < 8; seed++)
        assert_made_after(FAULT_POWER_CUT, seed);
}

/* --- commits that fail --- */

struct outcome {
    struct fault_rule rule;
    int result; /* of the records of the transaction */
    const char *text;
};

static void assert_stops(const struct outcome *outcome)
{
    struct store_client client;
    struct store_record record;
    struct errmsg why;
    bool is_unknown = outcome->result == JOURNAL_UNKNOWN;
    fault_vfs_reset(disk, 7);
    must_open(&client, JOURNAL_NEW);
    assert_int_equal(store_put_runs(&client, 0, 40, 3, BYTES_MAX), 120);
    assert_false(journal_has_failed(client.journal, &why));
    fault_vfs_set(disk, &outcome->rule);

    store_record_init(&record, &client, 0, 100, 0, RECORD_BEGIN, DIGEST_START, BYTES_MAX);
    store_record_send(&record);
    store_settle(&client);
    assert_int_equal(record.result, outcome->result);
    store_record_free(&record);
    assert_true(journal_has_failed(client.journal, &why));
    assert_non_null(strstr(why.text, outcome->text));
    assert_non_null(strstr(why.text, PATH));

    /* Both shards take nothing more, though the disk is well again. */
    fault_vfs_clear_rules(disk);
    for (uint64_t run = 101; run < 120; run++)
        assert_int_equal(store_put(&client, run, 0, RECORD_BEGIN, DIGEST_START, "x", 1),
                         JOURNAL_STOPPED);
    struct journal_totals totals = journal_writer_totals(client.writers[0].writer);
    assert_int_equal(totals.records, 120);
    assert_int_equal(totals.unknown, is_unknown);
    assert_holds(client.journal, 40, 3, false);
    store_close(&client);
    /* It has neither checkpointed nor deleted what is to be recovered; the other has. */
    bool is_first = journal_lane_of(100, 2) == 0;
    assert_int_equal(is_there(PATH "-wal"), is_first);
    assert_int_equal(is_there(PATH ".1-wal"), !is_first);

    /* Power may fail now, too: what was acked was durable before. */
    fault_vfs_power_cut(disk, 99);
    fault_vfs_power_on(disk);
    must_open(&client, JOURNAL_AUDIT);
    assert_holds(client.journal, 40, 3, is_unknown);
    store_close(&client);
    must_open(&client, JOURNAL_RESUME);
    assert_holds(client.journal, 40, 3, is_unknown);
    assert_int_equal(store_put_runs(&client, 200, 40, 3, BYTES_MAX), 120);
    store_close(&client);
}

static void a_commit_that_fails_stops_the_store(void **state)
{
    (void)state;
    static const struct outcome outcomes[] = {
        {{.files = FAULT_WAL, .calls = FAULT_WRITE, .at = 1, .effect = FAULT_EIO},
         -EIO,
         "COMMIT: disk I/O error (write of the WAL"},
        {{.files = FAULT_WAL, .calls = FAULT_WRITE, .at = 3, .effect = FAULT_EIO}, -EIO, "COMMIT"},
        {{.files = FAULT_WAL,
          .calls = FAULT_WRITE,
          .at = 2,
          .is_partial = true,
          .seed = 5,
          .effect = FAULT_EIO},
         -EIO,
         "COMMIT"},
        {{.files = FAULT_WAL, .calls = FAULT_WRITE, .at = 2, .effect = FAULT_FULL},
         JOURNAL_FULL,
         "full"},
        {{.files = FAULT_WAL, .calls = FAULT_SYNC, .at = 1, .effect = FAULT_EIO},
         JOURNAL_UNKNOWN,
         "sync of the WAL"},
        {{.files = FAULT_WAL,
          .calls = FAULT_SYNC,
          .at = 1,
          .loses_unsynced = true,
          .effect = FAULT_EIO},
         JOURNAL_UNKNOWN,
         "sync of the WAL"},
    };
    for (unsigned i = 0; i < sizeof(outcomes) / sizeof(outcomes[0]); i++)
        assert_stops(&outcomes[i]);
}

/* A checkpoint that fails comes after the acks: they stand. */
static void a_checkpoint_that_fails_stops_the_store(void **state)
{
    (void)state;
    static const struct fault_rule rules[] = {
        {.files = FAULT_MAIN, .calls = FAULT_WRITE, .at = 1, .effect = FAULT_EIO},
        {.files = FAULT_MAIN, .calls = FAULT_WRITE, .at = 9, .effect = FAULT_FULL},
        {.files = FAULT_MAIN,
         .calls = FAULT_WRITE,
         .at = 5,
         .is_partial = true,
         .seed = 3,
         .effect = FAULT_EIO},
        {.files = FAULT_MAIN,
         .calls = FAULT_SYNC,
         .at = 1,
         .loses_unsynced = true,
         .effect = FAULT_EIO},
    };
    for (unsigned i = 0; i < 4 * sizeof(rules) / sizeof(rules[0]); i++) {
        struct store_client client;
        struct errmsg why;
        unsigned acked = 0;
        fault_vfs_reset(disk, i);
        must_open(&client, JOURNAL_NEW);
        fault_vfs_set(disk, &rules[i / 4]);
        while (!journal_has_failed(client.journal, &why)) {
            uint64_t got = store_put_runs(&client, acked, 1000, 1, BYTES_MAX);
            assert_true(got == 1000 || journal_has_failed(client.journal, &why));
            acked += got == 1000 ? 1000 : 0;
            assert_true(acked < 60000);
        }
        assert_non_null(strstr(why.text, "checkpoint"));
        assert_true(acked > 1000);
        store_close(&client);
        fault_vfs_clear_rules(disk);
        fault_vfs_power_cut(disk, i);
        fault_vfs_power_on(disk);
        must_open(&client, JOURNAL_RESUME);
        assert_holds(client.journal, acked, 1, true);
        store_close(&client);
    }
}

/* --- power cuts --- */

static void acked_records_survive_power_cuts(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct store_client client;
        struct store_audit audit;
        struct errmsg why;
        uint64_t acked = 0;
        fault_vfs_reset(disk, seed);
        must_open(&client, JOURNAL_NEW);
        fault_vfs_set(disk, &(struct fault_rule){.calls = FAULT_ANY_CHANGE,
                                                 .at = 1 + seed * 37 % 900,
                                                 .seed = seed,
                                                 .effect = FAULT_POWER_CUT});
        for (unsigned wave = 0; wave < 30 && !fault_vfs_is_off(disk); wave++)
            acked += store_put_runs(&client, wave * 100, 100, 3, BYTES_MAX);
        store_close(&client);
        power_on();
        must_open(&client, JOURNAL_RESUME);
        assert_int_equal(store_audit(client.journal, 1, BYTES_MAX, &audit, &why), 0);
        assert_int_equal(audit.wrong, 0);
        assert_true(audit.records >= acked);
        assert_int_equal(store_put_runs(&client, 5000, 100, 3, BYTES_MAX), 300);
        store_close(&client);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_store_is_made_in_spite_of_failures),
        cmocka_unit_test(a_commit_that_fails_stops_the_store),
        cmocka_unit_test(a_checkpoint_that_fails_stops_the_store),
        cmocka_unit_test(acked_records_survive_power_cuts),
    };
    return cmocka_run_group_tests(tests, install, uninstall);
}
