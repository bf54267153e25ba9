/* recovery: see recovery.h. First the set of runs, then the blocks. */
#include "engine/recovery.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/prng.h"

enum {
    PAGE_BITS = 6,
    PAGES_FIRST = 1024,
    RECORDS_FIRST = 1024,
    BYTES_FIRST = 256 << 10,
    CLAIMS_MIN = 4,    /* each worker's, of what is claimed ahead */
    BLOCK_IS_FULL = 1, /* what a visit answers */
};

/* --- which runs have begun, and which have ended: 64 runs a page, open addressing --- */

struct page {
    uint64_t number;
    uint64_t begun; /* a bit a run; a page without any is free */
    uint64_t ended;
};
static_assert(sizeof(struct page) == 24, "one for each 64 runs");

struct run_set {
    struct page *pages;
    size_t capacity; /* a power of two */
    size_t count;
};

static struct page *find_page(const struct run_set *set, uint64_t number)
{
    size_t i = (size_t)prng_mix(number) & (set->capacity - 1);
    while ((set->pages[i].begun | set->pages[i].ended) != 0 && set->pages[i].number != number)
        i = (i + 1) & (set->capacity - 1);
    return &set->pages[i];
}

static bool grow_set(struct run_set *set)
{
    struct run_set grown = {.capacity = set->capacity == 0 ? PAGES_FIRST : 2 * set->capacity};
    grown.pages = calloc(grown.capacity, sizeof(struct page));
    if (grown.pages == NULL)
        return false;
    for (size_t i = 0; i < set->capacity; i++) {
        const struct page *page = &set->pages[i];
        if ((page->begun | page->ended) != 0)
            *find_page(&grown, page->number) = *page;
    }
    free(set->pages);
    set->pages = grown.pages;
    set->capacity = grown.capacity;
    return true;
}

/* A store shows kinds that nobody knows to everybody: a run that holds one has not ended by it. */
static int note_run(void *arg, const struct journal_record *record)
{
    struct run_set *set = arg;
    uint64_t bit = UINT64_C(1) << (record->run % 64);
    if (record->kind != RECORD_BEGIN && record->kind != RECORD_END)
        return 0;
    if (2 * set->count >= set->capacity && !grow_set(set))
        return -ENOMEM;
    struct page *page = find_page(set, record->run >> PAGE_BITS);
    set->count += (page->begun | page->ended) == 0;
    page->number = record->run >> PAGE_BITS;
    if (record->kind == RECORD_BEGIN)
        page->begun |= bit;
    else
        page->ended |= bit;
    return 0;
}

static int compare_pages(const void *left, const void *right)
{
    uint64_t a = ((const struct page *)left)->number;
    uint64_t b = ((const struct page *)right)->number;
    return (a > b) - (a < b);
}

static uint64_t count_bits(const struct run_set *set, uint64_t (*bits)(const struct page *page))
{
    uint64_t sum = 0;
    for (size_t i = 0; i < set->capacity; i++)
        sum += (uint64_t)__builtin_popcountll(bits(&set->pages[i]));
    return sum;
}

static uint64_t begun_of(const struct page *page)
{
    return page->begun;
}

static uint64_t ended_of(const struct page *page)
{
    return page->ended;
}

/* A run whose end is there without its begin is damaged, not unfinished: verify tells of it. */
static uint64_t unfinished_of(const struct page *page)
{
    return page->begun & ~page->ended;
}

/* Lists the unfinished runs of the set, which is left sorted. */
static int list_unfinished(struct run_set *set, struct recovery_part *part)
{
    part->count = (size_t)count_bits(set, unfinished_of);
    part->runs = malloc((part->count > 0 ? part->count : 1) * sizeof(part->runs[0]));
    if (part->runs == NULL)
        return -ENOMEM;
    if (set->capacity > 0)
        qsort(set->pages, set->capacity, sizeof(struct page), compare_pages);
    size_t count = 0;
    for (size_t i = 0; i < set->capacity; i++)
        for (uint64_t bits = unfinished_of(&set->pages[i]); bits != 0; bits &= bits - 1)
            part->runs[count++] =
                (set->pages[i].number << PAGE_BITS) + (uint64_t)__builtin_ctzll(bits);
    assert(count == part->count);
    return 0;
}

static int read_part(struct recovery *recovery, struct journal *journal, unsigned part,
                     struct errmsg *why)
{
    const uint32_t kinds = 1u << RECORD_BEGIN | 1u << RECORD_END;
    struct run_set set = {0};
    int error =
        journal_scan(journal, journal_campaign(journal)->id, part, kinds, note_run, &set, why);
    if (error == 0)
        error = list_unfinished(&set, &recovery->parts[part]);
    if (error == -ENOMEM)
        (void)errmsg_set(why, error, "no memory for the list of unfinished runs");
    recovery->runs_begun += count_bits(&set, begun_of);
    recovery->runs_ended += count_bits(&set, ended_of);
    recovery->runs_unfinished += recovery->parts[part].count;
    free(set.pages);
    return error;
}

int recovery_open(struct recovery *recovery, struct journal *journal, unsigned workers,
                  uint64_t slots, struct errmsg *why)
{
    assert(workers > 0);
    *recovery =
        (struct recovery){.part_count = journal_parts(journal), .slots = slots, .workers = workers};
    recovery->parts = calloc(recovery->part_count, sizeof(recovery->parts[0]));
    if (recovery->parts == NULL)
        return errmsg_set(why, -ENOMEM, "no memory for the list of unfinished runs");
    int error = 0;
    for (unsigned part = 0; part < recovery->part_count && error == 0; part++)
        error = read_part(recovery, journal, part, why);
    if (error != 0)
        recovery_close(recovery);
    return error;
}

void recovery_close(struct recovery *recovery)
{
    for (unsigned part = 0; recovery->parts != NULL && part < recovery->part_count; part++)
        free(recovery->parts[part].runs);
    free(recovery->parts);
    recovery->parts = NULL;
}

/* --- blocks --- */

/* How many runs to claim: few enough that every worker gets some of what is left, and nobody is
 * left with much in the end. Until all slots have had one, others may have slots for what this
 * worker has none for. */
static size_t claim_size(const struct recovery *recovery, uint32_t slots_free)
{
    uint64_t claimed = atomic_load_explicit(&recovery->claimed, memory_order_relaxed);
    uint64_t left = claimed < recovery->runs_unfinished ? recovery->runs_unfinished - claimed : 0;
    uint64_t wanted = left / ((uint64_t)CLAIMS_MIN * recovery->workers) + 1;
    if (claimed < recovery->slots && wanted > slots_free)
        wanted = slots_free > 0 ? slots_free : 1;
    return wanted < RECOVERY_BLOCK_RUNS ? (size_t)wanted : RECOVERY_BLOCK_RUNS;
}

static bool claim(struct recovery *recovery, struct recovery_block *block, uint32_t slots_free)
{
    size_t wanted = claim_size(recovery, slots_free);
    for (unsigned i = 0; i < recovery->part_count; i++) {
        unsigned number = (block->part + i) % recovery->part_count;
        struct recovery_part *part = &recovery->parts[number];
        if (atomic_load_explicit(&part->claimed, memory_order_relaxed) >= part->count)
            continue;
        size_t at = atomic_fetch_add(&part->claimed, wanted);
        if (at >= part->count)
            continue;
        size_t left = part->count - at;
        block->part = number;
        block->claimed = (unsigned)(left < wanted ? left : wanted);
        atomic_fetch_add_explicit(&recovery->claimed, block->claimed, memory_order_relaxed);
        memcpy(block->runs, part->runs + at, block->claimed * sizeof(block->runs[0]));
        block->filled = 0;
        block->next = 0;
        block->is_wary = false;
        return true;
    }
    return false;
}

/* Doubles up to what a block is to hold, and then grows by a quarter: beyond is one large run. */
static bool reserve(void *array_pointer, size_t *capacity, size_t needed, size_t unit, size_t first)
{
    void **array = array_pointer;
    size_t wanted = *capacity == 0 ? first : *capacity;
    if (needed <= *capacity)
        return true;
    while (wanted < needed)
        wanted += wanted * unit < RECOVERY_BLOCK_BYTES ? wanted : wanted / 4;
    void *grown = realloc(*array, wanted * unit);
    if (grown == NULL)
        return false;
    *array = grown;
    *capacity = wanted;
    return true;
}

static size_t bytes_held(const struct recovery_block *block)
{
    return block->bytes_used + block->record_count * sizeof(block->records[0]);
}

uint64_t recovery_block_bytes_max(uint64_t run_bytes, uint64_t run_bytes_max)
{
    uint64_t bytes = run_bytes < RECOVERY_BLOCK_BYTES / RECOVERY_BLOCK_RUNS
                         ? run_bytes * RECOVERY_BLOCK_RUNS
                         : RECOVERY_BLOCK_BYTES;
    uint64_t large = run_bytes_max < UINT32_MAX ? run_bytes_max : UINT32_MAX;
    /* Twice while it doubles, or a quarter more and the copy. */
    return 2 * bytes + 2 * large + large / 4;
}

/* Records come run by run. One whose run is not the one that is being filled begins a later one:
 * those between have none. */
static int keep_record(void *arg, const struct journal_record *record)
{
    struct recovery_block *block = arg;
    unsigned run = block->filled;
    while (run < block->claimed && block->runs[run] != record->run)
        run++;
    if (run == block->claimed)
        return -EBADMSG;
    while (block->filled < run) {
        block->filled++;
        block->first[block->filled] = (uint32_t)block->record_count;
        if (bytes_held(block) >= RECOVERY_BLOCK_BYTES)
            return BLOCK_IS_FULL;
    }
    if (block->bytes_used + record->bytes > UINT32_MAX)
        return -EFBIG;
    if (!reserve(&block->records, &block->record_capacity, block->record_count + 1,
                 sizeof(block->records[0]), RECORDS_FIRST) ||
        !reserve(&block->bytes, &block->bytes_capacity, block->bytes_used + record->bytes + 1, 1,
                 BYTES_FIRST)) /* never NULL, whatever the records hold */
        return -ENOMEM;
    block->records[block->record_count++] = (struct recovered_record){
        .digest = record->digest,
        .seq = record->seq,
        .kind = (uint32_t)record->kind,
        .offset = (uint32_t)block->bytes_used,
        .bytes = record->bytes,
    };
    if (record->bytes > 0)
        memcpy(block->bytes + block->bytes_used, record->payload, record->bytes);
    block->bytes_used += record->bytes;
    return 0;
}

static void explain(const struct recovery_block *block, int error, struct errmsg *why)
{
    uint64_t run = block->runs[block->filled < block->claimed ? block->filled : 0];
    if (error == -ENOMEM)
        (void)errmsg_set(why, error, "no memory for the records of run %" PRIu64, run);
    else if (error == -EFBIG)
        (void)errmsg_set(why, error, "run %" PRIu64 " has more than 4 GiB of records", run);
    else if (error == -EBADMSG && why->text[0] == '\0')
        (void)errmsg_set(why, error, "records of other runs came than were asked for");
}

static void empty(struct recovery_block *block)
{
    block->filled = 0;
    block->record_count = 0;
    block->bytes_used = 0;
    block->first[0] = 0;
    if (block->bytes_capacity > 2 * (size_t)RECOVERY_BLOCK_BYTES) { /* for one large run */
        free(block->bytes);
        block->bytes = NULL;
        block->bytes_capacity = 0;
    }
}

/* Reads the first `count` of the runs, as many as fit. */
static int read_runs(struct journal *journal, struct recovery_block *block, unsigned count,
                     struct errmsg *why)
{
    empty(block);
    why->text[0] = '\0';
    int error =
        journal_read_runs(journal, block->part, block->runs, count, keep_record, block, why);
    if (error < 0) {
        explain(block, error, why);
        return error;
    }
    while (error != BLOCK_IS_FULL && block->filled < count) {
        block->filled++;
        block->first[block->filled] = (uint32_t)block->record_count;
    }
    return 0;
}

/* Reads the records of the block's next runs. Where one of them cannot be shown it is found by
 * reading one after the other, and handed out without records. */
static int fill(struct journal *journal, struct recovery_block *block, struct errmsg *why)
{
    unsigned done = block->next;
    memmove(block->runs, block->runs + done, (block->claimed - done) * sizeof(block->runs[0]));
    block->claimed -= done;
    block->next = 0;
    block->fault.text[0] = '\0';
    int error = read_runs(journal, block, block->is_wary ? 1 : block->claimed, why);
    if (error == -EBADMSG && !block->is_wary) {
        block->is_wary = true;
        error = read_runs(journal, block, 1, why);
    }
    if (error == -EBADMSG) {
        empty(block);
        block->fault = *why;
        block->filled = 1;
        block->first[1] = 0;
        error = 0;
    }
    if (error != 0)
        block->claimed = block->filled = 0; /* these runs stay unfinished */
    return error;
}

bool recovery_next(struct recovery *recovery, struct journal *journal, struct recovery_block *block,
                   uint32_t slots_free, struct recovered_run *run, int *error, struct errmsg *why)
{
    *error = 0;
    if (block->next == block->filled) {
        if (block->next == block->claimed && !claim(recovery, block, slots_free))
            return false;
        *error = fill(journal, block, why);
        if (*error != 0)
            return false;
    }
    unsigned i = block->next++;
    *run = (struct recovered_run){
        .run = block->runs[i],
        .records = block->record_count > 0 ? block->records + block->first[i] : NULL,
        .count = block->first[i + 1] - block->first[i],
        .bytes = block->bytes,
        .fault = block->fault.text[0] != '\0' ? block->fault.text : NULL,
    };
    return true;
}

void recovery_block_free(struct recovery_block *block)
{
    free(block->records);
    free(block->bytes);
    *block = (struct recovery_block){0};
}
