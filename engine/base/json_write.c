/*
 * json_write: text, whole numbers and digests.
 *
 * Text is copied 16 bytes at a time, each block in full before it is known how much of it holds:
 * what was copied too much is overwritten by what comes next. This needs room for a whole block,
 * also on the way out; near the end of the text or of the buffer it goes byte by byte.
 */
#include "engine/base/json_write.h"

#include <assert.h>

/* JSON_PORTABLE lets the tests of a machine with SSE2 reach the other half. */
#if defined(__SSE2__) && !defined(JSON_PORTABLE)
#include <emmintrin.h>
#define JSON_SSE2 1
#endif

enum { BLOCK_BYTES = 16, WORD_BYTES = 8, U64_DIGITS_MAX = 20 };

static void mark_full(struct json_writer *w)
{
    w->end = w->at;
    w->is_full = true;
}

static inline bool needs_escape(char c)
{
    return (unsigned char)c < ' ' || c == '"' || c == '\\';
}

/* Writes the escape of a byte that needs one, and returns the place behind it. There must be room
 * for JSON_ESCAPED_BYTES_MAX. */
static char *put_escape(char *at, char c)
{
    static const char letters[] = {
        ['\b'] = 'b', ['\f'] = 'f', ['\n'] = 'n',  ['\r'] = 'r',
        ['\t'] = 't', ['"'] = '"',  ['\\'] = '\\',
    };
    static const char hex[] = "0123456789abcdef";
    const unsigned char byte = (unsigned char)c;
    assert(byte < sizeof(letters));
    *at++ = '\\';
    if (letters[byte] != 0) {
        *at++ = letters[byte];
        return at;
    }
    at[0] = 'u';
    at[1] = '0';
    at[2] = '0';
    at[3] = hex[byte >> 4];
    at[4] = hex[byte & 15];
    return at + 5;
}

/* Copies 16 bytes and returns how many of them, from the first, need no escape. */
static inline size_t copy_block(char *to, const char *from)
{
#ifdef JSON_SSE2
    const __m128i text = _mm_loadu_si128((const __m128i *)(const void *)from);
    _mm_storeu_si128((__m128i *)(void *)to, text);
    /* No byte is less than its minimum with 31 unless it is a control character. */
    __m128i special = _mm_cmpeq_epi8(_mm_min_epu8(text, _mm_set1_epi8(' ' - 1)), text);
    special = _mm_or_si128(special, _mm_cmpeq_epi8(text, _mm_set1_epi8('"')));
    special = _mm_or_si128(special, _mm_cmpeq_epi8(text, _mm_set1_epi8('\\')));
    const uint32_t bits = (uint32_t)_mm_movemask_epi8(special);
    return (size_t)__builtin_ctz(bits | 1U << BLOCK_BYTES);
#else
    memcpy(to, from, BLOCK_BYTES);
    size_t count = 0;
    while (count < BLOCK_BYTES && !needs_escape(from[count])) {
        count++;
    }
    return count;
#endif
}

/* Whether none of 8 bytes needs an escape. A borrow can mark a plain byte, but only beside one that
 * is marked rightly. */
static inline bool word_is_plain(uint64_t text)
{
    const uint64_t ones = UINT64_MAX / 255;
    const uint64_t quote = text ^ (ones * '"');
    const uint64_t backslash = text ^ (ones * '\\');
    const uint64_t marks = ((text - ones * ' ') & ~text) | ((quote - ones) & ~quote) |
                           ((backslash - ones) & ~backslash);
    return (marks & (ones * 0x80)) == 0;
}

void json_write_escaped(struct json_writer *w, const char *bytes, size_t size)
{
    assert(bytes != NULL || size == 0);
    char *at = w->at;
    while (size >= BLOCK_BYTES && w->end - at >= BLOCK_BYTES + JSON_ESCAPED_BYTES_MAX) {
        const size_t count = copy_block(at, bytes);
        at += count;
        bytes += count;
        size -= count;
        if (count < BLOCK_BYTES) {
            at = put_escape(at, *bytes++);
            size--;
        }
    }
    /* What is left of a text is seldom long and seldom needs an escape: a word, then byte by byte.
     */
    if (size >= WORD_BYTES && w->end - at >= WORD_BYTES) {
        uint64_t word;
        memcpy(&word, bytes, WORD_BYTES);
        if (word_is_plain(word)) {
            memcpy(at, &word, WORD_BYTES);
            at += WORD_BYTES;
            bytes += WORD_BYTES;
            size -= WORD_BYTES;
        }
    }
    w->at = at;
    for (; size > 0; bytes++, size--) {
        if (!needs_escape(*bytes)) {
            if (w->at == w->end) {
                break;
            }
            *w->at++ = *bytes;
            continue;
        }
        char escape[JSON_ESCAPED_BYTES_MAX];
        const char *escape_end = put_escape(escape, *bytes);
        json_write_raw(w, escape, (size_t)(escape_end - escape));
        if (w->is_full) {
            break;
        }
    }
    if (size > 0) {
        mark_full(w);
    }
}

void json_write_string(struct json_writer *w, const char *bytes, size_t size)
{
    json_write_literal(w, "\"");
    json_write_escaped(w, bytes, size);
    json_write_literal(w, "\"");
}

/* The decimal digits of 0 to 99. */
static const char digit_pairs[] = "00010203040506070809101112131415161718192021222324"
                                  "25262728293031323334353637383940414243444546474849"
                                  "50515253545556575859606162636465666768697071727374"
                                  "75767778798081828384858687888990919293949596979899";
static_assert(sizeof(digit_pairs) == 201, "two digits a number, and the NUL");

static inline uint32_t digit_count(uint64_t value)
{
    static const uint64_t powers[U64_DIGITS_MAX] = {
        0,
        UINT64_C(10),
        UINT64_C(100),
        UINT64_C(1000),
        UINT64_C(10000),
        UINT64_C(100000),
        UINT64_C(1000000),
        UINT64_C(10000000),
        UINT64_C(100000000),
        UINT64_C(1000000000),
        UINT64_C(10000000000),
        UINT64_C(100000000000),
        UINT64_C(1000000000000),
        UINT64_C(10000000000000),
        UINT64_C(100000000000000),
        UINT64_C(1000000000000000),
        UINT64_C(10000000000000000),
        UINT64_C(100000000000000000),
        UINT64_C(1000000000000000000),
        UINT64_C(10000000000000000000),
    };
    /* 1233/4096 is the logarithm of 2: the guess is right or one too small. */
    const uint32_t bits = 64 - (uint32_t)__builtin_clzll(value | 1);
    const uint32_t guess = bits * 1233 >> 12;
    return guess + (value >= powers[guess]);
}

void json_write_u64(struct json_writer *w, uint64_t value)
{
    if (value < 10 && w->at < w->end) { /* counts, mostly */
        *w->at++ = (char)('0' + value);
        return;
    }
    const uint32_t count = digit_count(value);
    if (w->end - w->at < count) {
        mark_full(w);
        return;
    }
    w->at += count;
    char *first = w->at;
    while (value >= 100) {
        first -= 2;
        memcpy(first, digit_pairs + value % 100 * 2, 2);
        value /= 100;
    }
    if (value >= 10) {
        memcpy(first - 2, digit_pairs + value * 2, 2);
    } else {
        first[-1] = (char)('0' + value);
    }
}

/* 8 hex digits from 32 bits, all of them at once: a nibble a byte, the highest in the lowest byte.
 */
static inline uint64_t hex_digits(uint32_t value)
{
    const uint64_t ones = UINT64_MAX / 255;
    uint64_t nibbles = __builtin_bswap32(value);
    nibbles = (nibbles | nibbles << 16) & UINT64_C(0x0000ffff0000ffff);
    nibbles = (nibbles | nibbles << 8) & UINT64_C(0x00ff00ff00ff00ff);
    nibbles = (nibbles >> 4 | nibbles << 8) & (ones * 0x0f);
    /* Adding 6 carries into bit 4 from 10 on: those become letters. */
    const uint64_t letters = (nibbles + ones * 6) >> 4 & ones;
    return nibbles + ones * '0' + letters * ('a' - '0' - 10);
}

void json_write_hex64(struct json_writer *w, uint64_t value)
{
    static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the lowest byte is written first");
    const uint64_t high = hex_digits((uint32_t)(value >> 32));
    const uint64_t low = hex_digits((uint32_t)value);
    json_write_literal(w, "\"");
    json_write_raw(w, (const char *)&high, sizeof(high));
    json_write_raw(w, (const char *)&low, sizeof(low));
    json_write_literal(w, "\"");
}
