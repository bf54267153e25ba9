/* journal_load: see journal_load.h. Here is what drives; journal_load_audit.c looks. */
#include "tests/lib/journal_load.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/digest.h"
#include "engine/base/prng.h"
#include "engine/loop.h"

#define ANSWER_NS_MAX (20 * NS_PER_S)

enum {
    STREAM_RUN = 100, /* of draws, see prng_stream() */
    STREAM_RECORD = 101,
    SIZES_SMALL_MAX = 300, /* of most payloads */
};

struct journal_load_writer {
    struct journal_load *load;
    enum journal_load_from from;
    unsigned index; /* of the load's; the journal's may be another */
    unsigned journal_index;
    struct loop loop;
    struct journal_writer *writer;
    struct journal_load_run *again; /* told to append once more */
    uint64_t next_run;
    unsigned pending;
    unsigned appends_since_flush;
    char *payload;
    struct journal_load_counts counts;
    struct journal_totals totals;
    struct errmsg why;
    int result_first;
};

static void done(struct journal_append *append, int result);

/* --- what a load consists of --- */

static void *allocate(size_t count, size_t size)
{
    void *memory = calloc(count, size);
    if (memory == NULL)
        abort();
    return memory;
}

void journal_load_init(struct journal_load *load, const struct journal_load_config *config)
{
    *load = (struct journal_load){.config = *config};
    assert(config->runs <= JOURNAL_LOAD_RUNS_MAX && config->writers > 0 &&
           config->writers <= JOURNAL_LOAD_WRITERS_MAX && config->records_min > 0 &&
           config->records_min <= config->records_max &&
           config->records_max <= JOURNAL_LOAD_RECORDS_MAX);
    load->runs = allocate(config->runs + 1, sizeof(load->runs[0]));
    for (uint64_t run = 0; run < config->runs; run++) {
        struct prng p = prng_stream(config->seed, run, PRNG_TEST, STREAM_RUN);
        load->runs[run].records_count =
            config->records_min +
            (uint32_t)prng_below(&p, config->records_max - config->records_min + 1);
    }
}

void journal_load_free(struct journal_load *load)
{
    assert(load->journal == NULL);
    free(load->runs);
    load->runs = NULL;
}

enum record_kind journal_load_kind(const struct journal_load_run *run, uint32_t seq)
{
    static const enum record_kind kinds[] = {RECORD_MODEL, RECORD_ATTEMPT, RECORD_TOOL};
    if (seq == 0)
        return RECORD_BEGIN;
    return seq + 1 == run->records_count ? RECORD_END : kinds[(seq - 1) % 3];
}

/* Most are small, one in eight is empty if it may be, one in eight of any size. */
static uint32_t draw_size(const struct journal_load_config *config, struct prng *p)
{
    uint64_t spread = config->payload_bytes_max - config->payload_bytes_min;
    uint64_t which = prng_below(p, 8);
    if (which == 0)
        return config->payload_bytes_min;
    if (which > 1 && spread > SIZES_SMALL_MAX)
        spread = SIZES_SMALL_MAX;
    return config->payload_bytes_min + (uint32_t)prng_below(p, spread + 1);
}

uint32_t journal_load_payload(const struct journal_load_config *config, uint64_t run, uint32_t seq,
                              char *bytes)
{
    struct prng p = prng_stream(config->seed, run, PRNG_TEST, STREAM_RECORD + seq);
    uint32_t size = draw_size(config, &p);
    for (uint32_t at = 0; at < size; at += sizeof(uint64_t)) {
        uint64_t word = prng_next(&p);
        memcpy(bytes + at, &word, size - at < sizeof(word) ? size - at : sizeof(word));
    }
    return size;
}

/* --- appending --- */

static struct journal_load_run *run_of(struct journal_append *append)
{
    return container_of(append, struct journal_load_run, append);
}

static void append_record(struct journal_load_writer *w, struct journal_load_run *run)
{
    uint32_t bytes =
        journal_load_payload(&w->load->config, run->append.run, run->append.seq, w->payload);
    run->is_pending = true;
    w->pending++;
    journal_append(w->writer, &run->append, journal_load_kind(run, run->append.seq), w->payload,
                   bytes);
    unsigned every = w->load->config.flush_every;
    if (every > 0 && ++w->appends_since_flush % every == 0)
        journal_flush(w->writer);
}

/* The digest of the record before `seq`. */
static uint64_t digest_before(const struct journal_load_writer *w, uint64_t run, uint32_t seq)
{
    uint64_t digest = DIGEST_START;
    for (uint32_t i = 0; i < seq; i++) {
        uint32_t bytes = journal_load_payload(&w->load->config, run, i, w->payload);
        digest = digest_chain(digest, w->payload, bytes);
    }
    return digest;
}

/* The next run of the writer that has something to append. */
static void start_run(struct journal_load_writer *w)
{
    const struct journal_load_config *config = &w->load->config;
    while (w->next_run < config->runs) {
        uint64_t number = w->next_run;
        struct journal_load_run *run = &w->load->runs[number];
        uint32_t seq = w->from == LOAD_FROM_START ? 0 : run->found_count;
        w->next_run += config->writers;
        if (seq == run->records_count)
            continue;
        run->writer = w;
        run->append = (struct journal_append){
            .done = done, .run = number, .seq = seq, .digest = digest_before(w, number, seq)};
        w->counts.appends++;
        append_record(w, run);
        return;
    }
}

static void hear(struct journal_load_writer *w, struct journal_load_run *run, int result)
{
    enum journal_load_told told = LOAD_TOLD_REFUSED;
    if (result == JOURNAL_ACKED) {
        told = LOAD_TOLD_ACKED;
        w->counts.acked++;
    } else if (result == JOURNAL_UNKNOWN) {
        told = LOAD_TOLD_UNKNOWN;
        w->counts.unknown++;
    } else {
        w->counts.refused++;
        w->counts.stopped += result == JOURNAL_STOPPED;
    }
    if (result != JOURNAL_ACKED && result != JOURNAL_STOPPED && w->result_first == 0)
        w->result_first = result;
    uint8_t *before = &run->told[run->append.seq];
    if (told > *before)
        *before = (uint8_t)told;
}

static void done(struct journal_append *append, int result)
{
    struct journal_load_run *run = run_of(append);
    struct journal_load_writer *w = run->writer;
    assert(run->is_pending);
    run->is_pending = false;
    w->pending--;
    if (result == JOURNAL_AGAIN) {
        run->next_again = w->again;
        w->again = run;
        return;
    }
    hear(w, run, result);
    if (result == JOURNAL_ACKED) {
        uint64_t count = atomic_fetch_add(&w->load->acked_count, 1) + 1;
        if (w->load->config.acked != NULL)
            w->load->config.acked(w->load->config.arg, count);
        append->seq++;
        if (append->seq < run->records_count) {
            w->counts.appends++;
            append_record(w, run);
            return;
        }
    }
    start_run(w);
}

static void append_again(struct journal_load_writer *w)
{
    struct journal_load_run *run = w->again;
    w->again = NULL;
    for (struct journal_load_run *next; run != NULL; run = next) {
        next = run->next_again;
        append_record(w, run);
    }
}

/* --- a writer --- */

static void drive_writer(struct journal_load_writer *w)
{
    const struct journal_load_config *config = &w->load->config;
    uint64_t patience_ns = config->answer_ns_max > 0 ? config->answer_ns_max : ANSWER_NS_MAX;
    unsigned concurrency = config->concurrency > 0 ? config->concurrency : config->runs;
    for (unsigned i = 0; i < concurrency; i++)
        start_run(w);
    uint64_t heard_ns = clock_monotonic_ns();
    while (w->pending > 0) {
        journal_flush(w->writer);
        bool was_heard = journal_deliver(w->writer) > 0; /* a store may settle at once */
        append_again(w);
        uint64_t now_ns = clock_monotonic_ns();
        if (was_heard)
            heard_ns = now_ns;
        else if (now_ns - heard_ns >= patience_ns)
            break;
        else if (loop_poll(&w->loop, heard_ns + patience_ns, UINT32_MAX) != 0)
            abort();
    }
}

static void *writer_main(void *arg)
{
    struct journal_load_writer *w = arg;
    int error = loop_open(&w->loop, "epoll", &w->why); /* is always there, and quick to open */
    if (error != 0)
        abort();
    error = journal_writer_open(w->load->journal, w->journal_index, &w->loop, &w->writer, &w->why);
    if (error == 0) {
        drive_writer(w);
        w->totals = journal_writer_totals(w->writer);
        journal_writer_close(w->writer);
    }
    loop_close(&w->loop);
    return NULL;
}

/* What was never answered is not known. */
static void give_up_pending(struct journal_load_writer *w)
{
    const struct journal_load_config *config = &w->load->config;
    for (uint64_t number = w->index; number < config->runs; number += config->writers) {
        struct journal_load_run *run = &w->load->runs[number];
        if (!run->is_pending)
            continue;
        run->is_pending = false;
        w->counts.unanswered++;
        if (run->told[run->append.seq] < LOAD_TOLD_UNKNOWN)
            run->told[run->append.seq] = LOAD_TOLD_UNKNOWN;
    }
}

static void add_up(struct journal_load *load, const struct journal_load_writer *w)
{
    load->counts.appends += w->counts.appends;
    load->counts.acked += w->counts.acked;
    load->counts.refused += w->counts.refused;
    load->counts.unknown += w->counts.unknown;
    load->counts.unanswered += w->counts.unanswered;
    load->counts.stopped += w->counts.stopped;
    load->totals.records += w->totals.records;
    load->totals.refused += w->totals.refused;
    load->totals.unknown += w->totals.unknown;
    if (load->results_first == 0)
        load->results_first = w->result_first;
    if (load->why.text[0] == '\0')
        load->why = w->why;
}

void journal_load_drive(struct journal_load *load, enum journal_load_from from)
{
    struct journal_load_writer writers[JOURNAL_LOAD_WRITERS_MAX] = {0};
    pthread_t threads[JOURNAL_LOAD_WRITERS_MAX];
    unsigned count = load->config.writers;

    load->counts = (struct journal_load_counts){0};
    load->totals = (struct journal_totals){0};
    load->why.text[0] = '\0';
    load->results_first = 0;
    for (unsigned i = 0; i < count; i++) {
        writers[i].load = load;
        writers[i].from = from;
        writers[i].index = i;
        writers[i].next_run = i;
        writers[i].journal_index = load->writers_used++;
        writers[i].payload = allocate(load->config.payload_bytes_max + 1, 1);
    }
    for (unsigned i = 1; i < count; i++)
        if (pthread_create(&threads[i], NULL, writer_main, &writers[i]) != 0)
            abort();
    (void)writer_main(&writers[0]);
    for (unsigned i = 1; i < count; i++)
        (void)pthread_join(threads[i], NULL); /* it is ours, and joined once */
    for (unsigned i = 0; i < count; i++) {
        give_up_pending(&writers[i]);
        add_up(load, &writers[i]);
        free(writers[i].payload);
    }
}

bool journal_load_counts_agree(const struct journal_load *load)
{
    const struct journal_load_counts *counts = &load->counts;
    return counts->unanswered == 0 &&
           counts->appends == counts->acked + counts->refused + counts->unknown &&
           load->totals.records == counts->acked && load->totals.refused == counts->refused &&
           load->totals.unknown == counts->unknown;
}

/* --- the journal --- */

int journal_load_open(struct journal_load *load, enum journal_mode mode, struct errmsg *why)
{
    unsigned drives = load->config.drives > 0 ? load->config.drives : 1;
    const struct journal_config config = {
        .uri = load->config.uri,
        .mode = mode,
        .durability = load->config.durability,
        .campaign = mode == JOURNAL_RESUME ? load->campaign : 0,
        .key = load->config.key,
        .description = "{\"load\":true}",
        .writers = load->config.writers * drives,
        .shards = mode == JOURNAL_NEW ? load->config.shards : 0,
        .connections = load->config.connections,
        .retry_for_ns = load->config.retry_for_ns,
        .bytes_max = UINT64_C(1) << 30,
    };
    assert(load->journal == NULL);
    why->text[0] = '\0';
    load->writers_used = 0;
    int error = journal_open(&load->journal, &config, why);
    if (error != 0)
        load->journal = NULL;
    else if (mode == JOURNAL_NEW)
        load->campaign = journal_campaign(load->journal)->id;
    return error;
}

void journal_load_close(struct journal_load *load)
{
    if (load->journal != NULL)
        journal_close(load->journal);
    load->journal = NULL;
}
