/*
 * progress: a line about a running campaign on standard error: rewritten in place on a terminal,
 * one plain line an interval elsewhere and where TERM=dumb.
 *
 * In place the line shows what is now: runs a second are those of the last second, p99 that of the
 * last second or of as many as it takes for ten runs to lie beyond it, errors those so far. It fits
 * the terminal, whatever that is resized to: what matters least is left out first. A plain line is
 * about its interval: runs a second, p99 and errors are those of the interval, and only the runs
 * that are done are all so far. What a scheduler that is stuck keeps back is shown as "-".
 *
 * It uses neither colour nor escape sequences, so that NO_COLOR has nothing to turn off. By default
 * it shows on a terminal and nowhere else, as a script expects silence. A line for which there is
 * no room is left out, so that nobody who does not read holds up the loop. Threading: the loop's
 * thread. Failing to write it is no error.
 */
#ifndef BENCH_PROGRESS_H
#define BENCH_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cmd/live.h"
#include "cmd/options.h"
#include "engine/base/wheel.h"
#include "engine/campaign.h"
#include "engine/loop.h"

enum { PROGRESS_LINE_BYTES = 200, PROGRESS_SAMPLES = 16 };

/* What a line shows. */
struct progress_figures {
    const struct campaign_config *config;
    struct campaign_progress now;
    uint64_t resolution_ns; /* of the time */
    double runs_per_s;
    double records_per_s;
    uint64_t errors;
    bool has_p99; /* whether it is shown at all */
    bool is_p99_known;
    uint64_t p99_ns;
    const char *note; /* what goes on besides, such as draining, or NULL */
};

struct progress {
    struct timer timer;
    struct timer late; /* a plain line waits for its p99 no longer */
    struct loop *loop;
    struct campaign *campaign;
    struct live *live;
    struct live_client client;
    struct live_window window;
    const struct campaign_config *config;
    uint64_t interval_ns; /* between lines; 0: silent */
    uint64_t
        resolution_ns; /* of the time that a line shows, so that no two plain ones show the same */
    bool is_in_place;
    bool is_waiting; /* a plain line, for its p99 */
    const char *note;
    size_t shown_columns;
    struct campaign_progress samples[PROGRESS_SAMPLES]; /* a ring, one a line */
    uint64_t sample_count;
    struct progress_figures figures; /* of the last line */
    uint64_t asked_ns;               /* when p99 was asked for, and when it was seen */
    uint64_t seen_ns;
};

/* Whether the options, and where standard error goes, want a line at all. */
bool progress_is_wanted(const struct options *options);

void progress_init(struct progress *progress, const struct options *options);
void progress_free(struct progress *progress);
void progress_start(struct progress *progress, struct loop *loop, struct campaign *campaign,
                    struct live *live);
/* Ends it, and leaves the terminal's line empty. */
void progress_stop(struct progress *progress);
/* Shows the line now, with a note from now on. */
void progress_note(struct progress *progress, const char *note);

/* How finely a line shows the time when it comes once an interval. */
uint64_t progress_resolution_ns(uint64_t interval_ns);

/* The text of a line, without its end, in as many columns, one a byte. */
void progress_format(char line[PROGRESS_LINE_BYTES], const struct progress_figures *figures,
                     size_t columns);

#endif
