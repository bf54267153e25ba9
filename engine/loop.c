/*
 * loop: the table of implementations, opening and falling back, and one turn.
 *
 * A turn is a wait, which calls the watches, followed by the timers that are over. How long to wait
 * is computed here, once for all implementations: until the wheel has something to do, and not at
 * all while timers are due.
 */
#include "engine/loop.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

/* A real wait is no longer than this: the kernel adds the time it is now, and must not overflow. */
#define WAIT_NS_MAX (3600 * NS_PER_S)

const struct loop_ops *const loop_table[] = {
    &loop_uring_ops,
    &loop_epoll_ops,
    NULL,
};

int loop_open_ops(struct loop *loop, const struct loop_ops *ops, struct errmsg *why)
{
    assert(ops->state_bytes > 0);
    *loop = (struct loop){.ops = ops, .wake_fd = -1};
    list_init(&loop->watches);
    int rc = 0;
    loop->state = calloc(1, ops->state_bytes);
    if (loop->state == NULL) {
        rc = errmsg_set(why, -ENOMEM, "%s: out of memory", ops->name);
        goto fail;
    }
    loop->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (loop->wake_fd < 0) {
        rc = errmsg_set(why, -errno, "%s: eventfd: %s", ops->name, strerror(errno));
        goto fail;
    }
    rc = ops->open(loop, why);
    if (rc != 0)
        goto fail;
    if (!loop->is_virtual) {
        /* Without it the kernel may end every wait 50 µs late. It cannot fail, and if it did, waits
         * would only be less exact. */
        (void)prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
        loop->now_ns = clock_monotonic_ns();
    }
    wheel_init(&loop->wheel, loop->now_ns);
    return 0;
fail:
    if (loop->wake_fd >= 0)
        (void)close(loop->wake_fd); /* nothing was written that could be lost */
    free(loop->state);
    loop->state = NULL;
    return rc;
}

/* Opens the first implementation that the kernel grants, and keeps the reasons of those that it
 * refused. */
static int open_auto(struct loop *loop, struct errmsg *why)
{
    struct errmsg reasons = {""};
    int rc = -ENOSYS;
    for (size_t i = 0; loop_table[i] != NULL; i++) {
        struct errmsg reason = {""};
        rc = loop_open_ops(loop, loop_table[i], &reason);
        if (rc == 0) {
            loop->fallback = reasons;
            return 0;
        }
        struct errmsg before = reasons;
        (void)errmsg_set(&reasons, rc, "%s%s%s", before.text, i > 0 ? "; " : "", reason.text);
    }
    return errmsg_set(why, rc, "%s", reasons.text);
}

int loop_open(struct loop *loop, const char *name, struct errmsg *why)
{
    if (strcmp(name, "auto") == 0)
        return open_auto(loop, why);
    for (size_t i = 0; loop_table[i] != NULL; i++)
        if (strcmp(name, loop_table[i]->name) == 0)
            return loop_open_ops(loop, loop_table[i], why);
    char names[128] = "auto";
    for (size_t i = 0; loop_table[i] != NULL; i++) {
        size_t length = strlen(names);
        (void)snprintf(names + length, sizeof(names) - length, ", %s", loop_table[i]->name);
    }
    return errmsg_set(why, -EINVAL, "unknown loop '%s' (known: %s)", name, names);
}

void loop_close(struct loop *loop)
{
    assert(list_empty(&loop->watches));
    loop->ops->close(loop);
    (void)close(loop->wake_fd); /* nothing was written that could be lost */
    free(loop->state);
    loop->state = NULL;
    loop->wake_fd = -1;
}

/* How long the wait of this turn may be. */
static uint64_t wait_timeout_ns(const struct loop *loop, uint64_t until_ns)
{
    uint64_t end_ns = wheel_next_ns(&loop->wheel);
    if (until_ns < end_ns)
        end_ns = until_ns;
    if (end_ns == UINT64_MAX)
        return UINT64_MAX;
    /* A loop with work at hand need not look at the clock. */
    if (end_ns <= loop->now_ns)
        return 0;
    /* The callbacks of the last turn took time: now_ns would make the wait too long. */
    uint64_t now_ns = loop_clock_ns(loop);
    if (end_ns <= now_ns)
        return 0;
    uint64_t timeout_ns = end_ns - now_ns;
    return loop->is_virtual || timeout_ns < WAIT_NS_MAX ? timeout_ns : WAIT_NS_MAX;
}

/* Fires what was due when it began: a marker at the end of the due list keeps out what the
 * callbacks themselves start, and survives the cancelling of any other timer. */
static void fire_due(struct loop *loop, unsigned timers_max)
{
    struct timer end;
    timer_init(&end, NULL);
    wheel_add(&loop->wheel, &end); /* its deadline, 0, is over */
    for (unsigned fired = 0; fired < timers_max; fired++) {
        struct timer *timer = wheel_pop_due(&loop->wheel);
        if (timer == &end)
            return;
        if (timer->deadline_ns != 0 && loop->now_ns - timer->deadline_ns > loop->late_ns)
            loop->late_ns = loop->now_ns - timer->deadline_ns;
        timer->fire(timer, loop->now_ns);
    }
    wheel_cancel(&loop->wheel, &end);
}

int loop_poll(struct loop *loop, uint64_t until_ns, unsigned timers_max)
{
    uint64_t timeout_ns = wait_timeout_ns(loop, until_ns);
    uint64_t before_ns = timeout_ns > 0 ? loop_clock_ns(loop) : 0;
    int rc = loop->ops->wait(loop, timeout_ns);
    assert(rc != -EINTR);
    if (rc != 0)
        return rc;
    if (timeout_ns > 0)
        loop->idle_ns += loop->now_ns - before_ns;
    loop->late_ns = 0;
    wheel_advance(&loop->wheel, loop->now_ns);
    if (loop_has_due(loop))
        fire_due(loop, timers_max);
    return 0;
}

bool loop_has_due(const struct loop *loop)
{
    return !list_empty(&loop->wheel.due);
}

void loop_wake(struct loop *loop)
{
    const uint64_t one = 1;
    const int saved = errno; /* a signal handler must leave it alone */
    /* It fails only when the counter is full, and then the loop has been woken already. */
    ssize_t written = write(loop->wake_fd, &one, sizeof(one));
    (void)written;
    errno = saved;
}

int loop_watch(struct loop *loop, struct loop_watch *watch)
{
    assert(watch->events != 0 && (watch->events & ~(LOOP_READABLE | LOOP_WRITABLE)) == 0);
    assert(watch->ready != NULL);
    if (watch->fd < 0)
        return -EBADF;
    int rc = loop->ops->watch(loop, watch);
    if (rc == 0)
        list_push_back(&loop->watches, &watch->link);
    return rc;
}

void loop_unwatch(struct loop *loop, struct loop_watch *watch)
{
    assert(!list_empty(&watch->link));
    list_remove(&watch->link);
    loop->ops->unwatch(loop, watch);
}
