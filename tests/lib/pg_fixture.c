/* pg_fixture: see pg_fixture.h. The proxy is in pg_proxy.c. */
#include "tests/lib/pg_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/base/digest.h"

enum { SQL_BYTES = 4096, UNTIL_POLLS_MAX = 20000 };

bool pg_fixture_is_possible(void)
{
    if (getenv("BENCH_POSTGRES_URI") != NULL)
        return true;
    (void)fprintf(stderr,
                  "skip: BENCH_POSTGRES_URI names no server (tests/lib/postgres.py -- …)\n");
    return false;
}

static PGconn *connect_to(const char *uri)
{
    PGconn *pg = PQconnectdb(uri);
    if (PQstatus(pg) != CONNECTION_OK)
        fail_msg("no connection: %s", PQerrorMessage(pg));
    return pg;
}

/* libpq takes the last of what is said twice. */
static void add_to_uri(char *uri, const char *base, const char *parameter, const char *value)
{
    char separator = strchr(base, '?') == NULL ? '?' : '&';
    int bytes = snprintf(uri, PG_URI_BYTES, "%s%c%s=%s", base, separator, parameter, value);
    assert_in_range(bytes, 1, PG_URI_BYTES - 1);
}

void pg_fixture_open(struct pg_fixture *fixture)
{
    static unsigned count;
    const char *base = getenv("BENCH_POSTGRES_URI");
    if (base == NULL)
        abort(); /* see pg_fixture_is_possible() */
    fixture->server = connect_to(base);
    (void)snprintf(fixture->database, sizeof(fixture->database), "bench_test_%ld_%u",
                   (long)getpid(), count++);
    add_to_uri(fixture->uri, base, "dbname", fixture->database);
    (void)pg_ask(fixture->server, "CREATE DATABASE %s", fixture->database);
    fixture->admin = connect_to(fixture->uri);
}

void pg_fixture_close(struct pg_fixture *fixture)
{
    PQfinish(fixture->admin);
    (void)pg_ask(fixture->server, "DROP DATABASE %s WITH (FORCE)", fixture->database);
    PQfinish(fixture->server);
}

static const char *ask(PGconn *pg, const char *sql)
{
    static char answer[SQL_BYTES];
    PGresult *result = PQexec(pg, sql);
    ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
        fail_msg("%s: %s", sql, PQerrorMessage(pg));
    bool has_value = status == PGRES_TUPLES_OK && PQntuples(result) > 0;
    (void)snprintf(answer, sizeof(answer), "%s", has_value ? PQgetvalue(result, 0, 0) : "");
    PQclear(result);
    return answer;
}

const char *pg_ask(PGconn *pg, const char *format, ...)
{
    char sql[SQL_BYTES];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(sql, sizeof(sql), format, arguments);
    va_end(arguments);
    return ask(pg, sql);
}

long pg_ask_number(PGconn *pg, const char *format, ...)
{
    char sql[SQL_BYTES];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(sql, sizeof(sql), format, arguments);
    va_end(arguments);
    return strtol(ask(pg, sql), NULL, 10);
}

/* --- the journal --- */

struct journal_config pg_config(const struct pg_fixture *fixture)
{
    return (struct journal_config){
        .uri = fixture->uri,
        .writers = 1,
        .connections = 2,
        .retry_for_ns = 20 * NS_PER_S,
    };
}

int pg_journal_open(struct pg_journal *opened, const struct journal_config *config)
{
    *opened = (struct pg_journal){.journal = NULL};
    int error = journal_open(&opened->journal, config, &opened->why);
    if (error != 0)
        return error;
    if (config->mode == JOURNAL_AUDIT)
        return 0;
    assert_int_equal(loop_open(&opened->loop, "auto", &opened->why), 0);
    error = journal_writer_open(opened->journal, 0, &opened->loop, &opened->writer, &opened->why);
    if (error != 0) {
        loop_close(&opened->loop);
        journal_close(opened->journal);
    }
    return error;
}

void pg_journal_close(struct pg_journal *opened)
{
    if (opened->writer != NULL) {
        journal_writer_close(opened->writer);
        loop_close(&opened->loop);
    }
    journal_close(opened->journal);
}

void pg_expect_refusal(const struct pg_fixture *fixture, enum journal_mode mode, const char *text)
{
    struct pg_journal opened;
    struct journal_config config = pg_config(fixture);
    config.mode = mode;
    assert_true(pg_journal_open(&opened, &config) < 0);
    if (strstr(opened.why.text, text) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", opened.why.text, text);
}

static void on_done(struct journal_append *append, int result)
{
    struct pg_note *note = container_of(append, struct pg_note, append);
    assert_int_equal(note->result, PG_NOTE_OPEN);
    note->result = result;
}

/* Each run's payloads are the same whoever writes them, so digests are chained over their texts. */
void pg_note_append(struct pg_journal *opened, struct pg_note *note, uint64_t run, uint32_t seq,
                    const char *payload)
{
    *note = (struct pg_note){
        .append = {.done = on_done, .run = run, .seq = seq, .digest = run + seq},
        .result = PG_NOTE_OPEN,
    };
    journal_append(opened->writer, &note->append, RECORD_MODEL, payload, strlen(payload));
}

static void turn(struct pg_journal *opened)
{
    journal_flush(opened->writer);
    (void)loop_poll(&opened->loop, clock_monotonic_ns() + NS_PER_MS, UINT32_MAX);
    (void)journal_deliver(opened->writer);
}

bool pg_settle(struct pg_journal *opened, unsigned polls_max)
{
    for (unsigned i = 0; journal_is_busy(opened->writer); i++) {
        if (i == polls_max)
            return false;
        turn(opened);
    }
    return true;
}

int pg_put(struct pg_journal *opened, uint64_t run, uint32_t seq, const char *payload)
{
    struct pg_note note;
    pg_note_append(opened, &note, run, seq, payload);
    assert_true(pg_settle(opened, UNTIL_POLLS_MAX));
    return note.result;
}

void pg_until(struct pg_journal *opened, PGconn *pg, const char *sql)
{
    unsigned turns = 0;
    do {
        if (turns++ == UNTIL_POLLS_MAX)
            fail_msg("never: %s", sql);
        turn(opened);
    } while (strcmp(pg_ask(pg, "%s", sql), "t") != 0);
}

static int count_visit(void *arg, const struct journal_record *record)
{
    (void)record;
    (*(unsigned *)arg)++;
    return 0;
}

unsigned pg_count_scanned(struct journal *journal, uint64_t campaign)
{
    unsigned count = 0;
    struct errmsg why = {""};
    int error = journal_scan(journal, campaign, 0, UINT32_MAX, count_visit, &count, &why);
    if (error != 0)
        fail_msg("scan: %s", why.text);
    return count;
}
