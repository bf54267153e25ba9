/* chunk: see chunk.h. */
#include "engine/base/chunk.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { PAGE_BYTES = 4096 };

void *chunk_alloc(size_t bytes)
{
    size_t alignment = bytes >= CHUNK_HUGE_BYTES ? CHUNK_HUGE_BYTES : CHUNK_ALIGNMENT_BYTES;
    void *chunk = NULL;
    /* A size of 0 may yield NULL, which would read as "no memory". */
    if (posix_memalign(&chunk, alignment, bytes > 0 ? bytes : 1) != 0)
        return NULL;

    /* Only whole huge pages: behind the last one lies memory that is not ours to advise on. A
     * kernel that refuses the advice serves small pages, which is slower and not wrong. */
    if (bytes >= CHUNK_HUGE_BYTES)
        (void)madvise(chunk, bytes - bytes % CHUNK_HUGE_BYTES, MADV_HUGEPAGE);
    return chunk;
}

void chunk_free(void *chunk)
{
    free(chunk);
}

/* The chunks are chained through their first words while they are held: all are held at once, since
 * the allocator would hand out the same one again. */
void chunk_warm(size_t bytes)
{
    void *chunks = NULL;
    for (size_t warmed = 0; warmed < bytes; warmed += CHUNK_HUGE_BYTES) {
        char *chunk = chunk_alloc(CHUNK_HUGE_BYTES);
        if (chunk == NULL)
            break;
        for (size_t at = 0; at < CHUNK_HUGE_BYTES; at += PAGE_BYTES)
            chunk[at] = 0;
        memcpy(chunk, &chunks, sizeof(chunks));
        chunks = chunk;
    }
    while (chunks != NULL) {
        void *next = NULL;
        memcpy(&next, chunks, sizeof(next));
        chunk_free(chunks);
        chunks = next;
    }
}
