/*
 * The SQLite journal under kill -9: at appends, commits, settled batches and callbacks; and before
 * every change that SQLite makes to its files, on the real file system.
 *
 * SIM_SEEDS=N takes N thousandths of the points (1000).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "tests/lib/in_child.h"
#include "tests/lib/kill_cases.h"
#include "tests/lib/scratch.h"

/* The engine's campaign, but for the one call that opens its journal. */
#define journal_open kill_journal_open
#include "engine/campaign.c" // NOLINT(bugprone-suspicious-include)
#undef journal_open

enum {
    SEEDS_DEFAULT = 1000, /* of SIM_SEEDS */
    SWEEP_STEPS = 5,      /* of a point, on each kind of store */
    EDGE_CALLS = 30,      /* all of the first and the last calls */
    MIDDLE_CALLS = 50,
    CHECKPOINT_CALLS = 24,
};

static unsigned share_of(unsigned count)
{
    uint64_t share = count * in_child_setting("SIM_SEEDS", SEEDS_DEFAULT) / SEEDS_DEFAULT;
    return share > 0 ? (unsigned)share : 1;
}

/* How far a process comes in how many batches is up to the machine: not every late point is
 * reached, but all early ones are. */
static void check_enough(const struct kill_totals *totals)
{
    bool are_all = share_of(SEEDS_DEFAULT) >= SEEDS_DEFAULT;
    assert_true(kill_totals_kills(totals) >= totals->chains / 2 || !are_all);
    assert_true(totals->unknown > 0 || !are_all);
}

/* --- a store in a folder of its own --- */

struct place {
    struct scratch scratch;
    char uri[128];
    char ledger[128];
};

static void place_open(struct place *place)
{
    assert_int_equal(scratch_make(&place->scratch, "kill"), 0);
    (void)snprintf(place->uri, sizeof(place->uri), "sqlite:%s/store.db", place->scratch.path);
    (void)snprintf(place->ledger, sizeof(place->ledger), "%s/ledger", place->scratch.path);
}

static void place_close(const struct place *place)
{
    assert_int_equal(scratch_remove(&place->scratch), 0);
}

static struct kill_store store_at(const struct place *place)
{
    return (struct kill_store){
        .uri = place->uri,
        .ledger_path = place->ledger,
        .durability = DURABILITY_PROCESS,
        .shards = 1,
    };
}

/* --- at appends and commits --- */

static void sweep(uint32_t shards, enum run_key_kind key, enum durability durability)
{
    struct place place;
    struct kill_totals totals = {0};
    for (uint32_t threads = 1; threads <= 2; threads++) {
        place_open(&place);
        struct kill_store store = store_at(&place);
        store.shards = shards;
        store.key = key;
        store.durability = durability;
        const struct kill_chain like = {
            .seed = 1000 * threads,
            .runs = 32,
            .concurrency = 8,
            .threads = threads,
            .tool_retry = threads == 1 ? AGENT_RETRY_HALT : AGENT_RETRY_UNKNOWN,
        };
        kill_sweep(&store, &like, share_of(SWEEP_STEPS), &totals);
        place_close(&place);
    }
    kill_totals_print("sqlite", &totals);
    check_enough(&totals);
}

static void survives_at_power(void **state)
{
    (void)state;
    sweep(1, RUN_KEY_SEQ, DURABILITY_POWER);
}

static void survives_with_uuids(void **state)
{
    (void)state;
    sweep(1, RUN_KEY_UUIDV4, DURABILITY_PROCESS);
}

static void survives_with_shards(void **state)
{
    (void)state;
    sweep(2, RUN_KEY_SEQ, DURABILITY_PROCESS);
}

static void survives_with_shards_and_uuids(void **state)
{
    (void)state;
    sweep(2, RUN_KEY_UUIDV4, DURABILITY_POWER);
}

/* --- before each change of a file --- */

/* The methods of the VFS below with three of them ours: it has one set for databases and another
 * for what has no locks. */
struct shim_methods {
    sqlite3_io_methods methods; /* first: a file points at it */
    const sqlite3_io_methods *below;
};

struct shim {
    sqlite3_vfs vfs; /* first: SQLite hands a pointer to it back */
    sqlite3_vfs *below;
    struct kill_log *log;
    struct shim_methods of_databases;
    struct shim_methods of_others;
};

/* SQLite's methods get no more than the file. It is set before SQLite is used, in the child. */
static struct shim shim;

static const sqlite3_io_methods *below_of(const sqlite3_file *file)
{
    return ((const struct shim_methods *)file->pMethods)->below;
}

static int shim_write(sqlite3_file *file, const void *bytes, int size, sqlite3_int64 offset)
{
    kill_log_step(shim.log, KILL_AT_CALL, 1);
    return below_of(file)->xWrite(file, bytes, size, offset);
}

static int shim_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    kill_log_step(shim.log, KILL_AT_CALL, 1);
    return below_of(file)->xTruncate(file, size);
}

static int shim_sync(sqlite3_file *file, int flags)
{
    kill_log_step(shim.log, KILL_AT_CALL, 1);
    return below_of(file)->xSync(file, flags);
}

static int shim_delete(sqlite3_vfs *vfs, const char *name, int sync_folder)
{
    (void)vfs;
    kill_log_step(shim.log, KILL_AT_CALL, 1);
    return shim.below->xDelete(shim.below, name, sync_folder);
}

/* The file is the one of the VFS below, whose methods are those that were copied at the start. */
static int shim_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *out)
{
    (void)vfs;
    kill_log_step(shim.log, KILL_AT_CALL, 1);
    int code = shim.below->xOpen(shim.below, name, file, flags, out);
    if (file->pMethods == shim.of_databases.below)
        file->pMethods = &shim.of_databases.methods;
    else if (file->pMethods == shim.of_others.below)
        file->pMethods = &shim.of_others.methods;
    return code;
}

static void shim_copy(struct shim_methods *to, int flags, const char *path)
{
    _Alignas(16) char memory[4096];
    sqlite3_file *file = (sqlite3_file *)memory;
    assert(shim.below->szOsFile <= (int)sizeof(memory));
    int code = shim.below->xOpen(shim.below, path, file, flags, NULL);
    assert(code == SQLITE_OK);
    (void)code;
    to->below = file->pMethods;
    to->methods = *file->pMethods;
    to->methods.xWrite = shim_write;
    to->methods.xTruncate = shim_truncate;
    to->methods.xSync = shim_sync;
    (void)to->below->xClose(file); /* nothing was written */
}

/* Of /dev/null: there is nothing that an opening could change. */
static void shim_install(void *arg, struct kill_log *log)
{
    (void)arg;
    shim = (struct shim){.below = sqlite3_vfs_find(NULL), .log = log};
    shim.vfs = *shim.below;
    shim.vfs.zName = "bench-kill";
    shim.vfs.xOpen = shim_open;
    shim.vfs.xDelete = shim_delete;
    shim_copy(&shim.of_databases, SQLITE_OPEN_MAIN_DB | SQLITE_OPEN_READWRITE, "/dev/null");
    shim_copy(&shim.of_others, SQLITE_OPEN_WAL | SQLITE_OPEN_READWRITE, "/dev/null");
    (void)sqlite3_vfs_register(&shim.vfs, 1); /* fails only where SQLite cannot be initialised */
}

static void kill_at_call(const struct kill_chain *like, const struct kill_store *of, uint64_t first,
                         uint64_t second, struct kill_totals *totals)
{
    struct place place;
    place_open(&place);
    struct kill_store store = *of;
    struct kill_chain chain = *like;
    store.uri = place.uri;
    store.ledger_path = place.ledger;
    store.prepare = shim_install;
    chain.seed += first;
    chain.kills = first == 0 ? 0 : second == 0 ? 1 : 2;
    chain.kill[0].point = KILL_AT_CALL;
    chain.kill[0].at = first;
    chain.kill[1].point = KILL_AT_CALL;
    chain.kill[1].at = second;
    kill_chain_play(&store, &chain, totals);
    place_close(&place);
}

/* How many calls a campaign makes that is left alone. */
static uint64_t count_calls(const struct kill_chain *like, const struct kill_store *of)
{
    struct kill_totals totals = {0};
    kill_at_call(like, of, 0, 0, &totals);
    return totals.calls;
}

/* Every other one is killed once more while it resumes. */
static void kill_at_calls(const struct kill_chain *like, const struct kill_store *of,
                          uint64_t first, uint64_t last, unsigned kills, struct kill_totals *totals)
{
    struct prng draws = prng_stream(first, last, PRNG_TEST, KILL_AT_CALL);
    for (unsigned i = 0; i < kills; i++) {
        uint64_t at = first + i * (last - first) / kills;
        kill_at_call(like, of, at, i % 2 == 0 ? 0 : 1 + prng_below(&draws, 60), totals);
    }
}

static void survives_at_every_change_of_a_file(void **state)
{
    (void)state;
    struct kill_totals totals = {0};
    struct kill_store store = {.durability = DURABILITY_POWER, .shards = 2};
    struct kill_chain like = {.seed = 5000, .runs = 8, .concurrency = 4, .threads = 1};
    uint64_t calls = count_calls(&like, &store);
    unsigned edge = share_of(EDGE_CALLS);
    assert_true(calls > 3 * EDGE_CALLS);
    kill_at_calls(&like, &store, 1, 1 + EDGE_CALLS, edge, &totals);
    kill_at_calls(&like, &store, calls - EDGE_CALLS, calls, edge, &totals);
    kill_at_calls(&like, &store, 1 + EDGE_CALLS, calls - EDGE_CALLS, share_of(MIDDLE_CALLS),
                  &totals);
    kill_totals_print("sqlite, changes of files", &totals);
    check_enough(&totals);
}

/* Large enough for the WAL to reach its bound before the end. */
static void survives_a_kill_in_a_checkpoint(void **state)
{
    (void)state;
    struct kill_totals totals = {0};
    struct kill_store store = {.durability = DURABILITY_PROCESS, .shards = 1};
    struct kill_chain like = {
        .seed = 6000, .runs = 60, .concurrency = 8, .threads = 1, .prompt_bytes = "100KB"};
    uint64_t calls = count_calls(&like, &store);
    kill_at_calls(&like, &store, calls / 4, calls, share_of(CHECKPOINT_CALLS), &totals);
    kill_totals_print("sqlite, checkpoints", &totals);
    check_enough(&totals);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(survives_at_power),
        cmocka_unit_test(survives_with_uuids),
        cmocka_unit_test(survives_with_shards),
        cmocka_unit_test(survives_with_shards_and_uuids),
        cmocka_unit_test(survives_at_every_change_of_a_file),
        cmocka_unit_test(survives_a_kill_in_a_checkpoint),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
