/* fuzz_coalesce: any stream of deltas, takes and new replies against a coalescer that keeps
 * everything and counts with a decoder of its own. The pieces taken are the deltas' bytes in order,
 * none ends within a character but the last, and each is due when the simple one says so.
 *
 * The input is a list of steps, a byte each: the low 3 bits tell what (below), the others how much
 * of what follows is a delta, or a number. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "engine/coalesce.h"
#include "engine/loop.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ALL_BYTES_MAX = 1 << 20, POOL_BYTES_MAX = 1 << 20, REPEATS = 512 };

enum step {
    STEP_DELTA,
    STEP_AGAIN,
    STEP_FINAL,
    STEP_TAKE,
    STEP_TAKE_DUE,
    STEP_TIME,
    STEP_REPEAT,
    STEP_BEGIN
};

/* The coalescer as anybody would write it first. */
struct simple {
    char *all; /* the reply so far */
    size_t size;
    size_t taken; /* of it */
    size_t start; /* of the text that is kept */
    uint64_t seq; /* of the next delta */
    uint64_t first_ns;
    uint64_t last_ns;
    size_t dropped;
    bool is_final;
};

static void require(bool is_so, const char *what)
{
    if (!is_so) {
        (void)fprintf(stderr, "fuzz_coalesce: %s\n", what); /* the trap tells it, too */
        __builtin_trap();
    }
}

static void never(struct coalesce *c, uint64_t now_ns)
{
    (void)c;
    (void)now_ns;
    require(false, "a callback without a loop");
}

/* The length of the character at the beginning; 0 when it is none; -1 when it may become one. */
static int decode(const char *bytes, size_t size)
{
    static const uint32_t min[] = {0, 0, 0x80, 0x800, 0x10000};
    const uint8_t *b = (const uint8_t *)bytes;
    int length = b[0] < 0x80 ? 1 : b[0] >= 0xf8 ? 0 : b[0] >= 0xf0 ? 4 : b[0] >= 0xe0 ? 3 : 2;
    if (length <= 1)
        return length;
    if (b[0] < 0xc0)
        return 0;
    /* The least and the greatest that this may become: as if only the lowest or highest followed.
     */
    uint32_t low = b[0] & (0x7fU >> length);
    uint32_t high = low;
    for (int i = 1; i < length; i++) {
        bool is_there = (size_t)i < size;
        if (is_there && (b[i] & 0xc0) != 0x80)
            return 0;
        low = low << 6 | (is_there ? b[i] & 0x3fU : 0);
        high = high << 6 | (is_there ? b[i] & 0x3fU : 0x3fU);
    }
    if (high < min[length] || low > 0x10ffff || (low >= 0xd800 && high <= 0xdfff))
        return 0;
    return (size_t)length <= size ? length : -1;
}

/* Counts what is pending; *whole is how much of it is complete. */
static size_t count(const struct simple *s, size_t *whole)
{
    size_t chars = 0;
    size_t at = s->taken;
    while (at < s->size) {
        int length = decode(s->all + at, s->size - at);
        if (length < 0)
            break;
        at += length > 0 ? (size_t)length : 1;
        chars++;
    }
    *whole = (s->is_final ? s->size : at) - s->taken;
    return chars;
}

static bool simple_is_due(const struct simple *s, uint64_t now_ns)
{
    size_t whole;
    size_t chars = count(s, &whole);
    return whole > 0 &&
           (s->is_final || chars >= COALESCE_CHARS_MAX || now_ns >= s->last_ns + COALESCE_IDLE_NS ||
            now_ns >= s->first_ns + COALESCE_WAIT_NS);
}

static void simple_push(struct simple *s, const struct coalesce_delta *delta, uint64_t now_ns)
{
    if (s->is_final || delta->seq < s->seq)
        return;
    if (s->taken == s->size && delta->size > 0)
        s->first_ns = now_ns;
    memcpy(s->all + s->size, delta->bytes, delta->size);
    s->size += delta->size;
    s->seq = delta->seq + 1;
    s->last_ns = now_ns;
    s->is_final = delta->is_final;
    if (s->size - s->start > COALESCE_TEXT_BYTES) {
        s->start = s->size - COALESCE_TEXT_BYTES;
        for (int i = 0; i < 3 && s->start < s->size && (s->all[s->start] & 0xc0) == 0x80; i++)
            s->start++;
    }
    if (s->taken < s->start) {
        s->dropped += s->start - s->taken;
        s->taken = s->start;
    }
}

static void compare(const struct coalesce *c, const struct simple *s, uint64_t now_ns)
{
    const char *bytes;
    size_t whole;
    require(coalesce_text(c, &bytes) == s->size - s->start, "a text of another size");
    (void)count(s, &whole);
    require(coalesce_pending_bytes(c) == whole, "more or less pending");
    require(coalesce_is_due(c, now_ns) == simple_is_due(s, now_ns), "due or not");
    require(coalesce_dropped_bytes(c) == s->dropped, "more or less dropped");
}

/* Not after each step: it is what takes long. */
static void compare_text(const struct coalesce *c, const struct simple *s)
{
    const char *bytes;
    size_t size = coalesce_text(c, &bytes);
    require(size == 0 || memcmp(bytes, s->all + s->start, size) == 0, "another text");
}

static void push(struct coalesce *c, struct simple *s, const struct coalesce_delta *delta,
                 uint64_t now_ns)
{
    if (s->size + delta->size > ALL_BYTES_MAX)
        return;
    bool is_taken_in = !s->is_final && delta->seq >= s->seq;
    int result = coalesce_push(c, delta, now_ns);
    simple_push(s, delta, now_ns);
    require(result == (is_taken_in && simple_is_due(s, now_ns)), "pushed, due or not");
}

/* The piece again and again, as one delta: what reaches the bound of the text. */
static void push_repeated(struct coalesce *c, struct simple *s, const uint8_t *piece, size_t size,
                          uint64_t now_ns)
{
    static char repeated[REPEATS * 32];
    for (size_t i = 0; i < REPEATS; i++)
        memcpy(repeated + i * size, piece, size);
    struct coalesce_delta delta = {.seq = s->seq, .bytes = repeated, .size = REPEATS * size};
    push(c, s, &delta, now_ns);
}

static void take(struct coalesce *c, struct simple *s)
{
    const char *bytes;
    size_t whole;
    (void)count(s, &whole);
    size_t size = coalesce_take(c, &bytes);
    require(size == whole, "a piece of another size");
    require(size == 0 || memcmp(bytes, s->all + s->taken, size) == 0, "another piece");
    s->taken += size;
    s->first_ns = s->last_ns;
}

static void begin(struct coalesce *c, struct simple *s)
{
    char *all = s->all;
    compare_text(c, s);
    coalesce_begin(c);
    *s = (struct simple){.all = all};
}

static void play(struct coalesce *c, struct simple *s, const uint8_t *data, size_t size)
{
    uint64_t now_ns = NS_PER_S;
    for (size_t at = 0; at < size;) {
        enum step step = (enum step)(data[at] & 7);
        size_t number = data[at++] >> 3;
        size_t piece = number < size - at ? number : size - at;
        struct coalesce_delta delta = {.seq = s->seq, .bytes = (const char *)data + at};
        switch (step) {
        case STEP_DELTA:
        case STEP_FINAL:
            delta.size = piece;
            delta.is_final = step == STEP_FINAL;
            push(c, s, &delta, now_ns);
            at += piece;
            break;
        case STEP_AGAIN:
            delta.seq = s->seq > 0 ? s->seq - 1 : 0;
            delta.size = piece;
            if (s->seq > 0)
                push(c, s, &delta, now_ns);
            break;
        case STEP_REPEAT:
            push_repeated(c, s, data + at, piece, now_ns);
            at += piece;
            break;
        case STEP_TAKE:
            take(c, s);
            break;
        case STEP_TAKE_DUE:
            if (coalesce_is_due(c, now_ns))
                take(c, s);
            break;
        case STEP_TIME:
            now_ns += number * 100 * NS_PER_MS;
            break;
        case STEP_BEGIN:
            begin(c, s);
            break;
        }
        compare(c, s, now_ns);
    }
    compare_text(c, s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct loop loop = {.ops = NULL}; /* never polled: only its wheel is used */
    struct pool pool;
    struct coalesce c;
    static char all[ALL_BYTES_MAX];
    struct simple s = {.all = all};
    struct coalesce_env env = {.loop = &loop, .pool = &pool, .on_due = never};
    wheel_init(&loop.wheel, NS_PER_S);
    pool_init(&pool, POOL_BYTES_MAX);
    coalesce_init(&c, &env);
    play(&c, &s, data, size);
    coalesce_free(&c);
    require(loop.wheel.armed_count == 0, "a timer is left");
    pool_close(&pool);
    return 0;
}
