/*
 * verify: see verify.h. First the map from runs to what is kept of them, then a part's passes, then
 * the threads.
 */
#include "engine/verify.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/prng.h"
#include "journal/campaign_keys.h"

enum {
    PAGE_BITS = 6,
    PAGE_RUNS = 1 << PAGE_BITS,
    PAGES_MIN = 64, /* whatever memory may be taken */
    THREADS_MAX = 64,
};

/* --- the map: pages of 64 runs, found by hash, of which the highest go when there are too many ---
 */

struct page {
    uint64_t number; /* of the key, campaign and run, without its lowest bits */
    struct replay runs[PAGE_RUNS];
    uint8_t faults[PAGE_RUNS]; /* enum replay_fault, of runs that are broken */
};

struct map {
    struct page **slots; /* open addressing, at most half full */
    size_t capacity;     /* a power of two */
    size_t count;
    size_t count_max;
    struct page *recent;
    uint64_t end; /* page numbers from here on are not looked at in this pass */
};

static bool map_open(struct map *map, uint64_t memory_bytes)
{
    uint64_t pages = memory_bytes / (sizeof(struct page) + 4 * sizeof(struct page *));
    *map = (struct map){.count_max = pages < PAGES_MIN ? PAGES_MIN : (size_t)pages};
    map->capacity = 2;
    while (map->capacity < 2 * map->count_max)
        map->capacity *= 2;
    map->slots = calloc(map->capacity, sizeof(struct page *));
    return map->slots != NULL;
}

static void map_empty(struct map *map)
{
    for (size_t i = 0; i < map->capacity; i++) {
        free(map->slots[i]);
        map->slots[i] = NULL;
    }
    map->count = 0;
    map->recent = NULL;
}

static void map_close(struct map *map)
{
    if (map->slots != NULL)
        map_empty(map);
    free(map->slots);
}

static struct page **map_slot(const struct map *map, uint64_t number)
{
    size_t i = (size_t)prng_mix(number) & (map->capacity - 1);
    while (map->slots[i] != NULL && map->slots[i]->number != number)
        i = (i + 1) & (map->capacity - 1);
    return &map->slots[i];
}

static int compare_pages(const void *left, const void *right)
{
    uint64_t a = (*(struct page *const *)left)->number;
    uint64_t b = (*(struct page *const *)right)->number;
    return (a > b) - (a < b);
}

/* Lets go of the higher half of the pages; they are for a later pass. */
static bool map_halve(struct map *map)
{
    struct page **pages = malloc(map->count * sizeof(struct page *));
    if (pages == NULL)
        return false;
    size_t count = 0;
    for (size_t i = 0; i < map->capacity; i++)
        if (map->slots[i] != NULL)
            pages[count++] = map->slots[i];
    qsort(pages, count, sizeof(struct page *), compare_pages);
    memset(map->slots, 0, map->capacity * sizeof(struct page *));
    size_t kept = count / 2;
    map->end = pages[kept]->number;
    for (size_t i = 0; i < kept; i++)
        *map_slot(map, pages[i]->number) = pages[i];
    for (size_t i = kept; i < count; i++)
        free(pages[i]);
    free(pages);
    map->count = kept;
    map->recent = NULL;
    return true;
}

/* The page of a number below map->end; NULL without memory. It may move map->end to below it. */
static struct page *map_page(struct map *map, uint64_t number)
{
    if (map->recent != NULL && map->recent->number == number)
        return map->recent;
    struct page **slot = map_slot(map, number);
    if (*slot == NULL) {
        if (map->count == map->count_max) {
            if (!map_halve(map))
                return NULL;
            slot = map_slot(map, number);
        }
        *slot = calloc(1, sizeof(struct page));
        if (*slot == NULL)
            return NULL;
        (*slot)->number = number;
        map->count++;
    }
    map->recent = *slot;
    return *slot;
}

/* --- a part --- */

struct part {
    struct journal *journal;
    const struct verify_config *config;
    const struct campaign_keys *listed;
    uint64_t recent; /* campaign: of the record before, which is mostly that of this one */
    bool has_recent;
    bool is_recent_listed;
    unsigned number;
    struct map map;
    uint64_t begin; /* page numbers before are done */
    bool is_first_pass;
    struct verify_result result;
    struct verify_fault found[VERIFY_FAULTS_KEPT]; /* in this pass, the lowest runs */
    unsigned found_count;
};

static bool is_before(const struct verify_fault *a, const struct verify_fault *b)
{
    return a->campaign != b->campaign ? a->campaign < b->campaign : a->run < b->run;
}

/* Keeps the lowest in order. */
static void keep_fault(struct verify_fault *kept, unsigned *count, const struct verify_fault *fault)
{
    unsigned at = *count;
    while (at > 0 && is_before(fault, &kept[at - 1]))
        at--;
    if (at == VERIFY_FAULTS_KEPT)
        return;
    unsigned last = *count < VERIFY_FAULTS_KEPT ? *count : VERIFY_FAULTS_KEPT - 1;
    memmove(&kept[at + 1], &kept[at], (last - at) * sizeof(kept[0]));
    kept[at] = *fault;
    *count = last + 1;
}

/* Keeps the lowest. */
static void note_unlisted(struct verify_result *result, uint64_t campaign, uint64_t records)
{
    if (records > 0 && (result->unlisted_records == 0 || campaign < result->unlisted_campaign))
        result->unlisted_campaign = campaign;
    result->unlisted_records += records;
}

static void count_record(struct part *part, const struct journal_record *record)
{
    part->result.records++;
    part->result.bytes += record->bytes;
    if (!part->has_recent || record->campaign != part->recent) {
        part->recent = record->campaign;
        part->has_recent = true;
        part->is_recent_listed = campaign_keys_find(part->listed, record->campaign) != NULL;
    }
    if (!part->is_recent_listed)
        note_unlisted(&part->result, record->campaign, 1);
}

static uint64_t page_number(const struct journal_record *record)
{
    return (uint64_t)run_key_pack(record->campaign, record->run) >> PAGE_BITS;
}

static int look_at(void *arg, const struct journal_record *record)
{
    struct part *part = arg;
    uint64_t number = page_number(record);
    if (part->is_first_pass)
        count_record(part, record);
    if (number < part->begin || number >= part->map.end)
        return 0;
    struct page *page = map_page(&part->map, number);
    if (page == NULL)
        return -ENOMEM;
    struct record parsed;
    const char *why = NULL;
    unsigned run = record->run % PAGE_RUNS;
    enum replay_fault fault = replay_step(&page->runs[run], record, &parsed, &why);
    if (__builtin_expect(fault == REPLAY_GOOD || fault == REPLAY_BROKEN, 1))
        return 0;
    page->faults[run] = (uint8_t)fault;
    struct verify_fault found = {.campaign = record->campaign,
                                 .run = record->run,
                                 .seq = record->seq,
                                 .fault = fault,
                                 .why = why};
    keep_fault(part->found, &part->found_count, &found);
    return 0;
}

/* Whether there is anything of the run: a run without records is all zeroes. */
static bool is_run(const struct replay *replay)
{
    return replay->seq > 0 || replay->is_broken;
}

/* Takes what a pass has seen to its end into the result. Of pages from map.end on there may be one
 * that was begun before its turn was put off, and faults: they come again. */
static void close_pass(struct part *part)
{
    struct verify_result *result = &part->result;
    for (size_t i = 0; i < part->map.capacity; i++) {
        const struct page *page = part->map.slots[i];
        for (unsigned run = 0; page != NULL && page->number < part->map.end && run < PAGE_RUNS;
             run++) {
            const struct replay *replay = &page->runs[run];
            if (!is_run(replay))
                continue;
            result->runs++;
            result->runs_faulty += replay->is_broken;
            result->faults[page->faults[run]] += replay->is_broken;
            if (replay->is_broken || !replay_has_ended(replay))
                continue;
            result->runs_ended++;
            result->outcomes[replay->outcome]++;
        }
    }
    for (unsigned i = 0; i < part->found_count; i++) {
        const struct verify_fault *fault = &part->found[i];
        uint64_t number = (uint64_t)run_key_pack(fault->campaign, fault->run) >> PAGE_BITS;
        if (number < part->map.end)
            keep_fault(result->first, &result->first_count, fault);
    }
}

static int verify_part(struct part *part, struct errmsg *why)
{
    int error = 0;
    part->is_first_pass = true;
    do {
        part->map.end = UINT64_MAX;
        part->found_count = 0;
        error = journal_scan(part->journal, part->config->campaign, part->number, UINT32_MAX,
                             look_at, part, why);
        if (error == -ENOMEM)
            (void)errmsg_set(why, error, "no memory for what is kept of the runs");
        part->result.passes++;
        close_pass(part);
        part->begin = part->map.end;
        part->is_first_pass = false;
        map_empty(&part->map);
    } while (error == 0 && part->begin != UINT64_MAX);
    return error;
}

/* --- the threads --- */

struct audit {
    struct journal *journal;
    const struct verify_config *config;
    struct campaign_keys listed; /* all of the journal's */
    uint64_t memory_bytes;       /* of a thread */
    _Atomic unsigned next_part;
    pthread_mutex_t mutex; /* of what follows */
    struct verify_result *result;
    int error;
    struct errmsg why;
};

static void merge(struct audit *audit, const struct part *part, int error, const struct errmsg *why)
{
    struct verify_result *sum = audit->result;
    (void)pthread_mutex_lock(&audit->mutex); /* a plain mutex, never held twice */
    sum->runs += part->result.runs;
    sum->runs_ended += part->result.runs_ended;
    sum->runs_faulty += part->result.runs_faulty;
    sum->records += part->result.records;
    sum->bytes += part->result.bytes;
    for (unsigned i = 0; i < OUTCOME_COUNT; i++)
        sum->outcomes[i] += part->result.outcomes[i];
    for (unsigned i = 0; i < REPLAY_FAULT_COUNT; i++)
        sum->faults[i] += part->result.faults[i];
    for (unsigned i = 0; i < part->result.first_count; i++)
        keep_fault(sum->first, &sum->first_count, &part->result.first[i]);
    if (part->result.passes > sum->passes)
        sum->passes = part->result.passes;
    note_unlisted(sum, part->result.unlisted_campaign, part->result.unlisted_records);
    if (error != 0 && audit->error == 0) {
        audit->error = error;
        audit->why = *why;
    }
    (void)pthread_mutex_unlock(&audit->mutex);
}

static void *thread_main(void *arg)
{
    struct audit *audit = arg;
    unsigned parts = journal_parts(audit->journal);
    for (unsigned i; (i = atomic_fetch_add(&audit->next_part, 1)) < parts;) {
        struct errmsg why = {.text = ""};
        struct part part = {.journal = audit->journal,
                            .config = audit->config,
                            .listed = &audit->listed,
                            .number = i};
        int error = map_open(&part.map, audit->memory_bytes)
                        ? verify_part(&part, &why)
                        : errmsg_set(&why, -ENOMEM, "no memory for what is kept of the runs");
        merge(audit, &part, error, &why);
        map_close(&part.map);
    }
    return NULL;
}

static void read_parts(struct audit *audit, unsigned threads)
{
    pthread_t ids[THREADS_MAX];
    unsigned started = 0;
    (void)pthread_mutex_init(&audit->mutex, NULL); /* cannot fail with default attributes */
    while (started + 1 < threads && pthread_create(&ids[started], NULL, thread_main, audit) == 0)
        started++;
    (void)thread_main(audit); /* the caller takes its share, and all of it without threads */
    for (unsigned i = 0; i < started; i++)
        (void)pthread_join(ids[i], NULL);
    (void)pthread_mutex_destroy(&audit->mutex);
}

static int list_campaigns(struct audit *audit, struct errmsg *why)
{
    const struct campaign_keys *listed = &audit->listed;
    uint64_t wanted = audit->config->campaign;
    struct errmsg said = {.text = ""}; /* by the store; by the list nothing is */
    int error = journal_list(audit->journal, campaign_keys_add, &audit->listed, &said);
    if (error != 0 && said.text[0] != '\0')
        return errmsg_set(why, error, "%s", said.text);
    if (error != 0)
        return campaign_keys_say(error, why);
    if (wanted != 0 && campaign_keys_find(listed, wanted) == NULL)
        return errmsg_set(why, -ENOENT, "the journal holds no campaign %" PRIu64, wanted);
    audit->result->campaigns = wanted != 0 ? 1 : listed->count;
    return 0;
}

int verify_journal(struct journal *journal, const struct verify_config *config,
                   struct verify_result *result, struct errmsg *why)
{
    unsigned threads =
        config->threads < journal_parts(journal) ? config->threads : journal_parts(journal);
    threads = threads > THREADS_MAX ? THREADS_MAX : threads < 1 ? 1 : threads;
    *result = (struct verify_result){0};
    struct audit audit = {.journal = journal,
                          .config = config,
                          .memory_bytes = config->memory_bytes / threads,
                          .result = result};
    int error = list_campaigns(&audit, why);
    if (error == 0) {
        read_parts(&audit, threads);
        error = audit.error;
        if (error != 0)
            *why = audit.why;
    }
    campaign_keys_free(&audit.listed);
    return error;
}
