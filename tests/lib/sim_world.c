/* sim_world: see sim_world.h. */
#include "tests/lib/sim_world.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/loop_sim.h"

enum { SLICE_TURNS_MAX = 7 };

static void set_fault(struct sim_world *world, const char *text, uint64_t number)
{
    if (world->fault.text[0] == '\0')
        (void)errmsg_set(&world->fault, 0, "%s (%" PRIu64 ")", text, number);
}

static void check_in_flight(struct sim_world *world)
{
    /* Counted in two ways: slots, and runs handed out that have not ended. */
    uint64_t slots = atomic_load(&world->load.in_flight);
    uint64_t runs = load_claimed(&world->load) - world->ended_count;
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

/* Asked once a turn: the place to look at the world, and to let the other worker have its turn. */
static bool is_over(struct sched *sched)
{
    struct worker *worker = sched->owner;
    struct sim_lane *lane = container_of(worker, struct sim_lane, worker);
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

static int open_lane(struct sim_world *world, unsigned index)
{
    const struct sim_world_config *config = &world->config;
    const struct campaign_config *campaign = &config->campaign;
    struct sim_lane *lane = &world->lanes[index];
    struct worker *w = &lane->worker;
    unsigned lanes = campaign->threads;
    w->config = campaign;
    w->loop_ops = &loop_sim_ops;
    w->journal = world->journal;
    w->load = &world->load;
    w->index = index;
    w->slots = campaign->concurrency / lanes + (index < campaign->concurrency % lanes);
    w->pool_bytes_max = campaign->memory_bytes_max;
    w->shape = (struct run_shape){
        .seed = campaign->seed,
        .timeout_ns = campaign->timeout_ns,
        .tool_latency = campaign->tool_latency,
        .turns = campaign->turns,
        .tools = campaign->tools,
        .tool_effect = campaign->tool_effect,
        .ledger_fd = config->ledger_fd,
    };
    int error = worker_open(w, &world->fault);
    if (error != 0)
        return error;
    world->lane_count++;
    lane->world = world;
    lane->is_over = w->sched.is_over;
    lane->ended = w->env.ended;
    w->sched.is_over = is_over;
    w->env.ended = on_ended;
    sim_journal_set_faults(w->env.journal, &config->faults);
    if (config->squat_ns > 0)
        error = sim_squatter_start(&world->squatters[index], w->env.journal,
                                   LOOP_SIM_START_NS + config->squat_ns);
    return error;
}

int sim_world_open(struct sim_world *world, const struct sim_world_config *config)
{
    const struct campaign_config *campaign = &config->campaign;
    struct journal_config journal = {
        .uri = "sim", .writers = campaign->threads, .bytes_max = campaign->memory_bytes_max};
    assert(campaign->threads <= SIM_WORKERS_MAX && campaign->threads <= campaign->concurrency);
    memset(world, 0, sizeof(*world));
    world->config = *config;
    world->slices = prng_stream(campaign->seed, 0, PRNG_TEST, 1);
    load_init(&world->load, campaign->runs, config->until_ns > 0 ? config->until_ns : UINT64_MAX);
    world->ends = calloc(campaign->runs, sizeof(world->ends[0]));
    if (world->ends == NULL)
        return errmsg_set(&world->fault, -ENOMEM, "no memory");
    int error = journal_open_ops(&world->journal, &sim_journal_ops, &journal, &world->fault);
    if (error != 0) {
        free(world->ends);
        return error;
    }
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
    while (done < world->lane_count) {
        done = 0;
        for (unsigned i = 0; i < world->lane_count; i++) {
            if (!world->lanes[i].is_done)
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
    }
    journal_close(world->journal);
    free(world->ends);
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
