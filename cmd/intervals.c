/* intervals: see intervals.h. */
#include "cmd/intervals.h"

#include <stdlib.h>

enum { ROWS_FIRST = 64, ROWS_MAX = 1 << 20 };

static bool make_room(struct intervals *intervals)
{
    size_t capacity = intervals->capacity == 0 ? ROWS_FIRST : 2 * intervals->capacity;
    if (intervals->count < intervals->capacity)
        return true;
    struct interval *grown =
        capacity > ROWS_MAX ? NULL : realloc(intervals->rows, capacity * sizeof(grown[0]));
    intervals->is_cut = grown == NULL;
    if (grown == NULL)
        return false;
    intervals->rows = grown;
    intervals->capacity = capacity;
    return true;
}

static void take(struct intervals *intervals)
{
    const struct campaign_progress *last = &intervals->last;
    struct campaign_progress now = campaign_progress(intervals->campaign);
    if (now.elapsed_ns == last->elapsed_ns || !make_room(intervals))
        return;
    intervals->rows[intervals->count++] = (struct interval){
        .end_ns = now.elapsed_ns,
        .started = now.runs_started - last->runs_started,
        .ended = now.runs_ended - last->runs_ended,
        .errors = now.errors - last->errors,
        .records = now.records - last->records,
        .in_flight = now.runs_started - now.runs_ended,
        .backlog = campaign_backlog(&now),
    };
    intervals->last = now;
}

static void on_timer(struct timer *timer, uint64_t now_ns)
{
    struct intervals *intervals = container_of(timer, struct intervals, timer);
    take(intervals); /* after a stall the one that held it is the longer */
    loop_timer_start(intervals->loop, timer,
                     timer_next_tick_ns(timer, intervals->every_ns, now_ns));
}

void intervals_init(struct intervals *intervals, uint64_t every_ns)
{
    *intervals = (struct intervals){.every_ns = every_ns};
    timer_init(&intervals->timer, on_timer);
}

void intervals_free(struct intervals *intervals)
{
    free(intervals->rows);
    intervals->rows = NULL;
    intervals->count = 0;
}

void intervals_start(struct intervals *intervals, struct loop *loop, struct campaign *campaign)
{
    intervals->loop = loop;
    intervals->campaign = campaign;
    loop_timer_start(loop, &intervals->timer, loop_clock_ns(loop) + intervals->every_ns);
}

void intervals_stop(struct intervals *intervals)
{
    if (intervals->loop == NULL)
        return;
    loop_timer_stop(intervals->loop, &intervals->timer);
    take(intervals);
}
