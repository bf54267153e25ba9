/*
 * load: see load.h.
 */
#include "engine/load.h"

void load_init(struct load *load, uint64_t runs, uint64_t until_ns)
{
    *load = (struct load){.runs = runs, .until_ns = until_ns};
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
