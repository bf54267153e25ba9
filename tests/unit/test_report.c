/*
 * The text and JSON reports of fabricated results, the help text and the version line, byte for
 * byte against tests/golden/. Run from the root of the tree. BENCH_GOLDEN_UPDATE=1 writes the files
 * anew: read the difference before committing it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/report.h"
#include "engine/base/clock.h"
#include "tests/lib/report_machine.h"

enum { GOLDEN_BYTES_MAX = 1 << 20 };

static struct hist *new_hist(uint64_t count, uint64_t first_ns, uint64_t step_ns)
{
    struct hist *hist = calloc(1, sizeof(*hist));
    assert_non_null(hist);
    hist_init(hist);
    for (uint64_t i = 0; i < count; i++)
        hist_record(hist, first_ns + i * step_ns);
    return hist;
}

/* What a journal in memory can tell of itself: nothing but its batches. */
static struct journal_io unknown_io(uint64_t commits)
{
    struct journal_io io = journal_io_unknown();
    io.commits = commits;
    return io;
}

/* What design and README show as the report of the main job. */
static struct campaign_result new_good_result(void)
{
    return (struct campaign_result){
        .elapsed_ns = 404 * NS_PER_MS,
        .runs_started = 20000,
        .runs_by_outcome = {[OUTCOME_COMPLETED] = 20000},
        .records = 120000,
        .records_acked = 120000,
        .records_bytes = 20480000,
        .batches = 812,
        .io = unknown_io(812),
        .campaign = 1,
        .peak_tasks = 5000,
        .model_ns = 20000 * UINT64_C(100100000),
        .journal_ns = 20000 * UINT64_C(41000),
        .tool_ns = 20000 * UINT64_C(2000),
        .queue_ns = 20000 * UINT64_C(12000),
        .model_calls = 40000,
        .tool_calls = 20000,
        .heap_delta_bytes = 12300000,
        .total_alloc_bytes = 14100000,
        .is_total_alloc_known = true,
        .peak_rss_bytes = 31000000,
        .cpu_ns = 20000 * UINT64_C(2100),
        .started_unix_ns = UINT64_C(1767323045678901234),
        .stolen = -1,
        .throttled = 0.01,
        .threads = 2,
        .loop_name = "io_uring",
        .journal_name = "memory",
        .durability = DURABILITY_NONE,
        .response = new_hist(20000, 100 * NS_PER_MS, 150),
        .service = new_hist(20000, 100 * NS_PER_MS, 149),
        .failed = new_hist(0, 0, 0),
        .append = new_hist(1000, 300, 7),
        .lag = new_hist(100, 1000, 10),
        .dispatch = new_hist(0, 0, 0),
        .retried = new_hist(0, 0, 0),
        .token_lag = new_hist(0, 0, 0),
        .warmup.response = new_hist(0, 0, 0),
        .overshoot = new_hist(1000, 5, 30),
    };
}

/* Everything that may go wrong at once: interrupted, failures of each kind, figures that are not
 * known. */
static struct campaign_result new_bad_result(void)
{
    struct campaign_result result = new_good_result();
    result.elapsed_ns = 90 * NS_PER_S;
    result.runs_started = 48;
    result.runs_by_outcome[OUTCOME_COMPLETED] = 30;
    result.runs_by_outcome[OUTCOME_FAILED] = 3;
    result.runs_by_outcome[OUTCOME_TIMEOUT] = 2;
    result.runs_by_outcome[OUTCOME_JOURNAL] = 1;
    result.has_store_failed = true;
    result.runs_abandoned = 12;
    result.records = 200;
    result.heap_delta_bytes = -1250000;
    result.is_total_alloc_known = false;
    result.loop_name = "epoll";
    result.loop_fallback = "io_uring: Operation not permitted";
    (void)errmsg_set(&result.first_error, 0, "run 7: the tool \"noop\" failed");
    free(result.response);
    free(result.service);
    free(result.failed);
    result.response = new_hist(30, 2 * NS_PER_S, NS_PER_MS);
    result.service = new_hist(30, 2 * NS_PER_S, NS_PER_MS);
    result.failed = new_hist(6, NS_PER_MS, 1000);
    return result;
}

/* The same runs in an SQLite store: what each metric of the store is computed from is known. */
static struct campaign_result new_durable_result(void)
{
    struct campaign_result result = new_good_result();
    result.elapsed_ns = 4 * NS_PER_S;
    result.journal_name = "sqlite";
    result.shards = 2;
    result.settings = &machine_sqlite;
    result.durability = DURABILITY_POWER;
    result.batches = 1000;
    result.io = (struct journal_io){
        .commits = 240,
        .commit_ns = 240 * UINT64_C(3900000),
        .checkpoints = 8,
        .checkpoint_ns = 8 * UINT64_C(21000000),
        .wal_bytes = 40960000,
        .db_bytes = 20480000,
        .syncs = 260,
        .store_bytes = 30000000,
    };
    return result;
}

/* A campaign of 100 runs of which 12 were left: 3 of them stand where nobody knows what a tool did,
 * and one has been tampered with. A server's figures are not its own, and what it wrote beside the
 * WAL it does not tell. */
static struct campaign_result new_resumed_result(void)
{
    struct campaign_result result = new_durable_result();
    result.journal_name = "postgres";
    result.shards = 0;
    result.settings = &machine_postgres;
    result.connections = 4;
    result.durability = DURABILITY_PROCESS;
    result.elapsed_ns = 20 * NS_PER_MS;
    result.is_resumed = true;
    result.campaign = 3;
    result.runs_started = 12;
    result.runs_resumed = 12;
    result.runs_not_begun = 8;
    result.runs_by_outcome[OUTCOME_COMPLETED] = 8;
    result.runs_by_outcome[OUTCOME_UNKNOWN] = 3;
    result.runs_by_outcome[OUTCOME_DIVERGED] = 1;
    result.records_replayed = 36;
    result.recovery_ns = 6 * NS_PER_MS;
    result.records = 597;
    result.records_before = 564;
    result.records_bytes = 80000;
    result.bytes_before = 50000;
    result.records_acked = 33;
    result.records_refused = 2;
    result.records_unknown = 5;
    result.retries = 4;
    result.io.db_bytes = JOURNAL_NOT_KNOWN;
    result.io.is_servers = true;
    (void)errmsg_set(&result.first_error, 0, "run 9: call c1 was attempted and has no result");
    (void)errmsg_set(&result.journal_error, 0, "the server is shutting down");
    free(result.response);
    free(result.service);
    free(result.failed);
    result.response = new_hist(8, NS_PER_MS, 1000);
    result.service = new_hist(8, NS_PER_MS, 1000);
    result.failed = new_hist(4, NS_PER_MS, 1000);
    return result;
}

static void free_result(struct campaign_result *result)
{
    free(result->response);
    free(result->service);
    free(result->failed);
    free(result->append);
    free(result->lag);
    free(result->dispatch);
    free(result->retried);
    free(result->token_lag);
    free(result->overshoot);
    free(result->warmup.response);
}

static void parse(struct options *options, int argc, char **argv)
{
    struct errmsg why = {.text = ""};
    if (options_parse(options, OPTIONS_OF_RUN, argc, argv, &why) != 0)
        fail_msg("%s", why.text);
    options->campaign.threads = 2; /* The default depends on the machine. */
}

static void assert_golden(const char *path, const char *text, size_t size)
{
    if (getenv("BENCH_GOLDEN_UPDATE") != NULL) {
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        assert_int_equal(fwrite(text, 1, size, file), size);
        assert_int_equal(fclose(file), 0);
        return;
    }
    char *golden = malloc(GOLDEN_BYTES_MAX);
    assert_non_null(golden);
    FILE *file = fopen(path, "r");
    if (file == NULL)
        fail_msg("%s cannot be read: run from the root of the tree", path);
    size_t golden_size = fread(golden, 1, GOLDEN_BYTES_MAX - 1, file);
    golden[golden_size] = '\0';
    (void)fclose(file);
    if (golden_size != size || memcmp(golden, text, size) != 0)
        fail_msg("%s differs; it is now:\n%s", path, text);
    free(golden);
}

static void assert_report_golden(const struct report_format *format, const struct report *report,
                                 const char *path)
{
    char *text = NULL;
    size_t size = 0;
    assert_int_equal(report_render(format, report, &text, &size), 0);
    assert_golden(path, text, size);
    free(text);
}

static void test_good_report(void **state)
{
    char *arguments[] = {"bench",    "-runs", "20k",   "-concurrency", "5000",
                         "-latency", "50ms",  "-json", "result.json"};
    struct options options;
    struct report report;
    (void)state;
    parse(&options, sizeof(arguments) / sizeof(arguments[0]), arguments);
    struct campaign_result result = new_good_result();
    report_init(&report, &options, &result, 0, NULL);
    machine_fix(&report);
    assert_int_equal(report.reason_count, 0);
    assert_report_golden(&report_text, &report, "tests/golden/report_good.txt");
    assert_report_golden(&report_json, &report, "tests/golden/report_good.json");
    free_result(&result);
    options_free(&options);
}

static void test_bad_report(void **state)
{
    char *arguments[] = {"bench",
                         "-duration",
                         "1m30s",
                         "-seed",
                         "18446744073709551615",
                         "-ledger",
                         "a\nb\xff",
                         "-tool-effect",
                         "ledger",
                         "-progress",
                         "0",
                         "-prompt-bytes",
                         "lognormal:p50=2KB,p99=50KB",
                         "-reply-bytes",
                         "0",
                         "-history",
                         "snapshot"};
    struct options options;
    struct report report;
    struct errmsg journal_error = {.text = "3 records are missing"};
    (void)state;
    parse(&options, sizeof(arguments) / sizeof(arguments[0]), arguments);
    struct campaign_result result = new_bad_result();
    report_init(&report, &options, &result, SIGINT, &journal_error);
    machine_fix(&report);
    assert_int_equal(report.reason_count, 3);
    assert_report_golden(&report_text, &report, "tests/golden/report_bad.txt");
    assert_report_golden(&report_json, &report, "tests/golden/report_bad.json");
    free_result(&result);
    options_free(&options);
}

static void test_durable_report(void **state)
{
    char *arguments[] = {"bench", "-runs",    "20k",         "-concurrency", "5000", "-latency",
                         "50ms",  "-journal", "sqlite:a.db", "-retry-for",   "0"};
    struct options options;
    struct report report;
    (void)state;
    parse(&options, sizeof(arguments) / sizeof(arguments[0]), arguments);
    options.campaign.shards = 4;
    options.campaign.run_key = RUN_KEY_UUIDV7;
    struct campaign_result result = new_durable_result();
    report_init(&report, &options, &result, 0, NULL);
    machine_fix(&report);
    assert_int_equal(report.reason_count, 0);
    assert_int_equal(report.metrics[METRIC_LOGICAL_PER_RUN].whole, 1024);
    assert_int_equal(report.metrics[METRIC_WAL_PER_RUN].whole, 2048);
    assert_int_equal(report.metrics[METRIC_DB_PER_RUN].whole, 1024);
    assert_true(report.metrics[METRIC_WRITE_AMPLIFICATION].rate == 3);
    assert_true(report.metrics[METRIC_RECORDS_PER_COMMIT].rate == 500);
    assert_true(report.metrics[METRIC_SYNCS_PER_RUN].rate == 0.013);
    assert_int_equal(report.metrics[METRIC_COMMIT_MEAN].whole, 3900000);
    assert_int_equal(report.metrics[METRIC_CHECKPOINT_MEAN].whole, 21000000);
    assert_report_golden(&report_text, &report, "tests/golden/report_durable.txt");
    assert_report_golden(&report_json, &report, "tests/golden/report_durable.json");
    free_result(&result);
    options_free(&options);
}

/* The formats of other programs: as they were last looked through by hand. */
static void test_other_formats(void **state)
{
    static const struct {
        const struct report_format *format;
        const char *path;
    } formats[] = {
        {&report_markdown, "tests/golden/report.md"},
        {&report_hgrm, "tests/golden/report.hgrm"},
        {&report_gobench, "tests/golden/report.gobench.txt"},
        {&report_bmf, "tests/golden/report.bmf"},
        {&report_openmetrics, "tests/golden/report.openmetrics.txt"},
        {&report_gha_smaller, "tests/golden/report.smaller.gha"},
        {&report_gha_bigger, "tests/golden/report.bigger.gha"},
    };
    char *arguments[] = {
        "bench",    "-concurrency", "5000", "-latency", "lognormal:p50=50ms,p99=1s",
        "-journal", "sqlite:a.db"};
    struct options options;
    struct report report;
    (void)state;
    parse(&options, sizeof(arguments) / sizeof(arguments[0]), arguments);
    struct campaign_result result = new_durable_result();
    report_init(&report, &options, &result, 0, NULL);
    machine_fix(&report);
    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
        assert_report_golden(formats[i].format, &report, formats[i].path);
    free_result(&result);
    options_free(&options);
}

/* As resume.c sets it from what the store says. */
static void parse_resumed(struct options *options)
{
    char *arguments[] = {"bench",
                         "-runs",
                         "100",
                         "-concurrency",
                         "10",
                         "-journal",
                         "postgres://h/d",
                         "-tool-effect",
                         "ledger",
                         "-ledger",
                         "calls.txt",
                         "-connections",
                         "2"};
    parse(options, sizeof(arguments) / sizeof(arguments[0]), arguments);
    options->command = OPTIONS_OF_RESUME;
    options->campaign.mode = JOURNAL_RESUME;
    options->campaign.campaign = 3;
}

static void test_resumed_report(void **state)
{
    struct options options;
    struct report report;
    (void)state;
    parse_resumed(&options);
    options.campaign.tool_retry = AGENT_RETRY_UNKNOWN;
    struct campaign_result result = new_resumed_result();
    report_init(&report, &options, &result, 0, NULL);
    machine_fix(&report);
    assert_int_equal(report.reason_count, 1);
    assert_int_equal(report.metrics[METRIC_ERRORS].whole, 4);
    assert_int_equal(report.metrics[METRIC_LOGICAL].whole, 30000); /* of what is new */
    assert_true(report.metrics[METRIC_RECORD_RATE].rate == 1650);  /* of what is new */
    assert_report_golden(&report_text, &report, "tests/golden/report_resumed.txt");
    assert_report_golden(&report_json, &report, "tests/golden/report_resumed.json");
    free_result(&result);
    options_free(&options);
}

/* A journal that could not be read back shows less than was there before: nothing is known then. */
static void test_unread_report(void **state)
{
    struct options options;
    struct report report;
    (void)state;
    parse_resumed(&options);
    struct campaign_result result = new_resumed_result();
    result.records = 0;
    result.records_bytes = 0;
    report_init(&report, &options, &result, 0, NULL);
    assert_false(report.metrics[METRIC_LOGICAL].is_known);
    assert_false(report.metrics[METRIC_LOGICAL_PER_RUN].is_known);
    assert_false(report.metrics[METRIC_WRITE_AMPLIFICATION].is_known);
    free_result(&result);
    options_free(&options);
}

/* That nothing was left to do is no reason to doubt. */
static void test_nothing_to_resume(void **state)
{
    struct options options;
    struct report report;
    char *text = NULL;
    size_t size = 0;
    (void)state;
    parse_resumed(&options);
    struct campaign_result result = new_resumed_result();
    result.journal_error = (struct errmsg){.text = ""};
    result.runs_started = 0;
    result.runs_resumed = 0;
    result.runs_not_begun = 0;
    result.records_replayed = 0;
    result.records = 564;
    memset(result.runs_by_outcome, 0, sizeof(result.runs_by_outcome));
    report_init(&report, &options, &result, 0, NULL);
    assert_int_equal(report.reason_count, 0);
    assert_int_equal(report_render(&report_text, &report, &text, &size), 0);
    assert_non_null(strstr(text, "; 0 records)\n"));
    assert_non_null(strstr(text, "\nresumed=0 replayed=0 records unknown=0 diverged=0 completed=0"
                                 " recovery=6ms (0 runs/s, 0 records/s)\nerrors=0\n"));
    free(text);
    /* A store that has lost what was there is no campaign of 2^64 records. */
    result.records = 500;
    report_init(&report, &options, &result, 0, NULL);
    assert_true(report.metrics[METRIC_RECORD_RATE].rate == 0);
    free_result(&result);
    options_free(&options);
}

/* Nothing has happened at all: no division by zero, no figure made up. */
static void test_empty_report(void **state)
{
    char *arguments[] = {"bench"};
    struct options options;
    struct report report;
    (void)state;
    parse(&options, 1, arguments);
    struct campaign_result result = {
        .io = unknown_io(0),
        .loop_name = "epoll",
        .journal_name = "memory",
        .durability = DURABILITY_NONE,
        .response = new_hist(0, 0, 0),
        .service = new_hist(0, 0, 0),
        .failed = new_hist(0, 0, 0),
        .append = new_hist(0, 0, 0),
        .lag = new_hist(0, 0, 0),
        .dispatch = new_hist(0, 0, 0),
        .retried = new_hist(0, 0, 0),
        .token_lag = new_hist(0, 0, 0),
        .warmup.response = new_hist(0, 0, 0),
        .overshoot = new_hist(0, 0, 0),
    };
    report_init(&report, &options, &result, 0, NULL);
    machine_fix(&report);
    assert_string_equal(report.reasons[0].text, "no run completed");
    assert_report_golden(&report_text, &report, "tests/golden/report_empty.txt");
    assert_report_golden(&report_json, &report, "tests/golden/report_empty.json");
    free_result(&result);
    options_free(&options);
}

static void render(const struct campaign_config *campaign, char **text)
{
    struct options options = {.campaign = *campaign};
    struct campaign_result result = new_good_result();
    struct report report;
    size_t size = 0;
    report_init(&report, &options, &result, 0, NULL);
    assert_int_equal(report_render(&report_text, &report, text, &size), 0);
    free_result(&result);
}

/* What came from the command line may be anything, and a terminal must survive it. */
static void test_hostile_texts(void **state)
{
    struct campaign_config campaign = {
        .runs = 1,
        .turns = 2,
        .tools = 1,
        .journal_uri = "memory",
        .retry_for_ns = OPTIONS_RETRY_FOR_NS_DEFAULT,
    };
    char *text = NULL;
    (void)state;
    campaign.tool_effect = TOOL_EFFECT_NOOP;
    (void)snprintf(campaign.latency.spec, DIST_SPEC_BYTES,
                   "file:\xc2\x9b"
                   "31m\xff\n\u00b5");
    render(&campaign, &text);
    assert_non_null(strstr(text, " sim-latency=file:??31m??\u00b5 journal="));
    free(text);
}

/* Two different runs never have the same header. */
static void test_every_flag_of_a_run_shows(void **state)
{
    char *arguments[] = {
        "bench", "-turns",         "5",       "-tools",         "3",        "-tool-latency",
        "2ms",   "-tool-effect",   "none",    "-timeout",       "1s",       "-prompt-bytes",
        "4KB",   "-reply-bytes",   "exp:2KB", "-history",       "snapshot", "-model-error-rate",
        "1%",    "-model-timeout", "2s",      "-model-retries", "3",        "-hedge",
        "1s"};
    struct options options;
    char *text = NULL;
    (void)state;
    parse(&options, sizeof(arguments) / sizeof(arguments[0]), arguments);
    render(&options.campaign, &text);
    assert_non_null(
        strstr(text, " seed=1 turns=5 tools=3 tool-latency=2ms tool-effect=none prompt-bytes=4KB"
                     " reply-bytes=exp:2KB history=snapshot timeout=1s model-timeout=2s hedge=1s"
                     " model-error-rate=0.01 model-retries=3\n"));
    free(text);
    options_free(&options);

    char *defaults[] = {"bench", "-turns",       "2",    "-tools",   "1", "-tool-latency",
                        "0s",    "-tool-effect", "noop", "-timeout", "0", "-history",
                        "delta"};
    parse(&options, sizeof(defaults) / sizeof(defaults[0]), defaults);
    render(&options.campaign, &text);
    assert_non_null(strstr(text, " seed=1\n"));
    free(text);
    options_free(&options);
}

/* What fits a terminal of 80 columns, and is not too long to be looked through. */
static void assert_fits_a_screen(const char *text)
{
    unsigned lines = 0;
    unsigned columns = 0;
    for (const char *c = text; *c != '\0'; c++) {
        lines += *c == '\n';
        columns = *c == '\n' ? 0 : columns + ((*c & 0xc0) != 0x80); /* UTF-8 goes on with 0x80 */
        assert_in_range(columns, 0, 80);
    }
    assert_in_range(lines, 1, 72);
}

static void test_help_and_version(void **state)
{
    static const char *const paths[] = {
        [OPTIONS_OF_RUN] = "tests/golden/help.txt",
        [OPTIONS_OF_RESUME] = "tests/golden/help_resume.txt",
        [OPTIONS_OF_VERIFY] = "tests/golden/help_verify.txt",
        [OPTIONS_OF_MERGE] = "tests/golden/help_merge.txt",
        [OPTIONS_OF_COMPARE] = "tests/golden/help_compare.txt",
    };
    char *text = NULL;
    size_t size = 0;
    (void)state;

    for (enum options_command command = OPTIONS_OF_RUN; command <= OPTIONS_OF_COMPARE; command++) {
        FILE *memory = open_memstream(&text, &size);
        assert_non_null(memory);
        options_write_help(command, memory);
        assert_int_equal(fclose(memory), 0);
        assert_fits_a_screen(text);
        assert_golden(paths[command], text, size);
        free(text);
    }

    FILE *memory = open_memstream(&text, &size);
    assert_non_null(memory);
    version_write(memory, &machine_version);
    assert_int_equal(fclose(memory), 0);
    assert_golden("tests/golden/version.txt", text, size);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good_report),
        cmocka_unit_test(test_bad_report),
        cmocka_unit_test(test_durable_report),
        cmocka_unit_test(test_resumed_report),
        cmocka_unit_test(test_other_formats),
        cmocka_unit_test(test_unread_report),
        cmocka_unit_test(test_nothing_to_resume),
        cmocka_unit_test(test_empty_report),
        cmocka_unit_test(test_help_and_version),
        cmocka_unit_test(test_hostile_texts),
        cmocka_unit_test(test_every_flag_of_a_run_shows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
