/* progress: see progress.h. What a line says is made in progress_format.c. */
#include "cmd/progress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cmd/output.h"
#include "engine/base/clock.h"

#define NOTE_RESOLUTION_NS (10 * NS_PER_MS)
/* Five times a second a number can still be read, and is seen to move. */
#define REDRAW_NS (200 * NS_PER_MS)
#define REDRAW_NS_MIN (100 * NS_PER_MS)
#define NOW_NS NS_PER_S               /* how far what is "now" reaches back */
#define STALE_NS (3 * NS_PER_S)       /* a p99 that is older is not now */
#define LATE_NS_MAX (100 * NS_PER_MS) /* a plain line waits no longer for its p99 */

uint64_t progress_resolution_ns(uint64_t interval_ns)
{
    uint64_t resolution_ns = NS_PER_S;
    while (resolution_ns > NS_PER_MS && interval_ns % resolution_ns != 0)
        resolution_ns /= 10;
    return resolution_ns;
}

static size_t terminal_columns(void)
{
    struct winsize size;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
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
    /* Narrower than it was: what was cut off left something in the last column, too. Terminals wrap
     * there only before the next character, and that is a return. */
    if (wiped > room)
        wiped = progress->shown_columns > room ? room + 1 : room;
    int size = snprintf(text, sizeof(text), "\r%*s%s%.*s", (int)wiped, "", wiped > 0 ? "\r" : "",
                        (int)columns, line);
    if (size > 0 && output_write_if_room(STDERR_FILENO, text, (size_t)size))
        progress->shown_columns = columns;
}

/* --- what a line shows --- */

/* The sample that the rates are counted from: the last one in a plain line, else the newest of
 * those that are old enough, as far as they reach. */
static const struct campaign_progress *sample_before(const struct progress *progress,
                                                     uint64_t now_ns)
{
    static const struct campaign_progress start = {.elapsed_ns = 0};
    uint64_t count = progress->sample_count;
    for (uint64_t i = 1; i <= PROGRESS_SAMPLES && i <= count; i++) {
        const struct campaign_progress *sample = &progress->samples[(count - i) % PROGRESS_SAMPLES];
        bool is_oldest = i == PROGRESS_SAMPLES;
        if (!progress->is_in_place || is_oldest || sample->elapsed_ns + NOW_NS <= now_ns)
            return sample;
    }
    return &start;
}

static void take_figures(struct progress *progress, uint64_t resolution_ns)
{
    struct progress_figures *figures = &progress->figures;
    struct campaign_progress now = campaign_progress(progress->campaign);
    const struct campaign_progress *before = sample_before(progress, now.elapsed_ns);
    double elapsed_s = (double)(now.elapsed_ns - before->elapsed_ns) / (double)NS_PER_S;
    figures->config = progress->config;
    figures->now = now;
    figures->resolution_ns = resolution_ns;
    figures->note = progress->note;
    figures->runs_per_s =
        elapsed_s > 0 ? (double)(now.runs_ended - before->runs_ended) / elapsed_s : 0;
    figures->records_per_s =
        elapsed_s > 0 ? (double)(now.records - before->records) / elapsed_s : 0;
    figures->errors = now.errors - (progress->is_in_place ? 0 : before->errors);
    if (progress->is_in_place && now.elapsed_ns > progress->seen_ns + STALE_NS)
        figures->is_p99_known = false;
    progress->samples[progress->sample_count++ % PROGRESS_SAMPLES] = now;
}

static void write_line(struct progress *progress)
{
    char line[PROGRESS_LINE_BYTES];
    progress->is_waiting = false;
    progress_format(line, &progress->figures,
                    progress->is_in_place ? columns_in_place() : PROGRESS_LINE_BYTES);
    if (progress->is_in_place) {
        show_in_place(progress, line);
        return;
    }
    char text[PROGRESS_LINE_BYTES + 16];
    int size = snprintf(text, sizeof(text), "bench: %s\n", line);
    if (size > 0)
        (void)output_write_if_room(STDERR_FILENO, text, (size_t)size);
}

static void keep_p99(struct progress_figures *figures, const struct hist *since)
{
    figures->is_p99_known = hist_quantile_is_known(since, 0.99);
    figures->p99_ns = hist_quantile_ns(since, 0.99);
}

static void on_seen(struct live_client *client, const struct live *live)
{
    struct progress *progress = container_of(client, struct progress, client);
    const struct hist *since = live_window_look(&progress->window, live);
    progress->seen_ns = progress->figures.now.elapsed_ns;
    if (progress->is_in_place && !hist_quantile_is_known(since, 0.99))
        return; /* it takes more of them */
    if (progress->is_in_place || progress->is_waiting)
        keep_p99(&progress->figures, since);
    live_window_move(&progress->window, live);
    if (!progress->is_waiting)
        return;
    loop_timer_stop(progress->loop, &progress->late);
    write_line(progress);
}

static void on_late(struct timer *timer, uint64_t now_ns)
{
    (void)now_ns;
    write_line(container_of(timer, struct progress, late));
}

static void show_in_its_place(struct progress *progress)
{
    uint64_t now_ns = progress->figures.now.elapsed_ns;
    write_line(progress);
    if (progress->figures.has_p99 && now_ns >= progress->asked_ns + NOW_NS) {
        progress->asked_ns = now_ns;
        live_ask(progress->live, &progress->client);
    }
}

/* A plain line waits for its p99, but not long. */
static void show_plain(struct progress *progress, uint64_t now_ns)
{
    uint64_t patience_ns = progress->interval_ns / 2;
    bool is_outstanding = progress->client.is_waiting; /* for an interval before */
    progress->figures.is_p99_known = false;
    if (!progress->figures.has_p99 || is_outstanding) {
        write_line(progress);
        return;
    }
    live_ask(progress->live, &progress->client);
    progress->is_waiting = true;
    loop_timer_start(progress->loop, &progress->late,
                     now_ns + (patience_ns < LATE_NS_MAX ? patience_ns : LATE_NS_MAX));
}

static void on_timer(struct timer *timer, uint64_t now_ns)
{
    struct progress *progress = container_of(timer, struct progress, timer);
    take_figures(progress, progress->resolution_ns);
    if (progress->is_in_place)
        show_in_its_place(progress);
    else
        show_plain(progress, now_ns);
    loop_timer_start(progress->loop, timer,
                     timer_next_tick_ns(timer, progress->interval_ns, now_ns));
}

/* --- life --- */

bool progress_is_wanted(const struct options *options)
{
    if (options->is_quiet)
        return false;
    return options->is_progress_given ? options->progress_ns > 0 : isatty(STDERR_FILENO) == 1;
}

void progress_init(struct progress *progress, const struct options *options)
{
    bool is_terminal = isatty(STDERR_FILENO) == 1;
    const char *terminal = getenv("TERM");
    *progress = (struct progress){.config = &options->campaign, .client.seen = on_seen};
    timer_init(&progress->timer, on_timer);
    timer_init(&progress->late, on_late);
    progress->is_in_place =
        is_terminal && terminal != NULL && terminal[0] != '\0' && strcmp(terminal, "dumb") != 0;
    if (!progress_is_wanted(options))
        return;
    if (options->is_progress_given)
        progress->interval_ns = options->progress_ns;
    else
        progress->interval_ns = progress->is_in_place ? REDRAW_NS : NS_PER_S;
    if (progress->is_in_place && progress->interval_ns < REDRAW_NS_MIN)
        progress->interval_ns = REDRAW_NS_MIN;
    bool is_whole = progress->is_in_place && progress->interval_ns < NS_PER_S;
    progress->resolution_ns = is_whole ? NS_PER_S : progress_resolution_ns(progress->interval_ns);
}

void progress_free(struct progress *progress)
{
    live_window_close(&progress->window);
}

void progress_start(struct progress *progress, struct loop *loop, struct campaign *campaign,
                    struct live *live)
{
    progress->loop = loop;
    progress->campaign = campaign;
    progress->live = live;
    if (progress->interval_ns == 0)
        return;
    progress->figures.has_p99 = live->block != NULL && live_window_open(&progress->window);
    if (progress->figures.has_p99)
        live_add(live, &progress->client);
    loop_timer_start(loop, &progress->timer, loop_clock_ns(loop) + progress->interval_ns);
}

void progress_stop(struct progress *progress)
{
    if (progress->loop != NULL) {
        loop_timer_stop(progress->loop, &progress->timer);
        loop_timer_stop(progress->loop, &progress->late);
    }
    if (progress->is_waiting)
        write_line(progress);
    if (progress->is_in_place && progress->shown_columns > 0)
        show_in_place(progress, "");
}

void progress_note(struct progress *progress, const char *note)
{
    progress->note = note;
    if (progress->interval_ns == 0)
        return;
    if (progress->is_waiting) {
        loop_timer_stop(progress->loop, &progress->late);
        write_line(progress); /* the interval before goes first */
    }
    /* At any time, so finer than the lines of the intervals. */
    uint64_t resolution_ns = progress->resolution_ns;
    take_figures(progress, resolution_ns < NOTE_RESOLUTION_NS ? resolution_ns : NOTE_RESOLUTION_NS);
    if (!progress->is_in_place)
        progress->figures.is_p99_known = false;
    write_line(progress);
}
