/*
 * host: the machine that a result was measured on. Reading it costs a millisecond on a large
 * machine, so only a report that prints it asks. Threading: none, plain data. What cannot be read
 * is "unknown" or 0.
 */
#ifndef BENCH_HOST_H
#define BENCH_HOST_H

#include <stdint.h>

enum { HOST_TEXT_BYTES = 128 };
#define HOST_QUOTA_NOT_KNOWN (-1.0)

struct host {
    char cpu_model[HOST_TEXT_BYTES];
    char kernel[HOST_TEXT_BYTES]; /* "Linux 6.1.0 x86_64" */
    char clock_source[HOST_TEXT_BYTES];
    char cpu_governor[HOST_TEXT_BYTES]; /* see host_read_governor() */
    uint32_t cpus;                      /* that this process may run on */
    uint32_t cpus_online;               /* of the machine */
    double cpu_quota;       /* CPUs that its cgroup may use; 0: no limit; negative: not known */
    uint64_t clock_step_ns; /* the smallest that the clock has been seen to make */
    uint64_t memory_bytes;  /* of the machine */
    char differs_in[HOST_TEXT_BYTES]; /* of several machines as one: the keys of what is not the
                                         same on all, and left empty, 0 or not known here */
};

/* Takes about a millisecond. */
void host_read(struct host *host);

/* What sets the clock of the CPUs that this process may run on, from a directory such as
 * /sys/devices/system/cpu: "performance" if it is that for all of them, else the first that is
 * another; "" where nothing says. */
void host_read_governor(const char *directory, char governor[HOST_TEXT_BYTES]);

#endif
