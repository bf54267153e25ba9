/*
 * The coalescer on a virtual clock: when a flush is due and what it holds, whatever the deltas are
 * cut into; what the text keeps and what keeping it costs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/prng.h"
#include "engine/coalesce.h"
#include "tests/lib/loop_sim.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define TICK_NS (UINT64_C(1) << WHEEL_TICK_BITS)

enum { ALL_TIMERS = 1000000, POOL_BYTES_MAX = 8 << 20 };

struct stage {
    struct loop loop;
    struct pool pool;
    struct coalesce_env env;
    struct coalesce c;
    uint64_t seq; /* of the next delta */
    unsigned told;
    uint64_t told_ns;
    unsigned fired;
    void (*fire)(struct timer *timer, uint64_t now_ns);
};

static void on_due(struct coalesce *c, uint64_t now_ns)
{
    struct stage *s = container_of(c, struct stage, c);
    assert_true(coalesce_is_due(c, now_ns));
    s->told++;
    s->told_ns = now_ns;
}

static void count_fire(struct timer *timer, uint64_t now_ns)
{
    struct stage *s = container_of(timer, struct stage, c.timer);
    s->fired++;
    s->fire(timer, now_ns);
}

static struct stage *open_stage(size_t pool_bytes_max)
{
    struct stage *s = calloc(1, sizeof(*s));
    struct errmsg why = {""};
    assert_non_null(s);
    assert_int_equal(loop_open_ops(&s->loop, &loop_sim_ops, &why), 0);
    pool_init(&s->pool, pool_bytes_max);
    s->env = (struct coalesce_env){.loop = &s->loop, .pool = &s->pool, .on_due = on_due};
    coalesce_init(&s->c, &s->env);
    s->fire = s->c.timer.fire;
    s->c.timer.fire = count_fire;
    return s;
}

static void close_stage(struct stage *s)
{
    coalesce_free(&s->c);
    assert_int_equal(s->loop.wheel.armed_count, 0);
    pool_close(&s->pool);
    loop_close(&s->loop);
    free(s);
}

static int push_as(struct stage *s, uint64_t seq, const char *bytes, size_t size, bool is_final)
{
    /* A block of its own, gone afterwards: a sanitizer sees what is read beyond it or kept. */
    char *copy = malloc(size > 0 ? size : 1);
    assert_non_null(copy);
    memcpy(copy, bytes, size);
    unsigned told = s->told;
    struct coalesce_delta delta = {.seq = seq, .bytes = copy, .size = size, .is_final = is_final};
    int result = coalesce_push(&s->c, &delta, s->loop.now_ns);
    assert_int_equal(s->told, told); /* never from inside the call */
    free(copy);
    return result;
}

static int push(struct stage *s, const char *bytes, size_t size)
{
    return push_as(s, s->seq++, bytes, size, false);
}

static int push_text(struct stage *s, const char *text)
{
    return push(s, text, strlen(text));
}

static int push_last(struct stage *s, const char *text)
{
    return push_as(s, s->seq++, text, strlen(text), true);
}

static int push_times(struct stage *s, unsigned times, const char *text)
{
    int result = 0;
    while (times-- > 0)
        result = push_text(s, text);
    return result;
}

static void assert_take(struct stage *s, const char *expected)
{
    const char *bytes;
    size_t size = coalesce_take(&s->c, &bytes);
    assert_int_equal(size, strlen(expected));
    if (size > 0)
        assert_memory_equal(bytes, expected, size);
}

static void wait_until(struct stage *s, uint64_t ns)
{
    uint64_t until_ns = LOOP_SIM_START_NS + ns;
    while (s->loop.now_ns < until_ns)
        assert_int_equal(loop_poll(&s->loop, until_ns, ALL_TIMERS), 0);
}

/* --- by size --- */

static void a_flush_is_due_at_200_characters_of_any_width_however_cut(void **state)
{
    (void)state;
    static const char *const chars[] = {"a", "é", "€", "😀", "\xef\xbf\xbf", "\xf4\x8f\xbf\xbf"};
    for (size_t i = 0; i < COUNT_OF(chars); i++) {
        size_t width = strlen(chars[i]);
        char text[4 * COALESCE_CHARS_MAX];
        for (size_t j = 0; j < COALESCE_CHARS_MAX; j++)
            memcpy(text + j * width, chars[i], width);
        for (size_t piece = 1; piece <= 7; piece++) {
            struct stage *s = open_stage(POOL_BYTES_MAX);
            const char *bytes;
            size_t size = COALESCE_CHARS_MAX * width;
            for (size_t at = 0; at < size; at += piece) {
                size_t now = piece < size - at ? piece : size - at;
                bool is_due = push(s, text + at, now) == 1;
                assert_int_equal(is_due, at + now == size);
                size_t whole = (at + now) / width * width;
                assert_int_equal(coalesce_pending_bytes(&s->c), whole);
            }
            assert_int_equal(coalesce_take(&s->c, &bytes), size);
            assert_memory_equal(bytes, text, size);
            assert_false(coalesce_is_due(&s->c, UINT64_MAX));
            assert_int_equal(push_times(s, COALESCE_CHARS_MAX - 1, chars[i]), 0); /* anew */
            assert_int_equal(push_text(s, chars[i]), 1);
            close_stage(s);
        }
    }
}

static const struct {
    const char *bytes;
    unsigned chars;
} broken[] = {
    {"\x80", 1},
    {"\xbf\xbf\xbf\xbf\xbf", 5},
    {"\xc0\x80", 2}, /* overlong */
    {"\xc1\xbf", 2},
    {"\xe0\x80\x80", 3},
    {"\xe0\x9f\xbf", 3},
    {"\xe0\xa0\x80", 1},
    {"\xed\x9f\xbf", 1},
    {"\xed\xa0\x80", 3}, /* a surrogate */
    {"\xf0\x8f\xbf\xbf", 4},
    {"\xf0\x90\x80\x80", 1},
    {"\xf4\x8f\xbf\xbf", 1},
    {"\xf4\x90\x80\x80", 4}, /* above U+10FFFF */
    {"\xf5\x80", 2},
    {"\xff\xfe", 2},
    {"\xc3(", 2}, /* cut off */
    {"\xe2\x82(", 3},
    {"\xf0\x9f\x98\xc3\xa9", 4},
    {"\xe2\xe2\x82\xac", 2},
};

static void bytes_that_are_no_utf8_count_one_each_and_pass_unchanged(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(broken); i++) {
        size_t size = strlen(broken[i].bytes);
        for (size_t piece = 1; piece <= size; piece++) {
            struct stage *s = open_stage(POOL_BYTES_MAX);
            const char *bytes;
            for (size_t at = 0; at < size; at += piece)
                (void)push(s, broken[i].bytes + at, piece < size - at ? piece : size - at);
            int before = push_times(s, COALESCE_CHARS_MAX - 1 - broken[i].chars, "x");
            if (before != 0 || push_text(s, "x") != 1)
                fail_msg("row %zu in pieces of %zu", i, piece);
            assert_int_equal(coalesce_take(&s->c, &bytes),
                             COALESCE_CHARS_MAX - broken[i].chars + size);
            assert_memory_equal(bytes, broken[i].bytes, size);
            close_stage(s);
        }
    }
}

static void a_flush_does_not_split_a_character_but_the_last_one(void **state)
{
    (void)state;
    struct stage *s = open_stage(POOL_BYTES_MAX);
    assert_int_equal(push_text(s, "ab\xf0\x9f"), 0);
    assert_take(s, "ab");
    assert_take(s, "");
    wait_until(s, 10 * NS_PER_S); /* half a character is nothing to flush */
    assert_int_equal(s->told, 0);
    assert_int_equal(push_text(s, "\x98"), 0);
    assert_int_equal(push_text(s, "\x80"), 1); /* its first byte has waited for too long */
    assert_take(s, "😀");
    assert_int_equal(push_last(s, "c\xe2\x82"), 1);
    assert_take(s, "c\xe2\x82");
    assert_take(s, "");
    close_stage(s);
}

/* --- by time --- */

static void a_flush_is_due_when_no_delta_has_come_for_800_ms(void **state)
{
    (void)state;
    struct stage *s = open_stage(POOL_BYTES_MAX);
    assert_int_equal(push_text(s, "a"), 0);
    wait_until(s, 500 * NS_PER_MS);
    assert_int_equal(push_text(s, "b"), 0);
    wait_until(s, 1300 * NS_PER_MS - TICK_NS);
    assert_int_equal(s->told, 0);
    assert_false(coalesce_is_due(&s->c, s->loop.now_ns));
    wait_until(s, 60 * NS_PER_S);
    assert_int_equal(s->told, 1); /* and never again */
    assert_in_range(s->told_ns, LOOP_SIM_START_NS + 1300 * NS_PER_MS,
                    LOOP_SIM_START_NS + 1300 * NS_PER_MS + TICK_NS);
    assert_take(s, "ab");
    assert_int_equal(push_text(s, "c"), 0);
    close_stage(s);
}

static void a_flush_is_due_3_s_after_the_first_pending_delta(void **state)
{
    (void)state;
    struct stage *s = open_stage(POOL_BYTES_MAX);
    for (uint64_t ms = 0; ms < 3000; ms += 700) {
        wait_until(s, ms * NS_PER_MS);
        assert_int_equal(push_text(s, "x"), 0);
    }
    assert_int_equal(s->told, 0);
    wait_until(s, 3100 * NS_PER_MS);
    assert_int_equal(s->told, 1);
    assert_in_range(s->told_ns, LOOP_SIM_START_NS + 3000 * NS_PER_MS,
                    LOOP_SIM_START_NS + 3000 * NS_PER_MS + TICK_NS);
    assert_take(s, "xxxxx");
    for (uint64_t ms = 3100; ms < 6100; ms += 100) { /* counted from the first after the flush */
        wait_until(s, ms * NS_PER_MS);
        assert_int_equal(push_text(s, "y"), 0);
    }
    wait_until(s, 6101 * NS_PER_MS);
    assert_int_equal(s->told, 2);
    assert_true(s->told_ns >= LOOP_SIM_START_NS + 6100 * NS_PER_MS);
    close_stage(s);
}

/* What a flush leaves of a character came with the last delta, whenever the first came. */
static void the_rest_of_a_flush_waits_from_when_it_came(void **state)
{
    (void)state;
    struct stage *s = open_stage(POOL_BYTES_MAX);
    for (uint64_t ms = 0; ms <= 2800; ms += 700) {
        wait_until(s, ms * NS_PER_MS);
        assert_int_equal(push_text(s, ms < 2800 ? "a" : "b\xc3"), 0);
    }
    assert_take(s, "aaaab");
    assert_int_equal(push_text(s, "\xa9"), 0);
    wait_until(s, 3500 * NS_PER_MS);
    assert_int_equal(s->told, 0);
    wait_until(s, 3700 * NS_PER_MS);
    assert_int_equal(s->told, 1);
    assert_take(s, "é");
    close_stage(s);
}

/* An owner with a record in flight: nothing is lost, and nobody is told twice. */
static void what_is_due_waits_for_its_owner(void **state)
{
    (void)state;
    struct stage *s = open_stage(POOL_BYTES_MAX);
    assert_int_equal(push_text(s, "a"), 0);
    wait_until(s, NS_PER_S);
    assert_int_equal(s->told, 1);
    assert_int_equal(push_text(s, "b"), 1); /* no longer idle, but due it stays */
    assert_true(coalesce_is_due(&s->c, s->loop.now_ns));
    wait_until(s, 4 * NS_PER_S);
    assert_int_equal(s->told, 1);
    assert_int_equal(push_text(s, "c"), 1);
    assert_true(coalesce_is_due(&s->c, s->loop.now_ns));
    assert_take(s, "abc");
    assert_false(coalesce_is_due(&s->c, UINT64_MAX));
    wait_until(s, 5 * NS_PER_S);
    assert_int_equal(push_text(s, "d"), 0);
    wait_until(s, 6 * NS_PER_S);
    assert_int_equal(s->told, 2);
    close_stage(s);
}

/* A stream of 250 deltas a second: the timer is not restarted at each. */
static void the_timer_fires_in_vain_once_per_idle_time_at_most(void **state)
{
    (void)state;
    struct stage *s = open_stage(POOL_BYTES_MAX);
    const char *bytes;
    unsigned flushes = 0;
    for (unsigned i = 0; i < 10000; i++) {
        wait_until(s, i * 4 * NS_PER_MS);
        if (push_text(s, "word ") == 1) {
            flushes++;
            (void)coalesce_take(&s->c, &bytes);
        }
    }
    assert_int_equal(flushes, 10000 * 5 / COALESCE_CHARS_MAX);
    assert_int_equal(s->told, 0);
    assert_in_range(s->fired, 1, 10000 * 4 / 800 + 1);
    close_stage(s);
}

/* --- which deltas count --- */

static void a_delta_counts_only_above_the_last(void **state)
{
    (void)state;
    struct stage *s = open_stage(POOL_BYTES_MAX);
    static const struct {
        uint64_t seq;
        const char *text;
    } deltas[] = {{0, "a"}, {0, "-"}, {1, "b"}, {7, "c"},          {7, "-"},          {2, "-"},
                  {8, ""},  {8, "-"}, {9, "d"}, {UINT64_MAX, "e"}, {UINT64_MAX, "-"}, {0, "-"}};
    for (size_t i = 0; i < COUNT_OF(deltas); i++)
        assert_int_equal(push_as(s, deltas[i].seq, deltas[i].text, strlen(deltas[i].text), false),
                         0);
    assert_take(s, "abcde");
    close_stage(s);
}

static void the_final_delta_flushes_and_ends_the_stream(void **state)
{
    (void)state;
    struct stage *s = open_stage(POOL_BYTES_MAX);
    const char *bytes;
    assert_int_equal(push_text(s, "a"), 0);
    assert_int_equal(push_as(s, 0, "-", 1, true), 0); /* an old one is not the end */
    assert_int_equal(push_text(s, "b"), 0);
    assert_int_equal(push_last(s, ""), 1);
    assert_int_equal(s->loop.wheel.armed_count, 0);
    assert_int_equal(push_text(s, "-"), 0);
    assert_int_equal(push_last(s, "-"), 0);
    assert_take(s, "ab");
    assert_false(coalesce_is_due(&s->c, UINT64_MAX));
    assert_int_equal(coalesce_text(&s->c, &bytes), 2);

    coalesce_begin(&s->c);
    assert_int_equal(push_last(s, ""), 0); /* nothing came at all */
    assert_take(s, "");
    close_stage(s);
}

static void a_new_reply_knows_nothing_of_the_last(void **state)
{
    (void)state;
    struct stage *s = open_stage(POOL_BYTES_MAX);
    const char *bytes;
    for (unsigned round = 0; round < 3; round++) {
        coalesce_begin(&s->c);
        assert_int_equal(s->loop.wheel.armed_count, 0);
        assert_int_equal(coalesce_text(&s->c, &bytes), 0);
        assert_int_equal(push_as(s, 0, "a", 1, false), 0);
        s->seq = 1;
        assert_int_equal(push_times(s, COALESCE_CHARS_MAX - 2, "x"), 0);
        assert_int_equal(coalesce_text(&s->c, &bytes), COALESCE_CHARS_MAX - 1);
        if (round == 1)
            assert_int_equal(push_last(s, "\xf0\x9f"), 1);
        wait_until(s, (round + 1) * 100 * NS_PER_MS);
    }
    wait_until(s, 2 * NS_PER_S); /* the idle time of the last one */
    assert_int_equal(s->told, 1);
    assert_in_range(s->told_ns, LOOP_SIM_START_NS + NS_PER_S,
                    LOOP_SIM_START_NS + NS_PER_S + TICK_NS);
    close_stage(s);
}

/* --- the text --- */

static const char *const alphabets[] = {"abcdefg", "aé€😀", "😀😀", "\x80\xc3\xff"};

/* Streams 1 MB in deltas of up to size_max, of which the owner takes what is due, and looks at the
 * text after each. Returns the number of deltas. */
static uint64_t stream_a_megabyte(struct stage *s, const char *alphabet, size_t size_max, char *all,
                                  size_t all_bytes)
{
    struct prng p = prng_stream(1, size_max, PRNG_TEST, 0);
    const char *bytes;
    uint64_t deltas = 0;
    for (size_t at = 0; at < all_bytes; at++)
        all[at] = alphabet[at % strlen(alphabet)];
    for (size_t at = 0; at < all_bytes; deltas++) {
        size_t size = 1 + (size_t)prng_below(&p, size_max);
        size = size < all_bytes - at ? size : all_bytes - at;
        uint64_t moved = s->env.moved_bytes;
        if (push(s, all + at, size) == 1)
            (void)coalesce_take(&s->c, &bytes);
        at += size;
        assert_true(s->env.moved_bytes - moved <= COALESCE_TEXT_BYTES);
        size_t kept = coalesce_text(&s->c, &bytes);
        size_t most = at < COALESCE_TEXT_BYTES ? at : COALESCE_TEXT_BYTES;
        assert_in_range(kept, at <= COALESCE_TEXT_BYTES ? most : most - 3, most);
        assert_memory_equal(bytes, all + at - kept, kept);
        bool is_start = kept == at || ((unsigned char)bytes[0] & 0xc0) != 0x80;
        assert_true(is_start || alphabet == alphabets[3]);
    }
    return deltas;
}

static void a_text_keeps_its_tail_for_about_a_byte_moved_a_byte(void **state)
{
    (void)state;
    enum { ALL_BYTES = 1000000 };
    static const size_t sizes[] = {1000, 10000, 99999};
    char *all = malloc(ALL_BYTES);
    assert_non_null(all);
    for (size_t i = 0; i < COUNT_OF(alphabets); i++) {
        for (size_t j = 0; j < COUNT_OF(sizes); j++) {
            struct stage *s = open_stage(POOL_BYTES_MAX);
            uint64_t deltas = stream_a_megabyte(s, alphabets[i], sizes[j], all, ALL_BYTES);
            /* Growing copies less than three texts; from there on, a text each time that what the
             * block has beyond a text is used up. */
            uint64_t spare = COALESCE_BLOCK_BYTES_MAX - COALESCE_TEXT_BYTES;
            assert_true(s->env.moved_bytes <= (3 + ALL_BYTES / spare) * COALESCE_TEXT_BYTES);
            assert_true(s->env.scanned_bytes <= ALL_BYTES + 3 * deltas);
            assert_int_equal(coalesce_dropped_bytes(&s->c), 0);
            close_stage(s);
        }
    }
    free(all);
}

/* Tokens, where a move of the text at each would cost 25,000 times what it does. */
static void a_cut_costs_what_is_cut(void **state)
{
    (void)state;
    struct stage *s = open_stage(POOL_BYTES_MAX);
    const char *bytes;
    while (coalesce_text(&s->c, &bytes) + 4 <= COALESCE_TEXT_BYTES)
        if (push_text(s, "abc ") == 1)
            (void)coalesce_take(&s->c, &bytes);
    uint64_t moved = s->env.moved_bytes;
    uint64_t scanned = s->env.scanned_bytes;
    size_t pool_bytes = s->pool.bytes;
    unsigned moves = 0;
    enum { TOKENS = 250000 };
    for (unsigned i = 0; i < TOKENS; i++) {
        uint64_t before = s->env.moved_bytes;
        if (push_text(s, "abc ") == 1)
            (void)coalesce_take(&s->c, &bytes);
        moves += s->env.moved_bytes != before;
    }
    assert_true(s->env.moved_bytes - moved <= 4 * TOKENS * 11 / 10);
    assert_true(moves <= 12);
    assert_int_equal(s->env.scanned_bytes - scanned, 4 * TOKENS);
    assert_true(s->pool.bytes <= pool_bytes + COALESCE_BLOCK_BYTES_MAX + POOL_CHUNK_BYTES_MAX);
    close_stage(s);
}

static void a_delta_larger_than_the_text_may_be_leaves_its_tail(void **state)
{
    (void)state;
    enum { SIZE = 3 * COALESCE_TEXT_BYTES + 2 };
    struct stage *s = open_stage(POOL_BYTES_MAX);
    const char *bytes;
    char *delta = malloc(SIZE);
    assert_non_null(delta);
    for (size_t at = 0; at < SIZE; at++)
        delta[at] = "€"[(at + 1) % 3]; /* begins and ends within one */
    assert_int_equal(push_text(s, "ab"), 0);
    assert_int_equal(push(s, delta, SIZE), 1);
    size_t kept = coalesce_text(&s->c, &bytes);
    assert_in_range(kept, COALESCE_TEXT_BYTES - 2, COALESCE_TEXT_BYTES);
    assert_memory_equal(bytes, delta + SIZE - kept, kept);
    assert_int_equal(bytes[0], "€"[0]);
    assert_int_equal(coalesce_dropped_bytes(&s->c), 2 + SIZE - kept);
    size_t taken = coalesce_take(&s->c, &bytes);
    assert_int_equal(taken % 3, 0);
    assert_int_equal(coalesce_pending_bytes(&s->c), 0);
    free(delta);
    close_stage(s);
}

static void what_is_not_taken_for_too_long_is_dropped_and_counted(void **state)
{
    (void)state;
    struct stage *s = open_stage(POOL_BYTES_MAX);
    const char *bytes;
    for (unsigned i = 0; i < 30000; i++)
        (void)push_text(s, "abcd");
    assert_int_equal(coalesce_dropped_bytes(&s->c), 4 * 30000 - COALESCE_TEXT_BYTES);
    assert_int_equal(coalesce_take(&s->c, &bytes), COALESCE_TEXT_BYTES);
    (void)push_text(s, "efgh");
    assert_int_equal(coalesce_dropped_bytes(&s->c), 4 * 30000 - COALESCE_TEXT_BYTES);
    coalesce_begin(&s->c);
    assert_int_equal(coalesce_dropped_bytes(&s->c), 0);
    close_stage(s);
}

/* --- memory --- */

static void at_the_pools_bound_a_delta_is_refused_and_nothing_changes(void **state)
{
    (void)state;
    struct stage *s = open_stage(POOL_CHUNK_BYTES_MIN);
    const char *bytes;
    char kilobyte[1000];
    memset(kilobyte, 'k', sizeof(kilobyte));
    int result = 0;
    size_t size = 0;
    while ((result = push(s, kilobyte, sizeof(kilobyte))) >= 0)
        size += sizeof(kilobyte);
    assert_int_equal(result, -ENOMEM);
    assert_in_range(size, 16000, 64000);
    assert_int_equal(coalesce_text(&s->c, &bytes), size);
    assert_int_equal(coalesce_take(&s->c, &bytes), size);
    assert_int_equal(push_as(s, s->seq - 1, "z", 1, true), 1); /* the refused one's number */
    assert_take(s, "z");
    close_stage(s);
}

static void a_reply_reuses_the_block_of_the_last(void **state)
{
    (void)state;
    struct stage *s = open_stage(POOL_BYTES_MAX);
    const char *first;
    const char *second;
    (void)push_times(s, 1000, "four");
    assert_int_equal(coalesce_text(&s->c, &first), 4000);
    uint64_t moved = s->env.moved_bytes;
    coalesce_begin(&s->c);
    (void)push_times(s, 1000, "five");
    assert_int_equal(coalesce_text(&s->c, &second), 4000);
    assert_ptr_equal(first, second);
    assert_int_equal(s->env.moved_bytes, moved);
    coalesce_free(&s->c);
    coalesce_free(&s->c); /* a second time does nothing */
    s->c.timer.fire = count_fire;
    (void)push_text(s, "six");
    assert_take(s, "six");
    close_stage(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_flush_is_due_at_200_characters_of_any_width_however_cut),
        cmocka_unit_test(bytes_that_are_no_utf8_count_one_each_and_pass_unchanged),
        cmocka_unit_test(a_flush_does_not_split_a_character_but_the_last_one),
        cmocka_unit_test(a_flush_is_due_when_no_delta_has_come_for_800_ms),
        cmocka_unit_test(a_flush_is_due_3_s_after_the_first_pending_delta),
        cmocka_unit_test(the_rest_of_a_flush_waits_from_when_it_came),
        cmocka_unit_test(what_is_due_waits_for_its_owner),
        cmocka_unit_test(the_timer_fires_in_vain_once_per_idle_time_at_most),
        cmocka_unit_test(a_delta_counts_only_above_the_last),
        cmocka_unit_test(the_final_delta_flushes_and_ends_the_stream),
        cmocka_unit_test(a_new_reply_knows_nothing_of_the_last),
        cmocka_unit_test(a_text_keeps_its_tail_for_about_a_byte_moved_a_byte),
        cmocka_unit_test(a_cut_costs_what_is_cut),
        cmocka_unit_test(a_delta_larger_than_the_text_may_be_leaves_its_tail),
        cmocka_unit_test(what_is_not_taken_for_too_long_is_dropped_and_counted),
        cmocka_unit_test(at_the_pools_bound_a_delta_is_refused_and_nothing_changes),
        cmocka_unit_test(a_reply_reuses_the_block_of_the_last),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
