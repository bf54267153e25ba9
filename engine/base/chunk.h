/*
 * chunk: large pieces of memory for arenas and pools, from the allocator, on huge pages where the
 * kernel grants them (a fault a 2 MiB instead of 512: measured in docs/decisions.md).
 *
 * The memory comes from malloc's family, not from mmap, so that the allocator's statistics, and
 * with them the report's heap figures, include it. Ownership: the caller's until chunk_free().
 * Threading: safe from any thread. Errors: NULL without memory. Units: bytes.
 */
#ifndef BENCH_BASE_CHUNK_H
#define BENCH_BASE_CHUNK_H

#include <stddef.h>

enum {
    CHUNK_ALIGNMENT_BYTES = 64,
    CHUNK_HUGE_BYTES = 2 << 20,
};

/* At least `bytes`, aligned to a cache line, and to 2 MiB when that large; not zeroed. NULL without
 * memory. */
void *chunk_alloc(size_t bytes);

/* `chunk` may be NULL. */
void chunk_free(void *chunk);

/* Has the kernel bring in memory for `bytes` of chunks that the calling thread will allocate later,
 * so that the first use of each page is not paid for where time is measured. Nothing stays
 * allocated. Best effort: without memory it warms less. */
void chunk_warm(size_t bytes);

#endif
