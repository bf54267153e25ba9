/*
 * sim_log: what a journal holds, copied out and sorted by (run, seq), and checks of it that know
 * the design and nothing of the engine: an order of records that agent_step() would never choose
 * must be found here.
 *
 * Ownership: the log owns its copies. Errors: a check returns NULL, or a constant text of what is
 * wrong. Threading: none.
 */
#ifndef BENCH_TESTS_LIB_SIM_LOG_H
#define BENCH_TESTS_LIB_SIM_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/agent.h"
#include "journal/journal.h"

struct sim_record {
    uint64_t run;
    uint64_t digest;
    size_t at; /* of the payload, which a NUL follows, in log->bytes */
    uint32_t seq;
    uint32_t bytes;
    uint32_t kind; /* enum record_kind, unless the store is broken */
};

struct sim_log {
    struct sim_record *records;
    size_t count;
    size_t capacity;
    char *bytes;
    size_t bytes_used;
    size_t bytes_capacity;
};

/* Adds all that the journal holds of runs below run_end, in all its parts. 0 or -errno. Threading:
 * no writer of the journal may be at work elsewhere. */
int sim_log_read(struct sim_log *log, struct journal *journal, uint64_t run_end);
void sim_log_sort(struct sim_log *log);
void sim_log_free(struct sim_log *log);

static inline const char *sim_log_payload(const struct sim_log *log,
                                          const struct sim_record *record)
{
    return log->bytes + record->at;
}

/* Over everything in the sorted log. */
uint64_t sim_log_digest(const struct sim_log *log);

/* How many records from `first` on belong to one run. */
size_t sim_log_run_length(const struct sim_log *log, size_t first);

/* The shape that a run was asked to have. */
struct sim_run_shape {
    uint32_t turns;
    uint32_t tools;
    bool has_effect;
    bool may_retry;  /* resumed runs attempt calls anew whose outcome is unknown */
    bool may_halt;   /* or end as unknown */
    bool may_resume; /* replies may stream from their first piece again */
};

enum { SIM_CALLS_MAX = 64 }; /* of a run */

/* What the records of one run say, a bit a call: the first call of the run is bit 0. */
struct sim_run_facts {
    uint64_t attempted;
    uint64_t answered;
    uint8_t attempts[SIM_CALLS_MAX]; /* how often each call was */
    uint32_t deltas;
    uint32_t retries;
    bool has_end;
    char outcome[16]; /* of the end, as it was recorded */
};

const char *sim_log_check_run(const struct sim_log *log, size_t first, size_t count,
                              const struct sim_run_shape *shape, struct sim_run_facts *facts);

#endif
