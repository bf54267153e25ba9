/* run_key: see run_key.h. */
#include "journal/run_key.h"

#include <stddef.h>
#include <string.h>

#include "engine/base/prng.h"

/* Keeps the numbers of small runs from being small after the bijection. */
#define SALT UINT64_C(0x62656e6368206b65)

const char *run_key_name(enum run_key_kind kind)
{
    switch (kind) {
    case RUN_KEY_SEQ:
        return "seq";
    case RUN_KEY_UUIDV7:
        return "uuidv7";
    case RUN_KEY_UUIDV4:
        return "uuidv4";
    case RUN_KEY_COUNT:
        break;
    }
    return NULL;
}

/* Undoes x ^= x >> shift, for shifts of at least 22. */
static uint64_t unshift(uint64_t x, unsigned shift)
{
    uint64_t y = x ^ x >> shift;
    return x ^ y >> shift;
}

/* The inverse of prng_mix(): its multipliers' inverses modulo 2^64. */
static uint64_t unmix(uint64_t x)
{
    x = unshift(x, 31);
    x *= UINT64_C(0x319642b2d24d8ec3);
    x = unshift(x, 27);
    x *= UINT64_C(0x96de1b173f119089);
    return unshift(x, 30);
}

static void put(uint8_t *to, uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++)
        to[i] = (uint8_t)(value >> 8 * (bytes - 1 - i));
}

static uint64_t get(const uint8_t *from, unsigned bytes)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < bytes; i++)
        value = value << 8 | from[i];
    return value;
}

static uint64_t timestamp_of(int64_t packed, uint64_t start_ms)
{
    return (start_ms + run_key_number(packed) / RUN_KEY_RUNS_A_MS) & ((UINT64_C(1) << 48) - 1);
}

/* The 122 bits that are free in every version, as 60 above the variant and 62 below it, which is
 * where the version's 4 bits and the variant's 2 bits leave them. */
static void write_bits(uint8_t uuid[RUN_KEY_UUID_BYTES], unsigned version, uint64_t high,
                       uint64_t low)
{
    put(uuid, (high >> 12) << 16 | (uint64_t)version << 12 | (high & 0xfff), 8);
    put(uuid + 8, UINT64_C(2) << 62 | (low & ((UINT64_C(1) << 62) - 1)), 8);
}

void run_key_make_uuid(enum run_key_kind kind, int64_t packed, uint64_t start_ms,
                       uint8_t uuid[RUN_KEY_UUID_BYTES])
{
    uint64_t mixed = prng_mix((uint64_t)packed ^ SALT);
    uint64_t rest = prng_mix(mixed + SALT);
    if (kind == RUN_KEY_UUIDV7) /* 48 bits of time, 12 and 52 of the number, 10 of the rest */
        write_bits(uuid, 7, timestamp_of(packed, start_ms) << 12 | mixed >> 52,
                   mixed << 10 | (rest & 0x3ff));
    else /* 60 and 4 bits of the number, 58 of the rest */
        write_bits(uuid, 4, mixed >> 4, mixed << 58 | rest >> 6);
}

bool run_key_read_uuid(enum run_key_kind kind, const uint8_t uuid[RUN_KEY_UUID_BYTES],
                       uint64_t start_ms, int64_t *packed)
{
    uint64_t high = (get(uuid, 6) << 12) | (get(uuid + 6, 2) & 0xfff);
    uint64_t low = get(uuid + 8, 8) & ((UINT64_C(1) << 62) - 1);
    uint64_t mixed = kind == RUN_KEY_UUIDV7 ? high << 52 | low >> 10 : high << 4 | low >> 58;
    uint8_t again[RUN_KEY_UUID_BYTES];

    *packed = (int64_t)(unmix(mixed) ^ SALT);
    if (*packed < 0)
        return false;
    run_key_make_uuid(kind, *packed, start_ms, again);
    return memcmp(uuid, again, sizeof(again)) == 0;
}
