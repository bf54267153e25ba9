/*
 * output_file: places behind links, what is refused before anything starts, and what is left
 * behind. What needs a terminal, another user or a closed stream is in tests/integration.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/output.h"
#include "cmd/output_file.h"
#include "tests/lib/scratch.h"

/* Stands in front of the C library's: not every file system knows modes. */
static bool is_fchmod_refused;

int fchmod(int fd, mode_t mode)
{
    char path[64];
    if (is_fchmod_refused) {
        errno = EPERM;
        return -1;
    }
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    return chmod(path, mode);
}

static struct scratch scratch;
static char path_text[3][PATH_MAX];

/* A path in the test's directory; three can be in use. */
static const char *in(int which, const char *name)
{
    (void)snprintf(path_text[which], PATH_MAX, "%s/%s", scratch.path, name);
    return path_text[which];
}

static void write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void assert_text(const char *path, const char *text)
{
    char found[64] = "";
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    (void)fgets(found, sizeof(found), file); /* An empty file leaves it empty. */
    assert_int_equal(fclose(file), 0);
    assert_string_equal(found, text);
}

static int count_files(void)
{
    int count = 0;
    DIR *listing = opendir(scratch.path);
    assert_non_null(listing);
    while (readdir(listing) != NULL)
        count++;
    assert_int_equal(closedir(listing), 0);
    return count - 2; /* . and .. */
}

static int set_up(void **state)
{
    (void)state;
    is_fchmod_refused = false;
    return scratch_make(&scratch, "output");
}

static int tear_down(void **state)
{
    (void)state;
    return scratch_remove(&scratch);
}

static void replace(const char *path, const char *text)
{
    struct output_file file;
    struct errmsg why;
    if (output_file_open(&file, path, OUTPUT_REPLACED, &why) != 0)
        fail_msg("%s: %s", path, why.text);
    assert_int_equal(output_file_write(&file, text, strlen(text), &why), 0);
    output_file_close(&file);
}

static void opening_touches_nothing(void **state)
{
    struct output_file file;
    struct errmsg why;
    (void)state;
    for (enum output_use use = OUTPUT_REPLACED; use <= OUTPUT_APPENDED; use++) {
        assert_int_equal(output_file_open(&file, in(0, "new"), use, &why), 0);
        output_file_close(&file);
        assert_int_equal(count_files(), 0);
    }
    write_text(in(0, "old"), "old");
    for (enum output_use use = OUTPUT_REPLACED; use <= OUTPUT_APPENDED; use++) {
        assert_int_equal(output_file_open(&file, in(0, "old"), use, &why), 0);
        output_file_close(&file);
        assert_text(in(0, "old"), "old");
        assert_int_equal(count_files(), 1);
    }
}

static void links_are_followed(void **state)
{
    struct stat status;
    (void)state;
    assert_int_equal(mkdir(in(0, "sub"), 0755), 0);
    assert_int_equal(symlink("sub/../second", in(0, "first")), 0);
    assert_int_equal(symlink(in(1, "sub/target"), in(0, "second")), 0);
    replace(in(0, "first"), "new"); /* the target is not there yet */
    assert_text(in(0, "sub/target"), "new");
    replace(in(0, "first"), "newer");
    assert_text(in(0, "sub/target"), "newer");
    assert_int_equal(lstat(in(0, "first"), &status), 0);
    assert_true(S_ISLNK(status.st_mode));
    assert_int_equal(lstat(in(0, "second"), &status), 0);
    assert_true(S_ISLNK(status.st_mode));
    assert_int_equal(count_files(), 3);
}

static void links_that_lead_nowhere_are_refused(void **state)
{
    static const struct {
        const char *target;
        int error;
    } cases[] = {{"none/target", -ENOENT}, {"link", -ELOOP}, {"target/", -EISDIR}, {".", -EISDIR}};
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct output_file file;
        assert_int_equal(symlink(cases[i].target, in(0, "link")), 0);
        assert_int_equal(output_file_open(&file, in(0, "link"), OUTPUT_REPLACED, NULL),
                         cases[i].error);
        assert_int_equal(unlink(in(0, "link")), 0);
    }
}

static void mode_is_copied_where_it_can_be(void **state)
{
    struct stat status;
    (void)state;
    write_text(in(0, "file"), "old");
    assert_int_equal(chmod(in(0, "file"), 0640), 0);
    replace(in(0, "file"), "new");
    assert_int_equal(stat(in(0, "file"), &status), 0);
    assert_int_equal(status.st_mode & 07777, 0640);
    is_fchmod_refused = true;
    replace(in(0, "file"), "newer"); /* a report with another mode is better than none */
    assert_text(in(0, "file"), "newer");
    assert_int_equal(stat(in(0, "file"), &status), 0);
    assert_int_equal(status.st_mode & 07777, 0600);
    assert_int_equal(count_files(), 1);
}

static void pipes_need_a_reader(void **state)
{
    struct output_file file;
    struct errmsg why;
    char found[8] = "";
    (void)state;
    assert_int_equal(mkfifo(in(0, "pipe"), 0600), 0);
    for (enum output_use use = OUTPUT_REPLACED; use <= OUTPUT_APPENDED; use++) {
        assert_int_equal(output_file_open(&file, in(0, "pipe"), use, &why), -ENXIO);
        assert_non_null(strstr(why.text, "cannot be written: nobody reads the pipe /tmp/"));
    }
    int reader = open(in(0, "pipe"), O_RDONLY | O_NONBLOCK);
    assert_true(reader >= 0);
    assert_int_equal(output_file_open(&file, in(0, "pipe"), OUTPUT_REPLACED, &why), 0);
    assert_int_equal(read(reader, found, sizeof(found)), -1); /* not the end: it is kept open */
    assert_int_equal(errno, EAGAIN);
    assert_int_equal(output_file_write(&file, "new", 3, &why), 0);
    assert_int_equal(read(reader, found, sizeof(found)), 3);
    assert_int_equal(close(reader), 0);
    output_file_close(&file);
}

static bool is_same(const char *a, const char *b)
{
    struct output_file first;
    struct output_file second;
    assert_int_equal(output_file_open(&first, a, OUTPUT_REPLACED, NULL), 0);
    assert_int_equal(output_file_open(&second, b, OUTPUT_APPENDED, NULL), 0);
    bool answer = output_file_is_same(&first, &second);
    assert_int_equal(output_file_is_same(&second, &first), answer);
    output_file_close(&first);
    output_file_close(&second);
    return answer;
}

static void same_file_is_seen_through_names(void **state)
{
    (void)state;
    write_text(in(0, "file"), "");
    assert_int_equal(mkdir(in(0, "sub"), 0755), 0);
    assert_int_equal(link(in(0, "file"), in(1, "hard")), 0);
    assert_int_equal(symlink("sub/target", in(0, "dangling")), 0);
    assert_int_equal(symlink("dangling", in(0, "again")), 0);
    assert_true(is_same(in(0, "file"), in(1, "hard")));
    assert_true(is_same(in(0, "file"), in(1, "sub/../file")));
    assert_true(is_same(in(0, "none"), in(1, "sub/.././none")));
    assert_true(is_same(in(0, "dangling"), in(1, "sub/target")));
    assert_true(is_same(in(0, "dangling"), in(1, "again")));
    assert_false(is_same(in(0, "dangling"), in(1, "target")));
    assert_false(is_same(in(0, "file"), in(1, "none")));
    assert_false(is_same(in(0, "none"), in(1, "sub/none")));
    assert_false(is_same("/dev/null", "/dev/null"));
}

/* A pipe that nobody empties: the second kind of writing gives up instead of waiting. */
static void line_without_room_is_dropped(void **state)
{
    static const char block[4096];
    int ends[2];
    char byte;
    (void)state;
    assert_int_equal(pipe2(ends, O_NONBLOCK), 0);
    assert_true(output_write_if_room(ends[1], "x", 1));
    while (write(ends[1], block, sizeof(block)) > 0)
        ;
    assert_int_equal(fcntl(ends[1], F_SETFL, 0), 0); /* now writing would wait */
    assert_false(output_write_if_room(ends[1], "y", 1));
    assert_int_equal(read(ends[0], &byte, 1), 1);
    assert_int_equal(byte, 'x');
    assert_int_equal(close(ends[0]), 0);
    assert_int_equal(close(ends[1]), 0);
}

#define WITH_DIRECTORY(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DIRECTORY(opening_touches_nothing),
        WITH_DIRECTORY(links_are_followed),
        WITH_DIRECTORY(links_that_lead_nowhere_are_refused),
        WITH_DIRECTORY(mode_is_copied_where_it_can_be),
        WITH_DIRECTORY(pipes_need_a_reader),
        WITH_DIRECTORY(same_file_is_seen_through_names),
        cmocka_unit_test(line_without_room_is_dropped),
    };
    return cmocka_run_group_tests_name("output", tests, NULL, NULL);
}
