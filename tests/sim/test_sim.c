/*
 * A thousand campaigns on virtual clocks. Each seed draws a shape, latencies and faults; what the
 * journal holds afterwards is held against the rules of the design, and the same seed must give the
 * same bytes.
 *
 * SIM_SEEDS=N runs the seeds 1 to N (1000); SIM_SEED=N runs that one, which is how a failure is
 * replayed. The seeds run in a child process, so that an assertion of the engine or a sanitizer
 * that ends it is told with the seed, too.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/prng.h"
#include "tests/lib/loop_sim.h"
#include "tests/lib/sim_log.h"
#include "tests/lib/sim_world.h"

enum {
    SEEDS_DEFAULT = 1000,
    RUNS_MAX = 300,
    CONCURRENCY_MAX = 64,
    TURNS_MAX = 5,
    TOOLS_MAX = 5,
};

static const char *const latencies[] = {
    "0",
    "5ms",
    "250us",
    "uniform:0ms,20ms",
    "exp:10ms",
    "normal:10ms,3ms",
    "lognormal:p50=5ms,p99=50ms",
};

/* What the child process leaves for its parent to read. */
struct shared {
    uint64_t seed; /* that runs */
    uint64_t seeds_done;
    uint64_t records;
    uint64_t retries; /* of batches */
    uint64_t agains;  /* squatters that were told to come again */
    uint64_t runs_by_outcome[OUTCOME_COUNT];
    uint64_t runs_abandoned;
    char fault[ERRMSG_BYTES + 32];
};

/* --- what a seed draws --- */

static bool one_in(struct prng *p, uint64_t n)
{
    return prng_below(p, n) == 0;
}

static struct dist draw_latency(struct prng *p)
{
    struct dist d;
    struct errmsg why = {""};
    size_t i = prng_below(p, sizeof(latencies) / sizeof(latencies[0]));
    if (dist_parse(&d, latencies[i], DIST_DURATION, &why) != 0) {
        (void)fprintf(stderr, "%s: %s\n", latencies[i], why.text);
        abort();
    }
    return d;
}

static void draw_faults(struct prng *p, struct sim_world_config *config, uint64_t records)
{
    struct sim_faults *faults = &config->faults;
    faults->seed = config->campaign.seed;
    if (one_in(p, 2))
        faults->delay_ns_max = 1 + prng_below(p, 20 * NS_PER_MS);
    if (one_in(p, 3))
        faults->stall_ns = prng_below(p, 100 * NS_PER_MS);
    if (one_in(p, 3))
        faults->busy_ns_max = 1 + prng_below(p, NS_PER_MS);
    if (one_in(p, 6))
        faults->return_one_in = 2 + prng_below(p, 8);
    if (one_in(p, 8))
        faults->full_after = 1 + prng_below(p, records);
    if (one_in(p, 8))
        faults->error_at = 1 + prng_below(p, 40);
    if (one_in(p, 12))
        config->squat_ns = 1 + prng_below(p, 20 * NS_PER_MS);
    if (one_in(p, 3))
        config->campaign.timeout_ns = 1 + prng_below(p, 100 * NS_PER_MS);
    if (one_in(p, 12))
        config->until_ns = LOOP_SIM_START_NS + prng_below(p, 50 * NS_PER_MS);
    if (one_in(p, 12))
        config->stop_after = 1 + prng_below(p, config->campaign.runs);
    if (one_in(p, 12))
        config->abandon_after = 1 + prng_below(p, config->campaign.runs);
}

/* Whether what a run records is a function of its number alone, whoever drives it. */
static bool draw(uint64_t seed, struct sim_world_config *config)
{
    static const enum tool_effect effects[] = {TOOL_EFFECT_NONE, TOOL_EFFECT_NOOP,
                                               TOOL_EFFECT_LEDGER};
    struct prng p = prng_stream(seed, 0, PRNG_TEST, 2);
    struct campaign_config campaign = sim_campaign(1 + prng_below(&p, RUNS_MAX));
    campaign.seed = seed;
    campaign.concurrency = (uint32_t)(1 + prng_below(&p, CONCURRENCY_MAX));
    campaign.threads = campaign.concurrency > 1 && one_in(&p, 3) ? 2 : 1;
    campaign.turns = (uint32_t)(1 + prng_below(&p, TURNS_MAX));
    campaign.tools = (uint32_t)(1 + prng_below(&p, TOOLS_MAX));
    campaign.tool_effect = effects[prng_below(&p, 3)];
    campaign.latency = draw_latency(&p);
    campaign.tool_latency = draw_latency(&p);
    *config = (struct sim_world_config){.campaign = campaign, .ledger_fd = -1};
    bool is_plain = one_in(&p, 4);
    if (one_in(&p, 3))
        sim_draw_model(&config->campaign.model, &p, is_plain);
    if (!is_plain)
        draw_faults(&p, config, campaign.runs * campaign.turns * (1 + campaign.tools));
    return is_plain;
}

/* --- what must hold --- */

/* Sets the fault and comes back with false. */
static bool fault(struct shared *shared, uint64_t run, const char *text)
{
    if (shared->fault[0] == '\0')
        (void)snprintf(shared->fault, sizeof(shared->fault), "run %" PRIu64 ": %s", run, text);
    return false;
}

/* The ledger is read from outside: RUN CALL ATTEMPT, a line an effect. */
static bool read_ledger(struct shared *shared, const struct sim_world *world, uint64_t *effects)
{
    if (world->config.ledger_fd < 0)
        return true;
    FILE *file = fdopen(dup(world->config.ledger_fd), "r");
    char line[128];
    if (file == NULL || fseek(file, 0, SEEK_SET) != 0)
        return fault(shared, 0, "the ledger cannot be read");
    bool is_good = true;
    while (is_good && fgets(line, sizeof(line), file) != NULL) {
        uint64_t run = 0;
        uint32_t call = 0;
        int end = 0;
        if (sscanf(line, "%" SCNu64 " c%" SCNu32 " 1%n", &run, &call, &end) != 2 ||
            strcmp(line + end, "\n") != 0 || run >= world->config.campaign.runs || call < 1 ||
            call > 64)
            is_good = fault(shared, run, "a line of the ledger holds something else");
        else if ((effects[run] >> (call - 1) & 1) != 0)
            is_good = fault(shared, run, "a call has had its effect twice");
        else
            effects[run] |= UINT64_C(1) << (call - 1);
    }
    (void)fclose(file); /* it was only read */
    return is_good;
}

static bool check_end(struct shared *shared, const struct sim_world *world, uint64_t run,
                      size_t records, const struct sim_run_facts *facts)
{
    const struct sim_end *end = &world->ends[run];
    bool may_be_open = world->config.abandon_after > 0;
    if (end->count == 0 && !may_be_open)
        return fault(shared, run, "it never ended");
    if (end->count > 1)
        return fault(shared, run, "it ended more than once");
    if (end->count == 0)
        return !facts->has_end || fault(shared, run, "an abandoned run has recorded its end");
    if (end->acked != records)
        return fault(shared, run, "more or fewer records were acked than are there");
    if (facts->has_end != (end->outcome != OUTCOME_JOURNAL))
        return fault(shared, run, "it ended, and the record of its end says otherwise");
    if (facts->has_end && strcmp(facts->outcome, outcome_name(end->outcome)) != 0)
        return fault(shared, run, "its end has recorded another outcome");
    const struct campaign_model *model = &world->config.campaign.model;
    bool may_fail = model->error_rate > 0 || model->rules.timeout_ns > 0;
    if (end->outcome == OUTCOME_FAILED && !may_fail)
        return fault(shared, run, "it failed, and nothing made it fail");
    if (end->outcome == OUTCOME_JOURNAL && !sim_world_has_failed(world))
        return fault(shared, run, "the journal refused it without a reason");
    if (end->outcome == OUTCOME_TIMEOUT && world->config.campaign.timeout_ns == 0)
        return fault(shared, run, "it timed out without a timeout");
    return true;
}

static bool check_effects(struct shared *shared, const struct sim_world *world, uint64_t run,
                          uint64_t effects, const struct sim_run_facts *facts)
{
    if (world->config.campaign.tool_effect != TOOL_EFFECT_LEDGER)
        return true;
    if ((effects & ~facts->attempted) != 0)
        return fault(shared, run, "an effect without a recorded attempt");
    if ((facts->answered & ~effects) != 0)
        return fault(shared, run, "a recorded result without its effect");
    return true;
}

static bool check_runs(struct shared *shared, const struct sim_world *world,
                       const struct sim_log *log, const uint64_t *effects)
{
    const struct campaign_config *campaign = &world->config.campaign;
    const struct sim_run_shape shape = {
        .turns = campaign->turns,
        .tools = campaign->tools,
        .has_effect = campaign->tool_effect != TOOL_EFFECT_NONE,
    };
    uint64_t claimed = load_claimed(&world->load);
    size_t first = 0;
    for (uint64_t run = 0; run < campaign->runs; run++) {
        struct sim_run_facts facts;
        bool is_next = first < log->count && log->records[first].run == run;
        size_t count = is_next ? sim_log_run_length(log, first) : 0;
        const char *wrong = sim_log_check_run(log, first, count, &shape, &facts);
        if (wrong != NULL)
            return fault(shared, run, wrong);
        if (run >= claimed && (count > 0 || world->ends[run].count > 0))
            return fault(shared, run, "nobody started it");
        if (run < claimed && (!check_end(shared, world, run, count, &facts) ||
                              !check_effects(shared, world, run, effects[run], &facts)))
            return false;
        first += count;
    }
    return first == log->count || fault(shared, 0, "a record of no run");
}

/* The worker's own counts against what was seen. */
static bool check_counts(struct shared *shared, struct sim_world *world)
{
    uint64_t started = load_claimed(&world->load);
    uint64_t accounted = 0;
    bool may_be_fewer = world->config.stop_after > 0 || world->config.until_ns > 0 ||
                        world->config.abandon_after > 0 || sim_world_has_failed(world);
    for (unsigned i = 0; i < world->lane_count; i++) {
        struct worker *w = &world->lanes[i].worker;
        uint64_t ended = 0;
        struct journal_totals totals = journal_writer_totals(w->env.journal);
        struct errmsg why = {""};
        for (unsigned j = 0; j < OUTCOME_COUNT; j++) {
            ended += w->runs_by_outcome[j];
            shared->runs_by_outcome[j] += w->runs_by_outcome[j];
        }
        if (worker_read_back(w, &why) != 0 || w->readback.records != totals.records)
            return fault(shared, totals.records,
                         "the journal has acked more or fewer than it holds");
        if (totals.unknown != 0)
            return fault(shared, totals.unknown, "what has been answered is not known");
        if (atomic_load(&w->progress.runs_ended) != ended ||
            atomic_load(&w->progress.errors) != ended - w->runs_by_outcome[OUTCOME_COMPLETED])
            return fault(shared, ended, "the progress counts otherwise");
        if (w->response->count + w->retried->count != w->runs_by_outcome[OUTCOME_COMPLETED])
            return fault(shared, ended, "a completed run is not in its histogram");
        if ((w->env.first_error.text[0] != '\0') != (ended > w->runs_by_outcome[OUTCOME_COMPLETED]))
            return fault(shared, ended, "there is an error exactly when a run has not completed");
        accounted += ended + w->runs_abandoned;
        shared->runs_abandoned += w->runs_abandoned;
        shared->records += totals.records;
        shared->retries += totals.retries;
    }
    if (accounted != started || (started < world->config.campaign.runs && !may_be_fewer))
        return fault(shared, accounted, "runs got lost");
    uint64_t peak = atomic_load(&world->load.in_flight_peak);
    return peak <= started || fault(shared, peak, "a peak above the number of runs");
}

/* --- one history --- */

/* False with a fault. */
static bool simulate(struct shared *shared, const struct sim_world_config *config, uint64_t *digest)
{
    struct sim_world *world = aligned_alloc(64, sizeof(*world));
    struct sim_world_config with_ledger = *config;
    struct sim_log log = {0};
    uint64_t effects[RUNS_MAX] = {0};
    if (config->campaign.tool_effect == TOOL_EFFECT_LEDGER)
        with_ledger.ledger_fd = memfd_create("ledger", MFD_CLOEXEC);
    if (world == NULL || sim_world_open(world, &with_ledger) != 0)
        abort();
    sim_world_run(world);
    if (sim_log_read(&log, world->journal, SIM_SQUATTER_RUN) != 0)
        abort();
    sim_log_sort(&log);
    *digest = sim_log_digest(&log);
    shared->agains += world->again_count;
    if (world->fault.text[0] != '\0')
        (void)fault(shared, 0, world->fault.text);
    bool is_good = world->fault.text[0] == '\0' && check_counts(shared, world) &&
                   read_ledger(shared, world, effects) && check_runs(shared, world, &log, effects);
    sim_log_free(&log);
    sim_world_close(world);
    free(world);
    if (with_ledger.ledger_fd >= 0)
        (void)close(with_ledger.ledger_fd); /* it has been read */
    return is_good;
}

static bool run_seed(struct shared *shared, uint64_t seed)
{
    struct sim_world_config config;
    uint64_t first = 0;
    uint64_t second = 0;
    bool is_plain = draw(seed, &config);
    if (!simulate(shared, &config, &first) || !simulate(shared, &config, &second))
        return false;
    if (first != second)
        return fault(shared, seed, "the same seed has given other bytes");
    if (!is_plain)
        return true;
    if (config.campaign.concurrency > 1) {
        config.campaign.threads = 3 - config.campaign.threads;
        if (!simulate(shared, &config, &second))
            return false;
        if (first != second)
            return fault(shared, seed, "one worker and two have given other bytes");
    }
    config.campaign.seed = seed + SEEDS_DEFAULT;
    if (!simulate(shared, &config, &second))
        return false;
    return first != second || fault(shared, seed, "another seed has given the same bytes");
}

/* --- all seeds --- */

static uint64_t from_environment(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text != NULL ? strtoull(text, NULL, 10) : otherwise;
}

static void run_seeds(struct shared *shared, uint64_t first, uint64_t last)
{
    for (shared->seed = first; shared->seed <= last; shared->seed++) {
        if (!run_seed(shared, shared->seed))
            return;
        shared->seeds_done++;
    }
}

static void every_seed_keeps_the_rules(void **state)
{
    (void)state;
    uint64_t only = from_environment("SIM_SEED", 0);
    uint64_t count = only > 0 ? 1 : from_environment("SIM_SEEDS", SEEDS_DEFAULT);
    struct shared *shared =
        mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(shared, MAP_FAILED);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        run_seeds(shared, only > 0 ? only : 1, only > 0 ? only : count);
        exit(0); /* so that a leak is told */
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    bool is_good = status == 0 && shared->seeds_done == count;
    print_message("%" PRIu64 " seeds, %" PRIu64 " records; runs: %" PRIu64 " completed, %" PRIu64
                  " timed out, %" PRIu64 " refused by the journal, %" PRIu64 " abandoned; %" PRIu64
                  " appends came again, %" PRIu64 " batches\n",
                  shared->seeds_done, shared->records, shared->runs_by_outcome[OUTCOME_COMPLETED],
                  shared->runs_by_outcome[OUTCOME_TIMEOUT],
                  shared->runs_by_outcome[OUTCOME_JOURNAL], shared->runs_abandoned, shared->agains,
                  shared->retries);
    if (!is_good)
        print_error("seed %" PRIu64 ": %s (wait status %d); SIM_SEED=%" PRIu64 " replays it\n",
                    shared->seed, shared->fault[0] != '\0' ? shared->fault : "the process ended",
                    status, shared->seed);
    if (is_good && count >= SEEDS_DEFAULT) { /* else the faults have not been met */
        assert_true(shared->runs_by_outcome[OUTCOME_TIMEOUT] > 0);
        assert_true(shared->runs_by_outcome[OUTCOME_JOURNAL] > 0);
        assert_true(shared->runs_abandoned > 0);
        assert_true(shared->agains > 0);
        assert_true(shared->retries > 0);
    }
    (void)munmap(shared, sizeof(*shared)); /* ours, and whole */
    assert_true(is_good);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_seed_keeps_the_rules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
