/* The Postgres store beside a server: its schema and campaigns, who may write, levels, keys, the
 * slow path. Reading is test_journal_postgres_reading.c's; what happens when the server goes away,
 * test_journal_postgres_faults.c's; what the contract asks of every store, test_journal.c's. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "journal/backend.h"
#include "tests/lib/pg_fixture.h"

/* --- the schema --- */

static void the_first_use_makes_the_schema(void **state)
{
    (void)state;
    struct pg_fixture fixture;
    struct pg_journal opened;
    pg_fixture_open(&fixture);
    struct journal_config config = pg_config(&fixture);
    config.description = "{\"it's\": \"a \\\\ shape\"}";
    for (unsigned i = 1; i <= 2; i++) {
        assert_int_equal(pg_journal_open(&opened, &config), 0);
        assert_int_equal(journal_campaign(opened.journal)->id, i);
        assert_int_equal(journal_durability(opened.journal), DURABILITY_POWER);
        assert_string_equal(journal_name(opened.journal), "postgres");
        assert_int_equal(pg_put(&opened, 5, 0, "{\"text\": \"grüße\"}"), JOURNAL_ACKED);
        pg_journal_close(&opened);
    }
    assert_string_equal(
        pg_ask(fixture.admin, "SELECT description FROM bench.campaigns WHERE id = 2"),
        config.description);
    assert_string_equal(pg_ask(fixture.admin, "SELECT concat_ws(' ', campaign, run, seq, kind, "
                                              "payload::jsonb ->> 'text') FROM bench.journal "
                                              "WHERE campaign = 2"),
                        "2 5 0 model grüße");
    pg_fixture_close(&fixture);
}

struct opener {
    struct pg_journal opened;
    const struct journal_config *config;
    int error;
};

static void *open_journal(void *arg)
{
    struct opener *opener = arg;
    struct pg_journal *opened = &opener->opened;
    opener->error = journal_open(&opened->journal, opener->config, &opened->why);
    return NULL;
}

/* Whoever comes first makes it, the others use it. */
static void many_may_be_the_first(void **state)
{
    (void)state;
    enum { COUNT = 6 };
    struct pg_fixture fixture;
    pthread_t threads[COUNT];
    struct opener openers[COUNT];
    pg_fixture_open(&fixture);
    struct journal_config config = pg_config(&fixture);
    for (unsigned i = 0; i < COUNT; i++) {
        openers[i] = (struct opener){.config = &config};
        assert_int_equal(pthread_create(&threads[i], NULL, open_journal, &openers[i]), 0);
    }
    for (unsigned i = 0; i < COUNT; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        if (openers[i].error != 0)
            fail_msg("%s", openers[i].opened.why.text);
        pg_journal_close(&openers[i].opened);
    }
    assert_int_equal(pg_ask_number(fixture.admin, "SELECT count(DISTINCT id) FROM bench.campaigns"),
                     COUNT);
    pg_fixture_close(&fixture);
}

static void what_is_not_ours_is_left_alone(void **state)
{
    (void)state;
    static const struct {
        const char *sql;
        const char *text;
    } cases[] = {
        {"CREATE SCHEMA bench", "not this bench's"},
        {"CREATE TABLE bench.meta (version integer)", "not this bench's"},
        {"ALTER TABLE bench.meta ADD format text", "not this bench's"},
        {"INSERT INTO bench.meta VALUES (3, 'other')", "not this bench's"},
        {"INSERT INTO bench.meta VALUES (77, 'bench.journal')",
         "schema bench has version 77, this bench knows 1"},
    };
    struct pg_fixture fixture;
    pg_fixture_open(&fixture);
    for (enum journal_mode mode = JOURNAL_RESUME; mode <= JOURNAL_AUDIT; mode++)
        pg_expect_refusal(&fixture, mode, "the database has no journal of bench");
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        (void)pg_ask(fixture.admin, "%s", cases[i].sql);
        for (enum journal_mode mode = JOURNAL_NEW; mode <= JOURNAL_AUDIT; mode++)
            pg_expect_refusal(&fixture, mode, cases[i].text);
        assert_true(pg_ask_number(fixture.admin, "SELECT count(*) FROM pg_class WHERE "
                                                 "relnamespace = 'bench'::regnamespace") <= 1);
    }
    pg_fixture_close(&fixture);
}

static void altered_tables_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *alter;
        const char *undo;
        const char *table;
    } cases[] = {
        {"ALTER TABLE bench.records_seq DROP CONSTRAINT records_seq_pkey",
         "ALTER TABLE bench.records_seq ADD PRIMARY KEY (run, seq)", "bench.records_seq"},
        {"ALTER TABLE bench.records_uuid SET UNLOGGED", "ALTER TABLE bench.records_uuid SET LOGGED",
         "bench.records_uuid"},
        {"ALTER TABLE bench.records_seq_unlogged RENAME digest TO sum",
         "ALTER TABLE bench.records_seq_unlogged RENAME sum TO digest",
         "bench.records_seq_unlogged"},
        {"ALTER TABLE bench.campaigns ALTER id TYPE bigint",
         "ALTER TABLE bench.campaigns ALTER id TYPE integer", "bench.campaigns"},
        {"ALTER TABLE bench.records_uuid_unlogged RENAME TO gone",
         "ALTER TABLE bench.gone RENAME TO records_uuid_unlogged", "bench.records_uuid_unlogged"},
    };
    struct pg_fixture fixture;
    struct pg_journal opened;
    char text[128];
    pg_fixture_open(&fixture);
    struct journal_config config = pg_config(&fixture);
    assert_int_equal(pg_journal_open(&opened, &config), 0);
    pg_journal_close(&opened);
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        (void)pg_ask(fixture.admin, "%s", cases[i].alter);
        (void)snprintf(text, sizeof(text), "table %s is not as bench makes it", cases[i].table);
        for (enum journal_mode mode = JOURNAL_NEW; mode <= JOURNAL_AUDIT; mode++)
            pg_expect_refusal(&fixture, mode, text);
        (void)pg_ask(fixture.admin, "%s", cases[i].undo);
    }
    /* What somebody has added is in nobody's way. */
    (void)pg_ask(fixture.admin, "ALTER TABLE bench.records_seq ADD seen timestamptz DEFAULT now()");
    assert_int_equal(pg_journal_open(&opened, &config), 0);
    assert_int_equal(pg_put(&opened, 1, 0, "x"), JOURNAL_ACKED);
    pg_journal_close(&opened);
    pg_fixture_close(&fixture);
}

/* --- who may, and what the server says when not --- */

/* The fixture by the name of a role that is called as its database. */
static struct pg_fixture as_its_role(const struct pg_fixture *fixture)
{
    struct pg_fixture other = *fixture;
    assert_true(snprintf(other.uri, sizeof(other.uri), "%s&user=%s", fixture->uri,
                         fixture->database) < (int)sizeof(other.uri));
    return other;
}

static void refusals_of_the_server_are_clear(void **state)
{
    (void)state;
    struct pg_fixture fixture;
    struct pg_fixture other;
    pg_fixture_open(&fixture);
    other = fixture;
    assert_true(snprintf(other.uri, sizeof(other.uri), "%s&dbname=bench_no_such&password=s3cr3t",
                         fixture.uri) < (int)sizeof(other.uri));
    pg_expect_refusal(&other, JOURNAL_NEW,
                      "cannot connect to the server: database \"bench_no_such\" does not exist "
                      "(SQLSTATE 3D000)");
    (void)pg_ask(fixture.admin, "CREATE ROLE %s LOGIN CONNECTION LIMIT 2", fixture.database);
    (void)pg_ask(fixture.admin, "GRANT CREATE ON DATABASE %s TO %s", fixture.database,
                 fixture.database);
    other = as_its_role(&fixture);
    pg_expect_refusal(&other, JOURNAL_NEW, "too many connections for role");
    assert_int_equal(pg_ask_number(fixture.admin,
                                   "SELECT count(*) FROM pg_stat_activity WHERE "
                                   "usename = '%s' AND false",
                                   fixture.database),
                     0);
    (void)pg_ask(fixture.admin, "ALTER ROLE %s CONNECTION LIMIT -1", fixture.database);
    (void)pg_ask(fixture.admin, "ALTER SCHEMA bench OWNER TO current_user");
    (void)pg_ask(fixture.admin, "REASSIGN OWNED BY %s TO current_user", fixture.database);
    (void)pg_ask(fixture.admin, "DROP OWNED BY %s", fixture.database);
    pg_expect_refusal(&other, JOURNAL_NEW, "permission denied");
    (void)pg_ask(fixture.admin, "ALTER DATABASE %s SET default_transaction_read_only = on",
                 fixture.database);
    pg_expect_refusal(&fixture, JOURNAL_NEW, "read-only");
    pg_expect_refusal(&fixture, JOURNAL_RESUME, "read-only");
    (void)pg_ask(fixture.server, "DROP ROLE %s", fixture.database);
    pg_fixture_close(&fixture);
}

/* An audit that a policy shows less than there is would find nothing wrong. */
static void hidden_rows_are_no_absent_rows(void **state)
{
    (void)state;
    struct pg_fixture fixture;
    struct pg_fixture other;
    struct pg_journal opened;
    pg_fixture_open(&fixture);
    struct journal_config config = pg_config(&fixture);
    assert_int_equal(pg_journal_open(&opened, &config), 0);
    assert_int_equal(pg_put(&opened, 1, 0, "x"), JOURNAL_ACKED);
    pg_journal_close(&opened);
    (void)pg_ask(fixture.admin, "CREATE ROLE %s LOGIN", fixture.database);
    (void)pg_ask(fixture.admin, "GRANT USAGE ON SCHEMA bench TO %s", fixture.database);
    (void)pg_ask(fixture.admin, "GRANT SELECT ON ALL TABLES IN SCHEMA bench TO %s",
                 fixture.database);
    other = as_its_role(&fixture);
    config = pg_config(&other);
    config.mode = JOURNAL_AUDIT;
    assert_int_equal(pg_journal_open(&opened, &config), 0);
    assert_int_equal(pg_count_scanned(opened.journal, 1), 1);
    pg_journal_close(&opened);
    (void)pg_ask(fixture.admin, "ALTER TABLE bench.records_seq ENABLE ROW LEVEL SECURITY");
    assert_int_equal(pg_journal_open(&opened, &config), 0);
    struct journal_count count = {0};
    assert_true(journal_scan(opened.journal, 1, 0, UINT32_MAX, journal_count_record, &count,
                             &opened.why) < 0);
    assert_non_null(strstr(opened.why.text, "row-level security"));
    assert_int_equal(count.records, 0);
    pg_journal_close(&opened);
    (void)pg_ask(fixture.admin, "DROP OWNED BY %s", fixture.database);
    (void)pg_ask(fixture.server, "DROP ROLE %s", fixture.database);
    pg_fixture_close(&fixture);
}

/* Who has begun a transaction and gone to lunch. */
static void a_lock_of_others_is_not_waited_for_without_end(void **state)
{
    (void)state;
    struct pg_fixture fixture;
    struct pg_journal opened;
    pg_fixture_open(&fixture);
    struct journal_config config = pg_config(&fixture);
    assert_int_equal(pg_journal_open(&opened, &config), 0);
    pg_journal_close(&opened);
    (void)pg_ask(fixture.admin, "BEGIN; LOCK TABLE bench.campaigns IN SHARE MODE");
    pg_expect_refusal(
        &fixture, JOURNAL_NEW,
        "another session keeps a table of schema bench locked: canceling statement due "
        "to lock timeout (SQLSTATE 55P03)");
    (void)pg_ask(fixture.admin, "ROLLBACK");
    pg_fixture_close(&fixture);
}

static void a_campaign_has_one_owner(void **state)
{
    (void)state;
    struct pg_fixture fixture;
    struct pg_journal first;
    struct pg_journal second;
    pg_fixture_open(&fixture);
    struct journal_config config = pg_config(&fixture);
    assert_int_equal(pg_journal_open(&first, &config), 0);
    assert_int_equal(pg_put(&first, 1, 0, "first"), JOURNAL_ACKED);
    pg_expect_refusal(&fixture, JOURNAL_RESUME, "campaign 1 is in use by another process");
    struct journal_config audit = config;
    struct errmsg why;
    unsigned visits = 0;
    audit.mode = JOURNAL_AUDIT;
    assert_int_equal(pg_journal_open(&second, &audit), 0);
    assert_int_equal(journal_scan(second.journal, 1, 0, UINT32_MAX, NULL, &visits, &why), -EBUSY);
    assert_string_equal(why.text, "campaign 1 is in use by another process");
    /* Another campaign is nobody's. */
    config.mode = JOURNAL_NEW;
    struct pg_journal third;
    assert_int_equal(pg_journal_open(&third, &config), 0);
    assert_int_equal(journal_campaign(third.journal)->id, 2);
    pg_journal_close(&third);
    pg_journal_close(&first);
    assert_int_equal(pg_count_scanned(second.journal, 1), 1);
    assert_int_equal(pg_count_scanned(second.journal, 2), 0);
    assert_int_equal(journal_scan(second.journal, 3, 0, UINT32_MAX, NULL, &visits, &why), -ENOENT);
    assert_string_equal(why.text, "there is no campaign 3");
    assert_null(journal_campaign(second.journal));
    pg_journal_close(&second);
    pg_fixture_close(&fixture);
}

static int visit_campaign(void *arg, const struct journal_campaign *campaign)
{
    uint64_t *ids = arg;
    ids[campaign->id - 1] = campaign->created_unix_ms;
    return campaign->id == 2 ? 42 : 0;
}

static void a_campaign_is_resumed_at_its_level(void **state)
{
    (void)state;
    struct pg_fixture fixture;
    struct pg_journal opened;
    uint64_t created[3] = {0, 0, 0};
    pg_fixture_open(&fixture);
    struct journal_config config = pg_config(&fixture);
    for (enum durability level = DURABILITY_NONE; level <= DURABILITY_POWER; level++) {
        config.durability = level;
        assert_int_equal(pg_journal_open(&opened, &config), 0);
        assert_int_equal(pg_put(&opened, 1, 0, "begun"), JOURNAL_ACKED);
        pg_journal_close(&opened);
    }
    assert_string_equal(
        pg_ask(fixture.admin,
               "SELECT string_agg(relpersistence::text || count::text, ' ' ORDER BY relname) "
               "FROM (SELECT relname, relpersistence, CASE relname WHEN 'records_seq' "
               "THEN (SELECT count(*) FROM bench.records_seq) ELSE (SELECT count(*) FROM "
               "bench.records_seq_unlogged) END AS count FROM pg_class WHERE relname "
               "LIKE 'records_seq%%' AND relkind = 'r') t"),
        "p2 u1");
    config.mode = JOURNAL_RESUME;
    for (enum durability level = DURABILITY_NONE; level <= DURABILITY_POWER; level++) {
        config.durability = DURABILITY_DEFAULT;
        config.campaign = level;
        assert_int_equal(pg_journal_open(&opened, &config), 0);
        assert_int_equal(journal_durability(opened.journal), level);
        assert_int_equal(journal_campaign(opened.journal)->durability, level);
        assert_int_equal(pg_put(&opened, 1, 1, "resumed"), JOURNAL_ACKED);
        assert_int_equal(pg_put(&opened, 1, 3, "gap"), JOURNAL_GAP);
        assert_int_equal(journal_list(opened.journal, visit_campaign, created, &opened.why), 42);
        pg_journal_close(&opened);
    }
    assert_true(created[0] > 0 && created[1] >= created[0] && created[2] == 0);
    config.campaign = 0;
    config.durability = DURABILITY_NONE;
    assert_int_equal(pg_journal_open(&opened, &config), 0);
    assert_int_equal(journal_campaign(opened.journal)->id, 3);
    assert_int_equal(journal_durability(opened.journal), DURABILITY_NONE);
    pg_journal_close(&opened);
    config.campaign = 1;
    config.durability = DURABILITY_PROCESS;
    assert_int_equal(pg_journal_open(&opened, &config), -EINVAL);
    assert_non_null(strstr(opened.why.text, "begun at durability none"));
    config.campaign = 9;
    assert_int_equal(pg_journal_open(&opened, &config), -ENOENT);
    config.campaign = UINT64_MAX;
    assert_int_equal(pg_journal_open(&opened, &config), -ENOENT);
    pg_fixture_close(&fixture);
}

static void sessions_wait_for_the_wal_at_level_power_only(void **state)
{
    (void)state;
    struct pg_fixture fixture;
    struct pg_journal opened;
    pg_fixture_open(&fixture);
    struct journal_config config = pg_config(&fixture);
    (void)pg_ask(fixture.admin, "ALTER DATABASE %s SET synchronous_commit = off", fixture.database);
    for (enum durability level = DURABILITY_NONE; level <= DURABILITY_POWER; level++) {
        config.durability = level;
        assert_int_equal(pg_journal_open(&opened, &config), 0);
        /* What only a session knows of itself, it tells through a trigger. */
        const char *table = level == DURABILITY_NONE ? "records_seq_unlogged" : "records_seq";
        if (level == DURABILITY_NONE)
            (void)pg_ask(fixture.admin, "CREATE TABLE public.seen (setting text)");
        (void)pg_ask(fixture.admin,
                     "TRUNCATE public.seen; CREATE OR REPLACE FUNCTION public.look() RETURNS "
                     "trigger LANGUAGE "
                     "plpgsql AS $$BEGIN INSERT INTO public.seen VALUES "
                     "(current_setting('synchronous_commit')); RETURN NEW; END$$; "
                     "CREATE OR REPLACE TRIGGER look AFTER INSERT ON bench.%s FOR EACH STATEMENT "
                     "EXECUTE FUNCTION public.look()",
                     table);
        assert_int_equal(pg_put(&opened, 1, 0, "x"), JOURNAL_ACKED);
        assert_string_equal(pg_ask(fixture.admin, "SELECT setting FROM public.seen"),
                            level == DURABILITY_POWER ? "on" : "off");
        pg_journal_close(&opened);
    }
    pg_fixture_close(&fixture);
}

/* --- keys --- */

static int check_visit(void *arg, const struct journal_record *record)
{
    uint64_t *expected = arg;
    assert_int_equal(record->run, *expected / 4);
    assert_int_equal(record->seq, *expected % 4);
    assert_int_equal(record->bytes, 3);
    assert_memory_equal(record->payload, "abc", 3);
    assert_int_equal(record->kind, RECORD_MODEL);
    (*expected)++;
    return 0;
}

static void runs_go_by_any_key(void **state)
{
    (void)state;
    enum { RUNS = 50 };
    struct pg_fixture fixture;
    struct pg_journal opened;
    struct pg_note notes[4 * RUNS];
    uint64_t runs[RUNS + 1];
    pg_fixture_open(&fixture);
    struct journal_config config = pg_config(&fixture);
    for (unsigned i = 0; i < 2 * RUN_KEY_COUNT; i++) {
        config.key = (enum run_key_kind)(i % RUN_KEY_COUNT);
        assert_int_equal(pg_journal_open(&opened, &config), 0);
        assert_int_equal(journal_campaign(opened.journal)->key, config.key);
        for (unsigned k = 0; k < 4 * RUNS; k++)
            pg_note_append(&opened, &notes[k], k % RUNS, k / RUNS, "abc");
        assert_true(pg_settle(&opened, 20000));
        for (unsigned k = 0; k < 4 * RUNS; k++)
            assert_int_equal(notes[k].result, JOURNAL_ACKED);
        assert_int_equal(pg_put(&opened, 3, 1, "abc"), JOURNAL_ACKED);
        assert_int_equal(pg_put(&opened, 3, 1, "other"), JOURNAL_CONFLICT);
        assert_int_equal(pg_put(&opened, RUNS, 1, "gap"), JOURNAL_GAP);
        uint64_t expected = 0;
        for (unsigned k = 0; k <= RUNS; k++)
            runs[k] = k;
        assert_int_equal(journal_read_runs(opened.journal, 0, runs, RUNS + 1, check_visit,
                                           &expected, &opened.why),
                         0);
        assert_int_equal(expected, 4 * RUNS);
        assert_int_equal(pg_count_scanned(opened.journal, i + 1), 4 * RUNS);
        struct journal_count count = {0};
        assert_int_equal(journal_count(opened.journal, 0, &count, &opened.why), 0);
        assert_int_equal(count.records, 4 * RUNS);
        assert_int_equal(count.bytes, 3 * 4 * RUNS);
        assert_int_equal(count.begins + count.ends, 0);
        struct journal_record record;
        assert_int_equal(journal_read(opened.writer, RUNS - 1, 3, &record), 0);
        assert_int_equal(record.digest, notes[4 * RUNS - 1].append.digest);
        assert_int_equal(journal_read(opened.writer, RUNS - 1, 4, &record), -ENOENT);
        pg_journal_close(&opened);
    }
    pg_fixture_close(&fixture);
}

/* --- the slow path --- */

/* What is there already, what is there differently, what is new, what is twice in the batch, and
 * what has no predecessor, all in one batch. */
static void a_batch_that_is_there_in_part_is_taken_apart(void **state)
{
    (void)state;
    static const struct {
        uint64_t run;
        uint32_t seq;
        const char *payload;
        int result;
    } cases[] = {
        {1, 0, "there", JOURNAL_ACKED},    {1, 1, "new", JOURNAL_ACKED},
        {2, 0, "other", JOURNAL_CONFLICT}, {2, 1, "on that", JOURNAL_GAP},
        {3, 0, "new", JOURNAL_ACKED},      {3, 0, "new", JOURNAL_ACKED},
        {3, 0, "newer", JOURNAL_CONFLICT}, {3, 1, "on that", JOURNAL_GAP},
        {4, 1, "nothing", JOURNAL_GAP},    {4, 0, "late", JOURNAL_GAP},
        {5, 0, "", JOURNAL_ACKED},         {5, 1, "a", JOURNAL_ACKED},
        {5, 2, "b", JOURNAL_ACKED},        {5, 4, "d", JOURNAL_GAP},
    };
    enum { CASES = sizeof(cases) / sizeof(cases[0]) };
    struct pg_fixture fixture;
    struct pg_journal opened;
    struct pg_note notes[CASES];
    pg_fixture_open(&fixture);
    struct journal_config config = pg_config(&fixture);
    config.connections = 1;
    assert_int_equal(pg_journal_open(&opened, &config), 0);
    assert_int_equal(pg_put(&opened, 1, 0, "there"), JOURNAL_ACKED);
    assert_int_equal(pg_put(&opened, 2, 0, "there"), JOURNAL_ACKED);
    for (unsigned i = 0; i < CASES; i++)
        pg_note_append(&opened, &notes[i], cases[i].run, cases[i].seq, cases[i].payload);
    assert_true(pg_settle(&opened, 20000));
    for (unsigned i = 0; i < CASES; i++)
        if (notes[i].result != cases[i].result)
            fail_msg("run %d seq %u \"%s\": %s", (int)cases[i].run, cases[i].seq, cases[i].payload,
                     journal_strerror(notes[i].result));
    assert_int_equal(pg_count_scanned(opened.journal, 1), 7);
    assert_false(journal_has_failed(opened.journal, &opened.why));
    pg_journal_close(&opened);
    pg_fixture_close(&fixture);
}

static int stop_visit(void *arg, const struct journal_record *record)
{
    (void)record;
    return ++*(unsigned *)arg == 10 ? 42 : 0;
}

/* More than one statement takes; and a reader that has enough of it. */
static void large_batches_go_in_pieces(void **state)
{
    (void)state;
    enum { COUNT = 60, BYTES = 300000 };
    struct pg_fixture fixture;
    struct pg_journal opened;
    struct pg_note notes[COUNT];
    struct journal_io io;
    pg_fixture_open(&fixture);
    struct journal_config config = pg_config(&fixture);
    config.connections = 1;
    config.durability = DURABILITY_NONE;
    char *payload = malloc(BYTES + 1);
    assert_non_null(payload);
    memset(payload, 'p', BYTES);
    payload[BYTES] = '\0';
    assert_int_equal(pg_journal_open(&opened, &config), 0);
    for (unsigned i = 0; i < COUNT; i++)
        pg_note_append(&opened, &notes[i], i / 2, i % 2, payload);
    assert_true(pg_settle(&opened, 20000));
    for (unsigned i = 0; i < COUNT; i++)
        assert_int_equal(notes[i].result, JOURNAL_ACKED);
    journal_io(opened.journal, &io);
    assert_true(io.commits >= COUNT / 3 && io.commits <= COUNT);
    assert_true(io.commit_ns > 0 && io.is_servers);
    assert_true(io.store_bytes > (uint64_t)COUNT * BYTES);
    assert_true(io.wal_bytes != JOURNAL_NOT_KNOWN && io.syncs != JOURNAL_NOT_KNOWN);
    assert_true(io.db_bytes == io.store_bytes && io.checkpoints == JOURNAL_NOT_KNOWN);
    unsigned count = 0;
    assert_int_equal(
        journal_scan(opened.journal, 1, 0, UINT32_MAX, stop_visit, &count, &opened.why), 42);
    assert_int_equal(count, 10);
    assert_int_equal(pg_count_scanned(opened.journal, 1), COUNT);
    pg_journal_close(&opened);
    free(payload);
    pg_fixture_close(&fixture);
}

/* Sessions keep their figures to themselves for seconds, unless they are told to hand them in. */
static void every_sync_is_counted(void **state)
{
    (void)state;
    enum { RECORDS = 25 };
    struct pg_fixture fixture;
    struct pg_journal opened;
    struct journal_io before;
    struct journal_io io;
    pg_fixture_open(&fixture);
    struct journal_config config = pg_config(&fixture);
    assert_int_equal(pg_journal_open(&opened, &config), 0);
    journal_io(opened.journal, &before);
    for (unsigned i = 0; i < RECORDS; i++)
        assert_int_equal(pg_put(&opened, i, 0, "synced"), JOURNAL_ACKED);
    journal_io(opened.journal, &io);
    assert_int_equal(io.commits, RECORDS);
    assert_true(io.syncs - before.syncs >= RECORDS);
    assert_true(io.wal_bytes - before.wal_bytes >= RECORDS * 100);
    assert_int_equal(pg_put(&opened, 0, 1, "goes on"), JOURNAL_ACKED);
    pg_journal_close(&opened);
    pg_fixture_close(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_use_makes_the_schema),
        cmocka_unit_test(many_may_be_the_first),
        cmocka_unit_test(what_is_not_ours_is_left_alone),
        cmocka_unit_test(altered_tables_are_refused),
        cmocka_unit_test(refusals_of_the_server_are_clear),
        cmocka_unit_test(hidden_rows_are_no_absent_rows),
        cmocka_unit_test(a_lock_of_others_is_not_waited_for_without_end),
        cmocka_unit_test(a_campaign_has_one_owner),
        cmocka_unit_test(a_campaign_is_resumed_at_its_level),
        cmocka_unit_test(sessions_wait_for_the_wal_at_level_power_only),
        cmocka_unit_test(runs_go_by_any_key),
        cmocka_unit_test(a_batch_that_is_there_in_part_is_taken_apart),
        cmocka_unit_test(large_batches_go_in_pieces),
        cmocka_unit_test(every_sync_is_counted),
    };
    if (!pg_fixture_is_possible())
        return PG_SKIPPED;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
