/* snapshot: see snapshot.h. */
#include "engine/snapshot.h"

#include "engine/base/chunk.h"

bool snapshot_open(struct snapshot *s, uint32_t watched)
{
    size_t count = (size_t)__builtin_popcount(watched);
    *s = (struct snapshot){.block = NULL};
    if (count == 0)
        return true;
    s->block = chunk_alloc(count * sizeof(struct hist));
    if (s->block == NULL)
        return false;
    struct hist *next = s->block;
    for (unsigned i = 0; i < WATCH_COUNT; i++) {
        if ((watched & 1u << i) == 0)
            continue;
        s->hists[i] = next++;
        hist_init(s->hists[i]);
    }
    return true;
}

void snapshot_close(struct snapshot *s)
{
    if (s->block != NULL)
        chunk_free(s->block);
    s->block = NULL;
}

void snapshot_answer(struct snapshot *s, const struct hist *const hists[WATCH_COUNT],
                     uint64_t failed)
{
    s->seen = atomic_load_explicit(&s->asked, memory_order_acquire);
    for (unsigned i = 0; i < WATCH_COUNT; i++)
        if (s->hists[i] != NULL)
            hist_copy(s->hists[i], hists[i]);
    s->failed = failed;
    atomic_store_explicit(&s->answered, s->seen, memory_order_release);
}

void snapshot_end(struct snapshot *s)
{
    atomic_store_explicit(&s->answered, SNAPSHOT_AT_REST, memory_order_release);
}
