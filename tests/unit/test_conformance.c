/* The conformance suite itself: an honest store that settles later must pass, a broken one must
 * not.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/lib/broken_journals.h"
#include "tests/lib/conformance_assert.h"
#include "tests/lib/slow_journal.h"

static void a_store_that_settles_later_conforms(void **state)
{
    (void)state;
    assert_conforms(&(struct conformance_config){
        .ops = &slow_journal_ops, .uri = "slow", .is_in_memory = true});
}

static void the_suite_finds_what_is_broken(void **state)
{
    (void)state;
    for (const struct broken_journal *broken = broken_journals; broken->name != NULL; broken++) {
        struct conformance_report report;
        const struct conformance_config config = {
            .ops = &broken->ops,
            .uri = "broken",
            .only = broken->breaks == 0 ? 0 : 1u << broken->breaks,
            .is_in_memory = !broken->is_kept,
            .idle_polls_max = broken->fault == FAULT_CALLBACK_NEVER ? 50 : 0,
        };
        if (broken->breaks == 0) {
            assert_conforms(&config);
            continue;
        }
        assert_int_equal(conformance_run(&config, &report), 0);
        if ((report.failed & 1u << broken->breaks) == 0)
            fail_msg("\"%s\" was not found by J%u (failed: 0x%x)", broken->name, broken->breaks,
                     report.failed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_store_that_settles_later_conforms),
        cmocka_unit_test(the_suite_finds_what_is_broken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
