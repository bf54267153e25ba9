/* worker_memory: what a worker allocates, all of it before the first run. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/chunk.h"
#include "engine/worker_parts.h"

void worker_close_memory(struct worker *w)
{
    run_env_close(&w->env);
    recovery_block_free(&w->block);
    free(w->deadlines);
    chunk_free(w->runs);
    chunk_free(w->hists);
    snapshot_close(&w->snapshot);
}

int worker_open_memory(struct worker *w)
{
    chunk_warm(w->warm_bytes);
    int error = run_env_open(&w->env, w->pool_bytes_max);
    w->runs = chunk_alloc(w->slots * sizeof(w->runs[0]));
    if (w->shape.timeout_ns > 0)
        w->deadlines = calloc(w->slots, sizeof(w->deadlines[0]));
    bool has_deadlines = w->shape.timeout_ns == 0 || w->deadlines != NULL;
    bool has_snapshot = snapshot_open(&w->snapshot, w->config->watched);
    if (error != 0 || w->runs == NULL || !worker_open_hists(w) || !has_deadlines || !has_snapshot) {
        worker_close_memory(w);
        return -ENOMEM;
    }
    memset(w->runs, 0, w->slots * sizeof(w->runs[0]));
    return 0;
}
