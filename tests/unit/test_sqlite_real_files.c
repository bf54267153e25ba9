/*
 * The SQLite journal on the machine's own files, without a shim: no room, a limit on the size of
 * files or the number of descriptors, folders that must not be written, and another process that
 * has the store.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/in_child.h"
#include "tests/lib/journal_load.h"
#include "tests/lib/scratch.h"

enum {
    SECONDS_MAX = 60,
    NOBODY = 65534,
    FILE_BYTES_MAX = 600 << 10, /* of a store that is to run out of room */
    DESCRIPTORS_TRIED = 24,
};

/* Indexes of in_child_note.counts. */
enum { ACKED, SKIPPED, OPENED, REFUSED };

struct place {
    struct scratch scratch;
    char uri[128];
    struct journal_load load;
};

static int make_place(void **state)
{
    struct place *place = calloc(1, sizeof(*place));
    if (place == NULL || scratch_make(&place->scratch, "sqlite_files") != 0)
        return -1;
    (void)snprintf(place->uri, sizeof(place->uri), "sqlite:%s/store.db", place->scratch.path);
    *state = place;
    return 0;
}

static int remove_place(void **state)
{
    struct place *place = *state;
    (void)chmod(place->scratch.path, 0755); /* a test that has failed may have left it read-only */
    int error = scratch_remove(&place->scratch);
    free(place);
    return error;
}

static void init_load(struct place *place, unsigned runs, unsigned shards)
{
    const struct journal_load_config config = {
        .uri = place->uri,
        .durability = DURABILITY_PROCESS, /* as the disk's own speed is not tested */
        .key = RUN_KEY_SEQ,
        .writers = 2,
        .shards = shards,
        .drives = 2,
        .seed = 3,
        .runs = runs,
        .concurrency = 20,
        .records_min = 8,
        .records_max = 14,
        .payload_bytes_max = 2000,
    };
    journal_load_init(&place->load, &config);
}

static struct in_child_note run_part(void (*body)(void *arg, struct in_child_note *note),
                                     struct place *place)
{
    struct in_child_note *note = in_child_run(body, place, SECONDS_MAX);
    assert_non_null(note);
    struct in_child_note copy = *note;
    in_child_end(note);
    return copy;
}

/* --- no room --- */

/* The store fails by name with what was acked kept, while there is no room. */
static void run_out(struct place *place, struct in_child_note *note)
{
    struct errmsg why;
    in_child_case(note, "running out of room");
    int error = journal_load_open(&place->load, JOURNAL_NEW, &why);
    if (error != 0) {
        in_child_fault(note, "it does not open: %s", why.text);
        return;
    }
    journal_load_drive(&place->load, LOAD_FROM_START);
    note->counts[ACKED] = place->load.counts.acked;
    if (!journal_load_counts_agree(&place->load) || place->load.counts.refused == 0)
        in_child_fault(note,
                       "%" PRIu64 " appends, %" PRIu64 " acked, %" PRIu64 " refused, %" PRIu64
                       " unknown, %" PRIu64 " not answered",
                       place->load.counts.appends, place->load.counts.acked,
                       place->load.counts.refused, place->load.counts.unknown,
                       place->load.counts.unanswered);
    if (!journal_has_failed(place->load.journal, &why) || strstr(why.text, "store.db") == NULL)
        in_child_fault(note, "it does not say which file has failed: %s", why.text);
    journal_load_drive(&place->load, LOAD_FROM_START);
    if (place->load.counts.acked > 0)
        in_child_fault(note, "it has acked again after it failed");
    journal_load_close(&place->load);
}

static void go_on(struct place *place, struct in_child_note *note)
{
    struct journal_load_audit audit;
    struct errmsg why;
    in_child_case(note, "going on");
    journal_load_audit(&place->load, JOURNAL_AUDIT, &audit);
    if (!journal_load_is_sound(&audit) || audit.acked_lost > 0)
        in_child_fault(note, "audited: %s", audit.why.text);
    if (journal_load_open(&place->load, JOURNAL_RESUME, &why) != 0) {
        in_child_fault(note, "it does not open: %s", why.text);
        return;
    }
    journal_load_drive(&place->load, LOAD_FROM_FOUND);
    journal_load_look(&place->load, &audit);
    if (!journal_load_is_sound(&audit) || !journal_load_is_complete(&place->load))
        in_child_fault(note, "at the end: %s", audit.why.text);
    journal_load_close(&place->load);
}

static void limit(int resource, rlim_t soft)
{
    struct rlimit both;
    if (getrlimit((__rlimit_resource_t)resource, &both) != 0)
        abort();
    both.rlim_cur = soft < both.rlim_max ? soft : both.rlim_max;
    if (setrlimit((__rlimit_resource_t)resource, &both) != 0)
        abort();
}

static void meet_size_limit(void *arg, struct in_child_note *note)
{
    struct place *place = arg;
    init_load(place, 300, 2);
    (void)signal(SIGXFSZ, SIG_IGN); /* else it ends the process */
    limit(RLIMIT_FSIZE, FILE_BYTES_MAX);
    run_out(place, note);
    limit(RLIMIT_FSIZE, RLIM_INFINITY);
    go_on(place, note);
    journal_load_free(&place->load);
}

static void a_limit_on_the_size_of_files(void **state)
{
    struct in_child_note note = run_part(meet_size_limit, *state);
    assert_true(note.counts[ACKED] > 0);
}

/* A file system of our own, which ends with the process. */
static void fill_file_system(void *arg, struct in_child_note *note)
{
    struct place *place = arg;
    const char *path = place->scratch.path;
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", path, "tmpfs", 0, "size=1m") != 0) {
        note->counts[SKIPPED] = 1;
        return;
    }
    init_load(place, 300, 2);
    run_out(place, note);
    if (mount(NULL, path, NULL, MS_REMOUNT, "size=64m") != 0)
        abort();
    go_on(place, note);
    journal_load_free(&place->load);
}

static void a_file_system_that_is_full(void **state)
{
    struct in_child_note note = run_part(fill_file_system, *state);
    if (note.counts[SKIPPED] > 0) {
        print_message("skip: a full file system: mounting one is not allowed here\n");
        skip();
    }
    assert_true(note.counts[ACKED] > 0);
}

/* --- descriptors --- */

static unsigned descriptors_free_from(void)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (fd < 0 || close(fd) != 0)
        abort();
    return (unsigned)fd;
}

static void run_out_of_descriptors(void *arg, struct in_child_note *note)
{
    struct place *place = arg;
    struct journal_load_audit audit;
    struct errmsg why;
    init_load(place, 5, 2);
    for (unsigned i = 0; i < DESCRIPTORS_TRIED; i++) {
        in_child_case(note, "%u descriptors", i);
        limit(RLIMIT_NOFILE, descriptors_free_from() + i);
        enum journal_mode mode = place->load.campaign == 0 ? JOURNAL_NEW : JOURNAL_RESUME;
        int error = journal_load_open(&place->load, mode, &why);
        limit(RLIMIT_NOFILE, RLIM_INFINITY);
        note->counts[error == 0 ? OPENED : REFUSED]++;
        if (error != 0 && (error != -EMFILE || strstr(why.text, "store.db") == NULL))
            in_child_fault(note, "refused with %d: %s", error, why.text);
        if (error != 0)
            continue;
        journal_load_drive(&place->load, LOAD_FROM_START);
        journal_load_look(&place->load, &audit);
        if (!journal_load_is_sound(&audit) || !journal_load_is_complete(&place->load))
            in_child_fault(note, "%s", audit.why.text);
        journal_load_close(&place->load);
    }
    journal_load_free(&place->load);
}

static void a_limit_on_descriptors(void **state)
{
    struct in_child_note note = run_part(run_out_of_descriptors, *state);
    assert_true(note.counts[OPENED] > 0);
    assert_true(note.counts[REFUSED] > 0);
}

/* --- who else is there --- */

/* In another process: has the store, says so, and keeps it until the pipe is closed. */
static _Noreturn void hold(struct place *place, int ready, int until)
{
    struct errmsg why;
    char byte = journal_load_open(&place->load, JOURNAL_NEW, &why) == 0 ? 'y' : 'n';
    if (write(ready, &byte, 1) != 1)
        _exit(1);
    (void)read(until, &byte, 1); /* it ends with the other end */
    _exit(0);                    /* as if it were killed */
}

static void meet_other_process(void *arg, struct in_child_note *note)
{
    static const enum journal_mode modes[] = {JOURNAL_NEW, JOURNAL_RESUME, JOURNAL_AUDIT};
    struct place *place = arg;
    struct errmsg why;
    int ready[2];
    int until[2];
    char byte = 0;
    init_load(place, 5, 2);
    if (pipe(ready) != 0 || pipe(until) != 0)
        abort();
    pid_t other = fork();
    if (other == 0) {
        (void)close(until[1]);
        hold(place, ready[1], until[0]);
    }
    (void)close(ready[1]); /* the other's */
    if (read(ready[0], &byte, 1) != 1 || byte != 'y')
        in_child_fault(note, "the other process has not opened it");
    for (unsigned i = 0; i < 3; i++) {
        in_child_case(note, "mode %u beside another process", i);
        int error = journal_load_open(&place->load, modes[i], &why);
        if (error != -EBUSY || strstr(why.text, "store.db") == NULL)
            in_child_fault(note, "it opened, or was refused with %d: %s", error, why.text);
        journal_load_close(&place->load);
    }
    (void)close(until[1]);
    if (waitpid(other, NULL, 0) != other)
        abort();
    (void)close(ready[0]);
    (void)close(until[0]);
    in_child_case(note, "after another process");
    place->load.campaign = 1;
    go_on(place, note);
    journal_load_free(&place->load);
}

static void another_process_has_it(void **state)
{
    (void)run_part(meet_other_process, *state);
}

/* --- folders --- */

/* Root may write everywhere, so it becomes somebody else. */
static void give_up_rights(struct place *place, mode_t mode)
{
    if (chmod(place->scratch.path, mode) != 0)
        abort();
    if (geteuid() == 0 &&
        (setresgid(NOBODY, NOBODY, NOBODY) != 0 || setresuid(NOBODY, NOBODY, NOBODY) != 0))
        abort();
    (void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0); /* for LeakSanitizer */
}

static void find_folder_read_only(void *arg, struct in_child_note *note)
{
    struct place *place = arg;
    struct errmsg why;
    init_load(place, 5, 1);
    give_up_rights(place, 0555);
    in_child_case(note, "a new store in a folder that is read-only");
    int error = journal_load_open(&place->load, JOURNAL_NEW, &why);
    if (error != -EACCES || strstr(why.text, "store.db") == NULL)
        in_child_fault(note, "it opened, or was refused with %d: %s", error, why.text);
    journal_load_close(&place->load);
    journal_load_free(&place->load);
}

/* An audit of a store that was closed needs no right to write; going on with it does. */
static void find_store_read_only(void *arg, struct in_child_note *note)
{
    struct place *place = arg;
    struct journal_load_audit audit;
    struct errmsg why;
    char file[128];
    init_load(place, 5, 1);
    in_child_case(note, "making a store");
    if (journal_load_open(&place->load, JOURNAL_NEW, &why) != 0)
        in_child_fault(note, "it does not open: %s", why.text);
    else
        journal_load_drive(&place->load, LOAD_FROM_START);
    journal_load_close(&place->load);
    (void)snprintf(file, sizeof(file), "%s/store.db", place->scratch.path);
    if (chmod(file, 0444) != 0)
        abort();
    give_up_rights(place, 0555);
    in_child_case(note, "a store that is read-only");
    journal_load_audit(&place->load, JOURNAL_AUDIT, &audit);
    if (!journal_load_is_sound(&audit) || !journal_load_is_complete(&place->load))
        in_child_fault(note, "audited: %s", audit.why.text);
    int error = journal_load_open(&place->load, JOURNAL_RESUME, &why);
    if (error != -EACCES || strstr(why.text, "store.db") == NULL)
        in_child_fault(note, "it opened, or was refused with %d: %s", error, why.text);
    journal_load_close(&place->load);
    journal_load_free(&place->load);
}

static void folders_and_files_that_must_not_be_written(void **state)
{
    struct place *place = *state;
    (void)run_part(find_folder_read_only, place);
    assert_int_equal(chmod(place->scratch.path, 0755), 0);
    (void)run_part(find_store_read_only, place);
    assert_int_equal(chmod(place->scratch.path, 0755), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_limit_on_the_size_of_files, make_place, remove_place),
        cmocka_unit_test_setup_teardown(a_file_system_that_is_full, make_place, remove_place),
        cmocka_unit_test_setup_teardown(a_limit_on_descriptors, make_place, remove_place),
        cmocka_unit_test_setup_teardown(another_process_has_it, make_place, remove_place),
        cmocka_unit_test_setup_teardown(folders_and_files_that_must_not_be_written, make_place,
                                        remove_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
