/*
 * open_world: a sim_world on the heap, which must open and must have no fault. cmocka.h comes first
 * in the including file, and stdlib.h.
 */
#ifndef BENCH_TESTS_LIB_OPEN_WORLD_H
#define BENCH_TESTS_LIB_OPEN_WORLD_H

#include "tests/lib/sim_world.h"

static inline struct sim_world *open_world(const struct sim_world_config *config)
{
    struct sim_world *world = aligned_alloc(64, sizeof(*world));
    assert_non_null(world);
    assert_int_equal(sim_world_open(world, config), 0);
    return world;
}

static inline void run_world(struct sim_world *world)
{
    sim_world_run(world);
    assert_string_equal(world->fault.text, "");
}

static inline void close_world(struct sim_world *world)
{
    sim_world_close(world);
    free(world);
}

static inline struct worker *first_worker(struct sim_world *world)
{
    return &world->lanes[0].worker;
}

#endif
