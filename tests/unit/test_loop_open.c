/*
 * Opening a loop by name, how long a turn asks to wait, and what happens when the kernel refuses a
 * system call: for real, in a child process with a seccomp filter.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/loop.h"
#include "tests/lib/loop_probe.h"

/* From here on the system call fails with `error` in this process. */
static bool deny(long call, int error)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)call, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof(code) / sizeof(*code), .filter = code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1UL, 0UL, 0UL, 0UL) == 0 &&
           prctl(PR_SET_SECCOMP, (unsigned long)SECCOMP_MODE_FILTER, &program, 0UL, 0UL) == 0;
}

enum { CHILD_GOOD = 0, CHILD_HAS_NO_SECCOMP = 77 };

/* Runs the body in a process of its own, since a filter is for ever. It answers 0 or the number of
 * what it found wrong. */
static void in_child(int (*body)(int argument), int argument)
{
    (void)fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)alarm(HANG_SECONDS);
        _exit(body(argument));
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == CHILD_HAS_NO_SECCOMP && getenv("CI") == NULL) {
        print_message("seccomp filters cannot be installed here\n");
        skip();
    }
    assert_int_equal(WEXITSTATUS(status), CHILD_GOOD);
}

static int fall_back(int error)
{
    struct loop loop;
    struct errmsg why = {""};
    if (!deny(SYS_io_uring_setup, error))
        return CHILD_HAS_NO_SECCOMP;
    if (loop_open(&loop, "io_uring", &why) != -error)
        return 1;
    if (strstr(why.text, "io_uring_setup: ") == NULL || strstr(why.text, strerror(error)) == NULL)
        return 2;
    if (loop_open(&loop, "auto", &why) != 0 || strcmp(loop.ops->name, "epoll") != 0)
        return 3;
    if (strcmp(loop.fallback.text, why.text) != 0)
        return 4;
    loop_wake(&loop);
    if (loop_poll(&loop, UINT64_MAX, 1) != 0)
        return 5;
    loop_close(&loop);
    return CHILD_GOOD;
}

static void test_auto_falls_back_to_epoll(void **state)
{
    (void)state;
    const int errors[] = {EPERM, ENOSYS, EINVAL, ENOMEM};
    for (size_t i = 0; i < sizeof(errors) / sizeof(*errors); i++)
        in_child(fall_back, errors[i]);
}

/* A ring that can be set up but not used is no ring either. */
static int fall_back_late(int error)
{
    struct loop loop;
    struct errmsg why = {""};
    if (!deny(SYS_io_uring_enter, error))
        return CHILD_HAS_NO_SECCOMP;
    const int next_fd = dup(STDOUT_FILENO);
    if (loop_open(&loop, "auto", &why) != 0 || strcmp(loop.ops->name, "epoll") != 0)
        return 1;
    if (loop.fallback.text[0] == '\0')
        return 2;
    loop_close(&loop);
    for (int i = 1; i <= 4; i++)
        if (dup(STDOUT_FILENO) != next_fd + i)
            return 3; /* a descriptor has leaked */
    return CHILD_GOOD;
}

static void test_auto_falls_back_when_the_ring_is_of_no_use(void **state)
{
    (void)state;
    in_child(fall_back_late, EPERM);
}

static int wait_in_milliseconds(int error)
{
    struct loop loop;
    if (loop_open(&loop, "epoll", NULL) != 0)
        return 1;
    if (!deny(SYS_epoll_pwait2, error))
        return CHILD_HAS_NO_SECCOMP;
    struct probe probe;
    probe_init(&probe, &loop, -1, 0);
    const uint64_t deadline_ns = clock_monotonic_ns() + 3900 * NS_PER_US;
    loop_timer_start(&loop, &probe.timer, deadline_ns);
    unsigned polls = 0;
    for (; probe.fire_count == 0; polls++)
        if (loop_poll(&loop, UINT64_MAX, 1) != 0)
            return 2;
    if (probe.fired_ns < deadline_ns || polls > WHEEL_LEVELS)
        return 3;
    loop_wake(&loop);
    if (loop_poll(&loop, UINT64_MAX, 1) != 0)
        return 4;
    loop_close(&loop);
    return CHILD_GOOD;
}

static void test_epoll_without_pwait2(void **state)
{
    (void)state;
    in_child(wait_in_milliseconds, ENOSYS);
    in_child(wait_in_milliseconds, EPERM);
}

static void start_again(struct probe *probe)
{
    loop_timer_start(probe->loop, &probe->timer, 1);
}

/* The kernel must not be entered, or the turn would fail. */
static int turn_idly(int error)
{
    struct loop loop;
    if (loop_open(&loop, "io_uring", NULL) != 0)
        return CHILD_GOOD; /* the table's tests tell that it is refused */
    struct probe probe;
    probe_init(&probe, &loop, -1, 0);
    probe.then = start_again;
    loop_timer_start(&loop, &probe.timer, 0);
    if (!deny(SYS_io_uring_enter, error))
        return CHILD_HAS_NO_SECCOMP;
    for (unsigned i = 0; i < 1000; i++)
        if (loop_poll(&loop, UINT64_MAX, 1) != 0)
            return 1;
    return probe.fire_count == 1000 ? CHILD_GOOD : 2;
}

static void test_busy_turn_of_io_uring_is_no_system_call(void **state)
{
    (void)state;
    in_child(turn_idly, EPERM);
}

static void test_names(void **state)
{
    (void)state;
    struct loop loop;
    struct errmsg why = {""};
    assert_int_equal(loop_open(&loop, "kqueue", &why), -EINVAL);
    assert_non_null(strstr(why.text, "kqueue"));
    assert_non_null(strstr(why.text, "io_uring, epoll"));
    assert_int_equal(loop_open(&loop, "auto", &why), 0);
    assert_int_equal(loop.ops == loop_table[0], loop.fallback.text[0] == '\0');
    loop_close(&loop);
}

/* An implementation that only notes how long it is asked to wait. */
struct recorder {
    uint64_t timeout_ns;
};

static int recorder_open(struct loop *loop, struct errmsg *why)
{
    (void)loop;
    (void)why;
    return 0;
}

static void recorder_close(struct loop *loop)
{
    (void)loop;
}

static int recorder_wait(struct loop *loop, uint64_t timeout_ns)
{
    ((struct recorder *)loop->state)->timeout_ns = timeout_ns;
    loop->now_ns = clock_monotonic_ns();
    return 0;
}

static const struct loop_ops recorder_ops = {
    .name = "recorder",
    .state_bytes = sizeof(struct recorder),
    .open = recorder_open,
    .close = recorder_close,
    .wait = recorder_wait,
};

static uint64_t asked_timeout_ns(struct loop *loop, uint64_t until_ns)
{
    assert_int_equal(loop_poll(loop, until_ns, ALL_TIMERS), 0);
    return ((const struct recorder *)loop->state)->timeout_ns;
}

static void test_timeouts(void **state)
{
    (void)state;
    static struct loop loop;
    assert_int_equal(loop_open_ops(&loop, &recorder_ops, NULL), 0);
    assert_int_equal(asked_timeout_ns(&loop, 0), 0);
    assert_int_equal(asked_timeout_ns(&loop, loop.now_ns), 0);
    assert_int_equal(asked_timeout_ns(&loop, UINT64_MAX), UINT64_MAX);
    assert_int_equal(asked_timeout_ns(&loop, UINT64_MAX - 1), 3600 * NS_PER_S);
    /* What was in the future when the last wait ended is over by now: callbacks take time. */
    const uint64_t until_ns = loop.now_ns + 2 * NS_PER_MS;
    while (clock_monotonic_ns() < until_ns)
        continue;
    assert_int_equal(asked_timeout_ns(&loop, until_ns), 0);
    assert_true(asked_timeout_ns(&loop, loop.now_ns + NS_PER_S) < NS_PER_S);
    struct probe probe;
    probe_init(&probe, &loop, -1, 0);
    loop_timer_start(&loop, &probe.timer, loop.now_ns + NS_PER_MS);
    assert_true(asked_timeout_ns(&loop, UINT64_MAX) < 2 * NS_PER_MS);
    loop_timer_stop(&loop, &probe.timer);
    assert_int_equal(asked_timeout_ns(&loop, UINT64_MAX), UINT64_MAX);
    loop_close(&loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_timeouts),
        cmocka_unit_test(test_auto_falls_back_to_epoll),
        cmocka_unit_test(test_auto_falls_back_when_the_ring_is_of_no_use),
        cmocka_unit_test(test_epoll_without_pwait2),
        cmocka_unit_test(test_busy_turn_of_io_uring_is_no_system_call),
    };
    return cmocka_run_group_tests_name("loop_open", tests, NULL, NULL);
}
