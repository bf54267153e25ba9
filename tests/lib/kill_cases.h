/*
 * kill_cases: campaigns whose process is killed, and killed again while it resumes, until one that
 * is let live finishes them; and what must hold after each kill and in the end, the same for every
 * store.
 *
 * After each kill: every record that the store had acked is there, byte for byte; what is there is
 * dense, chained, and was handed over; verify finds no fault; each line of the ledger has its
 * attempt, each result its line, and no attempt has two. In the end: every run that begun has one
 * end, a call without a known outcome is what an unknown run has and no other, nothing that was
 * recorded was done again, and what the last process counted is what happened.
 *
 * A program that includes this must have a campaign whose journal is opened by kill_journal_open(),
 * see test_kill_sqlite.c. Ownership: the caller's structs. Threading: the caller must be its
 * process's only thread. Errors: fail the test, with what was played. Units: in the names.
 */
#ifndef BENCH_TESTS_LIB_KILL_CASES_H
#define BENCH_TESTS_LIB_KILL_CASES_H

#include "engine/campaign.h"
#include "tests/lib/kill_journal.h"

enum { KILL_CHAIN_MAX = 3 };

struct kill_store {
    const char *uri;
    const char *ledger_path;
    enum durability durability;
    enum run_key_kind key;
    uint32_t shards;
    uint32_t connections;
    uint64_t retry_for_ns;
    /* In the child, before it opens the journal; may be NULL. */
    void (*prepare)(void *arg, struct kill_log *log);
    /* In the parent, after a kill: returns when nothing that the process has begun can change the
     * store any more; may be NULL. */
    void (*calm)(void *arg);
    void *arg;
};

/* A campaign, and where it and then its resumed ones are killed. */
struct kill_chain {
    uint64_t seed;
    uint32_t runs;
    uint32_t concurrency;
    uint32_t threads;
    enum agent_retry tool_retry;
    const char *prompt_bytes; /* NULL: short ones */
    bool is_hasty; /* each process comes at once after the one that was killed: nobody looks or
                      waits in between */
    unsigned kills;
    struct {
        enum kill_point point;
        uint64_t at;
    } kill[KILL_CHAIN_MAX];
};

struct kill_totals {
    uint64_t kills[KILL_POINT_COUNT];
    uint64_t chains;
    uint64_t processes;
    uint64_t resumed; /* runs */
    uint64_t unknown; /* runs that ended so */
    uint64_t records;
    uint64_t lines;    /* of ledgers */
    uint64_t nameless; /* kills before the process had known its campaign */
    uint64_t calls;    /* KILL_AT_CALL of the last process that began a campaign */
};

void kill_chain_play(const struct kill_store *store, const struct kill_chain *chain,
                     struct kill_totals *totals);

/* A sweep over all points with `steps` of each, in chains of up to three kills, on one store. */
void kill_sweep(const struct kill_store *store, const struct kill_chain *like, unsigned steps,
                struct kill_totals *totals);

/* The whole store, all campaigns: no faults. */
void kill_verify_all(const struct kill_store *store);

uint64_t kill_totals_kills(const struct kill_totals *totals);
void kill_totals_print(const char *name, const struct kill_totals *totals);

#endif
