/*
 * campaign: see campaign.h. The workers open side by side and wait at a gate, so that the timed
 * part holds runs only.
 */
#include "engine/campaign.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/resource.h"
#include "engine/loop.h"
#include "engine/memory_plan.h"
#include "engine/worker.h"

enum { STACK_BYTES = 1 << 20 }; /* nothing recurses; what sanitizers add fits as well */

struct thread {
    pthread_t id;
    struct campaign *campaign;
    struct worker *worker;
    int error;
    struct errmsg why;
};

struct campaign {
    const struct campaign_config *config;
    struct loop *waiter;
    struct journal *journal;
    struct load load;
    struct worker *workers;
    struct thread *threads;
    uint32_t worker_count;
    uint32_t threads_started;
    bool is_started;
    bool is_joined;
    int ledger_fd;

    pthread_mutex_t mutex; /* guards the gate */
    pthread_cond_t moved;
    uint32_t opened; /* workers that have opened, or failed to */
    bool is_gate_open;
    bool is_cancelled; /* the gate opens to nothing */

    _Atomic uint32_t done;
    _Atomic uint32_t at_start;
    _Atomic uint64_t start_ns; /* 0 until all workers are at the start */
    uint64_t heap_bytes;
    int64_t heap_delta_bytes;
    uint64_t cpu_ns;
};

uint64_t campaign_memory_estimate_bytes(const struct campaign_config *config)
{
    struct memory_plan plan = memory_plan_make(config);
    return memory_plan_total(&plan);
}

/* --- the threads --- */

static void lock(struct campaign *c)
{
    int error = pthread_mutex_lock(&c->mutex);
    assert(error == 0);
    (void)error;
}

static void unlock(struct campaign *c)
{
    int error = pthread_mutex_unlock(&c->mutex);
    assert(error == 0);
    (void)error;
}

/* True when there are runs to drive. */
static bool wait_at_gate(struct campaign *c)
{
    lock(c);
    c->opened++;
    (void)pthread_cond_broadcast(&c->moved);
    while (!c->is_gate_open)
        (void)pthread_cond_wait(&c->moved, &c->mutex);
    bool is_go = !c->is_cancelled;
    unlock(c);
    return is_go;
}

/* Threads wake one after the other; the first could end a short campaign before the last has begun.
 * So all come to the start, and the last to come starts the clock. */
static uint64_t start_together(struct campaign *c)
{
    if (atomic_fetch_add(&c->at_start, 1) + 1 == c->worker_count) {
        uint64_t now_ns = clock_monotonic_ns();
        if (c->config->duration_ns > 0)
            c->load.until_ns = now_ns + c->config->duration_ns;
        atomic_store(&c->start_ns, now_ns);
    }
    while (atomic_load(&c->start_ns) == 0)
        (void)sched_yield(); /* for microseconds; it cannot fail */
    return atomic_load(&c->start_ns);
}

/* The last worker to end closes the timed part: nobody reads back before. */
static void wait_for_all(struct campaign *c)
{
    lock(c);
    if (atomic_fetch_add(&c->done, 1) + 1 == c->worker_count) {
        c->cpu_ns = resource_cpu_ns() - c->cpu_ns;
        c->heap_delta_bytes = (int64_t)resource_heap_bytes() - (int64_t)c->heap_bytes;
        loop_wake(c->waiter);
        (void)pthread_cond_broadcast(&c->moved);
    }
    while (atomic_load(&c->done) < c->worker_count)
        (void)pthread_cond_wait(&c->moved, &c->mutex);
    unlock(c);
}

static void *thread_main(void *arg)
{
    struct thread *thread = arg;
    struct campaign *c = thread->campaign;
    thread->error = worker_open(thread->worker, &thread->why);
    bool is_open = thread->error == 0;
    resource_flush_thread_cache();
    if (wait_at_gate(c)) {
        worker_run(thread->worker, start_together(c));
        resource_flush_thread_cache();
        wait_for_all(c);
        thread->error = worker_read_back(thread->worker);
    } else if (is_open) {
        worker_close(thread->worker);
    }
    return NULL;
}

static void open_gate(struct campaign *c, bool is_cancelled)
{
    lock(c);
    c->is_cancelled = is_cancelled;
    c->is_gate_open = true;
    (void)pthread_cond_broadcast(&c->moved);
    unlock(c);
}

static void join_threads(struct campaign *c)
{
    for (uint32_t i = 0; i < c->threads_started && !c->is_joined; i++)
        (void)pthread_join(c->threads[i].id, NULL); /* started by us, and joined once */
    c->is_joined = true;
}

/* Workers take no signals: those are the controlling thread's. */
static int start_threads(struct campaign *c, struct errmsg *why)
{
    sigset_t all;
    sigset_t old;
    pthread_attr_t attributes;
    int error = pthread_attr_init(&attributes);
    if (error != 0)
        return errmsg_set(why, -error, "no memory for threads");
    error = pthread_attr_setstacksize(&attributes, STACK_BYTES);
    assert(error == 0); /* a whole number of pages, and above the least */
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &old);
    for (uint32_t i = 0; i < c->worker_count && error == 0; i++) {
        c->threads[i] = (struct thread){.campaign = c, .worker = &c->workers[i]};
        error = pthread_create(&c->threads[i].id, &attributes, thread_main, &c->threads[i]);
        c->threads_started += error == 0;
    }
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    (void)pthread_attr_destroy(&attributes);
    if (error != 0)
        return errmsg_set(why, -error, "cannot start thread %u: %s", c->threads_started + 1,
                          strerrordesc_np(error));
    lock(c);
    while (c->opened < c->worker_count)
        (void)pthread_cond_wait(&c->moved, &c->mutex);
    unlock(c);
    for (uint32_t i = 0; i < c->worker_count; i++) {
        if (c->threads[i].error != 0) {
            *why = c->threads[i].why;
            return c->threads[i].error;
        }
    }
    return 0;
}

/* --- life --- */

static int open_ledger(struct campaign *c, struct errmsg *why)
{
    c->ledger_fd = -1;
    if (c->config->tool_effect != TOOL_EFFECT_LEDGER)
        return 0;
    /* Not blocking: a pipe that nobody reads must hold up neither the start nor a scheduler. */
    c->ledger_fd =
        open(c->config->ledger_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0644);
    if (c->ledger_fd < 0)
        return errmsg_set(why, -errno, "cannot open the ledger: %s", strerrordesc_np(errno));
    for (uint32_t i = 0; i < c->worker_count; i++)
        c->workers[i].shape.ledger_fd = c->ledger_fd; /* seen by the threads through the gate */
    return 0;
}

static void set_up_workers(struct campaign *c)
{
    const struct campaign_config *config = c->config;
    uint64_t in_flight = memory_plan_runs_in_flight(config);
    uint64_t slots_used = (in_flight + c->worker_count - 1) / c->worker_count;
    uint64_t warm_bytes = memory_plan_warm(config);
    uint64_t pool_bytes_max = memory_plan_pools_max(config) / c->worker_count;
    for (uint32_t i = 0; i < c->worker_count; i++) {
        struct worker *w = &c->workers[i];
        uint64_t slots =
            config->concurrency / c->worker_count + (i < config->concurrency % c->worker_count);
        w->config = config;
        w->journal = c->journal;
        w->load = &c->load;
        w->index = i;
        w->slots = (uint32_t)(slots < in_flight ? slots : in_flight);
        w->slots_warm = (uint32_t)(slots_used < w->slots ? slots_used : w->slots);
        w->warm_bytes = warm_bytes;
        w->pool_bytes_max = pool_bytes_max;
        w->shape = (struct run_shape){
            .seed = config->seed,
            .timeout_ns = config->timeout_ns,
            .tool_latency = config->tool_latency,
            .turns = config->turns,
            .tools = config->tools,
            .tool_effect = config->tool_effect,
            .ledger_fd = -1,
        };
    }
}

static struct campaign *new_campaign(const struct campaign_config *config, struct loop *waiter)
{
    struct campaign *c =
        aligned_alloc(64, (sizeof(*c) + 63) / 64 * 64); /* for load's cache lines */
    if (c == NULL)
        return NULL;
    *c = (struct campaign){.config = config, .waiter = waiter, .ledger_fd = -1};
    load_init(&c->load, config->runs > 0 ? config->runs : UINT64_MAX, UINT64_MAX);
    c->worker_count = memory_plan_workers(config);
    c->workers = calloc(c->worker_count, sizeof(c->workers[0]));
    c->threads = calloc(c->worker_count, sizeof(c->threads[0]));
    if (c->workers == NULL || c->threads == NULL) {
        free(c->workers);
        free(c->threads);
        free(c);
        return NULL;
    }
    (void)pthread_mutex_init(&c->mutex, NULL); /* these two cannot fail with default attributes */
    (void)pthread_cond_init(&c->moved, NULL);
    return c;
}

static void free_campaign(struct campaign *c)
{
    if (c->ledger_fd >= 0)
        (void)close(c->ledger_fd); /* each line was one write, whose result was looked at */
    (void)pthread_cond_destroy(&c->moved);
    (void)pthread_mutex_destroy(&c->mutex);
    free(c->threads);
    free(c->workers);
    free(c);
}

int campaign_open(struct campaign **campaign, const struct campaign_config *config,
                  struct loop *waiter, struct errmsg *why)
{
    struct campaign *c = new_campaign(config, waiter);
    if (c == NULL)
        return errmsg_set(why, -ENOMEM, "no memory for a campaign");
    struct journal_config journal = {
        .uri = config->journal_uri,
        .durability = config->durability,
        .writers = c->worker_count,
        .bytes_max = memory_plan_journal_max(config),
    };
    int error = journal_open(&c->journal, &journal, why);
    if (error != 0)
        goto fail;
    set_up_workers(c);
    error = start_threads(c, why);
    /* Last, since it leaves something behind: a campaign that cannot be held must not. */
    if (error == 0)
        error = open_ledger(c, why);
    if (error != 0)
        goto fail_threads;
    *campaign = c;
    return 0;

fail_threads:
    open_gate(c, true);
    join_threads(c);
    journal_close(c->journal);
fail:
    free_campaign(c);
    return error;
}

void campaign_start(struct campaign *c)
{
    c->heap_bytes = resource_heap_bytes();
    c->cpu_ns = resource_cpu_ns();
    c->is_started = true;
    open_gate(c, false);
}

struct campaign_progress campaign_progress(const struct campaign *c)
{
    uint64_t start_ns = atomic_load(&c->start_ns);
    struct campaign_progress sum = {
        .elapsed_ns = start_ns != 0 ? clock_monotonic_ns() - start_ns : 0,
    };
    for (uint32_t i = 0; i < c->worker_count; i++) {
        const struct worker_progress *p = &c->workers[i].progress;
        /* In this order, or more would seem to have ended than started. */
        sum.runs_ended += atomic_load_explicit(&p->runs_ended, memory_order_acquire);
        sum.runs_started += atomic_load_explicit(&p->runs_started, memory_order_relaxed);
        sum.errors += atomic_load_explicit(&p->errors, memory_order_relaxed);
        sum.records += atomic_load_explicit(&p->records, memory_order_relaxed);
    }
    return sum;
}

void campaign_stop(struct campaign *c)
{
    load_stop(&c->load);
}

void campaign_abandon(struct campaign *c)
{
    load_stop(&c->load);
    for (uint32_t i = 0; i < c->worker_count; i++) {
        atomic_store(&c->workers[i].must_abandon, true);
        loop_wake(&c->workers[i].sched.loop);
    }
}

bool campaign_is_done(const struct campaign *c)
{
    return atomic_load(&c->done) == c->worker_count;
}

static void merge_worker(struct campaign_result *result, const struct worker *w)
{
    struct journal_totals totals = journal_writer_totals(w->env.journal);
    for (unsigned i = 0; i < OUTCOME_COUNT; i++)
        result->runs_by_outcome[i] += w->runs_by_outcome[i];
    result->runs_started += atomic_load(&w->progress.runs_started);
    result->runs_abandoned += w->runs_abandoned;
    result->records += w->readback.records;
    result->records_bytes += w->readback.bytes;
    result->records_acked += totals.records;
    result->commits += totals.commits;
    result->model_ns += w->time.model_ns;
    result->journal_ns += w->time.journal_ns;
    result->tool_ns += w->time.tool_ns;
    result->queue_ns += w->queue_ns;
    result->model_calls += w->env.model_calls;
    result->tool_calls += w->env.tool_calls;
    result->total_alloc_bytes += w->allocated_bytes;
    if (result->first_error.text[0] == '\0')
        result->first_error = w->env.first_error;
    result->has_store_failed = result->has_store_failed || w->env.has_store_failed;
    result->is_journal_full = result->is_journal_full || w->env.is_journal_full;
    if (result->scheduler_error.text[0] == '\0')
        result->scheduler_error = w->error;
}

/* The first worker's histograms take in the others'. */
static void merge_hists(struct campaign *c, struct campaign_result *result)
{
    struct worker *first = &c->workers[0];
    for (uint32_t i = 1; i < c->worker_count; i++) {
        const struct worker *w = &c->workers[i];
        hist_merge(first->response, w->response);
        hist_merge(first->service, w->service);
        hist_merge(first->failed, w->failed);
        hist_merge(first->append, w->append);
        hist_merge(first->lag, w->lag);
        hist_merge(first->overshoot, w->overshoot);
    }
    result->response = first->response;
    result->service = first->service;
    result->failed = first->failed;
    result->append = first->append;
    result->lag = first->lag;
    result->overshoot = first->overshoot;
}

int campaign_finish(struct campaign *c, struct campaign_result *result, struct errmsg *why)
{
    join_threads(c);
    uint64_t start_ns = atomic_load(&c->start_ns);
    uint64_t ended_ns = start_ns;
    const char *fallback = c->workers[0].sched.loop.fallback.text;
    *result = (struct campaign_result){
        .peak_tasks = atomic_load(&c->load.in_flight_peak),
        .heap_delta_bytes = c->heap_delta_bytes,
        .cpu_ns = c->cpu_ns,
        .peak_rss_bytes = resource_peak_rss_bytes(),
        .threads = c->worker_count,
        .loop_name = c->workers[0].sched.loop.ops->name,
        .loop_fallback = fallback[0] != '\0' ? fallback : NULL,
        .journal_name = journal_name(c->journal),
        .durability = journal_durability(c->journal),
    };
    uint64_t ends = 0;
    int error = 0;
    for (uint32_t i = 0; i < c->worker_count; i++) {
        const struct worker *w = &c->workers[i];
        merge_worker(result, w);
        ends += w->readback.ends;
        ended_ns = w->ended_ns > ended_ns ? w->ended_ns : ended_ns;
        error = error != 0 ? error : c->threads[i].error;
    }
    merge_hists(c, result);
    result->is_total_alloc_known = result->total_alloc_bytes > 0;
    result->elapsed_ns = ended_ns - start_ns;
    uint64_t ended = result->runs_by_outcome[OUTCOME_COMPLETED] +
                     result->runs_by_outcome[OUTCOME_FAILED] +
                     result->runs_by_outcome[OUTCOME_TIMEOUT]; /* the others have no record of it */
    if (error != 0)
        return errmsg_set(why, -EIO, "the journal cannot be read back: %s",
                          strerrordesc_np(-error));
    if (result->records != result->records_acked)
        return errmsg_set(why, -EIO, "the journal acked %" PRIu64 " records and holds %" PRIu64,
                          result->records_acked, result->records);
    if (ends != ended)
        return errmsg_set(why, -EIO,
                          "%" PRIu64 " runs ended and the journal holds the end of %" PRIu64, ended,
                          ends);
    return 0;
}

void campaign_close(struct campaign *c)
{
    if (!c->is_started)
        open_gate(c, true); /* to nothing: the threads close what they have opened */
    else if (!c->is_joined)
        campaign_abandon(c);
    join_threads(c);
    for (uint32_t i = 0; c->is_started && i < c->worker_count; i++)
        worker_close(&c->workers[i]);
    journal_close(c->journal);
    free_campaign(c);
}
