/* warmup: see warmup.h. */
#include "cmd/warmup.h"

#include <math.h>

#include "engine/base/clock.h"

enum { INTERVALS_LONGEST = 2 * STEADY_WINDOW };

uint64_t warmup_interval_ns(uint64_t longest_ns)
{
    uint64_t interval_ns = longest_ns / INTERVALS_LONGEST;
    interval_ns = interval_ns < NS_PER_S ? interval_ns : NS_PER_S;
    return interval_ns > 10 * NS_PER_MS ? interval_ns : 10 * NS_PER_MS;
}

static void look_at_rate(struct warmup *warmup, const struct campaign_progress *now)
{
    const struct campaign_progress *last = &warmup->last;
    uint64_t elapsed_ns = now->elapsed_ns - last->elapsed_ns;
    if (last->elapsed_ns > 0 && elapsed_ns > 0) /* the first is not a whole one */
        steady_add(&warmup->steady, (double)(now->runs_ended - last->runs_ended) *
                                        (double)NS_PER_S / (double)elapsed_ns);
    warmup->last = *now;
    warmup->is_slope_known = steady_slope(&warmup->steady, &warmup->slope);
    warmup->is_steady =
        warmup->is_slope_known && fabs(warmup->slope) <= warmup->options->steady_ratio;
}

static void on_timer(struct timer *timer, uint64_t now_ns)
{
    struct warmup *warmup = container_of(timer, struct warmup, timer);
    const struct campaign_config *config = &warmup->options->campaign;
    struct campaign_progress now = campaign_progress(warmup->campaign);
    uint64_t left_ns = config->warmup_ns > now.elapsed_ns ? config->warmup_ns - now.elapsed_ns : 0;
    if (!now.is_warming) {
        warmup->over(warmup);
        return;
    }
    if (config->is_steady && !warmup->is_decided)
        look_at_rate(warmup, &now);
    if (config->is_steady && (left_ns == 0 || warmup->is_steady)) {
        campaign_measure(warmup->campaign);
        warmup->is_decided = true;
    }
    uint64_t next_ns = now_ns + (left_ns > 0 ? left_ns : NS_PER_MS);
    uint64_t tick_ns =
        config->is_steady ? timer_next_tick_ns(timer, warmup->interval_ns, now_ns) : UINT64_MAX;
    if (warmup->is_decided)
        tick_ns = now_ns + CAMPAIGN_LEAD_NS;
    loop_timer_start(warmup->loop, timer, tick_ns < next_ns ? tick_ns : next_ns);
}

void warmup_init(struct warmup *warmup, const struct options *options,
                 void (*over)(struct warmup *warmup))
{
    *warmup = (struct warmup){.options = options, .over = over};
    warmup->interval_ns = warmup_interval_ns(options->campaign.warmup_ns);
    timer_init(&warmup->timer, on_timer);
}

void warmup_start(struct warmup *warmup, struct loop *loop, struct campaign *campaign)
{
    const struct campaign_config *config = &warmup->options->campaign;
    uint64_t first_ns = config->is_steady ? warmup->interval_ns : config->warmup_ns;
    warmup->loop = loop;
    warmup->campaign = campaign;
    if (campaign_has_warmup(config))
        loop_timer_start(loop, &warmup->timer, loop_clock_ns(loop) + first_ns);
    else
        warmup->over(warmup);
}

void warmup_stop(struct warmup *warmup)
{
    if (warmup->loop != NULL)
        loop_timer_stop(warmup->loop, &warmup->timer);
}
