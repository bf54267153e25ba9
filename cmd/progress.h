/*
 * progress: a line about a running campaign on standard error: rewritten in place on a terminal,
 * one plain line an interval elsewhere and where TERM=dumb. It uses neither colour nor escape
 * sequences, so that NO_COLOR has nothing to turn off. By default it shows on a terminal once a
 * second and nowhere else, as a script expects silence. A line for which there is no room is left
 * out, so that nobody who does not read holds up the loop. Threading: the loop's thread. Failing to
 * write it is no error.
 */
#ifndef BENCH_PROGRESS_H
#define BENCH_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cmd/options.h"
#include "engine/base/wheel.h"
#include "engine/campaign.h"
#include "engine/loop.h"

struct progress {
    struct timer timer;
    struct loop *loop;
    struct campaign *campaign;
    const struct campaign_config *config;
    uint64_t interval_ns;   /* 0: silent */
    uint64_t resolution_ns; /* of the time that a line shows, so that no two show the same */
    bool is_in_place;
    const char *note; /* what goes on besides, such as draining, or NULL */
    size_t shown_columns;
    struct campaign_progress last; /* when a line was last shown */
};

enum { PROGRESS_LINE_BYTES = 160 };

void progress_init(struct progress *progress, const struct options *options);
void progress_start(struct progress *progress, struct loop *loop, struct campaign *campaign);
/* Ends it, and leaves the terminal's line empty. */
void progress_stop(struct progress *progress);
/* Shows the line now, with a note from now on. */
void progress_note(struct progress *progress, const char *note);

/* How finely a line shows the time when it comes once an interval. */
uint64_t progress_resolution_ns(uint64_t interval_ns);

/* The text of a line, without its end. `rate_runs_per_s` is that of the last interval. */
void progress_format(char line[PROGRESS_LINE_BYTES], const struct campaign_config *config,
                     const struct campaign_progress *now, uint64_t resolution_ns,
                     double rate_runs_per_s, const char *note);

#endif
