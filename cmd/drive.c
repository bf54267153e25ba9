/*
 * drive: see drive.h.
 *
 * The happy path: look whether paths and memory will do, open the campaign, wait on a loop for its
 * end, read back, report. An objective that is missed under -slo-abort stops it as a signal does.
 * Failures: anything wrong until the campaign is open ends with
 * EXIT_CODE_USAGE and has touched nothing. SIGINT or SIGTERM stops new runs; those in flight get
 * DRAIN_NS, then they are abandoned; the partial report is written all the same. One that comes
 * before the campaign is open keeps it from being started. A second signal ends the process at
 * once: signals have their own handler at all times but while the loop waits for the first.
 */
#include "cmd/drive.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>

#include "cmd/command.h"
#include "cmd/intervals.h"
#include "cmd/live.h"
#include "cmd/output.h"
#include "cmd/progress.h"
#include "cmd/report.h"
#include "cmd/signals.h"
#include "cmd/slo_watch.h"
#include "cmd/verdict.h"
#include "cmd/warmup.h"
#include "engine/base/clock.h"
#include "engine/base/resource.h"
#include "engine/base/units.h"
#include "engine/campaign.h"
#include "engine/loop.h"
#include "engine/memory_plan.h"

#define DRAIN_NS (2 * NS_PER_S)
#define INTERVAL_NS_MIN (10 * NS_PER_MS)
enum { TIMERS_A_TURN = 16 };

/* Some senders signal the child and then its whole group: what follows the first signal so closely
 * is the same wish, not a second one. */
#define SAME_SIGNAL_NS (100 * NS_PER_MS)

/* The stop flag: the first SIGINT or SIGTERM, or 0; and when it came. */
static atomic_int stop_signal;
static _Atomic uint64_t stop_signal_ns;

struct control {
    struct loop loop;
    struct loop_watch signals; /* .fd is the signalfd */
    struct timer drain;
    struct progress progress;
    struct intervals intervals;
    struct live live;
    struct slo_watch slo_watch;
    struct warmup warmup;
    struct campaign *campaign;
    sigset_t signal_set;
    bool is_loop_open;
    bool is_watching;
};

static bool is_stopped(void)
{
    return stop_signal != 0;
}

/* Runs while signals are not read from the signalfd: before the campaign is open, after the first
 * one, and after the campaign. One at a time: it reads what it writes. */
static void on_signal(int signal)
{
    uint64_t now_ns = clock_monotonic_ns();
    if (stop_signal == 0) {
        stop_signal = signal;
        stop_signal_ns = now_ns;
    } else if (now_ns - stop_signal_ns >= SAME_SIGNAL_NS) {
        _exit(EXIT_CODE_SIGNAL_BASE + signal);
    }
}

static void on_drain_over(struct timer *timer, uint64_t now_ns)
{
    struct control *control = container_of(timer, struct control, drain);
    (void)now_ns;
    campaign_abandon(control->campaign);
}

/* Another reason to stop does not prolong the drain of the first. */
static void stop_and_drain(struct control *control)
{
    campaign_stop(control->campaign);
    warmup_stop(&control->warmup); /* nothing is left to be measured */
    if (!timer_is_armed(&control->drain))
        loop_timer_start(&control->loop, &control->drain, loop_clock_ns(&control->loop) + DRAIN_NS);
    progress_note(&control->progress, "draining");
}

static void on_slo_missed(struct slo_watch *watch)
{
    stop_and_drain(container_of(watch, struct control, slo_watch));
}

static void on_warmup_over(struct warmup *warmup)
{
    struct control *control = container_of(warmup, struct control, warmup);
    intervals_end_warmup(&control->intervals);
    slo_watch_start(&control->slo_watch, &control->loop, control->campaign, &control->live);
}

static void stop_watching(struct control *control)
{
    if (!control->is_watching)
        return;
    loop_unwatch(&control->loop, &control->signals);
    control->is_watching = false;
}

static void on_signal_readable(struct loop_watch *watch, uint8_t events)
{
    struct control *control = container_of(watch, struct control, signals);
    struct signalfd_siginfo info;
    (void)events;
    if (read(watch->fd, &info, sizeof(info)) != (ssize_t)sizeof(info))
        return;
    stop_signal = (int)info.ssi_signo;
    stop_signal_ns = clock_monotonic_ns();
    stop_watching(control);
    signals_handle(&control->signal_set, on_signal);
    stop_and_drain(control);
}

/* From here to the first signal, signals are the loop's. The campaign's threads take none. */
static int watch_signals(struct control *control)
{
    int error = pthread_sigmask(SIG_BLOCK, &control->signal_set, NULL);
    if (error != 0)
        return -error;
    control->signals.fd = signalfd(-1, &control->signal_set, SFD_NONBLOCK | SFD_CLOEXEC);
    if (control->signals.fd < 0)
        return -errno;
    error = loop_watch(&control->loop, &control->signals);
    control->is_watching = error == 0;
    return error;
}

/* The controller has two descriptors to wait for: epoll does it everywhere, without a ring to set
 * up. */
static int control_open(struct control *control, const struct options *options, struct errmsg *why)
{
    control->signals = (struct loop_watch){
        .fd = -1,
        .events = LOOP_READABLE,
        .ready = on_signal_readable,
    };
    timer_init(&control->drain, on_drain_over);
    progress_init(&control->progress, options);
    uint64_t every_ns = options->progress_ns > 0 ? options->progress_ns : NS_PER_S;
    intervals_init(&control->intervals, every_ns > INTERVAL_NS_MIN ? every_ns : INTERVAL_NS_MIN);
    live_init(&control->live, options->campaign.watched);
    slo_watch_init(&control->slo_watch, options, on_slo_missed);
    warmup_init(&control->warmup, options, on_warmup_over);

    if (options->campaign.watched != 0 && control->live.block == NULL)
        return errmsg_set(why, -ENOMEM, "no memory to look at the campaign");
    int error = loop_open(&control->loop, "epoll", why);
    if (error != 0)
        return error;
    control->is_loop_open = true;
    /* It may take seconds to bring in the memory. */
    error = campaign_open(&control->campaign, &options->campaign, &control->loop, why);
    if (error != 0)
        return error;
    error = watch_signals(control);
    if (error != 0)
        return errmsg_set(why, error, "signals cannot be watched: %s", strerror(-error));
    return 0;
}

static void control_close(struct control *control)
{
    if (control->campaign != NULL)
        campaign_close(control->campaign);
    intervals_free(&control->intervals);
    progress_free(&control->progress);
    live_free(&control->live);
    stop_watching(control);
    if (control->is_loop_open)
        loop_close(&control->loop);
    if (control->signals.fd >= 0)
        (void)close(control->signals.fd); /* Nothing was written to it. */
}

static bool writes_intervals(const struct options *options)
{
    return options->json_path != NULL || options->csv_path != NULL;
}

/* The histograms that the clients of live.h want looked at. */
static uint32_t watched_by(const struct options *options)
{
    bool has_windows = writes_intervals(options) || progress_is_wanted(options);
    return (has_windows ? live_window_watched(&options->campaign) : 0) | slo_watch_watched(options);
}

/* Returns when the workers have come to their end. */
static int drive(struct control *control, const struct options *options)
{
    int error = 0;
    campaign_start(control->campaign);
    live_start(&control->live, control->campaign);
    progress_start(&control->progress, &control->loop, control->campaign, &control->live);
    intervals_start(&control->intervals, &control->loop, control->campaign,
                    control->live.block != NULL && writes_intervals(options) ? &control->live
                                                                             : NULL);
    warmup_start(&control->warmup, &control->loop, control->campaign);
    while (error == 0 && !campaign_is_done(control->campaign)) {
        error = loop_poll(&control->loop, UINT64_MAX, TIMERS_A_TURN);
        live_poll(&control->live);
    }
    progress_stop(&control->progress);
    intervals_stop(&control->intervals);
    warmup_stop(&control->warmup);
    slo_watch_stop(&control->slo_watch);
    live_stop(&control->live);
    loop_timer_stop(&control->loop, &control->drain);
    stop_watching(control);
    signals_handle(&control->signal_set, on_signal);
    return error;
}

/* One line for the first thing that went wrong. Returns whether anything did. */
static bool say_what_failed(const struct report *report, const struct errmsg *journal_error)
{
    const struct campaign_result *result = report->result;
    int64_t errors = report->metrics[METRIC_ERRORS].whole;
    if (result->scheduler_error.text[0] != '\0') {
        output_error("%s", result->scheduler_error.text);
        return true;
    }
    if (journal_error != NULL) {
        bool has_stopped = result->journal_error.text[0] != '\0';
        output_error("the journal failed: %s%s%s", journal_error->text,
                     has_stopped ? "; it had stopped taking records: " : "",
                     result->journal_error.text);
        return true;
    }
    if (result->journal_error.text[0] != '\0') {
        output_error("the journal stopped taking records: %s; %" PRId64 " of %" PRIu64
                     " runs did not complete",
                     result->journal_error.text, errors, result->runs_started);
        return true;
    }
    if (errors > 0) {
        char bound[UNITS_TEXT_BYTES];
        uint64_t bound_bytes = report->options->campaign.memory_bytes_max;
        bool is_full = result->is_journal_full;
        output_error("%" PRId64 " of %" PRIu64 " runs did not complete; the first: %s%s%s", errors,
                     result->runs_started, result->first_error.text,
                     is_full ? "; with all that it records, the campaign may take " : "",
                     is_full ? units_format_megabytes((int64_t)bound_bytes, bound) : "");
        return true;
    }
    uint64_t warmup_errors = report_warmup_errors(result);
    if (warmup_errors > 0)
        output_error("%" PRIu64 " of %" PRIu64 " runs of the warm-up did not complete; the first: "
                     "%s",
                     warmup_errors, result->warmup.runs_started, result->first_error.text);
    else if (result->first_error.text[0] != '\0')
        output_error("%s", result->first_error.text);
    return result->first_error.text[0] != '\0';
}

/* Beyond runs that did not complete. */
static bool has_gone_wrong(const struct campaign_result *result, const struct errmsg *journal_error)
{
    return journal_error != NULL || result->journal_error.text[0] != '\0' ||
           result->scheduler_error.text[0] != '\0';
}

static int finish(struct control *control, const struct options *options,
                  struct report_outputs *outputs)
{
    struct campaign_result result = {0};
    struct errmsg journal_reason = {.text = ""};
    int journal_result = campaign_finish(control->campaign, &result, &journal_reason);
    const struct errmsg *journal_error = journal_result == 0 ? NULL : &journal_reason;
    int stopped_by = stop_signal;
    if (result.loop_fallback != NULL && !options->is_quiet)
        output_error("warning: loop=%s: %s", result.loop_name, result.loop_fallback);
    bool is_measured = result.warmup.is_over && stopped_by == 0;
    if (options->steady_ratio > 0 && is_measured && !control->warmup.is_steady &&
        !options->is_quiet)
        output_error("warning: what is measured began without a steady state");
    if (control->intervals.is_cut && !options->is_quiet)
        output_error(
            "warning: the result has the first %zu intervals only: there is no room for more",
            control->intervals.count);

    struct report report;
    struct errmsg why = {.text = ""};
    report_init(&report, options, &result, stopped_by, journal_error);
    report.intervals = &control->intervals;
    report.slo_abort = control->slo_watch.abort;
    report.warmup = &control->warmup;
    struct verdict_facts facts = {.has_lost_output = report_write(&report, outputs, &why) != 0};
    if (facts.has_lost_output)
        output_error("%s", why.text);
    facts.has_failed_runs = say_what_failed(&report, journal_error);
    facts.has_gone_wrong = has_gone_wrong(&result, journal_error);
    return verdict_of(&report, &facts);
}

static int run_campaign(const struct options *options, const sigset_t *taken,
                        struct report_outputs *outputs)
{
    struct control control = {.signals = {.fd = -1}, .signal_set = *taken};
    struct errmsg why = {.text = ""};
    int code = EXIT_CODE_USAGE;
    int error = control_open(&control, options, &why);
    if (error != 0 && stop_signal == 0) {
        output_error("%s", why.text);
        goto out;
    }
    if (stop_signal != 0) {
        output_error("interrupted by %s before the first run was started",
                     report_signal_name(stop_signal));
        code = EXIT_CODE_SIGNAL_BASE + stop_signal;
        goto out;
    }
    code = EXIT_CODE_FAILED;
    error = drive(&control, options);
    if (error != 0) {
        output_error("waiting failed: %s", strerror(-error));
        goto out;
    }
    code = finish(&control, options, outputs);
out:
    control_close(&control);
    return code;
}

/* Compares the estimate with what may be taken: a tenth of what is available is left alone. */
static int check_memory(struct options *options, struct errmsg *why)
{
    struct campaign_config *campaign = &options->campaign;
    const char *limit_name = "";
    uint64_t available = resource_memory_available_bytes(&limit_name);
    uint64_t needed = campaign_memory_estimate_bytes(campaign);
    campaign->memory_bytes_max = available - available / 10;
    if (needed <= campaign->memory_bytes_max)
        return 0;

    char need_text[UNITS_TEXT_BYTES];
    char available_text[UNITS_TEXT_BYTES];
    char runs_text[64] = "";
    if (campaign->runs > 0 && campaign->mode == JOURNAL_NEW)
        (void)snprintf(runs_text, sizeof(runs_text), "-runs %" PRIu64 " with ", campaign->runs);
    else if (campaign_is_open_loop(campaign))
        (void)snprintf(runs_text, sizeof(runs_text), "the schedule's %" PRIu64 " runs with ",
                       memory_plan_runs(campaign));
    return errmsg_set(
        why, -ENOMEM,
        "%s-concurrency %" PRIu32 " needs about %s of memory, %s may be taken: nine tenths of"
        " %s%s leaves",
        runs_text, campaign->concurrency,
        units_format_megabytes((int64_t)(needed < INT64_MAX ? needed : INT64_MAX), need_text),
        units_format_megabytes((int64_t)campaign->memory_bytes_max, available_text),
        strncmp(limit_name, "RLIMIT", 6) == 0 ? "half of what " : "what the ", limit_name);
}

/* What is said of durability is what the store asks of its disk; of this one it is known. */
static void warn_of_memory(const struct options *options, const struct journal_disk *disk)
{
    const struct campaign_config *config = &options->campaign;
    bool is_power =
        config->durability == DURABILITY_POWER || config->durability == DURABILITY_DEFAULT;
    if (disk->is_memory && is_power)
        output_error("warning: the store lies on a file system in memory: nothing there outlives a "
                     "power cut, whatever the durability");
}

/* Only a warning: nobody knows what else will be written there, or removed, meanwhile. Twice the
 * records leaves room for what the database adds to them and for the log beside it. */
static void warn_of_room(const struct options *options, const struct journal_disk *disk)
{
    const struct campaign_config *config = &options->campaign;
    uint64_t free_bytes = disk->free_bytes;
    if (config->mode != JOURNAL_NEW || free_bytes == JOURNAL_NOT_KNOWN)
        return;
    uint64_t recorded_bytes = memory_plan_recorded_bytes(config);
    uint64_t needed_bytes = recorded_bytes < INT64_MAX / 2 ? 2 * recorded_bytes : INT64_MAX;
    if (needed_bytes <= free_bytes)
        return;
    char needed[UNITS_TEXT_BYTES];
    char available[UNITS_TEXT_BYTES];
    output_error("warning: %" PRIu64
                 " runs may take %s on disk, and where the store lies %s are free",
                 memory_plan_runs(config), units_format_megabytes((int64_t)needed_bytes, needed),
                 units_format_megabytes((int64_t)free_bytes, available));
}

static void warn_of_disk(const struct options *options)
{
    const struct journal_config journal = campaign_journal_config(&options->campaign);
    if (options->is_quiet)
        return;
    const struct journal_disk disk = journal_disk(&journal);
    warn_of_memory(options, &disk);
    warn_of_room(options, &disk);
}

int drive_campaign(struct options *options)
{
    struct report_outputs outputs;
    struct errmsg why = {.text = ""};
    const sigset_t taken = signals_taken();
    options->campaign.must_stop = is_stopped;
    options->campaign.watched = watched_by(options);
    signals_handle(&taken, on_signal); /* before a file is made that a signal would leave behind */
    if (report_outputs_open(&outputs, options, &why) != 0) {
        output_usage_error(options_help_of(options->command), "%s", why.text);
        return EXIT_CODE_USAGE;
    }
    int code = EXIT_CODE_USAGE;
    if (check_memory(options, &why) != 0) {
        output_usage_error(options_help_of(options->command), "%s", why.text);
    } else {
        warn_of_disk(options);
        code = run_campaign(options, &taken, &outputs);
    }
    report_outputs_close(&outputs);
    return code;
}
