/*
 * Group commit and retries, once for all stores.
 *
 * The happy path: journal_append() copies the record into the filling batch of its run's lane;
 * journal_flush() hands that batch to the store, if the store has fewer of the lane than it takes
 * at a time, and what comes then fills another; the store settles the batch, now or later;
 * journal_deliver() fires its callbacks and has a free batch again. A batch that is full before the
 * store takes it waits in its lane.
 *
 * No room: a writer holds so many records and so many bytes in all its batches. Beyond, an append
 * waits in a queue. As soon as journal_deliver() has room it tells the first in the queue to come
 * again, as many as the room is for, and keeps the room for them until it is called the next time.
 * Who comes new while others wait goes behind them. So nobody is overtaken for ever, and a caller
 * that never comes again blocks nobody.
 *
 * A store that could not do it now, and may yet, gives the batch back: its lane waits with backoff
 * and full jitter, then everything that came back leaves again, in its order and before anything
 * newer. retry_for_ns counts from when a batch first left, or from when that one left which was the
 * first of its lane to return since one was settled: what returns when it is over is settled as
 * refused, or as unknown if it may have been recorded. So what follows into a store that is gone
 * has one try, and not as long again.
 *
 * Refused before it reached a store (too large, no memory): the callback waits for
 * journal_deliver() too.
 */
#include "journal/journal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/digest.h"
#include "engine/base/list.h"
#include "engine/loop.h"
#include "journal/backend.h"
#include "journal/batch.h"

enum {
    /* A free batch keeps no more than this: one of large payloads must not stay large. */
    BATCH_BYTES_KEPT = 2 << 20,
    /* Nor do all free ones together: what many lanes needed once must not stay for good. */
    FREE_BYTES_KEPT = 8 << 20,
    /* A callback touches its run, a cache miss with a million of them in flight: so many ahead. */
    DELIVER_AHEAD = 8,
};

#define RETRY_NS_FIRST (20 * NS_PER_MS)
#define RETRY_NS_MAX (2 * NS_PER_S)

struct lane {
    struct writer *writer;
    struct batch *filling;   /* NULL until it is needed */
    struct batches full;     /* filled before the store took them */
    struct batches returned; /* by the store, to be tried again, in the order of their numbers */
    unsigned in_flight;
    unsigned returns;          /* in a row, without one that was settled */
    bool is_waiting;           /* for the timer */
    bool is_failing;           /* something returned, and nothing was settled since */
    uint64_t failing_since_ns; /* when that left which returned first */
    struct timer timer;
    struct errmsg trouble; /* the store's last words of it; empty: none since it last did well */
};

struct writer {
    struct journal_writer writer; /* what the store sees */
    bool is_delivering;
    bool is_forgetting;
    uint32_t records_held;  /* in all batches */
    uint64_t bytes_held;    /* likewise */
    uint32_t room_records;  /* that is kept for those told to come again */
    uint64_t room_bytes;    /* likewise */
    struct queue waiting;   /* for room; append->bytes says how much */
    struct queue refused;   /* before reaching the store; append->bytes is the result, negated */
    struct batches settled; /* in the order in which they were */
    struct batch *free;     /* what was used last first: it is in the cache */
    uint64_t free_bytes;    /* that these take */
    struct list all;        /* batches, wherever they are */
    /* Its address in append->next marks who was told to come again, with the number of the delivery
     * in append->bytes. */
    struct journal_append woken;
    uint32_t deliveries;
    struct journal_totals totals;
    uint64_t sent_count; /* batches, each once */
    uint64_t settled_ns;
    struct prng jitter;
    struct lane lanes[JOURNAL_LANES_MAX];
};

static struct writer *writer_of(struct journal_writer *writer)
{
    return container_of(writer, struct writer, writer);
}

/* --- batches --- */

/* An empty one for the lane; NULL without memory. */
static struct batch *batch_take(struct writer *writer, struct lane *lane)
{
    struct batch *batch = writer->free;
    if (batch != NULL) {
        writer->free = batch->next;
        writer->free_bytes -= batch_size_bytes(batch);
    } else {
        batch = batch_alloc(&writer->all);
    }
    if (batch == NULL)
        return NULL;
    batch->batch.lane = (uint32_t)(lane - writer->lanes);
    batch->batch.was_sent = false;
    batch->number = 0;
    lane->filling = batch;
    return batch;
}

static void batch_give_back(struct writer *writer, struct batch *batch)
{
    writer->records_held -= batch->batch.count;
    writer->bytes_held -= batch->batch.bytes_used;
    batch->batch.count = 0;
    batch->batch.bytes_used = 0;
    size_t bytes = batch_size_bytes(batch);
    if (batch->bytes_capacity > BATCH_BYTES_KEPT || writer->free_bytes + bytes > FREE_BYTES_KEPT) {
        batch_free(batch);
        return;
    }
    writer->free_bytes += bytes;
    batch->next = writer->free;
    writer->free = batch;
}

/* --- to the store --- */

static void send(struct writer *writer, struct lane *lane, struct batch *batch)
{
    if (batch->number == 0) {
        batch->number = ++writer->sent_count;
        batch->sent_ns = loop_clock_ns(writer->writer.loop);
    }
    lane->in_flight++;
    writer->writer.journal->ops->commit(&writer->writer, &batch->batch);
}

/* The filling batch is to leave. */
static void close_batch(struct lane *lane)
{
    batches_push(&lane->full, lane->filling);
    lane->filling = NULL;
}

/* What has waited longest leaves first. */
static void flush_lane(struct writer *writer, struct lane *lane)
{
    /* A store that returns a batch from inside commit() makes the lane wait meanwhile. */
    while (!lane->is_waiting && lane->in_flight < writer->writer.depth) {
        struct batch *batch = batches_pop(&lane->returned);
        if (batch == NULL)
            batch = batches_pop(&lane->full);
        if (batch == NULL && lane->filling != NULL && lane->filling->batch.count > 0) {
            close_batch(lane);
            batch = batches_pop(&lane->full);
        }
        if (batch == NULL)
            return;
        send(writer, lane, batch);
    }
}

void journal_flush(struct journal_writer *public_writer)
{
    struct writer *writer = writer_of(public_writer);
    if (writer->is_forgetting)
        return;
    for (unsigned i = 0; i < public_writer->lanes; i++)
        flush_lane(writer, &writer->lanes[i]);
}

/* --- from the store --- */

static void settle(struct writer *writer, struct batch *batch, uint64_t now_ns)
{
    batch->settled_ns = now_ns;
    batches_push(&writer->settled, batch);
}

static void recover(struct lane *lane)
{
    lane->is_failing = false;
    lane->returns = 0;
    lane->trouble.text[0] = '\0';
}

void journal_batch_done(struct journal_writer *public_writer, struct journal_batch *public_batch,
                        uint64_t now_ns)
{
    struct writer *writer = writer_of(public_writer);
    struct lane *lane = &writer->lanes[public_batch->lane];
    assert(lane->in_flight > 0);
    lane->in_flight--;
    if (lane->is_failing)
        recover(lane);
    settle(writer, container_of(public_batch, struct batch, batch), now_ns);
}

void journal_batch_fail(struct journal_batch *batch, int result)
{
    for (uint32_t i = 0; i < batch->count; i++)
        if (batch->entries[i].result == JOURNAL_UNSET)
            batch->entries[i].result = (int16_t)result;
}

void journal_batch_refuse(struct journal_batch *batch, uint32_t index, int result)
{
    struct journal_entry *entry = &batch->entries[index];
    entry->result = (int16_t)result;
    /* Rare, so the batch is searched. */
    for (uint32_t i = index + 1; i < batch->count; i++)
        if (batch->entries[i].run == entry->run && batch->entries[i].result == JOURNAL_UNSET)
            batch->entries[i].result = result == JOURNAL_CONFLICT ? JOURNAL_GAP : (int16_t)result;
}

static void on_retry(struct timer *timer, uint64_t now_ns)
{
    (void)now_ns;
    struct lane *lane = container_of(timer, struct lane, timer);
    lane->is_waiting = false;
    flush_lane(lane->writer, lane);
}

/* Exponential backoff with full jitter: up to twice as long each time, drawn anew. */
static uint64_t retry_delay_ns(struct writer *writer, const struct lane *lane)
{
    uint64_t most = RETRY_NS_FIRST << (lane->returns < 8 ? lane->returns : 8);
    most = most < RETRY_NS_MAX ? most : RETRY_NS_MAX;
    return 1 + prng_below(&writer->jitter, most);
}

void journal_lane_trouble(struct journal_writer *public_writer, const struct journal_batch *batch,
                          const struct errmsg *why)
{
    writer_of(public_writer)->lanes[batch->lane].trouble = *why;
}

/* One batch may return again and again while others of its lane are settled: so its own time counts
 * as well. */
static bool is_time_over(struct lane *lane, const struct batch *batch, uint64_t now_ns)
{
    if (!lane->is_failing) {
        lane->is_failing = true;
        lane->failing_since_ns = batch->sent_ns;
    }
    uint64_t since_ns =
        batch->sent_ns < lane->failing_since_ns ? batch->sent_ns : lane->failing_since_ns;
    return now_ns - since_ns >= lane->writer->writer.journal->retry_for_ns;
}

/* Nothing more is hoped for: the batch is settled without an answer. */
static void give_up(struct writer *writer, struct lane *lane, struct batch *batch, int error,
                    uint64_t now_ns)
{
    if (lane->trouble.text[0] != '\0' && !writer->is_forgetting)
        journal_fail(writer->writer.journal, "%s", lane->trouble.text);
    journal_batch_fail(&batch->batch, batch->batch.was_sent ? JOURNAL_UNKNOWN : error);
    settle(writer, batch, now_ns);
}

void journal_batch_retry(struct journal_writer *public_writer, struct journal_batch *public_batch,
                         int error, bool is_in_doubt)
{
    struct writer *writer = writer_of(public_writer);
    struct lane *lane = &writer->lanes[public_batch->lane];
    struct batch *batch = container_of(public_batch, struct batch, batch);
    uint64_t now_ns = loop_clock_ns(public_writer->loop);
    assert(lane->in_flight > 0 && error < 0);
    lane->in_flight--;
    public_batch->was_sent = public_batch->was_sent || is_in_doubt;
    if (is_time_over(lane, batch, now_ns) || writer->is_forgetting) {
        give_up(writer, lane, batch, error, now_ns);
        return;
    }
    writer->totals.retries++;
    batches_insert(&lane->returned, batch);
    if (lane->is_waiting)
        return;
    lane->is_waiting = true;
    loop_timer_start(public_writer->loop, &lane->timer, now_ns + retry_delay_ns(writer, lane));
    lane->returns++;
}

uint64_t journal_settled_ns(const struct journal_writer *writer)
{
    return container_of(writer, struct writer, writer)->settled_ns;
}

/* --- appends --- */

static bool has_room(const struct writer *writer, uint32_t bytes)
{
    return writer->records_held + writer->room_records < JOURNAL_WRITER_RECORDS_MAX &&
           writer->bytes_held + writer->room_bytes + bytes <= JOURNAL_WRITER_BYTES_MAX;
}

/* The slow half of finding room: somebody waits, or room is kept for somebody. */
static bool find_room(struct writer *writer, struct journal_append *append, uint32_t bytes)
{
    /* Who comes later than at once has nothing kept any more: it is for those told since. */
    bool is_woken = append->next == &writer->woken && append->bytes == writer->deliveries;

    if (is_woken && writer->room_records > 0) {
        writer->room_records--;
        writer->room_bytes -= bytes < writer->room_bytes ? bytes : writer->room_bytes;
    }
    if (!is_woken && writer->waiting.first != NULL)
        return false;
    return has_room(writer, bytes);
}

static void refuse(struct writer *writer, struct journal_append *append, int result)
{
    append->bytes = (uint32_t)-result;
    queue_push(&writer->refused, append);
}

/* The batch that the next record of the lane goes into; NULL without memory. */
static struct batch *batch_for(struct writer *writer, struct lane *lane, uint32_t bytes)
{
    struct batch *batch = lane->filling;
    if (batch != NULL && (batch->batch.count == JOURNAL_BATCH_RECORDS_MAX ||
                          batch->batch.bytes_used + bytes > JOURNAL_BATCH_BYTES_MAX)) {
        close_batch(lane);
        flush_lane(writer, lane);
        batch = NULL;
    }
    if (batch == NULL)
        batch = batch_take(writer, lane);
    return batch != NULL && batch_reserve(batch, bytes) ? batch : NULL;
}

void journal_append(struct journal_writer *public_writer, struct journal_append *append,
                    enum record_kind kind, const void *payload, size_t size)
{
    struct writer *writer = writer_of(public_writer);
    uint32_t bytes = (uint32_t)size;

    assert(append->run <= JOURNAL_RUN_MAX && append->seq <= JOURNAL_SEQ_MAX);
    assert(!writer->is_forgetting);
    if (__builtin_expect(size > JOURNAL_PAYLOAD_BYTES_MAX, 0)) {
        refuse(writer, append, JOURNAL_TOO_LARGE);
        return;
    }
    bool is_quiet = writer->waiting.first == NULL && writer->room_records == 0;
    if (__builtin_expect(!is_quiet || !has_room(writer, bytes), 0) &&
        !find_room(writer, append, bytes)) {
        append->bytes = bytes;
        queue_push(&writer->waiting, append);
        return;
    }
    unsigned lanes = public_writer->lanes;
    struct lane *lane = &writer->lanes[lanes > 1 ? journal_lane_of(append->run, lanes) : 0];
    struct batch *filling = batch_for(writer, lane, bytes);
    if (__builtin_expect(filling == NULL, 0)) {
        refuse(writer, append, -ENOMEM);
        return;
    }
    struct journal_batch *batch = &filling->batch;
    char *copy = batch->bytes + batch->bytes_used;
    if (bytes > 0)
        memcpy(copy, payload, bytes);
    append->digest = digest_chain(append->digest, copy, bytes);
    append->next = NULL;
    batch->entries[batch->count++] = (struct journal_entry){.append = append,
                                                            .run = append->run,
                                                            .digest = append->digest,
                                                            .seq = append->seq,
                                                            .bytes = bytes,
                                                            .offset = batch->bytes_used,
                                                            .kind = (uint16_t)kind,
                                                            .result = JOURNAL_UNSET};
    batch->bytes_used += bytes;
    writer->records_held++;
    writer->bytes_held += bytes;
}

/* --- callbacks --- */

static void count_result(struct writer *writer, int result, uint32_t bytes)
{
    if (__builtin_expect(result == JOURNAL_ACKED, 1)) {
        writer->totals.records++;
        writer->totals.bytes += bytes;
    } else if (result == JOURNAL_UNKNOWN) {
        writer->totals.unknown++;
    } else {
        writer->totals.refused++;
    }
}

static unsigned deliver_batch(struct writer *writer, struct batch *settled)
{
    struct journal_batch *batch = &settled->batch;
    unsigned count = batch->count;
    writer->settled_ns = settled->settled_ns;
    writer->totals.batches++;
    for (unsigned i = 0; i < count; i++) {
        const struct journal_entry *entry = &batch->entries[i];
        if (i + DELIVER_AHEAD < count)
            __builtin_prefetch(entry[DELIVER_AHEAD].append, 1);
        int result = entry->result != JOURNAL_UNSET ? entry->result : -EIO;
        count_result(writer, result, entry->bytes);
        entry->append->done(entry->append, result);
    }
    assert(batch->count == count);
    batch_give_back(writer, settled);
    return count;
}

/* Tells the first of those that wait to come again, as many as there is room for. */
static unsigned deliver_woken(struct writer *writer)
{
    unsigned count = 0;
    struct queue woken;

    queue_init(&woken);
    while (writer->waiting.first != NULL && has_room(writer, writer->waiting.first->bytes)) {
        writer->room_records++;
        writer->room_bytes += writer->waiting.first->bytes;
        queue_push(&woken, queue_pop(&writer->waiting));
    }
    for (struct journal_append *append; (append = queue_pop(&woken)) != NULL; count++) {
        append->next = &writer->woken;
        append->bytes = writer->deliveries;
        append->done(append, JOURNAL_AGAIN);
    }
    return count;
}

unsigned journal_deliver(struct journal_writer *public_writer)
{
    struct writer *writer = writer_of(public_writer);
    unsigned count = 0;

    assert(!writer->is_delivering);
    if (writer->is_forgetting)
        return 0;
    if (public_writer->journal->ops->poll != NULL)
        public_writer->journal->ops->poll(public_writer);
    writer->is_delivering = true;
    struct queue refused = writer->refused;
    if (refused.first == NULL)
        queue_init(&refused);
    queue_init(&writer->refused); /* what callbacks add is for the next time */
    struct batches settled = writer->settled;
    if (settled.first == NULL)
        batches_init(&settled);
    batches_init(&writer->settled); /* likewise */
    writer->deliveries++;
    writer->room_records = 0;
    writer->room_bytes = 0;
    for (struct journal_append *append; (append = queue_pop(&refused)) != NULL; count++) {
        int result = -(int)append->bytes;
        count_result(writer, result, 0);
        append->done(append, result);
    }
    for (struct batch *batch; (batch = batches_pop(&settled)) != NULL;)
        count += deliver_batch(writer, batch);
    if (writer->waiting.first != NULL)
        count += deliver_woken(writer);
    writer->is_delivering = false;
    return count;
}

bool journal_is_busy(const struct journal_writer *public_writer)
{
    const struct writer *writer = container_of(public_writer, struct writer, writer);
    return !writer->is_forgetting && (writer->records_held > 0 || writer->waiting.first != NULL ||
                                      writer->refused.first != NULL);
}

struct journal_totals journal_writer_totals(const struct journal_writer *writer)
{
    return container_of(writer, struct writer, writer)->totals;
}

void journal_forget(struct journal_writer *public_writer)
{
    struct writer *writer = writer_of(public_writer);
    assert(!writer->is_delivering);
    if (writer->is_forgetting)
        return;
    writer->is_forgetting = true;
    for (unsigned i = 0; i < public_writer->lanes; i++)
        loop_timer_stop(public_writer->loop, &writer->lanes[i].timer);
    writer->totals.unknown += writer->records_held;
    while (queue_pop(&writer->waiting) != NULL || queue_pop(&writer->refused) != NULL)
        writer->totals.refused++;
}

/* --- life --- */

static void writer_free(struct writer *writer)
{
    while (!list_empty(&writer->all))
        batch_free(container_of(writer->all.next, struct batch, link));
    free(writer);
}

static void lane_init(struct writer *writer, struct lane *lane)
{
    lane->writer = writer;
    batches_init(&lane->full);
    batches_init(&lane->returned);
    timer_init(&lane->timer, on_retry);
}

int journal_writer_open(struct journal *journal, unsigned index, struct loop *loop,
                        struct journal_writer **writer, struct errmsg *why)
{
    assert(index < journal->writers && journal->mode != JOURNAL_AUDIT);
    struct writer *opened = calloc(1, sizeof(*opened));
    if (opened == NULL)
        return errmsg_set(why, -ENOMEM, "no memory for a writer of the journal");
    opened->writer = (struct journal_writer){
        .journal = journal, .loop = loop, .index = index, .lanes = 1, .depth = 1};
    opened->jitter = (struct prng){loop_clock_ns(loop) + index}; /* virtual time repeats itself */
    queue_init(&opened->waiting);
    queue_init(&opened->refused);
    batches_init(&opened->settled);
    list_init(&opened->all);
    for (unsigned i = 0; i < JOURNAL_LANES_MAX; i++)
        lane_init(opened, &opened->lanes[i]);
    int error = journal->ops->writer_open(&opened->writer, why);
    if (error != 0) {
        free(opened);
        return error;
    }
    assert(opened->writer.lanes - 1 < JOURNAL_LANES_MAX);
    assert(opened->writer.depth - 1 < JOURNAL_DEPTH_MAX);
    atomic_fetch_add(&journal->writers_open, 1);
    *writer = &opened->writer;
    return 0;
}

void journal_writer_close(struct journal_writer *writer)
{
    struct journal *journal = writer->journal;
    journal_forget(writer);
    if (writer_of(writer)->sent_count > 0)
        atomic_store(&journal->has_sent, true);
    journal->ops->writer_close(writer);
    atomic_fetch_sub(&journal->writers_open, 1);
    writer_free(writer_of(writer));
}

int journal_read(struct journal_writer *writer, uint64_t run, uint32_t seq,
                 struct journal_record *record)
{
    return writer->journal->ops->read(writer, run, seq, record);
}
