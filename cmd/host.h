/*
 * host: the machine that a result was measured on. Reading it costs a millisecond on a large
 * machine, so only a report that prints it asks. Threading: none, plain data. What cannot be read
 * is "unknown" or 0.
 */
#ifndef BENCH_HOST_H
#define BENCH_HOST_H

#include <stdint.h>

enum { HOST_TEXT_BYTES = 128 };

struct host {
    char cpu_model[HOST_TEXT_BYTES];
    char kernel[HOST_TEXT_BYTES]; /* "Linux 6.1.0 x86_64" */
    uint32_t cpus;                /* that this process may run on */
    uint64_t memory_bytes;        /* of the machine */
};

void host_read(struct host *host);

#endif
