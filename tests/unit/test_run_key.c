/* The keys of runs: that numbers come back from them, that they are UUIDs of RFC 9562, and that
 * nothing else is taken for one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "engine/base/prng.h"
#include "journal/run_key.h"

enum { DRAWS = 20000, START_MS_BITS = 48 };

static const enum run_key_kind kinds[] = {RUN_KEY_UUIDV7, RUN_KEY_UUIDV4};

static const uint64_t starts_ms[] = {0, 1, UINT64_C(1785000000000),
                                     (UINT64_C(1) << START_MS_BITS) - 1};

static void kinds_have_names(void **state)
{
    (void)state;
    assert_string_equal(run_key_name(RUN_KEY_SEQ), "seq");
    assert_string_equal(run_key_name(RUN_KEY_UUIDV7), "uuidv7");
    assert_string_equal(run_key_name(RUN_KEY_UUIDV4), "uuidv4");
    assert_null(run_key_name(RUN_KEY_COUNT));
    assert_null(run_key_name((enum run_key_kind)99));
}

static void campaign_and_number_are_packed_into_a_positive_integer(void **state)
{
    (void)state;
    static const uint64_t campaigns[] = {0, 1, 2, RUN_KEY_CAMPAIGN_MAX - 1, RUN_KEY_CAMPAIGN_MAX};
    static const uint64_t numbers[] = {0, 1, UINT32_MAX, RUN_KEY_NUMBER_MAX - 1,
                                       RUN_KEY_NUMBER_MAX};
    int64_t last = -1;
    for (unsigned c = 0; c < 5; c++) {
        for (unsigned n = 0; n < 5; n++) {
            int64_t packed = run_key_pack(campaigns[c], numbers[n]);
            assert_true(packed > last); /* in the order of campaigns, then of numbers */
            last = packed;
            assert_int_equal(run_key_campaign(packed), campaigns[c]);
            assert_int_equal(run_key_number(packed), numbers[n]);
        }
    }
    assert_true(last == INT64_MAX);
    assert_true(run_key_pack(0, 0) == 0);
}

static void assert_comes_back(enum run_key_kind kind, int64_t packed, uint64_t start_ms)
{
    uint8_t uuid[RUN_KEY_UUID_BYTES];
    uint8_t again[RUN_KEY_UUID_BYTES];
    int64_t read = -1;
    run_key_make_uuid(kind, packed, start_ms, uuid);
    run_key_make_uuid(kind, packed, start_ms, again);
    assert_memory_equal(uuid, again, sizeof(uuid));
    assert_true(run_key_read_uuid(kind, uuid, start_ms, &read));
    assert_true(read == packed);
    assert_int_equal(uuid[6] >> 4, kind == RUN_KEY_UUIDV7 ? 7 : 4); /* the version */
    assert_int_equal(uuid[8] >> 6, 2);                              /* the variant */
}

static void every_number_comes_back(void **state)
{
    (void)state;
    struct prng prng = prng_stream(1, 0, PRNG_TEST, 0);
    for (unsigned k = 0; k < 2; k++) {
        for (unsigned s = 0; s < sizeof(starts_ms) / sizeof(starts_ms[0]); s++) {
            assert_comes_back(kinds[k], 0, starts_ms[s]);
            assert_comes_back(kinds[k], INT64_MAX, starts_ms[s]);
            for (unsigned bit = 0; bit < 63; bit++)
                assert_comes_back(kinds[k], INT64_C(1) << bit, starts_ms[s]);
            for (unsigned i = 0; i < DRAWS; i++)
                assert_comes_back(kinds[k], (int64_t)(prng_next(&prng) >> 1), starts_ms[s]);
        }
    }
}

/* What differs in one bit of the number differs in about half of the random bits: no two UUIDs of
 * neighbours lie together in a version 4 index. */
static void neighbours_are_far_apart(void **state)
{
    (void)state;
    unsigned bits = 0;
    uint8_t last[RUN_KEY_UUID_BYTES];
    run_key_make_uuid(RUN_KEY_UUIDV4, run_key_pack(1, 0), 0, last);
    for (unsigned i = 1; i <= 1000; i++) {
        uint8_t uuid[RUN_KEY_UUID_BYTES];
        run_key_make_uuid(RUN_KEY_UUIDV4, run_key_pack(1, i), 0, uuid);
        for (unsigned b = 0; b < RUN_KEY_UUID_BYTES; b++)
            bits += (unsigned)__builtin_popcount(uuid[b] ^ last[b]);
        assert_true(bits > 0);
        memcpy(last, uuid, sizeof(last));
    }
    assert_in_range(bits / 1000, 55, 67); /* of 122 */
}

static void version_7_is_sorted_by_run(void **state)
{
    (void)state;
    const uint64_t start_ms = UINT64_C(1785000000000);
    uint8_t last[RUN_KEY_UUID_BYTES];
    run_key_make_uuid(RUN_KEY_UUIDV7, run_key_pack(3, 0), start_ms, last);
    for (uint64_t run = RUN_KEY_RUNS_A_MS; run < UINT64_C(1000000); run += RUN_KEY_RUNS_A_MS) {
        uint8_t uuid[RUN_KEY_UUID_BYTES];
        run_key_make_uuid(RUN_KEY_UUIDV7, run_key_pack(3, run), start_ms, uuid);
        assert_true(memcmp(last, uuid, sizeof(uuid)) < 0);
        memcpy(last, uuid, sizeof(last));
    }
    /* Those of one ms share its first 6 bytes, which are the time. */
    for (uint64_t run = 0; run < 3 * RUN_KEY_RUNS_A_MS; run++) {
        uint8_t uuid[RUN_KEY_UUID_BYTES];
        uint64_t ms = 0;
        run_key_make_uuid(RUN_KEY_UUIDV7, run_key_pack(3, run), start_ms, uuid);
        for (unsigned i = 0; i < 6; i++)
            ms = ms << 8 | uuid[i];
        assert_int_equal(ms, start_ms + run / RUN_KEY_RUNS_A_MS);
    }
}

/* Every bit that may vary does, of both kinds. */
static void no_free_bit_is_wasted(void **state)
{
    (void)state;
    for (unsigned k = 0; k < 2; k++) {
        uint8_t all[RUN_KEY_UUID_BYTES] = {0};
        uint8_t common[RUN_KEY_UUID_BYTES];
        unsigned first = kinds[k] == RUN_KEY_UUIDV7 ? 6 : 0; /* behind the time */
        memset(common, 0xff, sizeof(common));
        for (unsigned i = 0; i < 200; i++) {
            uint8_t uuid[RUN_KEY_UUID_BYTES];
            run_key_make_uuid(kinds[k], run_key_pack(1, i), 0, uuid);
            for (unsigned b = 0; b < RUN_KEY_UUID_BYTES; b++) {
                all[b] |= uuid[b];
                common[b] &= uuid[b];
            }
        }
        for (unsigned b = first; b < RUN_KEY_UUID_BYTES; b++)
            assert_int_equal(all[b] & ~common[b], b == 6 ? 0x0f : b == 8 ? 0x3f : 0xff);
    }
}

static void foreign_uuids_are_refused(void **state)
{
    (void)state;
    const uint64_t start_ms = UINT64_C(1785000000000);
    struct prng prng = prng_stream(2, 0, PRNG_TEST, 0);
    int64_t packed = 0;
    uint8_t uuid[RUN_KEY_UUID_BYTES];
    uint8_t ones[RUN_KEY_UUID_BYTES];
    memset(ones, 0xff, sizeof(ones));
    for (unsigned k = 0; k < 2; k++) {
        assert_false(run_key_read_uuid(kinds[k], (const uint8_t[16]){0}, start_ms, &packed));
        assert_false(run_key_read_uuid(kinds[k], ones, start_ms, &packed));
        for (unsigned i = 0; i < DRAWS; i++) {
            uint64_t halves[2] = {prng_next(&prng), prng_next(&prng)};
            memcpy(uuid, halves, sizeof(uuid));
            uuid[6] = (uint8_t)((uuid[6] & 0x0f) | (kinds[k] == RUN_KEY_UUIDV7 ? 0x70 : 0x40));
            uuid[8] = (uint8_t)((uuid[8] & 0x3f) | 0x80);
            assert_false(run_key_read_uuid(kinds[k], uuid, start_ms, &packed));
        }
        /* One of ours with any one bit turned. */
        run_key_make_uuid(kinds[k], run_key_pack(5, 77), start_ms, uuid);
        for (unsigned bit = 0; bit < 8 * RUN_KEY_UUID_BYTES; bit++) {
            uuid[bit / 8] ^= (uint8_t)(1 << bit % 8);
            assert_false(run_key_read_uuid(kinds[k], uuid, start_ms, &packed) &&
                         packed == run_key_pack(5, 77));
            uuid[bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
        assert_true(run_key_read_uuid(kinds[k], uuid, start_ms, &packed));
        assert_false(run_key_read_uuid(kinds[1 - k], uuid, start_ms, &packed));
    }
    /* Of a number that run_key_pack() never makes. */
    run_key_make_uuid(RUN_KEY_UUIDV4, -1, start_ms, uuid);
    assert_false(run_key_read_uuid(RUN_KEY_UUIDV4, uuid, start_ms, &packed));
    /* Of another start: the time is part of a version 7 key, and not of the other. */
    run_key_make_uuid(RUN_KEY_UUIDV7, run_key_pack(5, 77), start_ms, uuid);
    assert_false(run_key_read_uuid(RUN_KEY_UUIDV7, uuid, start_ms + 1, &packed));
    run_key_make_uuid(RUN_KEY_UUIDV4, run_key_pack(5, 77), start_ms, uuid);
    assert_true(run_key_read_uuid(RUN_KEY_UUIDV4, uuid, start_ms + 1, &packed));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds_have_names),
        cmocka_unit_test(campaign_and_number_are_packed_into_a_positive_integer),
        cmocka_unit_test(every_number_comes_back),
        cmocka_unit_test(neighbours_are_far_apart),
        cmocka_unit_test(version_7_is_sorted_by_run),
        cmocka_unit_test(no_free_bit_is_wasted),
        cmocka_unit_test(foreign_uuids_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
