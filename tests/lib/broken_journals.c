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
    NAIVE_LANES = 2,
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

static void naive_remove_last(struct naive *naive)
{
    const struct kept *last = &naive->records[--naive->count];
    naive->buckets[bucket_of(last->run, last->seq)] = last->next; /* it was the first there */
    free(last->payload);
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
                           struct journal_batch *batch)
{
    for (uint32_t i = 0; i < batch->count; i++) {
        struct journal_entry *entry = &batch->entries[i];
        if (entry->result != JOURNAL_UNSET)
            continue;
        int result = naive_keep(naive, writer, entry, batch->bytes + entry->offset);
        if (result != JOURNAL_ACKED)
            journal_batch_refuse(batch, i, result);
        entry->result = (int16_t)result;
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
    journal_batch_done(writer, batch, loop_clock_ns(writer->loop));
}

static struct journal_record naive_view(const struct kept *kept)
{
    return (struct journal_record){.campaign = 1,
                                   .run = kept->run,
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

/* --- reading what is there, in one part --- */

static int naive_show(const struct kept *kept, journal_visit *visit, void *arg)
{
    struct journal_record record = naive_view(kept);
    int result = visit(arg, &record);
    return result == 0 && kept->is_duplicate ? visit(arg, &record) : result;
}

static int naive_scan(struct journal *journal, uint64_t campaign, unsigned part, uint32_t kinds,
                      journal_visit *visit, void *arg, struct errmsg *why)
{
    struct naive *naive = journal->impl;
    enum fault fault = fault_of(journal);
    int result = 0;

    (void)campaign;
    (void)part;
    (void)why;
    (void)pthread_mutex_lock(&naive->lock);
    for (long i = 0; i < naive->count && result == 0; i++) {
        const struct kept *kept =
            &naive->records[fault == FAULT_REORDERED ? naive->count - 1 - i : i];
        if ((kinds & 1u << kept->kind) != 0 || fault == FAULT_ALL_KINDS)
            result = naive_show(kept, visit, arg);
    }
    (void)pthread_mutex_unlock(&naive->lock);
    return result;
}

static int naive_read_runs(struct journal *journal, unsigned part, const uint64_t *runs,
                           unsigned count, journal_visit *visit, void *arg, struct errmsg *why)
{
    struct naive *naive = journal->impl;
    enum fault fault = fault_of(journal);
    int result = 0;

    (void)part;
    (void)why;
    (void)pthread_mutex_lock(&naive->lock);
    for (unsigned i = 0; i < count && result == 0; i++) {
        uint64_t run = runs[fault == FAULT_RUNS_REORDERED ? count - 1 - i : i];
        for (long k = 0; k < naive->count && result == 0; k++)
            if (naive->records[k].run == run)
                result = naive_show(&naive->records[k], visit, arg);
    }
    (void)pthread_mutex_unlock(&naive->lock);
    return result;
}

static int naive_count(struct journal *journal, unsigned part, struct journal_count *count,
                       struct errmsg *why)
{
    struct naive *naive = journal->impl;
    (void)part;
    (void)why;
    (void)pthread_mutex_lock(&naive->lock);
    for (long i = 0; i < naive->count; i++) {
        count->records++;
        count->bytes += naive->records[i].bytes;
        count->begins += naive->records[i].kind == RECORD_BEGIN;
        count->ends += naive->records[i].kind == RECORD_END;
    }
    if (fault_of(journal) == FAULT_MISCOUNTED && count->ends > 0)
        count->ends--;
    (void)pthread_mutex_unlock(&naive->lock);
    return 0;
}

static int naive_list(struct journal *journal,
                      int (*visit)(void *arg, const struct journal_campaign *campaign), void *arg,
                      struct errmsg *why)
{
    (void)why;
    return fault_of(journal) == FAULT_UNLISTED ? 0 : visit(arg, &journal->campaign);
}

/* --- life --- */

/* What a store that forgets nothing has when it is closed. A check has a process of its own, and in
 * it one store. */
static struct naive *closed;

static bool is_kept(const struct journal *journal)
{
    return container_of(journal->ops, struct broken_journal, ops)->is_kept;
}

static int naive_open(struct journal *journal, const struct journal_config *config,
                      struct errmsg *why)
{
    journal->campaign = (struct journal_campaign){.id = 1,
                                                  .key = config->key,
                                                  .durability = journal->durability,
                                                  .description = config->description};
    if (closed != NULL) {
        journal->impl = closed;
        closed = NULL;
        return 0;
    }
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
    if (is_kept(journal)) {
        if (fault_of(journal) == FAULT_LOST_AT_CLOSE && naive->count > 0)
            naive_remove_last(naive);
        closed = naive;
        return;
    }
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
    writer->lanes = NAIVE_LANES;
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

#define BROKEN(title, which, check, level, keeps)                                                  \
    {                                                                                              \
        .name = title, .fault = which, .breaks = check, .is_kept = keeps,                          \
        .ops = {                                                                                   \
            .name = "broken",                                                                      \
            .levels = {level},                                                                     \
            .open = naive_open,                                                                    \
            .close = naive_close,                                                                  \
            .writer_open = naive_writer_open,                                                      \
            .writer_close = naive_writer_close,                                                    \
            .commit = naive_commit,                                                                \
            .read = naive_read,                                                                    \
            .list = naive_list,                                                                    \
            .scan = naive_scan,                                                                    \
            .read_runs = naive_read_runs,                                                          \
            .count = naive_count,                                                                  \
        },                                                                                         \
    }

const struct broken_journal broken_journals[] = {
    BROKEN("not broken", FAULT_NONE, 0, DURABILITY_NONE, false),
    BROKEN("not broken, and kept", FAULT_NONE, 0, DURABILITY_NONE, true),
    BROKEN("two winners", FAULT_TWO_WINNERS, 1, DURABILITY_NONE, false),
    BROKEN("duplicate", FAULT_DUPLICATE, 1, DURABILITY_NONE, false),
    BROKEN("gap", FAULT_GAP, 2, DURABILITY_NONE, false),
    BROKEN("reordered", FAULT_REORDERED, 2, DURABILITY_NONE, false),
    BROKEN("runs read in another order", FAULT_RUNS_REORDERED, 2, DURABILITY_NONE, false),
    BROKEN("early ack", FAULT_EARLY_ACK, 3, DURABILITY_NONE, false),
    BROKEN("overclaimed durability", FAULT_OVERCLAIMED, 3, DURABILITY_PROCESS, false),
    BROKEN("lost record", FAULT_LOST, 4, DURABILITY_NONE, false),
    BROKEN("last record lost at close", FAULT_LOST_AT_CLOSE, 4, DURABILITY_NONE, true),
    BROKEN("stale read", FAULT_STALE_READ, 4, DURABILITY_NONE, false),
    BROKEN("miscounted", FAULT_MISCOUNTED, 4, DURABILITY_NONE, false),
    BROKEN("all kinds shown", FAULT_ALL_KINDS, 4, DURABILITY_NONE, false),
    BROKEN("unlisted campaign", FAULT_UNLISTED, 4, DURABILITY_NONE, false),
    BROKEN("payload cut at NUL", FAULT_CUT_AT_NUL, 5, DURABILITY_NONE, false),
    BROKEN("mutable record", FAULT_MUTABLE, 6, DURABILITY_NONE, false),
    BROKEN("conflict accepted", FAULT_CONFLICT_ACCEPTED, 7, DURABILITY_NONE, false),
    BROKEN("retry refused", FAULT_RETRY_REFUSED, 7, DURABILITY_NONE, false),
    BROKEN("unbounded", FAULT_UNBOUNDED, 8, DURABILITY_NONE, false),
    BROKEN("torn payload", FAULT_TORN, 9, DURABILITY_NONE, false),
    BROKEN("callback twice", FAULT_CALLBACK_TWICE, 10, DURABILITY_NONE, false),
    BROKEN("callback never", FAULT_CALLBACK_NEVER, 10, DURABILITY_NONE, false),
    BROKEN("callback inline", FAULT_CALLBACK_INLINE, 10, DURABILITY_NONE, false),
    {0},
};
