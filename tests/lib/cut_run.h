/*
 * cut_run: campaigns of a few runs, of which one is cut off behind some of its records and resumed
 * in a world of its own. cmocka.h comes first in the including file.
 *
 * Ownership: logs are the caller's. Threading: one. Errors: assertions.
 */
#ifndef BENCH_TESTS_LIB_CUT_RUN_H
#define BENCH_TESTS_LIB_CUT_RUN_H

#include <stddef.h>
#include <stdint.h>

#include "tests/lib/sim_log.h"
#include "tests/lib/sim_world.h"

/* Each campaign has a few runs, of which this one is cut off. */
enum { CUT_RUNS = 3, CUT_RUN = 2, CUT_LEDGER_BYTES_MAX = 4096 };

struct cut_shape {
    const char *name;
    uint32_t turns;
    uint32_t tools;
    enum tool_effect effect;
    enum history_mode history;
    const char *tool_latency;
    const char *prompt_bytes; /* NULL: none given */
    const char *reply_bytes;
};

enum { CUT_DEFAULT = 0, CUT_MANY_EFFECTS = 5, CUT_SNAPSHOTS = 7, CUT_SHAPES = 11 };
extern const struct cut_shape cut_shapes[CUT_SHAPES];

struct campaign_config cut_campaign(const struct cut_shape *shape);

/* What is known of a world when it is over. */
struct cut_told {
    uint64_t resumed;
    uint64_t by_outcome[OUTCOME_COUNT];
    uint64_t model_calls;
    uint64_t tool_calls;
    uint64_t appended;
    char first_error[ERRMSG_BYTES];
    char ledger[CUT_LEDGER_BYTES_MAX];
};

/* Runs a world to its end, and adds what its journal holds to the log. */
void cut_world(struct cut_told *told, struct sim_world_config *config, struct sim_log *log);

/* Cuts the run off behind the first `count` records that it has in `whole`, and resumes it. The
 * audit must find no fault in what is there then. */
void cut_resume(struct cut_told *told, const struct campaign_config *campaign,
                const struct sim_log *whole, size_t count, struct sim_log *log);

/* Where the run's records begin in a sorted log. */
size_t cut_first(const struct sim_log *log, uint64_t run);

#endif
