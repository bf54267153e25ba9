/*
 * prng: all randomness of the program, a pure function of the seed.
 *
 * A stream is named by (seed, run, purpose, index) and costs nothing to open, so that no generator
 * state is kept a run and the same seed gives the same draws whatever the order of events.
 * The generator is SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators,
 * OOPSLA 2014). Ownership: the caller's, by value. Threading: none.
 */
#ifndef BENCH_BASE_PRNG_H
#define BENCH_BASE_PRNG_H

#include <stdint.h>

/* What a stream is for: values are part of the seed, so append-only. */
enum prng_purpose {
    PRNG_MODEL_LATENCY = 1,
    PRNG_MODEL_TEXT = 2,
    PRNG_TOOL_LATENCY = 3,
    PRNG_TEST = 5,
    PRNG_PROMPT_BYTES = 6,
    PRNG_PROMPT_TEXT = 7,
    PRNG_REPLY_BYTES = 8,
    PRNG_ARRIVAL = 9,
    PRNG_MODEL_TOKEN = 10,
    PRNG_MODEL_ERROR = 11,
    PRNG_BACKOFF = 12,
    PRNG_BOOTSTRAP = 13,
};

struct prng {
    uint64_t state;
};

static inline uint64_t prng_mix(uint64_t x)
{
    x ^= x >> 30;
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    x ^= x >> 27;
    x *= UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static inline uint64_t prng_next(struct prng *p)
{
    p->state += UINT64_C(0x9e3779b97f4a7c15);
    return prng_mix(p->state);
}

/* `index` tells apart the draws of one purpose in one run: a turn, or turn and call. */
static inline struct prng prng_stream(uint64_t seed, uint64_t run, enum prng_purpose purpose,
                                      uint64_t index)
{
    uint64_t state = prng_mix(seed + UINT64_C(0x9e3779b97f4a7c15));
    state = prng_mix(state ^ (run + UINT64_C(0xd1b54a32d192ed03)));
    state = prng_mix(state ^ (((uint64_t)purpose << 56) + index));
    return (struct prng){state};
}

/* Uniform in the open interval (0, 1): never 0 and never 1, so that its logarithm is finite. */
static inline double prng_unit(struct prng *p)
{
    return ((double)(prng_next(p) >> 12) + 0.5) * 0x1p-52;
}

/* Uniform in [0, bound), bound > 0: Lemire's multiply-shift; its bias is below bound / 2^64. */
static inline uint64_t prng_below(struct prng *p, uint64_t bound)
{
    __extension__ typedef unsigned __int128 wide;
    return (uint64_t)(((wide)prng_next(p) * bound) >> 64);
}

#endif
