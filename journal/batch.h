/*
 * batch: what a journal batch is to group commit, and the lists that batches and appends stand in.
 *
 * Ownership: a batch is its writer's, on the list that it was allocated on until it is freed.
 * Threading: the writer's. Errors: NULL or false without memory. Units: bytes, ns.
 */
#ifndef BENCH_JOURNAL_BATCH_H
#define BENCH_JOURNAL_BATCH_H

#include "engine/base/list.h"
#include "journal/backend.h"

struct batch {
    struct journal_batch batch; /* what the store sees */
    struct batch *next;         /* in one of the lists below */
    struct list link;           /* in the list of all */
    uint32_t entries_capacity;
    uint32_t bytes_capacity;
    uint64_t number;  /* of what the writer has sent, in the order in which it first left; 0: not */
    uint64_t sent_ns; /* when that was */
    uint64_t settled_ns;
};

/* NULL without memory. */
struct batch *batch_alloc(struct list *all);
void batch_free(struct batch *batch);

/* What it takes in memory. */
static inline size_t batch_size_bytes(const struct batch *batch)
{
    return sizeof(*batch) + batch->entries_capacity * sizeof(struct journal_entry) +
           batch->bytes_capacity;
}

/* The slow half of batch_reserve(). */
bool batch_grow(struct batch *batch, uint32_t bytes);

/* Makes room in memory for one more record. False without memory. */
static inline bool batch_reserve(struct batch *batch, uint32_t bytes)
{
    return (batch->batch.count < batch->entries_capacity &&
            batch->bytes_capacity - batch->batch.bytes_used >= bytes) ||
           batch_grow(batch, bytes);
}

/* --- first in, first out --- */

struct batches {
    struct batch *first;
    struct batch **end;
};

static inline void batches_init(struct batches *batches)
{
    batches->first = NULL;
    batches->end = &batches->first;
}

static inline void batches_push(struct batches *batches, struct batch *batch)
{
    batch->next = NULL;
    *batches->end = batch;
    batches->end = &batch->next;
}

/* In the order of numbers: what returns from the store mostly does so in it. */
static inline void batches_insert(struct batches *batches, struct batch *batch)
{
    struct batch **at = &batches->first;
    while (*at != NULL && (*at)->number < batch->number)
        at = &(*at)->next;
    batch->next = *at;
    *at = batch;
    if (batch->next == NULL)
        batches->end = &batch->next;
}

static inline struct batch *batches_pop(struct batches *batches)
{
    struct batch *batch = batches->first;
    if (batch == NULL)
        return NULL;
    batches->first = batch->next;
    if (batches->first == NULL)
        batches->end = &batches->first;
    return batch;
}

struct queue {
    struct journal_append *first;
    struct journal_append **end;
};

static inline void queue_init(struct queue *queue)
{
    queue->first = NULL;
    queue->end = &queue->first;
}

static inline void queue_push(struct queue *queue, struct journal_append *append)
{
    append->next = NULL;
    *queue->end = append;
    queue->end = &append->next;
}

static inline struct journal_append *queue_pop(struct queue *queue)
{
    struct journal_append *append = queue->first;
    if (append == NULL)
        return NULL;
    queue->first = append->next;
    if (queue->first == NULL)
        queue->end = &queue->first;
    return append;
}

#endif
