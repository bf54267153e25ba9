/* progress: see progress.h. */
#include "cmd/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cmd/output.h"
#include "engine/base/clock.h"
#include "engine/base/units.h"

#define NOTE_RESOLUTION_NS (10 * NS_PER_MS)

static uint64_t round_ns(uint64_t ns, uint64_t to_ns)
{
    return (ns + to_ns / 2) / to_ns * to_ns;
}

/* How many runs there are to drive; 0 where that is not known: of those of a campaign that is
 * resumed, most have ended before. */
static uint64_t runs_to_drive(const struct campaign_config *config)
{
    return config->mode == JOURNAL_NEW ? config->runs : 0;
}

/* Time until the campaign starts no more runs, to the second; 0 when nothing can be said. */
static uint64_t estimate_left_ns(const struct campaign_config *config,
                                 const struct campaign_progress *now, double rate_runs_per_s)
{
    if (config->mode != JOURNAL_NEW)
        return 0;
    if (config->runs == 0)
        return now->elapsed_ns < config->duration_ns ? config->duration_ns - now->elapsed_ns : 0;
    if (rate_runs_per_s <= 0 || now->runs_ended >= config->runs)
        return 0;
    double left_s = (double)(config->runs - now->runs_ended) / rate_runs_per_s;
    return left_s < 86400 ? (uint64_t)(left_s * (double)NS_PER_S) : 0;
}

uint64_t progress_resolution_ns(uint64_t interval_ns)
{
    uint64_t resolution_ns = NS_PER_S;
    while (resolution_ns > NS_PER_MS && interval_ns % resolution_ns != 0)
        resolution_ns /= 10;
    return resolution_ns;
}

void progress_format(char line[PROGRESS_LINE_BYTES], const struct campaign_config *config,
                     const struct campaign_progress *now, uint64_t resolution_ns,
                     double rate_runs_per_s, const char *note)
{
    char elapsed[UNITS_TEXT_BYTES];
    char left[UNITS_TEXT_BYTES];
    char total[64] = "";
    char backlog[64] = "";
    uint64_t elapsed_ns = round_ns(now->elapsed_ns, resolution_ns);
    uint64_t runs = runs_to_drive(config);
    if (runs > 0)
        (void)snprintf(total, sizeof(total), "/%" PRIu64 " (%" PRIu64 "%%)", runs,
                       now->runs_ended * 100 / runs);
    if (campaign_is_open_loop(config))
        (void)snprintf(backlog, sizeof(backlog), " backlog=%" PRIu64, campaign_backlog(now));
    uint64_t left_ns = round_ns(estimate_left_ns(config, now, rate_runs_per_s), NS_PER_S);
    (void)snprintf(line, PROGRESS_LINE_BYTES,
                   "%s runs=%" PRIu64 "%s rate=%.0f/s in-flight=%" PRIu64 "%s errors=%" PRIu64
                   "%s%s%s%s",
                   units_format_duration_exact(elapsed_ns, elapsed), now->runs_ended, total,
                   rate_runs_per_s, now->runs_started - now->runs_ended, backlog, now->errors,
                   left_ns > 0 && note == NULL ? " left=" : "",
                   left_ns > 0 && note == NULL ? units_format_duration_exact(left_ns, left) : "",
                   note != NULL ? " " : "", note != NULL ? note : "");
}

static size_t terminal_columns(void)
{
    struct winsize size;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1)
        return size.ws_col;
    return 80;
}

/* What a terminal shows behind the cursor when somebody types Ctrl-C. */
enum { ECHO_COLUMNS = 2 };

static size_t columns_in_place(void)
{
    size_t room = terminal_columns() - 1;
    return room > ECHO_COLUMNS ? room - ECHO_COLUMNS : 0;
}

/* Wipes the line that is there, with what may have been typed behind it, and writes the next. A
 * line that is as wide as the terminal would wrap, and could not be taken back. */
static void show_in_place(struct progress *progress, const char *line)
{
    char text[3 * PROGRESS_LINE_BYTES];
    size_t columns = strlen(line);
    size_t room = terminal_columns() - 1;
    if (columns > columns_in_place())
        columns = columns_in_place();
    size_t wiped = progress->shown_columns > 0 ? progress->shown_columns + ECHO_COLUMNS : 0;
    if (wiped > room)
        wiped = room;
    int size = snprintf(text, sizeof(text), "\r%*s%s%.*s", (int)wiped, "", wiped > 0 ? "\r" : "",
                        (int)columns, line);
    if (size > 0 && output_write_if_room(STDERR_FILENO, text, (size_t)size))
        progress->shown_columns = columns;
}

/* Adds what of the records there is room for: a long run ends nothing for a while, and is at work.
 * A rate that is cut would be another. */
static void add_records(const struct progress *progress, char line[PROGRESS_LINE_BYTES],
                        double rate_records_per_s)
{
    size_t used = strlen(line);
    size_t room = PROGRESS_LINE_BYTES - 1;
    if (progress->is_in_place && columns_in_place() < room)
        room = columns_in_place();
    char text[64];
    int size = snprintf(text, sizeof(text), " records=%.0f/s", rate_records_per_s);
    if (size > 0 && (size_t)size < sizeof(text) && used + (size_t)size <= room)
        memcpy(line + used, text, (size_t)size + 1);
}

static void show(struct progress *progress, uint64_t resolution_ns)
{
    const struct campaign_progress last = progress->last;
    struct campaign_progress now = campaign_progress(progress->campaign);
    uint64_t elapsed_ns = now.elapsed_ns - last.elapsed_ns;
    double rate = 0;
    double records_rate = 0;
    if (now.elapsed_ns > last.elapsed_ns) {
        rate = (double)(now.runs_ended - last.runs_ended) * (double)NS_PER_S / (double)elapsed_ns;
        records_rate = (double)(now.records - last.records) * (double)NS_PER_S / (double)elapsed_ns;
    }
    progress->last = now;

    char line[PROGRESS_LINE_BYTES];
    progress_format(line, progress->config, &now, resolution_ns, rate, progress->note);
    if (progress->note == NULL)
        add_records(progress, line, records_rate);
    if (progress->is_in_place) {
        show_in_place(progress, line);
        return;
    }
    char text[PROGRESS_LINE_BYTES + 16];
    int size = snprintf(text, sizeof(text), "bench: %s\n", line);
    if (size > 0)
        (void)output_write_if_room(STDERR_FILENO, text, (size_t)size);
}

static void on_timer(struct timer *timer, uint64_t now_ns)
{
    struct progress *progress = container_of(timer, struct progress, timer);
    show(progress, progress->resolution_ns);
    loop_timer_start(progress->loop, timer,
                     timer_next_tick_ns(timer, progress->interval_ns, now_ns));
}

void progress_init(struct progress *progress, const struct options *options)
{
    bool is_terminal = isatty(STDERR_FILENO) == 1;
    const char *terminal = getenv("TERM");
    *progress = (struct progress){.config = &options->campaign};
    timer_init(&progress->timer, on_timer);
    progress->is_in_place =
        is_terminal && terminal != NULL && terminal[0] != '\0' && strcmp(terminal, "dumb") != 0;
    if (options->is_quiet)
        return;
    if (options->is_progress_given)
        progress->interval_ns = options->progress_ns;
    else if (is_terminal)
        progress->interval_ns = NS_PER_S;
    progress->resolution_ns = progress_resolution_ns(progress->interval_ns);
}

void progress_start(struct progress *progress, struct loop *loop, struct campaign *campaign)
{
    progress->loop = loop;
    progress->campaign = campaign;
    if (progress->interval_ns > 0)
        loop_timer_start(loop, &progress->timer, loop_clock_ns(loop) + progress->interval_ns);
}

void progress_stop(struct progress *progress)
{
    if (progress->loop != NULL)
        loop_timer_stop(progress->loop, &progress->timer);
    if (progress->is_in_place && progress->shown_columns > 0)
        show_in_place(progress, "");
}

void progress_note(struct progress *progress, const char *note)
{
    progress->note = note;
    uint64_t resolution_ns = progress->resolution_ns;
    if (progress->interval_ns > 0) /* at any time, so finer than the lines of the intervals */
        show(progress, resolution_ns < NOTE_RESOLUTION_NS ? resolution_ns : NOTE_RESOLUTION_NS);
}
