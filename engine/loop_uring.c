/*
 * loop_uring: the loop over io_uring. One system call a turn submits what has been queued and
 * waits.
 *
 * A watch is a poll request that completes once. When its completion has been dispatched, the
 * request is queued again and leaves with the next wait, where the kernel looks at the descriptor's
 * state anew: that makes it level-triggered. Other threads write to an eventfd, which a multishot
 * poll watches; it stays armed, so a wake costs no submission.
 *
 * A completion may arrive after its watch is gone, so it names no pointer but a descriptor and the
 * generation of the watch on it. Generations of a descriptor never repeat while a request is in
 * flight; what does not match is dropped. Unwatching also cancels the request at once, since it
 * keeps the descriptor's file open even after close().
 *
 * Should more than CQ_ENTRIES descriptors be ready at once, the kernel keeps the completions that
 * do not fit, and those descriptors fire a turn later.
 */
#include "engine/loop.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    SQ_ENTRIES = 512,
    CQ_ENTRIES = 4096,
    SLOTS_MIN = 64,
};

/* User data of requests that are no watch's: no descriptor has the number in their lower half. */
#define DATA_WAKE UINT64_C(0x00000000ffffffff)
#define DATA_CANCEL UINT64_C(0x00000001ffffffff)

/* What is known about a descriptor, at its number. */
struct uring_slot {
    struct loop_watch *watch;
    uint32_t generation; /* of the latest watch; survives it */
    bool is_armed;       /* a poll of this generation is queued or in flight */
};
static_assert(sizeof(struct uring_slot) == 16, "one a descriptor");

struct uring_state {
    struct io_uring ring;
    struct uring_slot *slots;
    unsigned slot_count;
};

/* The next request to fill in, or NULL when the kernel takes no more at the moment. */
static struct io_uring_sqe *next_request(struct uring_state *state)
{
    struct io_uring_sqe *request = io_uring_get_sqe(&state->ring);
    if (request != NULL)
        return request;
    (void)io_uring_submit(&state->ring); /* whether it made room is what the next line finds out */
    return io_uring_get_sqe(&state->ring);
}

static int arm_wake(struct loop *loop)
{
    struct uring_state *state = loop->state;
    struct io_uring_sqe *request = next_request(state);
    if (request == NULL)
        return -EBUSY;
    io_uring_prep_poll_multishot(request, loop->wake_fd, POLLIN);
    io_uring_sqe_set_data64(request, DATA_WAKE);
    return 0;
}

static const char *refusal(int error)
{
    switch (error) {
    case -EPERM:
    case -EACCES:
        return " (a seccomp filter, as in most containers, or the sysctl kernel.io_uring_disabled)";
    case -ENOSYS:
        return " (this kernel has no io_uring)";
    case -EINVAL:
        return " (single-issuer rings with deferred task work need Linux 6.1)";
    case -ENOMEM:
        return " (the limit of locked memory, ulimit -l, may be too low)";
    default:
        return "";
    }
}

static int uring_open(struct loop *loop, struct errmsg *why)
{
    struct uring_state *state = loop->state;
    struct io_uring_params params = {
        .flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
                 IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_CQSIZE,
        .cq_entries = CQ_ENTRIES,
    };
    int rc = io_uring_queue_init_params(SQ_ENTRIES, &state->ring, &params);
    if (rc < 0)
        return errmsg_set(why, rc, "io_uring: io_uring_setup: %s%s", strerror(-rc), refusal(rc));
    /* It saves looking up the ring's descriptor in every wait; nothing depends on it. */
    (void)io_uring_register_ring_fd(&state->ring);
    rc = arm_wake(loop);
    assert(rc == 0); /* the queue is empty */
    /* Submitted now, so that a kernel that lets us set up a ring but not use it is found out here.
     */
    rc = io_uring_submit(&state->ring);
    if (rc < 0) {
        io_uring_queue_exit(&state->ring);
        return errmsg_set(why, rc, "io_uring: io_uring_enter: %s%s", strerror(-rc), refusal(rc));
    }
    return 0;
}

static void uring_close(struct loop *loop)
{
    struct uring_state *state = loop->state;
    io_uring_queue_exit(&state->ring);
    free(state->slots);
}

static uint64_t watch_data(int fd, uint32_t generation)
{
    return (uint64_t)generation << 32 | (uint32_t)fd;
}

static int arm_watch(struct uring_state *state, int fd)
{
    struct uring_slot *slot = &state->slots[fd];
    assert(slot->watch != NULL && !slot->is_armed);
    struct io_uring_sqe *request = next_request(state);
    if (request == NULL)
        return -EBUSY;
    uint8_t events = slot->watch->events;
    unsigned mask = ((events & LOOP_READABLE) != 0 ? (unsigned)POLLIN : 0) |
                    ((events & LOOP_WRITABLE) != 0 ? (unsigned)POLLOUT : 0);
    io_uring_prep_poll_add(request, fd, mask);
    io_uring_sqe_set_data64(request, watch_data(fd, slot->generation));
    slot->is_armed = true;
    return 0;
}

static uint8_t ready_events(int result)
{
    /* A poll that fails, on a descriptor closed too early for instance, is for the owner to find
     * out by using it. */
    if (result < 0 || (result & (POLLERR | POLLHUP | POLLNVAL)) != 0)
        return LOOP_READABLE | LOOP_WRITABLE;
    return (uint8_t)(((result & POLLIN) != 0 ? LOOP_READABLE : 0) |
                     ((result & POLLOUT) != 0 ? LOOP_WRITABLE : 0));
}

static int complete_wake(struct loop *loop, uint32_t flags)
{
    uint64_t wakes;
    /* There may be nothing left to read: one read takes the wakes of several completions. */
    ssize_t taken = read(loop->wake_fd, &wakes, sizeof(wakes));
    (void)taken;
    /* The kernel ends a multishot poll when it is short of room. */
    return (flags & IORING_CQE_F_MORE) != 0 ? 0 : arm_wake(loop);
}

static int complete_watch(struct uring_state *state, uint64_t data, int result)
{
    const int fd = (int)(uint32_t)data;
    const uint32_t generation = (uint32_t)(data >> 32);
    assert((unsigned)fd < state->slot_count);
    struct uring_slot *slot = &state->slots[fd];
    if (slot->watch == NULL || slot->generation != generation)
        return 0;
    slot->is_armed = false;
    slot->watch->ready(slot->watch, ready_events(result));
    /* The callback may have ended the watch, begun another on the descriptor, or moved the slots.
     */
    slot = &state->slots[fd];
    if (slot->watch == NULL || slot->generation != generation)
        return 0;
    return arm_watch(state, fd);
}

/* Completions that the callbacks bring about wait for the next turn: a watch fires once a turn. */
static int dispatch(struct loop *loop)
{
    struct uring_state *state = loop->state;
    struct io_uring_cqe *head;
    int rc = 0;
    for (unsigned ready = io_uring_cq_ready(&state->ring); ready > 0 && rc == 0; ready--) {
        rc = io_uring_peek_cqe(&state->ring, &head);
        if (rc != 0)
            break;
        /* Freed before the callback runs, which may itself enter the kernel. */
        const struct io_uring_cqe completion = {
            .user_data = head->user_data, .res = head->res, .flags = head->flags};
        io_uring_cqe_seen(&state->ring, head);
        if (completion.user_data == DATA_WAKE)
            rc = complete_wake(loop, completion.flags);
        else if (completion.user_data != DATA_CANCEL)
            rc = complete_watch(state, completion.user_data, completion.res);
    }
    return rc;
}

static int enter(struct uring_state *state, uint64_t timeout_ns)
{
    struct io_uring *ring = &state->ring;
    /* With completions at hand liburing would not wait, but not collect the pending ones either,
     * and a descriptor that is ready would be passed over in this turn. */
    if (timeout_ns == 0 || io_uring_cq_ready(ring) > 0) {
        /* The common turn of a busy loop costs no system call: nothing to submit and nothing to
         * collect. */
        const unsigned flags = IO_URING_READ_ONCE(*ring->sq.kflags);
        if (io_uring_sq_ready(ring) == 0 &&
            (flags & (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW)) == 0)
            return 0;
        return io_uring_submit_and_get_events(ring);
    }
    /* A wait without a timeout that is interrupted just after it submitted something would be
     * restarted by liburing, signal or not. So for ever is an hour at a time. */
    if (timeout_ns > 3600 * NS_PER_S)
        timeout_ns = 3600 * NS_PER_S;
    struct __kernel_timespec timeout = {.tv_sec = (long long)(timeout_ns / NS_PER_S),
                                        .tv_nsec = (long long)(timeout_ns % NS_PER_S)};
    struct io_uring_cqe *first;
    return io_uring_submit_and_wait_timeout(ring, &first, 1, &timeout, NULL);
}

static int uring_turn(struct loop *loop, uint64_t timeout_ns)
{
    int rc = enter(loop->state, timeout_ns);
    loop->now_ns = clock_monotonic_ns();
    switch (rc) {
    case -ETIME:
    case -EINTR:
    /* The kernel is short of memory or of room for completions: what it did not take stays queued
     * for the next turn, and the completions collected now make room. */
    case -EAGAIN:
    case -EBUSY:
        break;
    default:
        if (rc < 0)
            return rc;
    }
    return dispatch(loop);
}

static int reserve_slot(struct uring_state *state, int fd)
{
    unsigned count = state->slot_count == 0 ? SLOTS_MIN : state->slot_count;
    while (count <= (unsigned)fd)
        count *= 2;
    if (count == state->slot_count)
        return 0;
    struct uring_slot *slots = realloc(state->slots, count * sizeof(*slots));
    if (slots == NULL)
        return -ENOMEM;
    memset(slots + state->slot_count, 0, (count - state->slot_count) * sizeof(*slots));
    state->slots = slots;
    state->slot_count = count;
    return 0;
}

static int uring_watch(struct loop *loop, struct loop_watch *watch)
{
    struct uring_state *state = loop->state;
    /* The kernel looks at the descriptor only later, in the wait, when there is nobody to tell. */
    if (fcntl(watch->fd, F_GETFD) < 0)
        return -errno;
    int rc = reserve_slot(state, watch->fd);
    if (rc != 0)
        return rc;
    struct uring_slot *slot = &state->slots[watch->fd];
    if (slot->watch != NULL)
        return -EEXIST;
    slot->watch = watch;
    slot->is_armed = false;
    watch->generation = ++slot->generation;
    rc = arm_watch(state, watch->fd);
    if (rc != 0)
        slot->watch = NULL;
    return rc;
}

static void uring_unwatch(struct loop *loop, struct loop_watch *watch)
{
    struct uring_state *state = loop->state;
    struct uring_slot *slot = &state->slots[watch->fd];
    assert(slot->watch == watch && slot->generation == watch->generation);
    slot->watch = NULL;
    if (!slot->is_armed)
        return;
    struct io_uring_sqe *request = next_request(state);
    if (request == NULL)
        return; /* the poll stays behind until it fires, and is dropped then */
    io_uring_prep_poll_remove(request, watch_data(watch->fd, watch->generation));
    io_uring_sqe_set_data64(request, DATA_CANCEL);
    request->flags |= IOSQE_CQE_SKIP_SUCCESS;
    /* Should it fail, the cancellation stays queued for the next turn. */
    (void)io_uring_submit_and_get_events(&state->ring);
}

const struct loop_ops loop_uring_ops = {
    .name = "io_uring",
    .state_bytes = sizeof(struct uring_state),
    .open = uring_open,
    .close = uring_close,
    .wait = uring_turn,
    .watch = uring_watch,
    .unwatch = uring_unwatch,
};
