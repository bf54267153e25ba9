/*
 * arrival: when runs are to start in an open loop: a schedule that is a function of rate, stages,
 * process and seed, and of nothing that happens.
 *
 * The rate goes in straight lines from stage to stage. Arrivals are those of a process of one a
 * unit of expected arrivals (evenly spaced, or Poisson), put in time by inverting the integral of
 * the rate (time rescaling: Daley, Vere-Jones: An Introduction to the Theory of Point Processes,
 * 7.4). So a ramp of constant arrivals is even, and that of a Poisson process is one of that rate.
 *
 * Ownership: plain data; a cursor refers to its plan. Threading: a plan is shared, read-only; a
 * cursor is a thread's. Units: ns from the start; rates a second.
 */
#ifndef BENCH_ARRIVAL_H
#define BENCH_ARRIVAL_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "engine/base/prng.h"

enum { ARRIVAL_STAGES_MAX = 64 };

enum arrival_process { ARRIVAL_CONSTANT, ARRIVAL_POISSON };
const char *arrival_process_name(enum arrival_process process);

struct arrival_stage {
    uint64_t duration_ns;
    double rate; /* at its end */
};

struct arrival_plan {
    double rate; /* at the start; without stages, for ever */
    enum arrival_process process;
    uint32_t stage_count;
    struct arrival_stage stages[ARRIVAL_STAGES_MAX];
    uint64_t seed;
};

/* "30s:500/s,1m:2000/s": 0; -EINVAL or -ERANGE with a reason phrased to follow "-flag ". */
int arrival_parse_stages(struct arrival_plan *plan, const char *text, struct errmsg *why);

/* How long the stages take; UINT64_MAX without any. */
uint64_t arrival_plan_duration_ns(const struct arrival_plan *plan);

/* How many arrivals are expected within a time. */
double arrival_plan_expected(const struct arrival_plan *plan, uint64_t duration_ns);

/* One of `step` cursors that share the arrivals: it has those whose number leaves `first` when
 * divided by `step`. */
struct arrivals {
    const struct arrival_plan *plan;
    struct prng draws;
    uint64_t number; /* of the next */
    uint64_t step;
    double due;      /* expected arrivals until the next */
    double before;   /* expected arrivals until the stage */
    double stage_ns; /* when it begins */
    uint32_t stage;
};

void arrivals_init(struct arrivals *arrivals, const struct arrival_plan *plan, uint64_t first,
                   uint64_t step);

/* The next one's number and time, which is never before the last one's. False after the last. */
bool arrivals_next(struct arrivals *arrivals, uint64_t *number, uint64_t *at_ns);

#endif
