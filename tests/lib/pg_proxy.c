/* The proxy of pg_fixture.h: one thread, a pair of descriptors a session. */
#include "tests/lib/pg_fixture.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

enum { PORT = 5432, TURN_MS = 5, TRICKLE_MS = 75, BYTES = 64 << 10, TO_END = -1 };

struct session {
    int client; /* -1: free */
    int server;
    bool is_mute;
};

static int socket_below(const char *folder, const char *port, struct sockaddr_un *address)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    int bytes =
        snprintf(address->sun_path, sizeof(address->sun_path), "%s/.s.PGSQL.%s", folder, port);
    return bytes < (int)sizeof(address->sun_path) ? socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)
                                                  : -1;
}

static int connect_server(const struct pg_proxy *proxy)
{
    struct sockaddr_un address;
    struct addrinfo *found = NULL;
    int fd;
    if (proxy->host[0] == '/') {
        fd = socket_below(proxy->host, proxy->port, &address);
        if (fd >= 0 && connect(fd, (const struct sockaddr *)&address, sizeof(address)) != 0) {
            (void)close(fd);
            fd = -1;
        }
        return fd;
    }
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    if (getaddrinfo(proxy->host, proxy->port, &hints, &found) != 0)
        return -1;
    fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, found->ai_addr, found->ai_addrlen) != 0) {
        (void)close(fd);
        fd = -1;
    }
    freeaddrinfo(found);
    return fd;
}

static void end_session(struct pg_proxy *proxy, struct session *session)
{
    if (session->client < 0)
        return;
    (void)close(session->client);
    (void)close(session->server);
    session->client = -1;
    atomic_fetch_sub(&proxy->sessions, 1);
}

static void begin_session(struct pg_proxy *proxy, struct session *sessions)
{
    int client = accept4(proxy->listener, NULL, NULL, SOCK_CLOEXEC);
    struct session *session = sessions;
    while (session < sessions + PG_PROXY_SESSIONS_MAX && session->client >= 0)
        session++;
    int server = atomic_load(&proxy->mode) == PG_PROXY_CUT ? -1 : connect_server(proxy);
    if (client < 0 || server < 0 || session == sessions + PG_PROXY_SESSIONS_MAX) {
        (void)close(client);
        if (server >= 0)
            (void)close(server);
        return;
    }
    *session = (struct session){.client = client, .server = server};
    atomic_fetch_add(&proxy->sessions, 1);
    atomic_fetch_add(&proxy->accepted, 1);
}

/* Passes on what can be read. False at the end. */
static bool pass(int from, int to, enum pg_proxy_mode mode)
{
    bool is_swallowed = mode == PG_PROXY_SWALLOW;
    static _Thread_local char bytes[BYTES];
    ssize_t count = read(from, bytes, mode == PG_PROXY_TRICKLE ? 1 : sizeof(bytes));
    if (count <= 0)
        return count < 0 && errno == EINTR;
    for (ssize_t sent = 0; sent < count && !is_swallowed;) {
        ssize_t more = send(to, bytes + sent, (size_t)(count - sent), MSG_NOSIGNAL);
        if (more <= 0)
            return false;
        sent += more;
    }
    return true;
}

static void run_turn(struct pg_proxy *proxy, struct session *sessions, int mode)
{
    struct pollfd polls[2 * PG_PROXY_SESSIONS_MAX + 1];
    enum { LISTENER = 2 * PG_PROXY_SESSIONS_MAX };
    for (unsigned i = 0; i < PG_PROXY_SESSIONS_MAX; i++) {
        if (mode == PG_PROXY_CUT)
            end_session(proxy, &sessions[i]);
        bool is_open = sessions[i].client >= 0 && !sessions[i].is_mute;
        polls[2 * i] = (struct pollfd){.fd = is_open ? sessions[i].client : -1, .events = POLLIN};
        polls[2 * i + 1] =
            (struct pollfd){.fd = is_open ? sessions[i].server : -1, .events = POLLIN};
    }
    polls[LISTENER] = (struct pollfd){.fd = proxy->listener, .events = POLLIN};
    if (mode == PG_PROXY_TRICKLE)
        (void)poll(NULL, 0, TRICKLE_MS);
    if (poll(polls, LISTENER + 1, TURN_MS) <= 0)
        return;
    mode = atomic_load(&proxy->mode); /* it may have changed while this waited */
    /* When it is cut nothing passes any more, not even what came before. */
    for (unsigned i = 0; i < PG_PROXY_SESSIONS_MAX && mode != PG_PROXY_CUT; i++) {
        struct session *session = &sessions[i];
        if ((polls[2 * i].revents != 0 && !pass(session->client, session->server, PG_PROXY_PASS)) ||
            (polls[2 * i + 1].revents != 0 &&
             !pass(session->server, session->client, (enum pg_proxy_mode)mode)))
            end_session(proxy, session);
    }
    if (polls[LISTENER].revents != 0)
        begin_session(proxy, sessions);
}

static void *run(void *arg)
{
    struct pg_proxy *proxy = arg;
    struct session sessions[PG_PROXY_SESSIONS_MAX];
    int mode;
    for (unsigned i = 0; i < PG_PROXY_SESSIONS_MAX; i++)
        sessions[i].client = -1;
    while ((mode = atomic_load(&proxy->mode)) != TO_END) {
        for (unsigned i = 0; mode == PG_PROXY_MUTE && i < PG_PROXY_SESSIONS_MAX; i++)
            sessions[i].is_mute = true;
        if (mode == PG_PROXY_MUTE)
            atomic_store(&proxy->mode, PG_PROXY_PASS);
        else
            run_turn(proxy, sessions, mode);
    }
    for (unsigned i = 0; i < PG_PROXY_SESSIONS_MAX; i++)
        end_session(proxy, &sessions[i]);
    return NULL;
}

void pg_proxy_open(struct pg_proxy *proxy, const struct pg_fixture *fixture)
{
    struct sockaddr_un address;
    char port[8];
    *proxy = (struct pg_proxy){.host = PQhost(fixture->admin), .port = PQport(fixture->admin)};
    assert_int_equal(scratch_make(&proxy->scratch, "pg_proxy"), 0);
    (void)snprintf(port, sizeof(port), "%d", PORT);
    proxy->listener = socket_below(proxy->scratch.path, port, &address);
    assert_true(proxy->listener >= 0);
    assert_int_equal(bind(proxy->listener, (const struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(proxy->listener, PG_PROXY_SESSIONS_MAX), 0);
    char separator = strchr(fixture->uri, '?') == NULL ? '?' : '&';
    int bytes = snprintf(proxy->uri, sizeof(proxy->uri), "%s%chost=%s&hostaddr=&port=%d",
                         fixture->uri, separator, proxy->scratch.path, PORT);
    assert_in_range(bytes, 1, (int)sizeof(proxy->uri) - 1);
    assert_int_equal(pthread_create(&proxy->thread, NULL, run, proxy), 0);
}

void pg_proxy_close(struct pg_proxy *proxy)
{
    atomic_store(&proxy->mode, TO_END);
    assert_int_equal(pthread_join(proxy->thread, NULL), 0);
    (void)close(proxy->listener);
    assert_int_equal(scratch_remove(&proxy->scratch), 0);
}

void pg_proxy_mute(struct pg_proxy *proxy)
{
    atomic_store(&proxy->mode, PG_PROXY_MUTE);
    while (atomic_load(&proxy->mode) == PG_PROXY_MUTE)
        (void)poll(NULL, 0, 1);
}
