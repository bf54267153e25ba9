/* pg_uri: see pg_uri.h. */
#include "journal/pg_uri.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/base/clock.h"

enum { CONNECT_TIMEOUT_S = 10, CONNECT_TIMEOUT_S_MAX = 600, PORT_MAX = 65535 };

#define STARTING_UP "57P03" /* also: shutting down, recovering */
#define PAUSE_NS (200 * NS_PER_MS)
/* How long a server may say nothing once it is not to be waited for any more. */
enum { STOPPED_S = 2 };
#define STOPPED_NS (STOPPED_S * NS_PER_S)

/* What is forced; what is added where neither the URI nor the environment says anything. */
static const struct addition {
    const char *keyword;
    const char *value;
    const char *variable;
    bool is_forced;
} additions[] = {
    {"client_encoding", "UTF8", NULL, true},
    {"fallback_application_name", "bench", NULL, true},
    {"connect_timeout", "10", "PGCONNECT_TIMEOUT", false},
    {"keepalives_idle", "30", NULL, false},
    {"keepalives_interval", "10", NULL, false},
    {"keepalives_count", "3", NULL, false},
};
enum { ADDITIONS = sizeof(additions) / sizeof(additions[0]), ADDITIONS_MAX = ADDITIONS + 1 };

/* The @ that ends user and password is the only one in a URI that was encoded as it should be.
 * Where there is none, a colon should begin the only port: a list may be what was meant as a
 * password. */
static bool is_doubtful(const char *text)
{
    const char *authority = strstr(text, "://");
    if (authority == NULL)
        return true;
    authority += strlen("://");
    size_t bytes = strcspn(authority, "/?");
    const char *first = strchr(text, '@');
    if (first != NULL)
        return strchr(first + 1, '@') != NULL || first > authority + bytes;
    const char *colon = memchr(authority, ':', bytes);
    return colon != NULL && memchr(colon, ',', bytes - (size_t)(colon - authority)) != NULL;
}

static const char *value_of(const struct pg_uri *uri, const char *keyword)
{
    for (const PQconninfoOption *option = uri->options; option->keyword != NULL; option++)
        if (strcmp(option->keyword, keyword) == 0)
            return option->val;
    return NULL;
}

static unsigned host_count(const char *hosts)
{
    unsigned count = 1;
    for (; hosts != NULL && *hosts != '\0'; hosts++)
        count += *hosts == ',';
    return count;
}

/* libpq keeps to it only where it waits itself. */
static unsigned choose_timeout_s(const struct pg_uri *uri)
{
    const char *given = value_of(uri, "connect_timeout");
    if (given == NULL)
        given = getenv("PGCONNECT_TIMEOUT");
    long seconds = given == NULL ? CONNECT_TIMEOUT_S : strtol(given, NULL, 10);
    if (seconds <= 0)
        seconds = CONNECT_TIMEOUT_S;
    seconds = seconds < CONNECT_TIMEOUT_S_MAX ? seconds : CONNECT_TIMEOUT_S_MAX;
    const char *hosts = value_of(uri, "host");
    return (unsigned)seconds * host_count(hosts != NULL ? hosts : value_of(uri, "hostaddr"));
}

static bool fill_parameters(struct pg_uri *uri)
{
    size_t count = 0;
    while (uri->options[count].keyword != NULL)
        count++;
    uri->keywords = calloc(count + ADDITIONS_MAX + 1, sizeof(uri->keywords[0]));
    uri->values = calloc(count + ADDITIONS_MAX + 1, sizeof(uri->values[0]));
    if (uri->keywords == NULL || uri->values == NULL)
        return false;
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        if (uri->options[i].val == NULL)
            continue;
        uri->keywords[used] = uri->options[i].keyword;
        uri->values[used++] = uri->options[i].val;
    }
    /* Of a keyword that comes twice libpq takes the last. */
    for (unsigned i = 0; i < ADDITIONS; i++) {
        const struct addition *addition = &additions[i];
        if (!addition->is_forced &&
            (value_of(uri, addition->keyword) != NULL ||
             (addition->variable != NULL && getenv(addition->variable) != NULL)))
            continue;
        uri->keywords[used] = addition->keyword;
        uri->values[used++] = addition->value;
    }
    if (value_of(uri, "tcp_user_timeout") == NULL) {
        uri->keywords[used] = "tcp_user_timeout";
        uri->values[used] = uri->silence_ms_max;
    }
    return true;
}

/* Whether all of a list are numbers that a port can have: else libpq quotes them, and what stands
 * in the place of a port is a password where the "@" and the host were forgotten. */
static bool are_ports(const char *list)
{
    for (const char *at = list;; at++) {
        size_t digits = strspn(at, "0123456789");
        unsigned long port = digits == 0 ? 1 : strtoul(at, NULL, 10); /* none: the default one */
        if ((at[digits] != ',' && at[digits] != '\0') || port < 1 || port > PORT_MAX)
            return false;
        at += digits;
        if (*at == '\0')
            return true;
    }
}

int pg_uri_parse(struct pg_uri *uri, const char *text, uint64_t silence_ns_max, struct errmsg *why)
{
    *uri = (struct pg_uri){.is_doubtful = is_doubtful(text)};
    uint64_t silence_ms = silence_ns_max / NS_PER_MS;
    (void)snprintf(uri->silence_ms_max, sizeof(uri->silence_ms_max), "%" PRIu64,
                   silence_ms < INT_MAX ? silence_ms : INT_MAX);
    /* Its own message quotes what it did not understand. */
    if (strstr(text, "://") != NULL)
        uri->options = PQconninfoParse(text, NULL);
    if (uri->options == NULL)
        return errmsg_set(why, -EINVAL,
                          "libpq does not understand the journal's URI; its form is "
                          "postgresql://USER:PASSWORD@HOST:PORT/DATABASE?NAME=VALUE, with special "
                          "characters percent-encoded");
    const char *port = value_of(uri, "port");
    if (port != NULL && !are_ports(port)) {
        pg_uri_free(uri);
        return errmsg_set(why, -EINVAL,
                          "the port in the journal's URI is not a number from 1 to %d", PORT_MAX);
    }
    if (!fill_parameters(uri)) {
        pg_uri_free(uri);
        return errmsg_set(why, -ENOMEM, "no memory for the journal's URI");
    }
    uri->connect_timeout_s = choose_timeout_s(uri);
    return 0;
}

void pg_uri_free(struct pg_uri *uri)
{
    if (uri->options != NULL)
        PQconninfoFree(uri->options);
    free(uri->keywords);
    free(uri->values);
    *uri = (struct pg_uri){.options = NULL};
}

static void ignore_notice(void *arg, const PGresult *result)
{
    (void)arg;
    (void)result;
}

PGconn *pg_uri_connect(const struct pg_uri *uri)
{
    PGconn *pg = PQconnectStartParams(uri->keywords, uri->values, 0);
    if (pg == NULL)
        return NULL;
    (void)PQsetNoticeReceiver(pg, ignore_notice, NULL); /* the one before is libpq's */
    /* The only way to the SQLSTATE of a refusal: in the words. */
    (void)PQsetErrorVerbosity(pg, PQERRORS_VERBOSE);
    return pg;
}

bool pg_uri_wait(const PGconn *pg, short events, uint64_t deadline_ns)
{
    struct pollfd poll_fd = {.fd = PQsocket(pg), .events = events};
    for (;;) {
        uint64_t now_ns = clock_monotonic_ns();
        bool is_late = now_ns >= deadline_ns;
        int timeout_ms = is_late ? 0 : (int)((deadline_ns - now_ns) / NS_PER_MS) + 1;
        int ready = poll(&poll_fd, 1, timeout_ms);
        if (ready > 0 || (ready < 0 && errno != EINTR))
            return true; /* an error shows when the descriptor is used */
        if (is_late)
            return false;
    }
}

static bool is_stopped(const struct pg_patience *patience)
{
    return patience->must_stop != NULL && patience->must_stop();
}

bool pg_patience_wait(const struct pg_patience *patience)
{
    const struct timespec pause = {.tv_nsec = (long)PAUSE_NS};
    if (is_stopped(patience) || clock_monotonic_ns() >= patience->until_ns)
        return false;
    (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL); /* a shorter pause will do */
    return true;
}

bool pg_patience_listen(const struct pg_patience *patience, const PGconn *pg, short events)
{
    uint64_t start_ns = clock_monotonic_ns();
    for (;;) {
        uint64_t now_ns = clock_monotonic_ns();
        uint64_t until_ns = now_ns + PAUSE_NS;
        if (pg_uri_wait(pg, events, until_ns < patience->until_ns ? until_ns : patience->until_ns))
            return true;
        if (until_ns >= patience->until_ns ||
            (now_ns - start_ns >= STOPPED_NS && is_stopped(patience)))
            return false;
    }
}

static PGconn *connect_once(const struct pg_uri *uri, const struct pg_patience *patience,
                            struct pg_failure *failure)
{
    const struct pg_patience connecting = {
        .until_ns = clock_monotonic_ns() + uri->connect_timeout_s * NS_PER_S,
        .must_stop = patience->must_stop,
    };
    PGconn *pg = pg_uri_connect(uri);
    PostgresPollingStatusType wanted = PGRES_POLLING_WRITING;

    if (pg == NULL) {
        pg_error_set(failure, PG_FATAL, -ENOMEM, "no memory for a connection");
        return NULL;
    }
    if (PQstatus(pg) == CONNECTION_BAD)
        wanted = PGRES_POLLING_FAILED;
    while (wanted == PGRES_POLLING_WRITING || wanted == PGRES_POLLING_READING) {
        if (!pg_patience_listen(&connecting, pg,
                                wanted == PGRES_POLLING_WRITING ? POLLOUT : POLLIN)) {
            pg_error_set(failure, PG_LOST, -ETIMEDOUT, "no answer within %u s",
                         is_stopped(patience) ? STOPPED_S : uri->connect_timeout_s);
            PQfinish(pg);
            return NULL;
        }
        wanted = PQconnectPoll(pg);
    }
    if (wanted == PGRES_POLLING_OK)
        return pg;
    pg_error_of_connection(failure, pg, false, uri);
    PQfinish(pg);
    return NULL;
}

PGconn *pg_uri_connect_now(const struct pg_uri *uri, const struct pg_patience *patience,
                           struct pg_failure *failure)
{
    for (;;) {
        PGconn *pg = connect_once(uri, patience, failure);
        if (pg != NULL || strcmp(failure->sqlstate, STARTING_UP) != 0 ||
            !pg_patience_wait(patience))
            return pg;
    }
}
