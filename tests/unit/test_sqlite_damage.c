/*
 * The SQLite journal on files that were damaged while nobody had them: a WAL cut short, and bytes
 * changed anywhere. What the journal then shows is right, or it refuses with a reason, or whoever
 * checks what it shows (sequence, digests, counts, as verify does) sees that it is wrong.
 *
 * SIM_SEEDS=N: N flips in each file (1000).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/prng.h"
#include "tests/lib/fault_vfs.h"
#include "tests/lib/in_child.h"
#include "tests/lib/journal_load.h"

enum {
    SEEDS_DEFAULT = 1000,
    SECONDS_MAX = 100,
    WAL_HEADER_BYTES = 32,
    WAL_FRAME_BYTES = 24 + 8192,
    WAL_PARTS = 50,
    STREAM_FLIP = 60, /* of draws */
};

/* Indexes of in_child_note.counts. */
enum { TRIALS, UNCHANGED, REFUSED, NOTICED, SHORTER };

static const char main_path[] = "/disk/damage.db";
static const char wal_path[] = "/disk/damage.db-wal";

/* A file's bytes, to be put back. */
struct image {
    char *bytes;
    uint64_t size;
};

struct scene {
    struct fault_vfs *vfs;
    struct in_child_note *note;
    struct journal_load load;
    struct image main;
    struct image wal;
    uint64_t records;
};

struct job {
    struct fault_vfs *vfs;
    enum run_key_kind key;
    bool is_of_wal;
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

/* --- files --- */

static struct image take_image(struct fault_vfs *vfs, const char *path)
{
    struct image image = {0};
    if (fault_vfs_size(vfs, path, &image.size) != 0)
        return image;
    image.bytes = malloc(image.size + 1);
    if (image.bytes == NULL || fault_vfs_peek(vfs, path, 0, image.bytes, image.size) != 0)
        abort();
    return image;
}

/* Makes the file again if opening the store has deleted it. */
static void put_image(struct fault_vfs *vfs, const char *path, int kind, const struct image *image)
{
    uint64_t size;
    sqlite3_vfs *files = sqlite3_vfs_find(NULL);
    sqlite3_file *file = calloc(1, (size_t)files->szOsFile);
    if (file == NULL)
        abort();
    if (fault_vfs_size(vfs, path, &size) != 0) {
        int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | kind;
        if (files->xOpen(files, path, file, flags, NULL) != SQLITE_OK)
            abort();
        (void)file->pMethods->xClose(file); /* nothing was written */
    }
    free(file);
    if (fault_vfs_resize(vfs, path, image->size) != 0 ||
        fault_vfs_poke(vfs, path, 0, image->bytes, image->size) != 0)
        abort();
}

static void restore(struct scene *s)
{
    put_image(s->vfs, main_path, SQLITE_OPEN_MAIN_DB, &s->main);
    put_image(s->vfs, wal_path, SQLITE_OPEN_WAL, &s->wal);
}

/* --- the store --- */

static bool drive(struct scene *s, enum journal_mode mode, bool is_killed)
{
    struct errmsg why;
    if (journal_load_open(&s->load, mode, &why) != 0)
        return false;
    journal_load_drive(&s->load, LOAD_FROM_START);
    if (is_killed)
        fault_vfs_kill(s->vfs);
    journal_load_close(&s->load);
    fault_vfs_power_on(s->vfs);
    return s->load.counts.acked == s->load.counts.appends;
}

/* Leaves a store whose records are in the WAL, or in the database with an empty WAL beside. */
static void set_up(struct scene *s, const struct job *job)
{
    struct journal_load_audit audit;
    const struct journal_load_config config = {
        .uri = "sqlite:/disk/damage.db",
        .durability = DURABILITY_POWER,
        .key = job->key,
        .writers = 1,
        .shards = 1,
        .seed = 7,
        .runs = 12,
        .concurrency = 5,
        .records_min = 3,
        .records_max = 6,
        .payload_bytes_max = 20 << 10,
    };
    fault_vfs_reset(s->vfs, 1);
    journal_load_init(&s->load, &config);
    in_child_case(s->note, "setting up");
    if (!drive(s, JOURNAL_NEW, job->is_of_wal))
        in_child_fault(s->note, "it did not take everything");
    /* Opened again, and killed with a WAL that has nothing which the database has not. */
    if (!job->is_of_wal && !drive(s, JOURNAL_RESUME, true))
        in_child_fault(s->note, "it did not take everything again");
    s->main = take_image(s->vfs, main_path);
    s->wal = take_image(s->vfs, wal_path);
    journal_load_audit(&s->load, JOURNAL_AUDIT, &audit);
    s->records = audit.records;
    if (!journal_load_is_sound(&audit) || audit.acked_lost > 0 ||
        audit.records < s->load.config.runs)
        in_child_fault(s->note, "%s", audit.why.text);
}

static void tear_down(struct scene *s)
{
    free(s->main.bytes);
    free(s->wal.bytes);
    journal_load_free(&s->load);
}

/* --- what damage does --- */

/* What was acked may be gone here, for a WAL cannot know that it was longer; the rest is judged. */
static void judge(struct scene *s, const struct journal_load_audit *audit, bool may_be_shorter)
{
    uint64_t *counts = s->note->counts;
    counts[TRIALS]++;
    if (audit->undetected > 0)
        in_child_fault(s->note, "a false record looks right: %s", audit->why.text);
    if (audit->error > 0 || (audit->error < 0 && audit->why.text[0] == '\0'))
        in_child_fault(s->note, "it was refused with %d and without a reason", audit->error);
    if (audit->error != 0)
        counts[REFUSED]++;
    else if (!journal_load_is_sound(audit))
        counts[NOTICED]++;
    else if (audit->acked_lost == 0)
        counts[UNCHANGED]++;
    else if (may_be_shorter)
        counts[SHORTER]++;
    else /* the ends of runs that are missing: verify tells them from unfinished ones by nothing */
        in_child_fault(s->note, "%" PRIu64 " records have gone without a sign: %s",
                       audit->acked_lost, audit->why.text);
}

/* Audited, which must change nothing, and then opened to be resumed. */
static void look(struct scene *s, bool may_be_shorter)
{
    struct journal_load_audit audit;
    struct journal_load_audit resumed;
    uint64_t before = fault_vfs_digest(s->vfs);
    journal_load_audit(&s->load, JOURNAL_AUDIT, &audit);
    judge(s, &audit, may_be_shorter);
    if (fault_vfs_digest(s->vfs) != before)
        in_child_fault(s->note, "the audit has changed files");
    struct errmsg why;
    int error = journal_load_open(&s->load, JOURNAL_RESUME, &why);
    if (error != 0) {
        resumed = (struct journal_load_audit){.error = error, .why = why};
    } else {
        journal_load_look(&s->load, &resumed);
        fault_vfs_kill(s->vfs); /* files stay, to be restored */
        journal_load_close(&s->load);
        fault_vfs_power_on(s->vfs);
    }
    judge(s, &resumed, may_be_shorter);
    restore(s);
}

static void flip_bytes(void *arg, struct in_child_note *note)
{
    const struct job *job = arg;
    struct scene s = {.vfs = job->vfs, .note = note};
    set_up(&s, job);
    struct prng p = prng_stream(1, 0, PRNG_TEST, STREAM_FLIP);
    uint64_t count = in_child_setting("SIM_SEEDS", SEEDS_DEFAULT);
    const char *path = job->is_of_wal ? wal_path : main_path;
    uint64_t size = job->is_of_wal ? s.wal.size : s.main.size;
    for (uint64_t i = 0; i < count && size > 0; i++) {
        /* Headers and the beginnings of pages are where all depends on a byte. */
        uint64_t offset = prng_below(&p, size);
        if (i % 4 == 0)
            offset = prng_below(&p, 120);
        else if (i % 4 == 1)
            offset = offset / 8192 * 8192 + prng_below(&p, 40);
        unsigned char byte;
        in_child_case(note, "a change of byte %" PRIu64 " of %s, keys %s (trial %" PRIu64 ")",
                      offset, path, run_key_name(job->key), i);
        if (fault_vfs_peek(job->vfs, path, offset, &byte, 1) != 0)
            break;
        byte = (unsigned char)(byte ^ (1 + prng_below(&p, 255)));
        if (fault_vfs_poke(job->vfs, path, offset, &byte, 1) != 0)
            break;
        look(&s, job->is_of_wal);
    }
    if (note->counts[TRIALS] < 2 * count)
        in_child_fault(note, "not all flips were made");
    tear_down(&s);
}

static void shorten_wal(void *arg, struct in_child_note *note)
{
    const struct job *job = arg;
    struct scene s = {.vfs = job->vfs, .note = note};
    set_up(&s, job);
    uint64_t frames = (s.wal.size - WAL_HEADER_BYTES) / WAL_FRAME_BYTES;
    for (uint64_t i = 0; i < WAL_PARTS + 3 * (frames + 1); i++) {
        uint64_t size = s.wal.size * i / WAL_PARTS;
        if (i >= WAL_PARTS)
            size =
                WAL_HEADER_BYTES + (i - WAL_PARTS) / 3 * WAL_FRAME_BYTES + (i - WAL_PARTS) % 3 - 1;
        if (size > s.wal.size)
            continue;
        in_child_case(note, "a WAL of %" PRIu64 " of %" PRIu64 " bytes", size, s.wal.size);
        if (fault_vfs_resize(job->vfs, wal_path, size) != 0)
            abort();
        look(&s, true);
    }
    if (note->counts[NOTICED] > 0) /* a prefix is always clean */
        in_child_fault(note, "%" PRIu64 " were not clean", note->counts[NOTICED]);
    tear_down(&s);
}

static void run_job(void (*body)(void *arg, struct in_child_note *note), struct job *job,
                    const char *name)
{
    struct in_child_note *note = in_child_run(body, job, SECONDS_MAX);
    assert_non_null(note);
    const uint64_t *counts = note->counts;
    print_message("%s: %" PRIu64 " looks, %" PRIu64 " unchanged, %" PRIu64 " refused, %" PRIu64
                  " noticed, %" PRIu64 " of a WAL that ends earlier\n",
                  name, counts[TRIALS], counts[UNCHANGED], counts[REFUSED], counts[NOTICED],
                  counts[SHORTER]);
    /* Each byte of a WAL is under a checksum; in a database there is room that nobody reads. */
    bool is_plausible = job->is_of_wal
                            ? counts[REFUSED] > 0 && counts[SHORTER] > 0
                            : counts[UNCHANGED] > 0 && counts[REFUSED] > 0 && counts[NOTICED] > 0;
    in_child_end(note);
    assert_true(is_plausible);
}

static void changed_bytes_of_the_database(void **state)
{
    run_job(flip_bytes, &(struct job){*state, RUN_KEY_SEQ, false}, "database");
}

static void changed_bytes_of_a_database_of_uuids(void **state)
{
    run_job(flip_bytes, &(struct job){*state, RUN_KEY_UUIDV7, false}, "database of UUIDs");
}

static void changed_bytes_of_the_wal(void **state)
{
    run_job(flip_bytes, &(struct job){*state, RUN_KEY_SEQ, true}, "WAL");
}

static void a_wal_that_is_cut_short(void **state)
{
    run_job(shorten_wal, &(struct job){*state, RUN_KEY_UUIDV4, true}, "WAL cut short");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(changed_bytes_of_the_database),
        cmocka_unit_test(changed_bytes_of_a_database_of_uuids),
        cmocka_unit_test(changed_bytes_of_the_wal),
        cmocka_unit_test(a_wal_that_is_cut_short),
    };
    return cmocka_run_group_tests(tests, install, uninstall);
}
