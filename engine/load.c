/*
 * load: see load.h.
 */
#include "engine/load.h"

void load_init(struct load *load, uint64_t runs, uint64_t until_ns)
{
    *load = (struct load){.runs = runs, .until_ns = until_ns};
}

bool load_claim_warmup(struct load *load, uint64_t now_ns, uint64_t *run)
{
    if (load_is_stopped(load) || now_ns >= atomic_load(&load->until_ns))
        return false;
    *run = atomic_fetch_add_explicit(&load->next_run, 1, memory_order_relaxed);
    return true;
}

bool load_claim_measured(struct load *load, uint64_t *run)
{
    uint64_t runs = atomic_load_explicit(&load->runs, memory_order_relaxed);
    if (atomic_load_explicit(&load->measured, memory_order_relaxed) >= runs ||
        atomic_fetch_add_explicit(&load->measured, 1, memory_order_relaxed) >= runs)
        return false;
    *run = atomic_fetch_add_explicit(&load->next_run, 1, memory_order_relaxed);
    return true;
}

uint64_t load_count_before(const struct load *load, uint64_t at_ns)
{
    struct arrivals arrivals;
    uint64_t count = 0;
    uint64_t number = 0;
    uint64_t due_ns = 0;
    arrivals_init(&arrivals, load->plan, 0, 1);
    while (arrivals_next(&arrivals, &number, &due_ns) && due_ns < at_ns)
        count++;
    return count;
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
    return next < load->runs || load->has_warmup ? next : load->runs;
}
