/*
 * memory_plan: what a campaign is going to take, told from its shape before anything is allocated,
 * and how the memory that it may take is shared out.
 *
 * An estimate of the stub's texts and their frames, a little above what they are. Threading: pure
 * functions. Units: bytes; UINT64_MAX stands for more than can be counted.
 */
#ifndef BENCH_MEMORY_PLAN_H
#define BENCH_MEMORY_PLAN_H

#include <stdint.h>

#include "engine/campaign.h"

struct memory_plan {
    uint64_t fixed;     /* the process, its threads, the slots that can be filled */
    uint64_t histories; /* conversations and tool calls of the runs in flight */
    uint64_t
        records; /* of all runs; of those in flight when it is not said how many there will be */
};

struct memory_plan memory_plan_make(const struct campaign_config *config);

uint64_t memory_plan_total(const struct memory_plan *plan);

/* Of config->memory_bytes_max, less the fixed part: what all pools of payloads together may take,
 * and what the journal may hold. */
uint64_t memory_plan_pools_max(const struct campaign_config *config);
uint64_t memory_plan_journal_max(const struct campaign_config *config);

/* What one of the workers is to bring in before the clock starts. */
uint64_t memory_plan_warm(const struct campaign_config *config);

/* How many threads are of use: never more than there are slots. */
uint32_t memory_plan_workers(const struct campaign_config *config);

/* How many runs there can be at once. */
uint64_t memory_plan_runs_in_flight(const struct campaign_config *config);

#endif
