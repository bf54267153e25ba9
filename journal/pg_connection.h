/*
 * pg_connection: one nonblocking connection to a server, driven by a loop. One request at a time.
 *
 * Life: pg_connection_init(); then pg_connection_start() connects and says what a session begins
 * with (settings, the campaign's lock, the look at its owner), and ready() follows, or closed()
 * with the reason. Closed at any time, it may be started again. A request is sent with libpq on
 * connection->pg, then pg_connection_sent(); result() follows for each of its results, last of all
 * with NULL. A server from which nothing comes and which takes nothing of what is sent for limit_ns
 * is given up, soon enough to be tried again within retry_for_ns; see pg_connection_limit_ns().
 *
 * Ownership: embedded in the lane. Threading: the loop's; libpq looks the host's name up inside
 * pg_connection_start(), so a slow resolver stops the loop whenever a session is lost: who cannot
 * have that names an address (hostaddr). Errors: closed(), which may come from inside
 * pg_connection_start() and pg_connection_sent(). Units: ns.
 */
#ifndef BENCH_JOURNAL_PG_CONNECTION_H
#define BENCH_JOURNAL_PG_CONNECTION_H

#include "engine/loop.h"
#include "journal/pg_store.h"

enum pg_connection_state {
    PG_CLOSED,
    PG_CONNECTING,
    PG_GREETING, /* the session's first statements are out */
    PG_READY,
};

struct pg_connection {
    struct pg_store *store;
    struct loop *loop;
    PGconn *pg; /* NULL when closed */
    enum pg_connection_state state;
    bool is_asked; /* a request is out */
    bool is_watched;
    struct loop_watch watch;
    struct timer timer;
    /* When the request was sent, or the server last took something of it or sent something. */
    uint64_t heard_ns;
    uint64_t limit_ns;
    unsigned greeted;          /* results of the greeting */
    struct pg_failure failure; /* why it was closed, or will be after the greeting: the first */
    void (*ready)(struct pg_connection *connection);
    void (*result)(struct pg_connection *connection, PGresult *result);
    void (*closed)(struct pg_connection *connection);
};

/* A third of retry_for_ns, 1 s at least; 30 s where nothing is tried again, since not to try again
 * does not mean not to wait. */
uint64_t pg_connection_limit_ns(uint64_t retry_for_ns);

void pg_connection_init(struct pg_connection *connection, struct pg_store *store,
                        struct loop *loop);
void pg_connection_start(struct pg_connection *connection);

/* Starts it and waits until it is ready, without the loop; or fails, with the reason. closed() is
 * not called. */
int pg_connection_start_now(struct pg_connection *connection, struct errmsg *why);

/* A request has been given to libpq: `is_taken` says whether libpq took it. */
void pg_connection_sent(struct pg_connection *connection, bool is_taken);

/* Lets go of it, without a word. */
void pg_connection_close(struct pg_connection *connection);

/* Closes it, and says why. */
void pg_connection_fail(struct pg_connection *connection, const struct pg_failure *failure);

#endif
