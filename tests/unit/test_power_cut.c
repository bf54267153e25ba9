/*
 * SQLite in WAL mode on a disk that loses power, over many seeds: what each durability level of the
 * journal rests on. synchronous=FULL keeps every committed transaction, NORMAL keeps a prefix of
 * them, and a disk whose syncs do nothing loses with FULL, which shows that this test can fail.
 *
 * NORMAL may do worse once in tens of thousands of seeds: a loss, the same bytes written again by
 * what follows, a second cut, and transactions of before the first are back in place of those after
 * it. The database is sound then, too. Should a change elsewhere bring that about for one of the
 * seeds here, look whether it is that.
 *
 * Each seed makes random transactions and checkpoints until the power is cut before some call into
 * the VFS, opening and recovering included, and does so again on what is left. A failure names its
 * seed; the same seed does the same again.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/prng.h"
#include "tests/lib/fault_vfs.h"

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define __SANITIZE_THREAD__ 1
#endif
#endif
/* There is one thread here: ThreadSanitizer has nothing to find, and takes thirty times as long. */
#ifdef __SANITIZE_THREAD__
#define SEEDS 50
#else
#define SEEDS 500
#endif

enum {
    ROUNDS = 3,
    TRANSACTIONS_MAX = 25, /* a round */
    ROWS_MAX = 5,          /* a transaction */
    PAYLOAD_BYTES_MAX = 9000,
};

static const char path[] = "/disk/power.db";

struct plan {
    const char *synchronous;
    bool sync_lies;
};

/* What a plan's seeds came to. */
struct outcome {
    uint64_t rounds;
    uint64_t acked;          /* committed, and SQLite said so */
    uint64_t lost;           /* of these */
    uint64_t doubtful_kept;  /* commits that the cut interrupted and that are there */
    uint64_t rounds_damaged; /* with a fault other than a loss */
    char fault[128];         /* the first, with its seed */
};

struct world {
    struct fault_vfs *vfs;
    sqlite3 *db;
    uint64_t seed;
    uint64_t transaction; /* the last that was committed */
    uint64_t round;
    uint64_t round_of[ROUNDS * TRANSACTIONS_MAX + 2]; /* that wrote the transaction last */
};

static int install(void **state)
{
    *state = fault_vfs_install();
    return *state != NULL ? 0 : -1;
}

static int uninstall(void **state)
{
    fault_vfs_uninstall(*state);
    return 0;
}

static int run(sqlite3 *db, const char *sql)
{
    return sqlite3_exec(db, sql, NULL, NULL, NULL);
}

/* Opens the database as the journal does, and makes its tables. */
static int open_database(struct world *w, const char *synchronous, bool has_small_cache)
{
    char pragma[48];
    (void)snprintf(pragma, sizeof(pragma), "PRAGMA synchronous=%s", synchronous);
    int code = sqlite3_open_v2(path, &w->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL);
    if (code == SQLITE_OK)
        code = run(w->db, "PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=WAL;"
                          "PRAGMA wal_autocheckpoint=0");
    if (code == SQLITE_OK)
        code = run(w->db, pragma);
    if (code == SQLITE_OK && has_small_cache) /* pages then reach the WAL before their commit */
        code = run(w->db, "PRAGMA cache_size=4");
    if (code == SQLITE_OK)
        code = run(w->db, "BEGIN IMMEDIATE;"
                          "CREATE TABLE IF NOT EXISTS record"
                          "(id INTEGER PRIMARY KEY, tx INTEGER, payload BLOB);"
                          "CREATE TABLE IF NOT EXISTS newest(one INTEGER PRIMARY KEY, tx INTEGER);"
                          "COMMIT");
    return code;
}

/* --- what a transaction holds --- */

/* A function of the seed, the transaction, and the round that writes it. Without the last, a
 * transaction that follows a loss writes the same bytes to the same place in the WAL as the one
 * that was lost; behind it, what had survived of later ones then is valid again, and comes back. */
static struct prng stream_of(const struct world *w, uint64_t transaction)
{
    return prng_stream(w->seed, transaction, PRNG_TEST, 1 + w->round_of[transaction]);
}

static uint64_t row_count(struct prng *p)
{
    return 1 + prng_below(p, ROWS_MAX);
}

static int payload_make(struct prng *p, unsigned char *payload)
{
    int size = (int)prng_below(p, prng_below(p, 4) == 0 ? PAYLOAD_BYTES_MAX : 300);
    memset(payload, (int)prng_below(p, 256), (size_t)size);
    return size;
}

static int put_rows(const struct world *w, uint64_t transaction)
{
    unsigned char payload[PAYLOAD_BYTES_MAX];
    sqlite3_stmt *insert = NULL;
    int code = sqlite3_prepare_v2(w->db, "INSERT INTO record(tx, payload) VALUES(?, ?)", -1,
                                  &insert, NULL);
    struct prng p = stream_of(w, transaction);
    uint64_t rows = row_count(&p);
    for (uint64_t row = 0; code == SQLITE_OK && row < rows; row++) {
        int size = payload_make(&p, payload);
        (void)sqlite3_bind_int64(insert, 1, (sqlite3_int64)transaction);
        (void)sqlite3_bind_blob(insert, 2, payload, size, SQLITE_STATIC);
        (void)sqlite3_step(insert);
        code = sqlite3_reset(insert);
    }
    (void)sqlite3_finalize(insert);
    return code;
}

static int put_transaction(const struct world *w, uint64_t transaction)
{
    char newest[64];
    (void)snprintf(newest, sizeof(newest), "REPLACE INTO newest VALUES(1, %" PRIu64 ")",
                   transaction);
    int code = run(w->db, "BEGIN IMMEDIATE");
    if (code == SQLITE_OK)
        code = put_rows(w, transaction);
    if (code == SQLITE_OK)
        code = run(w->db, newest);
    return code == SQLITE_OK ? run(w->db, "COMMIT") : code;
}

/* --- what is there --- */

static int read_number(sqlite3 *db, const char *sql, uint64_t *number)
{
    sqlite3_stmt *query = NULL;
    int code = sqlite3_prepare_v2(db, sql, -1, &query, NULL);
    if (code == SQLITE_OK && sqlite3_step(query) == SQLITE_ROW)
        *number = (uint64_t)sqlite3_column_int64(query, 0);
    else
        code = SQLITE_ERROR;
    (void)sqlite3_finalize(query);
    return code;
}

static bool is_intact(sqlite3 *db)
{
    sqlite3_stmt *query = NULL;
    bool intact = sqlite3_prepare_v2(db, "PRAGMA integrity_check", -1, &query, NULL) == SQLITE_OK &&
                  sqlite3_step(query) == SQLITE_ROW &&
                  strcmp((const char *)sqlite3_column_text(query, 0), "ok") == 0;
    (void)sqlite3_finalize(query);
    return intact;
}

/* Whether the table holds the transactions up to `last`, each of them whole, and nothing else. */
static bool holds_all_up_to(const struct world *w, uint64_t last)
{
    unsigned char payload[PAYLOAD_BYTES_MAX];
    sqlite3_stmt *query = NULL;
    bool holds = sqlite3_prepare_v2(w->db, "SELECT tx, payload FROM record ORDER BY id", -1, &query,
                                    NULL) == SQLITE_OK;
    for (uint64_t transaction = 1; holds && transaction <= last; transaction++) {
        struct prng p = stream_of(w, transaction);
        uint64_t rows = row_count(&p);
        for (uint64_t row = 0; holds && row < rows; row++) {
            int size = payload_make(&p, payload);
            holds =
                sqlite3_step(query) == SQLITE_ROW &&
                sqlite3_column_int64(query, 0) == (sqlite3_int64)transaction &&
                sqlite3_column_bytes(query, 1) == size &&
                (size == 0 || memcmp(sqlite3_column_blob(query, 1), payload, (size_t)size) == 0);
        }
    }
    holds = holds && sqlite3_step(query) == SQLITE_DONE;
    (void)sqlite3_finalize(query);
    return holds;
}

/* NULL, or what is wrong with what the power cut left; `*last` is the newest transaction there. */
static const char *look(const struct world *w, uint64_t *last)
{
    if (!is_intact(w->db))
        return "the integrity check fails";
    if (read_number(w->db, "SELECT ifnull(max(tx), 0) FROM newest", last) != SQLITE_OK)
        return "it cannot be read";
    if (*last > w->transaction + 1)
        return "it holds transactions that never were";
    if (!holds_all_up_to(w, *last))
        return "it holds no prefix of the transactions";
    return NULL;
}

/* --- rounds --- */

static void work(struct world *w, const struct plan *plan, struct prng *p, struct outcome *outcome)
{
    static const char *const checkpoints[] = {"PRAGMA wal_checkpoint(PASSIVE)",
                                              "PRAGMA wal_checkpoint(RESTART)",
                                              "PRAGMA wal_checkpoint(TRUNCATE)"};
    uint64_t end = w->transaction + prng_below(p, TRANSACTIONS_MAX);
    if (open_database(w, plan->synchronous, prng_below(p, 4) == 0) != SQLITE_OK)
        return;
    while (w->transaction < end) {
        w->round_of[w->transaction + 1] = w->round;
        if (put_transaction(w, w->transaction + 1) != SQLITE_OK)
            return;
        w->transaction++;
        outcome->acked++;
        if (prng_below(p, 5) == 0 && run(w->db, checkpoints[prng_below(p, 3)]) != SQLITE_OK)
            return;
    }
}

static void set_rules(struct fault_vfs *vfs, const struct plan *plan, struct prng *p)
{
    static const uint64_t calls[] = {30, 300, 1000};
    fault_vfs_clear_rules(vfs);
    fault_vfs_set(vfs, &(struct fault_rule){.calls = FAULT_ANY_CHANGE | FAULT_OPEN,
                                            .at = 1 + prng_below(p, calls[prng_below(p, 3)]),
                                            .effect = FAULT_POWER_CUT,
                                            .seed = prng_next(p)});
    if (plan->sync_lies)
        fault_vfs_set(vfs,
                      &(struct fault_rule){
                          .calls = FAULT_SYNC, .at = 1, .is_sticky = true, .effect = FAULT_LIE});
}

static const char *play_round(struct world *w, const struct plan *plan, struct prng *p,
                              struct outcome *outcome)
{
    set_rules(w->vfs, plan, p);
    work(w, plan, p, outcome);
    fault_vfs_power_cut(w->vfs, prng_next(p)); /* if it was not cut by then */
    (void)sqlite3_close(w->db);
    fault_vfs_clear_rules(w->vfs);
    fault_vfs_power_on(w->vfs);

    uint64_t last = 0;
    const char *fault = open_database(w, plan->synchronous, false) == SQLITE_OK
                            ? look(w, &last)
                            : "it does not open";
    /* The next round starts from a closed database, or from one with a WAL to recover. */
    if (prng_below(p, 2) == 0)
        fault_vfs_kill(w->vfs);
    (void)sqlite3_close(w->db);
    fault_vfs_power_on(w->vfs);
    if (fault != NULL)
        return fault;
    outcome->lost += last < w->transaction ? w->transaction - last : 0;
    outcome->doubtful_kept += last > w->transaction;
    w->transaction = last;
    return NULL;
}

static void play_seed(struct fault_vfs *vfs, const struct plan *plan, uint64_t seed,
                      struct outcome *outcome)
{
    struct world w = {.vfs = vfs, .seed = seed};
    struct prng p = prng_stream(seed, 0, PRNG_TEST, 0);
    fault_vfs_reset(vfs, seed);
    for (; w.round < ROUNDS; w.round++) {
        const char *fault = play_round(&w, plan, &p, outcome);
        outcome->rounds++;
        if (fault == NULL)
            continue;
        if (outcome->rounds_damaged++ == 0)
            (void)snprintf(outcome->fault, sizeof(outcome->fault),
                           "seed %" PRIu64 ", round %" PRIu64 ": %s", seed, w.round, fault);
        return;
    }
}

static struct outcome play(struct fault_vfs *vfs, const struct plan *plan)
{
    struct outcome outcome = {0};
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        play_seed(vfs, plan, seed, &outcome);
    print_message("synchronous=%s%s: %" PRIu64 " rounds, %" PRIu64 " committed, %" PRIu64
                  " lost, %" PRIu64 " in doubt and kept, %" PRIu64 " damaged %s\n",
                  plan->synchronous, plan->sync_lies ? " on a disk that lies" : "", outcome.rounds,
                  outcome.acked, outcome.lost, outcome.doubtful_kept, outcome.rounds_damaged,
                  outcome.fault);
    return outcome;
}

static void full_keeps_every_committed_transaction(void **state)
{
    struct outcome outcome = play(*state, &(struct plan){.synchronous = "FULL"});
    assert_string_equal(outcome.fault, "");
    assert_int_equal(outcome.lost, 0);
    assert_true(outcome.acked > SEEDS);
    /* A commit that the cut interrupted may be there: the caller must look. */
    assert_true(outcome.doubtful_kept > 0);
}

static void normal_keeps_a_prefix(void **state)
{
    struct outcome outcome = play(*state, &(struct plan){.synchronous = "NORMAL"});
    assert_string_equal(outcome.fault, "");
    assert_true(outcome.lost > 0);
}

static void a_sync_that_does_nothing_is_found_out(void **state)
{
    struct outcome outcome = play(*state, &(struct plan){.synchronous = "FULL", .sync_lies = true});
    assert_true(outcome.lost > 0);
    assert_true(outcome.rounds_damaged > 0);
}

static void a_seed_does_the_same_again(void **state)
{
    const struct plan plan = {.synchronous = "NORMAL"};
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct outcome outcome = {0};
        play_seed(*state, &plan, seed, &outcome);
        uint64_t digest = fault_vfs_digest(*state);
        play_seed(*state, &plan, seed, &outcome);
        assert_int_equal(fault_vfs_digest(*state), digest);
        play_seed(*state, &plan, seed + 100, &outcome);
        assert_int_not_equal(fault_vfs_digest(*state), digest);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(full_keeps_every_committed_transaction),
        cmocka_unit_test(normal_keeps_a_prefix),
        cmocka_unit_test(a_sync_that_does_nothing_is_found_out),
        cmocka_unit_test(a_seed_does_the_same_again),
    };
    return cmocka_run_group_tests(tests, install, uninstall);
}
