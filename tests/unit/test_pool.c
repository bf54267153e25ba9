/* pool and chunk: capacity, reuse, the bound, and that no two blocks share a byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/chunk.h"
#include "engine/base/pool.h"
#include "engine/base/prng.h"

static void chunks_are_aligned(void **state)
{
    (void)state;
    static const size_t sizes[] = {0,
                                   1,
                                   100,
                                   64 << 10,
                                   CHUNK_HUGE_BYTES - 1,
                                   CHUNK_HUGE_BYTES,
                                   CHUNK_HUGE_BYTES + 1,
                                   3 * CHUNK_HUGE_BYTES + 64};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        char *chunk = chunk_alloc(sizes[i]);
        assert_non_null(chunk);
        size_t alignment = sizes[i] >= CHUNK_HUGE_BYTES ? CHUNK_HUGE_BYTES : CHUNK_ALIGNMENT_BYTES;
        assert_int_equal((uintptr_t)chunk % alignment, 0);
        memset(chunk, 0x5a, sizes[i]);
        chunk_free(chunk);
    }
    chunk_free(NULL);
    /* Near SIZE_MAX, where rounding up would wrap around. AddressSanitizer aborts on such sizes. */
#ifndef BENCH_SANITIZER
    volatile size_t too_many = SIZE_MAX - 10;
    assert_null(chunk_alloc(too_many));
#endif
}

static void classes_waste_less_than_a_fifth(void **state)
{
    (void)state;
    size_t capacity_before = 0;
    uint32_t class_before = 0;
    for (size_t bytes = 0; bytes <= 1 << 20; bytes++) {
        size_t capacity;
        uint32_t class = pool_class(bytes, &capacity);
        assert_true(capacity >= bytes && capacity >= POOL_BLOCK_BYTES_MIN);
        assert_true(bytes <= POOL_BLOCK_BYTES_MIN || 5 * (capacity - bytes) < capacity);
        assert_int_equal(capacity % 8, 0);
        if (capacity != capacity_before) { /* one class a capacity, none left out */
            assert_int_equal(class, capacity_before == 0 ? 0 : class_before + 1);
            size_t again;
            assert_int_equal(pool_class(capacity, &again), class);
            assert_int_equal(again, capacity);
        } else {
            assert_int_equal(class, class_before);
        }
        capacity_before = capacity;
        class_before = class;
    }
    size_t capacity;
    assert_int_equal(pool_class(POOL_BLOCK_BYTES_MAX, &capacity), POOL_CLASSES - 1);
    assert_int_equal(capacity, POOL_BLOCK_BYTES_MAX);
}

struct block {
    unsigned char *bytes;
    size_t capacity;
    unsigned char pattern;
};

static void expect_pattern(const struct block *b)
{
    for (size_t i = 0; i < b->capacity; i++) {
        if (b->bytes[i] != b->pattern)
            fail_msg("byte %zu of a block of %zu was overwritten", i, b->capacity);
    }
}

/* Every block is filled to its capacity with a pattern of its own, which must still be there when
 * it is freed: an overlap with any other block would show. */
static void blocks_do_not_overlap(void **state)
{
    (void)state;
    enum { LIVE = 512, STEPS = 20000 };
    struct pool p;
    struct block live[LIVE] = {0};
    struct prng random = prng_stream(1, 0, PRNG_TEST, 0);
    pool_init(&p, 256 << 20);
    for (int step = 0; step < STEPS; step++) {
        struct block *b = &live[prng_below(&random, LIVE)];
        if (b->bytes != NULL) {
            expect_pattern(b);
            pool_free(&p, b->bytes, b->capacity);
            b->bytes = NULL;
            continue;
        }
        size_t bytes = prng_below(&random, UINT64_C(32) << prng_below(&random, 13));
        b->bytes = pool_alloc(&p, bytes, &b->capacity);
        assert_non_null(b->bytes);
        assert_true(b->capacity >= bytes);
        assert_int_equal((uintptr_t)b->bytes % 8, 0);
        b->pattern = (unsigned char)(step * 31);
        memset(b->bytes, b->pattern, b->capacity);
    }
    for (int i = 0; i < LIVE; i++) {
        if (live[i].bytes != NULL)
            expect_pattern(&live[i]);
    }
    pool_close(&p);
    assert_int_equal(p.bytes, 0);
    pool_close(&p); /* closing twice is harmless */
}

static void freed_blocks_are_taken_again(void **state)
{
    (void)state;
    struct pool p;
    size_t capacity;
    pool_init(&p, SIZE_MAX);
    void *first = pool_alloc(&p, 890, &capacity);
    assert_int_equal(capacity, 1024 - 128);
    void *second = pool_alloc(&p, 1000, &capacity);
    assert_int_equal(capacity, 1024);
    pool_free(&p, second, capacity);
    pool_free(&p, first, 896);
    assert_ptr_equal(pool_alloc(&p, 897, &capacity), second);
    assert_ptr_equal(pool_alloc(&p, 896, &capacity), first);
    size_t bytes = p.bytes;
    for (int i = 0; i < 100000; i++) {
        void *block = pool_alloc(&p, 5000, &capacity);
        assert_non_null(block);
        pool_free(&p, block, capacity);
    }
    assert_int_equal(p.bytes, bytes);
    pool_close(&p);
}

static void chunks_grow_by_doubling(void **state)
{
    (void)state;
    struct pool p;
    size_t capacity;
    size_t chunk_bytes = POOL_CHUNK_BYTES_MIN;
    size_t expected_bytes = 0;
    pool_init(&p, SIZE_MAX);
    for (int chunk = 0; chunk < 9; chunk++) {
        expected_bytes += chunk_bytes;
        while (p.bytes < expected_bytes)
            assert_non_null(pool_alloc(&p, 1024, &capacity));
        assert_int_equal(p.bytes, expected_bytes);
        chunk_bytes = chunk_bytes < POOL_CHUNK_BYTES_MAX ? chunk_bytes * 2 : chunk_bytes;
    }

    /* A large block gets a chunk of its own and leaves the current one in use. */
    char *bump = p.bump;
    assert_non_null(pool_alloc(&p, 16 << 20, &capacity));
    assert_in_range(p.bytes, expected_bytes + (16 << 20), expected_bytes + (16 << 20) + 4096);
    assert_ptr_equal(p.bump, bump);
    pool_close(&p);
}

/* The rest of a chunk, when a request does not fit into it, serves later and smaller ones. */
static void the_rest_of_a_chunk_is_not_lost(void **state)
{
    (void)state;
    struct pool p;
    size_t capacity;
    pool_init(&p, SIZE_MAX);
    for (int i = 0; i < 4;
         i++) /* the fourth needs a second chunk; about 15 KiB of the first are left */
        assert_non_null(pool_alloc(&p, 16 << 10, &capacity));
    assert_int_equal(p.bytes, POOL_CHUNK_BYTES_MIN * 3);
    char *bump = p.bump;
    assert_non_null(pool_alloc(&p, 14 << 10, &capacity));
    assert_ptr_equal(p.bump, bump);
    pool_close(&p);
}

static void the_bound_holds(void **state)
{
    (void)state;
    static const size_t bounds[] = {0, 63, 64, 95, 96, 100, 1000, 65536, 100001, 3 << 20};
    static const size_t sizes[] = {0, 32, 33, 1000, 20000, 600 << 10};
    for (size_t i = 0; i < sizeof(bounds) / sizeof(bounds[0]); i++) {
        for (size_t j = 0; j < sizeof(sizes) / sizeof(sizes[0]); j++) {
            struct pool p;
            size_t capacity;
            size_t used = 0;
            char *block;
            char *last = NULL;
            pool_init(&p, bounds[i]);
            while ((block = pool_alloc(&p, sizes[j], &capacity)) != NULL) {
                memset(block, 1, capacity);
                used += capacity;
                last = block;
                assert_true(p.bytes <= bounds[i]);
            }
            /* At the bound it stays, and what is given back can be had again. */
            assert_true(used <= bounds[i]);
            assert_null(pool_alloc(&p, sizes[j], &capacity));
            if (bounds[i] >= sizes[j] + sizes[j] / 4 + 96)
                assert_non_null(last);
            if (last != NULL) {
                (void)pool_class(sizes[j], &capacity);
                pool_free(&p, last, capacity);
                assert_ptr_equal(pool_alloc(&p, sizes[j], &capacity), last);
            }
            pool_close(&p);
        }
    }
}

static void sizes_beyond_the_largest_class_are_refused(void **state)
{
    (void)state;
    struct pool p;
    size_t capacity;
    pool_init(&p, SIZE_MAX);
    assert_null(pool_alloc(&p, (size_t)POOL_BLOCK_BYTES_MAX + 1, &capacity));
    assert_null(pool_alloc(&p, SIZE_MAX, &capacity));
    assert_int_equal(p.bytes, 0);
    assert_non_null(pool_alloc(&p, POOL_BLOCK_BYTES_MAX, &capacity));
    pool_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_are_aligned),
        cmocka_unit_test(classes_waste_less_than_a_fifth),
        cmocka_unit_test(blocks_do_not_overlap),
        cmocka_unit_test(freed_blocks_are_taken_again),
        cmocka_unit_test(chunks_grow_by_doubling),
        cmocka_unit_test(the_rest_of_a_chunk_is_not_lost),
        cmocka_unit_test(the_bound_holds),
        cmocka_unit_test(sizes_beyond_the_largest_class_are_refused),
    };
    return cmocka_run_group_tests_name("pool", tests, NULL, NULL);
}
