/*
 * conformance_assert: a store that must keep the whole contract, for tests. cmocka.h comes first in
 * the including file.
 */
#ifndef BENCH_TESTS_LIB_CONFORMANCE_ASSERT_H
#define BENCH_TESTS_LIB_CONFORMANCE_ASSERT_H

#include "tests/lib/conformance.h"

static inline void assert_conforms(const struct conformance_config *config)
{
    struct conformance_report report;
    assert_int_equal(conformance_run(config, &report), 0);
    for (unsigned check = 1; check <= CONFORMANCE_CHECKS; check++) {
        if ((report.failed & 1u << check) != 0)
            print_error("%s (%s, %s, %u shards) breaks J%u: %s\n", config->ops->name,
                        durability_name(config->durability), run_key_name(config->key),
                        config->shards, check, report.why[check]);
    }
    assert_int_equal(report.failed, 0);
}

#endif
