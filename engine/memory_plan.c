/*
 * memory_plan: see memory_plan.h. First what runs of known size take, then what the drawn ones
 * take, then how both are shared out.
 */
#include "engine/memory_plan.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>

#include "engine/base/chunk.h"
#include "engine/base/prose.h"
#include "engine/exchange.h"
#include "engine/recovery.h"
#include "engine/run.h"

/* Messages and records, with what is around them. Drawn texts come on top of the short ones. */
enum {
    INPUT_BYTES = 60,         /* the user's message */
    REPLY_BYTES = 75,         /* an assistant's message, without its calls */
    CALL_BYTES = 125,         /* a call in it, and the message with its result */
    RUN_RECORDS_BYTES = 263,  /* begin, end, index */
    FINAL_RECORD_BYTES = 300, /* model, of the last turn */
    TURN_RECORD_BYTES = 216,  /* model, of a turn before, without its calls */
    CALL_RECORDS_BYTES = 250, /* a call in it, attempt and tool */
    CALL_RECORD_BYTES = 60,   /* of these, in the model record */
    TOOL_TASK_BYTES = 256,    /* a call in flight */
    DEADLINE_BYTES = 40,      /* a slot's, with -timeout */
    TOKEN_BYTES = 4,          /* of a streamed reply, on average */
    DELTA_RECORD_BYTES = 60,  /* without the text */
    RETRY_RECORD_BYTES = 90,
    BEGUN_BYTES = CHUNK_HUGE_BYTES, /* a worker's last chunk; its thread is counted with it */
};

/* A thread has its stack, its allocator's arena, histograms, rings, batches, and chunks that it has
 * begun; the process its code and libraries. */
#define THREAD_BYTES (UINT64_C(16) << 20)
#define PROCESS_BYTES (UINT64_C(16) << 20)
/* What a store that is not in memory takes for itself, a shard: its cache, and its table of runs.
 */
#define STORE_BYTES (UINT64_C(24) << 20)

/* All workers together: a start must not take seconds. */
#define WARM_BYTES_MAX (UINT64_C(2) << 30)
/* Each worker: since chunks are cut and seldom used up; and for histograms and batches. */
#define WARM_SPARE_BYTES_MAX ((uint64_t)2 * CHUNK_HUGE_BYTES)
#define WARM_FIXED_BYTES ((uint64_t)2 * CHUNK_HUGE_BYTES)

static uint64_t add(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static uint64_t multiply(uint64_t a, uint64_t b)
{
    uint64_t product = 0;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t history_bytes(const struct campaign_config *config)
{
    uint64_t turns = config->turns - 1;
    uint64_t history = INPUT_BYTES + turns * (REPLY_BYTES + config->tools * CALL_BYTES);
    uint64_t block = HISTORY_BYTES_MIN;
    if (config->turns <= 2 && config->tools <= 1)
        return block; /* it just fits */
    while (block < history)
        block *= 2;
    /* The smaller blocks that it has outgrown are as large together, and stay with the pool; and
     * large blocks leave the ends of chunks unused. */
    return 2 * block + block / 2;
}

static uint64_t recorded_bytes(const struct campaign_config *config)
{
    uint64_t turns = config->turns - 1;
    return RUN_RECORDS_BYTES + FINAL_RECORD_BYTES +
           turns * (TURN_RECORD_BYTES + config->tools * CALL_RECORDS_BYTES);
}

/* --- sizes that are drawn --- */

enum {
    BLOCK_SIZES = 17, /* of histories: HISTORY_BYTES_MIN << 0 to 16 */
    SURVEY_DRAWS = 32768,
    SURVEY_RUNS_MIN = 64,
    SURVEY_RUNS_MAX = 1024,
};
static_assert(HISTORY_BYTES_MIN << (BLOCK_SIZES - 1) == JOURNAL_PAYLOAD_BYTES_MAX,
              "the largest history");

/* What the first runs of a campaign take. */
struct survey {
    uint64_t runs;
    double records_mean; /* bytes of a run's records */
    double records_squares;
    uint64_t run_bytes_max; /* of a run's records, as they are */
    uint64_t record_bytes_max;
    uint64_t history_bytes_max;
    uint64_t users[BLOCK_SIZES]; /* runs whose history is in a block of that size for a time */
};

static bool is_surveyed(const struct campaign_config *config)
{
    return campaign_dist_if_given(&config->prompt_bytes) != NULL ||
           campaign_dist_if_given(&config->reply_bytes) != NULL ||
           config->history != HISTORY_DELTA || config->model.tokens > 0 ||
           config->model.error_rate > 0;
}

static bool is_constant(const struct campaign_config *config)
{
    return config->prompt_bytes.kind == DIST_CONSTANT && config->reply_bytes.kind == DIST_CONSTANT;
}

static uint64_t draw(const struct campaign_config *config, const struct dist *dist, uint64_t run,
                     enum prng_purpose purpose, uint64_t turn)
{
    return campaign_dist_if_given(dist) == NULL
               ? 0
               : prose_draw_bytes(dist, prng_stream(config->seed, run, purpose, turn));
}

static uint64_t draw_reply(const struct campaign_config *config, uint64_t run, uint32_t turn)
{
    return config->model.tokens > 0
               ? (uint64_t)config->model.tokens * TOKEN_BYTES
               : draw(config, &config->reply_bytes, run, PRNG_REPLY_BYTES, turn);
}

/* Records of the pieces of a reply and of tries that fail, of one turn. */
static uint64_t exchange_records(const struct campaign_config *config)
{
    const struct campaign_model *model = &config->model;
    uint64_t text = (uint64_t)model->tokens * TOKEN_BYTES;
    uint64_t deltas = 0;
    double failures = 0;
    if (model->rules.stream_journal == STREAM_JOURNAL_TOKEN)
        deltas = model->tokens;
    else if (model->rules.stream_journal == STREAM_JOURNAL_COALESCED)
        deltas = text / COALESCE_CHARS_MAX + 1;
    for (uint32_t retry = 0; retry < model->rules.retries && model->error_rate > 0; retry++)
        failures += pow(model->error_rate, retry + 1.0);
    return (deltas > 0 ? text : 0) + deltas * DELTA_RECORD_BYTES +
           (uint64_t)(failures * RETRY_RECORD_BYTES);
}

/* What a run in flight has besides, where its model calls are not plain ones. */
static uint64_t exchange_bytes(const struct campaign_config *config)
{
    const struct campaign_model *model = &config->model;
    uint64_t text = model->rules.stream_journal == STREAM_JOURNAL_NONE
                        ? 0
                        : least((uint64_t)model->tokens * TOKEN_BYTES, COALESCE_TEXT_BYTES);
    return exchange_is_wanted(&model->rules) ? sizeof(struct exchange) * 5 / 4 + 4 * text : 0;
}

/* The memory journal's chunks lose their rest to a record that does not fit: the larger it is, the
 * more often, and the more. Above half a chunk it has one to itself. */
static uint64_t kept_bytes(uint64_t record)
{
    const uint64_t chunk = CHUNK_HUGE_BYTES;
    if (record <= chunk / 2)
        return record + record * record / (chunk / 2);
    return (record + chunk - 1) / chunk * chunk;
}

static unsigned block_size_of(uint64_t history)
{
    unsigned size = 0;
    while (size + 1 < BLOCK_SIZES && (uint64_t)HISTORY_BYTES_MIN << size < history)
        size++;
    return size;
}

static void survey_run(struct survey *s, const struct campaign_config *config, uint64_t number)
{
    uint64_t input = draw(config, &config->prompt_bytes, number, PRNG_PROMPT_BYTES, 0);
    uint64_t history = INPUT_BYTES + input;
    uint64_t records = kept_bytes(RUN_RECORDS_BYTES + input);
    uint64_t run = RUN_RECORDS_BYTES + input;
    uint64_t record_max = run;
    unsigned first_block = block_size_of(history);
    for (uint32_t turn = 0; turn < config->turns && history < JOURNAL_PAYLOAD_BYTES_MAX; turn++) {
        uint64_t reply = draw_reply(config, number, turn);
        uint64_t exchange = exchange_records(config);
        bool is_last = turn + 1 == config->turns;
        uint64_t calls = is_last ? 0 : config->tools;
        uint64_t record = (is_last ? FINAL_RECORD_BYTES : TURN_RECORD_BYTES) + reply;
        if (config->history == HISTORY_SNAPSHOT)
            record += history + calls * CALL_RECORD_BYTES;
        history += REPLY_BYTES + reply + calls * CALL_BYTES;
        records += kept_bytes(record) + calls * CALL_RECORDS_BYTES + exchange;
        run += record + calls * CALL_RECORDS_BYTES + exchange;
        record_max = record > record_max ? record : record_max;
    }
    history = least(history, JOURNAL_PAYLOAD_BYTES_MAX);
    s->runs++;
    s->records_mean += ((double)records - s->records_mean) / (double)s->runs;
    s->records_squares += (double)records * (double)records;
    s->run_bytes_max = run > s->run_bytes_max ? run : s->run_bytes_max;
    s->record_bytes_max = record_max > s->record_bytes_max ? record_max : s->record_bytes_max;
    s->history_bytes_max = history > s->history_bytes_max ? history : s->history_bytes_max;
    s->users[0]++; /* where it begins */
    for (unsigned size = first_block; size <= block_size_of(history); size++)
        s->users[size] += size > 0;
}

static struct survey survey_runs(const struct campaign_config *config, uint64_t runs)
{
    struct survey s = {0};
    uint64_t wanted = SURVEY_DRAWS / config->turns;
    wanted = wanted < SURVEY_RUNS_MIN ? SURVEY_RUNS_MIN : least(wanted, SURVEY_RUNS_MAX);
    wanted = is_constant(config) ? 1 : least(wanted, runs);
    while (s.runs < wanted)
        survey_run(&s, config, s.runs);
    return s;
}

/* The records of as many runs, with what the mean of those looked at may be off by. */
static uint64_t surveyed_records(const struct survey *s, const struct campaign_config *config,
                                 uint64_t runs)
{
    double mean = s->records_mean;
    double variance = s->records_squares / (double)s->runs - mean * mean;
    if (variance > 0 && s->runs < runs && !is_constant(config))
        mean += 3 * sqrt(variance / (double)s->runs);
    double bytes = mean * (double)runs;
    return bytes < 0x1p63 ? (uint64_t)bytes : UINT64_MAX;
}

/* What the histories of a worker's runs in flight take. A run uses one block after the other, and
 * the pool keeps them all: of each size there are as many as were ever used at once. */
static uint64_t surveyed_histories(const struct survey *s, const struct campaign_config *config,
                                   uint64_t slots)
{
    double bytes = 0;
    for (unsigned size = 0; size < BLOCK_SIZES; size++) {
        double users = (double)s->users[size];
        if (!is_constant(config))
            users += 2 * sqrt(users); /* of those looked at, there could have been as many */
        double at_once = users / (double)s->runs * (double)slots;
        if (!is_constant(config) && at_once > 0)
            at_once += 3 * sqrt(at_once) + 1;
        at_once = at_once < (double)slots ? at_once : (double)slots;
        bytes += at_once * (double)((uint64_t)HISTORY_BYTES_MIN << size);
    }
    return (uint64_t)(bytes * 1.25); /* ends of chunks, and the allocator's size classes */
}

/* --- the whole --- */

static bool is_kept_in_memory(const struct campaign_config *config)
{
    struct journal_config journal = campaign_journal_config(config);
    return journal_keeps_in_memory(&journal);
}

/* Arrivals at random may be more than are expected: six deviations. */
uint64_t memory_plan_runs(const struct campaign_config *config)
{
    uint64_t issuing_ns = campaign_issuing_ns(config);
    bool has_warmup = campaign_has_warmup(config);
    if (has_warmup && !campaign_is_open_loop(config))
        return 0;
    if (has_warmup && config->duration_ns == 0)
        issuing_ns = config->warmup_ns; /* and then as many as are counted */
    else if (config->runs > 0 || config->duration_ns == 0 || !campaign_is_open_loop(config))
        return config->runs;
    double expected = arrival_plan_expected(&config->arrival, issuing_ns);
    if (config->arrival.process == ARRIVAL_POISSON)
        expected += 6 * sqrt(expected);
    return config->runs + (uint64_t)expected + 1;
}

uint64_t memory_plan_runs_in_flight(const struct campaign_config *config)
{
    uint64_t runs = memory_plan_runs(config);
    return runs > 0 ? least(runs, config->concurrency) : config->concurrency;
}

uint32_t memory_plan_workers(const struct campaign_config *config)
{
    struct journal_config journal = campaign_journal_config(config);
    uint32_t workers =
        config->threads < config->concurrency ? config->threads : config->concurrency;
    uint32_t writers = journal_writers_max(&journal);
    return workers < writers ? workers : writers;
}

uint64_t memory_plan_runs_of_worker(const struct campaign_config *config)
{
    uint64_t workers = memory_plan_workers(config);
    assert(workers > 0); /* threads and concurrency are at least 1 */
    return (memory_plan_runs_in_flight(config) + workers - 1) / workers;
}

/* Of tool calls, and of model calls that are not plain ones. */
static uint64_t calls_bytes(const struct campaign_config *config)
{
    uint64_t tools = config->turns > 1 ? (uint64_t)config->tools * TOOL_TASK_BYTES : 0;
    return memory_plan_runs_in_flight(config) * (tools + exchange_bytes(config));
}

/* The records that the workers have read of the runs that they resume. */
static uint64_t blocks_bytes(const struct campaign_config *config, uint64_t run_bytes,
                             uint64_t run_bytes_max)
{
    if (config->mode != JOURNAL_RESUME)
        return 0;
    return memory_plan_workers(config) * recovery_block_bytes_max(run_bytes, run_bytes_max);
}

/* What the journal's writers and the store hold of records that are on their way: no run has more
 * than one, in blocks that double. In memory they are next to nothing unless sizes are drawn. */
static uint64_t batches_bytes(const struct campaign_config *config, uint64_t record_bytes_max)
{
    uint64_t workers = memory_plan_workers(config);
    uint64_t runs = memory_plan_runs_of_worker(config);
    uint64_t batches = least(JOURNAL_WRITER_BYTES_MAX, multiply(4 * runs, record_bytes_max));
    uint64_t store = is_kept_in_memory(config) ? 0 : STORE_BYTES;
    return workers * batches + store * (config->shards > 0 ? config->shards : 1);
}

/* Sizes that are drawn in place of those that are known. Scratch is as large as the largest of them
 * make it, which without them is next to nothing. */
static void plan_surveyed(struct memory_plan *plan, const struct campaign_config *config,
                          uint64_t runs)
{
    uint64_t workers = memory_plan_workers(config);
    struct survey s = survey_runs(config, runs);
    uint64_t scratch = 4 * s.history_bytes_max; /* it doubles, and moves as it does */
    plan->fixed += workers * scratch + batches_bytes(config, s.record_bytes_max);
    plan->fixed += blocks_bytes(config, (uint64_t)s.records_mean, s.run_bytes_max);
    plan->histories = workers * surveyed_histories(&s, config, memory_plan_runs_of_worker(config)) +
                      calls_bytes(config);
    plan->records = surveyed_records(&s, config, runs);
}

struct memory_plan memory_plan_make(const struct campaign_config *config)
{
    uint64_t in_flight = memory_plan_runs_in_flight(config);
    uint64_t planned = memory_plan_runs(config);
    uint64_t runs = planned > 0 ? planned : in_flight;
    uint64_t slot = sizeof(struct run) + (config->timeout_ns > 0 ? DEADLINE_BYTES : 0);
    struct memory_plan plan = {
        .fixed = PROCESS_BYTES + memory_plan_workers(config) * THREAD_BYTES + in_flight * slot,
        .histories = in_flight * history_bytes(config) + calls_bytes(config),
        .records = multiply(runs, recorded_bytes(config)),
    };
    if (is_surveyed(config))
        plan_surveyed(&plan, config, runs);
    else
        plan.fixed += blocks_bytes(config, recorded_bytes(config), recorded_bytes(config));
    if (!is_kept_in_memory(config)) {
        if (!is_surveyed(config))
            plan.fixed += batches_bytes(config, FINAL_RECORD_BYTES + config->tools * CALL_BYTES);
        plan.records = 0;
    }
    return plan;
}

uint64_t memory_plan_recorded_bytes(const struct campaign_config *config)
{
    uint64_t runs = memory_plan_runs(config);
    if (!is_surveyed(config))
        return multiply(runs, recorded_bytes(config));
    if (runs == 0)
        return 0;
    struct survey s = survey_runs(config, runs);
    return surveyed_records(&s, config, runs);
}

uint64_t memory_plan_total(const struct memory_plan *plan)
{
    return add(plan->records, plan->fixed + plan->histories);
}

/* What is left once the process, its threads and slots have theirs. */
static uint64_t left_bytes(const struct campaign_config *config, const struct memory_plan *plan)
{
    return config->memory_bytes_max - least(plan->fixed, config->memory_bytes_max);
}

/* The payloads' part of what is left: what was planned, and less only where that leaves the records
 * less than was planned for them. Where sizes are drawn, a quarter of what nobody has planned for
 * is theirs too, since a tail may hold what none of the runs that were looked at has; and all of it
 * where the journal keeps nothing. */
static uint64_t histories_max(const struct campaign_config *config, const struct memory_plan *plan)
{
    uint64_t left = left_bytes(config, plan);
    if (!is_kept_in_memory(config))
        return left;
    uint64_t planned = least(plan->histories, left - least(plan->records, left / 2));
    uint64_t spare = left - least(add(planned, plan->records), left);
    return planned + (is_constant(config) ? 0 : spare / 4);
}

uint64_t memory_plan_pools_max(const struct campaign_config *config)
{
    struct memory_plan plan = memory_plan_make(config);
    return histories_max(config, &plan) + (uint64_t)memory_plan_workers(config) * BEGUN_BYTES;
}

uint64_t memory_plan_journal_max(const struct campaign_config *config)
{
    struct memory_plan plan = memory_plan_make(config);
    return left_bytes(config, &plan) - histories_max(config, &plan) +
           (uint64_t)memory_plan_workers(config) * BEGUN_BYTES;
}

uint64_t memory_plan_warm(const struct campaign_config *config)
{
    struct memory_plan plan = memory_plan_make(config);
    uint64_t history = plan.histories - calls_bytes(config);
    uint64_t bytes = least(add(plan.records, history), config->memory_bytes_max);
    bytes = least(bytes, WARM_BYTES_MAX) / memory_plan_workers(config);
    return bytes + least(bytes, WARM_SPARE_BYTES_MAX) + WARM_FIXED_BYTES;
}
