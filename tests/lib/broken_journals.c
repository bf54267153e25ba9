/*
 * broken_journals: see broken_journals.h.
 *
 * The store: an array of records behind a lock, found through buckets by key. Nothing in it is
 * fast, and nothing is shared with the real ones, so that the suite is also checked against a
 * second honest store.
 */
#include "tests/lib/broken_journals.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "engine/loop.h"

enum {
    BUCKETS = 1 << 14,
    RECORD_OVERHEAD_BYTES = 64,
    NONE = -1,
};

struct kept {
    uint64_t run;
    uint64_t digest;
    char *payload;
    uint32_t seq;
    uint32_t bytes;
    uint16_t kind;
    bool is_duplicate;
    unsigned writer;
    long next; /* in its bucket, or NONE */
};

struct naive {
    pthread_mutex_t lock;
    struct kept *records;
    long count;
    long capacity;
    long readable; /* with FAULT_STALE_READ, how many reads see */
    uint64_t bytes;
    long buckets[BUCKETS];
};

struct naive_writer {
    struct naive *naive;
    struct journal_batch early; /* with FAULT_EARLY_ACK, a copy that is not stored yet */
    struct timer timer;         /* with FAULT_CALLBACK_TWICE */
    struct journal_append *again;
};

static enum fault fault_of(const struct journal *journal)
{
    return container_of(journal->ops, struct broken_journal, ops)->fault;
}

static unsigned bucket_of(uint64_t run, uint32_t seq)
{
    return (unsigned)((run * 31 + seq) % BUCKETS);
}

static struct kept *naive_find(struct naive *naive, const struct journal_writer *writer,
                               uint64_t run, uint32_t seq)
{
    bool is_own_only = fault_of(writer->journal) == FAULT_TWO_WINNERS;
    for (long i = naive->buckets[bucket_of(run, seq)]; i != NONE; i = naive->records[i].next) {
        struct kept *kept = &naive->records[i];
        if (kept->run == run && kept->seq == seq && (!is_own_only || kept->writer == writer->index))
            return kept;
    }
    return NULL;
}

static void naive_add(struct naive *naive, const struct journal_writer *writer,
                      const struct journal_entry *entry, const char *payload, uint32_t bytes)
{
    if (naive->count == naive->capacity) {
        naive->capacity = naive->capacity == 0 ? 64 : 2 * naive->capacity;
        naive->records = realloc(naive->records, (size_t)naive->capacity * sizeof(*naive->records));
    }
    char *copy = malloc(bytes + 1);
    if (naive->records == NULL || copy == NULL)
        abort();
    memcpy(copy, payload, bytes);
    unsigned bucket = bucket_of(entry->run, entry->seq);
    naive->records[naive->count] = (struct kept){.run = entry->run,
                                                 .digest = entry->digest,
                                                 .payload = copy,
                                                 .seq = entry->seq,
                                                 .bytes = bytes,
                                                 .kind = entry->kind,
                                                 .writer = writer->index,
                                                 .next = naive->buckets[bucket]};
    naive->buckets[bucket] = naive->count++;
    naive->bytes += bytes + RECORD_OVERHEAD_BYTES;
}

static int naive_meet(struct kept *kept, enum fault fault, const struct journal_entry *entry,
                      const char *payload)
{
    bool is_same = kept->digest == entry->digest && kept->kind == entry->kind &&
                   kept->bytes == entry->bytes && memcmp(kept->payload, payload, entry->bytes) == 0;
    if (is_same)
        return fault == FAULT_RETRY_REFUSED ? JOURNAL_CONFLICT : JOURNAL_ACKED;
    if (fault == FAULT_MUTABLE && kept->bytes == entry->bytes)
        memcpy(kept->payload, payload, entry->bytes);
    return fault == FAULT_CONFLICT_ACCEPTED ? JOURNAL_ACKED : JOURNAL_CONFLICT;
}

static int naive_keep(struct naive *naive, const struct journal_writer *writer,
                      const struct journal_entry *entry, const char *payload)
{
    enum fault fault = fault_of(writer->journal);
    uint32_t bytes = entry->bytes;
    struct kept *kept = naive_find(naive, writer, entry->run, entry->seq);

    if (kept != NULL)
        return naive_meet(kept, fault, entry, payload);
    if (entry->seq > 0 && naive_find(naive, writer, entry->run, entry->seq - 1) == NULL &&
        fault != FAULT_GAP && fault != FAULT_LOST)
        return JOURNAL_GAP;
    if (naive->bytes + bytes + RECORD_OVERHEAD_BYTES > writer->journal->bytes_max &&
        fault != FAULT_UNBOUNDED)
        return JOURNAL_FULL;
    if (fault == FAULT_LOST && entry->seq % 5 == 2)
        return JOURNAL_ACKED;
    if (fault == FAULT_TORN && bytes > 4096)
        bytes -= 100;
    if (fault == FAULT_CUT_AT_NUL)
        bytes = (uint32_t)strnlen(payload, bytes);
    naive_add(naive, writer, entry, payload, bytes);
    naive->records[naive->count - 1].is_duplicate = fault == FAULT_DUPLICATE;
    return JOURNAL_ACKED;
}

static void naive_keep_all(struct naive *naive, const struct journal_writer *writer,
                           const struct journal_batch *batch)
{
    for (uint32_t i = 0; i < batch->count; i++) {
        struct journal_entry *entry = &batch->entries[i];
        if (entry->result != -EIO)
            continue;
        entry->result = (int16_t)naive_keep(naive, writer, entry, batch->bytes + entry->offset);
        for (uint32_t k = i + 1; k < batch->count && entry->result != JOURNAL_ACKED; k++) {
            if (batch->entries[k].run == entry->run)
                batch->entries[k].result =
                    entry->result == JOURNAL_FULL ? JOURNAL_FULL : JOURNAL_GAP;
        }
    }
}

/* Stores what was acked early, then acks this batch and keeps a copy for the next time. */
static void commit_early(struct naive_writer *own, const struct journal_writer *writer,
                         struct journal_batch *batch)
{
    naive_keep_all(own->naive, writer, &own->early);
    free(own->early.entries);
    free(own->early.bytes);
    own->early = *batch;
    own->early.entries = malloc(batch->count * sizeof(*batch->entries));
    own->early.bytes = malloc(batch->bytes_used + 1u);
    if (own->early.entries == NULL || own->early.bytes == NULL)
        abort();
    memcpy(own->early.entries, batch->entries, batch->count * sizeof(*batch->entries));
    memcpy(own->early.bytes, batch->bytes, batch->bytes_used);
    for (uint32_t i = 0; i < batch->count; i++)
        batch->entries[i].result = JOURNAL_ACKED;
}

static void fire_again(struct timer *timer, uint64_t now_ns)
{
    (void)now_ns;
    struct naive_writer *own = container_of(timer, struct naive_writer, timer);
    own->again->done(own->again, JOURNAL_ACKED);
}

static void naive_commit(struct journal_writer *writer, struct journal_batch *batch)
{
    struct naive_writer *own = writer->impl;
    enum fault fault = fault_of(writer->journal);

    (void)pthread_mutex_lock(&own->naive->lock);
    own->naive->readable = own->naive->count;
    if (fault == FAULT_EARLY_ACK)
        commit_early(own, writer, batch);
    else
        naive_keep_all(own->naive, writer, batch);
    if (fault != FAULT_STALE_READ)
        own->naive->readable = own->naive->count;
    (void)pthread_mutex_unlock(&own->naive->lock);

    if (fault == FAULT_CALLBACK_NEVER)
        return;
    if (fault == FAULT_CALLBACK_INLINE)
        batch->entries[0].append->done(batch->entries[0].append, batch->entries[0].result);
    if (fault == FAULT_CALLBACK_TWICE && !timer_is_armed(&own->timer)) {
        own->again = batch->entries[0].append;
        loop_timer_start(writer->loop, &own->timer, loop_clock_ns(writer->loop) + NS_PER_MS);
    }
    journal_commit_done(writer);
}

static struct journal_record naive_view(const struct kept *kept)
{
    return (struct journal_record){.run = kept->run,
                                   .digest = kept->digest,
                                   .payload = kept->payload,
                                   .seq = kept->seq,
                                   .bytes = kept->bytes,
                                   .kind = (enum record_kind)kept->kind};
}

static int naive_read(struct journal_writer *writer, uint64_t run, uint32_t seq,
                      struct journal_record *record)
{
    struct naive_writer *own = writer->impl;
    (void)pthread_mutex_lock(&own->naive->lock);
    const struct kept *kept = naive_find(own->naive, writer, run, seq);
    bool is_found = kept != NULL && kept - own->naive->records < own->naive->readable;
    if (is_found)
        *record = naive_view(kept);
    (void)pthread_mutex_unlock(&own->naive->lock);
    return is_found ? 0 : -ENOENT;
}

static int naive_scan(struct journal_writer *writer,
                      int (*visit)(void *arg, const struct journal_record *record), void *arg)
{
    struct naive *naive = ((struct naive_writer *)writer->impl)->naive;
    bool is_backwards = fault_of(writer->journal) == FAULT_REORDERED;
    int result = 0;

    (void)pthread_mutex_lock(&naive->lock);
    for (long i = 0; i < naive->count && result == 0; i++) {
        const struct kept *kept = &naive->records[is_backwards ? naive->count - 1 - i : i];
        struct journal_record record = naive_view(kept);
        if (kept->writer != writer->index)
            continue;
        result = visit(arg, &record);
        if (result == 0 && kept->is_duplicate)
            result = visit(arg, &record);
    }
    (void)pthread_mutex_unlock(&naive->lock);
    return result;
}

static int naive_open(struct journal *journal, const struct journal_config *config,
                      struct errmsg *why)
{
    (void)config;
    struct naive *naive = calloc(1, sizeof(*naive));
    if (naive == NULL)
        return errmsg_set(why, -ENOMEM, "no memory");
    (void)pthread_mutex_init(&naive->lock, NULL);
    for (unsigned i = 0; i < BUCKETS; i++)
        naive->buckets[i] = NONE;
    journal->impl = naive;
    return 0;
}

static void naive_close(struct journal *journal)
{
    struct naive *naive = journal->impl;
    for (long i = 0; i < naive->count; i++)
        free(naive->records[i].payload);
    free(naive->records);
    (void)pthread_mutex_destroy(&naive->lock);
    free(naive);
}

static int naive_writer_open(struct journal_writer *writer, struct errmsg *why)
{
    struct naive_writer *own = calloc(1, sizeof(*own));
    if (own == NULL)
        return errmsg_set(why, -ENOMEM, "no memory");
    own->naive = writer->journal->impl;
    timer_init(&own->timer, fire_again);
    writer->impl = own;
    return 0;
}

static void naive_writer_close(struct journal_writer *writer)
{
    struct naive_writer *own = writer->impl;
    loop_timer_stop(writer->loop, &own->timer);
    free(own->early.entries);
    free(own->early.bytes);
    free(own);
}

#define BROKEN(title, which, check, level)                                                         \
    {                                                                                              \
        .name = title, .fault = which, .breaks = check,                                            \
        .ops = {                                                                                   \
            .name = "broken",                                                                      \
            .levels = {level},                                                                     \
            .open = naive_open,                                                                    \
            .close = naive_close,                                                                  \
            .writer_open = naive_writer_open,                                                      \
            .writer_close = naive_writer_close,                                                    \
            .commit = naive_commit,                                                                \
            .read = naive_read,                                                                    \
            .scan = naive_scan,                                                                    \
        },                                                                                         \
    }

const struct broken_journal broken_journals[] = {
    BROKEN("not broken", FAULT_NONE, 0, DURABILITY_NONE),
    BROKEN("two winners", FAULT_TWO_WINNERS, 1, DURABILITY_NONE),
    BROKEN("duplicate", FAULT_DUPLICATE, 1, DURABILITY_NONE),
    BROKEN("gap", FAULT_GAP, 2, DURABILITY_NONE),
    BROKEN("reordered", FAULT_REORDERED, 2, DURABILITY_NONE),
    BROKEN("early ack", FAULT_EARLY_ACK, 3, DURABILITY_NONE),
    BROKEN("overclaimed durability", FAULT_OVERCLAIMED, 3, DURABILITY_PROCESS),
    BROKEN("lost record", FAULT_LOST, 4, DURABILITY_NONE),
    BROKEN("stale read", FAULT_STALE_READ, 4, DURABILITY_NONE),
    BROKEN("payload cut at NUL", FAULT_CUT_AT_NUL, 5, DURABILITY_NONE),
    BROKEN("mutable record", FAULT_MUTABLE, 6, DURABILITY_NONE),
    BROKEN("conflict accepted", FAULT_CONFLICT_ACCEPTED, 7, DURABILITY_NONE),
    BROKEN("retry refused", FAULT_RETRY_REFUSED, 7, DURABILITY_NONE),
    BROKEN("unbounded", FAULT_UNBOUNDED, 8, DURABILITY_NONE),
    BROKEN("torn payload", FAULT_TORN, 9, DURABILITY_NONE),
    BROKEN("callback twice", FAULT_CALLBACK_TWICE, 10, DURABILITY_NONE),
    BROKEN("callback never", FAULT_CALLBACK_NEVER, 10, DURABILITY_NONE),
    BROKEN("callback inline", FAULT_CALLBACK_INLINE, 10, DURABILITY_NONE),
    {0},
};
