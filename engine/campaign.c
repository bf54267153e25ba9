/*
 * campaign: see campaign.h. The workers open side by side and wait at a gate, so that the timed
 * part holds runs only.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/campaign_parts.h"
#include "engine/loop.h"
#include "engine/memory_plan.h"
#include "engine/shape.h"

enum { STACK_BYTES = 1 << 20 }; /* nothing recurses; what sanitizers add fits as well */

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
        c->started_unix_ns = clock_realtime_ns();
        uint64_t issuing_ns = campaign_issuing_ns(c->config);
        if (issuing_ns > 0 && !c->config->is_steady)
            c->load.until_ns = now_ns + issuing_ns;
        if (c->load.has_warmup && !c->config->is_steady)
            c->load.measured_from_ns = now_ns + c->config->warmup_ns;
        atomic_store(&c->start_ns, now_ns);
    }
    while (atomic_load(&c->start_ns) == 0)
        (void)sched_yield(); /* for microseconds; it cannot fail */
    return atomic_load(&c->start_ns);
}

/* The difference of what is read before and after the timed part. */
static void read_interference(struct campaign *c)
{
    const struct resource_ticks now = resource_ticks("/proc/stat");
    uint64_t throttled_ns =
        resource_cgroup_throttled_ns("/proc/self/mountinfo", "/proc/self/cgroup");
    bool is_less = now.all < c->ticks.all || now.stolen < c->ticks.stolen;
    c->ticks.all = is_less ? 0 : now.all - c->ticks.all;
    c->ticks.stolen = is_less ? 0 : now.stolen - c->ticks.stolen;
    bool is_known = throttled_ns != UINT64_MAX && throttled_ns >= c->throttled_ns;
    c->throttled_ns = is_known ? throttled_ns - c->throttled_ns : UINT64_MAX;
}

static void read_counts(struct campaign *c)
{
    struct counts now = counters_read(&c->counters);
    c->counts = counts_since(&c->counts, &now);
}

/* The last worker to end closes the timed part: nobody reads back before. */
static void wait_for_all(struct campaign *c)
{
    lock(c);
    if (atomic_fetch_add(&c->done, 1) + 1 == c->worker_count) {
        uint64_t before_ns = atomic_load(&c->load.cpu_before_ns); /* after a warm-up */
        c->cpu_ns = resource_cpu_ns() - (before_ns != 0 ? before_ns : c->cpu_ns);
        journal_io(c->journal, &c->io_after);
        read_counts(c);
        c->heap_delta_bytes = (int64_t)resource_heap_bytes() - (int64_t)c->heap_bytes;
        read_interference(c);
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
        thread->error = worker_read_back(thread->worker, &thread->why);
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

void campaign_join(struct campaign *c)
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

/* Before the campaign is begun, so that one that was cut off at any time has its ledger: a resumed
 * campaign must not get another one, which would split its effects in silence. */
static int open_ledger(struct campaign *c, struct errmsg *why)
{
    /* Not blocking: a pipe that nobody reads must hold up neither the start nor a scheduler. */
    const int flags = O_WRONLY | O_APPEND | O_CLOEXEC | O_NONBLOCK;
    const char *path = c->config->ledger_path;
    if (c->config->tool_effect != TOOL_EFFECT_LEDGER)
        return 0;
    c->ledger_fd = open(path, flags);
    if (c->ledger_fd < 0 && errno == ENOENT && c->config->mode == JOURNAL_RESUME)
        return errmsg_set(why, -ENOENT, "the ledger of a resumed campaign must be there");
    if (c->ledger_fd < 0 && errno == ENOENT) {
        c->ledger_fd = open(path, flags | O_CREAT | O_EXCL, 0644);
        c->is_ledger_made = c->ledger_fd >= 0;
    }
    if (c->ledger_fd < 0)
        return errmsg_set(why, -errno, "cannot open the ledger: %s", strerrordesc_np(errno));
    return 0;
}

static void set_up_workers(struct campaign *c)
{
    const struct campaign_config *config = c->config;
    uint64_t slots_max = memory_plan_runs_of_worker(config); /* memory is shared out evenly too */
    uint64_t warm_bytes = memory_plan_warm(config);
    uint64_t pool_bytes_max = memory_plan_pools_max(config) / c->worker_count;
    for (uint32_t i = 0; i < c->worker_count; i++) {
        struct worker *w = &c->workers[i];
        uint64_t slots =
            config->concurrency / c->worker_count + (i < config->concurrency % c->worker_count);
        w->config = config;
        w->journal = c->journal;
        w->load = &c->load;
        w->recovery = config->mode == JOURNAL_RESUME ? &c->recovery : NULL;
        w->waiter = c->waiter;
        w->index = i;
        w->count = c->worker_count;
        w->slots = (uint32_t)(slots < slots_max ? slots : slots_max);
        w->warm_bytes = warm_bytes;
        w->pool_bytes_max = pool_bytes_max;
        w->shape = (struct run_shape){
            .seed = config->seed,
            .timeout_ns = config->timeout_ns,
            .tool_latency = config->tool_latency,
            .prompt_bytes = campaign_dist_if_given(&config->prompt_bytes),
            .turns = config->turns,
            .tools = config->tools,
            .tool_effect = config->tool_effect,
            .tool_retry = config->tool_retry,
            .history = config->history,
            .exchange = config->model.rules,
            .ledger_fd = c->ledger_fd,
        };
    }
}

static void set_up_load(struct campaign *c)
{
    const struct campaign_config *config = c->config;
    struct load *load = &c->load;
    load_init(load, config->runs > 0 ? config->runs : UINT64_MAX, UINT64_MAX);
    load->plan = campaign_is_open_loop(config) ? &config->arrival : NULL;
    load->has_warmup = campaign_has_warmup(config);
    if (!load->has_warmup)
        return;
    load->measured_from_ns = UINT64_MAX;
    if (load->plan == NULL || config->runs == 0)
        return;
    /* The arrivals of the warm-up have numbers, too. */
    load->runs =
        config->is_steady ? UINT64_MAX : config->runs + load_count_before(load, config->warmup_ns);
}

static struct campaign *new_campaign(const struct campaign_config *config, struct loop *waiter)
{
    struct campaign *c =
        aligned_alloc(64, (sizeof(*c) + 63) / 64 * 64); /* for load's cache lines */
    if (c == NULL)
        return NULL;
    *c = (struct campaign){.config = config, .waiter = waiter, .ledger_fd = -1};
    set_up_load(c);
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
    counters_open(&c->counters); /* before there are threads, the store's included */
    return c;
}

static void free_campaign(struct campaign *c)
{
    if (c->ledger_fd >= 0)
        (void)close(c->ledger_fd); /* each line was one write, whose result was looked at */
    if (c->is_ledger_made && !c->is_started)
        (void)unlink(c->config->ledger_path); /* nobody has written to it */
    recovery_close(&c->recovery);
    counters_close(&c->counters);
    (void)pthread_cond_destroy(&c->moved);
    (void)pthread_mutex_destroy(&c->mutex);
    free(c->threads);
    free(c->workers);
    free(c);
}

struct journal_config campaign_journal_config(const struct campaign_config *config)
{
    return (struct journal_config){
        .uri = config->journal_uri,
        .mode = config->mode,
        .durability = config->durability,
        .campaign = config->campaign,
        .key = config->run_key,
        .writers = 1,
        .shards = config->shards,
        .connections = config->connections,
        .retry_for_ns = config->retry_for_ns,
        .must_stop = config->must_stop,
        .bytes_max = 1,
    };
}

/* What is there of a campaign that is to be resumed. */
static int recover(struct campaign *c, struct errmsg *why)
{
    uint64_t start_ns = clock_monotonic_ns();
    int error = 0;
    for (unsigned part = 0; part < journal_parts(c->journal) && error == 0; part++)
        error = journal_count(c->journal, part, &c->before, why);
    if (error == 0)
        error = recovery_open(&c->recovery, c->journal, c->worker_count,
                              memory_plan_runs_in_flight(c->config), why);
    c->recovery_ns = clock_monotonic_ns() - start_ns;
    return error;
}

int campaign_open(struct campaign **campaign, const struct campaign_config *config,
                  struct loop *waiter, struct errmsg *why)
{
    struct campaign *c = new_campaign(config, waiter);
    if (c == NULL)
        return errmsg_set(why, -ENOMEM, "no memory for a campaign");
    struct journal_config journal = campaign_journal_config(config);
    char description[SHAPE_BYTES_MAX];
    shape_write(config, description);
    journal.description = description;
    journal.writers = c->worker_count;
    journal.bytes_max = memory_plan_journal_max(config);
    int error = open_ledger(c, why);
    if (error == 0)
        error = journal_open(&c->journal, &journal, why);
    if (error != 0)
        goto fail;
    if (config->mode == JOURNAL_RESUME)
        error = recover(c, why);
    if (error != 0)
        goto fail_journal;
    set_up_workers(c);
    error = start_threads(c, why);
    if (error != 0)
        goto fail_threads;
    *campaign = c;
    return 0;

fail_threads:
    open_gate(c, true);
    campaign_join(c);
fail_journal:
    journal_discard(c->journal);
fail:
    free_campaign(c);
    return error;
}

void campaign_start(struct campaign *c)
{
    journal_io(c->journal, &c->io_before);
    journal_describe(c->journal, &c->settings);
    read_interference(c); /* since the machine started */
    c->heap_bytes = resource_heap_bytes();
    c->counts = counters_read(&c->counters);
    c->cpu_ns = resource_cpu_ns();
    c->is_started = true;
    open_gate(c, false);
}

uint64_t campaign_count_due(struct campaign *c, uint64_t now_ns)
{
    uint64_t start_ns = atomic_load(&c->start_ns);
    uint64_t until_ns = c->stopped_ns != 0 && c->stopped_ns < now_ns ? c->stopped_ns : now_ns;
    uint64_t from_ns = atomic_load(&c->load.measured_from_ns);
    if (c->load.plan == NULL || start_ns == 0)
        return 0;
    if (c->due.load == NULL)
        load_share_init(&c->due, &c->load, 0, 1, start_ns);
    for (; c->due.due_ns <= until_ns && c->due.due_ns != UINT64_MAX; c->runs_due++) {
        c->issuing_ns = c->due.due_ns - start_ns;
        c->runs_due_warmup += c->due.due_ns < from_ns;
        load_share_pass(&c->due);
    }
    return c->runs_due;
}

struct campaign_progress campaign_progress(struct campaign *c)
{
    uint64_t start_ns = atomic_load(&c->start_ns);
    uint64_t now_ns = clock_monotonic_ns();
    struct campaign_progress sum = {
        .elapsed_ns = start_ns != 0 ? now_ns - start_ns : 0,
        .runs_due = campaign_count_due(c, now_ns),
    };
    uint64_t from_ns = atomic_load(&c->load.measured_from_ns);
    sum.is_warming = now_ns < from_ns;
    sum.measured_ns = start_ns == 0 || sum.is_warming ? 0
                      : c->load.has_warmup            ? now_ns - from_ns
                                                      : sum.elapsed_ns;
    for (uint32_t i = 0; i < c->worker_count; i++) {
        const struct worker_progress *p = &c->workers[i].progress;
        sum.warmup_ended += atomic_load_explicit(&p->warmup_ended, memory_order_acquire);
        sum.warmup_started += atomic_load_explicit(&p->warmup_started, memory_order_relaxed);
        /* In this order, or more would seem to have ended than started. */
        sum.runs_ended += atomic_load_explicit(&p->runs_ended, memory_order_acquire);
        sum.runs_started += atomic_load_explicit(&p->runs_started, memory_order_relaxed);
        sum.errors += atomic_load_explicit(&p->errors, memory_order_relaxed);
        sum.records += atomic_load_explicit(&p->records, memory_order_relaxed);
    }
    return sum;
}

void campaign_look(struct campaign *c)
{
    c->looks++;
    for (uint32_t i = 0; i < c->worker_count; i++) {
        struct worker *w = &c->workers[i];
        if (snapshot_answered(&w->snapshot) == SNAPSHOT_AT_REST)
            continue;
        snapshot_ask(&w->snapshot, c->looks);
        loop_wake(&w->sched.loop);
    }
}

bool campaign_seen(const struct campaign *c, struct campaign_view *view)
{
    for (uint32_t i = 0; i < c->worker_count; i++)
        if (snapshot_answered(&c->workers[i].snapshot) < c->looks)
            return false;
    view->failed = 0;
    for (unsigned h = 0; h < WATCH_COUNT; h++)
        if (view->hists[h] != NULL)
            hist_init(view->hists[h]);
    for (uint32_t i = 0; i < c->worker_count; i++) {
        const struct worker *w = &c->workers[i];
        bool is_at_rest = snapshot_answered(&w->snapshot) == SNAPSHOT_AT_REST;
        const struct hist *at_rest[WATCH_COUNT];
        worker_list_hists(w, at_rest);
        view->failed += is_at_rest ? w->failed->count : w->snapshot.failed;
        for (unsigned h = 0; h < WATCH_COUNT; h++)
            if (view->hists[h] != NULL && w->snapshot.hists[h] != NULL)
                hist_merge(view->hists[h], is_at_rest ? at_rest[h] : w->snapshot.hists[h]);
    }
    return true;
}

void campaign_measure(struct campaign *c)
{
    uint64_t now_ns = clock_monotonic_ns();
    uint64_t from_ns = now_ns + CAMPAIGN_LEAD_NS;
    if (!c->load.has_warmup || atomic_load(&c->load.measured_from_ns) != UINT64_MAX)
        return;
    uint64_t due = campaign_count_due(c, now_ns);
    for (struct load_share ahead = c->due; c->load.plan != NULL && ahead.due_ns < from_ns; due++)
        load_share_pass(&ahead);
    if (c->load.plan != NULL && c->config->runs > 0)
        atomic_store(&c->load.runs, due + c->config->runs);
    if (c->config->duration_ns > 0)
        atomic_store(&c->load.until_ns, from_ns + c->config->duration_ns);
    atomic_store(&c->load.measured_from_ns, from_ns);
    for (uint32_t i = 0; i < c->worker_count; i++)
        loop_wake(&c->workers[i].sched.loop);
}

/* Those that wait for an arrival are told. */
void campaign_stop(struct campaign *c)
{
    if (c->stopped_ns == 0)
        c->stopped_ns = clock_monotonic_ns();
    load_stop(&c->load);
    for (uint32_t i = 0; i < c->worker_count; i++)
        loop_wake(&c->workers[i].sched.loop);
}

void campaign_abandon(struct campaign *c)
{
    for (uint32_t i = 0; i < c->worker_count; i++)
        atomic_store(&c->workers[i].must_abandon, true);
    campaign_stop(c);
}

bool campaign_is_done(const struct campaign *c)
{
    return atomic_load(&c->done) == c->worker_count;
}

void campaign_close(struct campaign *c)
{
    if (!c->is_started)
        open_gate(c, true); /* to nothing: the threads close what they have opened */
    else if (!c->is_joined)
        campaign_abandon(c);
    campaign_join(c);
    for (uint32_t i = 0; c->is_started && i < c->worker_count; i++)
        worker_close(&c->workers[i]);
    if (c->is_started)
        journal_close(c->journal);
    else
        journal_discard(c->journal);
    free_campaign(c);
}
