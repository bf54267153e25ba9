/* pool: see pool.h. The common cases are inline there; this is what happens once a chunk. */
#include "engine/base/pool.h"

#include <stdalign.h>
#include <stdbool.h>
#include <string.h>

#include "engine/base/chunk.h"

/* In front of the first block of a chunk lies the link to the chunk before; a whole cache line, so
 * that the blocks of a fresh chunk do not straddle lines needlessly. */
enum { CHUNK_HEADER_BYTES = 64 };

static_assert(CHUNK_HEADER_BYTES % alignof(void *) == 0, "blocks hold a link while free");
static_assert((int)POOL_CHUNK_BYTES_MAX == (int)CHUNK_HUGE_BYTES,
              "the largest chunk, one huge page");

void pool_init(struct pool *p, size_t bytes_max)
{
    memset(p, 0, sizeof(*p));
    p->chunk_bytes_next = POOL_CHUNK_BYTES_MIN;
    p->bytes_max = bytes_max;
}

void pool_close(struct pool *p)
{
    void *chunk = p->chunks;
    while (chunk != NULL) {
        void *next = *(void **)chunk;
        chunk_free(chunk);
        chunk = next;
    }
    pool_init(p, p->bytes_max);
}

/* Cuts what is left of the newest chunk into the largest blocks that fit, for later requests: with
 * a bound on the pool, a quarter of a chunk is too much to lose. Only a rest of less than the
 * smallest block is lost. */
static void retire_bump(struct pool *p)
{
    while (p->bump_end - p->bump >= POOL_BLOCK_BYTES_MIN) {
        size_t rest = (size_t)(p->bump_end - p->bump);
        size_t capacity;
        (void)pool_class(rest, &capacity); /* the class is found again by pool_free() */
        if (capacity > rest) {
            /* The rest lies between two classes: the next smaller one ends at a quarter of an
             * octave less, and that is the largest multiple of the quarter that fits. */
            size_t quarter = (size_t)1 << (61 - (uint32_t)__builtin_clzll(rest - 1));
            capacity -= quarter;
        }
        char *block = p->bump;
        p->bump += capacity;
        ASAN_UNPOISON_MEMORY_REGION(block, capacity);
        pool_free(p, block, capacity);
    }
}

/* How large a chunk to take for a block; 0 when the bound leaves no room for it. */
static size_t choose_chunk_bytes(const struct pool *p, size_t capacity)
{
    size_t left = p->bytes_max - p->bytes;
    if (left < CHUNK_HEADER_BYTES || capacity > left - CHUNK_HEADER_BYTES)
        return 0;
    if (capacity > POOL_CHUNK_BYTES_MAX / 4)
        return CHUNK_HEADER_BYTES + capacity;
    size_t chunk_bytes = p->chunk_bytes_next;
    while (chunk_bytes / 4 < capacity)
        chunk_bytes *= 2;
    assert(chunk_bytes <= POOL_CHUNK_BYTES_MAX);
    return chunk_bytes < left ? chunk_bytes : left;
}

void *pool_alloc_from_new_chunk(struct pool *p, size_t capacity)
{
    assert(p->bytes <= p->bytes_max);
    size_t chunk_bytes = choose_chunk_bytes(p, capacity);
    if (chunk_bytes == 0)
        return NULL;
    char *chunk = chunk_alloc(chunk_bytes);
    if (chunk == NULL)
        return NULL;
    *(void **)chunk = p->chunks;
    p->chunks = chunk;
    p->bytes += chunk_bytes;

    char *block = chunk + CHUNK_HEADER_BYTES;
    bool is_own_chunk = capacity > POOL_CHUNK_BYTES_MAX / 4;
    if (is_own_chunk)
        return block;

    retire_bump(p);
    /* A bound that is no multiple of 8 must not leave blocks that are no multiple of 8. */
    p->bump = block + capacity;
    p->bump_end = chunk + (chunk_bytes & ~(size_t)7);
    ASAN_POISON_MEMORY_REGION(p->bump, (size_t)(p->bump_end - p->bump));
    if (p->chunk_bytes_next < POOL_CHUNK_BYTES_MAX)
        p->chunk_bytes_next *= 2;
    return block;
}
