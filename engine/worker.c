/*
 * worker: see worker.h.
 */
#include "engine/worker.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/chunk.h"
#include "engine/base/resource.h"

/* With -timeout, a timer a slot. They stand apart from the runs, so that they cost nothing without.
 */
struct slot_deadline {
    struct timer timer;
    struct run *run;
};
static_assert(sizeof(struct slot_deadline) == 40, "what memory_plan.c counts for it");

static struct worker *worker_of(struct run_env *env)
{
    return container_of(env, struct worker, env);
}

static inline void count(_Atomic uint64_t *counter)
{
    /* One writer: no need for an atomic add. Released, so that who sees a run ended sees it
     * started.
     */
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + 1,
                          memory_order_release);
}

/* --- slots: from one run to the next --- */

static void on_deadline(struct timer *timer, uint64_t now_ns)
{
    struct slot_deadline *deadline = container_of(timer, struct slot_deadline, timer);
    run_time_out(deadline->run, now_ns);
}

static void start_deadline(struct worker *w, struct run *run, uint64_t deadline_ns)
{
    struct slot_deadline *deadline = &w->deadlines[run - w->runs];
    deadline->run = run;
    timer_init(&deadline->timer, on_deadline);
    loop_timer_start(&w->sched.loop, &deadline->timer, deadline_ns);
}

/* False when no more runs are to start. */
static bool start_next(struct worker *w, struct run *run, uint64_t intended_ns, uint64_t now_ns)
{
    uint64_t number = 0;
    if (w->is_abandoning || !load_claim(w->load, now_ns, &number))
        return false;
    count(&w->progress.runs_started);
    if (w->deadlines != NULL)
        start_deadline(w, run, now_ns + w->shape.timeout_ns);
    run_start(run, &w->env, number, intended_ns, now_ns);
    return true;
}

static void step_slot(struct task *task, uint64_t now_ns)
{
    struct run *run = container_of(task, struct run, task);
    struct worker *w = worker_of(run->env);
    if (start_next(w, run, run->intended_ns, now_ns))
        return;
    w->slots_busy--;
    load_slot_emptied(w->load);
}

static const struct task_kind slot_kind = {.name = "run", .step = step_slot};

/* A million slots are not filled in one go: those filled first would wait for the last. */
static void step_filler(struct task *task, uint64_t now_ns)
{
    struct worker *w = container_of(task, struct worker, filler);
    for (unsigned i = 0; i < SCHED_TURN_MAX && w->slots_filled < w->slots; i++) {
        struct run *run = &w->runs[w->slots_filled];
        run->task.kind = &slot_kind;
        if (!start_next(w, run, w->start_ns, now_ns)) {
            w->slots = w->slots_filled; /* fewer runs than slots */
            return;
        }
        w->slots_filled++;
        w->slots_busy++;
        load_slot_filled(w->load);
    }
    if (w->slots_filled < w->slots)
        sched_ready(&w->sched, &w->filler);
}

static const struct task_kind filler_kind = {.name = "filler", .step = step_filler};

static void on_run_ended(struct run_env *env, struct run *run, uint64_t now_ns)
{
    struct worker *w = worker_of(env);
    enum outcome outcome = run->agent.outcome;
    uint64_t response_ns = now_ns - run->intended_ns;
    w->ended_ns = now_ns;
    w->runs_by_outcome[outcome]++;
    if (outcome == OUTCOME_COMPLETED) {
        hist_record(w->response, response_ns);
        hist_record(w->service, now_ns - run->started_ns);
        w->time.model_ns += run->time.model_ns;
        w->time.journal_ns += run->time.journal_ns;
        w->time.tool_ns += run->time.tool_ns;
        w->queue_ns += response_ns - run->time.model_ns - run->time.journal_ns - run->time.tool_ns;
    } else {
        hist_record(w->failed, response_ns);
        count(&w->progress.errors);
    }
    if (env->has_store_failed)
        load_stop(w->load); /* a store that refuses records is not worth more runs */
    count(&w->progress.runs_ended);
    atomic_store_explicit(&w->progress.records, journal_writer_totals(env->journal).records,
                          memory_order_relaxed);
    if (w->deadlines != NULL)
        loop_timer_stop(&w->sched.loop, &w->deadlines[run - w->runs].timer);
    run->intended_ns = now_ns; /* the slot has come free */
    sched_ready(&w->sched, &run->task);
}

/* --- the scheduler's questions --- */

static bool settle(struct sched *sched)
{
    struct worker *w = sched->owner;
    journal_flush(w->env.journal);
    return journal_deliver(w->env.journal) > 0;
}

/* Lets go of all runs that no append keeps. The journal answers those, which then wait for
 * something else, and go the next time. True when none is left. */
static bool abandon(struct worker *w)
{
    bool is_one_left = false;
    w->is_abandoning = true;
    for (uint32_t i = 0; i < w->slots_filled; i++) {
        struct run *run = &w->runs[i];
        if (run->agent.state == AGENT_ENDED)
            continue;
        if (run->agent.is_recording) {
            is_one_left = true;
            continue;
        }
        if (w->deadlines != NULL)
            loop_timer_stop(&w->sched.loop, &w->deadlines[i].timer);
        run_abandon(run);
        run->agent.state = AGENT_ENDED;
        w->runs_abandoned++;
    }
    return !is_one_left;
}

static bool is_over(struct sched *sched)
{
    struct worker *w = sched->owner;
    if (w->slots_busy == 0 && w->slots_filled == w->slots)
        return true;
    if (!atomic_load_explicit(&w->must_abandon, memory_order_relaxed))
        return false;
    return abandon(w) && !journal_is_busy(w->env.journal);
}

/* Without its loop a worker can do nothing more for its runs, and the campaign no more of use. */
static void give_up(struct worker *w)
{
    load_stop(w->load);
    (void)abandon(w);
    for (uint32_t i = 0; i < w->slots_filled; i++)
        w->runs_abandoned += w->runs[i].agent.state != AGENT_ENDED; /* the journal has a record */
}

void worker_run(struct worker *w, uint64_t start_ns)
{
    uint64_t allocated = resource_thread_allocated_bytes();
    w->start_ns = start_ns;
    w->filler.kind = &filler_kind;
    sched_ready(&w->sched, &w->filler);
    int error = sched_run(&w->sched);
    if (error != 0) {
        (void)errmsg_set(&w->error, error, "the event loop failed: %s", strerrordesc_np(-error));
        give_up(w);
    }
    if (w->runs_abandoned > 0)
        w->ended_ns = loop_clock_ns(&w->sched.loop);
    w->allocated_bytes = resource_thread_allocated_bytes() - allocated;
}

/* --- life --- */

static int count_record(void *arg, const struct journal_record *record)
{
    struct worker_readback *readback = arg;
    readback->records++;
    readback->bytes += record->bytes;
    readback->ends += record->kind == RECORD_END;
    return 0;
}

int worker_read_back(struct worker *w)
{
    return journal_scan(w->env.journal, count_record, &w->readback);
}

/* One block, so that the pages of all are there before the first value is recorded. */
static bool open_hists(struct worker *w)
{
    struct hist **const hists[] = {&w->response, &w->service, &w->failed,
                                   &w->append,   &w->lag,     &w->overshoot};
    size_t count = sizeof(hists) / sizeof(hists[0]);
    w->hists = chunk_alloc(count * sizeof(struct hist));
    for (size_t i = 0; w->hists != NULL && i < count; i++) {
        *hists[i] = &w->hists[i];
        hist_init(&w->hists[i]);
    }
    return w->hists != NULL;
}

static void close_memory(struct worker *w)
{
    run_env_close(&w->env);
    free(w->deadlines);
    chunk_free(w->runs);
    chunk_free(w->hists);
}

static int open_memory(struct worker *w)
{
    chunk_warm(w->warm_bytes);
    int error = run_env_open(&w->env, w->pool_bytes_max);
    w->runs = chunk_alloc(w->slots * sizeof(w->runs[0]));
    /* Not touched here: slots that are never filled cost nothing. */
    if (w->shape.timeout_ns > 0)
        w->deadlines = calloc(w->slots, sizeof(w->deadlines[0]));
    bool has_deadlines = w->shape.timeout_ns == 0 || w->deadlines != NULL;
    if (error != 0 || w->runs == NULL || !open_hists(w) || !has_deadlines) {
        close_memory(w);
        return -ENOMEM;
    }
    memset(w->runs, 0, w->slots_warm * sizeof(w->runs[0]));
    return 0;
}

static int open_parts(struct worker *w, struct errmsg *why)
{
    struct model_config model = {
        .name = "stub",
        .seed = w->shape.seed,
        .latency = w->config->latency,
        .turns = w->shape.turns,
        .tools = w->shape.tools,
        .overshoot = w->overshoot,
    };
    int error = w->loop_ops != NULL ? loop_open_ops(&w->sched.loop, w->loop_ops, why)
                                    : loop_open(&w->sched.loop, w->config->loop_name, why);
    if (error != 0)
        return error;
    error = journal_writer_open(w->journal, w->index, &w->sched.loop, &w->env.journal, why);
    if (error != 0)
        goto fail_loop;
    error = model_open(&w->model, &model, &w->sched.loop, why);
    if (error != 0)
        goto fail_writer;
    return 0;

fail_writer:
    journal_writer_close(w->env.journal);
fail_loop:
    loop_close(&w->sched.loop);
    return error;
}

int worker_open(struct worker *w, struct errmsg *why)
{
    int error = open_memory(w);
    if (error != 0)
        return errmsg_set(why, error, "no memory for %u runs in flight", w->slots);
    error = open_parts(w, why);
    if (error != 0) {
        close_memory(w);
        return error;
    }
    w->env.sched = &w->sched;
    w->env.model = &w->model;
    w->env.shape = &w->shape;
    w->env.append = w->append;
    w->env.ended = on_run_ended;
    w->sched.owner = w;
    w->sched.settle = settle;
    w->sched.is_over = is_over;
    w->sched.lag = w->lag;
    return 0;
}

void worker_close(struct worker *w)
{
    model_close(&w->model);
    journal_writer_close(w->env.journal);
    loop_close(&w->sched.loop);
    close_memory(w);
}
