/* exact_text: the bytes of a fuzzer as a string in a block of exactly that size, so that reading
 * beyond it is found. The caller frees it. */
#ifndef BENCH_TESTS_LIB_EXACT_TEXT_H
#define BENCH_TESTS_LIB_EXACT_TEXT_H

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static inline char *exact_text(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    assert(text != NULL);
    if (size > 0)
        memcpy(text, data, size);
    text[size] = '\0';
    return text;
}

#endif
