/*
 * run_key: what a store keys the records of a run by (-run-id): a number, or a UUID, to show what
 * random keys cost.
 *
 * A key is a function of the campaign and the run's number in it, and the number can be told from
 * the key, so nobody has to keep a table of them: a resumed run finds its own. Layouts of RFC 9562.
 * Of the 122 free bits of a version 4 UUID, 64 are the number through a bijection, the rest are
 * drawn from it. A version 7 UUID begins with the campaign's start in ms, moved on by one every
 * RUN_KEY_RUNS_A_MS runs, as if runs began at that rate; its other bits are made likewise.
 *
 * Ownership: plain data. Threading: pure functions.
 */
#ifndef BENCH_JOURNAL_RUN_KEY_H
#define BENCH_JOURNAL_RUN_KEY_H

#include <stdbool.h>
#include <stdint.h>

enum {
    RUN_KEY_NUMBER_BITS = 40, /* of a run in its campaign */
    RUN_KEY_CAMPAIGN_BITS = 23,
    RUN_KEY_RUNS_A_MS = 32,
    RUN_KEY_UUID_BYTES = 16,
};
#define RUN_KEY_NUMBER_MAX ((UINT64_C(1) << RUN_KEY_NUMBER_BITS) - 1)
#define RUN_KEY_CAMPAIGN_MAX ((UINT64_C(1) << RUN_KEY_CAMPAIGN_BITS) - 1)

/* Values reach disks: append-only. */
enum run_key_kind {
    RUN_KEY_SEQ = 0,
    RUN_KEY_UUIDV7 = 1,
    RUN_KEY_UUIDV4 = 2,
    RUN_KEY_COUNT = 3,
};
const char *run_key_name(enum run_key_kind kind); /* "seq", "uuidv7", "uuidv4"; NULL for none */

/* Campaign above, number below: one integer that stays positive in 64 bits. */
static inline int64_t run_key_pack(uint64_t campaign, uint64_t run)
{
    return (int64_t)(campaign << RUN_KEY_NUMBER_BITS | run);
}

static inline uint64_t run_key_campaign(int64_t packed)
{
    return (uint64_t)packed >> RUN_KEY_NUMBER_BITS;
}

static inline uint64_t run_key_number(int64_t packed)
{
    return (uint64_t)packed & RUN_KEY_NUMBER_MAX;
}

/* `start_ms` of the campaign, since 1970; only version 7 needs it. */
void run_key_make_uuid(enum run_key_kind kind, int64_t packed, uint64_t start_ms,
                       uint8_t uuid[RUN_KEY_UUID_BYTES]);

/* The packed key of a UUID that run_key_make_uuid() made. False for any other UUID, as far as its
 * bits tell. */
bool run_key_read_uuid(enum run_key_kind kind, const uint8_t uuid[RUN_KEY_UUID_BYTES],
                       uint64_t start_ms, int64_t *packed);

#endif
