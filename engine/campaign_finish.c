/*
 * campaign_finish: what came of a campaign: the workers' counts and histograms as one result, held
 * against what the journal shows.
 */
#include <errno.h>
#include <inttypes.h>

#include "engine/base/clock.h"
#include "engine/campaign_parts.h"

static void add_model_count(struct model_count *sum, const struct model_count *count)
{
    sum->failures += count->failures;
    sum->timeouts += count->timeouts;
    sum->retries += count->retries;
    sum->hedges += count->hedges;
    sum->hedge_wins += count->hedge_wins;
    sum->discarded += count->discarded;
    sum->deltas += count->deltas;
}

static void merge_worker(struct campaign_result *result, const struct worker *w)
{
    struct journal_totals totals = journal_writer_totals(w->env.journal);
    uint64_t warmup_started = atomic_load(&w->progress.warmup_started);
    for (unsigned i = 0; i < OUTCOME_COUNT; i++) {
        result->runs_by_outcome[i] += w->runs_by_outcome[i];
        result->warmup.runs_by_outcome[i] += w->warmup.runs_by_outcome[i];
    }
    result->runs_started += atomic_load(&w->progress.runs_started) - warmup_started;
    result->warmup.runs_started += warmup_started;
    result->warmup.runs_abandoned += w->warmup.runs_abandoned;
    result->warmup.records += w->warmup.records;
    result->runs_queued += w->runs_queued;
    result->runs_abandoned += w->runs_abandoned;
    result->records += w->readback.records;
    result->records_bytes += w->readback.bytes;
    result->records_acked += totals.records;
    result->records_refused += totals.refused;
    result->records_unknown += totals.unknown;
    result->batches += totals.batches;
    result->retries += totals.retries;
    result->runs_resumed += w->runs_resumed;
    result->records_replayed += w->records_replayed;
    result->model_ns += w->time.model_ns;
    result->journal_ns += w->time.journal_ns;
    result->tool_ns += w->time.tool_ns;
    result->queue_ns += w->queue_ns;
    result->backoff_ns += w->time.backoff_ns;
    result->slot_ns += w->slot_ns;
    result->slot_journal_ns += w->slot_journal_ns;
    result->model_calls += w->env.model_calls;
    result->tool_calls += w->env.tool_calls;
    add_model_count(&result->model_count, &w->env.model_count);
    result->total_alloc_bytes += w->allocated_bytes;
    result->checksum += w->checksum;
    double busy = w->driven_ns > 0 ? 1 - (double)w->idle_ns / (double)w->driven_ns : 0;
    result->busiest = busy > result->busiest ? busy : result->busiest;
    if (result->first_error.text[0] == '\0')
        result->first_error = w->env.first_error;
    result->has_store_failed = result->has_store_failed || w->env.has_store_failed;
    result->is_journal_full = result->is_journal_full || w->env.is_journal_full;
    if (result->scheduler_error.text[0] == '\0')
        result->scheduler_error = w->error;
}

/* In less than a second one tick of the kernel's clock, of 10 ms, is too large a share. */
static double share_stolen(const struct resource_ticks *ticks, uint64_t elapsed_ns)
{
    if (ticks->all == 0 || elapsed_ns < NS_PER_S)
        return -1;
    return (double)ticks->stolen / (double)ticks->all;
}

static double share_throttled(uint64_t throttled_ns, uint64_t elapsed_ns, uint32_t threads)
{
    if (throttled_ns == UINT64_MAX || elapsed_ns == 0)
        return -1;
    double share = (double)throttled_ns / ((double)elapsed_ns * threads);
    return share < 1 ? share : 1; /* a store's threads are held up as well */
}

static_assert(JOURNAL_NOT_KNOWN == COUNT_NOT_KNOWN, "what count_since() takes for not known");

static struct journal_io io_of_timed_part(const struct campaign *c)
{
    const struct journal_io *before = &c->io_before;
    const struct journal_io *after = &c->io_after;
    return (struct journal_io){
        .commits = count_since(before->commits, after->commits),
        .commit_ns = count_since(before->commit_ns, after->commit_ns),
        .checkpoints = count_since(before->checkpoints, after->checkpoints),
        .checkpoint_ns = count_since(before->checkpoint_ns, after->checkpoint_ns),
        .wal_bytes = count_since(before->wal_bytes, after->wal_bytes),
        .db_bytes = count_since(before->db_bytes, after->db_bytes),
        .syncs = count_since(before->syncs, after->syncs),
        .store_bytes = after->store_bytes,
        .is_servers = after->is_servers,
    };
}

/* Where the campaign was for a time, nobody knows how many runs it was to have. */
static uint64_t runs_not_begun(const struct campaign *c)
{
    uint64_t begun = c->recovery.runs_begun;
    bool is_resumed = c->config->mode == JOURNAL_RESUME;
    if (c->config->warmup_ns > 0)
        return 0; /* nor where there was a warm-up */
    return is_resumed && c->config->runs > begun ? c->config->runs - begun : 0;
}

/* Whether the store holds what it has acked, neither less nor more; of what it has not answered,
 * anything. */
static int hold_against_acks(const struct campaign_result *result, uint64_t ends,
                             uint64_t ends_before, uint64_t ended, struct errmsg *why)
{
    if (result->records < result->records_before || ends < ends_before)
        return errmsg_set(why, -EIO,
                          "the journal held %" PRIu64 " records and the end of %" PRIu64
                          " runs before, and holds %" PRIu64 " and %" PRIu64,
                          result->records_before, ends_before, result->records, ends);
    uint64_t records = result->records - result->records_before;
    ends -= ends_before;
    if (records < result->records_acked ||
        records - result->records_acked > result->records_unknown)
        return errmsg_set(why, -EIO,
                          "the journal acked %" PRIu64 " records, left %" PRIu64
                          " unanswered, and holds %" PRIu64,
                          result->records_acked, result->records_unknown, records);
    if (ends < ended || ends - ended > result->records_unknown)
        return errmsg_set(why, -EIO,
                          "%" PRIu64 " runs ended and the journal holds the end of %" PRIu64, ended,
                          ends);
    return 0;
}

/* What a warm-up has taken of the time, the rest being what is measured: from its end, which it may
 * not have come to, until ended_ns. */
static void split_time(struct campaign *c, struct campaign_result *result, uint64_t begun_ns,
                       uint64_t ended_ns)
{
    uint64_t start_ns = atomic_load(&c->start_ns);
    uint64_t from_ns = atomic_load(&c->load.measured_from_ns);
    uint64_t until_ns = atomic_load(&c->load.until_ns);
    uint64_t all_ended_ns = c->stopped_ns > ended_ns ? c->stopped_ns : ended_ns;
    for (uint32_t i = 0; i < c->worker_count; i++)
        if (start_ns + c->workers[i].warmup.elapsed_ns > all_ended_ns)
            all_ended_ns = start_ns + c->workers[i].warmup.elapsed_ns;
    if (!c->load.has_warmup)
        from_ns = start_ns;
    result->warmup.is_over = from_ns <= all_ended_ns;
    if (from_ns > all_ended_ns)
        from_ns = all_ended_ns;
    result->warmup.elapsed_ns = from_ns - start_ns;
    result->elapsed_ns = ended_ns > from_ns ? ended_ns - from_ns : 0;
    result->begun_ns = begun_ns > from_ns ? begun_ns - from_ns : 0;
    result->runs_due = campaign_count_due(c, all_ended_ns);
    result->runs_due -= c->runs_due_warmup;
    result->warmup.runs_due = c->runs_due_warmup;
    bool is_timed = c->config->duration_ns > 0 && c->stopped_ns == 0;
    uint64_t issued_ns = is_timed ? until_ns : start_ns + c->issuing_ns;
    result->issuing_ns = issued_ns > from_ns ? issued_ns - from_ns : 0;
    /* n arrivals have n - 1 gaps between them: until the next would have come. */
    if (!is_timed && result->runs_due > 1)
        result->issuing_ns += result->issuing_ns / (result->runs_due - 1);
    /* Those that still waited for a slot when it was stopped. */
    if (result->runs_due > result->runs_started && result->peak_tasks >= c->config->concurrency)
        result->runs_queued += result->runs_due - result->runs_started;
}

int campaign_finish(struct campaign *c, struct campaign_result *result, struct errmsg *why)
{
    campaign_join(c);
    uint64_t start_ns = atomic_load(&c->start_ns);
    uint64_t ended_ns = start_ns;
    const char *fallback = c->workers[0].sched.loop.fallback.text;
    *result = (struct campaign_result){
        .peak_tasks = atomic_load(&c->load.in_flight_peak),
        .heap_delta_bytes = c->heap_delta_bytes,
        .cpu_ns = c->cpu_ns,
        .counts = c->counts,
        .peak_rss_bytes = resource_peak_rss_bytes(),
        .threads = c->worker_count,
        .loop_name = c->workers[0].sched.loop.ops->name,
        .loop_fallback = fallback[0] != '\0' ? fallback : NULL,
        .journal_name = journal_name(c->journal),
        .settings = &c->settings,
        .started_unix_ns = c->started_unix_ns,
        .shards = journal_shards(c->journal),
        .connections = journal_connections(c->journal),
        .durability = journal_durability(c->journal),
        .records_before = c->before.records,
        .bytes_before = c->before.bytes,
        .io = io_of_timed_part(c),
        .campaign = journal_campaign(c->journal)->id,
        .is_resumed = c->config->mode == JOURNAL_RESUME,
        .is_open_loop = c->load.plan != NULL,
        .runs_not_begun = runs_not_begun(c),
    };
    uint64_t ends = 0;
    uint64_t begun_ns = start_ns;
    uint64_t resuming_ns = 0;
    const struct thread *failed = NULL;
    for (uint32_t i = 0; i < c->worker_count; i++) {
        const struct worker *w = &c->workers[i];
        merge_worker(result, w);
        ends += w->readback.ends;
        ended_ns = w->ended_ns > ended_ns ? w->ended_ns : ended_ns;
        begun_ns = w->begun_ns > begun_ns ? w->begun_ns : begun_ns;
        resuming_ns = w->resuming_ns > resuming_ns ? w->resuming_ns : resuming_ns;
        if (failed == NULL && c->threads[i].error != 0)
            failed = &c->threads[i];
    }
    worker_merge_hists(c->workers, c->worker_count, result);
    if (result->io.commits == JOURNAL_NOT_KNOWN)
        result->io.commits = result->batches;
    (void)journal_has_failed(c->journal, &result->journal_error);
    result->is_total_alloc_known = result->total_alloc_bytes > 0;
    split_time(c, result, begun_ns, ended_ns);
    /* These two are of the warm-up, too. */
    uint64_t whole_ns = result->warmup.elapsed_ns + result->elapsed_ns;
    result->stolen = share_stolen(&c->ticks, whole_ns);
    result->throttled = share_throttled(c->throttled_ns, whole_ns, c->worker_count);
    result->recovery_ns = c->recovery_ns + resuming_ns;
    uint64_t ended = 0;
    for (unsigned i = 0; i < OUTCOME_COUNT; i++)
        ended += outcome_is_recorded((enum outcome)i)
                     ? result->runs_by_outcome[i] + result->warmup.runs_by_outcome[i]
                     : 0;
    if (failed != NULL)
        return errmsg_set(why, -EIO, "the journal cannot be read back: %s", failed->why.text);
    return hold_against_acks(result, ends, c->before.ends, ended, why);
}
