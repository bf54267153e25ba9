/*
 * Campaigns with real threads on every loop that this kernel grants: all of it at once, stopped and
 * abandoned midway, and whatever can fail before it starts. ThreadSanitizer watches them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/resource.h"
#include "engine/campaign.h"
#include "engine/loop.h"
#include "engine/memory_plan.h"
#include "engine/recovery.h"
#include "tests/lib/parsed_dist.h"
#include "tests/lib/scratch.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static struct campaign_config config_of(uint64_t runs, uint32_t concurrency, uint32_t threads)
{
    return (struct campaign_config){
        .runs = runs,
        .concurrency = concurrency,
        .threads = threads,
        .seed = 1,
        .latency = latency_of("0"),
        .tool_latency = latency_of("0"),
        .turns = 2,
        .tools = 1,
        .tool_effect = TOOL_EFFECT_NOOP,
        .loop_name = "auto",
        .journal_uri = "memory",
        .memory_bytes_max = UINT64_C(128) << 20,
    };
}

/* A campaign and the loop that waits for it. */
struct drive {
    struct loop waiter;
    struct campaign *campaign;
    struct campaign_result result;
    struct errmsg why;
    int error; /* of campaign_finish() */
};

static void drive_open(struct drive *drive, const struct campaign_config *config)
{
    memset(drive, 0, sizeof(*drive));
    assert_int_equal(loop_open(&drive->waiter, "epoll", &drive->why), 0);
    if (campaign_open(&drive->campaign, config, &drive->waiter, &drive->why) != 0)
        fail_msg("%s", drive->why.text);
}

static void drive_start(struct drive *drive, const struct campaign_config *config)
{
    drive_open(drive, config);
    campaign_start(drive->campaign);
}

/* Waits until `is_true`, looking once a millisecond and whenever the campaign wakes us; for how
 * long is left to the limit that scripts/run_tests.sh sets. */
static void drive_until(struct drive *drive, bool (*is_true)(struct campaign *campaign))
{
    while (!is_true(drive->campaign))
        assert_int_equal(loop_poll(&drive->waiter, clock_monotonic_ns() + NS_PER_MS, 1), 0);
}

static bool is_done(struct campaign *campaign)
{
    return campaign_is_done(campaign);
}

static void drive_finish(struct drive *drive)
{
    drive_until(drive, is_done);
    drive->error = campaign_finish(drive->campaign, &drive->result, &drive->why);
}

static void drive_close(struct drive *drive)
{
    campaign_close(drive->campaign);
    loop_close(&drive->waiter);
}

static uint64_t ended(const struct campaign_result *result)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < OUTCOME_COUNT; i++)
        sum += result->runs_by_outcome[i];
    return sum;
}

/* What holds for every campaign, however it came to its end. */
static void check_result(const struct drive *drive, const struct campaign_config *config)
{
    const struct campaign_result *result = &drive->result;
    if (drive->error != 0)
        fail_msg("%s", drive->why.text);
    assert_int_equal(result->runs_started, ended(result) + result->runs_abandoned);
    assert_int_equal(result->records, result->records_acked);
    assert_in_range(result->peak_tasks, result->runs_started > 0, config->concurrency);
    assert_int_equal(result->response->count, result->runs_by_outcome[OUTCOME_COMPLETED]);
    assert_int_equal(result->service->count, result->runs_by_outcome[OUTCOME_COMPLETED]);
    assert_int_equal(result->failed->count,
                     ended(result) - result->runs_by_outcome[OUTCOME_COMPLETED]);
    assert_true(result->append->count >= result->records);
    assert_string_equal(result->journal_name, "memory");
    assert_int_equal(result->durability, DURABILITY_NONE);
    struct campaign_progress progress = campaign_progress(drive->campaign);
    assert_int_equal(progress.runs_started, result->runs_started);
    assert_int_equal(progress.runs_ended, ended(result));
    assert_int_equal(progress.errors, result->failed->count);
}

static void check_all_completed(const struct drive *drive, const struct campaign_config *config)
{
    const struct campaign_result *result = &drive->result;
    check_result(drive, config);
    assert_int_equal(result->runs_by_outcome[OUTCOME_COMPLETED], result->runs_started);
    assert_int_equal(result->records, 6 * result->runs_started);
    assert_int_equal(result->model_calls, 2 * result->runs_started);
    assert_int_equal(result->tool_calls, result->runs_started);
    assert_string_equal(result->first_error.text, "");
    assert_int_equal(result->model_ns + result->journal_ns + result->tool_ns + result->queue_ns,
                     result->response->sum_ns);
}

/* --- all of it --- */

static bool is_granted(const char *loop_name)
{
    struct loop loop;
    struct errmsg why = {""};
    if (loop_open(&loop, loop_name, &why) != 0) {
        print_message("[  SKIPPED ] loop %s: %s\n", loop_name, why.text);
        return false;
    }
    loop_close(&loop);
    return true;
}

static void every_run_completes_on_every_loop(void **state)
{
    (void)state;
    static const uint32_t threads[] = {1, 2, 4};
    for (size_t i = 0; loop_table[i] != NULL; i++) {
        if (!is_granted(loop_table[i]->name))
            continue;
        for (size_t j = 0; j < COUNT_OF(threads); j++) {
            struct drive drive;
            struct campaign_config config = config_of(2000, 64, threads[j]);
            config.loop_name = loop_table[i]->name;
            config.latency = latency_of(j == 1 ? "uniform:0ms,2ms" : "0");
            drive_start(&drive, &config);
            drive_finish(&drive);
            check_all_completed(&drive, &config);
            assert_int_equal(drive.result.runs_started, 2000);
            assert_int_equal(drive.result.threads, threads[j]);
            assert_string_equal(drive.result.loop_name, loop_table[i]->name);
            assert_null(drive.result.loop_fallback);
            assert_in_range(drive.result.records_bytes, 2000 * 800, 2000 * 1100);
            drive_close(&drive);
        }
    }
}

static void no_more_threads_than_slots_are_used(void **state)
{
    (void)state;
    struct drive drive;
    struct campaign_config config = config_of(10, 3, 8);
    drive_start(&drive, &config);
    drive_finish(&drive);
    check_all_completed(&drive, &config);
    assert_int_equal(drive.result.threads, 3);
    drive_close(&drive);
}

static void a_duration_ends_it(void **state)
{
    (void)state;
    struct drive drive;
    struct campaign_config config = config_of(0, 16, 2);
    config.duration_ns = 100 * NS_PER_MS;
    config.latency = latency_of("1ms");
    drive_start(&drive, &config);
    drive_finish(&drive);
    check_all_completed(&drive, &config);
    assert_true(drive.result.elapsed_ns >= 100 * NS_PER_MS);
    drive_close(&drive);
}

static void timeouts_end_runs(void **state)
{
    (void)state;
    struct drive drive;
    struct campaign_config config = config_of(100, 10, 2);
    config.latency = latency_of("1h");
    config.timeout_ns = 5 * NS_PER_MS;
    drive_start(&drive, &config);
    drive_finish(&drive);
    check_result(&drive, &config);
    assert_int_equal(drive.result.runs_by_outcome[OUTCOME_TIMEOUT], 100);
    assert_true(drive.result.failed->min_ns >= 5 * NS_PER_MS);
    assert_non_null(strstr(drive.result.first_error.text, ": -timeout is over"));
    drive_close(&drive);
}

static int compare_lines(const void *left, const void *right)
{
    return strcmp(left, right);
}

static void every_thread_writes_whole_lines_to_the_ledger(void **state)
{
    (void)state;
    enum { RUNS = 1000, CALLS = 3, LINE_BYTES = 32 };
    struct scratch scratch = {""};
    char path[80];
    char(*lines)[LINE_BYTES] = calloc(RUNS * CALLS + 1, LINE_BYTES);
    assert_non_null(lines);
    assert_int_equal(scratch_make(&scratch, "campaign"), 0);
    (void)snprintf(path, sizeof(path), "%s/ledger", scratch.path);
    struct drive drive;
    struct campaign_config config = config_of(RUNS, 64, 4);
    config.tool_effect = TOOL_EFFECT_LEDGER;
    config.tools = CALLS;
    config.ledger_path = path;
    drive_start(&drive, &config);
    drive_finish(&drive);
    check_result(&drive, &config);
    drive_close(&drive);

    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t count = 0;
    while (count <= RUNS * CALLS && fgets(lines[count], LINE_BYTES, file) != NULL) {
        uint64_t run = RUNS;
        unsigned call = 0;
        char newline = '\0';
        assert_int_equal(sscanf(lines[count++], "%" SCNu64 " c%u 1%c", &run, &call, &newline), 3);
        assert_true(run < RUNS && call >= 1 && call <= CALLS && newline == '\n');
    }
    (void)fclose(file); /* it was only read */
    assert_int_equal(count, RUNS * CALLS);
    qsort(lines, count, LINE_BYTES, compare_lines);
    for (size_t i = 1; i < count; i++)
        assert_string_not_equal(lines[i], lines[i - 1]);
    free(lines);
    assert_int_equal(scratch_remove(&scratch), 0);
}

/* --- midway --- */

static bool has_ended_a_hundred(struct campaign *campaign)
{
    return campaign_progress(campaign).runs_ended >= 100;
}

static bool has_started_all_slots(struct campaign *campaign)
{
    return campaign_progress(campaign).runs_started >= 64;
}

static void a_stop_lets_those_in_flight_end(void **state)
{
    (void)state;
    for (size_t i = 0; loop_table[i] != NULL; i++) {
        if (!is_granted(loop_table[i]->name))
            continue;
        struct drive drive;
        struct campaign_config config = config_of(UINT32_MAX, 64, 4);
        config.loop_name = loop_table[i]->name;
        config.latency = latency_of("uniform:0ms,5ms");
        drive_start(&drive, &config);
        drive_until(&drive, has_ended_a_hundred);
        campaign_stop(drive.campaign);
        drive_finish(&drive);
        check_all_completed(&drive, &config);
        assert_true(drive.result.runs_started >= 100);
        drive_close(&drive);
    }
}

static void an_abandoned_campaign_does_not_wait_for_its_runs(void **state)
{
    (void)state;
    for (size_t i = 0; loop_table[i] != NULL; i++) {
        if (!is_granted(loop_table[i]->name))
            continue;
        struct drive drive;
        struct campaign_config config = config_of(UINT32_MAX, 64, 4);
        config.loop_name = loop_table[i]->name;
        config.latency = latency_of("1h");
        drive_start(&drive, &config);
        drive_until(&drive, has_started_all_slots);
        campaign_stop(drive.campaign);
        campaign_abandon(drive.campaign);
        drive_finish(&drive);
        check_result(&drive, &config);
        assert_int_equal(drive.result.runs_abandoned, 64);
        assert_int_equal(drive.result.records, 64); /* each has begun */
        drive_close(&drive);
    }
}

static void a_busy_campaign_is_abandoned_too(void **state)
{
    (void)state;
    struct drive drive;
    struct campaign_config config = config_of(UINT32_MAX, 64, 2);
    config.latency = latency_of("uniform:0ms,1ms");
    config.timeout_ns = 3600 * NS_PER_S;
    drive_start(&drive, &config);
    drive_until(&drive, has_ended_a_hundred);
    campaign_abandon(drive.campaign);
    drive_finish(&drive);
    check_result(&drive, &config);
    assert_true(drive.result.runs_by_outcome[OUTCOME_COMPLETED] >= 100);
    drive_close(&drive);
}

static void one_that_never_started_is_closed(void **state)
{
    (void)state;
    struct drive drive;
    struct campaign_config config = config_of(100, 64, 4);
    drive_open(&drive, &config);
    assert_false(campaign_is_done(drive.campaign));
    drive_close(&drive);
}

static void a_started_campaign_can_be_closed_at_any_time(void **state)
{
    (void)state;
    struct drive drive;
    struct campaign_config config = config_of(1000000, 64, 2);
    config.latency = latency_of("10m");
    drive_start(&drive, &config);
    drive_close(&drive); /* as when the controller fails: the workers are let go and joined */
}

/* --- failures --- */

static void a_full_journal_is_told(void **state)
{
    (void)state;
    struct drive drive;
    struct campaign_config config = config_of(1000000, 64, 2);
    config.memory_bytes_max = 2 << 20;
    drive_start(&drive, &config);
    drive_finish(&drive);
    check_result(&drive, &config);
    assert_in_range(drive.result.runs_by_outcome[OUTCOME_JOURNAL], 1, 64);
    assert_true(drive.result.runs_started < 10000);
    assert_true(drive.result.records > 100 && drive.result.records_bytes < 8 << 20);
    assert_non_null(strstr(drive.result.first_error.text, ": the journal is at its bound"));
    drive_close(&drive);
}

static void what_cannot_be_opened_is_told(void **state)
{
    (void)state;
    static const struct {
        const char *loop_name;
        const char *journal_uri;
        const char *ledger_path;
        enum durability durability;
        int error;
        const char *why;
    } cases[] = {
        {"kqueue", "memory", NULL, DURABILITY_DEFAULT, -EINVAL, "kqueue"},
        {"epoll", "paper", NULL, DURABILITY_DEFAULT, -EINVAL, "paper"},
        {"epoll", "memory", NULL, DURABILITY_POWER, -EINVAL, "power"},
        {"epoll", "memory", "/dev/null/ledger", DURABILITY_DEFAULT, -ENOTDIR, "ledger"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct loop waiter;
        struct campaign *campaign = NULL;
        struct errmsg why = {""};
        struct campaign_config config = config_of(10, 4, 3);
        config.loop_name = cases[i].loop_name;
        config.journal_uri = cases[i].journal_uri;
        config.durability = cases[i].durability;
        config.ledger_path = cases[i].ledger_path;
        if (cases[i].ledger_path != NULL)
            config.tool_effect = TOOL_EFFECT_LEDGER;
        assert_int_equal(loop_open(&waiter, "epoll", &why), 0);
        assert_int_equal(campaign_open(&campaign, &config, &waiter, &why), cases[i].error);
        assert_non_null(strstr(why.text, cases[i].why));
        assert_null(campaign);
        loop_close(&waiter);
    }
}

static void the_estimate_grows_with_what_is_asked_for(void **state)
{
    (void)state;
    struct campaign_config config = config_of(1000, 100, 2);
    uint64_t base = campaign_memory_estimate_bytes(&config);
    assert_true(base >= 1000 * 800);
    config.runs = 2000;
    assert_true(campaign_memory_estimate_bytes(&config) >= base + 1000 * 800);
    config = config_of(1000, 200, 2);
    assert_true(campaign_memory_estimate_bytes(&config) > base);
    config = config_of(1000, 100, 3);
    assert_true(campaign_memory_estimate_bytes(&config) > base);
    config.turns = 3;
    assert_true(campaign_memory_estimate_bytes(&config) > base);
    config = config_of(1000, 1, 1);
    base = campaign_memory_estimate_bytes(&config);
    config.threads = 256; /* of which one is of use */
    assert_int_equal(campaign_memory_estimate_bytes(&config), base);
    config = config_of(UINT64_MAX / 2, 100, 2);
    assert_int_equal(campaign_memory_estimate_bytes(&config),
                     UINT64_MAX); /* it cannot be counted */
}

/* A writer needs a connection of its own. */
static void there_are_no_more_workers_than_connections(void **state)
{
    (void)state;
    static const struct {
        const char *uri;
        uint32_t connections;
        uint32_t workers;
    } cases[] = {
        {"postgres://bench@localhost/bench", 3, 3},
        {"postgres://bench@localhost/bench", 1, 1},
        {"postgresql://bench@localhost/bench", 0, 4},
        {"postgres://bench@localhost/bench", 200, 8},
        {"sqlite:bench.db", 0, 8},
        {"memory", 0, 8},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct campaign_config config = config_of(1000, 100, 8);
        config.journal_uri = cases[i].uri;
        config.connections = cases[i].connections;
        assert_int_equal(memory_plan_workers(&config), cases[i].workers);
        config.concurrency = 1;
        assert_int_equal(memory_plan_workers(&config), 1);
    }
}

/* The blocks of runs that are read, of which the last is taken whole, while they grow. */
static void the_estimate_counts_what_a_resume_reads(void **state)
{
    (void)state;
    struct campaign_config config = config_of(1000, 100, 2);
    config.journal_uri = "sqlite:bench.db";
    uint64_t before = memory_plan_make(&config).fixed;
    config.mode = JOURNAL_RESUME;
    uint64_t small = memory_plan_make(&config).fixed - before;
    assert_in_range(small, 2 * 2 * (uint64_t)RECOVERY_BLOCK_RUNS * 500,
                    2 * 2 * (uint64_t)RECOVERY_BLOCK_RUNS * 2000);
    config.history = HISTORY_SNAPSHOT;
    config.turns = 50;
    config.reply_bytes = parsed_dist("100KB", DIST_BYTES); /* 127 MB a run */
    config.mode = JOURNAL_NEW;
    before = memory_plan_make(&config).fixed;
    config.mode = JOURNAL_RESUME;
    uint64_t large = memory_plan_make(&config).fixed - before;
    assert_in_range(large, 2 * (2 * (uint64_t)RECOVERY_BLOCK_BYTES + 9 * UINT64_C(127000000) / 4),
                    2 * (2 * (uint64_t)RECOVERY_BLOCK_BYTES + 9 * UINT64_C(150000000) / 4));
}

/* Records that are kept elsewhere take no memory here, but for those on their way. */
static void the_estimate_knows_which_journal_keeps_records(void **state)
{
    (void)state;
    struct campaign_config config = config_of(UINT64_C(1000000000000), 100, 2);
    config.history = HISTORY_SNAPSHOT;
    struct memory_plan in_memory = memory_plan_make(&config);
    config.journal_uri = "sqlite:bench.db";
    struct memory_plan elsewhere = memory_plan_make(&config);
    assert_true(in_memory.records > UINT64_C(1000000000000) * 900);
    assert_int_equal(elsewhere.records, 0);
    assert_int_equal(memory_plan_recorded_bytes(&config), in_memory.records);
    assert_int_equal(elsewhere.histories, in_memory.histories);
    assert_true(elsewhere.fixed > in_memory.fixed);
    config.memory_bytes_max = memory_plan_total(&elsewhere);
    assert_true(memory_plan_pools_max(&config) >= elsewhere.histories);

    /* Each run may have a record on its way, as far as a writer takes them. */
    config = config_of(UINT64_C(1000000000000), 1000000, 2);
    in_memory = memory_plan_make(&config);
    config.journal_uri = "sqlite:bench.db";
    elsewhere = memory_plan_make(&config);
    assert_true(elsewhere.fixed >= in_memory.fixed + 2 * (uint64_t)JOURNAL_WRITER_BYTES_MAX);
}

/* A sanitizer's figure holds what it keeps to find mistakes. */
static bool is_heap_exact(void)
{
    return strncmp(resource_heap_source(), "jemalloc", 8) == 0;
}

/* The estimate holds, and what is held stays below what may be. */
static void memory_is_as_estimated_and_bounded(void **state)
{
    (void)state;
    static const struct {
        uint64_t runs;
        uint32_t concurrency;
        uint32_t turns, tools;
        const char *prompt_bytes; /* NULL: not given */
        const char *reply_bytes;
        enum history_mode history;
    } cases[] = {
        {20000, 5000, 2, 1, NULL, NULL, HISTORY_DELTA},
        {2000, 2000, 20, 4, NULL, NULL, HISTORY_DELTA},
        {100, 100, 100, 16, NULL, NULL, HISTORY_DELTA},
        {50000, 10, 2, 1, NULL, NULL, HISTORY_DELTA},
        {100, 100, 20, 1, NULL, NULL, HISTORY_SNAPSHOT},
        {4000, 500, 2, 1, "4KB", "2KB", HISTORY_DELTA},
        {20, 20, 100, 1, "100KB", "7KB", HISTORY_DELTA},
        {3, 3, 100, 1, "0", "4KB", HISTORY_SNAPSHOT},
        {2000, 200, 3, 1, "lognormal:p50=2KB,p99=50KB", "exp:4KB", HISTORY_DELTA},
        {200, 50, 10, 2, "uniform:0B,40KB", "normal:4KB,2KB", HISTORY_SNAPSHOT},
        {5, 5, 2, 1, "3MB", "2MB", HISTORY_DELTA},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct drive drive;
        uint64_t runs = cases[i].runs; /* of many a tenth, where the heap is not held against it */
        runs = runs > 1000 && !is_heap_exact() ? runs / 10 : runs;
        struct campaign_config config = config_of(runs, cases[i].concurrency, 2);
        config.turns = cases[i].turns;
        config.tools = cases[i].tools;
        uint64_t fixed = memory_plan_make(&config).fixed;
        if (cases[i].prompt_bytes != NULL)
            config.prompt_bytes = parsed_dist(cases[i].prompt_bytes, DIST_BYTES);
        if (cases[i].reply_bytes != NULL)
            config.reply_bytes = parsed_dist(cases[i].reply_bytes, DIST_BYTES);
        config.history = cases[i].history;
        struct memory_plan plan = memory_plan_make(&config);
        uint64_t planned = plan.records + plan.histories + plan.fixed - fixed; /* large texts */
        config.memory_bytes_max = campaign_memory_estimate_bytes(&config);
        drive_start(&drive, &config);
        drive_finish(&drive);
        check_result(&drive, &config);
        if (drive.result.runs_by_outcome[OUTCOME_COMPLETED] != runs)
            fail_msg("case %zu: %s", i, drive.result.first_error.text);
        assert_true(drive.result.heap_delta_bytes > 0);
        /* Chunks that are begun are in the plan's fixed part. */
        if (is_heap_exact())
            assert_in_range(drive.result.heap_delta_bytes, (plan.records + plan.histories) / 3,
                            planned + (16 << 20));
        drive_close(&drive);
    }
}

static void the_bound_holds_for_journal_and_payloads_together(void **state)
{
    (void)state;
    struct drive drive;
    struct campaign_config config = config_of(100000, 2000, 2);
    config.turns = 50;
    config.tools = 4;
    config.memory_bytes_max = 100 << 20;
    drive_start(&drive, &config);
    drive_finish(&drive);
    assert_true(drive.result.runs_by_outcome[OUTCOME_COMPLETED] < 100000);
    if (is_heap_exact())
        assert_in_range(drive.result.heap_delta_bytes, 1, 100 << 20);
    drive_close(&drive);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_run_completes_on_every_loop),
        cmocka_unit_test(no_more_threads_than_slots_are_used),
        cmocka_unit_test(a_duration_ends_it),
        cmocka_unit_test(timeouts_end_runs),
        cmocka_unit_test(every_thread_writes_whole_lines_to_the_ledger),
        cmocka_unit_test(a_stop_lets_those_in_flight_end),
        cmocka_unit_test(an_abandoned_campaign_does_not_wait_for_its_runs),
        cmocka_unit_test(a_busy_campaign_is_abandoned_too),
        cmocka_unit_test(one_that_never_started_is_closed),
        cmocka_unit_test(a_full_journal_is_told),
        cmocka_unit_test(what_cannot_be_opened_is_told),
        cmocka_unit_test(a_started_campaign_can_be_closed_at_any_time),
        cmocka_unit_test(memory_is_as_estimated_and_bounded),
        cmocka_unit_test(the_bound_holds_for_journal_and_payloads_together),
        cmocka_unit_test(the_estimate_grows_with_what_is_asked_for),
        cmocka_unit_test(there_are_no_more_workers_than_connections),
        cmocka_unit_test(the_estimate_counts_what_a_resume_reads),
        cmocka_unit_test(the_estimate_knows_which_journal_keeps_records),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
