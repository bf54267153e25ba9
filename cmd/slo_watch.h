/*
 * slo_watch: objectives that end a campaign when one is missed, as -slo-abort asks: held against
 * all that has been measured so far, after the delay and then each second, as k6 does with
 * abortOnFail. One that is not known yet is not missed yet.
 *
 * Ownership: the caller's struct, which must not move while it is started. Threading: the
 * controlling thread. Units: ns from the start of the measured part.
 */
#ifndef BENCH_SLO_WATCH_H
#define BENCH_SLO_WATCH_H

#include "cmd/live.h"
#include "cmd/options.h"
#include "engine/loop.h"

/* Which objective ended the campaign, and when. */
struct slo_abort {
    bool is_aborted;
    size_t slo; /* of the options */
    double value;
    uint64_t at_ns;
};

struct slo_watch {
    const struct options *options;
    struct loop *loop;
    struct campaign *campaign;
    struct live *live;
    struct live_client client;
    struct timer timer;
    struct slo_abort abort;
    void (*missed)(struct slo_watch *watch); /* called once */
};

/* What it wants looked at, if anything: a bit 1 << WATCH_… for each. */
uint32_t slo_watch_watched(const struct options *options);

/* Does nothing without -slo-abort. */
void slo_watch_init(struct slo_watch *watch, const struct options *options,
                    void (*missed)(struct slo_watch *watch));
/* The measured part begins. */
void slo_watch_start(struct slo_watch *watch, struct loop *loop, struct campaign *campaign,
                     struct live *live);
void slo_watch_stop(struct slo_watch *watch);

/* Whether one is missed; then says which. */
bool slo_watch_hold(const struct options *options, const struct slo_figures *figures,
                    struct slo_abort *abort);

#endif
