/*
 * sim_world: workers on virtual clocks in one thread: what a campaign is, without threads and
 * without waiting, so that the same seed gives the same history.
 *
 * Life: sim_world_open() → sim_world_run() → look at workers, ends and log → sim_world_close(). A
 * world may be killed: from then on nothing moves in it, no callback comes, and closing it lets go
 * of everything. Another world may then resume what the journal has of its runs.
 * With several workers each has a clock of its own; they take turns in slices drawn from a seed.
 * Watches, on every turn and at every end of a run, that no more runs are in flight than
 * concurrency allows. Ownership: the world must not move while open. Errors: a text in world->fault
 * of what went wrong, empty otherwise. Units: ns.
 */
#ifndef BENCH_TESTS_LIB_SIM_WORLD_H
#define BENCH_TESTS_LIB_SIM_WORLD_H

#include "engine/worker.h"
#include "tests/lib/sim_journal.h"

enum { SIM_WORKERS_MAX = 2 };

struct sim_world;

/* What is known of a run once it is over. */
struct sim_end {
    uint32_t count; /* how often it ended: once is right */
    uint32_t acked; /* records */
    enum outcome outcome;
};

struct sim_lane {
    struct worker worker;
    struct sim_world *world;
    bool (*is_over)(struct sched *sched); /* the worker's own, as is the next */
    void (*ended)(struct run_env *env, struct run *run, uint64_t now_ns);
    bool (*settle)(struct sched *sched);
    struct recovery recovery; /* of the part of the journal that is this worker's */
    uint64_t turns;           /* so many have been taken */
    uint64_t turns_left;      /* of this slice */
    bool is_done;
};

struct sim_world_config {
    struct campaign_config campaign; /* concurrency and threads as for a campaign; runs > 0 */
    struct sim_faults faults;
    int ledger_fd;
    uint64_t until_ns;       /* no run starts from then on; 0: no bound */
    uint64_t stop_after;     /* ends of runs, then none starts; 0: never */
    uint64_t abandon_after;  /* ends of runs, then those in flight are let go; 0: never */
    uint64_t squat_ns;       /* after the start, 0: nobody squats */
    uint64_t kill_at_turn;   /* of all workers, from 1; 0: never */
    struct journal *journal; /* which the world leaves open; NULL: one of its own */
    bool is_resumed;         /* its unfinished runs are, and none started */
};

struct sim_world {
    struct load load;
    struct sim_world_config config;
    struct journal *journal;
    bool is_killed;
    struct prng slices;
    struct sim_end *ends; /* one a run */
    uint64_t ended_count;
    uint64_t busy_ns; /* what each turn is made to take; 0 at first */
    unsigned lane_count;
    unsigned again_count; /* of the squatters */
    struct errmsg fault;
    struct sim_squatter squatters[SIM_WORKERS_MAX];
    struct sim_lane lanes[SIM_WORKERS_MAX];
};

/* 0, or -errno with world->fault. */
int sim_world_open(struct sim_world *world, const struct sim_world_config *config);
void sim_world_run(struct sim_world *world);
void sim_world_close(struct sim_world *world);

/* A journal that several worlds may have, one after the other; NULL with the reason. */
struct journal *sim_world_journal(const struct campaign_config *campaign, struct errmsg *why);

/* Runs that have been started, or resumed. */
uint64_t sim_world_started(const struct sim_world *world);

/* Whether the store of any worker has refused something. */
bool sim_world_has_failed(const struct sim_world *world);

/* Draws a model that streams, fails or is slow, and what is done about it. With `is_plain` what a
 * run records does not depend on the time that anything takes. */
void sim_draw_model(struct campaign_model *model, struct prng *p, bool is_plain);

/* A campaign of `runs` default runs, all at once, on one worker. */
struct campaign_config sim_campaign(uint64_t runs);

#endif
