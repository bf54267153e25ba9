/* sim_world: see sim_world.h. */
#include "tests/lib/sim_world.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/loop_sim.h"

enum { SLICE_TURNS_MAX = 7 };

/* So long that what a store gives back is recorded in the end. */
#define RETRY_FOR_NS (3600 * NS_PER_S)

static void set_fault(struct sim_world *world, const char *text, uint64_t number)
{
    if (world->fault.text[0] == '\0')
        (void)errmsg_set(&world->fault, 0, "%s (%" PRIu64 ")", text, number);
}

static void check_in_flight(struct sim_world *world)
{
    /* Counted in two ways: slots, and runs handed out that have not ended. */
    uint64_t slots = atomic_load(&world->load.in_flight);
    uint64_t runs = sim_world_started(world) - world->ended_count;
    if (slots > world->config.campaign.concurrency)
        set_fault(world, "more slots than concurrency", slots);
    if (runs > world->config.campaign.concurrency)
        set_fault(world, "more runs in flight than concurrency", runs);
}

static void on_ended(struct run_env *env, struct run *run, uint64_t now_ns)
{
    struct sim_lane *lane = container_of(env, struct sim_lane, worker.env);
    struct sim_world *world = lane->world;
    uint64_t number = run->model_call.run;
    if (number >= world->config.campaign.runs) {
        set_fault(world, "a run ended that was never to start", number);
        abort();
    }
    check_in_flight(world);
    struct sim_end *end = &world->ends[number];
    end->count++;
    end->acked = run->append.seq;
    end->outcome = run->agent.outcome;
    world->ended_count++;
    if (world->ended_count == world->config.stop_after)
        load_stop(&world->load);
    if (world->ended_count == world->config.abandon_after) {
        load_stop(&world->load);
        for (unsigned i = 0; i < world->lane_count; i++) {
            atomic_store(&world->lanes[i].worker.must_abandon, true);
            loop_wake(&world->lanes[i].worker.sched.loop);
        }
    }
    lane->ended(env, run, now_ns);
    check_in_flight(world);
}

static bool is_dead(const struct sim_world *world)
{
    bool is_one = world->is_killed;
    for (unsigned i = 0; i < world->lane_count; i++)
        is_one = is_one || sim_journal_is_dead(world->lanes[i].worker.env.journal);
    return is_one;
}

/* Nothing comes back from a store whose process is gone. */
static bool settle(struct sched *sched)
{
    struct worker *worker = sched->owner;
    struct sim_lane *lane = container_of(worker, struct sim_lane, worker);
    if (is_dead(lane->world))
        return false;
    journal_flush(worker->env.journal); /* first, since it may be killed in a commit */
    return !is_dead(lane->world) && lane->settle(sched);
}

static bool kill_when_due(struct sim_world *world)
{
    uint64_t turns = 0;
    for (unsigned i = 0; i < world->lane_count; i++)
        turns += world->lanes[i].turns;
    world->is_killed = world->config.kill_at_turn > 0 && turns >= world->config.kill_at_turn;
    world->is_killed = is_dead(world);
    return world->is_killed;
}

/* Asked once a turn: the place to look at the world, and to let the other worker have its turn. */
static bool is_over(struct sched *sched)
{
    struct worker *worker = sched->owner;
    struct sim_lane *lane = container_of(worker, struct sim_lane, worker);
    if (kill_when_due(lane->world))
        return true;
    check_in_flight(lane->world);
    if (lane->world->fault.text[0] != '\0' && !journal_is_busy(worker->env.journal)) {
        lane->is_done = true;
        return true;
    }
    if (lane->turns_left == 0)
        return true;
    lane->turns_left--;
    lane->turns++;
    if (lane->world->busy_ns > 0)
        loop_sim_spend(&lane->worker.sched.loop, lane->world->busy_ns);
    if (!lane->is_over(sched))
        return false;
    if (journal_is_busy(worker->env.journal))
        return false; /* a squatter's records are on their way */
    lane->is_done = true;
    return true;
}

/* The in-memory store has a run recorded by one writer only: each worker resumes what is its own.
 */
static int recover(struct sim_world *world, struct sim_lane *lane, unsigned index)
{
    struct recovery *recovery = &lane->recovery;
    int error = recovery_open(recovery, world->journal, 1, world->config.campaign.concurrency,
                              &world->fault);
    for (unsigned part = 0; error == 0 && part < recovery->part_count; part++)
        if (part != index)
            atomic_store(&recovery->parts[part].claimed, recovery->parts[part].count);
    lane->worker.recovery = recovery;
    return error;
}

static void wrap(struct sim_world *world, struct sim_lane *lane)
{
    struct worker *w = &lane->worker;
    lane->world = world;
    lane->is_over = w->sched.is_over;
    lane->settle = w->sched.settle;
    lane->ended = w->env.ended;
    w->sched.is_over = is_over;
    w->sched.settle = settle;
    w->env.ended = on_ended;
}

static int open_lane(struct sim_world *world, unsigned index)
{
    const struct sim_world_config *config = &world->config;
    const struct campaign_config *campaign = &config->campaign;
    struct sim_lane *lane = &world->lanes[index];
    struct worker *w = &lane->worker;
    unsigned lanes = campaign->threads;
    int error = config->is_resumed ? recover(world, lane, index) : 0;
    if (error != 0)
        return error;
    w->config = campaign;
    w->loop_ops = &loop_sim_ops;
    w->journal = world->journal;
    w->load = &world->load;
    w->index = index;
    w->count = campaign->threads;
    w->slots = campaign->concurrency / lanes + (index < campaign->concurrency % lanes);
    w->pool_bytes_max = campaign->memory_bytes_max;
    w->shape = (struct run_shape){
        .seed = campaign->seed,
        .timeout_ns = campaign->timeout_ns,
        .tool_latency = campaign->tool_latency,
        .prompt_bytes = campaign_dist_if_given(&campaign->prompt_bytes),
        .turns = campaign->turns,
        .tools = campaign->tools,
        .tool_effect = campaign->tool_effect,
        .tool_retry = campaign->tool_retry,
        .history = campaign->history,
        .exchange = campaign->model.rules,
        .ledger_fd = config->ledger_fd,
    };
    error = worker_open(w, &world->fault);
    if (error != 0) {
        recovery_close(&lane->recovery);
        return error;
    }
    world->lane_count++;
    wrap(world, lane);
    sim_journal_set_faults(w->env.journal, &config->faults);
    if (config->squat_ns > 0)
        error = sim_squatter_start(&world->squatters[index], w->env.journal,
                                   LOOP_SIM_START_NS + config->squat_ns);
    return error;
}

struct journal *sim_world_journal(const struct campaign_config *campaign, struct errmsg *why)
{
    struct journal *journal = NULL;
    const struct journal_config config = {.uri = "sim",
                                          .writers = campaign->threads,
                                          .retry_for_ns = RETRY_FOR_NS,
                                          .bytes_max = campaign->memory_bytes_max};
    return journal_open_ops(&journal, &sim_journal_ops, &config, why) == 0 ? journal : NULL;
}

int sim_world_open(struct sim_world *world, const struct sim_world_config *config)
{
    const struct campaign_config *campaign = &config->campaign;
    assert(campaign->threads <= SIM_WORKERS_MAX && campaign->threads <= campaign->concurrency);
    memset(world, 0, sizeof(*world));
    world->config = *config;
    world->slices = prng_stream(campaign->seed, 0, PRNG_TEST, 1);
    load_init(&world->load, campaign->runs, config->until_ns > 0 ? config->until_ns : UINT64_MAX);
    if (campaign_is_open_loop(campaign))
        world->load.plan = &world->config.campaign.arrival;
    world->ends = calloc(campaign->runs, sizeof(world->ends[0]));
    if (world->ends == NULL)
        return errmsg_set(&world->fault, -ENOMEM, "no memory");
    world->journal = config->journal;
    if (world->journal == NULL)
        world->journal = sim_world_journal(campaign, &world->fault);
    if (world->journal == NULL) {
        free(world->ends);
        return -ENOMEM;
    }
    int error = 0;
    for (unsigned i = 0; i < campaign->threads && error == 0; i++)
        error = open_lane(world, i);
    if (error != 0)
        sim_world_close(world);
    return error;
}

/* Turns until the slice or the work is over. */
static void run_slice(struct sim_world *world, struct sim_lane *lane)
{
    lane->turns_left =
        world->lane_count == 1 ? UINT64_MAX : prng_below(&world->slices, SLICE_TURNS_MAX) + 1;
    int error = sched_run(&lane->worker.sched);
    if (error != 0) {
        set_fault(world, strerrordesc_np(-error), 0);
        abort(); /* a lost wake-up: nothing can be closed any more */
    }
}

void sim_world_run(struct sim_world *world)
{
    unsigned done = 0;
    for (unsigned i = 0; i < world->lane_count; i++)
        worker_run(&world->lanes[i].worker,
                   LOOP_SIM_START_NS); /* no turn is left: it only begins */
    while (done < world->lane_count && !world->is_killed) {
        done = 0;
        for (unsigned i = 0; i < world->lane_count; i++) {
            if (!world->lanes[i].is_done && !world->is_killed)
                run_slice(world, &world->lanes[i]);
            done += world->lanes[i].is_done;
        }
    }
    for (unsigned i = 0; i < world->lane_count; i++)
        world->again_count += world->squatters[i].again_count;
}

void sim_world_close(struct sim_world *world)
{
    for (unsigned i = 0; i < world->lane_count; i++) {
        worker_close(&world->lanes[i].worker);
        sim_squatter_free(&world->squatters[i]);
        recovery_close(&world->lanes[i].recovery);
    }
    if (world->config.journal == NULL)
        journal_close(world->journal);
    free(world->ends);
}

uint64_t sim_world_started(const struct sim_world *world)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < world->lane_count; i++)
        sum += atomic_load(&world->lanes[i].worker.progress.runs_started);
    return sum;
}

bool sim_world_has_failed(const struct sim_world *world)
{
    bool has_failed = false;
    for (unsigned i = 0; i < world->lane_count; i++)
        has_failed = has_failed || sim_journal_has_failed(world->lanes[i].worker.env.journal);
    return has_failed;
}

static struct dist constant_zero(void)
{
    return (struct dist){.kind = DIST_CONSTANT, .unit = DIST_DURATION, .spec = "0"};
}

struct campaign_config sim_campaign(uint64_t runs)
{
    return (struct campaign_config){
        .runs = runs,
        .concurrency = (uint32_t)runs,
        .threads = 1,
        .seed = 1,
        .latency = constant_zero(),
        .tool_latency = constant_zero(),
        .turns = 2,
        .tools = 1,
        .tool_effect = TOOL_EFFECT_NOOP,
        .loop_name = "sim",
        .journal_uri = "sim",
        .memory_bytes_max = UINT64_C(256) << 20,
    };
}

void sim_draw_model(struct campaign_model *model, struct prng *p, bool is_plain)
{
    struct exchange_rules *rules = &model->rules;
    if (prng_below(p, 2) == 0) {
        model->tokens = (uint32_t)(1 + prng_below(p, 80));
        model->token_interval_ns = prng_below(p, 3) * 2 * NS_PER_MS;
    }
    if (prng_below(p, 2) == 0)
        model->error_rate = (double)prng_below(p, 40) / 100;
    rules->retries = (uint32_t)prng_below(p, 5);
    if (is_plain)
        return;
    if (model->tokens > 0)
        rules->stream_journal = (enum stream_journal)prng_below(p, 3);
    if (prng_below(p, 3) == 0)
        rules->timeout_ns = (20 + prng_below(p, 300)) * NS_PER_MS;
    if (prng_below(p, 3) == 0)
        rules->hedge_ns = (1 + prng_below(p, 19)) * NS_PER_MS;
}
