/*
 * loop_epoll: the loop over epoll, for kernels that refuse io_uring.
 *
 * The kernel's level-triggered events are the loop's. Events are copied out in one call before the
 * first callback runs, and a callback may end any watch, so unwatching also strikes the watch from
 * the events still to be dispatched.
 */
#include "engine/loop.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { EVENTS_MIN = 64 };

struct epoll_state {
    int fd;
    bool lacks_pwait2;    /* the kernel is older than 5.11: waits are whole milliseconds */
    unsigned watch_count; /* with the eventfd */
    unsigned capacity;    /* of events: at least watch_count, so that one call sees all of them */
    unsigned next, count; /* events[next..count) are still to be dispatched */
    struct epoll_event
        *events; /* data.ptr: a watch; the state itself for the eventfd; NULL if struck out */
};

static int reserve_events(struct epoll_state *state)
{
    if (state->watch_count < state->capacity)
        return 0;
    unsigned capacity = state->capacity == 0 ? EVENTS_MIN : 2 * state->capacity;
    struct epoll_event *events = realloc(state->events, capacity * sizeof(*events));
    if (events == NULL)
        return -ENOMEM;
    state->events = events;
    state->capacity = capacity;
    return 0;
}

static int add(struct epoll_state *state, int fd, uint32_t events, void *pointer)
{
    int rc = reserve_events(state);
    if (rc != 0)
        return rc;
    struct epoll_event event = {.events = events, .data.ptr = pointer};
    if (epoll_ctl(state->fd, EPOLL_CTL_ADD, fd, &event) != 0)
        return -errno;
    state->watch_count++;
    return 0;
}

static int epoll_open(struct loop *loop, struct errmsg *why)
{
    struct epoll_state *state = loop->state;
    state->fd = epoll_create1(EPOLL_CLOEXEC);
    if (state->fd < 0)
        return errmsg_set(why, -errno, "epoll: epoll_create1: %s", strerror(errno));
    int rc = add(state, loop->wake_fd, EPOLLIN, state);
    if (rc != 0) {
        (void)errmsg_set(why, rc, "epoll: cannot watch the eventfd: %s", strerror(-rc));
        (void)close(state->fd); /* nothing was written that could be lost */
        free(state->events);
    }
    return rc;
}

static void epoll_close(struct loop *loop)
{
    struct epoll_state *state = loop->state;
    (void)close(state->fd); /* nothing was written that could be lost */
    free(state->events);
}

static int wait_events(struct epoll_state *state, uint64_t timeout_ns)
{
    const int capacity = (int)state->capacity;
    if (!state->lacks_pwait2) {
        struct timespec timeout = {.tv_sec = (time_t)(timeout_ns / NS_PER_S),
                                   .tv_nsec = (long)(timeout_ns % NS_PER_S)};
        int count = epoll_pwait2(state->fd, state->events, capacity,
                                 timeout_ns == UINT64_MAX ? NULL : &timeout, NULL);
        /* Old seccomp filters say EPERM to system calls that they have not heard of. */
        if (count >= 0 || (errno != ENOSYS && errno != EPERM))
            return count < 0 ? -errno : count;
        state->lacks_pwait2 = true;
    }
    /* Rounded up: a wait that ends early would be followed by others of 0 ms until the deadline. */
    uint64_t timeout_ms = timeout_ns / NS_PER_MS + (timeout_ns % NS_PER_MS != 0);
    if (timeout_ms > INT_MAX)
        timeout_ms = INT_MAX;
    int count = epoll_wait(state->fd, state->events, capacity,
                           timeout_ns == UINT64_MAX ? -1 : (int)timeout_ms);
    return count < 0 ? -errno : count;
}

static uint8_t ready_events(uint32_t events)
{
    if ((events & (EPOLLERR | EPOLLHUP)) != 0)
        return LOOP_READABLE | LOOP_WRITABLE;
    return (uint8_t)(((events & EPOLLIN) != 0 ? LOOP_READABLE : 0) |
                     ((events & EPOLLOUT) != 0 ? LOOP_WRITABLE : 0));
}

static int epoll_turn(struct loop *loop, uint64_t timeout_ns)
{
    struct epoll_state *state = loop->state;
    int count = wait_events(state, timeout_ns);
    loop->now_ns = clock_monotonic_ns();
    if (count < 0)
        return count == -EINTR ? 0 : count;
    state->count = (unsigned)count;
    /* A callback may watch more and so move the events: nothing is held across it. */
    for (state->next = 0; state->next < state->count;) {
        const struct epoll_event event = state->events[state->next++];
        if (event.data.ptr == state) {
            uint64_t wakes;
            ssize_t taken = read(loop->wake_fd, &wakes, sizeof(wakes));
            assert(taken == (ssize_t)sizeof(wakes)); /* nobody else reads it */
            (void)taken;
        } else if (event.data.ptr != NULL) {
            struct loop_watch *watch = event.data.ptr;
            watch->ready(watch, ready_events(event.events));
        }
    }
    return 0;
}

static int epoll_watch(struct loop *loop, struct loop_watch *watch)
{
    uint32_t events = ((watch->events & LOOP_READABLE) != 0 ? (uint32_t)EPOLLIN : 0) |
                      ((watch->events & LOOP_WRITABLE) != 0 ? (uint32_t)EPOLLOUT : 0);
    return add(loop->state, watch->fd, events, watch);
}

static void epoll_unwatch(struct loop *loop, struct loop_watch *watch)
{
    struct epoll_state *state = loop->state;
    /* It fails only when the caller has closed the descriptor first, and then the kernel has
     * forgotten it. */
    (void)epoll_ctl(state->fd, EPOLL_CTL_DEL, watch->fd, NULL);
    assert(state->watch_count > 1);
    state->watch_count--;
    for (unsigned i = state->next; i < state->count; i++)
        if (state->events[i].data.ptr == watch)
            state->events[i].data.ptr = NULL;
}

const struct loop_ops loop_epoll_ops = {
    .name = "epoll",
    .state_bytes = sizeof(struct epoll_state),
    .open = epoll_open,
    .close = epoll_close,
    .wait = epoll_turn,
    .watch = epoll_watch,
    .unwatch = epoll_unwatch,
};
