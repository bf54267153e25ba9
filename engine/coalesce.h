/*
 * coalesce: gathers the deltas of a streamed reply into pieces worth a record.
 *
 * What is pending is due for a flush at COALESCE_CHARS_MAX characters (Unicode scalar values), when
 * no delta has come for COALESCE_IDLE_NS, COALESCE_WAIT_NS after the first pending delta, or with
 * the final delta, whichever is first. Beside it the whole text is kept, up to COALESCE_TEXT_BYTES
 * of it, of which the oldest go first.
 *
 * How an owner uses it: coalesce_begin() a reply; coalesce_push() each delta; where that returns 1,
 * and where env->on_due() is called, coalesce_take() what is pending and write it. An owner that
 * has a record in flight takes nothing: more gathers meanwhile, and once the ack is there it asks
 * coalesce_is_due(). The limits restart with what comes after a take.
 *
 *     static void flush(struct stream *s, uint64_t now_ns)
 *     {
 *         if (s->is_in_flight || !coalesce_is_due(&s->coalesce, now_ns))
 *             return;
 *         size_t size = coalesce_take(&s->coalesce, &bytes);
 *         append(s, bytes, size);        (on its ack: is_in_flight = false, and flush() again)
 *     }
 *
 * A flush never ends inside a character, but for the last: bytes of one that is not complete wait
 * for the rest. Bytes that are no UTF-8 are passed on as they are, and count as a character each.
 *
 * The text is one block with a start offset. A cut moves the start, and at most three bytes more to
 * where a character begins; when the end of the largest block is reached, the text moves to its
 * front, which costs about a byte for each byte pushed, because the block is twice as large as the
 * text may be. A ring would save that, but hand out texts and flushes in two parts.
 *
 * Ownership: the struct is the caller's, embedded, and must not move from coalesce_init() to
 * coalesce_free(); the text's block is env->pool's. Threading: none, one scheduler's. Errors:
 * -ENOMEM at the pool's bound. Nothing is allocated a delta but when the text outgrows its block,
 * which doubles. Callbacks: on_due() from the loop only, never from inside a call.
 */
#ifndef BENCH_COALESCE_H
#define BENCH_COALESCE_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/clock.h"
#include "engine/base/pool.h"
#include "engine/base/wheel.h"

struct loop;
struct coalesce;

enum {
    COALESCE_CHARS_MAX = 200,
    COALESCE_TEXT_BYTES = 100000,
    COALESCE_BLOCK_BYTES_MIN = 256,
    COALESCE_BLOCK_BYTES_MAX = 192 << 10, /* a size of the pool's, about twice the text's */
};
#define COALESCE_IDLE_NS (800 * NS_PER_MS)
#define COALESCE_WAIT_NS (3000 * NS_PER_MS)

/* What the streams of one scheduler share. */
struct coalesce_env {
    struct loop *loop;
    struct pool *pool;
    /* A time limit is over with something pending. Called once until the next take. */
    void (*on_due)(struct coalesce *c, uint64_t now_ns);
    uint64_t moved_bytes;   /* what growing and moving to the front have copied, in all */
    uint64_t scanned_bytes; /* looked at to count characters and find where they end, in all */
};

/* All fields are the coalescer's own. Offsets are into the block. */
struct coalesce {
    struct timer timer; /* armed no later than the nearer time limit: see coalesce.c */
    struct coalesce_env *env;
    char *bytes;
    uint64_t seq;      /* of the last delta taken */
    uint64_t first_ns; /* when the first and the last pending delta came */
    uint64_t last_ns;
    uint32_t start; /* of the text */
    uint32_t pending;
    uint32_t end;
    uint32_t capacity;
    uint32_t dropped_bytes; /* that were cut off before they were taken; stops at UINT32_MAX */
    uint8_t chars;          /* complete ones that are pending; stops at COALESCE_CHARS_MAX */
    uint8_t tail;           /* bytes at the end whose character is not complete, at most three */
    bool has_delta : 1;
    bool is_final : 1;
    bool is_told : 1; /* on_due() was called */
};
static_assert(sizeof(struct coalesce) == 96, "embedded in every run that streams");
static_assert(COALESCE_CHARS_MAX <= UINT8_MAX, "counted in a byte");

struct coalesce_delta {
    uint64_t seq; /* above that of the last delta, else the delta is ignored */
    const char *bytes;
    size_t size;
    bool is_final; /* what comes later is ignored */
};

/* Once, before anything else. `env` must outlive it. */
void coalesce_init(struct coalesce *c, struct coalesce_env *env);

/* A new reply: whatever there was is forgotten, taken or not. The block stays. */
void coalesce_begin(struct coalesce *c);

/* Gives the block back and stops the timer; as after coalesce_init(). An owner with many streams
 * does so when the text is of no more use. */
void coalesce_free(struct coalesce *c);

/* Takes in a delta. 1 when a flush is due now, 0 when not, and for a delta that is ignored; -ENOMEM
 * when there is no room for it: then nothing has changed, and it may be pushed again. */
int coalesce_push(struct coalesce *c, const struct coalesce_delta *delta, uint64_t now_ns);

/* What a flush would take now: without the bytes of a character that is not complete, unless the
 * reply is. */
static inline size_t coalesce_pending_bytes(const struct coalesce *c)
{
    return c->end - c->pending - (c->is_final ? 0 : c->tail);
}

/* When a time limit is over for what is pending; only if something is. */
static inline uint64_t coalesce_due_ns(const struct coalesce *c)
{
    uint64_t idle_ns = c->last_ns + COALESCE_IDLE_NS;
    uint64_t wait_ns = c->first_ns + COALESCE_WAIT_NS;
    return idle_ns < wait_ns ? idle_ns : wait_ns;
}

/* Whether there is something to take, and it should be taken now. What is due stays so until it is
 * taken, also when a delta ends the idle time meanwhile. */
static inline bool coalesce_is_due(const struct coalesce *c, uint64_t now_ns)
{
    return coalesce_pending_bytes(c) > 0 &&
           (c->is_told || c->is_final || c->chars >= COALESCE_CHARS_MAX ||
            now_ns >= coalesce_due_ns(c));
}

/* Takes what is pending, due or not: it counts as flushed. Returns its size, 0 if there is nothing.
 * The bytes are valid until the next push, begin or free; NULL before the first byte. */
size_t coalesce_take(struct coalesce *c, const char **bytes);

/* The whole text, or its last COALESCE_TEXT_BYTES; it may end within a character until the final
 * delta. Valid as above; NULL with 0 before the first byte. */
size_t coalesce_text(const struct coalesce *c, const char **bytes);

/* Bytes that a slow owner has not taken before the text's bound was reached. */
static inline uint32_t coalesce_dropped_bytes(const struct coalesce *c)
{
    return c->dropped_bytes;
}

#endif
