/* run_table: see run_table.h. Linear probing; what is dropped leaves no gap in a probe's way. */
#include "journal/run_table.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/prng.h"

enum { CAPACITY_BITS_FIRST = 10 };

static uint32_t home_of(const struct run_table *table, uint64_t run)
{
    return (uint32_t)(prng_mix(run) >> table->shift);
}

static uint32_t after(const struct run_table *table, uint32_t i)
{
    return (i + 1) & (table->capacity - 1);
}

/* The run's slot, or the free one where it would be. */
static uint32_t slot_of(const struct run_table *table, uint64_t run)
{
    uint32_t i = home_of(table, run);
    while (table->slots[i].next_seq != 0 && table->slots[i].run != run)
        i = after(table, i);
    return i;
}

void run_table_init(struct run_table *table, uint32_t count_max)
{
    assert(count_max > 0 && count_max <= UINT32_C(1) << 30);
    *table = (struct run_table){.count_max = count_max};
}

void run_table_free(struct run_table *table)
{
    free(table->slots);
    run_table_init(table, table->count_max);
}

void run_table_clear(struct run_table *table)
{
    if (table->slots != NULL)
        memset(table->slots, 0, table->capacity * sizeof(table->slots[0]));
    table->count = 0;
}

/* Twice as large. False without memory. */
static bool grow(struct run_table *table)
{
    struct run_table grown = *table;
    unsigned bits = table->capacity == 0 ? CAPACITY_BITS_FIRST : 64 - table->shift + 1;
    grown.capacity = UINT32_C(1) << bits;
    grown.shift = 64 - bits;
    grown.slots = calloc(grown.capacity, sizeof(grown.slots[0]));
    if (grown.slots == NULL)
        return false;
    for (uint32_t i = 0; i < table->capacity; i++)
        if (table->slots[i].next_seq != 0)
            grown.slots[slot_of(&grown, table->slots[i].run)] = table->slots[i];
    free(table->slots);
    *table = grown;
    return true;
}

uint64_t run_table_find(const struct run_table *table, uint64_t run)
{
    return table->capacity == 0 ? 0 : table->slots[slot_of(table, run)].next_seq;
}

/* Room for one more. False when it can hold none at all. */
static bool reserve(struct run_table *table)
{
    if (table->count == table->count_max)
        run_table_clear(table);
    if (table->count < table->capacity / 2 || grow(table))
        return true;
    run_table_clear(table);
    return table->capacity > 0;
}

void run_table_put(struct run_table *table, uint64_t run, uint64_t next_seq)
{
    assert(next_seq > 0);
    if (table->capacity > 0) {
        struct run_slot *slot = &table->slots[slot_of(table, run)];
        if (slot->next_seq != 0) {
            slot->next_seq = next_seq;
            return;
        }
    }
    if (!reserve(table))
        return;
    table->slots[slot_of(table, run)] = (struct run_slot){run, next_seq};
    table->count++;
}

void run_table_drop(struct run_table *table, uint64_t run)
{
    if (table->capacity == 0)
        return;
    uint32_t hole = slot_of(table, run);
    if (table->slots[hole].next_seq == 0)
        return;
    /* Whoever was probed past the hole on the way to its slot moves into it. */
    for (uint32_t i = after(table, hole); table->slots[i].next_seq != 0; i = after(table, i)) {
        uint32_t home = home_of(table, table->slots[i].run);
        uint32_t mask = table->capacity - 1;
        if (((i - home) & mask) >= ((i - hole) & mask)) {
            table->slots[hole] = table->slots[i];
            hole = i;
        }
    }
    table->slots[hole].next_seq = 0;
    table->count--;
}
