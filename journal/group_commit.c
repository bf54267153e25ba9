/*
 * Group commit, once for all stores.
 *
 * The happy path: journal_append() copies the record into the writer's filling batch;
 * journal_flush() hands that batch to the store and fills the other one meanwhile; the store
 * settles the batch, now or later; journal_deliver() fires its callbacks and has a free batch
 * again.
 *
 * No room: when the filling batch is full and the other one is still away, an append waits in a
 * queue. As soon as journal_deliver() has room it tells the first in the queue to come again, as
 * many as the room is for, and keeps the room for them until it is called the next time. Who comes
 * new while others wait goes behind them. So nobody is overtaken for ever, and a caller that never
 * comes again blocks nobody.
 *
 * Refused before it reached a store (too large, no memory): the callback waits for
 * journal_deliver() too.
 */
#include "journal/journal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/chunk.h"
#include "engine/base/digest.h"
#include "engine/base/list.h"
#include "engine/loop.h"
#include "journal/backend.h"

enum {
    BATCH_BYTES_FIRST = 256 << 10,
    /* A callback touches its run, a cache miss with a million of them in flight: so many ahead. */
    DELIVER_AHEAD = 8,
};

struct batch {
    struct journal_batch batch; /* what the store sees */
    uint32_t bytes_capacity;
};

struct queue {
    struct journal_append *first;
    struct journal_append **end;
};

enum commit_state { COMMIT_NONE, COMMIT_IN_FLIGHT, COMMIT_SETTLED };

struct writer {
    struct journal_writer writer; /* what the store sees */
    struct batch *filling;
    struct batch *leaving; /* given to the store, or settled, or free: as `commit` says */
    enum commit_state commit;
    bool is_delivering;
    uint32_t
        reserved_count; /* room of the filling batch that is kept for those told to come again */
    uint32_t reserved_bytes;
    struct queue waiting; /* for room; append->bytes says how much */
    struct queue refused; /* before reaching the store; append->bytes is the result, negated */
    struct journal_append woken; /* its address in append->next marks who was told to come again */
    struct journal_totals totals;
    uint64_t settled_ns;
    struct batch batches[2];
};

static struct writer *writer_of(struct journal_writer *writer)
{
    return container_of(writer, struct writer, writer);
}

static void queue_init(struct queue *queue)
{
    queue->first = NULL;
    queue->end = &queue->first;
}

static void queue_push(struct queue *queue, struct journal_append *append)
{
    append->next = NULL;
    *queue->end = append;
    queue->end = &append->next;
}

static struct journal_append *queue_pop(struct queue *queue)
{
    struct journal_append *append = queue->first;
    if (append == NULL)
        return NULL;
    queue->first = append->next;
    if (queue->first == NULL)
        queue->end = &queue->first;
    return append;
}

static void writer_free(struct writer *writer)
{
    for (unsigned i = 0; i < 2; i++) {
        chunk_free(writer->batches[i].batch.entries);
        chunk_free(writer->batches[i].batch.bytes);
    }
    free(writer);
}

int journal_writer_open(struct journal *journal, unsigned index, struct loop *loop,
                        struct journal_writer **writer, struct errmsg *why)
{
    assert(index < journal->writers);
    int error = -ENOMEM;
    struct writer *opened = calloc(1, sizeof(*opened));
    if (opened == NULL)
        return errmsg_set(why, error, "no memory for a writer of the journal");
    opened->writer = (struct journal_writer){.journal = journal, .loop = loop, .index = index};
    opened->filling = &opened->batches[0];
    opened->leaving = &opened->batches[1];
    queue_init(&opened->waiting);
    queue_init(&opened->refused);
    for (unsigned i = 0; i < 2; i++) {
        struct batch *batch = &opened->batches[i];
        batch->batch.entries =
            chunk_alloc(JOURNAL_BATCH_RECORDS_MAX * sizeof(struct journal_entry));
        batch->batch.bytes = chunk_alloc(BATCH_BYTES_FIRST);
        batch->bytes_capacity = BATCH_BYTES_FIRST;
        if (batch->batch.entries == NULL || batch->batch.bytes == NULL) {
            (void)errmsg_set(why, error, "no memory for a batch of the journal");
            goto fail;
        }
    }
    error = journal->ops->writer_open(&opened->writer, why);
    if (error != 0)
        goto fail;
    atomic_fetch_add(&journal->writers_open, 1);
    *writer = &opened->writer;
    return 0;

fail:
    writer_free(opened);
    return error;
}

void journal_writer_close(struct journal_writer *writer)
{
    struct journal *journal = writer->journal;
    assert(!journal_is_busy(writer));
    journal->ops->writer_close(writer);
    atomic_fetch_sub(&journal->writers_open, 1);
    writer_free(writer_of(writer));
}

/* Whether `count` records of `bytes` together have room. */
static bool batch_fits(const struct batch *batch, uint32_t count, uint64_t bytes)
{
    return batch->batch.count + count <= JOURNAL_BATCH_RECORDS_MAX &&
           batch->batch.bytes_used + bytes <= JOURNAL_BATCH_BYTES_MAX;
}

static int batch_grow(struct batch *batch, uint32_t bytes)
{
    uint64_t capacity = batch->bytes_capacity;
    while (capacity < (uint64_t)batch->batch.bytes_used + bytes)
        capacity *= 2;
    assert(capacity <= JOURNAL_BATCH_BYTES_MAX);
    char *grown = chunk_alloc(capacity);
    if (grown == NULL)
        return -ENOMEM;
    memcpy(grown, batch->batch.bytes, batch->batch.bytes_used);
    chunk_free(batch->batch.bytes);
    batch->batch.bytes = grown;
    batch->bytes_capacity = (uint32_t)capacity;
    return 0;
}

static void start_commit(struct writer *writer)
{
    assert(writer->commit == COMMIT_NONE && writer->leaving->batch.count == 0);
    struct batch *batch = writer->filling;
    writer->filling = writer->leaving;
    writer->leaving = batch;
    writer->commit = COMMIT_IN_FLIGHT;
    writer->totals.commits++;
    writer->writer.journal->ops->commit(&writer->writer, &batch->batch);
}

void journal_commit_done(struct journal_writer *writer)
{
    assert(writer_of(writer)->commit == COMMIT_IN_FLIGHT);
    writer_of(writer)->commit = COMMIT_SETTLED;
    writer_of(writer)->settled_ns = loop_clock_ns(writer->loop);
}

uint64_t journal_settled_ns(const struct journal_writer *writer)
{
    return ((const struct writer *)writer)->settled_ns;
}

/* The slow half of finding room: somebody waits, room is reserved, or the filling batch is full. */
static bool find_room(struct writer *writer, struct journal_append *append, uint32_t bytes)
{
    bool is_woken = append->next == &writer->woken;

    if (is_woken && writer->reserved_count > 0) {
        writer->reserved_count--;
        writer->reserved_bytes -=
            append->bytes < writer->reserved_bytes ? append->bytes : writer->reserved_bytes;
    }
    if (!is_woken && writer->waiting.first != NULL)
        return false;
    uint32_t count = writer->reserved_count + 1;
    uint64_t room = (uint64_t)writer->reserved_bytes + bytes;
    if (batch_fits(writer->filling, count, room))
        return true;
    if (writer->commit != COMMIT_NONE || writer->filling->batch.count == 0)
        return false;
    start_commit(writer);
    return batch_fits(writer->filling, count, room);
}

static void refuse(struct writer *writer, struct journal_append *append, int result)
{
    append->bytes = (uint32_t)-result;
    queue_push(&writer->refused, append);
}

void journal_append(struct journal_writer *public_writer, struct journal_append *append,
                    enum record_kind kind, const void *payload, size_t size)
{
    struct writer *writer = writer_of(public_writer);
    uint32_t bytes = (uint32_t)size;

    if (__builtin_expect(size > JOURNAL_PAYLOAD_BYTES_MAX, 0)) {
        refuse(writer, append, JOURNAL_TOO_LARGE);
        return;
    }
    bool is_quiet = writer->waiting.first == NULL && writer->reserved_count == 0;
    if (__builtin_expect(!is_quiet || !batch_fits(writer->filling, 1, bytes), 0) &&
        !find_room(writer, append, bytes)) {
        append->bytes = bytes;
        queue_push(&writer->waiting, append);
        return;
    }
    struct journal_batch *batch = &writer->filling->batch;
    if (__builtin_expect(bytes > writer->filling->bytes_capacity - batch->bytes_used, 0) &&
        batch_grow(writer->filling, bytes) != 0) {
        refuse(writer, append, -ENOMEM);
        return;
    }
    char *copy = batch->bytes + batch->bytes_used;
    if (bytes > 0)
        memcpy(copy, payload, bytes);
    append->digest = digest_chain(append->digest, copy, bytes);
    append->next = NULL;
    /* A result that the store forgets to set is an error, never an ack. */
    batch->entries[batch->count++] = (struct journal_entry){.append = append,
                                                            .run = append->run,
                                                            .digest = append->digest,
                                                            .seq = append->seq,
                                                            .bytes = bytes,
                                                            .offset = batch->bytes_used,
                                                            .kind = (uint16_t)kind,
                                                            .result = -EIO};
    batch->bytes_used += bytes;
}

void journal_flush(struct journal_writer *public_writer)
{
    struct writer *writer = writer_of(public_writer);
    if (writer->commit == COMMIT_NONE && writer->filling->batch.count > 0)
        start_commit(writer);
}

static unsigned deliver_settled(struct writer *writer)
{
    if (writer->commit != COMMIT_SETTLED)
        return 0;
    struct journal_batch *batch = &writer->leaving->batch;
    unsigned count = batch->count;
    for (unsigned i = 0; i < count; i++) {
        const struct journal_entry *entry = &batch->entries[i];
        if (i + DELIVER_AHEAD < count)
            __builtin_prefetch(entry[DELIVER_AHEAD].append, 1);
        if (entry->result == JOURNAL_ACKED) {
            writer->totals.records++;
            writer->totals.bytes += entry->bytes;
        }
        entry->append->done(entry->append, entry->result);
    }
    assert(writer->commit == COMMIT_SETTLED && batch->count == count);
    batch->count = 0;
    batch->bytes_used = 0;
    writer->commit = COMMIT_NONE;
    return count;
}

/* Tells the first of those that wait to come again, as many as there is room for. */
static unsigned deliver_woken(struct writer *writer)
{
    unsigned count = 0;
    struct queue woken;

    queue_init(&woken);
    if (writer->waiting.first == NULL)
        return 0;
    if (!batch_fits(writer->filling, 1, writer->waiting.first->bytes) &&
        writer->commit == COMMIT_NONE)
        start_commit(writer);
    while (writer->waiting.first != NULL &&
           batch_fits(writer->filling, writer->reserved_count + 1,
                      (uint64_t)writer->reserved_bytes + writer->waiting.first->bytes)) {
        writer->reserved_count++;
        writer->reserved_bytes += writer->waiting.first->bytes;
        queue_push(&woken, queue_pop(&writer->waiting));
    }
    for (struct journal_append *append; (append = queue_pop(&woken)) != NULL; count++) {
        append->next = &writer->woken;
        append->done(append, JOURNAL_AGAIN);
    }
    return count;
}

unsigned journal_deliver(struct journal_writer *public_writer)
{
    struct writer *writer = writer_of(public_writer);
    struct queue refused = writer->refused;
    unsigned count = 0;

    assert(!writer->is_delivering);
    writer->is_delivering = true;
    if (refused.first == NULL)
        queue_init(&refused);
    queue_init(&writer->refused); /* what callbacks add is for the next time */
    writer->reserved_count = 0;
    writer->reserved_bytes = 0;
    for (struct journal_append *append; (append = queue_pop(&refused)) != NULL; count++)
        append->done(append, -(int)append->bytes);
    count += deliver_settled(writer);
    count += deliver_woken(writer);
    writer->is_delivering = false;
    return count;
}

bool journal_is_busy(const struct journal_writer *public_writer)
{
    const struct writer *writer = container_of(public_writer, struct writer, writer);
    return writer->filling->batch.count > 0 || writer->leaving->batch.count > 0 ||
           writer->waiting.first != NULL || writer->refused.first != NULL;
}

struct journal_totals journal_writer_totals(const struct journal_writer *writer)
{
    return container_of(writer, struct writer, writer)->totals;
}

int journal_read(struct journal_writer *writer, uint64_t run, uint32_t seq,
                 struct journal_record *record)
{
    return writer->journal->ops->read(writer, run, seq, record);
}

int journal_scan(struct journal_writer *writer,
                 int (*visit)(void *arg, const struct journal_record *record), void *arg)
{
    return writer->journal->ops->scan(writer, visit, arg);
}
