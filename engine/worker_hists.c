/* worker_hists: the histograms of a worker; the list of them is here. See worker.h. */
#include <stddef.h>

#include "engine/base/chunk.h"
#include "engine/worker.h"

/* Those that a worker records, and where the result has them. */
#define ROW(member)                                                                                \
    {                                                                                              \
        offsetof(struct worker, member), offsetof(struct campaign_result, member)                  \
    }
static const struct {
    size_t in_worker;
    size_t in_result;
} hist_rows[] = {
    ROW(response), ROW(service),   ROW(failed),   ROW(retried),   ROW(append),
    ROW(lag),      ROW(overshoot), ROW(dispatch), ROW(token_lag), ROW(warmup.response),
};
#undef ROW
enum { HIST_COUNT = sizeof(hist_rows) / sizeof(hist_rows[0]) };

bool worker_open_hists(struct worker *w)
{
    w->hists = chunk_alloc(HIST_COUNT * sizeof(struct hist));
    for (size_t i = 0; w->hists != NULL && i < HIST_COUNT; i++) {
        *(struct hist **)((char *)w + hist_rows[i].in_worker) = &w->hists[i];
        hist_init(&w->hists[i]);
    }
    return w->hists != NULL;
}

void worker_merge_hists(struct worker *workers, uint32_t count, struct campaign_result *result)
{
    struct hist *sums = workers[0].hists;
    for (size_t i = 0; i < HIST_COUNT; i++) {
        for (uint32_t other = 1; other < count; other++)
            hist_merge(&sums[i], &workers[other].hists[i]);
        *(struct hist **)((char *)result + hist_rows[i].in_result) = &sums[i];
    }
}

void worker_list_hists(const struct worker *w, const struct hist *hists[WATCH_COUNT])
{
    hists[WATCH_RESPONSE] = w->response;
    hists[WATCH_SERVICE] = w->service;
    hists[WATCH_APPEND] = w->append;
    hists[WATCH_RETRIED] = w->retried;
    hists[WATCH_TOKEN] = w->token_lag;
    hists[WATCH_DISPATCH] = w->dispatch;
    hists[WATCH_WARMUP] = w->warmup.response;
}
