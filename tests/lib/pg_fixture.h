/*
 * pg_fixture: for tests that need a Postgres server: a database of the test's own, a session of its
 * own beside the journal's, and a proxy that loses answers.
 *
 * The server is the one that BENCH_POSTGRES_URI names (tests/lib/postgres.py starts one). Nothing
 * but the databases and roles that are made here is touched. Ownership: the caller's struct.
 * Threading: the test's; the proxy has a thread of its own. Errors: fail the test.
 */
#ifndef BENCH_TESTS_LIB_PG_FIXTURE_H
#define BENCH_TESTS_LIB_PG_FIXTURE_H

#include <pthread.h>
#include <stdatomic.h>

#include <libpq-fe.h>

#include "engine/loop.h"
#include "journal/backend.h"
#include "tests/lib/scratch.h"

enum { PG_URI_BYTES = 2048, PG_PROXY_SESSIONS_MAX = 16 };

/* Without a server the program is to end with this status, which says: skipped. */
enum { PG_SKIPPED = 77 };
bool pg_fixture_is_possible(void); /* says so on stderr when not */

struct pg_fixture {
    PGconn *server; /* of the database that the URI names */
    PGconn *admin;  /* of the test's own */
    char database[64];
    char uri[PG_URI_BYTES];
};

void pg_fixture_open(struct pg_fixture *fixture);
void pg_fixture_close(struct pg_fixture *fixture);

/* What a statement answers: its first value; "" when there is none. Until the next call. */
const char *pg_ask(PGconn *pg, const char *format, ...) __attribute__((format(printf, 2, 3)));
long pg_ask_number(PGconn *pg, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A journal on it, with one writer. */
struct pg_journal {
    struct journal *journal;
    struct journal_writer *writer;
    struct loop loop;
    struct errmsg why;
};

struct journal_config pg_config(const struct pg_fixture *fixture);
/* 0, or what journal_open() or journal_writer_open() said, with `why`. */
int pg_journal_open(struct pg_journal *opened, const struct journal_config *config);
void pg_journal_close(struct pg_journal *opened);
/* Opening one is refused, with a reason that has this in it. */
void pg_expect_refusal(const struct pg_fixture *fixture, enum journal_mode mode, const char *text);

/* An append that waits for its answer. */
struct pg_note {
    struct journal_append append;
    int result; /* PG_NOTE_OPEN until it is known */
};
enum { PG_NOTE_OPEN = 1 };

void pg_note_append(struct pg_journal *opened, struct pg_note *note, uint64_t run, uint32_t seq,
                    const char *payload);
/* Runs the journal until nothing is outstanding, or `polls_max` times a millisecond: false. */
bool pg_settle(struct pg_journal *opened, unsigned polls_max);
/* Append and settle. */
int pg_put(struct pg_journal *opened, uint64_t run, uint32_t seq, const char *payload);
/* Runs the journal, once at least, until the statement answers "t". */
void pg_until(struct pg_journal *opened, PGconn *pg, const char *sql);

/* Records that a scan of the campaign shows. */
unsigned pg_count_scanned(struct journal *journal, uint64_t campaign);

/* --- the proxy: passes bytes between sessions and the server --- */

enum pg_proxy_mode {
    PG_PROXY_PASS,
    PG_PROXY_SWALLOW, /* what the server says is lost */
    PG_PROXY_TRICKLE, /* what the server says comes a byte at a time, about 13 a second */
    PG_PROXY_MUTE,    /* for sessions that are open: nothing more passes; then PG_PROXY_PASS */
    PG_PROXY_CUT,     /* all sessions end, and new ones at once */
};

struct pg_proxy {
    struct scratch scratch;
    char uri[PG_URI_BYTES];
    int listener;
    pthread_t thread;
    _Atomic int mode;     /* enum pg_proxy_mode, or -1: to end */
    atomic_uint sessions; /* that are open */
    atomic_uint accepted; /* in all */
    const char *host;     /* of the server: a folder or a name */
    const char *port;
};

void pg_proxy_open(struct pg_proxy *proxy, const struct pg_fixture *fixture);
void pg_proxy_close(struct pg_proxy *proxy);
/* Returns when it has taken place. */
void pg_proxy_mute(struct pg_proxy *proxy);

#endif
