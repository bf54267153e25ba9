/* pg_error: see pg_error.h. */
#include "journal/pg_error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "journal/pg_uri.h"

enum { SQLSTATE_BYTES = 5, WORDS_BYTES_MAX = 240 };

/* The first row whose prefix fits decides. */
static const struct row {
    const char *prefix;
    enum pg_verdict verdict;
    int error;
} rows[] = {
    {"08", PG_LOST, -ECONNRESET},    /* connection exceptions */
    {"23505", PG_EXISTS, -EEXIST},   /* unique_violation */
    {"25P03", PG_LOST, -ECONNRESET}, /* idle_in_transaction_session_timeout */
    {"28", PG_FATAL, -EACCES},       /* authentication */
    {"3D", PG_FATAL, -ENOENT},       /* no such database */
    {"40", PG_RETRY, -EBUSY},        /* serialization_failure, deadlock_detected, … */
    {"42501", PG_FATAL, -EACCES},    /* insufficient_privilege */
    {"53100", PG_FULL, -ENOSPC},     /* disk_full */
    {"53300", PG_LOST, -EUSERS},     /* too_many_connections */
    {"53", PG_RETRY, -ENOMEM},       /* out of other resources */
    {"55006", PG_RETRY, -EBUSY},     /* object_in_use */
    {"55P03", PG_RETRY, -EBUSY},     /* lock_not_available */
    {"57014", PG_RETRY, -EINTR},     /* query_canceled */
    {"57P04", PG_FATAL, -ENOENT},    /* database_dropped */
    {"57P", PG_LOST, -ECONNREFUSED}, /* shutdowns, crash, cannot_connect_now, idle timeout */
    {"", PG_FATAL, -EIO},            /* all others: data, syntax, read-only, internal, … */
};

enum pg_verdict pg_error_judge(const char *sqlstate, int *error)
{
    const struct row *row = rows;
    while (strncmp(row->prefix, sqlstate, strlen(row->prefix)) != 0)
        row++;
    *error = row->error;
    return row->verdict;
}

void pg_error_set(struct pg_failure *failure, enum pg_verdict verdict, int error,
                  const char *format, ...)
{
    char text[ERRMSG_BYTES];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    *failure = (struct pg_failure){.verdict = verdict, .error = error};
    (void)errmsg_set(&failure->why, error, "%s", text);
}

bool pg_result_is(const PGresult *result, int row_count, int column_count)
{
    return PQntuples(result) == row_count && PQnfields(result) == column_count;
}

int pg_failure_say(const struct pg_failure *failure, struct errmsg *why)
{
    return errmsg_set(why, failure->error, "%s", failure->why.text);
}

static bool is_sqlstate(const char *text)
{
    for (unsigned i = 0; i < SQLSTATE_BYTES; i++)
        if (!((text[i] >= '0' && text[i] <= '9') || (text[i] >= 'A' && text[i] <= 'Z')))
            return false;
    return true;
}

static int line_bytes(const char *text)
{
    size_t bytes = strcspn(text, "\r\n");
    return bytes < WORDS_BYTES_MAX ? (int)bytes : WORDS_BYTES_MAX;
}

void pg_error_of_result(struct pg_failure *failure, const PGresult *result)
{
    const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *words = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    const char *severity = PQresultErrorField(result, PG_DIAG_SEVERITY_NONLOCALIZED);
    int error;

    if (sqlstate == NULL || words == NULL) { /* libpq's own */
        words = PQresultErrorMessage(result);
        if (words[0] == '\0')
            words = "the server's answer makes no sense";
        pg_error_set(failure, PG_LOST, -ECONNRESET, "%.*s", line_bytes(words), words);
        return;
    }
    enum pg_verdict verdict = pg_error_judge(sqlstate, &error);
    /* Whatever its reason, such a session has ended. */
    if (severity != NULL && strcmp(severity, "ERROR") != 0 && verdict != PG_FATAL)
        verdict = PG_LOST;
    pg_error_set(failure, verdict, error, "%.*s (SQLSTATE %.5s)", line_bytes(words), words,
                 sqlstate);
    (void)snprintf(failure->sqlstate, sizeof(failure->sqlstate), "%s", sqlstate);
}

/* A server's refusal of a connection has its SQLSTATE in the text only, between a severity that may
 * be translated and the words; see pg_uri_connect(). */
static const char *find_sqlstate(const char *text, const char **words)
{
    for (const char *at = strstr(text, ":  "); at != NULL; at = strstr(at + 1, ":  ")) {
        const char *sqlstate = at + 3;
        if (strnlen(sqlstate, SQLSTATE_BYTES + 2) == SQLSTATE_BYTES + 2 && is_sqlstate(sqlstate) &&
            strncmp(sqlstate + SQLSTATE_BYTES, ": ", 2) == 0) {
            *words = sqlstate + SQLSTATE_BYTES + 2;
            return sqlstate;
        }
    }
    return NULL;
}

/* Of several addresses that were tried, the last one's refusal. */
static const char *last_refusal(const char *text)
{
    static const char mark[] = " failed: ";
    const char *words = text;
    for (const char *at = strstr(text, mark); at != NULL; at = strstr(words, mark))
        words = at + sizeof(mark) - 1;
    return words;
}

void pg_error_of_connection(struct pg_failure *failure, const PGconn *pg, bool is_connected,
                            const struct pg_uri *uri)
{
    const char *words = last_refusal(PQerrorMessage(pg));
    const char *sqlstate = find_sqlstate(words, &words);
    enum pg_verdict verdict = PG_LOST;
    int error = is_connected ? -ECONNRESET : -ECONNREFUSED;

    if (sqlstate != NULL)
        verdict = pg_error_judge(sqlstate, &error);
    else if (!is_connected && PQconnectionNeedsPassword(pg))
        verdict = PG_FATAL;
    if (verdict == PG_RETRY)
        verdict = PG_LOST;
    if (uri->is_doubtful)
        pg_error_set(failure, verdict, error,
                     "the reason may quote the password: in the URI a \"@\" stands between that "
                     "and the host, and any other must be written %%40");
    else if (line_bytes(words) == 0)
        pg_error_set(failure, verdict, error, "the server has closed the connection");
    else if (sqlstate != NULL)
        pg_error_set(failure, verdict, error, "%.*s (SQLSTATE %.5s)", line_bytes(words), words,
                     sqlstate);
    else
        pg_error_set(failure, verdict, error, "%.*s", line_bytes(words), words);
    if (sqlstate != NULL)
        (void)snprintf(failure->sqlstate, sizeof(failure->sqlstate), "%.5s", sqlstate);
}
