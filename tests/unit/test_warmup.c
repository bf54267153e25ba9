/* Campaigns that warm up first: what is measured, and what is not. ThreadSanitizer watches. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "engine/campaign.h"
#include "engine/loop.h"
#include "engine/memory_plan.h"
#include "tests/lib/parsed_dist.h"

static struct campaign_config config_of(uint64_t runs, uint64_t warmup_ns)
{
    return (struct campaign_config){
        .runs = runs,
        .warmup_ns = warmup_ns,
        .concurrency = 16,
        .threads = 3,
        .seed = 1,
        .latency = latency_of("100us"),
        .tool_latency = latency_of("0"),
        .turns = 2,
        .tools = 1,
        .tool_effect = TOOL_EFFECT_NOOP,
        .loop_name = "auto",
        .journal_uri = "memory",
        .memory_bytes_max = UINT64_C(256) << 20,
    };
}

struct drive {
    struct loop waiter;
    struct campaign *campaign;
    struct campaign_result result;
};

static void drive_open(struct drive *drive, const struct campaign_config *config)
{
    struct errmsg why = {.text = ""};
    memset(drive, 0, sizeof(*drive));
    assert_int_equal(loop_open(&drive->waiter, "epoll", &why), 0);
    if (campaign_open(&drive->campaign, config, &drive->waiter, &why) != 0)
        fail_msg("%s", why.text);
    campaign_start(drive->campaign);
}

/* Looks once a millisecond. */
static void drive_until(struct drive *drive, bool (*is_true)(struct campaign *campaign))
{
    while (!is_true(drive->campaign))
        assert_int_equal(loop_poll(&drive->waiter, clock_monotonic_ns() + NS_PER_MS, 1), 0);
}

static bool is_done(struct campaign *campaign)
{
    return campaign_is_done(campaign);
}

static bool has_warmed_for_long(struct campaign *campaign)
{
    struct campaign_progress progress = campaign_progress(campaign);
    assert_true(progress.is_warming);
    assert_int_equal(progress.measured_ns, 0);
    return progress.warmup_ended >= 200;
}

static void drive_finish(struct drive *drive)
{
    struct errmsg why = {.text = ""};
    drive_until(drive, is_done);
    if (campaign_finish(drive->campaign, &drive->result, &why) != 0)
        fail_msg("%s", why.text);
}

static void drive_close(struct drive *drive)
{
    campaign_close(drive->campaign);
    loop_close(&drive->waiter);
}

static uint64_t ended(const uint64_t runs_by_outcome[OUTCOME_COUNT])
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < OUTCOME_COUNT; i++)
        sum += runs_by_outcome[i];
    return sum;
}

/* What holds whatever is measured: nothing is counted twice or not at all. */
static void check(const struct campaign_result *result)
{
    const struct campaign_warmup *warmup = &result->warmup;
    assert_int_equal(result->runs_started, ended(result->runs_by_outcome) + result->runs_abandoned);
    assert_int_equal(warmup->runs_started, ended(warmup->runs_by_outcome) + warmup->runs_abandoned);
    assert_int_equal(result->response->count, result->runs_by_outcome[OUTCOME_COMPLETED]);
    assert_int_equal(result->service->count, result->runs_by_outcome[OUTCOME_COMPLETED]);
    assert_int_equal(warmup->response->count, warmup->runs_by_outcome[OUTCOME_COMPLETED]);
    assert_int_equal(result->model_calls, 2 * (result->runs_started + warmup->runs_started));
    if (result->runs_abandoned + warmup->runs_abandoned == 0) {
        assert_int_equal(result->records, 6 * (result->runs_started + warmup->runs_started));
        assert_int_equal(result->append->count, result->records - warmup->records);
    }
    assert_true(warmup->records <= result->records);
}

static void as_many_runs_are_measured_as_were_asked_for(void **state)
{
    (void)state;
    for (unsigned is_open = 0; is_open <= 1; is_open++) {
        for (unsigned is_steady = 0; is_steady <= 1; is_steady++) {
            struct campaign_config config = config_of(300, 50 * NS_PER_MS);
            struct drive drive;
            config.is_steady = is_steady;
            config.arrival.rate = is_open ? 4000 : 0;
            drive_open(&drive, &config);
            if (is_steady) {
                drive_until(&drive, has_warmed_for_long);
                campaign_measure(drive.campaign);
                campaign_measure(drive.campaign); /* a second time changes nothing */
            }
            drive_finish(&drive);
            check(&drive.result);
            assert_true(drive.result.warmup.is_over);
            assert_int_equal(drive.result.runs_started, 300);
            assert_true(drive.result.warmup.runs_started >= (is_steady ? 200 : 1));
            assert_true(is_steady || drive.result.warmup.elapsed_ns == 50 * NS_PER_MS);
            assert_int_equal(drive.result.runs_due, is_open ? 300 : 0);
            if (is_open && !is_steady)
                assert_int_equal(drive.result.warmup.runs_due, 200);
            if (is_open)
                assert_in_range(drive.result.dispatch->count, is_steady ? 1 : 300, 300);
            drive_close(&drive);
        }
    }
}

static void the_time_that_is_measured_comes_after(void **state)
{
    (void)state;
    for (unsigned is_steady = 0; is_steady <= 1; is_steady++) {
        struct campaign_config config = config_of(0, 30 * NS_PER_MS);
        struct drive drive;
        config.duration_ns = 40 * NS_PER_MS;
        config.is_steady = is_steady;
        config.arrival = (struct arrival_plan){.rate = 5000, .process = ARRIVAL_POISSON, .seed = 4};
        drive_open(&drive, &config);
        if (is_steady) {
            drive_until(&drive, has_warmed_for_long);
            campaign_measure(drive.campaign);
        }
        drive_finish(&drive);
        check(&drive.result);
        assert_int_equal(drive.result.issuing_ns, 40 * NS_PER_MS);
        assert_int_equal(drive.result.runs_due, drive.result.runs_started);
        assert_int_equal(drive.result.warmup.runs_due, drive.result.warmup.runs_started);
        assert_true(drive.result.elapsed_ns > 0);
        drive_close(&drive);
    }
}

/* Runs that are long: they were to start before the end, and end after it. */
static void a_run_belongs_to_where_it_was_to_start(void **state)
{
    struct campaign_config config = config_of(16, 10 * NS_PER_MS);
    struct drive drive;
    (void)state;
    config.latency = latency_of("30ms");
    drive_open(&drive, &config);
    drive_finish(&drive);
    check(&drive.result);
    assert_int_equal(drive.result.warmup.runs_started, 16); /* one a slot */
    assert_int_equal(drive.result.runs_started, 16);
    assert_true(drive.result.response->min_ns >= 60 * NS_PER_MS);
    drive_close(&drive);
}

static void a_stop_in_the_warm_up_leaves_nothing_measured(void **state)
{
    (void)state;
    for (unsigned is_abandoned = 0; is_abandoned <= 1; is_abandoned++) {
        struct campaign_config config = config_of(300, 3600 * NS_PER_S);
        struct drive drive;
        config.duration_ns = 0;
        drive_open(&drive, &config);
        drive_until(&drive, has_warmed_for_long);
        if (is_abandoned)
            campaign_abandon(drive.campaign);
        else
            campaign_stop(drive.campaign);
        drive_finish(&drive);
        const struct campaign_result *result = &drive.result;
        assert_int_equal(result->runs_started, 0);
        assert_int_equal(result->elapsed_ns, 0);
        assert_int_equal(result->append->count, 0);
        assert_false(result->warmup.is_over);
        assert_true(result->warmup.runs_started >= 200);
        assert_true(result->warmup.elapsed_ns > 0);
        assert_int_equal(result->warmup.runs_started,
                         ended(result->warmup.runs_by_outcome) + result->warmup.runs_abandoned);
        drive_close(&drive);
    }
}

static void failures_of_the_warm_up_are_its_own(void **state)
{
    struct campaign_config config = config_of(50, 20 * NS_PER_MS);
    struct drive drive;
    (void)state;
    config.latency = latency_of("2ms");
    config.timeout_ns = NS_PER_MS;
    drive_open(&drive, &config);
    drive_finish(&drive);
    assert_int_equal(drive.result.runs_by_outcome[OUTCOME_TIMEOUT], 50);
    assert_int_equal(drive.result.failed->count, 50);
    assert_true(drive.result.warmup.runs_by_outcome[OUTCOME_TIMEOUT] >= 16);
    assert_int_equal(drive.result.warmup.response->count, 0);
    drive_close(&drive);
}

/* A closed loop starts as many as it can; a schedule tells. */
static void memory_is_planned_for_the_warm_up_too(void **state)
{
    struct campaign_config config = config_of(300, 2 * NS_PER_S);
    (void)state;
    assert_int_equal(memory_plan_runs(&config), 0);
    config.arrival.rate = 1000;
    assert_int_equal(memory_plan_runs(&config), 300 + 2001);
    config.runs = 0;
    config.duration_ns = NS_PER_S;
    assert_int_equal(memory_plan_runs(&config), 3001);
    config.mode = JOURNAL_RESUME; /* which does not warm up again */
    assert_int_equal(memory_plan_runs(&config), 1001);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_many_runs_are_measured_as_were_asked_for),
        cmocka_unit_test(the_time_that_is_measured_comes_after),
        cmocka_unit_test(a_run_belongs_to_where_it_was_to_start),
        cmocka_unit_test(a_stop_in_the_warm_up_leaves_nothing_measured),
        cmocka_unit_test(memory_is_planned_for_the_warm_up_too),
        cmocka_unit_test(failures_of_the_warm_up_are_its_own),
    };
    return cmocka_run_group_tests_name("warmup", tests, NULL, NULL);
}
