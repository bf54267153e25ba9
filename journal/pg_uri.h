/*
 * pg_uri: the address of a server, taken apart by libpq, with what this program adds to it.
 *
 * This program never repeats a text of the URI: it may hold a password, and one that was not
 * percent-encoded ends up in any part of it. Servers and libpq do repeat users, hosts, databases
 * and options, so where the URI may have been taken apart wrongly their words are kept back. They
 * name a port only together with its address, which pg_error.c cuts off.
 *
 * Ownership: the caller's, from pg_uri_parse() to pg_uri_free(), in one place. Threading: none
 * while it is parsed; read-only afterwards. Errors: -EINVAL, -ENOMEM, with the reason. Units: ns,
 * s, ms.
 */
#ifndef BENCH_JOURNAL_PG_URI_H
#define BENCH_JOURNAL_PG_URI_H

#include <stdbool.h>
#include <stdint.h>

#include <libpq-fe.h>

#include "engine/base/err.h"
#include "journal/pg_error.h"

struct pg_uri {
    PQconninfoOption *options;
    const char **keywords; /* NULL-terminated, for PQconnectStartParams() */
    const char **values;
    unsigned connect_timeout_s; /* for all hosts together */
    bool is_doubtful;           /* a password may have been taken for something else */
    char silence_ms_max[16];    /* as libpq wants it */
};

/* A server that does not confirm what was sent to it for silence_ns_max is taken for dead, unless
 * the URI says another tcp_user_timeout. */
int pg_uri_parse(struct pg_uri *uri, const char *text, uint64_t silence_ns_max, struct errmsg *why);
void pg_uri_free(struct pg_uri *uri);

/* Begins to connect; NULL without memory. The caller then polls it with PQconnectPoll(). */
PGconn *pg_uri_connect(const struct pg_uri *uri);

/* How long a server is waited for. */
struct pg_patience {
    uint64_t until_ns;
    bool (*must_stop)(void); /* asked meanwhile; NULL: never */
};

/* Waits a little, before something is tried again. False when the patience is over. */
bool pg_patience_wait(const struct pg_patience *patience);

/* Waits until the descriptor of the connection is ready for `events` (of poll()). False when the
 * patience is over; once it must stop, that is after two seconds without a word. */
bool pg_patience_listen(const struct pg_patience *patience, const PGconn *pg, short events);

/* Connects and waits for it, at most connect_timeout_s. A server that is there and says that it
 * cannot yet is asked again while the patience lasts; a wrong address fails at once. NULL with the
 * failure. */
PGconn *pg_uri_connect_now(const struct pg_uri *uri, const struct pg_patience *patience,
                           struct pg_failure *failure);

/* Waits until the descriptor of the connection is ready for `events` (of poll()), or until the
 * deadline: false. After the deadline it only looks. */
bool pg_uri_wait(const PGconn *pg, short events, uint64_t deadline_ns);

#endif
