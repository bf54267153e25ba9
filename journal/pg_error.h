/*
 * pg_error: what a failure of the server or of libpq means to a batch, and its words for people.
 *
 * One table maps SQLSTATEs to a verdict. Words of a server are never trusted: one line, cleaned and
 * cut. Those about a connection are given without the address that libpq puts before them, and not
 * at all where the URI may have been taken apart wrongly (pg_uri.h): then they may hold a password.
 *
 * Ownership: plain data. Threading: none. Errors: see enum pg_verdict.
 */
#ifndef BENCH_JOURNAL_PG_ERROR_H
#define BENCH_JOURNAL_PG_ERROR_H

#include <stdbool.h>

#include <libpq-fe.h>

#include "engine/base/err.h"

struct pg_uri;

/* What to do about it. */
enum pg_verdict {
    PG_NONE = 0, /* nothing has failed */
    PG_LOST,     /* the connection is of no use any more; a new one may be */
    PG_RETRY,    /* the server has undone the transaction, and may yet do it */
    PG_EXISTS,   /* undone, since a key is there already */
    PG_FULL,     /* no room, never tried again */
    PG_FATAL,    /* never tried again */
};

struct pg_failure {
    enum pg_verdict verdict;
    int error;        /* -errno */
    char sqlstate[6]; /* "" when the server has not said one */
    struct errmsg why;
};

/* The verdict on a SQLSTATE, of a statement on a connection that works; *error is the -errno. */
enum pg_verdict pg_error_judge(const char *sqlstate, int *error);

/* Whether an answer has so many rows and columns; what a server says is never taken for granted. */
bool pg_result_is(const PGresult *result, int row_count, int column_count);

/* Of a result with an error. */
void pg_error_of_result(struct pg_failure *failure, const PGresult *result);

/* Of a connection that broke (`is_connected`) or was not made. PG_LOST where trying again may help,
 * else PG_FATAL. */
void pg_error_of_connection(struct pg_failure *failure, const PGconn *pg, bool is_connected,
                            const struct pg_uri *uri);

/* Hands the reason on; returns its -errno. */
int pg_failure_say(const struct pg_failure *failure, struct errmsg *why);

/* Our own reason. */
void pg_error_set(struct pg_failure *failure, enum pg_verdict verdict, int error,
                  const char *format, ...) __attribute__((format(printf, 4, 5)));

#endif
