/*
 * The in-memory store: what the engine is measured against when no store shall slow it down, and
 * the reference for the others. It forgets all with the process, so durability none is its only
 * level.
 *
 * Each writer has a shard of its own: an arena of records in the order of arrival, linked backwards
 * a run, and an index from run to its newest record and next seq. The next seq alone tells a new
 * record from a gap and a retry, so that an append touches 8 bytes of index and the end of the
 * arena, nothing else.
 *
 * A run belongs to the writer that recorded its seq 0, decided by one bit a run that all shards
 * share; through another writer its records are refused (as a conflict at seq 0, as a gap later),
 * whatever their bytes. The lock is taken once a page of runs and writer, to find the page's bits.
 *
 * The bound: chunks are claimed from bytes_max before they are allocated. A record that finds none
 * is JOURNAL_FULL, and so are the later ones of its run. Only the list of chunks, 16 bytes each, is
 * not counted.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/chunk.h"
#include "engine/loop.h"
#include "journal/backend.h"
#include "journal/memory_arena.h"

enum {
    PAGE_BITS = 9,
    PAGE_RUNS = 1 << PAGE_BITS,
    RECORD_CHUNK_BYTES_FIRST = 256 << 10,
    PAGE_CHUNK_BYTES_FIRST = 64 << 10,
    CLAIM_CHUNK_BYTES_FIRST = 4 << 10,
    RECORD_BYTES_BITS = 25, /* 0 to 16 MiB, both inclusive */
    /* Index slots are cache misses with a million runs in flight: so many are fetched together. */
    COMMIT_GROUP = 16,
};

/* In slot.next_seq: the record of that seq was refused since the store was full. */
#define SLOT_FULL (UINT32_C(1) << 31)

struct record {
    uint64_t digest;
    uint64_t run;
    uint32_t seq;
    uint32_t kind_bytes; /* the payload's size, and the kind above it */
    uint32_t previous;   /* unit of the run's record before, plus 1; 0: none */
    char payload[];
};
static_assert(offsetof(struct record, payload) == 28, "one a record");

struct slot {
    uint32_t last; /* unit of the run's newest record, plus 1; 0: none */
    uint32_t next_seq;
};
static_assert(sizeof(struct slot) == 8, "one a run");

/* Which runs of a page have a record 0, whichever writer wrote it. */
struct claim {
    _Atomic uint64_t words[PAGE_RUNS / 64];
};
static_assert(sizeof(struct claim) == CACHE_LINE_BYTES, "one a page of runs");

struct page {
    _Alignas(CACHE_LINE_BYTES) struct claim *claim;
    _Alignas(CACHE_LINE_BYTES) struct slot slots[PAGE_RUNS];
};

struct shard {
    _Alignas(CACHE_LINE_BYTES) struct memory *memory;
    struct arena records;
    struct arena pages;
    struct directory directory; /* of pages, by run / PAGE_RUNS */
    uint64_t recent_number;     /* the page that was asked for last */
    struct page *recent;
    bool is_full; /* a page could not be had */
};

struct memory {
    struct bound bound;
    pthread_mutex_t lock; /* of the two below */
    struct directory claim_directory;
    struct arena claims;
    unsigned shard_count;
    struct shard shards[];
};

/* --- the index --- */

/* The bits that all writers share of a page of runs, made by the first that asks. */
static struct claim *claim_find(struct memory *memory, uint64_t number)
{
    (void)pthread_mutex_lock(&memory->lock); /* cannot fail: a plain mutex, never held twice */
    struct claim *claim = directory_find(&memory->claim_directory, number);
    if (claim == NULL && directory_reserve(&memory->bound, &memory->claim_directory)) {
        claim = arena_reserve(&memory->bound, &memory->claims, sizeof(*claim));
        if (claim != NULL) {
            memset(claim, 0, sizeof(*claim));
            memory->claims.bump += sizeof(*claim);
            directory_put(&memory->claim_directory, number, claim);
        }
    }
    (void)pthread_mutex_unlock(&memory->lock);
    return claim;
}

static struct page *page_create(struct shard *shard, uint64_t number)
{
    struct claim *claim = claim_find(shard->memory, number);
    struct page *page = NULL;
    if (claim != NULL && directory_reserve(&shard->memory->bound, &shard->directory))
        page = arena_reserve(&shard->memory->bound, &shard->pages, sizeof(*page));
    if (page == NULL) {
        shard->is_full = true;
        return NULL;
    }
    memset(page, 0, sizeof(*page));
    page->claim = claim;
    shard->pages.bump += sizeof(*page);
    directory_put(&shard->directory, number, page);
    return page;
}

/* The page of a run, made if it has none and `is_new`; else NULL. */
static struct page *page_find(struct shard *shard, uint64_t run, bool is_new)
{
    uint64_t number = run >> PAGE_BITS;
    if (shard->recent != NULL && shard->recent_number == number)
        return shard->recent;
    struct page *page = directory_find(&shard->directory, number);
    if (page == NULL && is_new)
        page = page_create(shard, number);
    if (page != NULL) {
        shard->recent = page;
        shard->recent_number = number;
    }
    return page;
}

/* Whether this is the first to record the run. */
static bool page_claim_run(struct page *page, uint64_t run)
{
    unsigned i = run % PAGE_RUNS;
    uint64_t bit = UINT64_C(1) << (i % 64);
    /* The bit alone decides; nothing else is read that another writer wrote. */
    return (atomic_fetch_or_explicit(&page->claim->words[i / 64], bit, memory_order_relaxed) &
            bit) == 0;
}

/* --- records --- */

static uint32_t record_bytes(const struct record *record)
{
    return record->kind_bytes & ((UINT32_C(1) << RECORD_BYTES_BITS) - 1);
}

static size_t record_size(size_t payload_bytes)
{
    return arena_round_up(offsetof(struct record, payload) + payload_bytes, ARENA_UNIT_BYTES);
}

static const struct record *record_at(const struct arena *arena, uint32_t unit)
{
    uint32_t low = 0;
    uint32_t high = arena->chunk_count;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (arena->chunks[middle].first_unit <= unit)
            low = middle;
        else
            high = middle;
    }
    const struct chunk *chunk = &arena->chunks[low];
    return (const void *)(chunk->base + (size_t)(unit - chunk->first_unit) * ARENA_UNIT_BYTES);
}

/* The record of a seq below the slot's next one. */
static const struct record *record_find(const struct arena *arena, const struct slot *slot,
                                        uint32_t seq)
{
    const struct record *record = record_at(arena, slot->last - 1);
    while (record->seq != seq)
        record = record_at(arena, record->previous - 1);
    return record;
}

static int record_compare(const struct record *record, const struct journal_entry *entry,
                          const char *payload)
{
    bool is_same = record->digest == entry->digest && record_bytes(record) == entry->bytes &&
                   record->kind_bytes >> RECORD_BYTES_BITS == entry->kind &&
                   memcmp(record->payload, payload, entry->bytes) == 0;
    return is_same ? JOURNAL_ACKED : JOURNAL_CONFLICT;
}

static int record_put(struct shard *shard, struct page *page, const struct journal_entry *entry,
                      const char *payload)
{
    struct arena *arena = &shard->records;

    if (page == NULL)
        return entry->seq == 0 || shard->is_full ? JOURNAL_FULL : JOURNAL_GAP;
    struct slot *slot = &page->slots[entry->run % PAGE_RUNS];
    uint32_t next_seq = slot->next_seq & ~SLOT_FULL;
    if (entry->seq < next_seq)
        return record_compare(record_find(arena, slot, entry->seq), entry, payload);
    if (entry->seq > next_seq)
        return (slot->next_seq & SLOT_FULL) != 0 ? JOURNAL_FULL : JOURNAL_GAP;

    size_t size = record_size(entry->bytes);
    struct record *record = arena_reserve(&shard->memory->bound, arena, size);
    if (record == NULL) {
        slot->next_seq |= SLOT_FULL;
        return JOURNAL_FULL;
    }
    if (entry->seq == 0 && !page_claim_run(page, entry->run))
        return JOURNAL_CONFLICT;
    const struct chunk *chunk = &arena->chunks[arena->chunk_count - 1];
    record->digest = entry->digest;
    record->run = entry->run;
    record->seq = entry->seq;
    record->kind_bytes = entry->bytes | (uint32_t)entry->kind << RECORD_BYTES_BITS;
    record->previous = slot->last;
    memcpy(record->payload, payload, entry->bytes);
    slot->last = chunk->first_unit + (uint32_t)((arena->bump - chunk->base) / ARENA_UNIT_BYTES) + 1;
    slot->next_seq = next_seq + 1;
    arena->bump += size;
    return JOURNAL_ACKED;
}

static struct journal_record record_view(const struct record *record)
{
    return (struct journal_record){
        .campaign = 1,
        .run = record->run,
        .digest = record->digest,
        .payload = record->payload,
        .seq = record->seq,
        .bytes = record_bytes(record),
        .kind = (enum record_kind)(record->kind_bytes >> RECORD_BYTES_BITS),
    };
}

/* --- the store --- */

static void memory_close(struct journal *journal)
{
    struct memory *memory = journal->impl;
    for (unsigned i = 0; i < memory->shard_count; i++) {
        arena_close(&memory->shards[i].records);
        arena_close(&memory->shards[i].pages);
        free(memory->shards[i].directory.refs);
    }
    arena_close(&memory->claims);
    free(memory->claim_directory.refs);
    (void)pthread_mutex_destroy(&memory->lock); /* nobody holds it: all writers are closed */
    chunk_free(memory);
    free((char *)journal->campaign.description); /* our own copy */
}

static int begin_campaign(struct journal *journal, const struct journal_config *config,
                          struct errmsg *why)
{
    journal->campaign = journal_new_campaign(journal, config);
    journal->campaign.id = 1;
    journal->campaign.description = strdup(journal->campaign.description);
    if (journal->campaign.description != NULL)
        return 0;
    memory_close(journal);
    return errmsg_set(why, -ENOMEM, "no memory for the campaign's description");
}

static int memory_open(struct journal *journal, const struct journal_config *config,
                       struct errmsg *why)
{
    if (config->mode != JOURNAL_NEW)
        return errmsg_set(why, -EINVAL, "journal memory keeps nothing once its process has ended");
    if (config->bytes_max == 0)
        return errmsg_set(why, -EINVAL, "journal memory must be given a bound of at least 1 byte");
    size_t bytes = sizeof(struct memory) + config->writers * sizeof(struct shard);
    struct memory *memory = chunk_alloc(bytes);
    if (memory == NULL)
        return errmsg_set(why, -ENOMEM, "no memory for the journal's %u shards", config->writers);
    memset(memory, 0, bytes);
    int error = pthread_mutex_init(&memory->lock, NULL);
    if (error != 0) {
        chunk_free(memory);
        return errmsg_set(why, -error, "no lock for the journal");
    }
    memory->bound.bytes_max = config->bytes_max;
    memory->claims.chunk_bytes_next = CLAIM_CHUNK_BYTES_FIRST;
    memory->shard_count = config->writers;
    for (unsigned i = 0; i < memory->shard_count; i++) {
        memory->shards[i].memory = memory;
        memory->shards[i].records.chunk_bytes_next = RECORD_CHUNK_BYTES_FIRST;
        memory->shards[i].pages.chunk_bytes_next = PAGE_CHUNK_BYTES_FIRST;
    }
    journal->impl = memory;
    journal->parts = config->writers;
    return begin_campaign(journal, config, why);
}

/* Shards are the journal's, not the writers': acked records outlive who wrote them. */
static int memory_writer_open(struct journal_writer *writer, struct errmsg *why)
{
    (void)why;
    struct memory *memory = writer->journal->impl;
    writer->impl = &memory->shards[writer->index];
    return 0;
}

static void memory_writer_close(struct journal_writer *writer)
{
    writer->impl = NULL;
}

static void memory_commit(struct journal_writer *writer, struct journal_batch *batch)
{
    struct shard *shard = writer->impl;
    struct page *pages[COMMIT_GROUP];

    for (uint32_t first = 0; first < batch->count; first += COMMIT_GROUP) {
        struct journal_entry *group = &batch->entries[first];
        uint32_t count = batch->count - first < COMMIT_GROUP ? batch->count - first : COMMIT_GROUP;
        for (uint32_t i = 0; i < count; i++) {
            pages[i] = page_find(shard, group[i].run, group[i].seq == 0);
            if (pages[i] != NULL)
                __builtin_prefetch(&pages[i]->slots[group[i].run % PAGE_RUNS], 1);
        }
        for (uint32_t i = 0; i < count; i++) {
            if (group[i].result != JOURNAL_UNSET)
                continue;
            const char *payload = batch->bytes + group[i].offset;
            int result = record_put(shard, pages[i], &group[i], payload);
            group[i].result = (int16_t)result;
            if (__builtin_expect(result != JOURNAL_ACKED, 0))
                journal_batch_refuse(batch, first + i, result);
        }
    }
    journal_batch_done(writer, batch, loop_clock_ns(writer->loop));
}

static int memory_read(struct journal_writer *writer, uint64_t run, uint32_t seq,
                       struct journal_record *record)
{
    struct shard *shard = writer->impl;
    struct page *page = page_find(shard, run, false);
    if (page == NULL)
        return -ENOENT;
    const struct slot *slot = &page->slots[run % PAGE_RUNS];
    if (seq >= (slot->next_seq & ~SLOT_FULL))
        return -ENOENT;
    *record = record_view(record_find(&shard->records, slot, seq));
    return 0;
}

/* --- reading what is there: a part is a writer's shard --- */

static int memory_scan(struct journal *journal, uint64_t campaign, unsigned part, uint32_t kinds,
                       journal_visit *visit, void *arg, struct errmsg *why)
{
    if (campaign != 0 && campaign != journal->campaign.id)
        return errmsg_set(why, -ENOENT, "journal memory has no campaign %" PRIu64, campaign);
    const struct arena *arena = &((const struct memory *)journal->impl)->shards[part].records;
    for (uint32_t i = 0; i < arena->chunk_count; i++) {
        const char *at = arena->chunks[i].base;
        const char *end =
            i + 1 == arena->chunk_count ? arena->bump : at + arena->chunks[i].used_bytes;
        while (at < end) {
            struct journal_record record = record_view((const void *)at);
            at += record_size(record.bytes);
            if (!journal_wants(kinds, record.kind))
                continue;
            int result = visit(arg, &record);
            if (result != 0)
                return result;
        }
    }
    return 0;
}

/* A run is linked backwards, so its records are collected before they are visited. */
static int read_run(const struct arena *arena, const struct slot *slot, journal_visit *visit,
                    void *arg, struct errmsg *why)
{
    uint32_t count = slot->next_seq & ~SLOT_FULL;
    const struct record **records = calloc(count, sizeof(struct record *));
    if (records == NULL)
        return errmsg_set(why, -ENOMEM, "no memory for the %u records of a run", count);
    uint32_t unit = slot->last;
    for (uint32_t i = count; i > 0; i--) {
        records[i - 1] = record_at(arena, unit - 1);
        unit = records[i - 1]->previous;
    }
    int result = 0;
    for (uint32_t i = 0; i < count && result == 0; i++) {
        struct journal_record record = record_view(records[i]);
        result = visit(arg, &record);
    }
    free(records);
    return result;
}

static int memory_read_runs(struct journal *journal, unsigned part, const uint64_t *runs,
                            unsigned count, journal_visit *visit, void *arg, struct errmsg *why)
{
    struct shard *shard = &((struct memory *)journal->impl)->shards[part];
    int result = 0;
    for (unsigned i = 0; i < count && result == 0; i++) {
        const struct page *page = page_find(shard, runs[i], false);
        if (page == NULL || page->slots[runs[i] % PAGE_RUNS].last == 0)
            continue;
        result = read_run(&shard->records, &page->slots[runs[i] % PAGE_RUNS], visit, arg, why);
    }
    return result;
}

static int memory_count(struct journal *journal, unsigned part, struct journal_count *count,
                        struct errmsg *why)
{
    return memory_scan(journal, 0, part, UINT32_MAX, journal_count_record, count, why);
}

static int memory_list(struct journal *journal,
                       int (*visit)(void *arg, const struct journal_campaign *campaign), void *arg,
                       struct errmsg *why)
{
    (void)why;
    return visit(arg, &journal->campaign);
}

const struct journal_ops journal_memory_ops = {
    .name = "memory",
    .levels = {DURABILITY_NONE},
    .keeps_in_memory = true,
    .open = memory_open,
    .close = memory_close,
    .writer_open = memory_writer_open,
    .writer_close = memory_writer_close,
    .commit = memory_commit,
    .read = memory_read,
    .list = memory_list,
    .scan = memory_scan,
    .read_runs = memory_read_runs,
    .count = memory_count,
};
