/* Reading a Postgres store: audits and what goes on beside them, all campaigns together, rows that
 * nobody of this program has written, and what people see with psql. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/pg_fixture.h"

/* Audits keep writers out, and not each other; writers keep audits out, and not each other. */
static void audits_go_side_by_side(void **state)
{
    (void)state;
    struct pg_fixture fixture;
    struct pg_journal opened;
    struct pg_journal audits[2];
    pg_fixture_open(&fixture);
    struct journal_config config = pg_config(&fixture);
    assert_int_equal(pg_journal_open(&opened, &config), 0);
    assert_int_equal(pg_put(&opened, 1, 0, "x"), JOURNAL_ACKED);
    pg_journal_close(&opened);
    (void)pg_ask(fixture.admin, "CREATE TEMPORARY TABLE before AS TABLE bench.campaigns");
    config.mode = JOURNAL_AUDIT;
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(pg_journal_open(&audits[i], &config), 0);
        assert_int_equal(pg_count_scanned(audits[i].journal, i), 1);
    }
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(pg_count_scanned(audits[i].journal, 1 - i), 1);
        pg_expect_refusal(&fixture, JOURNAL_RESUME, "campaign 1 is in use by another process");
        assert_int_equal(pg_ask_number(fixture.admin,
                                       "SELECT count(DISTINCT epoch) FROM "
                                       "(TABLE bench.campaigns UNION TABLE before) t"),
                         1);
        pg_journal_close(&audits[i]);
    }
    config.mode = JOURNAL_RESUME;
    assert_int_equal(pg_journal_open(&opened, &config), 0);
    pg_journal_close(&opened);
    pg_fixture_close(&fixture);
}

static int kinds_visit(void *arg, const struct journal_record *record)
{
    *(uint64_t *)arg = *(uint64_t *)arg * 100 + record->kind;
    return 0;
}

static int sum_visit(void *arg, const struct journal_record *record)
{
    uint64_t *sums = arg;
    sums[record->campaign] += record->run + 1;
    return 0;
}

static int scan_all(struct journal *journal, uint64_t *sums, struct errmsg *why)
{
    memset(sums, 0, 8 * sizeof(sums[0]));
    return journal_scan(journal, 0, 0, UINT32_MAX, sum_visit, sums, why);
}

/* Whatever tables they are in; and a row that nobody can have written is told of. */
static void all_campaigns_are_read_together(void **state)
{
    (void)state;
    enum { CAMPAIGNS = 6 };
    struct pg_fixture fixture;
    struct pg_journal opened[2];
    uint64_t sums[8];
    pg_fixture_open(&fixture);
    struct journal_config config = pg_config(&fixture);
    struct journal_config audit = config;
    audit.mode = JOURNAL_AUDIT;
    for (unsigned i = 0; i < CAMPAIGNS; i++) {
        config.key = (enum run_key_kind)(i % RUN_KEY_COUNT);
        config.durability = i < RUN_KEY_COUNT ? DURABILITY_POWER : DURABILITY_NONE;
        assert_int_equal(pg_journal_open(&opened[0], &config), 0);
        for (unsigned run = 0; run < 3; run++)
            assert_int_equal(pg_put(&opened[0], 10 * i + run, 0, "x"), JOURNAL_ACKED);
        if (i + 1 < CAMPAIGNS)
            pg_journal_close(&opened[0]);
    }
    assert_int_equal(pg_journal_open(&opened[1], &audit), 0);
    assert_int_equal(scan_all(opened[1].journal, sums, &opened[1].why), -EBUSY);
    assert_string_equal(opened[1].why.text, "campaign 6 is in use by another process");
    pg_journal_close(&opened[0]);
    for (unsigned twice = 0; twice < 2; twice++) {
        assert_int_equal(scan_all(opened[1].journal, sums, &opened[1].why), 0);
        for (unsigned i = 0; i < CAMPAIGNS; i++)
            assert_int_equal(sums[i + 1], 30 * i + 6);
        assert_int_equal(pg_count_scanned(opened[1].journal, 5), 3);
    }
    pg_expect_refusal(&fixture, JOURNAL_RESUME, "campaign 6 is in use by another process");
    static const char *const strangers[] = {
        "seq VALUES (-1", "uuid VALUES (gen_random_uuid()",
        "uuid_unlogged VALUES ('00000000-0000-7000-8000-000000000000'"};
    for (unsigned i = 0; i < 3; i++) {
        (void)pg_ask(fixture.admin, "INSERT INTO bench.records_%s, 0, 0, 1, '')", strangers[i]);
        assert_int_equal(scan_all(opened[1].journal, sums, &opened[1].why), -EBADMSG);
        assert_non_null(strstr(opened[1].why.text, "has a key that is none of bench's"));
        assert_int_equal(pg_count_scanned(opened[1].journal, 2), 3);
        (void)pg_ask(fixture.admin, "DELETE FROM bench.records_seq WHERE run < 0");
        (void)pg_ask(fixture.admin, "DELETE FROM bench.records_uuid WHERE digest = 0");
    }
    pg_journal_close(&opened[1]);
    pg_fixture_close(&fixture);
}

/* Begins campaigns while the rows of the first are read. */
struct beginner {
    const struct pg_fixture *fixture;
    struct pg_journal opened[2];
    unsigned begun;
    unsigned visits;
};

static void begin_one(struct beginner *beginner)
{
    struct pg_journal *opened = &beginner->opened[beginner->begun];
    struct journal_config config = pg_config(beginner->fixture);
    config.key = beginner->begun++ == 0 ? RUN_KEY_SEQ : RUN_KEY_UUIDV4;
    assert_int_equal(pg_journal_open(opened, &config), 0);
    assert_int_equal(pg_put(opened, 1, 0, "begun meanwhile"), JOURNAL_ACKED);
}

static int begin_visit(void *arg, const struct journal_record *record)
{
    struct beginner *beginner = arg;
    assert_int_equal(record->campaign, 1);
    beginner->visits++;
    if (beginner->begun < 2)
        begin_one(beginner);
    return 0;
}

static int count_campaigns(void *arg, const struct journal_campaign *campaign)
{
    (void)campaign;
    ++*(unsigned *)arg;
    return 0;
}

/* What an audit is about is decided when it begins; what begins meanwhile is no fault, and in no
 * way. */
static void campaigns_that_begin_meanwhile_are_no_part_of_an_audit(void **state)
{
    (void)state;
    struct pg_fixture fixture;
    struct pg_journal opened;
    unsigned campaigns = 0;
    pg_fixture_open(&fixture);
    struct beginner beginner = {.fixture = &fixture};
    struct journal_config config = pg_config(&fixture);
    assert_int_equal(pg_journal_open(&opened, &config), 0);
    assert_int_equal(pg_put(&opened, 1, 0, "x"), JOURNAL_ACKED);
    pg_journal_close(&opened);
    config.mode = JOURNAL_AUDIT;
    assert_int_equal(pg_journal_open(&opened, &config), 0);
    assert_int_equal(journal_list(opened.journal, count_campaigns, &campaigns, &opened.why), 0);
    begin_one(&beginner);
    for (unsigned i = 1; i <= 2; i++) {
        int error =
            journal_scan(opened.journal, 0, 0, UINT32_MAX, begin_visit, &beginner, &opened.why);
        if (error != 0)
            fail_msg("scan: %s", opened.why.text);
        assert_int_equal(beginner.visits, i);
    }
    assert_int_equal(journal_list(opened.journal, count_campaigns, &campaigns, &opened.why), 0);
    assert_int_equal(campaigns, 2);
    pg_journal_close(&opened);
    for (unsigned i = 0; i < 2; i++)
        pg_journal_close(&beginner.opened[i]);
    pg_fixture_close(&fixture);
}

/* One that is no text spoils neither the view nor its neighbours. */
static void people_see_any_payload(void **state)
{
    (void)state;
    struct pg_fixture fixture;
    struct pg_journal opened;
    pg_fixture_open(&fixture);
    struct journal_config config = pg_config(&fixture);
    assert_int_equal(pg_journal_open(&opened, &config), 0);
    assert_int_equal(pg_put(&opened, 1, 0, "grüße"), JOURNAL_ACKED);
    assert_int_equal(pg_put(&opened, 2, 0, "\xff\x01 is \\ no text"), JOURNAL_ACKED);
    (void)pg_ask(fixture.admin, "INSERT INTO bench.records_seq VALUES ((1::bigint << 40) + 3, 0, "
                                "0, 1, '\\x610062')");
    assert_string_equal(pg_ask(fixture.admin, "SELECT string_agg(payload, '|' ORDER BY run) FROM "
                                              "bench.journal"),
                        "grüße|\\377\x01 is \\\\ no text|a\\000b");
    pg_journal_close(&opened);
    pg_fixture_close(&fixture);
}

/* What others have written into the tables is shown as it is, and never believed. */
static void strange_rows_are_shown(void **state)
{
    (void)state;
    struct pg_fixture fixture;
    struct pg_journal opened;
    uint64_t kinds = 0;
    pg_fixture_open(&fixture);
    struct journal_config config = pg_config(&fixture);
    assert_int_equal(pg_journal_open(&opened, &config), 0);
    (void)pg_ask(
        fixture.admin,
        "INSERT INTO bench.records_seq SELECT (1::bigint << 40) + 7, -1, seq, kind, '' FROM "
        "unnest(ARRAY[-5, 0, 2, 3, 4], ARRAY[1, 2, 5, 77, 31]) AS r(seq, kind)");
    uint32_t wanted = 1u << RECORD_BEGIN | 1u << RECORD_END;
    assert_int_equal(journal_scan(opened.journal, 1, 0, wanted, kinds_visit, &kinds, &opened.why),
                     0);
    assert_int_equal(kinds, 105);
    assert_int_equal(pg_count_scanned(opened.journal, 1), 5);
    assert_int_equal(pg_ask_number(fixture.admin, "SELECT count(*) FROM bench.journal"), 5);
    pg_journal_close(&opened);

    config.mode = JOURNAL_RESUME;
    (void)pg_ask(fixture.admin, "UPDATE bench.campaigns SET description = repeat('x', 65537)");
    assert_int_equal(pg_journal_open(&opened, &config), 0);
    assert_string_equal(journal_campaign(opened.journal)->description, "{}");
    pg_journal_close(&opened);
    static const char *const damages[] = {"key = 9", "key = -1", "key = 0, durability = 4",
                                          "durability = 0", "durability = 3, id = 8388608"};
    for (unsigned i = 0; i < sizeof(damages) / sizeof(damages[0]); i++) {
        (void)pg_ask(fixture.admin, "UPDATE bench.campaigns SET %s", damages[i]);
        pg_expect_refusal(&fixture, JOURNAL_RESUME, "is damaged");
    }
    pg_expect_refusal(&fixture, JOURNAL_NEW, "no room for another campaign");
    pg_fixture_close(&fixture);
}

/* --- a connection that is lost on the way --- */

enum { LONG_RUNS = 20, LONG_RECORDS = 10, LONG_BYTES = 100000, ENDINGS = 3 };

/* Ends the session that reads, a few times; and holds rows against their order. */
struct ender {
    const struct pg_fixture *fixture;
    unsigned visits;
    unsigned endings;
};

static int end_visit(void *arg, const struct journal_record *record)
{
    struct ender *ender = arg;
    assert_int_equal(record->run, ender->visits / LONG_RECORDS);
    assert_int_equal(record->seq, ender->visits % LONG_RECORDS);
    assert_int_equal(record->bytes, LONG_BYTES);
    if (++ender->visits % 5 == 0 && ender->endings > 0) {
        ender->endings--;
        /* Those that were ended before may not have gone yet. */
        assert_in_range(pg_ask_number(ender->fixture->admin,
                                      "SELECT count(*) FILTER (WHERE pg_terminate_backend(pid)) "
                                      "FROM pg_stat_activity WHERE query LIKE 'COPY%%' AND "
                                      "datname = current_database()"),
                        1, ENDINGS);
    }
    return 0;
}

/* 20 MB, of which only the first can be on their way when the session ends. */
static void put_long_records(const struct pg_fixture *fixture)
{
    (void)pg_ask(fixture->admin,
                 "INSERT INTO bench.records_seq(run, digest, seq, kind, payload) "
                 "SELECT (1::bigint << 40) + run, 0, seq, 1, convert_to(repeat('x', %d), 'UTF8') "
                 "FROM generate_series(0, %d) AS run, generate_series(0, %d) AS seq",
                 LONG_BYTES, LONG_RUNS - 1, LONG_RECORDS - 1);
}

/* In either way of reading, each record comes once. Without time to try again, and to an audit,
 * whose lock is lost with the connection, the reason is told. */
static void a_lost_connection_is_made_again(void **state)
{
    (void)state;
    struct pg_fixture fixture;
    struct pg_journal opened;
    uint64_t runs[LONG_RUNS];
    for (unsigned i = 0; i < LONG_RUNS; i++)
        runs[i] = i;
    pg_fixture_open(&fixture);
    struct journal_config config = pg_config(&fixture);
    assert_int_equal(pg_journal_open(&opened, &config), 0);
    put_long_records(&fixture);
    pg_journal_close(&opened);
    static const struct {
        enum journal_mode mode;
        uint64_t retry_for_ns;
        bool is_made_again;
    } cases[] = {
        {JOURNAL_RESUME, 20 * NS_PER_S, true},
        {JOURNAL_RESUME, 0, false},
        {JOURNAL_AUDIT, 20 * NS_PER_S, false},
    };
    for (unsigned i = 0; i < 2 * sizeof(cases) / sizeof(cases[0]); i++) {
        struct ender ender = {.fixture = &fixture, .endings = ENDINGS};
        bool is_made_again = cases[i / 2].is_made_again;
        config.mode = cases[i / 2].mode;
        config.retry_for_ns = cases[i / 2].retry_for_ns;
        if (i % 2 == 1 && config.mode == JOURNAL_AUDIT)
            continue; /* it reads no single runs */
        assert_int_equal(pg_journal_open(&opened, &config), 0);
        int error = i % 2 == 0 ? journal_scan(opened.journal, 1, 0, UINT32_MAX, end_visit, &ender,
                                              &opened.why)
                               : journal_read_runs(opened.journal, 0, runs, LONG_RUNS, end_visit,
                                                   &ender, &opened.why);
        if (is_made_again) {
            assert_int_equal(error, 0);
            assert_int_equal(ender.visits, LONG_RUNS * LONG_RECORDS);
        } else { /* which of the two depends on what has still come */
            assert_true(error == -ECONNREFUSED || error == -ECONNRESET);
            assert_non_null(strstr(opened.why.text, "connection"));
        }
        assert_int_equal(ender.endings, is_made_again ? 0 : ENDINGS - 1);
        pg_journal_close(&opened);
    }
    pg_fixture_close(&fixture);
}

static const char *value_of(const struct journal_settings *settings, const char *key)
{
    for (unsigned i = 0; i < settings->count; i++)
        if (strcmp(settings->all[i].key, key) == 0)
            return settings->all[i].value;
    return "(none)";
}

/* What stands for durability is told as it is in the sessions that append. */
static void the_server_tells_its_settings(void **state)
{
    static const char *const keys[] = {"server_version", "fsync", "full_page_writes",
                                       "wal_compression"};
    (void)state;
    struct pg_fixture fixture;
    struct pg_journal opened;
    struct journal_settings settings;
    pg_fixture_open(&fixture);
    struct journal_config config = pg_config(&fixture);
    for (unsigned i = 0; i < 2; i++) {
        config.durability = i == 0 ? DURABILITY_POWER : DURABILITY_PROCESS;
        assert_int_equal(pg_journal_open(&opened, &config), 0);
        assert_int_equal(pg_put(&opened, 1, 0, "x"), JOURNAL_ACKED);
        journal_describe(opened.journal, &settings);
        assert_string_equal(value_of(&settings, "synchronous_commit"), i == 0 ? "on" : "off");
        for (size_t key = 0; key < sizeof(keys) / sizeof(keys[0]); key++)
            assert_string_equal(value_of(&settings, keys[key]),
                                pg_ask(fixture.admin, "SHOW %s", keys[key]));
        assert_int_equal(PQlibVersion() / 10000, atoi(value_of(&settings, "libpq_version")));
        assert_int_equal(pg_put(&opened, 1, 1, "goes on"), JOURNAL_ACKED);
        pg_journal_close(&opened);
    }
    pg_fixture_close(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(audits_go_side_by_side),
        cmocka_unit_test(all_campaigns_are_read_together),
        cmocka_unit_test(campaigns_that_begin_meanwhile_are_no_part_of_an_audit),
        cmocka_unit_test(people_see_any_payload),
        cmocka_unit_test(strange_rows_are_shown),
        cmocka_unit_test(a_lost_connection_is_made_again),
        cmocka_unit_test(the_server_tells_its_settings),
    };
    if (!pg_fixture_is_possible())
        return PG_SKIPPED;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
