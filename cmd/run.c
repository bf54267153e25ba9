/*
 * run: the subcommand that drives a campaign and reports it.
 *
 * The happy path: read the flags, look whether paths and memory will do, open the campaign, wait on
 * a loop for its end, read back, report. Failures: anything wrong until the campaign is open ends
 * with EXIT_CODE_USAGE and has touched nothing. SIGINT or SIGTERM stops new runs; those in flight
 * get DRAIN_NS, then they are abandoned; the partial report is written all the same. One that comes
 * before the campaign is open keeps it from being started. A second signal ends the process at
 * once: signals have their own handler at all times but while the loop waits for the first.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "cmd/command.h"
#include "cmd/options.h"
#include "cmd/output.h"
#include "cmd/progress.h"
#include "cmd/report.h"
#include "cmd/version.h"
#include "engine/base/clock.h"
#include "engine/base/resource.h"
#include "engine/base/units.h"
#include "engine/campaign.h"
#include "engine/loop.h"

#define DRAIN_NS (2 * NS_PER_S)
enum { TIMERS_A_TURN = 16 };

/* Some senders signal the child and then its whole group: what follows the first signal so closely
 * is the same wish, not a second one. */
#define SAME_SIGNAL_NS (100 * NS_PER_MS)

/* The stop flag: the first SIGINT or SIGTERM, or 0; and when it came. */
static volatile sig_atomic_t stop_signal;
static _Atomic uint64_t stop_signal_ns;

struct control {
    struct loop loop;
    struct loop_watch signals; /* .fd is the signalfd */
    struct timer drain;
    struct progress progress;
    struct campaign *campaign;
    sigset_t signal_set;
    bool is_loop_open;
    bool is_watching;
};

/* Runs while signals are not read from the signalfd: before the campaign is open, after the first
 * one, and after the campaign. */
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

static const int signals[] = {SIGINT, SIGTERM};

/* A signal that was ignored when we were started stays so: nohup and a shell's background jobs
 * count on it. */
static void choose_signals(struct control *control)
{
    (void)sigemptyset(&control->signal_set);
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
        struct sigaction action;
        if (sigaction(signals[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN)
            (void)sigaddset(&control->signal_set, signals[i]);
    }
}

static void handle_signals_directly(const struct control *control)
{
    struct sigaction action = {
        .sa_handler = on_signal,
        .sa_mask = control->signal_set, /* one at a time: on_signal() reads what it writes */
        .sa_flags = SA_RESTART,
    };
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
        if (sigismember(&control->signal_set, signals[i]) == 1)
            (void)sigaction(signals[i], &action, NULL); /* It cannot fail for these. */
    (void)pthread_sigmask(SIG_UNBLOCK, &control->signal_set, NULL);
}

static void on_drain_over(struct timer *timer, uint64_t now_ns)
{
    struct control *control = container_of(timer, struct control, drain);
    (void)now_ns;
    campaign_abandon(control->campaign);
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
    handle_signals_directly(control);
    campaign_stop(control->campaign);
    loop_timer_start(&control->loop, &control->drain, loop_clock_ns(&control->loop) + DRAIN_NS);
    progress_note(&control->progress, "draining");
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

    choose_signals(control);
    handle_signals_directly(control);
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
    stop_watching(control);
    if (control->is_loop_open)
        loop_close(&control->loop);
    if (control->signals.fd >= 0)
        (void)close(control->signals.fd); /* Nothing was written to it. */
}

/* Returns when the workers have come to their end. */
static int drive(struct control *control)
{
    int error = 0;
    campaign_start(control->campaign);
    progress_start(&control->progress, &control->loop, control->campaign);
    while (error == 0 && !campaign_is_done(control->campaign))
        error = loop_poll(&control->loop, UINT64_MAX, TIMERS_A_TURN);
    progress_stop(&control->progress);
    loop_timer_stop(&control->loop, &control->drain);
    stop_watching(control);
    handle_signals_directly(control);
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
        output_error("the journal failed: %s", journal_error->text);
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
    if (result->first_error.text[0] != '\0')
        output_error("%s", result->first_error.text);
    return result->first_error.text[0] != '\0';
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

    struct report report;
    struct errmsg why = {.text = ""};
    report_init(&report, options, &result, stopped_by, journal_error);
    int code = EXIT_CODE_GOOD;
    if (report_write(&report, outputs, &why) != 0) {
        output_error("%s", why.text);
        code = EXIT_CODE_FAILED;
    }
    if (say_what_failed(&report, journal_error))
        code = EXIT_CODE_FAILED;
    if (stopped_by != 0)
        return EXIT_CODE_SIGNAL_BASE + stopped_by;
    if (code != EXIT_CODE_GOOD || report.reason_count == 0)
        return code;
    output_error("the measurement is not valid: %s", report.reasons[0].text);
    return EXIT_CODE_INVALID;
}

static int run_campaign(const struct options *options, struct report_outputs *outputs)
{
    struct control control = {.signals = {.fd = -1}};
    struct errmsg why = {.text = ""};
    int code = EXIT_CODE_USAGE;
    int error = control_open(&control, options, &why);
    if (error != 0) {
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
    error = drive(&control);
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
    if (campaign->runs > 0)
        (void)snprintf(runs_text, sizeof(runs_text), "-runs %" PRIu64 " with ", campaign->runs);
    return errmsg_set(
        why, -ENOMEM,
        "%s-concurrency %" PRIu32 " needs about %s of memory, %s may be taken: nine tenths of"
        " %s%s leaves",
        runs_text, campaign->concurrency,
        units_format_megabytes((int64_t)(needed < INT64_MAX ? needed : INT64_MAX), need_text),
        units_format_megabytes((int64_t)campaign->memory_bytes_max, available_text),
        strncmp(limit_name, "RLIMIT", 6) == 0 ? "half of what " : "what the ", limit_name);
}

static int print_and_exit(void (*print)(FILE *out))
{
    char *text = NULL;
    size_t size = 0;
    FILE *memory = open_memstream(&text, &size);
    int error = memory == NULL ? -errno : 0;
    if (memory != NULL) {
        print(memory);
        error = fclose(memory) == 0 ? output_write(STDOUT_FILENO, text, size) : -ENOMEM;
        free(text);
    }
    if (error == 0)
        return EXIT_CODE_GOOD;
    output_error("standard output cannot be written: %s", strerror(-error));
    return EXIT_CODE_FAILED;
}

static void print_version(FILE *out)
{
    struct version version = version_of_build();
    version_write(out, &version);
}

static int check_and_run(struct options *options)
{
    struct report_outputs outputs;
    struct errmsg why = {.text = ""};
    if (report_outputs_open(&outputs, options, &why) != 0) {
        output_usage_error("%s", why.text);
        return EXIT_CODE_USAGE;
    }
    int code = EXIT_CODE_USAGE;
    if (check_memory(options, &why) != 0)
        output_usage_error("%s", why.text);
    else
        code = run_campaign(options, &outputs);
    report_outputs_close(&outputs);
    return code;
}

static int run(int argc, char **argv)
{
    struct options options;
    struct errmsg why = {.text = ""};
    int code = EXIT_CODE_USAGE;
    if (options_parse(&options, argc, argv, &why) != 0) {
        output_usage_error("%s", why.text);
        return EXIT_CODE_USAGE;
    }
    switch (options.action) {
    case OPTIONS_HELP:
        code = print_and_exit(options_write_help);
        break;
    case OPTIONS_VERSION:
        code = print_and_exit(print_version);
        break;
    case OPTIONS_RUN:
        code = check_and_run(&options);
        break;
    }
    options_free(&options);
    return code;
}

/* What people type who do not know the flags yet; what follows is not looked at, as after -help. */
static int help(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    return print_and_exit(options_write_help);
}

const struct command command_run = {.name = "run", .run = run};
const struct command command_help = {.name = "help", .run = help};
