/* pg_connection: see pg_connection.h. */
#include "journal/pg_connection.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the greeting answers (pg_schema.c composes it), a result a statement. */
enum { GREETING_SETTINGS = 1, GREETING_LOCK = 2, GREETING_CAMPAIGN = 3, GREETING_RESULTS = 6 };
enum { CAMPAIGN_EPOCH, CAMPAIGN_FSYNC, CAMPAIGN_PAGES, CAMPAIGN_READ_ONLY, CAMPAIGN_COLUMNS };

enum { DYING_RESULTS_MAX = 16, TRIES = 3 /* within retry_for_ns */ };

#define LIMIT_NS (30 * NS_PER_S)
#define LIMIT_NS_MIN NS_PER_S

/* --- the loop's view of it --- */

static void unwatch(struct pg_connection *connection)
{
    if (connection->is_watched)
        loop_unwatch(connection->loop, &connection->watch);
    connection->is_watched = false;
}

/* False when the loop cannot. */
static bool watch(struct pg_connection *connection, uint8_t events)
{
    int fd = PQsocket(connection->pg);
    if (connection->is_watched && connection->watch.events == events && connection->watch.fd == fd)
        return true;
    unwatch(connection);
    connection->watch.fd = fd;
    connection->watch.events = events;
    connection->is_watched = loop_watch(connection->loop, &connection->watch) == 0;
    return connection->is_watched;
}

void pg_connection_close(struct pg_connection *connection)
{
    unwatch(connection);
    loop_timer_stop(connection->loop, &connection->timer);
    PQfinish(connection->pg);
    connection->pg = NULL;
    connection->state = PG_CLOSED;
    connection->is_asked = false;
}

void pg_connection_fail(struct pg_connection *connection, const struct pg_failure *failure)
{
    connection->failure = *failure;
    pg_connection_close(connection);
    connection->closed(connection);
}

/* A server that ends a session says why before it does. */
static void lose(struct pg_connection *connection)
{
    struct pg_failure failure;
    pg_error_of_connection(&failure, connection->pg, connection->state != PG_CONNECTING,
                           &connection->store->uri);
    for (unsigned i = 0; i < DYING_RESULTS_MAX && connection->is_asked; i++) {
        struct pg_failure said;
        PGresult *result = PQisBusy(connection->pg) ? NULL : PQgetResult(connection->pg);
        if (result == NULL)
            break;
        if (PQresultStatus(result) == PGRES_FATAL_ERROR) {
            pg_error_of_result(&said, result);
            if (said.sqlstate[0] != '\0')
                failure = said;
        }
        PQclear(result);
    }
    /* Of a session that has worked, another may. */
    if (connection->state != PG_CONNECTING || failure.verdict != PG_FATAL)
        failure.verdict = PG_LOST;
    pg_connection_fail(connection, &failure);
}

static void give_up(struct pg_connection *connection, enum pg_verdict verdict, int error,
                    const char *text)
{
    struct pg_failure failure;
    pg_error_set(&failure, verdict, error, "%s", text);
    pg_connection_fail(connection, &failure);
}

/* --- the greeting --- */

/* The setting that the level rests on comes first. */
static void keep_setting(struct pg_store *store, const PGresult *result)
{
    if (PQntuples(result) != 1 || PQnfields(result) < 1)
        return;
    (void)pthread_mutex_lock(&store->lanes_lock); /* a plain mutex, never held twice */
    (void)snprintf(store->synchronous_commit, sizeof(store->synchronous_commit), "%s",
                   PQgetvalue(result, 0, 0));
    (void)pthread_mutex_unlock(&store->lanes_lock);
}

static void take_greeting(struct pg_connection *connection, const PGresult *result)
{
    struct pg_store *store = connection->store;
    struct pg_failure *failure = &connection->failure;
    struct errmsg why;
    ExecStatusType status = PQresultStatus(result);
    unsigned number = connection->greeted++;

    if (failure->verdict != PG_NONE) /* the first failure counts */
        return;
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) {
        pg_error_of_result(failure, result);
    } else if (number == GREETING_SETTINGS) {
        keep_setting(store, result);
    } else if (number == GREETING_LOCK && !pg_result_is(result, 1, 1)) {
        pg_error_set(failure, PG_FATAL, -EPROTO, "the server's answer makes no sense");
    } else if (number == GREETING_LOCK && strcmp(PQgetvalue(result, 0, 0), "t") != 0) {
        pg_error_set(failure, PG_LOST, -EBUSY, "campaign %llu is in use by another process",
                     (unsigned long long)store->keys.campaign);
    } else if (number == GREETING_CAMPAIGN) {
        if (!pg_result_is(result, 1, CAMPAIGN_COLUMNS) ||
            strtoll(PQgetvalue(result, 0, CAMPAIGN_EPOCH), NULL, 10) != store->epoch)
            pg_error_set(failure, PG_FATAL, -EBUSY,
                         "campaign %llu was taken over by another process",
                         (unsigned long long)store->keys.campaign);
        else if (pg_store_check_level(store->journal->durability,
                                      PQgetvalue(result, 0, CAMPAIGN_FSYNC),
                                      PQgetvalue(result, 0, CAMPAIGN_PAGES),
                                      PQgetvalue(result, 0, CAMPAIGN_READ_ONLY), &why) != 0)
            pg_error_set(failure, PG_FATAL, -EINVAL, "%s", why.text);
    }
}

static void end_greeting(struct pg_connection *connection)
{
    if (connection->failure.verdict == PG_NONE && connection->greeted != GREETING_RESULTS)
        pg_error_set(&connection->failure, PG_FATAL, -EPROTO, "the server's answer makes no sense");
    if (connection->failure.verdict != PG_NONE) {
        struct pg_failure failure = connection->failure;
        pg_connection_fail(connection, &failure);
        return;
    }
    connection->state = PG_READY;
    connection->ready(connection);
}

static void greet(struct pg_connection *connection)
{
    connection->state = PG_GREETING;
    connection->greeted = 0;
    connection->failure.verdict = PG_NONE;
    pg_connection_sent(connection, PQsetnonblocking(connection->pg, 1) == 0 &&
                                       PQsendQuery(connection->pg, connection->store->session));
}

/* --- progress --- */

static void poll_connect(struct pg_connection *connection)
{
    /* libpq may close the descriptor and go on with another. */
    unwatch(connection);
    PostgresPollingStatusType wanted = PQconnectPoll(connection->pg);
    if (wanted == PGRES_POLLING_OK) {
        greet(connection);
        return;
    }
    bool is_going_on = wanted == PGRES_POLLING_READING || wanted == PGRES_POLLING_WRITING;
    if (!is_going_on)
        lose(connection);
    else if (!watch(connection, wanted == PGRES_POLLING_READING ? LOOP_READABLE : LOOP_WRITABLE))
        give_up(connection, PG_FATAL, -EIO, "the event loop takes no more descriptors");
}

/* Sends what libpq still has. */
static void flush(struct pg_connection *connection)
{
    int left = PQflush(connection->pg);
    uint8_t events = (uint8_t)(left > 0 ? LOOP_READABLE | LOOP_WRITABLE : LOOP_READABLE);
    if (left < 0)
        lose(connection);
    else if (!watch(connection, events))
        give_up(connection, PG_FATAL, -EIO, "the event loop takes no more descriptors");
}

static void take_results(struct pg_connection *connection)
{
    while (connection->is_asked && !PQisBusy(connection->pg)) {
        PGresult *result = PQgetResult(connection->pg);
        connection->is_asked = result != NULL;
        if (connection->state != PG_GREETING)
            connection->result(connection, result);
        else if (result != NULL)
            take_greeting(connection, result);
        else
            end_greeting(connection);
        PQclear(result);
    }
}

static void move_on(struct pg_connection *connection)
{
    if (connection->state == PG_CONNECTING) {
        poll_connect(connection);
        return;
    }
    if (!PQconsumeInput(connection->pg)) {
        lose(connection);
        return;
    }
    take_results(connection);
    if (connection->state == PG_CLOSED)
        return;
    if (PQstatus(connection->pg) == CONNECTION_BAD)
        lose(connection);
    else
        flush(connection);
}

static void on_ready(struct loop_watch *watch, uint8_t events)
{
    struct pg_connection *connection = container_of(watch, struct pg_connection, watch);
    (void)events; /* the socket takes more or has more: the server is alive */
    if (connection->state != PG_CONNECTING) /* which may take so long in all */
        connection->heard_ns = loop_clock_ns(connection->loop);
    move_on(connection);
}

/* --- the limit --- */

static uint64_t deadline_of(const struct pg_connection *connection)
{
    uint64_t limit_ns = connection->limit_ns;
    uint64_t connect_ns = connection->store->uri.connect_timeout_s * NS_PER_S;
    if (connection->state != PG_READY && connect_ns < limit_ns)
        limit_ns = connect_ns;
    return connection->heard_ns + limit_ns;
}

/* One timer an interval, not one a request. */
static void on_limit(struct timer *timer, uint64_t now_ns)
{
    struct pg_connection *connection = container_of(timer, struct pg_connection, timer);
    if (connection->state == PG_READY && !connection->is_asked)
        return;
    /* It is no silence that nobody has listened, as of a process that was stopped. */
    if (connection->state != PG_CONNECTING && pg_uri_wait(connection->pg, POLLIN, 0))
        connection->heard_ns = now_ns;
    uint64_t deadline_ns = deadline_of(connection);
    if (now_ns < deadline_ns)
        loop_timer_start(connection->loop, timer, deadline_ns);
    else
        give_up(connection, PG_LOST, -ETIMEDOUT, "the server does not answer");
}

static void expect(struct pg_connection *connection)
{
    connection->heard_ns = loop_clock_ns(connection->loop);
    if (!timer_is_armed(&connection->timer))
        loop_timer_start(connection->loop, &connection->timer, deadline_of(connection));
}

void pg_connection_sent(struct pg_connection *connection, bool is_taken)
{
    if (!is_taken) {
        lose(connection);
        return;
    }
    connection->is_asked = true;
    expect(connection);
    flush(connection);
}

/* --- life --- */

uint64_t pg_connection_limit_ns(uint64_t retry_for_ns)
{
    uint64_t limit_ns = retry_for_ns / TRIES;
    if (retry_for_ns == 0)
        return LIMIT_NS;
    return limit_ns > LIMIT_NS_MIN ? limit_ns : LIMIT_NS_MIN;
}

void pg_connection_init(struct pg_connection *connection, struct pg_store *store, struct loop *loop)
{
    connection->store = store;
    connection->loop = loop;
    connection->limit_ns = pg_connection_limit_ns(store->journal->retry_for_ns);
    connection->watch.ready = on_ready;
    timer_init(&connection->timer, on_limit);
}

void pg_connection_start(struct pg_connection *connection)
{
    assert(connection->state == PG_CLOSED);
    connection->pg = pg_uri_connect(&connection->store->uri);
    if (connection->pg == NULL) {
        give_up(connection, PG_LOST, -ENOMEM, "no memory for a connection");
        return;
    }
    connection->state = PG_CONNECTING;
    if (PQstatus(connection->pg) == CONNECTION_BAD) {
        lose(connection);
        return;
    }
    expect(connection);
    if (!watch(connection, LOOP_WRITABLE))
        give_up(connection, PG_FATAL, -EIO, "the event loop takes no more descriptors");
}

int pg_connection_start_now(struct pg_connection *connection, struct errmsg *why)
{
    struct pg_failure failure;
    assert(connection->state == PG_CLOSED);
    const struct pg_patience patience = pg_store_patience(connection->store);
    connection->pg = pg_uri_connect_now(&connection->store->uri, &patience, &failure);
    if (connection->pg == NULL)
        return errmsg_set(why, failure.error, "cannot connect to the server: %s", failure.why.text);
    greet(connection);
    uint64_t deadline_ns =
        clock_monotonic_ns() + connection->store->uri.connect_timeout_s * NS_PER_S;
    while (connection->state == PG_GREETING) {
        bool wants_write = (connection->watch.events & LOOP_WRITABLE) != 0;
        if (pg_uri_wait(connection->pg, (short)(wants_write ? POLLIN | POLLOUT : POLLIN),
                        deadline_ns))
            move_on(connection);
        else
            give_up(connection, PG_LOST, -ETIMEDOUT, "the server does not answer");
    }
    if (connection->state == PG_READY)
        return 0;
    return pg_failure_say(&connection->failure, why);
}
