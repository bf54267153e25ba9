/* The Postgres store when its server, its network or another process fails it: what is in doubt is
 * found out, what may yet be done is tried again, what may not ends the journal. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "journal/pg_lane.h"
#include "tests/lib/pg_fixture.h"

enum { POLLS_MAX = 20000 };

/* Sessions of the journal, whoever else is there. */
#define ITS_SESSIONS                                                                               \
    "pg_stat_activity WHERE datname = current_database() AND application_name = 'bench'"
#define END_ITS_SESSIONS "SELECT count(pg_terminate_backend(pid)) FROM " ITS_SESSIONS
#define ONE_IS_BLOCKED "SELECT count(*) > 0 FROM " ITS_SESSIONS " AND wait_event_type = 'Lock'"
#define NONE_IS_BLOCKED "SELECT count(*) = 0 FROM " ITS_SESSIONS " AND wait_event_type = 'Lock'"

struct bed {
    struct pg_fixture fixture;
    struct pg_proxy proxy;
    struct journal_config config;
    struct pg_journal opened;
};

static void setup(struct bed *bed, uint64_t retry_for_ns)
{
    pg_fixture_open(&bed->fixture);
    pg_proxy_open(&bed->proxy, &bed->fixture);
    bed->config = pg_config(&bed->fixture);
    bed->config.uri = bed->proxy.uri;
    bed->config.connections = 1;
    bed->config.retry_for_ns = retry_for_ns;
    assert_int_equal(pg_journal_open(&bed->opened, &bed->config), 0);
}

static void teardown(struct bed *bed)
{
    pg_journal_close(&bed->opened);
    pg_proxy_close(&bed->proxy);
    pg_fixture_close(&bed->fixture);
}

/* Another session holds the key of a run's first record, so that the journal's insert has to wait
 * until that has rolled back. */
static void block_run(const struct bed *bed, unsigned run)
{
    (void)pg_ask(
        bed->fixture.admin,
        "BEGIN; INSERT INTO bench.records_seq VALUES ((1::bigint << 40) + %u, 0, 0, 1, '')", run);
}

/* Until the journal has noticed that its sessions are gone. */
static void await_no_session(struct bed *bed)
{
    for (unsigned i = 0; atomic_load(&bed->proxy.sessions) > 0; i++) {
        assert_true(i < POLLS_MAX);
        pg_until(&bed->opened, bed->fixture.admin, "SELECT true");
    }
    for (unsigned i = 0; i < 3; i++) /* the server's last words first, then the end */
        pg_until(&bed->opened, bed->fixture.admin, "SELECT true");
}

static void end_its_sessions(struct bed *bed)
{
    assert_true(pg_ask_number(bed->fixture.admin, END_ITS_SESSIONS) >= 1);
    await_no_session(bed);
}

static void expect_record(struct bed *bed, uint64_t run, uint32_t seq, const char *payload)
{
    struct journal_record record;
    assert_int_equal(journal_read(bed->opened.writer, run, seq, &record), 0);
    assert_int_equal(record.bytes, strlen(payload));
    assert_memory_equal(record.payload, payload, record.bytes);
}

/* --- in doubt --- */

static void what_was_committed_unheard_is_found(void **state)
{
    (void)state;
    struct bed bed;
    struct pg_note notes[3];
    setup(&bed, 20 * NS_PER_S);
    block_run(&bed, 7);
    for (unsigned i = 0; i < 3; i++)
        pg_note_append(&bed.opened, &notes[i], 7 + i, 0, "in doubt");
    PGconn *looker = PQconnectdb(bed.fixture.uri);
    pg_until(&bed.opened, looker, ONE_IS_BLOCKED);
    atomic_store(&bed.proxy.mode, PG_PROXY_SWALLOW);
    (void)pg_ask(bed.fixture.admin, "ROLLBACK");
    pg_until(&bed.opened, looker, "SELECT count(*) = 3 FROM bench.records_seq");
    assert_int_equal(notes[0].result, PG_NOTE_OPEN);
    atomic_store(&bed.proxy.mode, PG_PROXY_CUT);
    await_no_session(&bed);
    atomic_store(&bed.proxy.mode, PG_PROXY_PASS);
    assert_true(pg_settle(&bed.opened, POLLS_MAX));
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(notes[i].result, JOURNAL_ACKED);
    assert_true(journal_writer_totals(bed.opened.writer).retries >= 1);
    struct journal_io io;
    journal_io(bed.opened.journal, &io);
    assert_int_equal(io.commits, 0); /* heard of */
    assert_int_equal(pg_count_scanned(bed.opened.journal, 1), 3);
    assert_int_equal(pg_put(&bed.opened, 7, 1, "next"), JOURNAL_ACKED);
    PQfinish(looker);
    teardown(&bed);
}

static void what_was_undone_is_done_again(void **state)
{
    (void)state;
    struct bed bed;
    struct pg_note notes[3];
    setup(&bed, 20 * NS_PER_S);
    block_run(&bed, 7);
    for (unsigned i = 0; i < 3; i++)
        pg_note_append(&bed.opened, &notes[i], 7 + i, 0, "undone");
    PGconn *looker = PQconnectdb(bed.fixture.uri);
    pg_until(&bed.opened, looker, ONE_IS_BLOCKED);
    assert_true(pg_ask_number(looker, END_ITS_SESSIONS) >= 1);
    pg_until(&bed.opened, looker, NONE_IS_BLOCKED);
    (void)pg_ask(bed.fixture.admin, "ROLLBACK");
    assert_true(pg_settle(&bed.opened, POLLS_MAX));
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(notes[i].result, JOURNAL_ACKED);
        expect_record(&bed, 7 + i, 0, "undone");
    }
    PQfinish(looker);
    teardown(&bed);
}

/* A key that another session commits while the insert waits for it. */
static void who_was_slower_finds_a_conflict(void **state)
{
    (void)state;
    struct bed bed;
    struct pg_note notes[2];
    setup(&bed, 20 * NS_PER_S);
    block_run(&bed, 7);
    pg_note_append(&bed.opened, &notes[0], 7, 0, "late");
    pg_note_append(&bed.opened, &notes[1], 8, 0, "beside it");
    PGconn *looker = PQconnectdb(bed.fixture.uri);
    pg_until(&bed.opened, looker, ONE_IS_BLOCKED);
    (void)pg_ask(bed.fixture.admin, "COMMIT");
    assert_true(pg_settle(&bed.opened, POLLS_MAX));
    assert_int_equal(notes[0].result, JOURNAL_CONFLICT);
    assert_int_equal(notes[1].result, JOURNAL_ACKED);
    PQfinish(looker);
    teardown(&bed);
}

struct walker {
    struct journal_append append;
    struct pg_journal *opened;
    unsigned *left;
    uint32_t seq;
};

enum { WALK_RECORDS = 12 };

static void walk(struct walker *walker)
{
    char payload[32];
    int bytes =
        snprintf(payload, sizeof(payload), "%u of %u", walker->seq, (unsigned)walker->append.run);
    walker->append.seq = walker->seq;
    journal_append(walker->opened->writer, &walker->append, RECORD_TOOL, payload, (size_t)bytes);
}

static void on_step(struct journal_append *append, int result)
{
    struct walker *walker = container_of(append, struct walker, append);
    if (result != JOURNAL_AGAIN) {
        assert_int_equal(result, JOURNAL_ACKED);
        walker->seq++;
    }
    if (walker->seq < WALK_RECORDS)
        walk(walker);
    else
        (*walker->left)--;
}

static int walk_visit(void *arg, const struct journal_record *record)
{
    uint32_t *next = arg;
    assert_int_equal(record->seq, next[record->run]++);
    return 0;
}

/* Sessions end while batches are on their way, again and again: each record once, none lost. */
static void nothing_is_lost_when_sessions_end_at_any_time(void **state)
{
    (void)state;
    enum { RUNS = 300, KILLS_MAX = 12 };
    struct bed bed;
    struct walker walkers[RUNS];
    uint32_t next[RUNS] = {0};
    unsigned left = RUNS;
    long ended = 0;
    setup(&bed, 60 * NS_PER_S);
    for (unsigned i = 0; i < RUNS; i++) {
        walkers[i] = (struct walker){
            .append = {.done = on_step, .run = i}, .opened = &bed.opened, .left = &left};
        walk(&walkers[i]);
    }
    for (unsigned i = 0; left > 0 && i < POLLS_MAX; i++) {
        if (i % 3 == 2 && ended < KILLS_MAX)
            ended += pg_ask_number(bed.fixture.admin, END_ITS_SESSIONS);
        pg_until(&bed.opened, bed.fixture.admin, "SELECT true");
        (void)pg_settle(&bed.opened, 1);
    }
    assert_int_equal(left, 0);
    assert_true(ended > 0 && journal_writer_totals(bed.opened.writer).retries > 0);
    assert_int_equal(
        journal_scan(bed.opened.journal, 1, 0, UINT32_MAX, walk_visit, next, &bed.opened.why), 0);
    for (unsigned i = 0; i < RUNS; i++)
        assert_int_equal(next[i], WALK_RECORDS);
    teardown(&bed);
}

/* --- how long --- */

static void a_server_that_does_not_answer_leaves_records_unknown(void **state)
{
    (void)state;
    struct bed bed;
    struct pg_note note;
    setup(&bed, NS_PER_S);
    assert_int_equal(pg_put(&bed.opened, 1, 0, "heard"), JOURNAL_ACKED);
    atomic_store(&bed.proxy.mode, PG_PROXY_SWALLOW);
    pg_note_append(&bed.opened, &note, 1, 1, "unheard");
    assert_true(pg_settle(&bed.opened, POLLS_MAX));
    assert_int_equal(note.result, JOURNAL_UNKNOWN);
    assert_int_equal(journal_writer_totals(bed.opened.writer).unknown, 1);
    assert_true(journal_has_failed(bed.opened.journal, &bed.opened.why));
    assert_string_equal(bed.opened.why.text, "the server does not answer");
    atomic_store(&bed.proxy.mode, PG_PROXY_PASS);
    assert_int_equal(pg_put(&bed.opened, 1, 1, "unheard"), JOURNAL_ACKED);
    assert_int_equal(pg_put(&bed.opened, 1, 2, "heard again"), JOURNAL_ACKED);
    teardown(&bed);
}

/* Soon enough for another session to find out what became of it. */
static void a_session_that_falls_silent_is_replaced_in_time(void **state)
{
    (void)state;
    struct bed bed;
    struct pg_note note;
    setup(&bed, 9 * NS_PER_S);
    assert_int_equal(pg_put(&bed.opened, 1, 0, "heard"), JOURNAL_ACKED);
    pg_proxy_mute(&bed.proxy);
    pg_note_append(&bed.opened, &note, 1, 1, "unheard");
    assert_true(pg_settle(&bed.opened, POLLS_MAX));
    assert_int_equal(note.result, JOURNAL_ACKED);
    assert_int_equal(journal_writer_totals(bed.opened.writer).retries, 1);
    assert_false(journal_has_failed(bed.opened.journal, &bed.opened.why));
    teardown(&bed);
}

/* Whoever sends anything is alive, however long the whole answer takes. */
static void an_answer_that_trickles_in_is_waited_for(void **state)
{
    (void)state;
    struct bed bed;
    struct pg_note note;
    setup(&bed, 4 * NS_PER_S);
    assert_int_equal(pg_put(&bed.opened, 1, 0, "at once"), JOURNAL_ACKED);
    atomic_store(&bed.proxy.mode, PG_PROXY_TRICKLE);
    pg_note_append(&bed.opened, &note, 1, 1, "slowly");
    assert_true(pg_settle(&bed.opened, POLLS_MAX));
    assert_int_equal(note.result, JOURNAL_ACKED);
    assert_int_equal(journal_writer_totals(bed.opened.writer).retries, 0);
    atomic_store(&bed.proxy.mode, PG_PROXY_PASS);
    teardown(&bed);
}

/* Figures are not worth waiting a second a connection, nor for the sake of a lock. */
static void figures_do_not_hold_up_the_end(void **state)
{
    (void)state;
    enum { CONNECTIONS = 8 };
    struct bed bed;
    struct journal_io io;
    setup(&bed, 20 * NS_PER_S);
    pg_journal_close(&bed.opened);
    bed.config.connections = CONNECTIONS;
    assert_int_equal(pg_journal_open(&bed.opened, &bed.config), 0);
    (void)pg_ask(bed.fixture.admin, "BEGIN; LOCK TABLE bench.records_seq IN ACCESS EXCLUSIVE MODE");
    pg_proxy_mute(&bed.proxy);
    uint64_t start_ns = clock_monotonic_ns();
    pg_lanes_hand_in(pg_store_of(bed.opened.journal));
    assert_true(clock_monotonic_ns() - start_ns < CONNECTIONS * NS_PER_S / 2);
    journal_io(bed.opened.journal, &io);
    assert_true(io.store_bytes == JOURNAL_NOT_KNOWN && io.db_bytes == JOURNAL_NOT_KNOWN);
    assert_true(io.wal_bytes != JOURNAL_NOT_KNOWN && io.syncs != JOURNAL_NOT_KNOWN);
    (void)pg_ask(bed.fixture.admin, "ROLLBACK");
    journal_io(bed.opened.journal, &io);
    assert_true(io.store_bytes != JOURNAL_NOT_KNOWN);
    assert_int_equal(pg_put(&bed.opened, 1, 0, "again"), JOURNAL_ACKED);
    teardown(&bed);
}

static void a_server_that_is_away_is_waited_for_as_long_as_was_said(void **state)
{
    (void)state;
    struct bed bed;
    struct pg_note note;
    setup(&bed, NS_PER_S);
    assert_int_equal(pg_put(&bed.opened, 1, 0, "there"), JOURNAL_ACKED);
    atomic_store(&bed.proxy.mode, PG_PROXY_CUT);
    await_no_session(&bed);
    pg_note_append(&bed.opened, &note, 1, 1, "away");
    assert_true(pg_settle(&bed.opened, POLLS_MAX));
    assert_true(note.result == -ECONNREFUSED || note.result == -ECONNRESET);
    assert_int_equal(journal_writer_totals(bed.opened.writer).unknown, 0);
    assert_true(journal_writer_totals(bed.opened.writer).retries > 1);
    assert_true(journal_has_failed(bed.opened.journal, &bed.opened.why));
    assert_non_null(strstr(bed.opened.why.text, "closed the connection"));
    atomic_store(&bed.proxy.mode, PG_PROXY_PASS);
    assert_int_equal(pg_put(&bed.opened, 1, 1, "back"), JOURNAL_ACKED);
    teardown(&bed);
}

static void a_writer_closes_whatever_is_on_its_way(void **state)
{
    (void)state;
    struct pg_note notes[3];
    for (unsigned i = 0; i < 2; i++) {
        struct bed bed;
        setup(&bed, 20 * NS_PER_S);
        PGconn *looker = PQconnectdb(bed.fixture.uri);
        block_run(&bed, 7);
        for (unsigned k = 0; k < 3; k++)
            pg_note_append(&bed.opened, &notes[k], 7 + k, 0, "let go of");
        pg_until(&bed.opened, looker, ONE_IS_BLOCKED);
        if (i == 1) { /* in the middle of connecting again */
            atomic_store(&bed.proxy.mode, PG_PROXY_CUT);
            while (journal_writer_totals(bed.opened.writer).retries < 2)
                pg_until(&bed.opened, looker, "SELECT true");
        }
        teardown(&bed);
        for (unsigned k = 0; k < 3; k++)
            assert_int_equal(notes[k].result, PG_NOTE_OPEN);
        PQfinish(looker);
    }
}

/* --- what the server says --- */

/* Inserts fail with this SQLSTATE, the first `times`; negative: all. */
static void make_inserts_fail(const struct bed *bed, const char *sqlstate, int times)
{
    PGconn *pg = bed->fixture.admin;
    (void)pg_ask(pg, "SET client_min_messages = error");
    (void)pg_ask(pg, "DROP SEQUENCE IF EXISTS public.failures");
    (void)pg_ask(pg, "CREATE SEQUENCE public.failures");
    (void)pg_ask(pg,
                 "CREATE OR REPLACE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS "
                 "$$BEGIN IF %d < 0 OR nextval('public.failures') <= %d THEN RAISE EXCEPTION USING "
                 "ERRCODE = '%s', MESSAGE = E'no\\033[31m\\nroom'; END IF; RETURN NEW; END$$",
                 times, times, sqlstate);
    (void)pg_ask(pg, "CREATE OR REPLACE TRIGGER refuse BEFORE INSERT ON bench.records_seq FOR EACH "
                     "STATEMENT EXECUTE FUNCTION public.refuse()");
}

static void what_may_yet_succeed_is_tried_again(void **state)
{
    (void)state;
    static const char *const states[] = {"40001", "40P01", "55P03", "53200", "57014"};
    struct bed bed;
    setup(&bed, 20 * NS_PER_S);
    for (unsigned i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
        make_inserts_fail(&bed, states[i], 2);
        assert_int_equal(pg_put(&bed.opened, i, 0, "third time"), JOURNAL_ACKED);
        assert_int_equal(journal_writer_totals(bed.opened.writer).retries, 2 * (i + 1));
    }
    assert_int_equal(atomic_load(&bed.proxy.accepted), 2); /* the set-up's and one more */
    teardown(&bed);
}

/* The last words, not the name of an errno. */
static void what_never_succeeds_is_told_in_the_servers_words(void **state)
{
    (void)state;
    struct bed bed;
    setup(&bed, NS_PER_S);
    make_inserts_fail(&bed, "40001", -1);
    assert_int_equal(pg_put(&bed.opened, 1, 0, "x"), -EBUSY);
    assert_true(journal_has_failed(bed.opened.journal, &bed.opened.why));
    assert_string_equal(bed.opened.why.text, "no?[31m (SQLSTATE 40001)");
    teardown(&bed);
}

static void what_will_not_succeed_ends_the_journal(void **state)
{
    (void)state;
    static const struct {
        const char *sqlstate;
        int result;
    } cases[] = {{"53100", JOURNAL_FULL}, {"25006", -EIO}, {"42501", -EIO}, {"XX000", -EIO}};
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct bed bed;
        char text[64];
        setup(&bed, 20 * NS_PER_S);
        make_inserts_fail(&bed, cases[i].sqlstate, -1);
        assert_int_equal(pg_put(&bed.opened, 1, 0, "x"), cases[i].result);
        assert_int_equal(journal_writer_totals(bed.opened.writer).retries, 0);
        assert_true(journal_has_failed(bed.opened.journal, &bed.opened.why));
        (void)snprintf(text, sizeof(text), "no?[31m (SQLSTATE %s)", cases[i].sqlstate);
        assert_string_equal(bed.opened.why.text, text);
        assert_int_equal(pg_put(&bed.opened, 2, 0, "x"), JOURNAL_STOPPED);
        teardown(&bed);
    }
}

static void a_server_that_refuses_the_next_session_ends_the_journal(void **state)
{
    (void)state;
    struct bed bed;
    setup(&bed, 20 * NS_PER_S);
    PGconn *pg = bed.fixture.admin;
    assert_int_equal(pg_put(&bed.opened, 1, 0, "x"), JOURNAL_ACKED);
    (void)pg_ask(pg, "ALTER DATABASE %s SET default_transaction_read_only = on",
                 bed.fixture.database);
    end_its_sessions(&bed);
    assert_int_equal(pg_put(&bed.opened, 1, 1, "y"), -EIO);
    assert_true(journal_has_failed(bed.opened.journal, &bed.opened.why));
    assert_string_equal(bed.opened.why.text, "the server or the database is read-only");
    (void)pg_ask(pg, "SET default_transaction_read_only = off");
    (void)pg_ask(pg, "ALTER DATABASE %s RESET default_transaction_read_only", bed.fixture.database);
    teardown(&bed);
}

/* --- other processes --- */

static void a_campaign_that_was_taken_over_is_lost(void **state)
{
    (void)state;
    struct bed bed;
    struct pg_journal other;
    setup(&bed, 20 * NS_PER_S);
    assert_int_equal(pg_put(&bed.opened, 1, 0, "mine"), JOURNAL_ACKED);
    end_its_sessions(&bed);
    struct journal_config config = bed.config;
    config.mode = JOURNAL_RESUME;
    assert_int_equal(pg_journal_open(&other, &config), 0);
    assert_int_equal(pg_put(&bed.opened, 1, 1, "mine"), -EIO);
    assert_true(journal_has_failed(bed.opened.journal, &bed.opened.why));
    assert_string_equal(bed.opened.why.text, "campaign 1 was taken over by another process");
    assert_int_equal(pg_put(&other, 1, 1, "theirs"), JOURNAL_ACKED);
    pg_journal_close(&other);
    teardown(&bed);
}

/* What was on its way then may be recorded or not; the other process may have moved on since. */
static void what_was_in_doubt_at_a_take_over_stays_so(void **state)
{
    (void)state;
    struct bed bed;
    struct pg_journal other;
    struct pg_note note;
    setup(&bed, 20 * NS_PER_S);
    block_run(&bed, 7);
    pg_note_append(&bed.opened, &note, 7, 0, "in doubt");
    PGconn *looker = PQconnectdb(bed.fixture.uri);
    pg_until(&bed.opened, looker, ONE_IS_BLOCKED);
    assert_true(pg_ask_number(looker, END_ITS_SESSIONS) >= 1);
    struct journal_config config = bed.config;
    config.mode = JOURNAL_RESUME;
    assert_int_equal(pg_journal_open(&other, &config), 0);
    assert_true(pg_settle(&bed.opened, POLLS_MAX));
    assert_int_equal(note.result, JOURNAL_UNKNOWN);
    assert_true(journal_has_failed(bed.opened.journal, &bed.opened.why));
    PQfinish(looker);
    pg_journal_close(&other);
    teardown(&bed);
}

/* Below level power a server may come back without what it had acked: a hole is not made of it. */
static void what_a_server_has_lost_is_not_built_upon(void **state)
{
    (void)state;
    struct bed bed;
    setup(&bed, 20 * NS_PER_S);
    assert_int_equal(pg_put(&bed.opened, 1, 0, "lost"), JOURNAL_ACKED);
    end_its_sessions(&bed);
    (void)pg_ask(bed.fixture.admin, "DELETE FROM bench.records_seq");
    assert_int_equal(pg_put(&bed.opened, 1, 1, "on that"), JOURNAL_GAP);
    assert_int_equal(pg_put(&bed.opened, 2, 0, "another"), JOURNAL_ACKED);
    teardown(&bed);
}

/* An audit keeps a process that lost its sessions out, until it is over. */
static void a_campaign_that_is_audited_is_waited_for(void **state)
{
    (void)state;
    struct bed bed;
    struct pg_journal audit;
    struct pg_note note;
    setup(&bed, 20 * NS_PER_S);
    assert_int_equal(pg_put(&bed.opened, 1, 0, "before"), JOURNAL_ACKED);
    end_its_sessions(&bed);
    struct journal_config config = bed.config;
    config.mode = JOURNAL_AUDIT;
    assert_int_equal(pg_journal_open(&audit, &config), 0);
    assert_int_equal(pg_count_scanned(audit.journal, 1), 1);
    pg_note_append(&bed.opened, &note, 1, 1, "after");
    while (journal_writer_totals(bed.opened.writer).retries < 2)
        pg_until(&bed.opened, bed.fixture.admin, "SELECT true");
    assert_int_equal(note.result, PG_NOTE_OPEN);
    assert_int_equal(pg_count_scanned(audit.journal, 1), 1);
    pg_journal_close(&audit);
    assert_true(pg_settle(&bed.opened, POLLS_MAX));
    assert_int_equal(note.result, JOURNAL_ACKED);
    teardown(&bed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_committed_unheard_is_found),
        cmocka_unit_test(what_was_undone_is_done_again),
        cmocka_unit_test(who_was_slower_finds_a_conflict),
        cmocka_unit_test(nothing_is_lost_when_sessions_end_at_any_time),
        cmocka_unit_test(a_server_that_does_not_answer_leaves_records_unknown),
        cmocka_unit_test(a_session_that_falls_silent_is_replaced_in_time),
        cmocka_unit_test(an_answer_that_trickles_in_is_waited_for),
        cmocka_unit_test(figures_do_not_hold_up_the_end),
        cmocka_unit_test(a_server_that_is_away_is_waited_for_as_long_as_was_said),
        cmocka_unit_test(a_writer_closes_whatever_is_on_its_way),
        cmocka_unit_test(what_may_yet_succeed_is_tried_again),
        cmocka_unit_test(what_never_succeeds_is_told_in_the_servers_words),
        cmocka_unit_test(what_will_not_succeed_ends_the_journal),
        cmocka_unit_test(a_server_that_refuses_the_next_session_ends_the_journal),
        cmocka_unit_test(a_campaign_that_was_taken_over_is_lost),
        cmocka_unit_test(what_was_in_doubt_at_a_take_over_stays_so),
        cmocka_unit_test(what_a_server_has_lost_is_not_built_upon),
        cmocka_unit_test(a_campaign_that_is_audited_is_waited_for),
    };
    if (!pg_fixture_is_possible())
        return PG_SKIPPED;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
