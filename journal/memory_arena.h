/*
 * memory_arena: what the in-memory store is made of: arenas that only grow, and a table from
 * numbers to what lies in them, all under one bound.
 *
 * Ownership: a bound outlives what is claimed from it; what an arena hands out is the arena's until
 * arena_close(). Threading: a bound is shared by all threads, the rest belongs to one at a time.
 * Errors: NULL or false at the bound or without memory. Units: bytes.
 */
#ifndef BENCH_JOURNAL_MEMORY_ARENA_H
#define BENCH_JOURNAL_MEMORY_ARENA_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ARENA_UNIT_BYTES = 8, CACHE_LINE_BYTES = 64 };

struct bound {
    uint64_t bytes_max;
    _Atomic uint64_t bytes_claimed;
};

struct chunk {
    char *base;
    uint32_t first_unit; /* of all units of the arena */
    uint32_t used_bytes; /* once the next chunk is begun */
};
static_assert(sizeof(struct chunk) == 16, "one a chunk");

struct arena {
    char *bump;
    char *end;
    struct chunk *chunks;
    uint32_t chunk_count;
    uint32_t chunk_capacity;
    uint64_t unit_count; /* of all chunks */
    size_t chunk_bytes_next;
};

static inline size_t arena_round_up(size_t bytes, size_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

/* Begins a chunk with at least `bytes`. What is left of the one before is given up: a scan finds a
 * run's records in their order only if chunks are filled one after the other. */
void *arena_grow(struct bound *bound, struct arena *arena, size_t bytes);
void arena_close(struct arena *arena);

/* Where the next `bytes` go; they are taken by moving arena->bump. NULL at the bound or without
 * memory. */
static inline void *arena_reserve(struct bound *bound, struct arena *arena, size_t bytes)
{
    if (__builtin_expect((size_t)(arena->end - arena->bump) >= bytes, 1))
        return arena->bump;
    return arena_grow(bound, arena, bytes);
}

/* From a number to what is kept of it: open addressing, at most half full. */
struct directory {
    struct ref {
        uint64_t number;
        void *page; /* NULL: free */
    } * refs;
    size_t capacity; /* a power of two, or 0 */
    size_t count;
    unsigned shift;
};

/* Makes room for one more. False at the bound or without memory. */
bool directory_reserve(struct bound *bound, struct directory *directory);

static inline size_t directory_start(const struct directory *directory, uint64_t number)
{
    return (size_t)((number * UINT64_C(0x9e3779b97f4a7c15)) >> directory->shift);
}

static inline void *directory_find(const struct directory *directory, uint64_t number)
{
    if (directory->capacity == 0)
        return NULL;
    size_t i = directory_start(directory, number);
    while (directory->refs[i].page != NULL && directory->refs[i].number != number)
        i = (i + 1) & (directory->capacity - 1);
    return directory->refs[i].page;
}

static inline void directory_put(struct directory *directory, uint64_t number, void *page)
{
    size_t i = directory_start(directory, number);
    while (directory->refs[i].page != NULL)
        i = (i + 1) & (directory->capacity - 1);
    directory->refs[i] = (struct ref){number, page};
    directory->count++;
}

#endif
