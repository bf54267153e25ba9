/*
 * A thousand campaigns that are killed, at any turn or in the middle of a commit, and resumed by
 * another process, again and again, until every run that had begun has ended. What the journal
 * holds then is held against the rules of the design, as of a campaign that nothing had
 * interrupted; the audit finds nothing wrong in between; no effect has happened twice that was not
 * asked for twice; and where nothing was in doubt each run has written what it would have written
 * anyway.
 *
 * SIM_SEEDS=N runs the seeds 1 to N (1000); SIM_SEED=N runs that one. The seeds run in a child
 * process, so that an assertion of the engine is told with the seed, too.
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
#include <unistd.h>

#include "engine/verify.h"
#include "tests/lib/in_child.h"
#include "tests/lib/loop_sim.h"
#include "tests/lib/parsed_dist.h"
#include "tests/lib/sim_log.h"
#include "tests/lib/sim_world.h"

enum {
    SEEDS_DEFAULT = 1000,
    RUNS_MAX = 40,
    CONCURRENCY_MAX = 40,
    TURNS_MAX = 4,
    TOOLS_MAX = 4,
    KILLS_MAX = 8,
    CHILD_SECONDS_MAX = 600,
};

/* What the walk has come upon: a test that reaches nothing passes, too. */
enum tally {
    SEEDS,
    KILLS,
    RUNS_RESUMED,
    COMPLETED,
    UNKNOWN,
    RETRIED,
    COMPARED,
    DELTAS,
    MODEL_RETRIES,
    TALLIES,
};
static_assert((int)TALLIES <= (int)IN_CHILD_COUNTS, "they are the note's");

static const char *const latencies[] = {"0", "5ms", "uniform:0ms,20ms", "exp:10ms"};

/* A campaign with all its processes. */
struct life {
    struct in_child_note *note;
    struct sim_world_config config; /* of the next process */
    struct prng chance;
    unsigned kills;
    uint64_t model_calls;
    uint64_t tool_calls;
};

static bool one_in(struct prng *p, uint64_t n)
{
    return prng_below(p, n) == 0;
}

static const char *draw_latency(struct prng *p)
{
    return latencies[prng_below(p, sizeof(latencies) / sizeof(latencies[0]))];
}

static void draw(struct life *life, uint64_t seed)
{
    struct prng *p = &life->chance;
    *p = prng_stream(seed, 0, PRNG_TEST, 4);
    struct campaign_config campaign = sim_campaign(1 + prng_below(p, RUNS_MAX));
    campaign.seed = seed;
    campaign.concurrency = (uint32_t)(1 + prng_below(p, CONCURRENCY_MAX));
    campaign.threads = campaign.concurrency > 1 && one_in(p, 3) ? 2 : 1;
    campaign.turns = (uint32_t)(1 + prng_below(p, TURNS_MAX));
    campaign.tools = (uint32_t)(1 + prng_below(p, TOOLS_MAX));
    campaign.tool_effect = (enum tool_effect)prng_below(p, TOOL_EFFECT_LEDGER + 1);
    campaign.tool_retry = one_in(p, 2) ? AGENT_RETRY_UNKNOWN : AGENT_RETRY_HALT;
    campaign.history = one_in(p, 3) ? HISTORY_SNAPSHOT : HISTORY_DELTA;
    campaign.latency = latency_of(draw_latency(p));
    campaign.tool_latency = latency_of(draw_latency(p));
    if (one_in(p, 4))
        campaign.prompt_bytes = parsed_dist("uniform:0B,2KB", DIST_BYTES);
    if (one_in(p, 4))
        campaign.reply_bytes = parsed_dist("exp:300B", DIST_BYTES);
    if (one_in(p, 3) && campaign.reply_bytes.spec[0] == '\0')
        sim_draw_model(&campaign.model, p, false);
    life->config.campaign = campaign;
    struct sim_faults *faults = &life->config.faults;
    if (one_in(p, 2))
        faults->delay_ns_max = 1 + prng_below(p, 20 * NS_PER_MS);
    if (one_in(p, 4))
        faults->stall_ns = prng_below(p, 100 * NS_PER_MS);
    if (one_in(p, 4))
        faults->return_one_in = 2 + prng_below(p, 8);
}

/* When the next process is killed; the last one is not. */
static void draw_kill(struct life *life)
{
    struct prng *p = &life->chance;
    struct sim_world_config *config = &life->config;
    bool is_last = life->kills == KILLS_MAX || one_in(p, 6);
    config->faults.seed = life->config.campaign.seed * 16 + life->kills;
    config->kill_at_turn = 0;
    config->faults.dead_at = 0;
    if (is_last)
        return;
    if (one_in(p, 3))
        config->kill_at_turn = 1 + prng_below(p, 60);
    else
        config->faults.dead_at = 1 + prng_below(p, 20);
}

/* --- what must hold --- */

static bool audit(struct life *life)
{
    const struct verify_config config = {.memory_bytes = 1 << 20, .threads = 1};
    struct verify_result result;
    struct errmsg why = {.text = ""};
    if (verify_journal(life->config.journal, &config, &result, &why) != 0)
        in_child_fault(life->note, "the audit fails: %s", why.text);
    else if (result.runs_faulty > 0)
        in_child_fault(life->note, "run %" PRIu64 " seq %" PRIu32 ": %s", result.first[0].run,
                       result.first[0].seq, result.first[0].why);
    return life->note->faults_count == 0;
}

/* Each line an effect, of an attempt that is recorded: RUN CALL ATTEMPT. */
static bool check_ledger(struct life *life, const struct sim_run_facts *facts)
{
    uint8_t effects[RUNS_MAX][SIM_CALLS_MAX][KILLS_MAX + 2] = {{{0}}};
    if (life->config.campaign.tool_effect != TOOL_EFFECT_LEDGER)
        return true;
    FILE *file = fdopen(dup(life->config.ledger_fd), "r");
    char line[64];
    if (file == NULL || fseek(file, 0, SEEK_SET) != 0)
        abort();
    while (fgets(line, sizeof(line), file) != NULL) {
        unsigned run = 0;
        unsigned call = 0;
        unsigned attempt = 0;
        if (sscanf(line, "%u c%u %u", &run, &call, &attempt) != 3 || run >= RUNS_MAX || call < 1 ||
            call > SIM_CALLS_MAX || attempt < 1 || attempt > KILLS_MAX + 1)
            in_child_fault(life->note, "a line of the ledger holds something else: %s", line);
        else if (attempt > facts[run].attempts[call - 1])
            in_child_fault(life->note, "run %u: an effect without a recorded attempt", run);
        else if (effects[run][call - 1][attempt]++ > 0)
            in_child_fault(life->note, "run %u: an attempt has had its effect twice", run);
    }
    (void)fclose(file); /* it was only read */
    for (unsigned run = 0; run < RUNS_MAX; run++) {
        for (unsigned call = 0; call < SIM_CALLS_MAX; call++) {
            unsigned sum = 0;
            for (unsigned attempt = 1; attempt <= KILLS_MAX + 1; attempt++)
                sum += effects[run][call][attempt];
            if (sum > 1 && life->config.campaign.tool_retry == AGENT_RETRY_HALT)
                in_child_fault(life->note, "run %u: a call has had its effect twice", run);
            if (sum == 0 && (facts[run].answered >> call & 1) != 0)
                in_child_fault(life->note, "run %u: a recorded result without its effect", run);
        }
    }
    return life->note->faults_count == 0;
}

static bool is_retried(const struct sim_run_facts *facts)
{
    for (unsigned call = 0; call < SIM_CALLS_MAX; call++)
        if (facts->attempts[call] > 1)
            return true;
    return false;
}

/* The same run of a campaign that nothing has interrupted. What is recorded while the model is at
 * work depends on when it was cut off. Results that come at another time after
 * a kill may come in another order. */
static bool is_comparable(const struct life *life, const struct sim_run_facts *facts)
{
    const struct campaign_config *campaign = &life->config.campaign;
    const struct campaign_model *model = &campaign->model;
    bool is_exchanged = model->rules.stream_journal != STREAM_JOURNAL_NONE ||
                        model->rules.timeout_ns > 0 || model->error_rate > 0;
    return strcmp(facts->outcome, "completed") == 0 && !is_retried(facts) && !is_exchanged &&
           (campaign->tools == 1 || strcmp(campaign->tool_latency.spec, "0") == 0);
}

static void compare_run(struct life *life, const struct sim_log *log, size_t first, size_t count,
                        const struct sim_log *whole)
{
    uint64_t run = log->records[first].run;
    size_t was = 0;
    while (was < whole->count && whole->records[was].run != run)
        was++;
    if (sim_log_run_length(whole, was) != count)
        in_child_fault(life->note, "run %" PRIu64 ": another number of records", run);
    for (size_t i = 0; i < count && life->note->faults_count == 0; i++)
        if (log->records[first + i].digest != whole->records[was + i].digest)
            in_child_fault(life->note, "run %" PRIu64 " seq %zu: other bytes", run, i);
    life->note->counts[COMPARED]++;
}

static bool check_runs(struct life *life, const struct sim_log *log, const struct sim_log *whole)
{
    const struct campaign_config *campaign = &life->config.campaign;
    const struct sim_run_shape shape = {
        .turns = campaign->turns,
        .tools = campaign->tools,
        .has_effect = campaign->tool_effect != TOOL_EFFECT_NONE,
        .may_retry = campaign->tool_retry == AGENT_RETRY_UNKNOWN,
        .may_halt = campaign->tool_retry == AGENT_RETRY_HALT,
        .may_resume = true,
    };
    struct sim_run_facts facts[RUNS_MAX] = {{0}};
    for (size_t first = 0, count; first < log->count; first += count) {
        uint64_t run = log->records[first].run;
        count = sim_log_run_length(log, first);
        const char *wrong = sim_log_check_run(log, first, count, &shape, &facts[run]);
        if (wrong == NULL && !facts[run].has_end)
            wrong = "it has not ended";
        if (wrong != NULL)
            in_child_fault(life->note, "run %" PRIu64 ": %s", run, wrong);
        if (life->note->faults_count > 0)
            return false;
        life->note->counts[COMPLETED] += strcmp(facts[run].outcome, "completed") == 0;
        life->note->counts[UNKNOWN] += strcmp(facts[run].outcome, "unknown") == 0;
        life->note->counts[RETRIED] += is_retried(&facts[run]);
        life->note->counts[DELTAS] += facts[run].deltas;
        life->note->counts[MODEL_RETRIES] += facts[run].retries;
        if (is_comparable(life, &facts[run]))
            compare_run(life, log, first, count, whole);
    }
    return check_ledger(life, facts);
}

/* --- one history --- */

static void read_log(struct sim_log *log, struct journal *journal)
{
    if (sim_log_read(log, journal, SIM_SQUATTER_RUN) != 0)
        abort();
    sim_log_sort(log);
}

/* One process, to its end or until it is killed. */
static bool live(struct life *life)
{
    struct sim_world *world = aligned_alloc(64, sizeof(*world));
    if (world == NULL || sim_world_open(world, &life->config) != 0)
        abort();
    sim_world_run(world);
    bool is_killed = world->is_killed;
    if (world->fault.text[0] != '\0')
        in_child_fault(life->note, "%s", world->fault.text);
    for (unsigned i = 0; i < world->lane_count; i++) {
        const struct worker *w = &world->lanes[i].worker;
        life->note->counts[RUNS_RESUMED] += w->runs_resumed;
        if (w->runs_by_outcome[OUTCOME_DIVERGED] + w->runs_by_outcome[OUTCOME_JOURNAL] > 0 ||
            w->error.text[0] != '\0')
            in_child_fault(life->note, "%s%s", w->env.first_error.text, w->error.text);
    }
    sim_world_close(world);
    free(world);
    return is_killed;
}

/* A campaign with all its kills; what is in the journal at the end, and a digest of it. */
static bool live_on(struct life *life, uint64_t seed, const struct sim_log *whole, uint64_t *digest)
{
    struct errmsg why;
    struct sim_log log = {0};
    struct in_child_note *note = life->note;
    *life = (struct life){.note = note};
    draw(life, seed);
    life->config.journal = sim_world_journal(&life->config.campaign, &why);
    life->config.ledger_fd = memfd_create("ledger", MFD_CLOEXEC);
    if (life->config.journal == NULL || life->config.ledger_fd < 0)
        abort();
    draw_kill(life);
    while (live(life) && audit(life)) {
        life->kills++;
        life->config.is_resumed = true;
        draw_kill(life);
    }
    if (audit(life)) {
        read_log(&log, life->config.journal);
        *digest = sim_log_digest(&log);
        (void)check_runs(life, &log, whole);
    }
    life->note->counts[KILLS] += life->kills;
    sim_log_free(&log);
    journal_close(life->config.journal);
    (void)close(life->config.ledger_fd); /* it has been read */
    return life->note->faults_count == 0;
}

/* The same campaign without a kill, a fault or a ledger. */
static void live_undisturbed(uint64_t seed, struct sim_log *whole)
{
    struct life life = {.note = NULL};
    draw(&life, seed);
    struct sim_world *world = aligned_alloc(64, sizeof(*world));
    life.config.ledger_fd = memfd_create("ledger", MFD_CLOEXEC);
    life.config.faults = (struct sim_faults){.seed = seed};
    if (world == NULL || sim_world_open(world, &life.config) != 0)
        abort();
    sim_world_run(world);
    read_log(whole, world->journal);
    sim_world_close(world);
    free(world);
    (void)close(life.config.ledger_fd); /* nobody reads it */
}

static void run_seeds(void *arg, struct in_child_note *note)
{
    const uint64_t *range = arg;
    struct life life = {.note = note};
    for (uint64_t seed = range[0]; seed <= range[1]; seed++) {
        struct sim_log whole = {0};
        uint64_t first = 0;
        uint64_t second = 0;
        in_child_case(note, "SIM_SEED=%" PRIu64, seed);
        live_undisturbed(seed, &whole);
        if (live_on(&life, seed, &whole, &first) && live_on(&life, seed, &whole, &second) &&
            first != second)
            in_child_fault(note, "the same seed has given other bytes");
        sim_log_free(&whole);
        if (note->faults_count > 0)
            return;
        note->counts[SEEDS]++;
    }
}

static void every_campaign_is_finished_in_the_end(void **state)
{
    (void)state;
    uint64_t only = in_child_setting("SIM_SEED", 0);
    uint64_t count = in_child_setting("SIM_SEEDS", SEEDS_DEFAULT);
    uint64_t range[] = {only > 0 ? only : 1, only > 0 ? only : count};
    struct in_child_note *note = in_child_run(run_seeds, range, CHILD_SECONDS_MAX);
    assert_non_null(note);
    const uint64_t *counts = note->counts;
    print_message("%" PRIu64 " seeds, %" PRIu64 " kills, %" PRIu64 " runs resumed; %" PRIu64
                  " completed, %" PRIu64 " unknown, %" PRIu64 " attempted again, %" PRIu64
                  " as without a kill\n",
                  counts[SEEDS], counts[KILLS], counts[RUNS_RESUMED], counts[COMPLETED],
                  counts[UNKNOWN], counts[RETRIED], counts[COMPARED]);
    assert_int_equal(note->faults_count, 0);
    if (range[1] - range[0] + 1 >= SEEDS_DEFAULT) { /* else not all has been met */
        assert_true(counts[KILLS] > SEEDS_DEFAULT && counts[RUNS_RESUMED] > 10 * SEEDS_DEFAULT);
        assert_true(counts[COMPLETED] > SEEDS_DEFAULT && counts[UNKNOWN] > SEEDS_DEFAULT / 10);
        assert_true(counts[RETRIED] > SEEDS_DEFAULT / 10 && counts[COMPARED] > SEEDS_DEFAULT);
        assert_true(counts[DELTAS] > SEEDS_DEFAULT && counts[MODEL_RETRIES] > SEEDS_DEFAULT / 2);
    }
    in_child_end(note);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_campaign_is_finished_in_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
