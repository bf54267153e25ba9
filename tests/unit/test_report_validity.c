/* Whether a measurement is valid, and what is warned of: each rule on both sides of its bound. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cmd/report_provenance.h"
#include "engine/base/clock.h"
#include "tests/lib/report_machine.h"
#include "tests/lib/scratch.h"

/* A good open loop: 1,000 runs/s for 10 s, of 20 ms each, 10 ms of which in the journal. */
struct bed {
    struct options options;
    struct campaign_result result;
    struct report report;
};

static struct hist *new_hist(uint64_t count, uint64_t value_ns)
{
    struct hist *hist = calloc(1, sizeof(*hist));
    assert_non_null(hist);
    hist_init(hist);
    for (uint64_t i = 0; i < count; i++)
        hist_record(hist, value_ns);
    return hist;
}

static void replace(struct hist **hist, uint64_t count, uint64_t value_ns)
{
    free(*hist);
    *hist = new_hist(count, value_ns);
}

static void parse(struct options *options, const char *latency, const char *slo)
{
    char *arguments[] = {"bench", "-rate",        "1000", "-duration", "10s",       "-latency",
                         NULL,    "-concurrency", "1000", "-slo",      (char *)slo, NULL};
    struct errmsg why = {.text = ""};
    arguments[6] = (char *)latency;
    if (options_parse(options, OPTIONS_OF_RUN, slo == NULL ? 9 : 11, arguments, &why) != 0)
        fail_msg("%s", why.text);
}

static int make_bed(void **state)
{
    enum { RUNS = 10000 };
    struct bed *bed = calloc(1, sizeof(*bed));
    assert_non_null(bed);
    parse(&bed->options, "5ms", NULL);
    bed->result = (struct campaign_result){
        .elapsed_ns = 10 * NS_PER_S,
        .runs_started = RUNS,
        .runs_due = RUNS,
        .issuing_ns = 10 * NS_PER_S,
        .begun_ns = 10 * NS_PER_S - NS_PER_MS,
        .runs_by_outcome = {[OUTCOME_COMPLETED] = RUNS},
        .journal_ns = RUNS * 10 * NS_PER_MS,
        .slot_ns = RUNS * 20 * NS_PER_MS,
        .slot_journal_ns = RUNS * 10 * NS_PER_MS,
        .is_open_loop = true,
        .busiest = 0.5,
        .stolen = 0.01,
        .throttled = 0,
        .loop_name = "epoll",
        .journal_name = "sqlite",
        .durability = DURABILITY_POWER,
        .response = new_hist(RUNS, 20 * NS_PER_MS),
        .service = new_hist(RUNS, 20 * NS_PER_MS),
        .failed = new_hist(0, 0),
        .append = new_hist(6 * RUNS, NS_PER_MS),
        .lag = new_hist(0, 0),
        .retried = new_hist(0, 0),
        .token_lag = new_hist(0, 0),
        .warmup.response = new_hist(0, 0),
        .dispatch = new_hist(RUNS, NS_PER_MS),
        .overshoot = new_hist(2 * RUNS, 100 * NS_PER_US),
    };
    *state = bed;
    return 0;
}

static int remove_bed(void **state)
{
    struct bed *bed = *state;
    free(bed->result.response);
    free(bed->result.service);
    free(bed->result.failed);
    free(bed->result.append);
    free(bed->result.lag);
    free(bed->result.dispatch);
    free(bed->result.retried);
    free(bed->result.token_lag);
    free(bed->result.warmup.response);
    free(bed->result.overshoot);
    options_free(&bed->options);
    free(bed);
    return 0;
}

static void judge(struct bed *bed)
{
    report_init(&bed->report, &bed->options, &bed->result, 0, NULL);
    machine_fix(&bed->report);
    report_warn(&bed->report);
}

/* One reason, which begins so, or none. */
static void assert_reason(struct bed *bed, const char *text)
{
    judge(bed);
    const struct report *report = &bed->report;
    if (report->reason_count != (text != NULL) ||
        (text != NULL && strstr(report->reasons[0].text, text) == NULL))
        fail_msg("%zu reasons, the first: \"%s\", not \"%s\"", report->reason_count,
                 report->reasons[0].text, text != NULL ? text : "");
    assert_int_equal(report->warning_count, 0);
}

static void assert_warning(struct bed *bed, const char *text)
{
    report_warn(&bed->report);
    const struct report *report = &bed->report;
    assert_int_equal(report->reason_count, 0); /* none of it spoils the measurement */
    if (report->warning_count != (text != NULL) ||
        (text != NULL && strcmp(report->warnings[0].text, text) != 0))
        fail_msg("%zu warnings, the first: \"%s\", not \"%s\"", report->warning_count,
                 report->warnings[0].text, text != NULL ? text : "");
}

/* --- the rules --- */

static void a_good_measurement_is_valid(void **state)
{
    struct bed *bed = *state;
    assert_reason(bed, NULL);
    assert_true(bed->report.metrics[METRIC_OFFERED].rate == 1000);
    assert_true(bed->report.metrics[METRIC_ACHIEVED].rate == 1000);
}

static void arrivals_that_the_cap_held_back(void **state)
{
    struct bed *bed = *state;
    /* 5 ms more than a hundredth later: the cap did not suffice for 20 ms at 1,000/s. */
    bed->options.campaign.concurrency = 9;
    bed->result.runs_queued = 500;
    bed->result.begun_ns = 10 * NS_PER_S + 106 * NS_PER_MS;
    assert_reason(bed, "989.511 runs/s were started of 1000/s offered, and it was not the store's "
                       "doing: -concurrency 9 is too low for what runs take besides the journal");
    assert_true(bed->report.metrics[METRIC_ACHIEVED].rate < 990);
    /* Without the journal's 10 ms ten slots would have sufficed: the store is the limit. */
    bed->options.campaign.concurrency = 10;
    assert_reason(bed, NULL);
    /* A hundredth is no miss, however long; nor is a tenth of a second, however much of it. */
    bed->options.campaign.concurrency = 9;
    bed->result.begun_ns = 10 * NS_PER_S + 100 * NS_PER_MS;
    assert_reason(bed, NULL);
    bed->result.issuing_ns = 200 * NS_PER_MS;
    bed->result.runs_due = bed->result.runs_started = 200;
    bed->result.begun_ns = 299 * NS_PER_MS;
    assert_reason(bed, NULL);
    bed->result.begun_ns = 301 * NS_PER_MS;
    assert_reason(bed, "runs/s were started of 1000/s offered");
}

/* 500/s were to come, and 32 slots, always full, kept 102/s of them. */
static void make_full_house(struct bed *bed)
{
    bed->options.campaign.concurrency = 32;
    bed->result.runs_queued = 4900;
    bed->result.runs_due = bed->result.runs_started = 5000;
    bed->result.begun_ns = 49 * NS_PER_S;
    bed->result.journal_ns = 5000 * 50 * NS_PER_US;
}

/* Half of all calls fail and are made again after a back-off. Those that never failed held a slot
 * for 10 ms: of them five slots would have sufficed. */
static void slots_that_back_offs_hold(void **state)
{
    struct bed *bed = *state;
    make_full_house(bed);
    replace(&bed->result.response, 1250, 10 * NS_PER_S);
    replace(&bed->result.service, 1250, 10 * NS_PER_MS);
    replace(&bed->result.retried, 3750, 10 * NS_PER_S);
    bed->result.slot_ns = 5000 * 313 * NS_PER_MS;
    bed->result.slot_journal_ns = 5000 * 50 * NS_PER_US;
    assert_reason(bed, "102.041 runs/s were started of 500/s offered, and it was not the store's "
                       "doing: -concurrency 32 is too low for what runs take besides the journal");
    /* 32 slots suffice for 64 ms at 500/s: whoever held them, the journal took the rest. */
    bed->result.slot_journal_ns = 5000 * 248 * NS_PER_MS;
    assert_reason(bed, "-concurrency 32 is too low");
    bed->result.slot_journal_ns = 5000 * 249 * NS_PER_MS;
    assert_reason(bed, NULL);
}

/* All but a fifth of the runs end in -timeout, of which neither the response nor the journal's mean
 * tells. */
static void slots_that_runs_hold_until_their_timeout(void **state)
{
    struct bed *bed = *state;
    make_full_house(bed);
    replace(&bed->result.response, 1000, 10 * NS_PER_S);
    replace(&bed->result.service, 1000, 10 * NS_PER_MS);
    replace(&bed->result.failed, 4000, 10 * NS_PER_S);
    bed->result.runs_by_outcome[OUTCOME_COMPLETED] = 1000;
    bed->result.runs_by_outcome[OUTCOME_TIMEOUT] = 4000;
    bed->result.slot_ns = (4000 * 390 + 1000 * 10) * NS_PER_MS;
    /* In a model call. */
    bed->result.slot_journal_ns = 1000 * 50 * NS_PER_US;
    assert_reason(bed, "-concurrency 32 is too low for what runs take besides the journal");
    /* In an append: without it all would have held a slot for 10 ms. */
    bed->result.slot_journal_ns = 4000 * 380 * NS_PER_MS;
    assert_reason(bed, NULL);
}

static void arrivals_that_the_scheduler_was_late_for(void **state)
{
    struct bed *bed = *state;
    bed->result.begun_ns = 11 * NS_PER_S;
    /* No run has found the cap: whatever the store did held back none. */
    assert_reason(bed, "909.091 runs/s were started of 1000/s offered, and it was not the store's "
                       "doing: the schedulers were late");
    /* Of a campaign that ended early nobody knows what it would have come to. */
    (void)errmsg_set(&bed->result.journal_error, 0, "gone");
    assert_reason(bed, "the journal stopped taking records: gone");
    bed->result.journal_error.text[0] = '\0';
    report_init(&bed->report, &bed->options, &bed->result, 2, NULL);
    assert_int_equal(bed->report.reason_count, 1);
    assert_string_equal(bed->report.reasons[0].text, "interrupted by SIGINT");
}

static void stub_replies_that_come_late(void **state)
{
    struct bed *bed = *state;
    /* 5 % of 5 ms is less than 1 ms. */
    replace(&bed->result.overshoot, 20000, 990 * NS_PER_US);
    assert_reason(bed, NULL);
    replace(&bed->result.overshoot, 20000, 1010 * NS_PER_US);
    assert_reason(bed, "the stub model's replies came late: at p99 by 1ms, and at most 1ms (5% "
                       "of the latency's median, or 1ms where that is more) may be");
    /* And of 100 ms more. The median is what counts, not a tail. */
    options_free(&bed->options);
    parse(&bed->options, "lognormal:p50=100ms,p99=10s", NULL);
    replace(&bed->result.overshoot, 20000, 4950 * NS_PER_US);
    assert_reason(bed, NULL);
    replace(&bed->result.overshoot, 20000, 5050 * NS_PER_US);
    assert_reason(bed, "replies came late: at p99 by 5.1ms");
    /* A p99 of few says nothing. */
    replace(&bed->result.overshoot, 900, NS_PER_S);
    assert_reason(bed, NULL);
}

/* In a closed loop it is the mean, and a warning. */
static void stub_replies_of_a_closed_loop(void **state)
{
    struct bed *bed = *state;
    bed->options.campaign.arrival.rate = 0;
    bed->result.is_open_loop = false;
    replace(&bed->result.overshoot, 20000, 990 * NS_PER_US);
    assert_reason(bed, NULL);
    replace(&bed->result.overshoot, 20000, 3 * NS_PER_MS);
    judge(bed);
    assert_warning(bed, "the stub model's replies came 3ms late on average: throughput is that of "
                        "a slower model");
}

static void time_that_others_took(void **state)
{
    struct bed *bed = *state;
    bed->result.stolen = 0.05;
    bed->result.throttled = 0.05;
    assert_reason(bed, NULL);
    bed->result.stolen = 0.051;
    assert_reason(bed, "the machine's host kept 5.1% of its CPU time for others (steal)");
    bed->result.stolen = -1; /* not known is no reason */
    assert_reason(bed, NULL);
    assert_false(bed->report.metrics[METRIC_STOLEN].is_known);
    bed->result.throttled = 0.4;
    assert_reason(bed, "the CPU quota of the cgroup held the threads up for 40.0% of the time");
    bed->result.throttled = -1;
    assert_reason(bed, NULL);
    assert_false(bed->report.metrics[METRIC_THROTTLED].is_known);
    /* Of a short campaign it is a warning. */
    bed->result.stolen = 0.06;
    bed->result.elapsed_ns = 5 * NS_PER_S - 1;
    judge(bed);
    assert_warning(bed, "the machine's host kept 6.0% of its CPU time for others (steal)");
    bed->result.elapsed_ns = 5 * NS_PER_S;
    assert_reason(bed, "(steal)");
    /* A closed loop is no better off. */
    bed->options.campaign.arrival.rate = 0;
    bed->result.is_open_loop = false;
    bed->result.stolen = 0.2;
    assert_reason(bed, "(steal)");
}

/* There is room for all at once. */
static void everything_wrong_at_once(void **state)
{
    struct bed *bed = *state;
    const struct errmsg journal_error = {"lost"};
    bed->result.busiest = 1;
    bed->result.stolen = 1;
    bed->result.throttled = 1;
    bed->result.begun_ns = 20 * NS_PER_S;
    bed->result.runs_by_outcome[OUTCOME_COMPLETED] = 0;
    replace(&bed->result.overshoot, 20000, NS_PER_S);
    replace(&bed->result.dispatch, 10000, NS_PER_S);
    report_init(&bed->report, &bed->options, &bed->result, 0, NULL);
    assert_int_equal(bed->report.reason_count, 7);
    (void)errmsg_set(&bed->result.scheduler_error, 0, "x");
    (void)errmsg_set(&bed->result.journal_error, 0, "x");
    report_init(&bed->report, &bed->options, &bed->result, 2, &journal_error);
    assert_int_equal(bed->report.reason_count, 10); /* one that ended early has no rate */
}

/* --- warnings --- */

static void builds_that_are_not_for_measuring(void **state)
{
    struct bed *bed = *state;
    judge(bed);
    assert_warning(bed, NULL);
    bed->report.version.is_optimized = false;
    assert_warning(bed, "a debug build: without optimisation the figures are not bench's");
    bed->report.version.is_optimized = true;
    bed->report.version.sanitizers = "address";
    assert_warning(bed, "a build with sanitizers (address): the figures are not bench's");
}

static void governors(void **state)
{
    struct bed *bed = *state;
    judge(bed);
    (void)snprintf(bed->report.host.cpu_governor, HOST_TEXT_BYTES, "powersave");
    assert_warning(bed, "the CPU governor is powersave, not performance: clocks change meanwhile");
    bed->report.host.cpu_governor[0] = '\0'; /* a kernel that does not say */
    assert_warning(bed, NULL);
}

static void too_few_for_a_percentile(void **state)
{
    struct bed *bed = *state;
    replace(&bed->result.response, 1000, NS_PER_MS * 20);
    judge(bed);
    assert_warning(bed, NULL);
    replace(&bed->result.response, 999, NS_PER_MS * 20);
    judge(bed);
    assert_warning(bed, "too few runs for p99: 999 have completed, and it takes 1000");
    replace(&bed->result.response, 9999, NS_PER_MS * 20);
    options_free(&bed->options);
    parse(&bed->options, "5ms", "p(99.9)<1s");
    judge(bed);
    assert_warning(bed, "too few samples for -slo p(99.9)<1s: there are 9999, and it takes 10000");
    replace(&bed->result.response, 10000, NS_PER_MS * 20);
    judge(bed);
    assert_warning(bed, NULL);
    /* What is not told by a percentile takes no number. */
    options_free(&bed->options);
    parse(&bed->options, "5ms", "errors<1%");
    judge(bed);
    assert_warning(bed, NULL);
}

static void warnings_are_printed_unless_quiet(void **state)
{
    struct bed *bed = *state;
    char *text = NULL;
    size_t size = 0;
    judge(bed);
    bed->report.version.is_optimized = false;
    report_warn(&bed->report);
    assert_int_equal(report_render(&report_text, &bed->report, &text, &size), 0);
    assert_non_null(strstr(text, "\nwarning: a debug build: "));
    assert_null(strstr(text, "not valid"));
    free(text);
    bed->options.is_quiet = true;
    assert_int_equal(report_render(&report_text, &bed->report, &text, &size), 0);
    assert_null(strstr(text, "warning"));
    free(text);
    assert_int_equal(report_render(&report_json, &bed->report, &text, &size), 0);
    assert_non_null(strstr(text, "\"verdict\":\"valid\",\"reasons\":[],\"warnings\":[\"a debug"));
    free(text);
}

/* --- the host --- */

static void put_governor(const struct scratch *scratch, unsigned cpu, const char *governor)
{
    char path[256];
    (void)snprintf(path, sizeof(path), "%s/cpu%u", scratch->path, cpu);
    (void)mkdir(path, 0700); /* may be there already, as may the next */
    (void)snprintf(path, sizeof(path), "%s/cpu%u/cpufreq", scratch->path, cpu);
    (void)mkdir(path, 0700);
    (void)snprintf(path, sizeof(path), "%s/cpu%u/cpufreq/scaling_governor", scratch->path, cpu);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fprintf(file, "%s\n", governor) > 0);
    assert_int_equal(fclose(file), 0);
}

/* Of the CPUs that we may run on, the first that is not at its best. */
static void the_governor_is_the_worst_of_ours(void **state)
{
    struct scratch scratch;
    char governor[HOST_TEXT_BYTES] = "before";
    cpu_set_t set;
    (void)state;
    assert_int_equal(scratch_make(&scratch, "governor"), 0);
    host_read_governor(scratch.path, governor);
    assert_string_equal(governor, "");
    assert_int_equal(sched_getaffinity(0, sizeof(set), &set), 0);
    unsigned last = 0;
    for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        put_governor(&scratch, cpu, CPU_ISSET(cpu, &set) ? "performance" : "powersave");
        last = CPU_ISSET(cpu, &set) ? cpu : last;
    }
    host_read_governor(scratch.path, governor);
    assert_string_equal(governor, "performance");
    put_governor(&scratch, last, "schedutil");
    host_read_governor(scratch.path, governor);
    assert_string_equal(governor, "schedutil");
    assert_int_equal(scratch_remove(&scratch), 0);
}

static void the_host_tells_what_it_is(void **state)
{
    struct host host;
    (void)state;
    host_read(&host);
    assert_in_range(host.cpus, 1, host.cpus_online);
    assert_in_range(host.clock_step_ns, 1, 10 * NS_PER_MS);
    assert_true(host.clock_source[0] != '\0' && host.kernel[0] != '\0' && host.cpu_quota >= 0);
}

static void times_are_written_as_people_do(void **state)
{
    char text[REPORT_TIME_BYTES];
    (void)state;
    assert_string_equal(report_time(0, text), "1970-01-01T00:00:00.000Z");
    assert_string_equal(report_time(UINT64_C(951782400999999999), text),
                        "2000-02-29T00:00:00.999Z");
    assert_string_equal(report_time(UINT64_MAX, text), "2554-07-21T23:34:33.709Z");
}

#define IN_BED(test) cmocka_unit_test_setup_teardown(test, make_bed, remove_bed)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_BED(a_good_measurement_is_valid),
        IN_BED(arrivals_that_the_cap_held_back),
        IN_BED(slots_that_back_offs_hold),
        IN_BED(slots_that_runs_hold_until_their_timeout),
        IN_BED(arrivals_that_the_scheduler_was_late_for),
        IN_BED(stub_replies_that_come_late),
        IN_BED(stub_replies_of_a_closed_loop),
        IN_BED(time_that_others_took),
        IN_BED(everything_wrong_at_once),
        IN_BED(builds_that_are_not_for_measuring),
        IN_BED(governors),
        IN_BED(too_few_for_a_percentile),
        IN_BED(warnings_are_printed_unless_quiet),
        cmocka_unit_test(the_governor_is_the_worst_of_ours),
        cmocka_unit_test(the_host_tells_what_it_is),
        cmocka_unit_test(times_are_written_as_people_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
