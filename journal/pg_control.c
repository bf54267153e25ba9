/* The control connection of a Postgres store: see pg_store.h. */
#include "journal/pg_store.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"

/* What somebody else's lock can hold up: everything. What may take its time: reading records. The
 * server ends a statement itself, if it is there. */
#define LOCK_TIMEOUT "'5s'"
#define STATEMENT_TIMEOUT "'10s'"
#define LOCK_NOT_AVAILABLE "55P03"
#define ANSWER_NS_MAX (15 * NS_PER_S)

/* Settings of the server or the database that would get in the way; and rows that a policy hides
 * are an error, not absent. */
static const char session[] =
    "SELECT set_config('default_transaction_isolation', 'read committed', false), "
    "set_config('statement_timeout', " STATEMENT_TIMEOUT ", false), "
    "set_config('lock_timeout', " LOCK_TIMEOUT ", false), set_config('work_mem', '64MB', false), "
    "set_config('jit', 'off', false), set_config('row_security', 'off', false), "
    "set_config('quote_all_identifiers', 'off', false), "
    "set_config('synchronous_commit', 'on', false)";
static const char session_of_audit[] = "SET default_transaction_read_only = on";

/* `is_refused`: trying again does not help. */
static int connect_control(struct pg_store *store, const struct pg_patience *patience,
                           bool *is_refused, struct errmsg *why)
{
    struct pg_failure failure;
    *is_refused = false;
    store->audited = 0;
    store->is_control_lost = false;
    store->is_bounded = true;
    store->holds_campaign = false;
    store->control = pg_uri_connect_now(&store->uri, patience, &failure);
    if (store->control == NULL) {
        *is_refused = failure.verdict == PG_FATAL;
        return errmsg_set(why, failure.error, "cannot connect to the server: %s", failure.why.text);
    }
    int error = pg_control_do(store, session, why);
    if (error == 0 && store->journal->mode == JOURNAL_AUDIT)
        error = pg_control_do(store, session_of_audit, why);
    return error;
}

static void close_control(struct pg_store *store)
{
    PQfinish(store->control);
    store->control = NULL;
}

/* For statements that end after a while, or for those that may take their time. */
static int set_bound(struct pg_store *store, bool is_bounded, struct errmsg *why)
{
    if (store->is_bounded == is_bounded)
        return 0;
    int error = pg_control_do(store,
                              is_bounded ? "SET statement_timeout = " STATEMENT_TIMEOUT
                                         : "SET statement_timeout = 0",
                              why);
    if (error == 0)
        store->is_bounded = is_bounded;
    return error;
}

/* Connects it if it is lost, once. */
static int be_connected(struct pg_store *store, bool is_bounded, const struct pg_patience *patience,
                        bool *is_refused, struct errmsg *why)
{
    int error = 0;
    *is_refused = false;
    if (pg_control_is_lost(store)) {
        close_control(store);
        error = connect_control(store, patience, is_refused, why);
    }
    return error != 0 ? error : set_bound(store, is_bounded, why);
}

int pg_control_begin(struct pg_store *store, struct errmsg *why)
{
    const struct pg_patience patience = pg_store_patience(store);
    bool unused;
    (void)pthread_mutex_lock(&store->control_lock); /* a plain mutex, never held twice */
    int error = be_connected(store, true, &patience, &unused, why);
    if (error != 0)
        pg_control_end(store);
    return error;
}

int pg_control_renew(struct pg_store *store, const struct pg_patience *patience, struct errmsg *why)
{
    for (;;) {
        bool is_refused;
        int error = be_connected(store, false, patience, &is_refused, why);
        if (error == 0 || is_refused || !pg_control_is_lost(store) || !pg_patience_wait(patience))
            return error;
    }
}

void pg_control_take(struct pg_store *store)
{
    atomic_store(&store->keeps_control, true);
    (void)pthread_mutex_lock(&store->control_lock);
}

void pg_control_end(struct pg_store *store)
{
    if (pg_control_is_lost(store) || PQtransactionStatus(store->control) != PQTRANS_IDLE ||
        !atomic_load(&store->keeps_control))
        close_control(store);
    (void)pthread_mutex_unlock(&store->control_lock);
}

bool pg_control_listen(struct pg_store *store, uint64_t until_ns)
{
    const struct pg_patience patience = {until_ns, store->journal->must_stop};
    if (pg_patience_listen(&patience, store->control, POLLIN))
        return true;
    store->is_control_lost = true;
    return false;
}

/* Like PQexec(), but for the deadline: NULL with the reason. */
static PGresult *ask(struct pg_store *store, const char *sql, struct pg_failure *failure)
{
    PGconn *pg = store->control;
    PGresult *answer = NULL;
    uint64_t until_ns = store->is_bounded ? clock_monotonic_ns() + ANSWER_NS_MAX : UINT64_MAX;
    pg_error_set(failure, PG_FATAL, -ENOMEM, "no memory for an answer of the server");
    if (PQsendQuery(pg, sql) != 1)
        return PQmakeEmptyPGresult(pg, PGRES_FATAL_ERROR);
    for (;;) {
        while (PQisBusy(pg)) {
            if (!pg_control_listen(store, until_ns)) {
                PQclear(answer);
                pg_error_set(failure, PG_LOST, -ETIMEDOUT, "the server does not answer");
                return NULL;
            }
            if (!PQconsumeInput(pg))
                break; /* the next result says why */
        }
        PGresult *next = PQgetResult(pg);
        if (next == NULL)
            return answer;
        PQclear(answer);
        answer = next;
        if (PQresultStatus(answer) == PGRES_COPY_OUT)
            return answer;
    }
}

void pg_control_judge(struct pg_store *store, const PGresult *result, struct pg_failure *failure)
{
    pg_error_of_result(failure, result);
    store->is_control_lost = store->is_control_lost || failure->verdict == PG_LOST;
}

PGresult *pg_control_ask(struct pg_store *store, const char *sql, struct pg_failure *failure)
{
    PGresult *result = ask(store, sql, failure);
    ExecStatusType status = PQresultStatus(result);
    if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK || status == PGRES_COPY_OUT)
        return result;
    if (PQstatus(store->control) != CONNECTION_OK)
        pg_error_of_connection(failure, store->control, true, &store->uri);
    else if (result != NULL)
        pg_control_judge(store, result, failure); /* else it is in *failure */
    if (strcmp(failure->sqlstate, LOCK_NOT_AVAILABLE) == 0)
        (void)errmsg_set(&failure->why, failure->error,
                         "another session keeps a table of schema bench locked: %s",
                         failure->why.text);
    PQclear(result);
    return NULL;
}

int pg_control_do(struct pg_store *store, const char *sql, struct errmsg *why)
{
    struct pg_failure failure;
    PGresult *result = pg_control_ask(store, sql, &failure);
    if (result == NULL)
        return pg_failure_say(&failure, why);
    PQclear(result);
    return 0;
}

int pg_control_number(struct pg_store *store, const char *sql, int64_t *number, struct errmsg *why)
{
    struct pg_failure failure;
    PGresult *result = pg_control_ask(store, sql, &failure);
    if (result == NULL)
        return pg_failure_say(&failure, why);
    bool is_number = pg_result_is(result, 1, 1) && !PQgetisnull(result, 0, 0);
    if (is_number)
        *number = strtoll(PQgetvalue(result, 0, 0), NULL, 10);
    PQclear(result);
    return is_number ? 0 : errmsg_set(why, -EPROTO, "the server's answer is not a number");
}

int pg_store_check_level(enum durability level, const char *fsync, const char *full_page_writes,
                         const char *is_read_only, struct errmsg *why)
{
    static const char format[] = "the server runs with %s=off: durability power cannot be kept; "
                                 "-durability process or none can";
    if (strcmp(is_read_only, "on") == 0)
        return errmsg_set(why, -EROFS, "the server or the database is read-only");
    if (level == DURABILITY_POWER && strcmp(fsync, "on") != 0)
        return errmsg_set(why, -EINVAL, format, "fsync");
    if (level == DURABILITY_POWER && strcmp(full_page_writes, "on") != 0)
        return errmsg_set(why, -EINVAL, format, "full_page_writes");
    return 0;
}
