/*
 * report_validity: whether the figures are the system's that was measured, or the instrument's.
 *
 * A reason makes the measurement invalid. What is held against the runs of an open loop, whose
 * times are told as the system's:
 *
 * - Dispatch lag: its p99 is more than a tenth of the response time's.
 * - A scheduler thread was busy for more than 90 % of the time, of at least BUSY_NS_MIN.
 * - Achieved: runs were started at less than 99 % of the offered rate, the last of them at least
 *   MISSED_NS_MIN late, while the store was not the limit. The store is the limit when arrivals
 *   found all slots taken, and the slots would have sufficed for the offered rate without the time
 *   for which runs waited for the journal: is_store_the_limit().
 * - Overshoot: the stub model's replies came late, at p99, by more than 5 % of the median latency
 *   that was asked for, or 1 ms where that is more. In a closed loop thousands of replies may be
 *   due at the same instant, which no machine delivers at once, and the times are not told as the
 *   system's: there it is a warning, when the mean is so late, since throughput is then that of a
 *   slower model (docs/decisions.md).
 *
 * And against all: the machine's host kept more than 5 % of the CPUs' time for others (steal), for
 * STOLEN_NS_MIN at the least, below which it is a warning, since neighbours come and go; or a quota
 * of the cgroup held the threads up for more than 5 % of theirs. What cannot be read is not known,
 * and no reason.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "cmd/report.h"
#include "engine/base/clock.h"
#include "engine/base/units.h"

#define LATE_SHARE_MAX 0.05
#define INTERFERENCE_MAX 0.05
#define STOLEN_NS_MIN (5 * NS_PER_S)
#define ACHIEVED_MIN 0.99
#define BUSY_NS_MIN (100 * NS_PER_MS)
/* What a machine that has other things to do may be late by, once, at the end. */
#define MISSED_NS_MIN (100 * NS_PER_MS)

/* A scheduler that is never idle is late for what comes next; in a closed loop that is what is
 * looked for. */
static void check_busy(struct report *report)
{
    const double busy_max = 0.9;
    const struct campaign_result *result = report->result;
    bool is_long = result->begun_ns >= BUSY_NS_MIN; /* else it has had no time to be idle in */
    if (campaign_is_open_loop(&report->options->campaign) && is_long && result->busiest > busy_max)
        (void)errmsg_set(report_next_reason(report), 0,
                         "a scheduler thread was busy for %.0f%% of the time: more threads, or a "
                         "lower rate",
                         100 * result->busiest);
}

/* What the scheduler adds to a response time is not the system's that is measured. */
static void check_dispatch(struct report *report)
{
    enum { DISPATCH_SHARE = 10 /* a tenth of the response time at the most */ };
    const struct hist *dispatch = report->result->dispatch;
    const struct hist *response = report->result->response;
    char lag[UNITS_TEXT_BYTES];
    char whole_time[UNITS_TEXT_BYTES];
    if (!hist_quantile_is_known(dispatch, 0.99) || !hist_quantile_is_known(response, 0.99))
        return;
    uint64_t lag_ns = hist_quantile_ns(dispatch, 0.99);
    uint64_t response_ns = hist_quantile_ns(response, 0.99);
    if (lag_ns > response_ns / DISPATCH_SHARE)
        (void)errmsg_set(report_next_reason(report), 0,
                         "runs were started late: the dispatch lag's p99 is %s, more than a tenth "
                         "of the response time's, %s",
                         units_format_duration(lag_ns, lag),
                         units_format_duration(response_ns, whole_time));
}

/* Whether the slots would have sufficed but for the time that runs waited for the journal. By
 * Little's law the offered rate keeps so many slots busy with anything else:
 *
 *     offered x (slot - journal) / started
 *
 * slot being the time that the runs held their slots, from their starts to their ends, and journal
 * what they waited for it meanwhile: sums over all that were started, since those that fail, try
 * again, time out or are let go hold slots as well. The store is the limit where concurrency is not
 * below that. What waits for a slot is in neither, or a queue would be its own excuse. */
static bool is_store_the_limit(const struct report *report)
{
    const struct campaign_result *result = report->result;
    if (result->runs_queued == 0 || result->runs_started == 0)
        return false;
    double besides_ns =
        ((double)result->slot_ns - (double)result->slot_journal_ns) / (double)result->runs_started;
    double offered_per_ns = report->metrics[METRIC_OFFERED].rate / NS_PER_S;
    return (double)report->options->campaign.concurrency >= offered_per_ns * besides_ns;
}

static void check_achieved(struct report *report)
{
    const struct campaign_result *result = report->result;
    double offered = report->metrics[METRIC_OFFERED].rate;
    double achieved = report->metrics[METRIC_ACHIEVED].rate;
    bool has_ended_early = report->stop_signal != 0 || result->has_store_failed ||
                           result->journal_error.text[0] != '\0' ||
                           result->scheduler_error.text[0] != '\0';
    /* A campaign of one run has no rate, and one that ended early none that it was to have. */
    if (!report->metrics[METRIC_ACHIEVED].is_known || has_ended_early)
        return;
    if (achieved >= ACHIEVED_MIN * offered || result->begun_ns < result->issuing_ns + MISSED_NS_MIN)
        return;
    if (is_store_the_limit(report))
        return;
    if (result->runs_queued == 0)
        (void)errmsg_set(report_next_reason(report), 0,
                         "%.6g runs/s were started of %.6g/s offered, and it was not the store's "
                         "doing: the schedulers were late",
                         achieved, offered);
    else
        (void)errmsg_set(report_next_reason(report), 0,
                         "%.6g runs/s were started of %.6g/s offered, and it was not the store's "
                         "doing: -concurrency %" PRIu32
                         " is too low for what runs take besides the journal",
                         achieved, offered, report->options->campaign.concurrency);
}

static uint64_t overshoot_ns_max(const struct report *report)
{
    double median_ns = dist_quantile(&report->options->campaign.latency, 0.5);
    double most_ns = fmax(LATE_SHARE_MAX * median_ns, (double)NS_PER_MS);
    return (uint64_t)fmin(most_ns, (double)NS_MAX_DURATION);
}

static void check_overshoot(struct report *report)
{
    const struct hist *overshoot = report->result->overshoot;
    char late[UNITS_TEXT_BYTES];
    char most[UNITS_TEXT_BYTES];
    const struct dist *latency = &report->options->campaign.latency;
    bool is_unread = latency->kind == DIST_FILE && latency->value_count == 0; /* of a merge */
    if (!campaign_is_open_loop(&report->options->campaign) || is_unread ||
        !hist_quantile_is_known(overshoot, 0.99))
        return;
    uint64_t late_ns = hist_quantile_ns(overshoot, 0.99);
    uint64_t most_ns = overshoot_ns_max(report);
    if (late_ns > most_ns)
        (void)errmsg_set(report_next_reason(report), 0,
                         "the stub model's replies came late: at p99 by %s, and at most %s (5%% of "
                         "the latency's median, or 1ms where that is more) may be",
                         units_format_duration(late_ns, late),
                         units_format_duration(most_ns, most));
}

static void tell_stolen(const struct report *report, struct errmsg *text)
{
    (void)errmsg_set(text, 0, "the machine's host kept %.1f%% of its CPU time for others (steal)",
                     100 * report->metrics[METRIC_STOLEN].rate);
}

static bool is_too_much_stolen(const struct report *report)
{
    const struct metric_value *stolen = &report->metrics[METRIC_STOLEN];
    return stolen->is_known && stolen->rate > INTERFERENCE_MAX;
}

static void check_interference(struct report *report)
{
    const struct metric_value *throttled = &report->metrics[METRIC_THROTTLED];
    if (is_too_much_stolen(report) && report->result->elapsed_ns >= STOLEN_NS_MIN)
        tell_stolen(report, report_next_reason(report));
    if (throttled->is_known && throttled->rate > INTERFERENCE_MAX)
        (void)errmsg_set(report_next_reason(report), 0,
                         "the CPU quota of the cgroup held the threads up for %.1f%% of the time: "
                         "fewer -threads, or a higher quota",
                         100 * throttled->rate);
}

void report_judge(struct report *report)
{
    check_dispatch(report);
    check_busy(report);
    check_achieved(report);
    check_overshoot(report);
    check_interference(report);
}

/* --- warnings --- */

static struct errmsg *next_warning(struct report *report)
{
    assert(report->warning_count < REPORT_WARNINGS_MAX);
    return &report->warnings[report->warning_count++];
}

static void warn_of_build(struct report *report)
{
    const struct version *version = &report->version;
    if (!version->is_optimized)
        (void)errmsg_set(next_warning(report), 0,
                         "a debug build: without optimisation the figures are not bench's");
    if (strcmp(version->sanitizers, "none") != 0)
        (void)errmsg_set(next_warning(report), 0,
                         "a build with sanitizers (%s): the figures are not bench's",
                         version->sanitizers);
}

static void warn_of_host(struct report *report)
{
    const char *governor = report->host.cpu_governor;
    if (governor[0] != '\0' && strcmp(governor, "performance") != 0)
        (void)errmsg_set(next_warning(report), 0,
                         "the CPU governor is %s, not performance: clocks change meanwhile",
                         governor);
}

static void warn_of_overshoot(struct report *report)
{
    const struct hist *overshoot = report->result->overshoot;
    char late[UNITS_TEXT_BYTES];
    uint64_t late_ns = hist_mean_ns(overshoot);
    if (campaign_is_open_loop(&report->options->campaign) || late_ns <= overshoot_ns_max(report))
        return;
    (void)errmsg_set(next_warning(report), 0,
                     "the stub model's replies came %s late on average: throughput is that of a "
                     "slower model",
                     units_format_duration(late_ns, late));
}

/* How many samples a quantile takes to be known. */
static uint64_t samples_needed(double quantile)
{
    return (uint64_t)ceil(HIST_SAMPLES_BEYOND_MIN / (1 - quantile) - 1e-6);
}

static void warn_of_few_samples(struct report *report)
{
    const struct hist *response = report->result->response;
    if (response->count > 0 && !hist_quantile_is_known(response, 0.99))
        (void)errmsg_set(next_warning(report), 0,
                         "too few runs for p99: %" PRIu64 " have completed, and it takes %" PRIu64,
                         response->count, samples_needed(0.99));
    for (size_t i = 0; i < report->options->slo_count; i++) {
        const struct slo *slo = &report->options->slos[i];
        const struct hist *hist = report_slo_hist(slo, report->result);
        if (!slo_is_of_time(slo) || slo->statistic != SLO_QUANTILE || slo->quantile >= 1 ||
            hist_quantile_is_known(hist, slo->quantile))
            continue;
        (void)errmsg_set(next_warning(report), 0,
                         "too few samples for -slo %s: there are %" PRIu64
                         ", and it takes %" PRIu64,
                         slo->text, hist->count, samples_needed(slo->quantile));
    }
}

void report_warn(struct report *report)
{
    report->warning_count = 0;
    if (report->merged != NULL && report->merged->warning.text[0] != '\0')
        *next_warning(report) = report->merged->warning;
    warn_of_build(report);
    warn_of_host(report);
    if (is_too_much_stolen(report) && report->result->elapsed_ns < STOLEN_NS_MIN)
        tell_stolen(report, next_warning(report));
    warn_of_overshoot(report);
    warn_of_few_samples(report);
}
