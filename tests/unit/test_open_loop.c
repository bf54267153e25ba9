/*
 * Workers in an open loop, on virtual clocks: runs start when the schedule says, whatever the
 * others do, and what is late shows where it belongs: a busy scheduler in the dispatch lag, a full
 * house in the response time, neither in the service time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include "tests/lib/loop_sim.h"
#include "tests/lib/open_world.h"
#include "tests/lib/parsed_dist.h"

#define TICK_NS (UINT64_C(1) << WHEEL_TICK_BITS)
#define RUN_NS (10 * NS_PER_MS) /* two calls of the model */

/* A thousand a second. */
static struct sim_world_config config_of(uint64_t runs, uint32_t concurrency)
{
    struct sim_world_config config = {.campaign = sim_campaign(runs), .ledger_fd = -1};
    config.campaign.concurrency = concurrency;
    config.campaign.latency = parsed_dist("5ms", DIST_DURATION);
    config.campaign.arrival.rate = 1000;
    return config;
}

/* All that were started have ended. */
static struct worker *run_whole(struct sim_world *world)
{
    run_world(world);
    assert_int_equal(world->load.in_flight, 0);
    return first_worker(world);
}

static void runs_start_at_their_time(void **state)
{
    (void)state;
    const struct sim_world_config config = config_of(1000, 100);
    struct sim_world *world = open_world(&config);
    struct worker *w = run_whole(world);
    uint64_t last_ns = LOOP_SIM_START_NS + 999 * NS_PER_MS + RUN_NS;
    assert_int_equal(w->response->count, 1000);
    assert_int_equal(w->dispatch->count, 1000);
    assert_int_equal(w->runs_queued, 0);
    assert_in_range(w->dispatch->max_ns, 0, TICK_NS);
    assert_in_range(w->response->min_ns, RUN_NS, RUN_NS + 3 * TICK_NS);
    assert_in_range(w->response->max_ns, RUN_NS, RUN_NS + 3 * TICK_NS);
    assert_in_range(w->ended_ns, last_ns, last_ns + 3 * TICK_NS);
    assert_in_range(world->load.in_flight_peak, 10, 12);
    close_world(world);
}

/* Five places hold 500 runs a second of a thousand. */
static void a_full_house_shows_in_the_response_only(void **state)
{
    (void)state;
    const struct sim_world_config config = config_of(1000, 5);
    struct sim_world *world = open_world(&config);
    struct worker *w = run_whole(world);
    assert_int_equal(w->response->count, 1000);
    assert_int_equal(world->load.in_flight_peak, 5);
    assert_in_range(w->runs_queued, 990, 995);
    assert_in_range(w->dispatch->max_ns, 0, TICK_NS);
    assert_in_range(w->service->max_ns, RUN_NS, RUN_NS + 3 * TICK_NS);
    /* The last is due after 1 s and ends after 2 s. */
    assert_in_range(w->response->max_ns, 990 * NS_PER_MS, 1050 * NS_PER_MS);
    assert_in_range(w->queue_ns, 1000 * 480 * NS_PER_MS, 1000 * 530 * NS_PER_MS);
    close_world(world);
}

/* A scheduler whose turns take 50 ms is late for the runs that come due meanwhile. */
static void a_late_scheduler_shows_in_the_dispatch_lag(void **state)
{
    (void)state;
    const struct sim_world_config config = config_of(1000, 1000);
    struct sim_world *world = open_world(&config);
    world->busy_ns = 50 * NS_PER_MS;
    struct worker *w = run_whole(world);
    assert_int_equal(w->response->count, 1000);
    assert_int_equal(w->runs_queued, 0);
    assert_in_range(w->dispatch->max_ns, 40 * NS_PER_MS, 110 * NS_PER_MS);
    assert_true(w->response->max_ns >= w->service->max_ns);
    assert_true(w->response->sum_ns - w->service->sum_ns >= w->dispatch->sum_ns);
    close_world(world);
}

/* Whichever worker has it, each run is started once, and when the others start does not matter. */
static void workers_share_the_schedule(void **state)
{
    (void)state;
    struct sim_world_config config = config_of(501, 100);
    config.campaign.threads = 2;
    config.campaign.arrival.process = ARRIVAL_POISSON;
    struct sim_world *world = open_world(&config);
    (void)run_whole(world);
    for (unsigned run = 0; run < 501; run++)
        assert_int_equal(world->ends[run].count, 1);
    assert_int_equal(world->lanes[0].worker.response->count, 251);
    assert_int_equal(world->lanes[1].worker.response->count, 250);
    assert_in_range(world->lanes[1].worker.response->max_ns, RUN_NS, RUN_NS + 4 * TICK_NS);
    close_world(world);
}

static void what_is_due_before_the_end_is_run(void **state)
{
    (void)state;
    struct sim_world_config config = config_of(1000, 2); /* 200 a second: most of them wait */
    config.until_ns = LOOP_SIM_START_NS + 100 * NS_PER_MS;
    struct sim_world *world = open_world(&config);
    struct worker *w = run_whole(world);
    assert_int_equal(w->response->count, 100);
    assert_int_equal(world->ended_count, 100);
    close_world(world);
}

static void nothing_starts_after_a_stop(void **state)
{
    (void)state;
    struct sim_world_config config = config_of(1000, 100);
    config.stop_after = 25;
    struct sim_world *world = open_world(&config);
    struct worker *w = run_whole(world);
    assert_in_range(w->runs_by_outcome[OUTCOME_COMPLETED], 25, 37); /* with those in flight */
    close_world(world);
}

/* A store that answers nobody for a second of five. Users wait, as the response time says. With
 * slots for all, they wait in their runs; with few, for a slot, which only the response time can
 * tell: a closed loop would not have had them come. */
static void a_store_that_stalls_shows_in_the_response(void **state)
{
    (void)state;
    for (int is_few = 0; is_few < 2; is_few++) {
        struct sim_world_config config = config_of(5000, is_few ? 20 : 5000);
        config.faults.freeze_at_ns = LOOP_SIM_START_NS + 2 * NS_PER_S;
        config.faults.freeze_ns = NS_PER_S;
        struct sim_world *world = open_world(&config);
        struct worker *w = run_whole(world);
        uint64_t service_ns = hist_quantile_ns(w->service, 0.99);
        assert_int_equal(w->response->count, 5000);
        assert_in_range(hist_quantile_ns(w->response, 0.99), 900 * NS_PER_MS, 1100 * NS_PER_MS);
        assert_in_range(w->append->max_ns, 990 * NS_PER_MS, 1010 * NS_PER_MS);
        assert_in_range(w->dispatch->max_ns, 0, TICK_NS);
        if (is_few) {
            assert_in_range(service_ns, RUN_NS, RUN_NS + 3 * TICK_NS);
            assert_in_range(w->runs_queued, 970, 3000);
        } else {
            assert_in_range(service_ns, 900 * NS_PER_MS, 1100 * NS_PER_MS);
            assert_int_equal(w->runs_queued, 0);
        }
        close_world(world);
    }
}

/* A ramp from nothing: the first run waits for it, and the loop ends with its last stage. */
static void a_schedule_may_begin_late(void **state)
{
    (void)state;
    struct sim_world_config config = config_of(1000, 100);
    struct errmsg why;
    config.campaign.arrival.rate = 0;
    assert_int_equal(arrival_parse_stages(&config.campaign.arrival, "1s:0,1s:100/s,1s:100/s", &why),
                     0);
    struct sim_world *world = open_world(&config);
    struct worker *w = run_whole(world);
    assert_in_range(w->response->count, 149, 151);
    assert_in_range(w->ended_ns, LOOP_SIM_START_NS + 2990 * NS_PER_MS,
                    LOOP_SIM_START_NS + 3020 * NS_PER_MS);
    close_world(world);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_start_at_their_time),
        cmocka_unit_test(a_full_house_shows_in_the_response_only),
        cmocka_unit_test(a_late_scheduler_shows_in_the_dispatch_lag),
        cmocka_unit_test(workers_share_the_schedule),
        cmocka_unit_test(what_is_due_before_the_end_is_run),
        cmocka_unit_test(nothing_starts_after_a_stop),
        cmocka_unit_test(a_store_that_stalls_shows_in_the_response),
        cmocka_unit_test(a_schedule_may_begin_late),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
