/*
 * digest: values that are on disks already and must never change, and the same as the xxhash
 * library, which this file calls where digest.c has it compiled in.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "engine/base/digest.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static const uint64_t seeds[] = {DIGEST_START, 1, UINT64_C(0x9e3779b97f4a7c15)};

/* Both sides of each length at which XXH3 changes its ways. */
static const struct {
    size_t size;
    uint64_t digests[COUNT_OF(seeds)];
} golden[] = {
    {0, {UINT64_C(0x2d06800538d394c2), UINT64_C(0x4dc5b0cc826f6703), UINT64_C(0x602b0e2cd6662c8b)}},
    {1, {UINT64_C(0xe12ef9d2eb86ceeb), UINT64_C(0x0e08a51c8536156c), UINT64_C(0x439a256d3da4e7e3)}},
    {3, {UINT64_C(0x5c83885a0fb5d516), UINT64_C(0x97acfd5701abcbad), UINT64_C(0x8840137a8295d79b)}},
    {4, {UINT64_C(0x244f36de481e7522), UINT64_C(0xea29946261678ed7), UINT64_C(0x89af97f4a1e8d1fc)}},
    {8, {UINT64_C(0x96cc97a6768fd7a9), UINT64_C(0x33857bda8733699e), UINT64_C(0x7f7986a4ac5342b6)}},
    {9, {UINT64_C(0x4781d83b8e99d495), UINT64_C(0x0530727d785782f7), UINT64_C(0xa9fd0dd2db7e1fc7)}},
    {16,
     {UINT64_C(0x913bd4a8038027a7), UINT64_C(0x565af978e0b859bb), UINT64_C(0xcdf0cbaa77afe281)}},
    {17,
     {UINT64_C(0x2bf6f66973a6179d), UINT64_C(0x7cf9c82b695c7dda), UINT64_C(0x51290e3ab460cf3f)}},
    {128,
     {UINT64_C(0xc4399c7829d0628f), UINT64_C(0xe705a35575ed324c), UINT64_C(0xb4852aec21eb5644)}},
    {129,
     {UINT64_C(0x8433489056750b32), UINT64_C(0x298216ce16626944), UINT64_C(0xeea48e728c6ca28a)}},
    {240,
     {UINT64_C(0x3c0bb96864e543a1), UINT64_C(0x4ac4835a402c1cba), UINT64_C(0xfdbbfb1fa843fe64)}},
    {241,
     {UINT64_C(0xbff7215089202d8f), UINT64_C(0x4db569223fff2747), UINT64_C(0xdbbc9f7c061b0878)}},
    {400,
     {UINT64_C(0x116f23db303bc335), UINT64_C(0x1d89245d2e6713b6), UINT64_C(0x4cbc5216b5b8f09a)}},
    {1000,
     {UINT64_C(0xb8b406a98622d913), UINT64_C(0xac989c844f624ea4), UINT64_C(0x42a384bc12dd5f19)}},
};

static void fill(unsigned char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        bytes[i] = (unsigned char)(i * 7 + 1);
    }
}

static void digests_never_change(void **state)
{
    unsigned char bytes[1000];
    fill(bytes, sizeof(bytes));
    for (size_t i = 0; i < COUNT_OF(golden); i++) {
        for (size_t j = 0; j < COUNT_OF(seeds); j++) {
            assert_int_equal(digest_chain(seeds[j], bytes, golden[i].size), golden[i].digests[j]);
        }
        assert_int_equal(digest_bytes(bytes, golden[i].size), golden[i].digests[0]);
    }
    (void)state; /* cmocka's, not needed here, as in all tests below */
}

static void the_library_agrees(void **state)
{
    enum { SIZE_MAX_BYTES = 1200 };
    unsigned char *bytes = malloc(SIZE_MAX_BYTES);
    XXH3_state_t *stream = XXH3_createState();
    assert_non_null(bytes);
    assert_non_null(stream);
    fill(bytes, SIZE_MAX_BYTES);
    uint64_t previous = DIGEST_START;
    for (size_t size = 0; size <= SIZE_MAX_BYTES; size++) {
        /* Flush with the end of the block, so that a sanitizer sees what is read beyond. */
        const unsigned char *text = bytes + SIZE_MAX_BYTES - size;
        assert_int_equal(digest_bytes(text, size), XXH3_64bits(text, size));
        const uint64_t digest = digest_chain(previous, text, size);
        assert_int_equal(digest, XXH3_64bits_withSeed(text, size, previous));
        assert_int_equal(XXH3_64bits_reset_withSeed(stream, previous), XXH_OK);
        assert_int_equal(XXH3_64bits_update(stream, text, size / 3), XXH_OK);
        assert_int_equal(XXH3_64bits_update(stream, text + size / 3, size - size / 3), XXH_OK);
        assert_int_equal(digest, XXH3_64bits_digest(stream));
        previous = digest;
    }
    assert_int_equal(XXH3_freeState(stream), XXH_OK);
    free(bytes);
    (void)state;
}

static uint64_t chain_of(const char *const *records, size_t count)
{
    uint64_t digest = DIGEST_START;
    for (size_t i = 0; i < count; i++) {
        digest = digest_chain(digest, records[i], strlen(records[i]));
    }
    return digest;
}

static void damage_to_a_chain_shows(void **state)
{
    const char *whole[] = {"{\"v\":1}", "{\"text\":\"\"}", "", "{\"end\":true}"};
    const char *swapped[] = {"{\"text\":\"\"}", "{\"v\":1}", "", "{\"end\":true}"};
    const char *changed[] = {"{\"v\":1}", "{\"text\":\" \"}", "", "{\"end\":true}"};
    const char *missing[] = {"{\"v\":1}", "{\"text\":\"\"}", "{\"end\":true}"};
    const uint64_t digest = chain_of(whole, COUNT_OF(whole));
    assert_int_equal(digest, chain_of(whole, COUNT_OF(whole)));
    assert_int_not_equal(digest, chain_of(swapped, COUNT_OF(swapped)));
    assert_int_not_equal(digest, chain_of(changed, COUNT_OF(changed)));
    assert_int_not_equal(digest, chain_of(missing, COUNT_OF(missing)));
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(digests_never_change),
        cmocka_unit_test(the_library_agrees),
        cmocka_unit_test(damage_to_a_chain_shows),
    };
    return cmocka_run_group_tests_name("digest", tests, NULL, NULL);
}
