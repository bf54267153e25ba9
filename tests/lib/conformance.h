/*
 * conformance: whether a store keeps the journal contract, J1 to J10, the same suite for all
 * stores.
 *
 * Each check runs in a child process with a journal opened there and a time limit, so that a store
 * that hangs, crashes or calls back twice fails its check and not the suite. To a store that keeps
 * its records each check is a new campaign; what the store holds already does not matter, but
 * nobody else may begin campaigns meanwhile. Ownership: all the caller's. Threading: to be called
 * while the process has one thread.
 */
#ifndef BENCH_TESTS_CONFORMANCE_H
#define BENCH_TESTS_CONFORMANCE_H

#include <stdbool.h>
#include <stdint.h>

#include "journal/backend.h"

enum { CONFORMANCE_CHECKS = 10, CONFORMANCE_WHY_BYTES = 256 };

struct conformance_config {
    const struct journal_ops *ops;
    const char *uri;
    enum durability durability;
    enum run_key_kind key;
    unsigned shards; /* as in journal_config, as is the next */
    unsigned connections;
    unsigned idle_polls_max; /* of a millisecond, in which no callback comes; 0: 10000 */
    uint32_t only;           /* bit n: check Jn; 0: all */
    bool is_in_memory;       /* bytes_max bounds it, and it forgets all when it is closed */
};

struct conformance_report {
    uint32_t failed;                                         /* bit n: check Jn */
    char why[CONFORMANCE_CHECKS + 1][CONFORMANCE_WHY_BYTES]; /* the first fault of each */
};

/* Runs the checks. 0, or -errno when they could not be run; what they found is in the report. */
int conformance_run(const struct conformance_config *config, struct conformance_report *report);

#endif
