/* memory_plan: see memory_plan.h. */
#include "engine/memory_plan.h"

#include "engine/base/chunk.h"
#include "engine/run.h"

/* Messages and records, with what is around them. */
enum {
    INPUT_BYTES = 60,               /* the user's message */
    REPLY_BYTES = 75,               /* an assistant's message, without its calls */
    CALL_BYTES = 125,               /* a call in it, and the message with its result */
    RUN_RECORDS_BYTES = 263,        /* begin, end, index */
    FINAL_RECORD_BYTES = 300,       /* model, of the last turn */
    TURN_RECORD_BYTES = 216,        /* model, of a turn before, without its calls */
    CALL_RECORDS_BYTES = 250,       /* a call in it, attempt and tool */
    TOOL_TASK_BYTES = 256,          /* a call in flight */
    DEADLINE_BYTES = 40,            /* a slot's, with -timeout */
    BEGUN_BYTES = CHUNK_HUGE_BYTES, /* a worker's last chunk; its thread is counted with it */
};

/* A thread has its stack, its allocator's arena, histograms, rings, batches, and chunks that it has
 * begun; the process its code and libraries. */
#define THREAD_BYTES (UINT64_C(16) << 20)
#define PROCESS_BYTES (UINT64_C(16) << 20)

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

uint64_t memory_plan_runs_in_flight(const struct campaign_config *config)
{
    return config->runs > 0 ? least(config->runs, config->concurrency) : config->concurrency;
}

uint32_t memory_plan_workers(const struct campaign_config *config)
{
    return config->threads < config->concurrency ? config->threads : config->concurrency;
}

struct memory_plan memory_plan_make(const struct campaign_config *config)
{
    uint64_t in_flight = memory_plan_runs_in_flight(config);
    uint64_t runs = config->runs > 0 ? config->runs : in_flight;
    uint64_t slot = sizeof(struct run) + (config->timeout_ns > 0 ? DEADLINE_BYTES : 0);
    uint64_t tools = config->turns > 1 ? (uint64_t)config->tools * TOOL_TASK_BYTES : 0;
    return (struct memory_plan){
        .fixed = PROCESS_BYTES + memory_plan_workers(config) * THREAD_BYTES + in_flight * slot,
        .histories = in_flight * (history_bytes(config) + tools),
        .records = multiply(runs, recorded_bytes(config)),
    };
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
 * less than was planned for them. */
static uint64_t histories_max(const struct campaign_config *config, const struct memory_plan *plan)
{
    uint64_t left = left_bytes(config, plan);
    return least(plan->histories, left - least(plan->records, left / 2));
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
    uint64_t history = memory_plan_runs_in_flight(config) * history_bytes(config);
    uint64_t bytes = least(add(plan.records, history), config->memory_bytes_max);
    bytes = least(bytes, WARM_BYTES_MAX) / memory_plan_workers(config);
    return bytes + least(bytes, WARM_SPARE_BYTES_MAX) + WARM_FIXED_BYTES;
}
