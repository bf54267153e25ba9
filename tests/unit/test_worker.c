/*
 * A worker on a virtual clock: its slots, how runs end when something fails, and where their time
 * went. What holds for any shape and any fault is tests/sim/test_sim.c's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/loop_sim.h"
#include "tests/lib/open_world.h"
#include "tests/lib/parsed_dist.h"
#include "tests/lib/sim_log.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define TICK_NS (UINT64_C(1) << WHEEL_TICK_BITS)

static struct sim_world_config config_of(uint64_t runs, uint32_t concurrency)
{
    struct sim_world_config config = {.campaign = sim_campaign(runs), .ledger_fd = -1};
    config.campaign.concurrency = concurrency;
    return config;
}

static void read_back(struct worker *w)
{
    struct errmsg why = {.text = ""};
    if (worker_read_back(w, &why) != 0)
        fail_msg("%s", why.text);
}

static void slots_are_filled_as_far_as_there_are_runs(void **state)
{
    (void)state;
    static const struct {
        uint64_t runs;
        uint32_t concurrency;
        uint32_t threads;
        uint64_t peak;
    } cases[] = {
        {1, 1, 1, 1},          {1, 64, 1, 1},       {10, 64, 1, 10},     {10, 64, 2, 10},
        {64, 64, 1, 64},       {65, 64, 1, 64},     {300, 64, 2, 64},    {300, 7, 2, 7},
        {1000, 1000, 1, 1000}, {1000, 999, 2, 999}, {5000, 300, 1, 300},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct sim_world_config config = config_of(cases[i].runs, cases[i].concurrency);
        config.campaign.threads = cases[i].threads;
        config.campaign.latency = latency_of("5ms");
        struct sim_world *world = open_world(&config);
        run_world(world);
        assert_int_equal(world->ended_count, cases[i].runs);
        assert_int_equal(world->load.in_flight_peak, cases[i].peak);
        assert_int_equal(world->load.in_flight, 0);
        close_world(world);
    }
}

/* Exactly as many as slots are in flight while enough are left: so this long it takes. */
static void a_free_slot_is_filled_at_once(void **state)
{
    (void)state;
    struct sim_world_config config = config_of(100, 10);
    config.campaign.latency = latency_of("50ms");
    struct sim_world *world = open_world(&config);
    struct worker *w = first_worker(world);
    run_world(world);
    uint64_t ideal_ns = 10 * 2 * 50 * NS_PER_MS;
    assert_in_range(w->ended_ns - LOOP_SIM_START_NS, ideal_ns, ideal_ns + 20 * TICK_NS);
    assert_in_range(w->response->max_ns, 100 * NS_PER_MS, 100 * NS_PER_MS + 2 * TICK_NS);
    assert_int_equal(w->response->count, 100);
    close_world(world);
}

static void the_time_of_runs_is_split_without_a_rest(void **state)
{
    (void)state;
    struct sim_world_config config = config_of(50, 5);
    config.campaign.latency = latency_of("uniform:1ms,9ms");
    config.campaign.tool_latency = latency_of("3ms");
    config.campaign.tools = 2;
    config.faults = (struct sim_faults){.seed = 1, .delay_ns_max = 2 * NS_PER_MS};
    struct sim_world *world = open_world(&config);
    struct worker *w = first_worker(world);
    run_world(world);
    assert_int_equal(w->time.model_ns + w->time.journal_ns + w->time.tool_ns + w->queue_ns,
                     w->response->sum_ns);
    assert_true(w->time.model_ns >= 50 * 2 * NS_PER_MS);
    assert_true(w->time.model_ns <= 50 * 2 * (9 * NS_PER_MS + TICK_NS));
    assert_in_range(w->time.tool_ns, 50 * NS_PER_MS, 50 * 2 * (3 * NS_PER_MS + TICK_NS));
    assert_true(w->time.journal_ns > 50 * 6 * NS_PER_MS / 4);
    assert_int_equal(w->append->count, 50 * 8); /* a second call has two records more */
    assert_int_equal(w->env.model_calls, 100);
    assert_int_equal(w->env.tool_calls, 100);
    close_world(world);
}

/* However late the scheduler is, the model and the tools are not charged for it. */
static void a_backlog_is_the_schedulers(void **state)
{
    (void)state;
    struct sim_world_config config = config_of(1000, 1000);
    config.campaign.latency = latency_of("5ms");
    config.campaign.tool_latency = latency_of("2ms");
    struct sim_world *world = open_world(&config);
    struct worker *w = first_worker(world);
    world->busy_ns = NS_PER_MS; /* a turn, and it takes many to serve a thousand */
    run_world(world);
    assert_int_equal(w->time.model_ns, 1000 * 2 * 5 * NS_PER_MS);
    assert_int_equal(w->time.tool_ns, 1000 * 2 * NS_PER_MS);
    assert_true(w->queue_ns > 1000 * 3 * NS_PER_MS);
    assert_true(w->lag->max_ns >= NS_PER_MS);
    close_world(world);
}

/* A loop that fails when the first runs are over and others in flight. */
static int failing_wait(struct loop *loop, uint64_t timeout_ns)
{
    bool is_late = loop->now_ns > LOOP_SIM_START_NS + 12 * NS_PER_MS;
    return is_late ? -EIO : loop_sim_ops.wait(loop, timeout_ns);
}

static void a_worker_without_its_loop_gives_up_its_runs(void **state)
{
    (void)state;
    struct loop_ops failing_ops = loop_sim_ops;
    failing_ops.wait = failing_wait;
    struct campaign_config config = config_of(100, 10).campaign;
    config.latency = latency_of("5ms");
    struct journal *journal = NULL;
    struct errmsg why;
    struct journal_config journal_config = {.uri = "memory", .writers = 1, .bytes_max = 1 << 24};
    assert_int_equal(journal_open(&journal, &journal_config, &why), 0);
    struct load load;
    load_init(&load, 100, UINT64_MAX);
    struct worker w = {
        .config = &config,
        .loop_ops = &failing_ops,
        .journal = journal,
        .load = &load,
        .slots = 10,
        .pool_bytes_max = 1 << 24,
        .shape = {.seed = 1, .turns = 2, .tools = 1, .tool_latency = config.tool_latency},
    };
    assert_int_equal(worker_open(&w, &why), 0);
    worker_run(&w, LOOP_SIM_START_NS);
    assert_non_null(strstr(w.error.text, "the event loop failed: Input/output error"));
    assert_int_equal(w.runs_abandoned + w.runs_by_outcome[OUTCOME_COMPLETED],
                     atomic_load(&w.progress.runs_started));
    assert_true(w.runs_abandoned > 0);
    uint64_t number;
    assert_false(load_claim(&load, 0, &number)); /* nor do the others go on */
    worker_close(&w);
    journal_close(journal);
}

static void nothing_starts_once_the_time_is_over(void **state)
{
    (void)state;
    struct sim_world_config config = config_of(1000, 10);
    config.campaign.latency = latency_of("5ms");
    config.until_ns = LOOP_SIM_START_NS + 55 * NS_PER_MS; /* a run takes 10 ms */
    struct sim_world *world = open_world(&config);
    run_world(world);
    assert_int_equal(load_claimed(&world->load), 60);
    assert_int_equal(first_worker(world)->runs_by_outcome[OUTCOME_COMPLETED], 60);
    close_world(world);
}

static void nothing_starts_after_a_stop(void **state)
{
    (void)state;
    struct sim_world_config config = config_of(1000, 10);
    config.campaign.latency = latency_of("5ms");
    config.stop_after = 25;
    struct sim_world *world = open_world(&config);
    run_world(world);
    assert_int_equal(load_claimed(&world->load), 30); /* those in flight come to their end */
    assert_int_equal(first_worker(world)->runs_by_outcome[OUTCOME_COMPLETED], 30);
    close_world(world);
}

static void those_in_flight_are_let_go(void **state)
{
    (void)state;
    struct sim_world_config config = config_of(1000, 10);
    config.campaign.latency = latency_of("uniform:1ms,10s");
    config.campaign.timeout_ns = 3600 * NS_PER_S;
    config.abandon_after = 5;
    struct sim_world *world = open_world(&config);
    struct worker *w = first_worker(world);
    run_world(world);
    uint64_t started = load_claimed(&world->load);
    assert_int_equal(w->runs_by_outcome[OUTCOME_COMPLETED], 5);
    assert_int_equal(w->runs_abandoned, started - 5);
    assert_in_range(started, 14, 15);
    read_back(w);
    assert_int_equal(w->readback.ends, 5);
    assert_int_equal(w->readback.records, journal_writer_totals(w->env.journal).records);
    close_world(world);
}

struct abandoner {
    struct timer timer;
    struct worker *worker;
};

static void abandon_now(struct timer *timer, uint64_t now_ns)
{
    (void)now_ns;
    atomic_store(&container_of(timer, struct abandoner, timer)->worker->must_abandon, true);
}

/* A store that settles later is never quiet while runs go on: that must not keep them. */
static void those_in_flight_are_let_go_however_busy_the_journal_is(void **state)
{
    (void)state;
    struct sim_world_config config = config_of(50, 50);
    config.campaign.turns = 1000;
    config.campaign.tools = 3;
    config.campaign.latency = latency_of("uniform:0ms,1ms");
    config.campaign.timeout_ns = 3600 * NS_PER_S;
    config.faults = (struct sim_faults){.seed = 1, .delay_ns_max = NS_PER_MS};
    struct sim_world *world = open_world(&config);
    struct worker *w = first_worker(world);
    struct abandoner abandoner = {.worker = w};
    timer_init(&abandoner.timer, abandon_now);
    loop_timer_start(&w->sched.loop, &abandoner.timer, LOOP_SIM_START_NS + 50 * NS_PER_MS);
    run_world(world);
    assert_int_equal(w->runs_abandoned, 50);
    assert_true(w->sched.loop.now_ns - LOOP_SIM_START_NS < 70 * NS_PER_MS);
    read_back(w);
    assert_int_equal(w->readback.ends, 0);
    assert_int_equal(w->readback.records, journal_writer_totals(w->env.journal).records);
    close_world(world);
}

/* A worker whose world is its own. */
struct alone {
    struct campaign_config campaign;
    struct journal *journal;
    struct load load;
    struct worker worker;
    struct abandoner abandoner;
};

/* 50 runs at once, abandoned after `abandon_ns`, on a store with these faults. */
static struct alone *open_alone(const struct loop_ops *loop_ops, const struct sim_faults *faults,
                                uint64_t abandon_ns)
{
    struct errmsg why;
    struct alone *a = aligned_alloc(64, (sizeof(*a) + 63) / 64 * 64);
    assert_non_null(a);
    memset(a, 0, sizeof(*a));
    a->campaign = sim_campaign(50);
    a->campaign.latency = latency_of("1ms");
    a->campaign.turns = 1000;
    a->journal = sim_world_journal(&a->campaign, &why);
    assert_non_null(a->journal);
    load_init(&a->load, 50, UINT64_MAX);
    a->worker = (struct worker){
        .config = &a->campaign,
        .loop_ops = loop_ops,
        .journal = a->journal,
        .load = &a->load,
        .count = 1,
        .slots = 50,
        .pool_bytes_max = 1 << 26,
        .shape = {.seed = 1,
                  .turns = 1000,
                  .tools = 1,
                  .timeout_ns = 3600 * NS_PER_S,
                  .tool_latency = a->campaign.tool_latency},
    };
    assert_int_equal(worker_open(&a->worker, &why), 0);
    sim_journal_set_faults(a->worker.env.journal, faults);
    a->abandoner.worker = &a->worker;
    timer_init(&a->abandoner.timer, abandon_now);
    if (abandon_ns > 0)
        loop_timer_start(&a->worker.sched.loop, &a->abandoner.timer,
                         LOOP_SIM_START_NS + abandon_ns);
    worker_run(&a->worker, LOOP_SIM_START_NS);
    return a;
}

static void close_alone(struct alone *a)
{
    worker_close(&a->worker);
    journal_close(a->journal);
    free(a);
}

/* A store that never answers again is waited for two seconds, once nobody wants more runs. What it
 * has of them is not known, and what those runs held is let go. */
static void a_store_that_does_not_answer_is_not_waited_for_for_ever(void **state)
{
    (void)state;
    const struct sim_faults never = {.seed = 1, .delay_ns_max = 24 * 3600 * NS_PER_S};
    struct alone *a = open_alone(&loop_sim_ops, &never, NS_PER_S);
    struct worker *w = &a->worker;
    struct journal_totals totals = journal_writer_totals(w->env.journal);
    assert_int_equal(w->runs_abandoned, 50);
    assert_in_range(w->ended_ns - LOOP_SIM_START_NS, 3 * NS_PER_S, 3 * NS_PER_S + 2 * TICK_NS);
    assert_int_equal(totals.records + totals.unknown, 50);
    assert_true(totals.unknown > 0);
    assert_int_equal(totals.refused, 0);
    assert_string_equal(w->error.text, "");
    assert_false(journal_is_busy(w->env.journal));
    read_back(w);
    assert_int_equal(w->readback.records, totals.records);
    close_alone(a);
}

/* One that answers late, but in time, has its answers heard. */
static void a_store_that_answers_in_time_is_waited_for(void **state)
{
    (void)state;
    const struct sim_faults late = {.seed = 1, .delay_ns_max = 1900 * NS_PER_MS};
    struct alone *a = open_alone(&loop_sim_ops, &late, 10 * NS_PER_S);
    struct worker *w = &a->worker;
    struct journal_totals totals = journal_writer_totals(w->env.journal);
    assert_int_equal(w->runs_abandoned, 50);
    assert_int_equal(totals.unknown, 0);
    assert_true(w->ended_ns - LOOP_SIM_START_NS < 12 * NS_PER_S);
    read_back(w);
    assert_int_equal(w->readback.records, totals.records);
    close_alone(a);
}

/* What the store still had when the loop failed is not known; nothing fires when it is closed. */
static void a_loop_that_fails_leaves_what_is_on_its_way_unknown(void **state)
{
    (void)state;
    struct loop_ops failing_ops = loop_sim_ops;
    failing_ops.wait = failing_wait;
    const struct sim_faults late = {.seed = 1, .delay_ns_max = 3600 * NS_PER_S};
    struct alone *a = open_alone(&failing_ops, &late, 0);
    struct worker *w = &a->worker;
    struct journal_totals totals = journal_writer_totals(w->env.journal);
    assert_non_null(strstr(w->error.text, "the event loop failed: Input/output error"));
    assert_int_equal(w->runs_abandoned, 50);
    assert_int_equal(totals.records + totals.unknown, 50);
    assert_true(totals.unknown > 0);
    close_alone(a);
}

static void a_timeout_ends_a_run_on_time(void **state)
{
    (void)state;
    struct sim_world_config config = config_of(20, 5);
    config.campaign.latency = latency_of("50ms");
    config.campaign.timeout_ns = 20 * NS_PER_MS;
    struct sim_world *world = open_world(&config);
    struct worker *w = first_worker(world);
    run_world(world);
    assert_int_equal(w->runs_by_outcome[OUTCOME_TIMEOUT], 20);
    assert_int_equal(w->failed->count, 20);
    assert_in_range(w->failed->min_ns, 20 * NS_PER_MS, 20 * NS_PER_MS + TICK_NS);
    assert_in_range(w->failed->max_ns, 20 * NS_PER_MS, 20 * NS_PER_MS + TICK_NS);
    assert_int_equal(w->response->count, 0);
    read_back(w);
    assert_int_equal(w->readback.records, 2 * 20); /* begin and end */
    assert_string_equal(w->env.first_error.text, "run 0: -timeout is over");
    /* What they waited for was not the journal, which took no time. */
    assert_in_range(w->slot_ns, 20 * 20 * NS_PER_MS, 20 * (20 * NS_PER_MS + TICK_NS));
    assert_int_equal(w->slot_journal_ns, 0);
    assert_int_equal(w->append->max_ns, 0);
    close_world(world);
}

/* Slots that a journal holds which answers nobody, whatever becomes of the runs in them. */
static void slots_are_the_journals_while_it_does_not_answer(void **state)
{
    (void)state;
    for (unsigned is_timed = 0; is_timed <= 1; is_timed++) {
        struct sim_world_config config = config_of(20, 20);
        config.campaign.latency = latency_of("50ms");
        config.campaign.timeout_ns = is_timed ? 70 * NS_PER_MS : 0;
        config.faults.freeze_at_ns = LOOP_SIM_START_NS + 25 * NS_PER_MS;
        config.faults.freeze_ns = 75 * NS_PER_MS;
        struct sim_world *world = open_world(&config);
        struct worker *w = first_worker(world);
        run_world(world);
        uint64_t besides_ns = (is_timed ? 50 : 100) * NS_PER_MS; /* one model call, or both */
        assert_int_equal(w->runs_by_outcome[OUTCOME_TIMEOUT], is_timed ? 20 : 0);
        assert_in_range(w->slot_ns, 20 * (besides_ns + 50 * NS_PER_MS),
                        20 * (besides_ns + 50 * NS_PER_MS + 3 * TICK_NS));
        assert_in_range(w->slot_ns - w->slot_journal_ns, 20 * besides_ns,
                        20 * (besides_ns + 3 * TICK_NS));
        close_world(world);
    }
}

/* Also those that are let go. */
static void slots_of_runs_that_are_let_go_are_counted(void **state)
{
    (void)state;
    struct sim_world_config config = config_of(21, 21);
    config.campaign.latency = latency_of("uniform:10ms,500ms");
    config.campaign.turns = 1;
    config.abandon_after = 1;
    struct sim_world *world = open_world(&config);
    struct worker *w = first_worker(world);
    run_world(world);
    assert_int_equal(w->runs_abandoned, 20);
    assert_in_range(w->slot_ns, 21 * 10 * NS_PER_MS, 21 * 200 * NS_PER_MS);
    assert_int_equal(w->slot_journal_ns, 0);
    close_world(world);
}

/* A timeout at any moment of a run, also while its end is being recorded: then it has completed. */
static void a_run_has_an_error_exactly_when_it_did_not_complete(void **state)
{
    (void)state;
    unsigned completed = 0;
    enum { STEPS = 400 };
    for (uint64_t i = 1; i <= STEPS; i++) {
        struct sim_world_config config = config_of(1, 1);
        config.campaign.latency = latency_of("5ms");
        config.campaign.timeout_ns = i * NS_PER_MS / 8;
        config.faults = (struct sim_faults){.seed = 3, .delay_ns_max = 8 * NS_PER_MS};
        struct sim_world *world = open_world(&config);
        struct worker *w = first_worker(world);
        run_world(world);
        bool is_completed = w->runs_by_outcome[OUTCOME_COMPLETED] == 1;
        completed += is_completed;
        assert_int_equal(w->runs_by_outcome[OUTCOME_TIMEOUT], !is_completed);
        assert_int_equal(w->env.first_error.text[0] == '\0', is_completed);
        close_world(world);
    }
    assert_in_range(completed, 1, STEPS - 1);
}

static void a_tool_that_fails_ends_its_run(void **state)
{
    (void)state;
    struct sim_log log = {0};
    struct sim_world_config config = config_of(2, 1);
    config.campaign.tool_effect = TOOL_EFFECT_LEDGER;
    config.campaign.tools = 2;
    config.ledger_fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
    assert_true(config.ledger_fd >= 0);
    struct sim_world *world = open_world(&config);
    struct worker *w = first_worker(world);
    run_world(world);
    assert_int_equal(w->runs_by_outcome[OUTCOME_FAILED], 2);
    assert_string_equal(w->env.first_error.text, "run 0: tool call c1: No space left on device");
    assert_int_equal(sim_log_read(&log, world->journal, 1), 0);
    sim_log_sort(&log);
    assert_int_equal(log.count, 6); /* begin, model, two attempts, the result that failed, end */
    assert_string_equal(sim_log_payload(&log, &log.records[4]),
                        "{\"call\":\"c1\",\"error\":\"No space left on device\"}");
    assert_non_null(strstr(sim_log_payload(&log, &log.records[5]), "{\"outcome\":\"failed\""));
    sim_log_free(&log);
    close_world(world);
    assert_int_equal(close(config.ledger_fd), 0);
}

static void a_pool_at_its_bound_fails_runs_by_name(void **state)
{
    (void)state;
    struct sim_world_config config = config_of(20, 5);
    struct sim_world *world = open_world(&config);
    struct worker *w = first_worker(world);
    w->env.pool.bytes_max = 0;
    run_world(world);
    assert_int_equal(w->runs_by_outcome[OUTCOME_FAILED], 20);
    assert_non_null(strstr(w->env.first_error.text, ": no memory for the history"));
    close_world(world);
}

static void a_long_conversation_stays_within_its_pool_or_fails(void **state)
{
    (void)state;
    struct sim_world_config config = config_of(60, 30);
    config.campaign.turns = 50;
    config.campaign.tools = 20;
    struct sim_world *world = open_world(&config);
    struct worker *w = first_worker(world);
    w->env.pool.bytes_max = 3 << 20;
    run_world(world);
    assert_true(w->runs_by_outcome[OUTCOME_FAILED] > 0);
    assert_int_equal(w->runs_by_outcome[OUTCOME_FAILED] + w->runs_by_outcome[OUTCOME_COMPLETED],
                     60);
    assert_true(w->env.pool.bytes <= 3 << 20);
    close_world(world);
}

static void a_store_that_is_full_stops_the_load(void **state)
{
    (void)state;
    struct sim_world_config config = config_of(1000, 10);
    config.campaign.latency = latency_of("5ms");
    config.faults.full_after = 100;
    struct sim_world *world = open_world(&config);
    struct worker *w = first_worker(world);
    run_world(world);
    assert_in_range(w->runs_by_outcome[OUTCOME_JOURNAL], 1, 10);
    assert_true(load_claimed(&world->load) < 40);
    assert_non_null(strstr(w->env.first_error.text, ": the journal is at its bound"));
    read_back(w);
    assert_int_equal(w->readback.records, 100);
    close_world(world);
}

static int refuse_to_open(struct loop *loop, struct errmsg *why)
{
    (void)loop;
    return errmsg_set(why, -EMFILE, "no more descriptors");
}

static void what_cannot_be_opened_is_told_and_leaves_nothing(void **state)
{
    (void)state;
    static const struct loop_ops bad_loop = {
        .name = "bad", .state_bytes = 8, .open = refuse_to_open};
    const struct campaign_config campaign = sim_campaign(1);
    struct load load;
    struct worker *w = calloc(1, sizeof(*w));
    struct errmsg why = {""};
    assert_non_null(w);
    load_init(&load, 1, UINT64_MAX);
    *w = (struct worker){.config = &campaign, .loop_ops = &bad_loop, .load = &load, .slots = 1};
    assert_int_equal(worker_open(w, &why), -EMFILE);
    assert_string_equal(why.text, "no more descriptors");
    *w = (struct worker){.config = &campaign, .load = &load, .slots = 1};
    assert_int_equal(worker_open(w, &why), -EINVAL); /* "sim" is in no table */
    assert_non_null(strstr(why.text, "sim"));
    free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_are_filled_as_far_as_there_are_runs),
        cmocka_unit_test(a_free_slot_is_filled_at_once),
        cmocka_unit_test(the_time_of_runs_is_split_without_a_rest),
        cmocka_unit_test(a_backlog_is_the_schedulers),
        cmocka_unit_test(a_worker_without_its_loop_gives_up_its_runs),
        cmocka_unit_test(nothing_starts_once_the_time_is_over),
        cmocka_unit_test(nothing_starts_after_a_stop),
        cmocka_unit_test(those_in_flight_are_let_go),
        cmocka_unit_test(those_in_flight_are_let_go_however_busy_the_journal_is),
        cmocka_unit_test(a_store_that_does_not_answer_is_not_waited_for_for_ever),
        cmocka_unit_test(a_store_that_answers_in_time_is_waited_for),
        cmocka_unit_test(a_loop_that_fails_leaves_what_is_on_its_way_unknown),
        cmocka_unit_test(a_timeout_ends_a_run_on_time),
        cmocka_unit_test(slots_are_the_journals_while_it_does_not_answer),
        cmocka_unit_test(slots_of_runs_that_are_let_go_are_counted),
        cmocka_unit_test(a_run_has_an_error_exactly_when_it_did_not_complete),
        cmocka_unit_test(a_tool_that_fails_ends_its_run),
        cmocka_unit_test(a_pool_at_its_bound_fails_runs_by_name),
        cmocka_unit_test(a_long_conversation_stays_within_its_pool_or_fails),
        cmocka_unit_test(a_store_that_is_full_stops_the_load),
        cmocka_unit_test(what_cannot_be_opened_is_told_and_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
