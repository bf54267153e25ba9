/*
 * load: see load.h.
 */
#include "engine/load.h"

void load_init(struct load *load, uint64_t runs, uint64_t until_ns)
{
    *load = (struct load){.runs = runs, .until_ns = until_ns};
}

void load_share_pass(struct load_share *share)
{
    uint64_t at_ns = 0;
    bool is_left = arrivals_next(&share->arrivals, &share->number, &at_ns);
    share->due_ns = share->start_ns + at_ns;
    if (!is_left || share->number >= share->load->runs || share->due_ns >= share->load->until_ns)
        share->due_ns = UINT64_MAX;
}

void load_share_init(struct load_share *share, const struct load *load, uint32_t index,
                     uint32_t count, uint64_t start_ns)
{
    *share = (struct load_share){.load = load, .start_ns = start_ns};
    arrivals_init(&share->arrivals, load->plan, index, count);
    load_share_pass(share);
}

void load_slot_filled(struct load *load)
{
    uint64_t count = atomic_fetch_add(&load->in_flight, 1) + 1;
    uint64_t peak = atomic_load_explicit(&load->in_flight_peak, memory_order_relaxed);
    while (count > peak && !atomic_compare_exchange_weak(&load->in_flight_peak, &peak, count))
        ;
}

void load_slot_emptied(struct load *load)
{
    atomic_fetch_sub(&load->in_flight, 1);
}

void load_stop(struct load *load)
{
    atomic_store(&load->is_stopped, true);
}

uint64_t load_claimed(const struct load *load)
{
    uint64_t next = atomic_load(&load->next_run);
    return next < load->runs ? next : load->runs;
}
