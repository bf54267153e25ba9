/*
 * worker: see worker.h.
 */
#include "engine/worker.h"

#include <string.h>

#include "engine/base/prng.h"
#include "engine/base/resource.h"
#include "engine/exchange.h"
#include "engine/worker_parts.h"

/* A store that does not answer is not waited for any longer, once nobody wants more runs. */
#define PATIENCE_NS (2 * NS_PER_S)

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

/* The journal cannot be read: what has been resumed goes on to its end. */
static void stop_resuming(struct worker *w, const struct errmsg *why)
{
    load_stop(w->load);
    if (w->error.text[0] == '\0')
        (void)errmsg_set(&w->error, 0, "the journal cannot be read: %s", why->text);
}

/* False when none is left. */
static bool resume_next(struct worker *w, struct run *run, uint64_t intended_ns)
{
    struct recovered_run recovered;
    struct errmsg why = {.text = ""};
    uint64_t start_ns = loop_clock_ns(&w->sched.loop);
    uint32_t slots_free = w->slots - w->slots_busy; /* but for the run's, if it held one before */
    int error = 0;
    if (!recovery_next(w->recovery, w->journal, &w->block, slots_free, &recovered, &error, &why)) {
        if (error != 0)
            stop_resuming(w, &why);
        return false;
    }
    uint64_t now_ns = loop_clock_ns(&w->sched.loop);
    count(&w->progress.runs_started);
    w->runs_resumed++;
    w->records_replayed += recovered.count;
    if (w->deadlines != NULL)
        start_deadline(w, run, now_ns + w->shape.timeout_ns);
    run_resume(run, &w->env, &recovered, intended_ns, now_ns);
    w->resuming_ns += loop_clock_ns(&w->sched.loop) - start_ns;
    return true;
}

static void start_run(struct worker *w, struct run *run, uint64_t number, uint64_t intended_ns,
                      uint64_t now_ns)
{
    count(&w->progress.runs_started);
    if (intended_ns < w->measured_from_ns)
        count(&w->progress.warmup_started);
    if (w->deadlines != NULL)
        start_deadline(w, run, now_ns + w->shape.timeout_ns);
    run_start(run, &w->env, number, intended_ns, now_ns);
}

/* False when no more runs are to start. */
static bool start_next(struct worker *w, struct run *run, uint64_t intended_ns, uint64_t now_ns)
{
    uint64_t number = 0;
    if (w->is_abandoning)
        return false;
    if (w->recovery != NULL)
        return !load_is_stopped(w->load) && resume_next(w, run, intended_ns);
    bool is_claimed = intended_ns < w->measured_from_ns
                          ? load_claim_warmup(w->load, now_ns, &number)
                          : load_claim(w->load, now_ns, &number);
    if (!is_claimed)
        return false;
    start_run(w, run, number, intended_ns, now_ns);
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

/* --- arrivals: runs that start at their time, whatever the others do --- */

static bool has_arrivals(const struct worker *w)
{
    return w->share.due_ns != UINT64_MAX && !load_is_stopped(w->load);
}

/* There was no free slot until free_ns: what the run has waited for one is not the scheduler's lag.
 */
static void start_arrived(struct worker *w, struct run *run, uint64_t free_ns)
{
    uint64_t number = w->share.number;
    uint64_t due_ns = w->share.due_ns;
    uint64_t now_ns = loop_clock_ns(&w->sched.loop);
    load_share_pass(&w->share);
    w->begun_ns = now_ns;
    w->begun_idle_ns = w->sched.loop.idle_ns;
    if (due_ns >= w->measured_from_ns) {
        w->runs_queued += free_ns > due_ns;
        hist_record(w->dispatch, now_ns - (free_ns > due_ns ? free_ns : due_ns));
    }
    start_run(w, run, number, due_ns, now_ns);
}

static void step_open_slot(struct task *task, uint64_t now_ns);
static const struct task_kind open_slot_kind = {.name = "run", .step = step_open_slot};

/* NULL when all are busy. */
static struct run *take_slot(struct worker *w)
{
    struct run *run = NULL;
    if (w->slots_free != NULL) {
        run = container_of(w->slots_free, struct run, task);
        w->slots_free = w->slots_free->next;
    } else if (w->slots_filled < w->slots) {
        run = &w->runs[w->slots_filled++];
        run->task.kind = &open_slot_kind;
    }
    return run;
}

static bool has_slot(const struct worker *w)
{
    return w->slots_free != NULL || w->slots_filled < w->slots;
}

/* While no slot is free none waits for the next arrival. */
static void await_arrival(struct worker *w)
{
    if (has_arrivals(w) && has_slot(w) && !timer_is_armed(&w->arrival))
        loop_timer_start(&w->sched.loop, &w->arrival, w->share.due_ns);
}

static void on_arrival(struct timer *timer, uint64_t now_ns)
{
    struct worker *w = container_of(timer, struct worker, arrival);
    for (unsigned i = 0; i < SCHED_TURN_MAX && has_arrivals(w) && w->share.due_ns <= now_ns; i++) {
        struct run *run = take_slot(w);
        if (run == NULL)
            break;
        w->slots_busy++;
        load_slot_filled(w->load);
        start_arrived(w, run, 0);
    }
    await_arrival(w);
}

/* The slot has come free: for a run that has waited, or until one arrives. */
static void step_open_slot(struct task *task, uint64_t now_ns)
{
    struct run *run = container_of(task, struct run, task);
    struct worker *w = worker_of(run->env);
    if (has_arrivals(w) && w->share.due_ns <= now_ns) {
        start_arrived(w, run, has_slot(w) ? 0 : run->intended_ns);
        return;
    }
    w->slots_busy--;
    load_slot_emptied(w->load);
    task->next = w->slots_free;
    w->slots_free = task;
    await_arrival(w);
}

static void count_warmup_run(struct worker *w, enum outcome outcome, uint64_t response_ns)
{
    w->warmup.runs_by_outcome[outcome]++;
    if (outcome == OUTCOME_COMPLETED)
        hist_record(w->warmup.response, response_ns);
    else
        count(&w->progress.errors);
    count(&w->progress.warmup_ended);
}

/* Of each run that is measured, whatever becomes of it. */
static inline void count_slot_time(struct worker *w, const struct run *run, uint64_t now_ns)
{
    w->slot_ns += now_ns - run->started_ns;
    w->slot_journal_ns += run->time.journal_ns;
}

static inline void count_run(struct worker *w, const struct run *run, uint64_t now_ns)
{
    enum outcome outcome = run->agent.outcome;
    uint64_t response_ns = now_ns - run->intended_ns;
    if (run->intended_ns < w->measured_from_ns) {
        count_warmup_run(w, outcome, response_ns);
        return;
    }
    w->ended_ns = now_ns;
    w->runs_by_outcome[outcome]++;
    w->checksum += prng_mix(run->append.digest + run->append.run);
    count_slot_time(w, run, now_ns);
    if (outcome == OUTCOME_COMPLETED) {
        if (run->has_retried) {
            hist_record(w->retried, response_ns);
        } else {
            hist_record(w->response, response_ns);
            hist_record(w->service, now_ns - run->started_ns);
        }
        w->time.model_ns += run->time.model_ns;
        w->time.journal_ns += run->time.journal_ns;
        w->time.tool_ns += run->time.tool_ns;
        w->time.backoff_ns += run->time.backoff_ns;
        w->queue_ns += response_ns - run->time.model_ns - run->time.journal_ns - run->time.tool_ns -
                       run->time.backoff_ns;
    } else {
        hist_record(w->failed, response_ns);
        count(&w->progress.errors);
    }
}

static void on_run_ended(struct run_env *env, struct run *run, uint64_t now_ns)
{
    struct worker *w = worker_of(env);
    count_run(w, run, now_ns);
    if (env->has_store_failed)
        load_stop(w->load); /* a store that refuses records is not worth more runs */
    count(&w->progress.runs_ended);
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

static void on_patience_over(struct timer *timer, uint64_t now_ns)
{
    (void)now_ns;
    container_of(timer, struct worker, patience)->is_impatient = true;
}

static void abandon_run(struct worker *w, struct run *run)
{
    uint64_t now_ns = loop_clock_ns(&w->sched.loop);
    run_abandon(run, now_ns);
    run->agent.state = AGENT_ENDED;
    if (run->intended_ns < w->measured_from_ns) {
        w->warmup.runs_abandoned++;
        return;
    }
    w->runs_abandoned++;
    count_slot_time(w, run, now_ns);
}

/* Lets go of all runs that no append keeps. The journal answers those, which then wait for
 * something else, and go the next time. True when none is left. */
static bool abandon(struct worker *w)
{
    bool is_one_left = false;
    if (!w->is_abandoning)
        loop_timer_start(&w->sched.loop, &w->patience, loop_clock_ns(&w->sched.loop) + PATIENCE_NS);
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
        abandon_run(w, run);
    }
    return !is_one_left;
}

/* The end of the warm-up has been decided. Should it be over already, what has started since is to
 * be measured, although nothing of its start has been. */
static void learn_of_end(struct worker *w, uint64_t from_ns)
{
    uint64_t started = 0;
    w->measured_from_ns = from_ns;
    for (uint32_t i = 0; i < w->slots_filled; i++)
        started += w->runs[i].agent.state != AGENT_ENDED && w->runs[i].intended_ns >= from_ns;
    atomic_fetch_sub(&w->progress.warmup_started, started);
    atomic_fetch_add(&w->load->measured, started);
    bool is_beyond = w->share.number >= atomic_load(&w->load->runs) ||
                     w->share.due_ns >= atomic_load(&w->load->until_ns);
    if (w->load->plan != NULL && is_beyond)
        w->share.due_ns = UINT64_MAX;
}

/* From here on what happens is measured, to whichever run. */
static void begin_measuring(struct worker *w, uint64_t now_ns)
{
    uint64_t none = 0;
    w->is_warming = false;
    hist_init(w->append);
    hist_init(w->lag);
    hist_init(w->overshoot);
    hist_init(w->token_lag);
    w->warmup.records = journal_writer_totals(w->env.journal).records;
    w->driven_from_ns = now_ns;
    w->idle_ns = w->sched.loop.idle_ns;
    (void)atomic_compare_exchange_strong(&w->load->cpu_before_ns, &none, resource_cpu_ns());
}

static __attribute__((noinline)) void go_on_warming(struct worker *w)
{
    uint64_t from_ns = atomic_load_explicit(&w->load->measured_from_ns, memory_order_acquire);
    uint64_t now_ns = loop_clock_ns(&w->sched.loop);
    if (from_ns != w->measured_from_ns)
        learn_of_end(w, from_ns);
    if (now_ns >= from_ns)
        begin_measuring(w, now_ns);
}

/* Not inline, and seldom: the turn's path stays as short as it was. */
static __attribute__((noinline)) void take_snapshot(struct worker *w)
{
    const struct hist *hists[WATCH_COUNT];
    worker_list_hists(w, hists);
    snapshot_answer(&w->snapshot, hists, w->failed->count);
    loop_wake(w->waiter);
}

static inline void tell_records(struct worker *w)
{
    uint64_t records = journal_writer_totals(w->env.journal).records;
    atomic_store_explicit(&w->progress.records, records, memory_order_relaxed);
}

static bool is_over(struct sched *sched)
{
    struct worker *w = sched->owner;
    tell_records(w);
    if (w->is_warming)
        go_on_warming(w);
    if (snapshot_is_asked(&w->snapshot))
        take_snapshot(w);
    bool is_all_begun = w->load->plan != NULL ? !has_arrivals(w) : w->slots_filled == w->slots;
    if (w->slots_busy == 0 && is_all_begun)
        return true;
    if (!atomic_load_explicit(&w->must_abandon, memory_order_relaxed))
        return false;
    return (abandon(w) && !journal_is_busy(w->env.journal)) || w->is_impatient;
}

/* Lets go of what is left, whatever the journal still has of it. */
static void give_up(struct worker *w)
{
    load_stop(w->load);
    (void)abandon(w);
    journal_forget(w->env.journal);
    for (uint32_t i = 0; i < w->slots_filled; i++) {
        struct run *run = &w->runs[i];
        if (run->agent.state == AGENT_ENDED)
            continue;
        abandon_run(w, run); /* its append is forgotten */
    }
    loop_timer_stop(&w->sched.loop, &w->patience);
}

/* How long the scheduler had work to do: in an open loop until the last run was started, since the
 * rest is waiting for those that take long. */
static void count_idle(struct worker *w, bool is_to_begun)
{
    uint64_t to_ns = is_to_begun ? w->begun_ns : loop_clock_ns(&w->sched.loop);
    uint64_t idle_ns = is_to_begun ? w->begun_idle_ns : w->sched.loop.idle_ns;
    bool is_any = to_ns > w->driven_from_ns;
    w->driven_ns = is_any ? to_ns - w->driven_from_ns : 0;
    w->idle_ns = is_any ? idle_ns - w->idle_ns : 0;
}

void worker_run(struct worker *w, uint64_t start_ns)
{
    uint64_t allocated = resource_thread_allocated_bytes();
    w->measured_from_ns = atomic_load(&w->load->measured_from_ns);
    w->is_warming = w->load->has_warmup;
    w->driven_from_ns = start_ns;
    w->idle_ns = w->sched.loop.idle_ns;
    w->start_ns = start_ns;
    w->filler.kind = &filler_kind;
    timer_init(&w->patience, on_patience_over);
    if (w->load->plan != NULL) {
        load_share_init(&w->share, w->load, w->index, w->count, start_ns);
        timer_init(&w->arrival, on_arrival);
        await_arrival(w);
    } else {
        sched_ready(&w->sched, &w->filler);
    }
    int error = sched_run(&w->sched);
    /* Without its loop a worker can do nothing more for its runs, and the campaign no more of use.
     */
    if (error != 0)
        (void)errmsg_set(&w->error, error, "the event loop failed: %s", strerrordesc_np(-error));
    if (error != 0 || w->is_abandoning)
        give_up(w);
    if (w->is_warming) {
        uint64_t now_ns = loop_clock_ns(&w->sched.loop);
        w->warmup.elapsed_ns = now_ns - start_ns;
        begin_measuring(w, now_ns); /* nothing */
    }
    if (w->runs_abandoned > 0)
        w->ended_ns = loop_clock_ns(&w->sched.loop);
    w->allocated_bytes = resource_thread_allocated_bytes() - allocated;
    count_idle(w, w->load->plan != NULL && w->begun_ns != 0);
    tell_records(w);
    snapshot_end(&w->snapshot);
    if (w->waiter != NULL)
        loop_wake(w->waiter);
}

/* --- life --- */

int worker_read_back(struct worker *w, struct errmsg *why)
{
    int error = 0;
    for (unsigned part = w->index; part < journal_parts(w->journal) && error == 0; part += w->count)
        error = journal_count(w->journal, part, &w->readback, why);
    return error;
}

static int open_parts(struct worker *w, struct errmsg *why)
{
    struct model_config model = {
        .name = "stub",
        .seed = w->shape.seed,
        .latency = w->config->latency,
        .turns = w->shape.turns,
        .tools = w->shape.tools,
        .reply_bytes = campaign_dist_if_given(&w->config->reply_bytes),
        .overshoot = w->overshoot,
        .tokens = w->config->model.tokens,
        .token_interval_ns = w->config->model.token_interval_ns,
        .error_rate = w->config->model.error_rate,
        .token_lag = w->token_lag,
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
    int error = worker_open_memory(w);
    if (error != 0)
        return errmsg_set(why, error, "no memory for %u runs in flight", w->slots);
    error = open_parts(w, why);
    if (error != 0) {
        worker_close_memory(w);
        return error;
    }
    w->env.sched = &w->sched;
    exchange_env_init(&w->env);
    w->env.model = &w->model;
    w->env.shape = &w->shape;
    w->env.append = w->append;
    w->env.ended = on_run_ended;
    w->block.part = w->index; /* where it begins to look: not all workers in the same part */
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
    worker_close_memory(w);
}
