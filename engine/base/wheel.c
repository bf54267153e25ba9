/*
 * wheel: see wheel.h for what it promises.
 *
 * A deadline is rounded up to the tick at which it is over, so that a timer is never early. How far
 * away that tick is chooses the level: level n has slots of 256^n ticks. A slot of level 0 goes to
 * the due list when its tick comes. A slot of a higher level is dealt out again over the lower
 * levels when its first tick comes, which is no later than the first deadline in it.
 *
 * Nothing ever walks over empty slots: next_tick() finds the next slot with something in it from
 * the bitmaps, whatever its level, and wheel_advance() jumps from one such tick to the next. A
 * slot's bit is set exactly while its list has an entry, so a wheel whose timers have all been
 * cancelled wakes nobody.
 */
#include "engine/base/wheel.h"

enum {
    SLOT_MASK = WHEEL_SLOTS - 1,
    WORDS = WHEEL_SLOTS / 64,
};

#define TICK_NONE UINT64_MAX
#define TICK_NS_MASK ((UINT64_C(1) << WHEEL_TICK_BITS) - 1)
/* The farthest tick that has a slot of its own. */
#define HORIZON_TICKS ((UINT64_C(1) << (WHEEL_SLOT_BITS * WHEEL_LEVELS)) - 1)

static_assert(WHEEL_SLOTS % 64 == 0, "the bitmaps are made of whole words");

static unsigned level_shift(unsigned level)
{
    return level * WHEEL_SLOT_BITS;
}

/* The first tick that begins at or after the deadline. */
static uint64_t deadline_tick(uint64_t deadline_ns)
{
    return (deadline_ns >> WHEEL_TICK_BITS) + ((deadline_ns & TICK_NS_MASK) != 0);
}

/* Puts a timer that is over at `tick` into its slot. */
static void place(struct wheel *w, struct timer *timer, uint64_t tick)
{
    assert(tick >= w->tick);
    uint64_t distance = tick - w->tick;
    if (distance > HORIZON_TICKS) {
        distance = HORIZON_TICKS;
        tick = w->tick + HORIZON_TICKS;
    }
    unsigned level = 0;
    if (distance >= WHEEL_SLOTS)
        level = (63 - (unsigned)__builtin_clzll(distance)) / WHEEL_SLOT_BITS;
    unsigned slot = (unsigned)(tick >> level_shift(level)) & SLOT_MASK;
    list_push_back(&w->slots[level][slot], &timer->link);
    w->occupied[level][slot / 64] |= UINT64_C(1) << (slot % 64);
}

/* How many slots after `start`, going round, the first occupied one is; WHEEL_SLOTS if none is. */
static unsigned slots_until_occupied(const uint64_t occupied[WORDS], unsigned start)
{
    unsigned word = start / 64;
    uint64_t bits = occupied[word] & (UINT64_MAX << (start % 64));
    /* The word of `start` comes twice: first for what lies after it, last for what lies before. */
    for (unsigned i = 0; i <= WORDS; i++) {
        if (bits != 0)
            return (word * 64 + (unsigned)__builtin_ctzll(bits) - start) & SLOT_MASK;
        word = (word + 1) % WORDS;
        bits = occupied[word];
    }
    return WHEEL_SLOTS;
}

/* The next tick at which a slot of any level must be handled, or TICK_NONE. */
static uint64_t next_tick(const struct wheel *w)
{
    if (w->armed_count == 0)
        return TICK_NONE;
    uint64_t first = TICK_NONE;
    for (unsigned level = 0; level < WHEEL_LEVELS; level++) {
        /* A slot is handled at its first tick. In the middle of a slot, that slot has been handled,
         * so whatever it holds by now is a whole turn away. */
        const unsigned shift = level_shift(level);
        uint64_t start = (w->tick + (UINT64_C(1) << shift) - 1) >> shift;
        unsigned slots = slots_until_occupied(w->occupied[level], (unsigned)start & SLOT_MASK);
        if (slots == WHEEL_SLOTS)
            continue;
        uint64_t tick = (start + slots) << shift;
        if (tick < first)
            first = tick;
    }
    return first;
}

/* Empties a slot into `to`. */
static void take_slot(struct wheel *w, unsigned level, uint64_t tick, struct list *to)
{
    unsigned slot = (unsigned)(tick >> level_shift(level)) & SLOT_MASK;
    list_splice_back(to, &w->slots[level][slot]);
    w->occupied[level][slot / 64] &= ~(UINT64_C(1) << (slot % 64));
}

static void handle_tick(struct wheel *w, uint64_t tick)
{
    w->tick = tick;
    /* From the top, since what waits higher up was armed earlier and shall fire first. */
    for (unsigned level = WHEEL_LEVELS - 1; level > 0; level--) {
        if ((tick & ((UINT64_C(1) << level_shift(level)) - 1)) != 0)
            continue;
        struct list cascade;
        list_init(&cascade);
        take_slot(w, level, tick, &cascade);
        for (struct list *link; (link = list_pop_front(&cascade)) != NULL;) {
            struct timer *timer = container_of(link, struct timer, link);
            place(w, timer, deadline_tick(timer->deadline_ns));
        }
    }
    take_slot(w, 0, tick, &w->due);
    w->tick = tick + 1;
}

void wheel_init(struct wheel *w, uint64_t now_ns)
{
    *w = (struct wheel){.tick = (now_ns >> WHEEL_TICK_BITS) + 1};
    list_init(&w->due);
    for (unsigned level = 0; level < WHEEL_LEVELS; level++)
        for (unsigned slot = 0; slot < WHEEL_SLOTS; slot++)
            list_init(&w->slots[level][slot]);
}

void wheel_add(struct wheel *w, struct timer *timer)
{
    assert(!timer_is_armed(timer));
    uint64_t tick = deadline_tick(timer->deadline_ns);
    if (tick < w->tick)
        list_push_back(&w->due, &timer->link);
    else
        place(w, timer, tick);
    w->armed_count++;
}

void wheel_cancel(struct wheel *w, struct timer *timer)
{
    if (!timer_is_armed(timer))
        return;
    assert(w->armed_count > 0);
    /* With the same neighbour on both sides the timer is alone with the head of its list, and where
     * the head lies tells which slot becomes empty: the timer need not remember it. */
    struct list *neighbour = timer->link.next;
    bool alone = neighbour == timer->link.prev;
    list_remove(&timer->link);
    w->armed_count--;
    uintptr_t offset = (uintptr_t)neighbour - (uintptr_t)w->slots;
    if (!alone || offset >= sizeof(w->slots)) /* the due list has no bit */
        return;
    size_t index = offset / sizeof(struct list);
    w->occupied[index / WHEEL_SLOTS][index % WHEEL_SLOTS / 64] &= ~(UINT64_C(1) << (index % 64));
}

void wheel_advance(struct wheel *w, uint64_t now_ns)
{
    const uint64_t now_tick = now_ns >> WHEEL_TICK_BITS;
    assert(now_tick + 1 >= w->tick);
    for (uint64_t tick; (tick = next_tick(w)) <= now_tick;)
        handle_tick(w, tick);
    w->tick = now_tick + 1;
}

struct timer *wheel_pop_due(struct wheel *w)
{
    struct list *link = list_pop_front(&w->due);
    if (link == NULL)
        return NULL;
    assert(w->armed_count > 0);
    w->armed_count--;
    return container_of(link, struct timer, link);
}

uint64_t wheel_next_ns(const struct wheel *w)
{
    if (!list_empty(&w->due))
        return 0;
    uint64_t tick = next_tick(w);
    if (tick > UINT64_MAX >> WHEEL_TICK_BITS)
        return UINT64_MAX;
    return tick << WHEEL_TICK_BITS;
}
