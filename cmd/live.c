/* live: see live.h. */
#include "cmd/live.h"

#include <stdlib.h>

void live_init(struct live *live, uint32_t watched)
{
    size_t count = (size_t)__builtin_popcount(watched);
    *live = (struct live){.campaign = NULL};
    if (count > 0)
        live->block = malloc(count * sizeof(struct hist));
    struct hist *next = live->block;
    for (unsigned i = 0; i < WATCH_COUNT && next != NULL; i++) {
        if ((watched & 1u << i) == 0)
            continue;
        live->view.hists[i] = next++;
        hist_init(live->view.hists[i]);
    }
}

void live_free(struct live *live)
{
    free(live->block);
    live->block = NULL;
}

void live_add(struct live *live, struct live_client *client)
{
    client->next = live->clients;
    client->is_waiting = false;
    live->clients = client;
}

void live_start(struct live *live, struct campaign *campaign)
{
    live->campaign = campaign;
}

void live_stop(struct live *live)
{
    live->campaign = NULL;
}

void live_ask(struct live *live, struct live_client *client)
{
    if (live->campaign == NULL || live->block == NULL)
        return;
    client->is_waiting = true;
    if (!live->is_asked)
        campaign_look(live->campaign);
    live->is_asked = true;
}

void live_poll(struct live *live)
{
    if (!live->is_asked || live->campaign == NULL || !campaign_seen(live->campaign, &live->view))
        return;
    live->is_asked = false;
    for (struct live_client *client = live->clients; client != NULL; client = client->next) {
        if (!client->is_waiting)
            continue;
        client->is_waiting = false;
        client->seen(client, live);
    }
}

/* --- windows --- */

uint32_t live_window_watched(const struct campaign_config *config)
{
    return 1u << WATCH_RESPONSE | (campaign_has_warmup(config) ? 1u << WATCH_WARMUP : 0);
}

bool live_window_open(struct live_window *window)
{
    window->before = malloc(2 * sizeof(struct hist));
    window->since = window->before != NULL ? window->before + 1 : NULL;
    if (window->before == NULL)
        return false;
    hist_init(&window->before[0]);
    hist_init(&window->before[1]);
    return true;
}

void live_window_close(struct live_window *window)
{
    free(window->before);
    *window = (struct live_window){.before = NULL};
}

const struct hist *live_window_look(struct live_window *window, const struct live *live)
{
    hist_copy(window->since, live->view.hists[WATCH_RESPONSE]);
    if (live->view.hists[WATCH_WARMUP] != NULL)
        hist_merge(window->since, live->view.hists[WATCH_WARMUP]);
    hist_subtract(window->since, window->before);
    return window->since;
}

void live_window_move(struct live_window *window, const struct live *live)
{
    hist_copy(window->before, live->view.hists[WATCH_RESPONSE]);
    if (live->view.hists[WATCH_WARMUP] != NULL)
        hist_merge(window->before, live->view.hists[WATCH_WARMUP]);
}
