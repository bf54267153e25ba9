/* The table of runs against a plain array: whatever it holds is right, and it stays in its bound.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/base/prng.h"
#include "journal/run_table.h"

static void an_empty_table_holds_nothing(void **state)
{
    (void)state;
    struct run_table table;
    run_table_init(&table, 10);
    assert_int_equal(run_table_find(&table, 0), 0);
    run_table_drop(&table, 0);
    run_table_clear(&table);
    run_table_put(&table, 0, 1);
    assert_int_equal(run_table_find(&table, 0), 1);
    assert_int_equal(run_table_find(&table, 1), 0);
    run_table_clear(&table);
    assert_int_equal(run_table_find(&table, 0), 0);
    run_table_free(&table);
    assert_int_equal(run_table_find(&table, 0), 0);
    run_table_free(&table);
}

/* No more than a table may hold, so that nothing is forgotten. */
static void it_agrees_with_an_array(void **state)
{
    (void)state;
    enum { RUNS = 3000, STEPS = 400000 };
    static uint64_t next_seq[RUNS];
    struct run_table table;
    struct prng prng = prng_stream(1, 1, PRNG_TEST, 0);
    run_table_init(&table, RUNS);
    for (unsigned i = 0; i < STEPS; i++) {
        /* Spread, with many neighbours, and few runs at times, so that chains are long and short.
         */
        uint64_t run = prng_below(&prng, i % 50000 < 25000 ? RUNS : RUNS / 30);
        uint64_t key = run << 37 | run;
        switch (prng_below(&prng, 4)) {
        case 0:
            run_table_drop(&table, key);
            next_seq[run] = 0;
            break;
        case 1:
            next_seq[run] = 1 + prng_below(&prng, UINT64_C(1) << 31);
            run_table_put(&table, key, next_seq[run]);
            break;
        default:
            assert_int_equal(run_table_find(&table, key), next_seq[run]);
            break;
        }
    }
    uint32_t held = 0;
    for (uint64_t run = 0; run < RUNS; run++) {
        assert_int_equal(run_table_find(&table, run << 37 | run), next_seq[run]);
        held += next_seq[run] != 0;
    }
    assert_int_equal(table.count, held);
    run_table_free(&table);
}

static void at_its_bound_it_begins_anew(void **state)
{
    (void)state;
    struct run_table table;
    run_table_init(&table, 5000);
    for (uint64_t run = 0; run < 100000; run++) {
        run_table_put(&table, run, run + 1);
        assert_int_equal(run_table_find(&table, run), run + 1);
        assert_true(table.count <= 5000);
        assert_true(table.capacity <= 16384);
        /* What it does not hold it does not make up. */
        uint64_t before = run_table_find(&table, run / 2);
        assert_true(before == 0 || before == run / 2 + 1);
    }
    run_table_put(&table, 99999, 7);
    assert_int_equal(run_table_find(&table, 99999), 7);
    run_table_free(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_table_holds_nothing),
        cmocka_unit_test(it_agrees_with_an_array),
        cmocka_unit_test(at_its_bound_it_begins_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
