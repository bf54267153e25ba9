/* memory_arena: see memory_arena.h. */
#include "journal/memory_arena.h"

#include <stdlib.h>

#include "engine/base/chunk.h"

enum { DIRECTORY_REFS_FIRST = 64 };

static bool claim_bytes(struct bound *bound, uint64_t bytes)
{
    uint64_t claimed = atomic_load_explicit(&bound->bytes_claimed, memory_order_relaxed);
    do {
        if (bytes > bound->bytes_max - claimed)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&bound->bytes_claimed, &claimed,
                                                    claimed + bytes, memory_order_relaxed,
                                                    memory_order_relaxed));
    return true;
}

static void unclaim_bytes(struct bound *bound, uint64_t bytes)
{
    atomic_fetch_sub_explicit(&bound->bytes_claimed, bytes, memory_order_relaxed);
}

static bool arena_list_chunk(struct arena *arena, char *base, size_t bytes)
{
    if (arena->chunk_count == arena->chunk_capacity) {
        uint32_t capacity = arena->chunk_capacity == 0 ? 8 : 2 * arena->chunk_capacity;
        struct chunk *chunks = realloc(arena->chunks, capacity * sizeof(*chunks));
        if (chunks == NULL)
            return false;
        arena->chunks = chunks;
        arena->chunk_capacity = capacity;
    }
    if (arena->chunk_count > 0) {
        struct chunk *full = &arena->chunks[arena->chunk_count - 1];
        full->used_bytes = (uint32_t)(arena->bump - full->base);
    }
    arena->chunks[arena->chunk_count++] =
        (struct chunk){.base = base, .first_unit = (uint32_t)arena->unit_count};
    arena->unit_count += bytes / ARENA_UNIT_BYTES;
    return true;
}

void *arena_grow(struct bound *bound, struct arena *arena, size_t bytes)
{
    size_t least = arena_round_up(bytes, CACHE_LINE_BYTES);
    size_t size = least <= arena->chunk_bytes_next ? arena->chunk_bytes_next
                                                   : arena_round_up(least, CHUNK_HUGE_BYTES);

    /* Near the bound a smaller chunk will do. */
    while (!claim_bytes(bound, size)) {
        if (size == least)
            return NULL;
        size = arena_round_up(size / 2, CACHE_LINE_BYTES);
        size = size < least ? least : size;
    }
    if (arena->unit_count + size / ARENA_UNIT_BYTES >= UINT32_MAX)
        goto fail;
    char *base = chunk_alloc(size);
    if (base == NULL)
        goto fail;
    if (!arena_list_chunk(arena, base, size)) {
        chunk_free(base);
        goto fail;
    }
    arena->bump = base;
    arena->end = base + size;
    if (arena->chunk_bytes_next < CHUNK_HUGE_BYTES)
        arena->chunk_bytes_next *= 2;
    return base;

fail:
    unclaim_bytes(bound, size);
    return NULL;
}

void arena_close(struct arena *arena)
{
    for (uint32_t i = 0; i < arena->chunk_count; i++)
        chunk_free(arena->chunks[i].base);
    free(arena->chunks);
}

bool directory_reserve(struct bound *bound, struct directory *directory)
{
    if (2 * (directory->count + 1) <= directory->capacity)
        return true;
    size_t capacity = directory->capacity == 0 ? DIRECTORY_REFS_FIRST : 2 * directory->capacity;
    if (!claim_bytes(bound, capacity * sizeof(struct ref)))
        return false;
    struct directory grown = {
        .refs = calloc(capacity, sizeof(struct ref)),
        .capacity = capacity,
        .shift = 64 - (unsigned)__builtin_ctzll(capacity),
    };
    if (grown.refs == NULL) {
        unclaim_bytes(bound, capacity * sizeof(struct ref));
        return false;
    }
    for (size_t i = 0; i < directory->capacity; i++) {
        if (directory->refs[i].page != NULL)
            directory_put(&grown, directory->refs[i].number, directory->refs[i].page);
    }
    free(directory->refs);
    unclaim_bytes(bound, directory->capacity * sizeof(struct ref));
    *directory = grown;
    return true;
}
