/* counters: see counters.h. The events are inherited by threads, whose counts the kernel adds up.
 */
#include "engine/base/counters.h"

#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "engine/base/resource.h"

static int open_event(uint32_t type, uint64_t config)
{
    struct perf_event_attr attr = {
        .type = type,
        .size = sizeof(attr),
        .config = config,
        .inherit = 1,
        /* A system call is made in the kernel; instructions are counted outside of it only, where
         * they are ours and anyone may count them. */
        .exclude_kernel = type == PERF_TYPE_HARDWARE,
        .exclude_hv = type == PERF_TYPE_HARDWARE,
    };
    return (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

/* The number by which this kernel knows its tracepoint; 0 where it does not tell. */
static uint64_t read_syscalls_id(void)
{
    static const char *const paths[] = {
        "/sys/kernel/tracing/events/raw_syscalls/sys_enter/id",
        "/sys/kernel/debug/tracing/events/raw_syscalls/sys_enter/id",
    };
    char text[32];
    ssize_t got = -1;
    for (unsigned i = 0; i < sizeof(paths) / sizeof(paths[0]) && got <= 0; i++) {
        int fd = open(paths[i], O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            continue;
        got = read(fd, text, sizeof(text) - 1);
        (void)close(fd); /* only read from */
    }
    if (got <= 0)
        return 0;
    text[got] = '\0';
    return strtoull(text, NULL, 10);
}

void counters_open(struct counters *counters)
{
    uint64_t id = read_syscalls_id();
    counters->syscalls_fd = id != 0 ? open_event(PERF_TYPE_TRACEPOINT, id) : -1;
    counters->instructions_fd = open_event(PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS);
}

void counters_close(struct counters *counters)
{
    if (counters->syscalls_fd >= 0)
        (void)close(counters->syscalls_fd);
    if (counters->instructions_fd >= 0)
        (void)close(counters->instructions_fd);
    *counters = (struct counters){-1, -1};
}

static uint64_t read_event(int fd)
{
    uint64_t count;
    if (fd < 0 || read(fd, &count, sizeof(count)) != sizeof(count))
        return COUNT_NOT_KNOWN;
    return count;
}

struct counts counters_read(const struct counters *counters)
{
    return (struct counts){
        .allocations = resource_allocations(),
        .syscalls = read_event(counters->syscalls_fd),
        .instructions = read_event(counters->instructions_fd),
    };
}

uint64_t count_since(uint64_t before, uint64_t after)
{
    bool is_known = before != COUNT_NOT_KNOWN && after != COUNT_NOT_KNOWN && after >= before;
    return is_known ? after - before : COUNT_NOT_KNOWN;
}

struct counts counts_since(const struct counts *before, const struct counts *after)
{
    return (struct counts){
        .allocations = count_since(before->allocations, after->allocations),
        .syscalls = count_since(before->syscalls, after->syscalls),
        .instructions = count_since(before->instructions, after->instructions),
    };
}
