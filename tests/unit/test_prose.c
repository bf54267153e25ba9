/*
 * Prose: of the asked-for length, a pure function of its stream, plain ASCII that JSON need not
 * escape, made of sentences of English words.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/prose.h"
#include "tests/lib/parsed_dist.h"

enum { GUARD_BYTES = 64, LONG_BYTES = 100000, PAIRS = 1 << 16 };

static char *new_prose(uint64_t run, size_t bytes)
{
    struct prng p = prng_stream(1, run, PRNG_TEST, 0);
    char *text = malloc(bytes + GUARD_BYTES);
    assert_non_null(text);
    memset(text, '#', bytes + GUARD_BYTES);
    prose_write(&p, text, bytes);
    return text;
}

/* Every size around the blocks that words are copied in. */
static void it_is_as_long_as_asked_for(void **state)
{
    (void)state;
    for (size_t bytes = 0; bytes < 600; bytes++) {
        char *text = new_prose(bytes, bytes);
        for (size_t i = 0; i < GUARD_BYTES; i++)
            assert_int_equal(text[bytes + i], '#');
        assert_null(memchr(text, '#', bytes));
        assert_true(bytes == 0 || text[bytes - 1] == '.');
        free(text);
    }
}

static void it_depends_on_the_stream_alone(void **state)
{
    (void)state;
    char *first = new_prose(1, LONG_BYTES);
    char *second = new_prose(1, LONG_BYTES);
    char *other = new_prose(2, LONG_BYTES);
    assert_memory_equal(first, second, LONG_BYTES);
    assert_memory_not_equal(first, other, 100);
    free(first);
    free(second);
    free(other);

    /* A stream goes on: the next text is another one. */
    struct prng p = prng_stream(1, 1, PRNG_TEST, 0);
    char texts[2][200];
    prose_write(&p, texts[0], sizeof(texts[0]));
    prose_write(&p, texts[1], sizeof(texts[1]));
    assert_memory_not_equal(texts[0], texts[1], sizeof(texts[0]));
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Letters, single spaces, commas and full stops; a capital where a sentence begins, and nowhere
 * else. */
static void it_is_made_of_sentences(void **state)
{
    (void)state;
    char *text = new_prose(3, LONG_BYTES);
    size_t stops = 0;
    size_t commas = 0;
    for (size_t i = 0; i + 1 < LONG_BYTES; i++) {
        bool is_start = i == 0 || (i >= 2 && text[i - 2] == '.');
        bool is_capital = text[i] >= 'A' && text[i] <= 'Z';
        assert_int_equal(is_start, is_capital);
        assert_true(is_letter(text[i]) || strchr(" ,.", text[i]) != NULL);
        if (!is_letter(text[i]) && text[i] != ' ' && i + 2 < LONG_BYTES)
            assert_int_equal(text[i + 1], ' ');
        if (text[i] == ' ' && i + 2 < LONG_BYTES)
            assert_true(is_letter(text[i + 1]));
        stops += text[i] == '.';
        commas += text[i] == ',';
    }
    assert_in_range(stops, LONG_BYTES / 100, LONG_BYTES / 50); /* 14 words a sentence, on average */
    assert_in_range(commas, stops / 3, stops * 2);
    free(text);
}

/* How many bits a letter costs who knows the one before it: about 3.3 in English. How far whole
 * words repeat, zlib has measured: prose.h. */
static void its_letters_are_those_of_english(void **state)
{
    (void)state;
    uint32_t *pairs = calloc(PAIRS, sizeof(*pairs));
    char *text = new_prose(4, LONG_BYTES);
    uint32_t letters[256] = {0};
    double bits = 0;
    assert_non_null(pairs);
    for (size_t i = 0; i + 1 < LONG_BYTES; i++) {
        pairs[(unsigned char)text[i] << 8 | (unsigned char)text[i + 1]]++;
        letters[(unsigned char)text[i]]++;
    }
    for (size_t i = 0; i < PAIRS; i++)
        if (pairs[i] > 0)
            bits -= pairs[i] * log2((double)pairs[i] / letters[i >> 8]);
    assert_true(bits / LONG_BYTES > 3.0 && bits / LONG_BYTES < 3.5);
    assert_in_range(letters[' '], LONG_BYTES / 7, LONG_BYTES / 4); /* words of 3 to 6 letters */
    for (int c = 'a'; c <= 'z'; c++)
        assert_true(letters[c] <= letters['e']);
    free(pairs);
    free(text);
}

static void lengths_are_drawn_and_cut_off(void **state)
{
    (void)state;
    static const struct {
        const char *spec;
        size_t min;
        size_t max;
    } cases[] = {
        {"0", 0, 0},
        {"2KB", 2000, 2000},
        {"uniform:1KB,2KB", 1000, 2000},
        {"16MiB", PROSE_BYTES_MAX, PROSE_BYTES_MAX},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct dist d = parsed_dist(cases[i].spec, DIST_BYTES);
        for (uint64_t run = 0; run < 100; run++) {
            size_t bytes = prose_draw_bytes(&d, prng_stream(1, run, PRNG_TEST, 0));
            assert_in_range(bytes, cases[i].min, cases[i].max);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_as_long_as_asked_for),
        cmocka_unit_test(it_depends_on_the_stream_alone),
        cmocka_unit_test(it_is_made_of_sentences),
        cmocka_unit_test(its_letters_are_those_of_english),
        cmocka_unit_test(lengths_are_drawn_and_cut_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
