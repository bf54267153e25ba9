/* batch: see batch.h. */
#include "journal/batch.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/chunk.h"

enum {
    /* Small: a writer may have one open in each of its lanes, and many of each at the store. */
    ENTRIES_FIRST = 64,
    BYTES_FIRST = 4 << 10,
};

void batch_free(struct batch *batch)
{
    list_remove(&batch->link);
    chunk_free(batch->batch.entries);
    chunk_free(batch->batch.bytes);
    free(batch);
}

struct batch *batch_alloc(struct list *all)
{
    struct batch *batch = calloc(1, sizeof(*batch));
    if (batch == NULL)
        return NULL;
    list_push_back(all, &batch->link);
    batch->batch.entries = chunk_alloc(ENTRIES_FIRST * sizeof(struct journal_entry));
    batch->batch.bytes = chunk_alloc(BYTES_FIRST);
    batch->entries_capacity = ENTRIES_FIRST;
    batch->bytes_capacity = BYTES_FIRST;
    if (batch->batch.entries != NULL && batch->batch.bytes != NULL)
        return batch;
    batch_free(batch);
    return NULL;
}

static bool grow(void *block_pointer, uint32_t *capacity, uint64_t needed, size_t used, size_t unit)
{
    void **block = block_pointer;
    uint64_t wanted = *capacity;
    if (needed <= wanted)
        return true;
    while (wanted < needed)
        wanted *= 2;
    void *grown = chunk_alloc(wanted * unit);
    if (grown == NULL)
        return false;
    memcpy(grown, *block, used * unit);
    chunk_free(*block);
    *block = grown;
    *capacity = (uint32_t)wanted;
    return true;
}

bool batch_grow(struct batch *b, uint32_t bytes)
{
    struct journal_batch *batch = &b->batch;
    return grow(&batch->entries, &b->entries_capacity, (uint64_t)batch->count + 1, batch->count,
                sizeof(struct journal_entry)) &&
           grow(&batch->bytes, &b->bytes_capacity, (uint64_t)batch->bytes_used + bytes,
                batch->bytes_used, 1);
}
