/*
 * The SQLite journal on a disk that fails: each kind of fault at each call of a small campaign,
 * from opening to closing, once or from then on, on one and two shards, on a new store and on one
 * that was killed. Whatever fails: everything is answered, what was acked is there afterwards, what
 * was refused is not, the journal says what failed, and goes on once the disk works again.
 *
 * SIM_SEEDS below 1000 leaves calls out.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tests/lib/fault_vfs.h"
#include "tests/lib/in_child.h"
#include "tests/lib/journal_load.h"

enum {
    SEEDS_DEFAULT = 1000,
    SECONDS_MAX = 110,
    ACKS_BEFORE_KILL = 9,
    CALLS_MAX = 2000, /* a campaign has fewer */
};

/* Indexes of in_child_note.counts. */
enum { TRIALS, STRUCK, OPEN_FAILED, STOPPED, IN_DOUBT, UNHARMED };

struct fault {
    const char *name;
    unsigned files;
    unsigned calls;
    enum fault_effect effect;
    bool is_partial;
    bool loses_unsynced;
};

static const struct fault faults[] = {
    {"EIO on a write of the WAL", FAULT_WAL, FAULT_WRITE, FAULT_EIO, false, false},
    {"a short write of the WAL", FAULT_WAL, FAULT_WRITE, FAULT_EIO, true, false},
    {"no room for the WAL", FAULT_WAL, FAULT_WRITE, FAULT_FULL, true, false},
    {"a failed sync of the WAL", FAULT_WAL, FAULT_SYNC, FAULT_EIO, false, false},
    {"a sync of the WAL that loses", FAULT_WAL, FAULT_SYNC, FAULT_EIO, false, true},
    {"EIO on a write of the database", FAULT_MAIN, FAULT_WRITE, FAULT_EIO, true, false},
    {"no room for the database", FAULT_MAIN, FAULT_WRITE, FAULT_FULL, false, false},
    {"a failed sync of the database", FAULT_MAIN, FAULT_SYNC, FAULT_EIO, false, false},
    {"a sync of the database that loses", FAULT_MAIN, FAULT_SYNC, FAULT_EIO, false, true},
    {"EIO on a read", FAULT_ANY_FILE, FAULT_READ, FAULT_EIO, false, false},
    {"a failed truncation", FAULT_ANY_FILE, FAULT_TRUNCATE, FAULT_EIO, false, false},
    {"a file that does not open", FAULT_ANY_FILE, FAULT_OPEN, FAULT_EIO, false, false},
    {"a file that is not deleted", FAULT_ANY_FILE, FAULT_DELETE, FAULT_EIO, false, false},
    {"a rollback journal that fails", FAULT_JOURNAL, FAULT_ANY_CALL, FAULT_EIO, true, false},
};
enum { FAULTS = sizeof(faults) / sizeof(faults[0]) };

struct trial {
    struct fault_vfs *vfs;
    struct in_child_note *note;
    const struct fault *fault;
    struct journal_load load;
    uint64_t kill_at_ack; /* 0: not */
    uint64_t at;          /* the fault strikes the at'th call */
    unsigned shards;
    bool is_sticky;
    bool is_new; /* the store */
    bool
        is_large; /* the load, which is checkpointed while it runs; the fault comes after opening */
};

struct job {
    struct fault_vfs *vfs;
    unsigned shards;
    bool is_new;
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

static void on_ack(void *arg, uint64_t count)
{
    struct trial *t = arg;
    if (count == t->kill_at_ack)
        fault_vfs_kill(t->vfs);
}

/* --- the store before the fault --- */

/* A store whose process was killed in the middle of a campaign: its WAL is to be recovered. */
static void prepare(struct trial *t)
{
    struct journal_load_audit audit;
    struct errmsg why;
    t->kill_at_ack = ACKS_BEFORE_KILL;
    if (journal_load_open(&t->load, JOURNAL_NEW, &why) == 0)
        journal_load_drive(&t->load, LOAD_FROM_START);
    fault_vfs_kill(t->vfs);
    journal_load_close(&t->load);
    fault_vfs_power_on(t->vfs);
    t->kill_at_ack = 0;
    journal_load_audit(&t->load, JOURNAL_AUDIT, &audit);
    if (!journal_load_is_sound(&audit) || audit.acked_lost > 0 || audit.records < ACKS_BEFORE_KILL)
        in_child_fault(t->note, "what the kill left: %s", audit.why.text);
}

static void set_fault(struct trial *t)
{
    fault_vfs_set(t->vfs, &(struct fault_rule){.files = t->fault->files,
                                               .calls = t->fault->calls,
                                               .at = t->at,
                                               .seed = t->at,
                                               .is_sticky = t->is_sticky,
                                               .is_partial = t->fault->is_partial,
                                               .loses_unsynced = t->fault->loses_unsynced,
                                               .effect = t->fault->effect});
}

static void begin(struct trial *t)
{
    struct journal_load_config config = {
        .uri = "sqlite:/disk/fault.db",
        .durability = DURABILITY_POWER,
        .key = RUN_KEY_SEQ,
        .writers = 1,
        .shards = t->shards,
        .drives = 2,
        .seed = 1,
        .runs = 7,
        .records_min = 3,
        .records_max = 5,
        .payload_bytes_max = 9000,
        .acked = on_ack,
        .arg = t,
    };
    if (t->is_large) {
        config.runs = 64;
        config.records_min = config.records_max = 14;
        config.payload_bytes_min = 19 << 10;
        config.payload_bytes_max = 20 << 10;
    }
    fault_vfs_reset(t->vfs, 1);
    journal_load_init(&t->load, &config);
    in_child_case(t->note, "%s, call %" PRIu64 "%s, %u shards, a %s store", t->fault->name, t->at,
                  t->is_sticky ? " and all later ones" : "", t->shards,
                  t->is_new ? "new" : "killed");
    if (!t->is_new)
        prepare(t);
    if (!t->is_large)
        set_fault(t);
}

/* --- while it is open --- */

static void expect_counts(struct trial *t)
{
    const struct journal_load_counts *counts = &t->load.counts;
    if (!journal_load_counts_agree(&t->load))
        in_child_fault(t->note,
                       "of %" PRIu64 " appends it acked %" PRIu64 ", refused %" PRIu64
                       ", did not know %" PRIu64 ", did not answer %" PRIu64
                       ", and counted %" PRIu64 ", %" PRIu64 ", %" PRIu64,
                       counts->appends, counts->acked, counts->refused, counts->unknown,
                       counts->unanswered, t->load.totals.records, t->load.totals.refused,
                       t->load.totals.unknown);
}

/* All that changes files. */
static uint64_t changes_count(struct fault_vfs *vfs)
{
    return fault_vfs_count(vfs, FAULT_ANY_FILE, FAULT_ANY_CHANGE);
}

/* The journal has failed: it says so, keeps what it has acked, takes nothing more, and leaves the
 * failed file alone. */
static void expect_stopped(struct trial *t, const struct errmsg *why)
{
    struct journal_load_audit audit;
    uint64_t before = changes_count(t->vfs);
    t->note->counts[STOPPED]++;
    if (strstr(why->text, "/disk/fault.db") == NULL)
        in_child_fault(t->note, "it does not say which file has failed: %s", why->text);
    if (t->fault->calls != FAULT_READ) {
        journal_load_look(&t->load, &audit);
        if (!journal_load_is_sound(&audit) || audit.acked_lost > 0)
            in_child_fault(t->note, "once it had failed (%s): %s", why->text, audit.why.text);
    }
    journal_load_drive(&t->load, LOAD_FROM_FOUND);
    expect_counts(t);
    if (t->load.counts.acked > 0)
        in_child_fault(t->note, "it acked %" PRIu64 " records after it had failed",
                       t->load.counts.acked);
    if (t->shards > 1) /* the others are checkpointed on closing */
        return;
    journal_load_close(&t->load);
    if (changes_count(t->vfs) != before)
        in_child_fault(t->note, "%" PRIu64 " writes, syncs or the like after it had failed",
                       changes_count(t->vfs) - before);
}

static int stop_at_once(void *arg, const struct journal_campaign *campaign)
{
    (void)arg;
    (void)campaign;
    return 1;
}

static void work(struct trial *t)
{
    struct errmsg why;
    int error = journal_load_open(&t->load, t->is_new ? JOURNAL_NEW : JOURNAL_RESUME, &why);
    bool has_struck = fault_vfs_fault_count(t->vfs) > 0;
    if (error != 0) {
        t->note->counts[OPEN_FAILED]++;
        if (!has_struck || error > 0 || strstr(why.text, "/disk/fault.db") == NULL)
            in_child_fault(t->note, "it does not open, with %d: %s", error, why.text);
        return;
    }
    if (t->is_large)
        set_fault(t);
    journal_load_drive(&t->load, LOAD_FROM_FOUND);
    expect_counts(t);
    t->note->counts[IN_DOUBT] += t->load.counts.unknown;
    /* Whoever reads waits for the checkpoint that may follow the last ack. */
    (void)journal_list(t->load.journal, stop_at_once, NULL, &why);
    bool has_all = t->load.counts.acked == t->load.counts.appends;
    if (journal_has_failed(t->load.journal, &why))
        expect_stopped(t, &why);
    else if (!has_all)
        in_child_fault(t->note, "it refused %" PRIu64 " records and has not failed (%s)",
                       t->load.counts.refused + t->load.counts.unknown,
                       journal_strerror(t->load.results_first));
    else if (fault_vfs_fault_count(t->vfs) > 0)
        t->note->counts[UNHARMED]++;
    journal_load_close(&t->load);
}

/* --- and afterwards --- */

/* Each second time the power is cut before the next process comes. */
static void go_on(struct trial *t)
{
    struct journal_load_audit audit;
    struct errmsg why;
    fault_vfs_clear_rules(t->vfs);
    if (t->at % 2 == 0) {
        fault_vfs_power_cut(t->vfs, t->at);
        fault_vfs_power_on(t->vfs);
    }
    if (t->load.campaign != 0) {
        journal_load_audit(&t->load, JOURNAL_AUDIT, &audit);
        if (!journal_load_is_sound(&audit) || audit.acked_lost > 0)
            in_child_fault(t->note, "audited afterwards: %s", audit.why.text);
    }
    if (journal_load_open(&t->load, t->load.campaign == 0 ? JOURNAL_NEW : JOURNAL_RESUME, &why) !=
        0) {
        in_child_fault(t->note, "it does not open afterwards: %s", why.text);
        return;
    }
    journal_load_look(&t->load, &audit);
    if (!journal_load_is_sound(&audit) || audit.acked_lost > 0)
        in_child_fault(t->note, "afterwards: %s", audit.why.text);
    journal_load_drive(&t->load, t->at % 3 == 0 ? LOAD_FROM_START : LOAD_FROM_FOUND);
    if (!journal_load_counts_agree(&t->load) || t->load.counts.acked != t->load.counts.appends)
        in_child_fault(t->note, "afterwards it does not take everything: %s",
                       journal_strerror(t->load.results_first));
    journal_load_look(&t->load, &audit);
    if (!journal_load_is_sound(&audit) || !journal_load_is_complete(&t->load))
        in_child_fault(t->note, "at the end something is missing or wrong: %s", audit.why.text);
    journal_load_close(&t->load);
}

/* Whether there was a call to strike. */
static bool try_call(const struct job *job, struct in_child_note *note, const struct fault *fault,
                     uint64_t at, bool is_sticky)
{
    struct trial t = {.vfs = job->vfs,
                      .note = note,
                      .fault = fault,
                      .at = at,
                      .shards = job->shards,
                      .is_sticky = is_sticky,
                      .is_new = job->is_new};
    begin(&t);
    work(&t);
    bool has_struck = fault_vfs_fault_count(t.vfs) > 0;
    note->counts[TRIALS]++;
    note->counts[STRUCK] += has_struck;
    go_on(&t);
    journal_load_free(&t.load);
    return has_struck;
}

static uint64_t step_of_calls(void)
{
    uint64_t seeds = in_child_setting("SIM_SEEDS", SEEDS_DEFAULT);
    return seeds >= SEEDS_DEFAULT ? 1 : seeds >= SEEDS_DEFAULT / 2 ? 3 : 11;
}

static void sweep(void *arg, struct in_child_note *note)
{
    const struct job *job = arg;
    uint64_t step = step_of_calls();
    for (unsigned i = 0; i < FAULTS; i++) {
        for (unsigned sticky = 0; sticky < 2; sticky++) {
            uint64_t at = 1;
            while (at < CALLS_MAX && try_call(job, note, &faults[i], at, sticky == 1))
                at += step;
            if (at == CALLS_MAX)
                in_child_fault(note, "there is no end of calls");
        }
    }
}

static void run_sweep(struct fault_vfs *vfs, unsigned shards, bool is_new)
{
    struct job job = {vfs, shards, is_new};
    struct in_child_note *note = in_child_run(sweep, &job, SECONDS_MAX);
    assert_non_null(note);
    const uint64_t *counts = note->counts;
    print_message("%u shards, a %s store: %" PRIu64 " trials, %" PRIu64 " did not open, %" PRIu64
                  " stopped the journal, %" PRIu64 " harmed nothing, %" PRIu64
                  " records were in doubt\n",
                  shards, is_new ? "new" : "killed", counts[TRIALS], counts[OPEN_FAILED],
                  counts[STOPPED], counts[UNHARMED], counts[IN_DOUBT]);
    bool is_plausible = counts[STRUCK] > FAULTS && counts[OPEN_FAILED] > 0 && counts[STOPPED] > 0 &&
                        (counts[IN_DOUBT] > 0 || step_of_calls() > 1);
    in_child_end(note);
    assert_true(is_plausible);
}

static void a_new_store_of_one_shard(void **state)
{
    run_sweep(*state, 1, true);
}

static void a_new_store_of_two_shards(void **state)
{
    run_sweep(*state, 2, true);
}

static void a_killed_store_of_one_shard(void **state)
{
    run_sweep(*state, 1, false);
}

static void a_killed_store_of_two_shards(void **state)
{
    run_sweep(*state, 2, false);
}

/* --- the checkpoint that bounds the WAL --- */

static const struct fault checkpoint_faults[] = {
    {"EIO on a write of the database", FAULT_MAIN, FAULT_WRITE, FAULT_EIO, true, false},
    {"no room for the database", FAULT_MAIN, FAULT_WRITE, FAULT_FULL, true, false},
    {"a failed sync of the database", FAULT_MAIN, FAULT_SYNC, FAULT_EIO, false, false},
    {"a sync of the database that loses", FAULT_MAIN, FAULT_SYNC, FAULT_EIO, false, true},
    {"EIO on a read of the WAL", FAULT_WAL, FAULT_READ, FAULT_EIO, false, false},
};

/* The first call of a kind after opening is a checkpoint's, and so are some hundreds more. */
static void fail_checkpoints(void *arg, struct in_child_note *note)
{
    struct fault_vfs *vfs = arg;
    for (unsigned i = 0; i < sizeof(checkpoint_faults) / sizeof(checkpoint_faults[0]); i++) {
        bool is_sync = checkpoint_faults[i].calls == FAULT_SYNC;
        for (unsigned j = 0; j < 2; j++) {
            struct trial t = {.vfs = vfs,
                              .note = note,
                              .fault = &checkpoint_faults[i],
                              .at = is_sync || j == 0 ? 1 : 300,
                              .shards = 1,
                              .is_sticky = j == 1,
                              .is_new = true,
                              .is_large = true};
            uint64_t stopped = note->counts[STOPPED];
            begin(&t);
            work(&t);
            if (note->counts[STOPPED] != stopped + 1)
                in_child_fault(note, "the journal was not stopped by its checkpoint");
            go_on(&t);
            journal_load_free(&t.load);
        }
    }
}

static void a_checkpoint_that_fails(void **state)
{
    struct in_child_note *note = in_child_run(fail_checkpoints, *state, SECONDS_MAX);
    assert_non_null(note);
    in_child_end(note);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_store_of_one_shard),
        cmocka_unit_test(a_new_store_of_two_shards),
        cmocka_unit_test(a_killed_store_of_one_shard),
        cmocka_unit_test(a_killed_store_of_two_shards),
        cmocka_unit_test(a_checkpoint_that_fails),
    };
    return cmocka_run_group_tests(tests, install, uninstall);
}
