/* The SQLite store at work: what comes back, retries, group commit over writers, the WAL's bound,
 * kill -9. Its campaigns, files, contents and failures have tests of their own. */
#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/base/digest.h"
#include "journal/sqlite_shard.h"
#include "tests/lib/store_client.h"
#include "tests/lib/store_place.h"

/* --- what comes back --- */

struct runs_seen {
    uint64_t run;
    uint32_t next_seq;
    unsigned runs;
    unsigned records;
};

static int see_run(void *arg, const struct journal_record *record)
{
    struct runs_seen *seen = arg;
    if (record->run != seen->run || seen->records == 0) {
        seen->run = record->run;
        seen->next_seq = 0;
        seen->runs++;
    }
    assert_int_equal(record->seq, seen->next_seq++);
    seen->records++;
    return 0;
}

static void assert_runs_are_read(struct journal *journal, uint64_t run_count, uint32_t records)
{
    unsigned runs_read = 0;
    struct errmsg why;
    for (unsigned part = 0; part < journal_parts(journal); part++) {
        uint64_t runs[8];
        unsigned count = 0;
        for (uint64_t run = 0; run < run_count && count < 8; run++)
            if (journal_lane_of(run, journal_parts(journal)) == part)
                runs[count++] = run;
        struct runs_seen seen = {.run = 0};
        assert_int_equal(journal_read_runs(journal, part, runs, count, see_run, &seen, &why), 0);
        assert_int_equal(seen.runs, count);
        assert_int_equal(seen.records, count * records);
        runs_read += count;
    }
    assert_true(runs_read >= 8);
}

static void assert_comes_back(enum run_key_kind key, unsigned shards)
{
    struct store_place place;
    struct store_client client;
    struct journal_record record;
    struct errmsg why;
    store_place_make(&place);
    struct journal_config config = {.uri = place.uri,
                                    .key = key,
                                    .shards = shards,
                                    .writers = 2,
                                    .durability = DURABILITY_NONE,
                                    .description = "{\"a\":\"b\"}"};
    store_must_open(&client, &config);
    assert_int_equal(journal_parts(client.journal), shards);
    assert_int_equal(store_put_runs(&client, 0, 500, 5, 300), 2500);
    store_must_hold(client.journal, 1, 300, 500, 5);
    for (unsigned writer = 0; writer < 2; writer++) {
        assert_int_equal(journal_read(client.writers[writer].writer, 77, 4, &record), 0);
        assert_int_equal(record.kind, RECORD_END);
        assert_int_equal(journal_read(client.writers[writer].writer, 77, 5, &record), -ENOENT);
        assert_int_equal(journal_read(client.writers[writer].writer, 500, 0, &record), -ENOENT);
    }
    store_close(&client);

    config.mode = JOURNAL_RESUME;
    config.shards = 0;
    config.key = RUN_KEY_SEQ; /* the campaign keeps its own */
    store_must_open(&client, &config);
    assert_int_equal(journal_campaign(client.journal)->id, 1);
    assert_int_equal(journal_campaign(client.journal)->key, key);
    assert_string_equal(journal_campaign(client.journal)->description, "{\"a\":\"b\"}");
    store_must_hold(client.journal, 1, 300, 500, 5);
    assert_runs_are_read(client.journal, 500, 5);
    assert_int_equal(store_put_runs(&client, 1000, 100, 5, 300), 500);
    struct journal_count count = {.records = 0};
    for (unsigned part = 0; part < shards; part++)
        assert_int_equal(journal_count(client.journal, part, &count, &why), 0);
    assert_int_equal(count.records, 3000);
    assert_int_equal(count.begins, 600);
    assert_int_equal(count.ends, 600);
    store_close(&client);

    config.mode = JOURNAL_AUDIT;
    store_must_open(&client, &config);
    store_must_hold(client.journal, 1, 300, 600, 5);
    store_close(&client);
    store_place_remove(&place);
}

static void records_come_back_whatever_the_key_and_the_shards(void **state)
{
    (void)state;
    assert_comes_back(RUN_KEY_SEQ, 1);
    assert_comes_back(RUN_KEY_SEQ, 3);
    assert_comes_back(RUN_KEY_UUIDV7, 2);
    assert_comes_back(RUN_KEY_UUIDV4, 1);
    assert_comes_back(RUN_KEY_UUIDV4, 4);
}

static int count_visit(void *arg, const struct journal_record *record)
{
    (void)record;
    ++*(unsigned *)arg;
    return 0;
}

static void a_scan_shows_the_kinds_that_are_asked_for(void **state)
{
    (void)state;
    struct store_place place;
    struct store_client client;
    struct errmsg why;
    unsigned count = 0;
    store_place_make(&place);
    store_must_open(&client, &(struct journal_config){.uri = place.uri});
    (void)store_put_runs(&client, 0, 50, 4, 10);
    assert_int_equal(journal_scan(client.journal, 1, 0, 1u << RECORD_END | 1u << RECORD_BEGIN,
                                  count_visit, &count, &why),
                     0);
    assert_int_equal(count, 100);
    assert_int_equal(journal_scan(client.journal, 2, 0, UINT32_MAX, count_visit, &count, &why),
                     -ENOENT);
    store_close(&client);
    store_place_remove(&place);
}

/* --- retries --- */

static void what_is_there_is_compared(void **state)
{
    (void)state;
    static const char bytes[] = "the same";
    enum { RUNS = 40 };
    struct store_place place;
    struct store_client client;
    struct store_record records[2 * RUNS];
    uint64_t digest = digest_chain(DIGEST_START, bytes, sizeof(bytes));
    store_place_make(&place);
    struct journal_config config = {.uri = place.uri};
    store_must_open(&client, &config);
    for (uint64_t run = 0; run < RUNS; run += 3)
        assert_int_equal(
            store_put(&client, run, 0, RECORD_BEGIN, DIGEST_START, bytes, sizeof(bytes)), 0);
    assert_int_equal(store_put(&client, 0, 1, RECORD_END, digest, "", 0), 0);
    for (unsigned i = 0; i < 2; i++) { /* with what the store remembers, and without */
        assert_int_equal(store_put(&client, 0, 0, RECORD_BEGIN, DIGEST_START, bytes, sizeof(bytes)),
                         0);
        assert_int_equal(store_put(&client, 0, 0, RECORD_BEGIN, DIGEST_START, bytes, 3),
                         JOURNAL_CONFLICT);
        assert_int_equal(store_put(&client, 0, 0, RECORD_MODEL, DIGEST_START, bytes, sizeof(bytes)),
                         JOURNAL_CONFLICT);
        assert_int_equal(store_put(&client, 0, 0, RECORD_BEGIN, 1, bytes, sizeof(bytes)),
                         JOURNAL_CONFLICT);
        assert_int_equal(store_put(&client, 0, 1, RECORD_END, digest, "", 0), 0);
        assert_int_equal(store_put(&client, 0, 1, RECORD_END, digest, "x", 1), JOURNAL_CONFLICT);
        assert_int_equal(store_put(&client, 0, 3, RECORD_END, digest, "", 0), JOURNAL_GAP);
        assert_int_equal(store_put(&client, 900, 1, RECORD_END, digest, "", 0), JOURNAL_GAP);
        store_close(&client);
        config.mode = JOURNAL_RESUME;
        store_must_open(&client, &config);
    }
    /* One batch of new records and of conflicts, each with its successor. */
    for (uint64_t run = 0; run < RUNS; run++) {
        store_record_init(&records[2 * run], &client, 0, run, 0, RECORD_BEGIN, DIGEST_START, 20);
        store_record_init(&records[2 * run + 1], &client, 0, run, 1, RECORD_END, 5, 20);
        store_record_send(&records[2 * run]);
        store_record_send(&records[2 * run + 1]);
    }
    store_settle(&client);
    for (uint64_t run = 0; run < RUNS; run++) {
        bool was_there = run % 3 == 0;
        assert_int_equal(records[2 * run].result, was_there ? JOURNAL_CONFLICT : JOURNAL_ACKED);
        assert_int_equal(records[2 * run + 1].result, was_there ? JOURNAL_GAP : JOURNAL_ACKED);
        store_record_free(&records[2 * run]);
        store_record_free(&records[2 * run + 1]);
    }
    store_close(&client);
    store_place_remove(&place);
}

/* --- group commit --- */

struct held {
    struct store_record records[2];
};

/* While a reader has the shard, nothing can be committed. */
static int send_from_a_visit(void *arg, const struct journal_record *record)
{
    struct held *held = arg;
    (void)record;
    for (unsigned i = 0; i < 2; i++) {
        store_record_send(&held->records[i]);
        journal_flush(held->records[i].client->writers[i].writer);
    }
    return 1;
}

static void batches_of_two_writers_are_one_transaction(void **state)
{
    (void)state;
    struct store_place place;
    struct store_client client;
    struct held held;
    struct journal_io before;
    struct journal_io after;
    struct errmsg why;
    store_place_make(&place);
    store_must_open(&client, &(struct journal_config){.uri = place.uri, .writers = 2});
    assert_int_equal(store_put_runs(&client, 0, 1, 2, 10), 2);
    for (unsigned i = 0; i < 2; i++)
        store_record_init(&held.records[i], &client, i, 10 + i, 0, RECORD_BEGIN, DIGEST_START, 10);
    journal_io(client.journal, &before);
    assert_int_equal(journal_scan(client.journal, 1, 0, UINT32_MAX, send_from_a_visit, &held, &why),
                     1);
    store_settle(&client);
    journal_io(client.journal, &after);
    assert_int_equal(after.commits - before.commits, 1);
    assert_int_equal(after.syncs - before.syncs, 1);
    assert_true(after.commit_ns > before.commit_ns);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(held.records[i].result, JOURNAL_ACKED);
        store_record_free(&held.records[i]);
    }
    store_close(&client);
    store_place_remove(&place);
}

static int send_and_close_from_a_visit(void *arg, const struct journal_record *record)
{
    struct held *held = arg;
    struct store_client *client = held->records[0].client;
    (void)send_from_a_visit(arg, record);
    for (; client->writer_count > 0; client->writer_count--) {
        journal_writer_close(client->writers[client->writer_count - 1].writer);
        loop_close(&client->writers[client->writer_count - 1].loop);
    }
    return 1;
}

/* A writer that is closed with batches in the shard's queue takes them out of it. */
static void what_is_queued_is_forgotten_with_its_writer(void **state)
{
    (void)state;
    struct store_place place;
    struct store_client client;
    struct held held;
    struct errmsg why;
    store_place_make(&place);
    struct journal_config config = {.uri = place.uri, .writers = 2};
    store_must_open(&client, &config);
    assert_int_equal(store_put_runs(&client, 0, 1, 2, 10), 2);
    for (unsigned i = 0; i < 2; i++)
        store_record_init(&held.records[i], &client, i, 10 + i, 0, RECORD_BEGIN, DIGEST_START, 10);
    assert_int_equal(
        journal_scan(client.journal, 1, 0, UINT32_MAX, send_and_close_from_a_visit, &held, &why),
        1);
    store_close(&client);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(held.records[i].result, 1);
        store_record_free(&held.records[i]);
    }
    config.mode = JOURNAL_RESUME;
    store_must_open(&client, &config);
    store_must_hold(client.journal, 1, 10, 1, 2);
    store_close(&client);
    store_place_remove(&place);
}

/* --- the WAL --- */

static void the_wal_stays_within_its_bound(void **state)
{
    (void)state;
    enum { RUNS = 2000, BYTES_MAX = 3500, WAVES = 16 };
    struct store_place place;
    struct store_client client;
    struct journal_io io;
    int64_t most = 0;
    store_place_make(&place);
    store_must_open(&client,
                    &(struct journal_config){.uri = place.uri, .durability = DURABILITY_NONE});
    for (uint64_t wave = 0; wave < WAVES; wave++) {
        assert_int_equal(store_put_runs(&client, wave * RUNS, RUNS, 2, BYTES_MAX), 2 * RUNS);
        int64_t bytes = store_place_size(&place, "-wal");
        most = bytes > most ? bytes : most;
    }
    journal_io(client.journal, &io);
    assert_true(io.wal_bytes > 100 << 20);
    assert_true(io.db_bytes > 100 << 20);
    assert_true(io.checkpoints >= WAVES);
    assert_true(io.store_bytes > 100 << 20);
    /* The bound, and a transaction beyond it. */
    assert_true(most > 0 && most < SQLITE_WAL_BYTES_BOUND + 2 * RUNS * BYTES_MAX);
    store_must_hold(client.journal, 1, BYTES_MAX, WAVES * RUNS, 2);
    store_close(&client);
    assert_int_equal(store_place_size(&place, "-wal"), -1);
    assert_int_equal(store_place_size(&place, "-shm"), -1);
    assert_int_equal(store_place_size(&place, "-journal"), -1);
    store_place_remove(&place);
}

/* A record of the largest size, and one above it. */
static void the_largest_payload_is_taken(void **state)
{
    (void)state;
    struct store_place place;
    struct store_client client;
    struct journal_record record;
    char *payload = calloc(1, JOURNAL_PAYLOAD_BYTES_MAX + 1);
    assert_non_null(payload);
    payload[JOURNAL_PAYLOAD_BYTES_MAX - 1] = 'z';
    store_place_make(&place);
    store_must_open(&client, &(struct journal_config){.uri = place.uri});
    assert_int_equal(store_put(&client, 1, 0, RECORD_BEGIN, 0, payload, JOURNAL_PAYLOAD_BYTES_MAX),
                     0);
    assert_int_equal(
        store_put(&client, 2, 0, RECORD_BEGIN, 0, payload, JOURNAL_PAYLOAD_BYTES_MAX + 1),
        JOURNAL_TOO_LARGE);
    assert_int_equal(journal_read(client.writers[0].writer, 1, 0, &record), 0);
    assert_int_equal(record.bytes, JOURNAL_PAYLOAD_BYTES_MAX);
    assert_memory_equal(record.payload, payload, JOURNAL_PAYLOAD_BYTES_MAX);
    store_close(&client);
    free(payload);
    store_place_remove(&place);
}

/* --- kill -9 --- */

/* Appends waves of two records a run for ever, and tells the pipe how many are acked. */
static void append_until_killed(const struct journal_config *config, int pipe_fd)
{
    struct store_client client;
    struct errmsg why;
    uint64_t acked = 0;
    if (store_open(&client, config, &why) != 0)
        _exit(1);
    for (uint64_t first = 0; first < UINT16_MAX - 200; first += 100) {
        acked += store_put_runs(&client, first, 100, 2, 400);
        if (write(pipe_fd, &acked, sizeof(acked)) != sizeof(acked))
            _exit(1);
    }
    _exit(2);
}

static void kill_after(const struct journal_config *config, uint64_t acks, uint64_t *acked)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0)
        append_until_killed(config, ends[1]);
    (void)close(ends[1]);
    *acked = 0;
    while (*acked < acks)
        assert_int_equal(read(ends[0], acked, sizeof(*acked)), sizeof(*acked));
    assert_int_equal(kill(child, SIGKILL), 0);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    uint64_t more = 0;
    while (read(ends[0], &more, sizeof(more)) == sizeof(more))
        *acked = more;
    (void)close(ends[0]);
}

static void acked_records_survive_a_kill(void **state)
{
    (void)state;
    static const enum durability levels[] = {DURABILITY_POWER, DURABILITY_PROCESS};
    for (unsigned i = 0; i < 6; i++) {
        struct store_place place;
        struct store_client client;
        struct store_audit audit;
        struct errmsg why;
        uint64_t acked = 0;
        store_place_make(&place);
        struct journal_config config = {
            .uri = place.uri, .durability = levels[i % 2], .shards = 1 + i % 3};
        kill_after(&config, 200 + 700 * i, &acked);
        config.mode = JOURNAL_RESUME;
        store_must_open(&client, &config); /* no lock is left */
        assert_int_equal(store_audit(client.journal, 1, 400, &audit, &why), 0);
        assert_int_equal(audit.wrong, 0);
        assert_true(audit.records >= acked);
        /* The next records of what is there, and runs that are new. */
        assert_int_equal(store_put_runs(&client, 0, 100, 2, 400), 200);
        assert_int_equal(store_put_runs(&client, UINT16_MAX - 150, 100, 2, 400), 200);
        store_close(&client);
        store_place_remove(&place);
    }
}

static void another_process_has_the_store(void **state)
{
    (void)state;
    static const enum journal_mode modes[] = {JOURNAL_NEW, JOURNAL_RESUME, JOURNAL_AUDIT};
    struct store_place place;
    struct store_client client;
    struct errmsg why;
    int ends[2];
    uint64_t acked = 0;
    store_place_make(&place);
    struct journal_config config = {.uri = place.uri, .writers = 1, .shards = 2};
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        if (store_open(&client, &config, &why) != 0)
            _exit(1);
        acked = store_put_runs(&client, 0, 1, 2, 10);
        if (write(ends[1], &acked, sizeof(acked)) != sizeof(acked))
            _exit(1);
        for (;;)
            (void)pause();
    }
    assert_int_equal(read(ends[0], &acked, sizeof(acked)), sizeof(acked));
    assert_int_equal(acked, 2);
    for (unsigned i = 0; i < 3; i++) {
        config.mode = modes[i];
        assert_int_equal(store_open(&client, &config, &why), -EBUSY);
        assert_non_null(strstr(why.text, "in use by another process"));
        assert_non_null(strstr(why.text, place.path));
    }
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    for (unsigned i = 0; i < 3; i++) {
        config.mode = modes[i];
        store_must_open(&client, &config);
        store_close(&client);
    }
    (void)close(ends[0]);
    (void)close(ends[1]);
    store_place_remove(&place);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_come_back_whatever_the_key_and_the_shards),
        cmocka_unit_test(a_scan_shows_the_kinds_that_are_asked_for),
        cmocka_unit_test(what_is_there_is_compared),
        cmocka_unit_test(batches_of_two_writers_are_one_transaction),
        cmocka_unit_test(what_is_queued_is_forgotten_with_its_writer),
        cmocka_unit_test(the_wal_stays_within_its_bound),
        cmocka_unit_test(the_largest_payload_is_taken),
        cmocka_unit_test(acked_records_survive_a_kill),
        cmocka_unit_test(another_process_has_the_store),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
