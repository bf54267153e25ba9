/* loop_sim: see loop_sim.h. */
#include "tests/lib/loop_sim.h"

#include <assert.h>
#include <errno.h>
#include <unistd.h>

struct sim_state {
    uint64_t wait_count;
    uint64_t sleep_count;
};

static int sim_open(struct loop *loop, struct errmsg *why)
{
    (void)why; /* nothing can fail */
    loop->is_virtual = true;
    loop->now_ns = LOOP_SIM_START_NS;
    return 0;
}

static void sim_close(struct loop *loop)
{
    (void)loop; /* the state holds nothing */
}

static int sim_wait(struct loop *loop, uint64_t timeout_ns)
{
    struct sim_state *state = loop->state;
    state->wait_count++;
    uint64_t wakes;
    if (read(loop->wake_fd, &wakes, sizeof(wakes)) == (ssize_t)sizeof(wakes))
        return 0;
    if (timeout_ns == UINT64_MAX)
        return -EDEADLK;
    if (timeout_ns == 0)
        return 0;
    state->sleep_count++;
    loop_sim_spend(loop, timeout_ns);
    return 0;
}

static int sim_watch(struct loop *loop, struct loop_watch *watch)
{
    (void)loop;
    (void)watch;
    return -ENOTSUP;
}

static void sim_unwatch(struct loop *loop, struct loop_watch *watch)
{
    (void)loop;
    (void)watch;
    assert(false); /* nothing can have been watched */
}

uint64_t loop_sim_wait_count(const struct loop *loop)
{
    assert(loop->ops == &loop_sim_ops);
    return ((const struct sim_state *)loop->state)->wait_count;
}

uint64_t loop_sim_sleep_count(const struct loop *loop)
{
    assert(loop->ops == &loop_sim_ops);
    return ((const struct sim_state *)loop->state)->sleep_count;
}

void loop_sim_spend(struct loop *loop, uint64_t duration_ns)
{
    assert(loop->is_virtual);
    assert(duration_ns <= UINT64_MAX - loop->now_ns);
    loop->now_ns += duration_ns;
}

const struct loop_ops loop_sim_ops = {
    .name = "sim",
    .state_bytes = sizeof(struct sim_state),
    .open = sim_open,
    .close = sim_close,
    .wait = sim_wait,
    .watch = sim_watch,
    .unwatch = sim_unwatch,
};
