/*
 * The SQLite journal on a disk that loses power, or whose process is killed, over many seeds: what
 * its durability levels promise, and that they differ.
 *
 * Each seed draws a store and a load, and cuts before some call into the VFS or behind some ack,
 * opening, recovery, checkpoints and closing included; then what is left is held against what the
 * journal had said, the campaign is resumed, and cut again. At the end it is completed without a
 * cut. With `process` a history of before a cut may be back when the same bytes are written again
 * after it (test_power_cut.c), so what was lost once may be there or not from then on.
 *
 * SIM_SEEDS=N: N / 2 seeds a level (500); SIM_SEED=N is that one alone. With one writer and one
 * shard a seed does the same again; with more, threads race.
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

#include "engine/base/prng.h"
#include "tests/lib/fault_vfs.h"
#include "tests/lib/in_child.h"
#include "tests/lib/journal_load.h"

enum {
    SEEDS_DEFAULT = 1000, /* of SIM_SEEDS */
    ROUNDS = 2,
    CHECKPOINTED_ONE_IN = 64, /* seeds that fill a WAL to its bound */
    SECONDS_MAX = 100,
    STREAM_PLAY = 50, /* of draws */
};

/* Indexes of in_child_note.counts. */
enum { ROUND, ACKED, LOST, UNKNOWN_KEPT, DAMAGED, REFUSED, DOUBTED, RECORDS };

struct plan {
    const char *name;
    enum durability durability;
    bool is_cut;    /* the power; or else, */
    bool is_killed; /* or as well: the process */
    bool sync_lies;
    bool sync_fails;     /* once in the first round, and what it was to write is never written */
    bool opens_in_peace; /* cuts come once the store is open */
    bool may_lose;
    bool may_be_damaged;
    uint64_t one_in; /* of the seeds */
};

struct world {
    const struct plan *plan;
    struct fault_vfs *vfs;
    struct in_child_note *note;
    struct journal_load load;
    struct prng draws;
    uint64_t cut_at_ack; /* 0: not there */
    uint64_t cut_seed;
    unsigned round;
    bool is_kill; /* this round's end */
};

struct job {
    struct fault_vfs *vfs;
    const struct plan *plan;
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

static uint64_t below(struct world *w, uint64_t bound)
{
    return prng_below(&w->draws, bound);
}

/* --- what a seed draws --- */

static void end_round(struct world *w)
{
    if (w->is_kill)
        fault_vfs_kill(w->vfs);
    else
        fault_vfs_power_cut(w->vfs, w->cut_seed);
}

static void on_ack(void *arg, uint64_t count)
{
    struct world *w = arg;
    if (count == w->cut_at_ack)
        end_round(w);
}

/* Among few seeds there is one, too. */
static bool is_large_seed(uint64_t seed)
{
    return seed % CHECKPOINTED_ONE_IN == 3;
}

static void draw_load(struct world *w, uint64_t seed)
{
    static const unsigned payload_bytes_max[] = {0, 300, 300, 20 << 10};
    struct journal_load_config config = {
        .uri = "sqlite:/disk/power.db",
        .durability = w->plan->durability,
        .key = (enum run_key_kind)below(w, RUN_KEY_COUNT),
        .writers = 1 + (unsigned)below(w, 2),
        .shards = 1 + (unsigned)below(w, 2),
        .seed = seed,
        .runs = 1 + (unsigned)below(w, 40),
        .concurrency = (unsigned)below(w, 3) * 7,
        .records_min = 2,
        .records_max = 2 + (unsigned)below(w, 7),
        .payload_bytes_max = payload_bytes_max[below(w, 4)],
        .flush_every = (unsigned)below(w, 2) * 5,
        .acked = on_ack,
        .arg = w,
    };
    if (is_large_seed(seed)) {
        config.shards = 1;
        config.runs = 60;
        config.concurrency = 0;
        config.records_min = 12;
        config.records_max = 16;
        config.payload_bytes_min = 19 << 10;
        config.payload_bytes_max = 20 << 10;
    }
    journal_load_init(&w->load, &config);
}

/* Where this round is cut. */
static void arm(struct world *w, uint64_t seed)
{
    static const uint64_t calls[] = {30, 150, 600};
    uint64_t at = 1 + below(w, is_large_seed(seed) ? 8000 : calls[below(w, 3)]);
    bool is_at_ack = below(w, 4) == 0 || w->plan->opens_in_peace;
    w->is_kill = w->plan->is_killed && (!w->plan->is_cut || below(w, 3) == 0);
    w->cut_seed = prng_next(&w->draws);
    w->cut_at_ack = is_at_ack ? atomic_load(&w->load.acked_count) + 1 + below(w, 60) : 0;
    fault_vfs_clear_rules(w->vfs);
    /* A process that is killed changes nothing from some call on, which may be done in part. */
    struct fault_rule rule = {
        .calls = FAULT_ANY_CHANGE | FAULT_OPEN,
        .at = at,
        .seed = w->cut_seed,
        .effect = w->is_kill ? FAULT_EIO : FAULT_POWER_CUT,
        .is_sticky = w->is_kill,
        .is_partial = w->is_kill && below(w, 2) == 0,
    };
    if (!is_at_ack)
        fault_vfs_set(w->vfs, &rule);
    if (w->plan->sync_lies)
        fault_vfs_set(w->vfs,
                      &(struct fault_rule){
                          .calls = FAULT_SYNC, .at = 1, .is_sticky = true, .effect = FAULT_LIE});
    if (w->plan->sync_fails && w->round == 0) {
        fault_vfs_clear_rules(w->vfs);
        fault_vfs_set(w->vfs, &(struct fault_rule){.files = FAULT_WAL,
                                                   .calls = FAULT_SYNC,
                                                   .at = 1 + below(w, 20),
                                                   .effect = FAULT_EIO,
                                                   .loses_unsynced = true});
        w->is_kill = true;
    }
}

/* --- a round --- */

static void play(struct world *w)
{
    struct errmsg why;
    bool is_new = w->load.campaign == 0;
    bool is_again = below(w, 3) == 0;
    if (journal_load_open(&w->load, is_new ? JOURNAL_NEW : JOURNAL_RESUME, &why) != 0) {
        if (why.text[0] == '\0')
            in_child_fault(w->note, "it did not open and did not say why");
        return;
    }
    journal_load_drive(&w->load, is_again ? LOAD_FROM_START : LOAD_FROM_FOUND);
    if (!journal_load_counts_agree(&w->load))
        in_child_fault(w->note,
                       "of %" PRIu64 " appends it acked %" PRIu64 ", refused %" PRIu64
                       ", did not know %" PRIu64 ", and did not answer %" PRIu64,
                       w->load.counts.appends, w->load.counts.acked, w->load.counts.refused,
                       w->load.counts.unknown, w->load.counts.unanswered);
    w->note->counts[ACKED] += w->load.counts.acked;
    w->note->counts[DOUBTED] += w->load.counts.unknown;
    journal_load_close(&w->load);
}

/* Whether what is left may be gone on with. */
static bool check_survivors(struct world *w)
{
    const struct plan *plan = w->plan;
    uint64_t *counts = w->note->counts;
    struct journal_load_audit audit;
    if (w->load.campaign == 0)
        return true;
    journal_load_audit(&w->load, below(w, 2) == 0 ? JOURNAL_AUDIT : JOURNAL_RESUME, &audit);
    counts[LOST] += audit.acked_lost;
    counts[UNKNOWN_KEPT] += audit.unknown_there;
    counts[DAMAGED] += !journal_load_is_sound(&audit) && audit.error == 0;
    counts[REFUSED] += audit.error != 0;
    if (audit.undetected > 0)
        in_child_fault(w->note, "round %u: a false record looks right: %s", w->round,
                       audit.why.text);
    if (audit.error != 0 && audit.why.text[0] == '\0')
        in_child_fault(w->note, "round %u: it was refused without a reason", w->round);
    bool is_sound = journal_load_is_sound(&audit);
    if (!is_sound && !plan->may_be_damaged)
        in_child_fault(w->note, "round %u (%s): %s", w->round, w->is_kill ? "kill" : "cut",
                       audit.why.text);
    if (audit.acked_lost > 0 && !plan->may_lose)
        in_child_fault(w->note, "round %u (%s): %" PRIu64 " acked records are lost: %s", w->round,
                       w->is_kill ? "kill" : "cut", audit.acked_lost, audit.why.text);
    if (audit.acked_lost > 0)
        (void)journal_load_forgive(&w->load);
    return is_sound;
}

/* Without a cut everything that is missing can be appended, and then is there. NULL, or what is
 * wrong. */
static const char *complete(struct world *w, struct journal_load_audit *audit)
{
    bool is_new = w->load.campaign == 0;
    w->cut_at_ack = 0;
    if (journal_load_open(&w->load, is_new ? JOURNAL_NEW : JOURNAL_RESUME, &audit->why) != 0)
        return "it does not open";
    journal_load_drive(&w->load, LOAD_FROM_FOUND);
    bool has_taken_all =
        journal_load_counts_agree(&w->load) && w->load.counts.acked == w->load.counts.appends;
    journal_load_look(&w->load, audit);
    if (!has_taken_all && !journal_has_failed(w->load.journal, &audit->why))
        (void)errmsg_set(&audit->why, 0, "%s", journal_strerror(w->load.results_first));
    journal_load_close(&w->load);
    if (!has_taken_all)
        return "it did not take everything";
    if (!journal_load_is_sound(audit) || !journal_load_is_complete(&w->load))
        return "something is missing or wrong";
    w->note->counts[RECORDS] += audit->records;
    journal_load_audit(&w->load, JOURNAL_AUDIT, audit);
    if (!journal_load_is_sound(audit) || !journal_load_is_complete(&w->load))
        return "something is missing or wrong once it was closed";
    return NULL;
}

static void end_seed(struct world *w)
{
    struct journal_load_audit audit = {0};
    const char *wrong = complete(w, &audit);
    if (wrong == NULL)
        return;
    if (!w->plan->may_be_damaged)
        in_child_fault(w->note, "at the end %s: %s", wrong, audit.why.text);
    else if (audit.undetected > 0 || audit.why.text[0] == '\0')
        in_child_fault(w->note, "at the end damage was not noticed (%s)", wrong);
    else
        w->note->counts[DAMAGED]++;
}

static void play_seed(const struct job *job, struct in_child_note *note, uint64_t seed)
{
    struct world w = {.plan = job->plan, .vfs = job->vfs, .note = note};
    bool is_good = true;
    w.draws = prng_stream(seed, 0, PRNG_TEST, STREAM_PLAY);
    fault_vfs_reset(w.vfs, seed);
    draw_load(&w, seed);
    in_child_case(note, "%s, seed %" PRIu64 " (%u shards, %u writers, keys %s)", job->plan->name,
                  seed, w.load.config.shards, w.load.config.writers,
                  run_key_name(w.load.config.key));
    for (; w.round < ROUNDS && is_good; w.round++) {
        arm(&w, seed);
        play(&w);
        end_round(&w);
        fault_vfs_clear_rules(w.vfs);
        fault_vfs_power_on(w.vfs);
        note->counts[ROUND]++;
        is_good = check_survivors(&w);
    }
    if (is_good)
        end_seed(&w);
    journal_load_free(&w.load);
}

static void play_seeds(void *arg, struct in_child_note *note)
{
    const struct job *job = arg;
    uint64_t only = in_child_setting("SIM_SEED", 0);
    uint64_t last = in_child_setting("SIM_SEEDS", SEEDS_DEFAULT) / 2 / job->plan->one_in;
    for (uint64_t seed = only > 0 ? only : 1; seed <= (only > 0 ? only : last); seed++)
        play_seed(job, note, seed);
}

static struct in_child_note run_plan(struct fault_vfs *vfs, const struct plan *plan)
{
    struct job job = {vfs, plan};
    struct in_child_note *note = in_child_run(play_seeds, &job, SECONDS_MAX);
    assert_non_null(note);
    struct in_child_note copy = *note;
    in_child_end(note);
    print_message("%s: %" PRIu64 " rounds, %" PRIu64 " acked, %" PRIu64 " lost, %" PRIu64
                  " in doubt, %" PRIu64 " of such kept, %" PRIu64 " damaged, %" PRIu64
                  " refused, %" PRIu64 " records in the end\n",
                  plan->name, copy.counts[ROUND], copy.counts[ACKED], copy.counts[LOST],
                  copy.counts[DOUBTED], copy.counts[UNKNOWN_KEPT], copy.counts[DAMAGED],
                  copy.counts[REFUSED], copy.counts[RECORDS]);
    return copy;
}

static bool are_many(void)
{
    return in_child_setting("SIM_SEED", 0) == 0 &&
           in_child_setting("SIM_SEEDS", SEEDS_DEFAULT) >= SEEDS_DEFAULT / 2;
}

/* --- the levels --- */

static void power_loses_nothing(void **state)
{
    struct in_child_note note = run_plan(*state, &(struct plan){.name = "power",
                                                                .durability = DURABILITY_POWER,
                                                                .is_cut = true,
                                                                .is_killed = true,
                                                                .one_in = 1});
    assert_int_equal(note.counts[LOST], 0);
    if (!are_many())
        return;
    assert_true(note.counts[ACKED] > 1000);
    assert_true(note.counts[DOUBTED] > 0);
    assert_true(note.counts[UNKNOWN_KEPT] > 0);
}

static void process_loses_to_a_power_cut(void **state)
{
    struct in_child_note note = run_plan(*state, &(struct plan){.name = "process, power cut",
                                                                .durability = DURABILITY_PROCESS,
                                                                .is_cut = true,
                                                                .may_lose = true,
                                                                .one_in = 1});
    assert_true(note.counts[LOST] > 0 || !are_many());
}

static void process_loses_nothing_to_a_kill(void **state)
{
    struct in_child_note note = run_plan(*state, &(struct plan){.name = "process, kill",
                                                                .durability = DURABILITY_PROCESS,
                                                                .is_killed = true,
                                                                .one_in = 2});
    assert_int_equal(note.counts[LOST], 0);
}

/* Nothing is promised; what is not as it should be is refused, or seen to be wrong. */
static void none_loses_visibly(void **state)
{
    struct in_child_note note = run_plan(*state, &(struct plan){.name = "none",
                                                                .durability = DURABILITY_NONE,
                                                                .is_cut = true,
                                                                .is_killed = true,
                                                                .may_lose = true,
                                                                .may_be_damaged = true,
                                                                .one_in = 1});
    assert_true(note.counts[LOST] > 0 || !are_many());
}

/* What a campaign at `none` has left in the database was never synced, and its WAL is gone with its
 * end: a campaign at `power` builds on those pages. */
static void power_after_none_loses_nothing(void **state)
{
    enum { CUTS = 40 };
    struct fault_vfs *vfs = *state;
    struct journal_load_config config = {
        .uri = "sqlite:/disk/both.db",
        .durability = DURABILITY_NONE,
        .writers = 1,
        .shards = 2,
        .runs = 40,
        .records_min = 4,
        .records_max = 8,
        .payload_bytes_max = 20 << 10,
    };
    for (uint64_t seed = 0; seed < CUTS; seed++) {
        struct errmsg why;
        struct journal_load before;
        struct journal_load load;
        struct journal_load_audit audit;
        fault_vfs_reset(vfs, seed);
        config.seed = seed;
        config.durability = DURABILITY_NONE;
        journal_load_init(&before, &config);
        assert_int_equal(journal_load_open(&before, JOURNAL_NEW, &why), 0);
        journal_load_drive(&before, LOAD_FROM_START);
        journal_load_close(&before);
        config.durability = DURABILITY_POWER;
        journal_load_init(&load, &config);
        assert_int_equal(journal_load_open(&load, JOURNAL_NEW, &why), 0);
        journal_load_drive(&load, LOAD_FROM_START);
        fault_vfs_power_cut(vfs, seed);
        journal_load_close(&load);
        fault_vfs_power_on(vfs);
        journal_load_audit(&load, JOURNAL_RESUME, &audit);
        if (!journal_load_is_sound(&audit) || audit.acked_lost > 0)
            fail_msg("seed %" PRIu64 ": %" PRIu64 " acked records are lost: %s", seed,
                     audit.acked_lost, audit.why.text);
        journal_load_free(&before);
        journal_load_free(&load);
    }
}

/* --- the disk --- */

static void a_disk_that_lies_is_found_out(void **state)
{
    struct in_child_note note = run_plan(*state, &(struct plan){.name = "power, lying syncs",
                                                                .durability = DURABILITY_POWER,
                                                                .is_cut = true,
                                                                .sync_lies = true,
                                                                .may_lose = true,
                                                                .may_be_damaged = true,
                                                                .one_in = 4});
    /* Acked records are lost one by one, or with the store that cannot be opened any more. */
    assert_true(note.counts[LOST] + note.counts[DAMAGED] + note.counts[REFUSED] > 0 || !are_many());
}

/* What a failed sync was to write is seen by the next process, though it will never be on the disk
 * of its own accord: what that process finds and acks again must be there. */
static void a_failed_sync_is_made_good_by_opening(void **state)
{
    struct in_child_note note =
        run_plan(*state, &(struct plan){.name = "power, a failed sync, a kill, cut once it is open",
                                        .durability = DURABILITY_POWER,
                                        .is_cut = true,
                                        .is_killed = true,
                                        .sync_fails = true,
                                        .opens_in_peace = true,
                                        .one_in = 2});
    assert_int_equal(note.counts[LOST], 0);
}

/* What is left: a sync has failed, the process has ended, and the power is cut while the next one
 * copies into the database what the disk has of the WAL in part only. Nobody can promise then that
 * the rest is whole, but whoever looks sees it. */
static void a_cut_while_opening_after_a_failed_sync_is_seen(void **state)
{
    (void)run_plan(*state, &(struct plan){.name = "power, a failed sync, a kill, cut at any call",
                                          .durability = DURABILITY_POWER,
                                          .is_cut = true,
                                          .is_killed = true,
                                          .sync_fails = true,
                                          .may_lose = true,
                                          .may_be_damaged = true,
                                          .one_in = 4});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(power_loses_nothing),
        cmocka_unit_test(process_loses_to_a_power_cut),
        cmocka_unit_test(process_loses_nothing_to_a_kill),
        cmocka_unit_test(none_loses_visibly),
        cmocka_unit_test(power_after_none_loses_nothing),
        cmocka_unit_test(a_disk_that_lies_is_found_out),
        cmocka_unit_test(a_failed_sync_is_made_good_by_opening),
        cmocka_unit_test(a_cut_while_opening_after_a_failed_sync_is_seen),
    };
    return cmocka_run_group_tests(tests, install, uninstall);
}
