/*
 * memory_plan: what a campaign is going to take, told from its shape before anything is allocated,
 * and how the memory that it may take is shared out.
 *
 * An estimate of the stub's texts and their frames, a little above what they are. Where sizes are
 * drawn, the draws of the first runs are looked at: a small campaign is known as it will be, a
 * large one to three standard errors; a tail that none of these runs shows is not in it; nor is
 * what a resume keeps of the numbers of runs, since nobody knows yet how many have begun: see
 * recovery.h. Threading: pure functions. Units: bytes; UINT64_MAX stands for more than can be
 * counted.
 */
#ifndef BENCH_MEMORY_PLAN_H
#define BENCH_MEMORY_PLAN_H

#include <stdint.h>

#include "engine/campaign.h"

struct memory_plan {
    /* The process, its threads, the slots that can be filled, open batches, and of a resume the
     * records that are being read. */
    uint64_t fixed;
    uint64_t histories; /* conversations and tool calls of the runs in flight */
    /* Of all runs; of those in flight when it is not said how many there will be; 0 for a journal
     * that keeps them elsewhere. */
    uint64_t records;
};

struct memory_plan memory_plan_make(const struct campaign_config *config);

uint64_t memory_plan_total(const struct memory_plan *plan);

/* Of config->memory_bytes_max, less the fixed part: what all pools of payloads together may take,
 * and what the journal may hold. */
uint64_t memory_plan_pools_max(const struct campaign_config *config);
uint64_t memory_plan_journal_max(const struct campaign_config *config);

/* How many runs there will be, of an open loop by its rate; 0 when nothing tells. */
uint64_t memory_plan_runs(const struct campaign_config *config);

/* What the records of all runs come to, wherever they are kept; 0 when nothing tells how many runs
 * there will be. */
uint64_t memory_plan_recorded_bytes(const struct campaign_config *config);

/* What one of the workers is to bring in before the clock starts. */
uint64_t memory_plan_warm(const struct campaign_config *config);

/* How many threads are of use: never more than there are slots. */
uint32_t memory_plan_workers(const struct campaign_config *config);

/* How many runs there can be at once, and of these at one of the workers. */
uint64_t memory_plan_runs_in_flight(const struct campaign_config *config);
uint64_t memory_plan_runs_of_worker(const struct campaign_config *config);

#endif
