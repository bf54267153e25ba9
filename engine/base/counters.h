/*
 * counters: what the allocator and the kernel count of this process while it runs: figures that do
 * not depend on how fast or how busy a machine is.
 *
 * allocations: calls of malloc and the like, of all threads, by jemalloc's statistics. What a
 * thread holds back in its cache is counted when that is flushed, see
 * resource_flush_thread_cache(). syscalls: by the kernel's tracepoint raw_syscalls:sys_enter, which
 * takes tracefs and either CAP_PERFMON or a perf_event_paranoid of -1. instructions: retired in
 * user space, by the CPU's own counter, which many virtual machines do not have.
 *
 * Life: counters_open() before the threads are started whose work is to be counted; what they do is
 * included, and also what this thread does. Ownership: two descriptors, until counters_close().
 * Threading: reading is safe from any thread. Errors: none; what is not granted is not known.
 */
#ifndef BENCH_BASE_COUNTERS_H
#define BENCH_BASE_COUNTERS_H

#include <stdint.h>

#define COUNT_NOT_KNOWN UINT64_MAX

struct counts {
    uint64_t allocations;
    uint64_t syscalls;
    uint64_t instructions;
};

struct counters {
    int syscalls_fd; /* -1: not granted */
    int instructions_fd;
};

void counters_open(struct counters *counters);
void counters_close(struct counters *counters);

/* All since counters_open(); allocations since the process started. */
struct counts counters_read(const struct counters *counters);

/* What a counter has come to between two readings; not known where one is not, or where it has
 * shrunk meanwhile. */
uint64_t count_since(uint64_t before, uint64_t after);

/* The same of all three. */
struct counts counts_since(const struct counts *before, const struct counts *after);

#endif
