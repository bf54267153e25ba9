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

static uint64_t known_quantile_ns(const struct hist *hist, double quantile)
{
    return hist_quantile_is_known(hist, quantile) ? hist_quantile_ns(hist, quantile)
                                                  : INTERVAL_NOT_KNOWN;
}

/* The answer is for the last row, unless it is for more than that. */
static void on_seen(struct live_client *client, const struct live *live)
{
    struct intervals *intervals = container_of(client, struct intervals, client);
    struct interval *row = &intervals->rows[intervals->count - 1];
    const struct hist *since = live_window_look(&intervals->window, live);
    if (!intervals->is_window_long) {
        row->p50_ns = known_quantile_ns(since, 0.50);
        row->p99_ns = known_quantile_ns(since, 0.99);
    }
    intervals->is_window_long = false;
    live_window_move(&intervals->window, live);
}

static void ask(struct intervals *intervals)
{
    if (intervals->live == NULL)
        return;
    intervals->is_window_long = intervals->is_window_long || intervals->client.is_waiting;
    live_ask(intervals->live, &intervals->client);
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
        .p50_ns = INTERVAL_NOT_KNOWN,
        .p99_ns = INTERVAL_NOT_KNOWN,
        .is_warmup = intervals->is_warming,
    };
    intervals->last = now;
    ask(intervals);
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
    live_window_close(&intervals->window);
    intervals->rows = NULL;
    intervals->count = 0;
}

void intervals_start(struct intervals *intervals, struct loop *loop, struct campaign *campaign,
                     struct live *live)
{
    intervals->loop = loop;
    intervals->campaign = campaign;
    intervals->client.seen = on_seen;
    intervals->is_warming = campaign_progress(campaign).is_warming;
    if (live != NULL && live_window_open(&intervals->window)) {
        intervals->live = live;
        live_add(live, &intervals->client);
    }
    loop_timer_start(loop, &intervals->timer, loop_clock_ns(loop) + intervals->every_ns);
}

void intervals_end_warmup(struct intervals *intervals)
{
    enum { PART_MIN = 10 /* what is less than a tenth is not worth a row */ };
    uint64_t last_ns = intervals->last.elapsed_ns;
    if (!intervals->is_warming)
        return;
    if (campaign_progress(intervals->campaign).elapsed_ns - last_ns >
        intervals->every_ns / PART_MIN)
        take(intervals);
    intervals->is_warming = false;
    loop_timer_stop(intervals->loop, &intervals->timer);
    loop_timer_start(intervals->loop, &intervals->timer,
                     loop_clock_ns(intervals->loop) + intervals->every_ns);
}

void intervals_stop(struct intervals *intervals)
{
    if (intervals->loop == NULL)
        return;
    loop_timer_stop(intervals->loop, &intervals->timer);
    take(intervals);
    if (intervals->live != NULL)
        live_poll(intervals->live); /* the campaign is done: it answers at once */
}
