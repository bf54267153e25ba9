/*
 * token: what one token of a streamed reply says: a short word and the space behind it, four bytes
 * on average, as a tokenizer's are for English. Plain ASCII without quotes and backslashes.
 *
 * A pure function of the stream of draws, one stream a token, so that any token of a text can be
 * had without those before it. Ownership: the caller's buffer. Threading: none. Errors: none.
 */
#ifndef BENCH_STUB_TOKEN_H
#define BENCH_STUB_TOKEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/prng.h"

enum { TOKEN_BYTES_MAX = 8 };

/* The index of a token's stream: turns are fewer than 2^24. */
static inline uint64_t token_index(uint32_t turn, uint32_t token)
{
    return ((uint64_t)turn << 32) + token;
}

/* Writes the token, and rubbish behind it; the last ends in a full stop. Returns its size, 2 to
 * TOKEN_BYTES_MAX - 1. */
size_t token_write(char to[TOKEN_BYTES_MAX], struct prng *p, bool is_last);

#endif
