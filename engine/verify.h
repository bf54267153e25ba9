/*
 * verify: reads a whole journal and tells whether every run in it is one that the engine could have
 * written: seq dense and in order, digests chained, payloads readable, one end, and each record one
 * that the agent's transition function leads to.
 *
 * The parts of a journal are read side by side, each by a thread. What is kept of a run from one
 * record to the next is a struct replay; those of the lowest runs are kept that the memory is for,
 * and the rest is read again, until all have been looked at: memory is bounded whatever the store
 * holds. It is shared out to the threads, of which there are no more than parts; some six million
 * runs in 256 MiB are read once by one thread, and half as many by two, since every part has runs
 * of every page.
 *
 * Ownership: the caller's. Threading: verify_journal() blocks the caller and uses threads of its
 * own. Errors: -errno with the reason when the journal cannot be read to its end; faults are no
 * errors, they are in the result, as are records of a campaign that the journal does not list.
 */
#ifndef BENCH_VERIFY_H
#define BENCH_VERIFY_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "engine/replay.h"
#include "journal/journal.h"

enum { VERIFY_FAULTS_KEPT = 10 };

struct verify_config {
    uint64_t campaign;     /* 0: all */
    uint64_t memory_bytes; /* for what is kept of runs, all threads together */
    unsigned threads;
};

struct verify_fault {
    uint64_t campaign;
    uint64_t run;
    uint32_t seq;
    enum replay_fault fault;
    const char *why; /* a constant text */
};

struct verify_result {
    uint64_t campaigns;
    uint64_t runs;
    uint64_t runs_ended;
    uint64_t outcomes[OUTCOME_COUNT]; /* of those that have ended */
    uint64_t runs_faulty;             /* each has one fault, its first */
    uint64_t records;
    uint64_t bytes;             /* of payloads */
    uint64_t unlisted_records;  /* of these, those of campaigns that the journal does not list */
    uint64_t unlisted_campaign; /* the lowest of them, if there are any */
    uint64_t faults[REPLAY_FAULT_COUNT];
    struct verify_fault first[VERIFY_FAULTS_KEPT]; /* by campaign, run */
    unsigned first_count;
    unsigned passes; /* of the part that was read most often */
};

static inline bool verify_has_faults(const struct verify_result *result)
{
    return result->runs_faulty > 0 || result->unlisted_records > 0;
}

int verify_journal(struct journal *journal, const struct verify_config *config,
                   struct verify_result *result, struct errmsg *why);

#endif
