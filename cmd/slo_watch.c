/* slo_watch: see slo_watch.h. */
#include "cmd/slo_watch.h"

#include "engine/base/clock.h"

uint32_t slo_watch_watched(const struct options *options)
{
    static const enum campaign_watch watch_of[] = {
        [SLO_RESPONSE] = WATCH_RESPONSE, [SLO_SERVICE] = WATCH_SERVICE,
        [SLO_APPEND] = WATCH_APPEND,     [SLO_RETRIED] = WATCH_RETRIED,
        [SLO_TOKEN] = WATCH_TOKEN,       [SLO_DISPATCH] = WATCH_DISPATCH,
        [SLO_ERRORS] = WATCH_RESPONSE,   [SLO_RATE] = WATCH_RESPONSE,
    };
    if (!options->is_slo_abort)
        return 0;
    /* Both together are the runs that have completed. */
    uint32_t watched = 1u << WATCH_RESPONSE | 1u << WATCH_RETRIED;
    for (size_t i = 0; i < options->slo_count; i++)
        watched |= 1u << watch_of[options->slos[i].subject];
    return watched;
}

bool slo_watch_hold(const struct options *options, const struct slo_figures *figures,
                    struct slo_abort *abort)
{
    for (size_t i = 0; i < options->slo_count; i++) {
        double value = 0;
        if (!slo_measure(&options->slos[i], figures, &value) ||
            slo_is_met(&options->slos[i], value))
            continue;
        abort->is_aborted = true;
        abort->slo = i;
        abort->value = value;
        return true;
    }
    return false;
}

/* An open loop that owes no run holds its rate, whatever the last runs take. */
static void find_rate(const struct slo_watch *watch, struct slo_figures *figures)
{
    const struct campaign_progress progress = campaign_progress(watch->campaign);
    bool is_open_loop = campaign_is_open_loop(&watch->options->campaign);
    uint64_t started = progress.runs_started - progress.warmup_started;
    uint64_t count = is_open_loop ? started : figures->completed;
    figures->is_rate_known =
        progress.measured_ns > 0 && (!is_open_loop || progress.runs_started < progress.runs_due);
    if (figures->is_rate_known)
        figures->rate = (double)count * (double)NS_PER_S / (double)progress.measured_ns;
}

static void on_seen(struct live_client *client, const struct live *live)
{
    struct slo_watch *watch = container_of(client, struct slo_watch, client);
    const struct campaign_view *view = &live->view;
    uint64_t elapsed_ns = campaign_progress(watch->campaign).measured_ns;
    struct slo_figures figures = {
        .response = view->hists[WATCH_RESPONSE],
        .service = view->hists[WATCH_SERVICE],
        .append = view->hists[WATCH_APPEND],
        .retried = view->hists[WATCH_RETRIED],
        .token_lag = view->hists[WATCH_TOKEN],
        .dispatch = view->hists[WATCH_DISPATCH],
        .completed = view->hists[WATCH_RESPONSE]->count + view->hists[WATCH_RETRIED]->count,
        .errors = view->failed,
    };
    find_rate(watch, &figures);
    if (watch->abort.is_aborted || !slo_watch_hold(watch->options, &figures, &watch->abort))
        return;
    watch->abort.at_ns = elapsed_ns;
    loop_timer_stop(watch->loop, &watch->timer);
    watch->missed(watch);
}

static void on_timer(struct timer *timer, uint64_t now_ns)
{
    struct slo_watch *watch = container_of(timer, struct slo_watch, timer);
    live_ask(watch->live, &watch->client);
    loop_timer_start(watch->loop, timer, timer_next_tick_ns(timer, NS_PER_S, now_ns));
}

void slo_watch_init(struct slo_watch *watch, const struct options *options,
                    void (*missed)(struct slo_watch *watch))
{
    *watch = (struct slo_watch){.options = options, .missed = missed, .client.seen = on_seen};
    timer_init(&watch->timer, on_timer);
}

void slo_watch_start(struct slo_watch *watch, struct loop *loop, struct campaign *campaign,
                     struct live *live)
{
    if (!watch->options->is_slo_abort)
        return;
    watch->loop = loop;
    watch->campaign = campaign;
    watch->live = live;
    live_add(live, &watch->client);
    loop_timer_start(loop, &watch->timer, loop_clock_ns(loop) + watch->options->slo_delay_ns);
}

void slo_watch_stop(struct slo_watch *watch)
{
    if (watch->loop != NULL)
        loop_timer_stop(watch->loop, &watch->timer);
}
