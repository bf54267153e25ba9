/*
 * live: what a running campaign has measured so far, for those who want to know while it runs: the
 * intervals, the progress line, objectives that end it.
 *
 * Who wants to know asks, and is told when all workers have answered, from live_poll(); who asks
 * meanwhile is told with the others. A worker that is stuck keeps the answer back, and nobody waits
 * for it: who shows something shows that it is not known.
 *
 * Ownership: the caller's struct, between init and free; clients are the caller's, and outlive it.
 * Threading: the controlling thread, which polls after every turn of its loop. Errors: without
 * memory nobody is ever told.
 */
#ifndef BENCH_LIVE_H
#define BENCH_LIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/campaign.h"

struct live;

struct live_client {
    struct live_client *next;
    bool is_waiting;
    void (*seen)(struct live_client *client, const struct live *live);
};

struct live {
    struct campaign *campaign; /* NULL: not started, or over */
    struct campaign_view view;
    struct hist *block; /* that holds the view's; NULL: nothing is watched */
    struct live_client *clients;
    bool is_asked;
};

/* `watched` has what any of the clients wants looked at: a bit 1 << WATCH_… for each. */
void live_init(struct live *live, uint32_t watched);
void live_free(struct live *live);
void live_add(struct live *live, struct live_client *client);

void live_start(struct live *live, struct campaign *campaign);
void live_stop(struct live *live);

void live_ask(struct live *live, struct live_client *client);
/* Tells those who wait, once there is an answer: at once when the campaign is done. */
void live_poll(struct live *live);

/* The response times of what came between two looks, of runs to warm up as well. */
struct live_window {
    struct hist *before;
    struct hist *since;
};

/* What it wants looked at. */
uint32_t live_window_watched(const struct campaign_config *config);

/* False without memory; then nothing ever comes. */
bool live_window_open(struct live_window *window);
void live_window_close(struct live_window *window);

/* What came since the window was last moved. Valid until the next call. */
const struct hist *live_window_look(struct live_window *window, const struct live *live);
/* What comes next is since now. */
void live_window_move(struct live_window *window, const struct live *live);

#endif
