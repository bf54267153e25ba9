/*
 * pool: variable-sized blocks for one thread, carved from large chunks, recycled by size class,
 * never returned to the system before the pool closes: what a run's payloads live in.
 *
 * Classes are four to a doubling, from 32 bytes to 112 MiB, so less than a fifth of a block above
 * 32 bytes is unused. Chunks grow from 64 KiB by doubling to 2 MiB, come from the allocator (so its
 * statistics see them) and ask for huge pages; a block larger than a quarter of the largest chunk
 * gets a chunk of its own size. Bounded: at bytes_max, pool_alloc() returns NULL; a block that is
 * free in another class does not help then, because blocks are neither split nor joined.
 *
 * Ownership: blocks are the caller's until pool_free() or pool_close(). Threading: none, one pool a
 * scheduler. Units: bytes. In sanitizer builds, free memory of the pool is poisoned.
 */
#ifndef BENCH_BASE_POOL_H
#define BENCH_BASE_POOL_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#ifdef BENCH_SANITIZER
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, bytes) ((void)(address), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(address, bytes) ((void)(address), (void)(bytes))
#endif

enum {
    POOL_CLASSES = 88,
    POOL_BLOCK_BYTES_MIN = 32,
    POOL_BLOCK_BYTES_MAX = 112 << 20,
    POOL_CHUNK_BYTES_MIN = 64 << 10,
    POOL_CHUNK_BYTES_MAX = 2 << 20,
};

struct pool {
    void *free_blocks[POOL_CLASSES]; /* singly linked through their first word */
    char *bump;                      /* the unused rest of the newest chunk */
    char *bump_end;
    void *chunks; /* singly linked through their first word */
    size_t chunk_bytes_next;
    size_t bytes; /* obtained from the allocator */
    size_t bytes_max;
};
static_assert(sizeof(struct pool) == 8 * POOL_CLASSES + 48, "no padding");

void pool_init(struct pool *p, size_t bytes_max);

/* Releases every chunk: all blocks are gone. The pool is as pool_init() left it. */
void pool_close(struct pool *p);

/* The size class that a request falls into, and the size of its blocks. As in hist.h, an octave is
 * cut into equal parts: the shift names the octave, the leading three bits the part. */
static inline uint32_t pool_class(size_t bytes, size_t *capacity)
{
    if (bytes <= POOL_BLOCK_BYTES_MIN) {
        *capacity = POOL_BLOCK_BYTES_MIN;
        return 0;
    }
    size_t last = bytes - 1;
    uint32_t shift = 61 - (uint32_t)__builtin_clzll(last);
    uint32_t leading = (uint32_t)(last >> shift); /* 4 to 7 */
    *capacity = (size_t)(leading + 1) << shift;
    return (shift << 2) + leading - 15; /* 33 bytes: shift 3, leading 4, class 1 */
}

/* The slow path of pool_alloc(): no free block, and the newest chunk is used up. */
void *pool_alloc_from_new_chunk(struct pool *p, size_t capacity);

/* A block of at least `bytes` bytes, its true size in *capacity; NULL at the bound, without memory,
 * or for more than POOL_BLOCK_BYTES_MAX (*capacity is unchanged or unusable then). Aligned to 8
 * bytes. Not zeroed. */
static inline void *pool_alloc(struct pool *p, size_t bytes, size_t *capacity)
{
    if (__builtin_expect(bytes > POOL_BLOCK_BYTES_MAX, 0))
        return NULL;
    uint32_t class = pool_class(bytes, capacity);
    void *block = p->free_blocks[class];
    if (__builtin_expect(block != NULL, 1)) {
        ASAN_UNPOISON_MEMORY_REGION(block, *capacity);
        p->free_blocks[class] = *(void **)block;
        return block;
    }
    if ((size_t)(p->bump_end - p->bump) < *capacity)
        return pool_alloc_from_new_chunk(p, *capacity);
    block = p->bump;
    p->bump += *capacity;
    ASAN_UNPOISON_MEMORY_REGION(block, *capacity);
    return block;
}

/* `capacity` as pool_alloc() gave it; the block must not be NULL. */
static inline void pool_free(struct pool *p, void *block, size_t capacity)
{
    size_t class_bytes;
    uint32_t class = pool_class(capacity, &class_bytes);
    assert(block != NULL && class < POOL_CLASSES && class_bytes == capacity);
    *(void **)block = p->free_blocks[class];
    p->free_blocks[class] = block;
    ASAN_POISON_MEMORY_REGION(block, capacity);
}

#endif
