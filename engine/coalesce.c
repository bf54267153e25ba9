/*
 * coalesce: see coalesce.h.
 *
 * The timer is not moved at each delta: armed for the nearer limit as it is when the first pending
 * delta comes, it fires early when deltas have come since, and is armed again for what the nearer
 * limit is by then. That limit only ever moves away, so an armed timer is never late, whatever was
 * pushed and taken meanwhile: once per COALESCE_IDLE_NS is the most that it fires in vain.
 *
 * Characters are counted as they come, each byte looked at once: but for those of a character that
 * a delta has left incomplete, which are looked at again with the next delta. There are at most
 * three of them, so no state of a decoder is kept but their number. Above the limit counting stops:
 * it would change nothing.
 */
#include "engine/coalesce.h"

#include <errno.h>
#include <string.h>

#include "engine/loop.h"

enum {
    SEQUENCE_BYTES_MAX = 4, /* of a character in UTF-8 */
    TAIL_BYTES_MAX = SEQUENCE_BYTES_MAX - 1,
};

static_assert(COALESCE_BLOCK_BYTES_MAX > COALESCE_TEXT_BYTES, "room between two moves");

static bool is_continuation(char byte)
{
    return ((unsigned char)byte & 0xc0) == 0x80;
}

/* How many bytes of a well-formed sequence (Unicode 15, table 3-7) begin at `bytes`: all of it, or
 * all that there are, as *is_complete tells; 0 when none begins there. size > 0. */
static unsigned sequence_bytes(const char *bytes, size_t size, bool *is_complete)
{
    const unsigned char *b = (const unsigned char *)bytes;
    unsigned length = b[0] < 0x80 ? 1 : b[0] < 0xc2 ? 0 : b[0] < 0xe0 ? 2 : b[0] < 0xf0 ? 3 : 4;
    *is_complete = true;
    if (b[0] > 0xf4 || length <= 1)
        return b[0] > 0xf4 ? 0 : length;
    /* No overlong forms, no surrogates, nothing above U+10FFFF. */
    unsigned char second_min = b[0] == 0xe0 ? 0xa0 : b[0] == 0xf0 ? 0x90 : 0x80;
    unsigned char second_max = b[0] == 0xed ? 0x9f : b[0] == 0xf4 ? 0x8f : 0xbf;
    for (unsigned i = 1; i < length; i++) {
        if (i == size) {
            *is_complete = false;
            return i;
        }
        if (i == 1 ? b[1] < second_min || b[1] > second_max : !is_continuation(bytes[i]))
            return 0;
    }
    return length;
}

/* How many bytes at the end are the beginning of a character. */
static uint8_t incomplete_bytes(const char *bytes, size_t size)
{
    for (uint8_t back = 1; back <= TAIL_BYTES_MAX && back <= size; back++) {
        const char *at = bytes + size - back;
        if (is_continuation(*at))
            continue;
        bool is_complete;
        return sequence_bytes(at, back, &is_complete) == back && !is_complete ? back : 0;
    }
    return 0;
}

/* Counts the complete characters in the last `bytes` bytes, where one begins. */
static void count_chars(struct coalesce *c, uint32_t bytes)
{
    const uint32_t from = c->end - bytes;
    const uint32_t end = c->end - c->tail;
    uint32_t at = from;
    while (at < end && c->chars < COALESCE_CHARS_MAX) {
        bool is_complete;
        unsigned length = sequence_bytes(c->bytes + at, end - at, &is_complete);
        at += length > 0 && is_complete ? length : 1;
        c->chars++;
    }
    c->env->scanned_bytes += at - from;
}

/* --- the text --- */

/* Moves the text to the front of a block, another one or its own. */
static void move_text(struct coalesce *c, char *to, size_t capacity)
{
    uint32_t size = c->end - c->start;
    if (size > 0)
        memmove(to, c->bytes + c->start, size);
    c->env->moved_bytes += size;
    c->pending -= c->start;
    c->end = size;
    c->start = 0;
    c->bytes = to;
    c->capacity = (uint32_t)capacity;
}

static void add_dropped(struct coalesce *c, size_t bytes)
{
    if (__builtin_add_overflow(c->dropped_bytes, bytes, &c->dropped_bytes))
        c->dropped_bytes = UINT32_MAX;
}

/* Lets go of the first bytes of the text. */
static void cut(struct coalesce *c, uint32_t bytes)
{
    c->start += bytes;
    assert(c->start <= c->end);
    if (c->start <= c->pending)
        return;
    add_dropped(c, c->start - c->pending);
    c->pending = c->start;
}

/* A text that was cut begins with a character. */
static void resynchronise(struct coalesce *c)
{
    uint32_t skipped = 0;
    while (skipped < TAIL_BYTES_MAX && c->start + skipped < c->end &&
           is_continuation(c->bytes[c->start + skipped]))
        skipped++;
    cut(c, skipped);
}

/* A block that holds `bytes`; at the pool's bound the old one will do if it can. */
static int reserve_block(struct coalesce *c, uint32_t bytes, char **block, size_t *capacity)
{
    *block = c->bytes;
    *capacity = c->capacity;
    if (c->capacity >= COALESCE_BLOCK_BYTES_MAX)
        return 0;
    size_t wanted = c->capacity > 0 ? (size_t)c->capacity * 2 : COALESCE_BLOCK_BYTES_MIN;
    while (wanted < bytes)
        wanted *= 2;
    if (wanted > COALESCE_BLOCK_BYTES_MAX)
        wanted = COALESCE_BLOCK_BYTES_MAX;
    char *larger = pool_alloc(c->env->pool, wanted, capacity);
    if (larger == NULL) {
        *capacity = c->capacity;
        return bytes <= c->capacity ? 0 : -ENOMEM;
    }
    *block = larger;
    return 0;
}

/* Adds the bytes to the text, and cuts off at its beginning what is too much. 0 or -ENOMEM. */
static int append(struct coalesce *c, const char *bytes, size_t size)
{
    uint32_t text = c->end - c->start;
    uint32_t added = size < COALESCE_TEXT_BYTES ? (uint32_t)size : COALESCE_TEXT_BYTES;
    uint32_t excess = 0;
    if (text + added > COALESCE_TEXT_BYTES)
        excess = text + added - COALESCE_TEXT_BYTES;
    if (added > c->capacity - c->end) {
        char *block;
        size_t capacity;
        int error = reserve_block(c, text - excess + added, &block, &capacity);
        if (error != 0)
            return error;
        cut(c, excess);
        char *old = c->bytes;
        size_t old_capacity = c->capacity;
        move_text(c, block, capacity);
        if (old != NULL && old != block)
            pool_free(c->env->pool, old, old_capacity);
    } else {
        cut(c, excess);
    }
    assert(c->bytes != NULL); /* there is something to add, so there is a block */
    memcpy(c->bytes + c->end, bytes + (size - added), added);
    c->end += added;
    add_dropped(c, size - added);
    if (excess > 0 || size > added)
        resynchronise(c);
    return 0;
}

/* --- time --- */

static void arm_timer(struct coalesce *c)
{
    loop_timer_start(c->env->loop, &c->timer, coalesce_due_ns(c));
}

static void on_timer(struct timer *timer, uint64_t now_ns)
{
    struct coalesce *c = container_of(timer, struct coalesce, timer);
    if (coalesce_pending_bytes(c) == 0 || c->is_told)
        return; /* the next delta arms it */
    if (now_ns < coalesce_due_ns(c)) {
        arm_timer(c);
        return;
    }
    c->is_told = true;
    c->env->on_due(c, now_ns);
}

/* --- the whole --- */

void coalesce_init(struct coalesce *c, struct coalesce_env *env)
{
    *c = (struct coalesce){.env = env};
    timer_init(&c->timer, on_timer);
}

void coalesce_begin(struct coalesce *c)
{
    struct coalesce_env *env = c->env;
    char *bytes = c->bytes;
    uint32_t capacity = c->capacity;
    loop_timer_stop(env->loop, &c->timer);
    coalesce_init(c, env);
    c->bytes = bytes;
    c->capacity = capacity;
}

void coalesce_free(struct coalesce *c)
{
    loop_timer_stop(c->env->loop, &c->timer);
    if (c->bytes != NULL)
        pool_free(c->env->pool, c->bytes, c->capacity);
    coalesce_init(c, c->env);
}

/* Puts the delta's bytes where they belong. 0 or -ENOMEM. */
static int take_in(struct coalesce *c, const struct coalesce_delta *delta, uint64_t now_ns)
{
    bool was_empty = c->pending == c->end;
    int error = append(c, delta->bytes, delta->size);
    if (error != 0)
        return error;
    if (was_empty)
        c->first_ns = now_ns;
    /* What the last delta has left incomplete is looked at again, if it has not been cut off. */
    size_t unseen = c->tail + delta->size;
    uint32_t pending = c->end - c->pending;
    c->tail = incomplete_bytes(c->bytes + c->pending, pending);
    count_chars(c, unseen < pending ? (uint32_t)unseen : pending);
    return 0;
}

int coalesce_push(struct coalesce *c, const struct coalesce_delta *delta, uint64_t now_ns)
{
    if (c->is_final || (c->has_delta && delta->seq <= c->seq))
        return 0;
    if (delta->size > 0) {
        int error = take_in(c, delta, now_ns);
        if (error != 0)
            return error;
    }
    c->seq = delta->seq;
    c->has_delta = true;
    c->is_final = delta->is_final;
    c->last_ns = now_ns;
    if (c->is_final)
        loop_timer_stop(c->env->loop, &c->timer); /* nothing waits any longer */
    if (coalesce_is_due(c, now_ns))
        return 1;
    if (coalesce_pending_bytes(c) > 0 && !timer_is_armed(&c->timer))
        arm_timer(c);
    return 0;
}

size_t coalesce_take(struct coalesce *c, const char **bytes)
{
    size_t size = coalesce_pending_bytes(c);
    *bytes = c->bytes != NULL ? c->bytes + c->pending : NULL;
    c->pending += (uint32_t)size;
    c->chars = 0;
    c->first_ns = c->last_ns; /* of the rest, if there is any: the last delta has brought it */
    c->is_told = false;
    return size;
}

size_t coalesce_text(const struct coalesce *c, const char **bytes)
{
    *bytes = c->bytes != NULL ? c->bytes + c->start : NULL;
    return c->end - c->start;
}
