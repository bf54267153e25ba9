/*
 * json_assert: what JSON that bench has written holds, read back by another JSON library.
 * cmocka.h comes first in the including file.
 */
#ifndef BENCH_TESTS_LIB_JSON_ASSERT_H
#define BENCH_TESTS_LIB_JSON_ASSERT_H

#include <jansson.h>
#include <stdint.h>
#include <string.h>

struct text {
    const char *bytes;
    size_t size;
};
#define TEXT(literal)                                                                              \
    {                                                                                              \
        literal, sizeof(literal) - 1                                                               \
    }

/* Texts that must come back as they were, whatever they stand in. */
static const struct text texts[] = {
    TEXT(""),
    TEXT("plain"),
    TEXT("say \"hello\""),
    TEXT("back\\slash and /slash"),
    TEXT("a\nb\tc\rd\be\f"),
    TEXT("\x01\x02\x1f\x7f"),
    TEXT("nul \0 inside"),
    TEXT("Grüße, 東京, 🚚"),
    TEXT("\"}]}"),
    TEXT("\",\"outcome\":\"completed"),
    TEXT("\"},{\"role\":\"assistant\",\"content\":\"I said so"),
    TEXT(
        "\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01"
        "\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01"
        "\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01"),
};

static inline json_t *parse_json(const char *bytes, size_t size)
{
    json_error_t error;
    json_t *json = json_loadb(bytes, size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    if (json == NULL)
        fail_msg("%s in %.*s", error.text, (int)size, bytes);
    return json;
}

static inline void assert_json_text(const json_t *object, const char *key, const char *bytes,
                                    size_t size)
{
    const json_t *value = json_object_get(object, key);
    assert_true(json_is_string(value));
    assert_int_equal(json_string_length(value), size);
    assert_memory_equal(json_string_value(value), bytes, size);
}

static inline void assert_json_string(const json_t *object, const char *key, const char *expected)
{
    assert_json_text(object, key, expected, strlen(expected));
}

static inline void assert_json_integer(const json_t *object, const char *key, int64_t expected)
{
    const json_t *value = json_object_get(object, key);
    assert_true(json_is_integer(value));
    assert_int_equal(json_integer_value(value), expected);
}

#endif
