/*
 * The Postgres journal under kill -9: at appends, commits, settled batches and callbacks. The
 * server lives on, and what the killed process had sent may still become durable.
 *
 * SIM_SEEDS=N takes N thousandths of the points (1000).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <time.h>

#include "tests/lib/in_child.h"
#include "tests/lib/kill_cases.h"
#include "tests/lib/pg_fixture.h"

/* The engine's campaign, but for the one call that opens its journal. */
#define journal_open kill_journal_open
#include "engine/campaign.c" // NOLINT(bugprone-suspicious-include)
#undef journal_open

enum {
    SEEDS_DEFAULT = 1000, /* of SIM_SEEDS */
    POWER_STEPS = 3,      /* of a point; each is a sync of the server's */
    SWEEP_STEPS = 4,
    CALM_POLLS_MAX = 20000,
};

static unsigned share_of(unsigned count)
{
    uint64_t share = count * in_child_setting("SIM_SEEDS", SEEDS_DEFAULT) / SEEDS_DEFAULT;
    return share > 0 ? (unsigned)share : 1;
}

/* Sessions of a process that is gone end when they have done what they were told. */
static void calm(void *arg)
{
    static const char others[] = "SELECT count(*) FROM pg_stat_activity WHERE "
                                 "datname = current_database() AND pid <> pg_backend_pid()";
    const struct pg_fixture *fixture = arg;
    const struct timespec pause = {.tv_nsec = (long)NS_PER_MS};
    for (unsigned i = 0; pg_ask_number(fixture->admin, others) > 0; i++) {
        if (i == CALM_POLLS_MAX)
            fail_msg("sessions of a killed process do not end");
        (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL); /* a shorter pause will do */
    }
}

static void sweep(enum run_key_kind key, enum durability durability, unsigned steps, bool is_hasty)
{
    struct pg_fixture fixture;
    struct scratch scratch;
    char ledger[128];
    struct kill_totals totals = {0};
    assert_int_equal(scratch_make(&scratch, "kill-pg"), 0);
    (void)snprintf(ledger, sizeof(ledger), "%s/ledger", scratch.path);
    pg_fixture_open(&fixture);
    const struct kill_store store = {
        .uri = fixture.uri,
        .ledger_path = ledger,
        .durability = durability,
        .key = key,
        .connections = 2,
        .retry_for_ns = 20 * NS_PER_S,
        .calm = calm,
        .arg = &fixture,
    };
    for (uint32_t threads = 1; threads <= 2; threads++) {
        const struct kill_chain like = {
            .seed = 1000 * threads,
            .runs = 32,
            .concurrency = 8,
            .threads = threads,
            .tool_retry = threads == 1 ? AGENT_RETRY_HALT : AGENT_RETRY_UNKNOWN,
            .is_hasty = is_hasty,
        };
        kill_sweep(&store, &like, share_of(steps), &totals);
    }
    pg_fixture_close(&fixture);
    assert_int_equal(scratch_remove(&scratch), 0);
    kill_totals_print("postgres", &totals);
    bool are_all = share_of(SEEDS_DEFAULT) >= SEEDS_DEFAULT;
    assert_true(kill_totals_kills(&totals) >= totals.chains / 2 || !are_all);
}

static void survives_at_power(void **state)
{
    (void)state;
    sweep(RUN_KEY_SEQ, DURABILITY_POWER, POWER_STEPS, false);
}

static void survives_with_uuids(void **state)
{
    (void)state;
    sweep(RUN_KEY_UUIDV4, DURABILITY_PROCESS, SWEEP_STEPS, false);
}

static void survives_when_it_is_resumed_at_once(void **state)
{
    (void)state;
    sweep(RUN_KEY_SEQ, DURABILITY_PROCESS, SWEEP_STEPS, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(survives_at_power),
        cmocka_unit_test(survives_with_uuids),
        cmocka_unit_test(survives_when_it_is_resumed_at_once),
    };
    if (!pg_fixture_is_possible())
        return PG_SKIPPED;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
