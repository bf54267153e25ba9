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

#include "cmd/progress.h"
#include "cmd/report.h"
#include "engine/base/clock.h"

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
        .commits = 812,
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
        .threads = 2,
        .loop_name = "io_uring",
        .journal_name = "memory",
        .durability = DURABILITY_NONE,
        .response = new_hist(20000, 100 * NS_PER_MS, 150),
        .service = new_hist(20000, 100 * NS_PER_MS, 149),
        .failed = new_hist(0, 0, 0),
        .append = new_hist(1000, 300, 7),
        .lag = new_hist(100, 1000, 10),
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

static void free_result(struct campaign_result *result)
{
    free(result->response);
    free(result->service);
    free(result->failed);
    free(result->append);
    free(result->lag);
    free(result->overshoot);
}

static void fix_machine(struct report *report)
{
    report->version = (struct version){"1.2.3", "0123456789ab", "gcc 12.2.0", "none"};
    (void)snprintf(report->host.cpu_model, HOST_TEXT_BYTES, "Example CPU @ 2.00GHz");
    (void)snprintf(report->host.kernel, HOST_TEXT_BYTES, "Linux 6.1.0 x86_64");
    report->host.cpus = 2;
    report->host.memory_bytes = UINT64_C(8) << 30;
}

static void parse(struct options *options, int argc, char **argv)
{
    struct errmsg why = {.text = ""};
    if (options_parse(options, argc, argv, &why) != 0)
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
    fix_machine(&report);
    assert_int_equal(report.reason_count, 0);
    assert_report_golden(&report_text, &report, "tests/golden/report_good.txt");
    assert_report_golden(&report_json, &report, "tests/golden/report_good.json");
    free_result(&result);
    options_free(&options);
}

static void test_bad_report(void **state)
{
    char *arguments[] = {"bench",   "-duration", "1m30s",        "-seed",  "18446744073709551615",
                         "-ledger", "a\nb\xff",  "-tool-effect", "ledger", "-progress",
                         "0"};
    struct options options;
    struct report report;
    struct errmsg journal_error = {.text = "3 records are missing"};
    (void)state;
    parse(&options, sizeof(arguments) / sizeof(arguments[0]), arguments);
    struct campaign_result result = new_bad_result();
    report_init(&report, &options, &result, SIGINT, &journal_error);
    fix_machine(&report);
    assert_int_equal(report.reason_count, 3);
    assert_report_golden(&report_text, &report, "tests/golden/report_bad.txt");
    assert_report_golden(&report_json, &report, "tests/golden/report_bad.json");
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
        .loop_name = "epoll",
        .journal_name = "memory",
        .durability = DURABILITY_NONE,
        .response = new_hist(0, 0, 0),
        .service = new_hist(0, 0, 0),
        .failed = new_hist(0, 0, 0),
        .append = new_hist(0, 0, 0),
        .lag = new_hist(0, 0, 0),
        .overshoot = new_hist(0, 0, 0),
    };
    report_init(&report, &options, &result, 0, NULL);
    fix_machine(&report);
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
    struct campaign_config campaign = {.runs = 1, .turns = 2, .tools = 1};
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
    char *arguments[] = {"bench", "-turns",       "5",    "-tools",   "3", "-tool-latency",
                         "2ms",   "-tool-effect", "none", "-timeout", "1s"};
    struct options options;
    char *text = NULL;
    (void)state;
    parse(&options, sizeof(arguments) / sizeof(arguments[0]), arguments);
    render(&options.campaign, &text);
    assert_non_null(
        strstr(text, " seed=1 turns=5 tools=3 tool-latency=2ms tool-effect=none timeout=1s\n"));
    free(text);
    options_free(&options);

    char *defaults[] = {"bench", "-turns",       "2",    "-tools",   "1", "-tool-latency",
                        "0s",    "-tool-effect", "noop", "-timeout", "0"};
    parse(&options, sizeof(defaults) / sizeof(defaults[0]), defaults);
    render(&options.campaign, &text);
    assert_non_null(strstr(text, " seed=1\n"));
    free(text);
    options_free(&options);
}

static void test_help_and_version(void **state)
{
    static const struct version version = {"1.2.3", "0123456789ab", "gcc 12.2.0", "none"};
    char *text = NULL;
    size_t size = 0;
    (void)state;

    FILE *memory = open_memstream(&text, &size);
    assert_non_null(memory);
    options_write_help(memory);
    assert_int_equal(fclose(memory), 0);
    assert_golden("tests/golden/help.txt", text, size);
    free(text);

    memory = open_memstream(&text, &size);
    assert_non_null(memory);
    version_write(memory, &version);
    assert_int_equal(fclose(memory), 0);
    assert_golden("tests/golden/version.txt", text, size);
    free(text);
}

static void test_progress_line(void **state)
{
    static const struct campaign_config counted = {.runs = 2000};
    static const struct campaign_config timed = {.duration_ns = 90 * NS_PER_S};
    static const struct campaign_config huge = {.runs = UINT64_C(1000000000000)};
    static const struct campaign_progress now = {
        .elapsed_ns = 2010 * NS_PER_MS,
        .runs_started = 756,
        .runs_ended = 500,
        .errors = 2,
    };
    static const struct campaign_progress most = {
        .elapsed_ns = UINT64_MAX / 2,
        .runs_started = UINT64_MAX,
        .runs_ended = UINT64_MAX / 2,
        .errors = UINT64_MAX,
    };
    char line[PROGRESS_LINE_BYTES];
    (void)state;
    progress_format(line, &counted, &now, NS_PER_S, 250, NULL);
    assert_string_equal(line, "2s runs=500/2000 (25%) rate=250/s in-flight=256 errors=2 left=6s");
    progress_format(line, &timed, &now, NS_PER_S, 250, NULL);
    assert_string_equal(line, "2s runs=500 rate=250/s in-flight=256 errors=2 left=1m28s");
    progress_format(line, &counted, &now, 10 * NS_PER_MS, 0, "draining");
    assert_string_equal(line, "2.01s runs=500/2000 (25%) rate=0/s in-flight=256 errors=2 draining");
    progress_format(line, &huge, &most, NS_PER_S, 1e18, "draining");
    assert_true(strlen(line) < PROGRESS_LINE_BYTES);
}

/* Lines that follow each other never show the same time. */
static void test_progress_resolution(void **state)
{
    (void)state;
    assert_int_equal(progress_resolution_ns(NS_PER_S), NS_PER_S);
    assert_int_equal(progress_resolution_ns(60 * NS_PER_S), NS_PER_S);
    assert_int_equal(progress_resolution_ns(1500 * NS_PER_MS), 100 * NS_PER_MS);
    assert_int_equal(progress_resolution_ns(500 * NS_PER_MS), 100 * NS_PER_MS);
    assert_int_equal(progress_resolution_ns(250 * NS_PER_MS), 10 * NS_PER_MS);
    assert_int_equal(progress_resolution_ns(1), NS_PER_MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good_report),   cmocka_unit_test(test_bad_report),
        cmocka_unit_test(test_empty_report),  cmocka_unit_test(test_help_and_version),
        cmocka_unit_test(test_progress_line), cmocka_unit_test(test_progress_resolution),
        cmocka_unit_test(test_hostile_texts), cmocka_unit_test(test_every_flag_of_a_run_shows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
