/*
 * output: see output.h. The happy path of a file: check, temporary file in the same directory,
 * rename. Any failure removes the temporary file and leaves what was there before.
 */
#include "cmd/output.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void output_guard_standard_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) >= 0 || errno != EBADF)
            continue;
        /* The lowest free descriptor is this one. Its mode is the wrong one on purpose: using it is
         * an error. */
        (void)open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
    }
}

enum { ERROR_TEXT_BYTES = ERRMSG_BYTES + 256 };

static void write_error_line(char text[ERROR_TEXT_BYTES], const char *suffix)
{
    for (char *c = text; *c != '\0'; c++)
        *c = (unsigned char)*c < ' ' || *c == 0x7f ? '?' : *c;

    char line[ERROR_TEXT_BYTES + 64];
    int size = snprintf(line, sizeof(line), "bench: %s%s\n", text, suffix);
    if (size > 0)
        (void)output_write(STDERR_FILENO, line,
                           (size_t)size); /* There is nowhere else to say it. */
}

void output_error(const char *format, ...)
{
    char text[ERROR_TEXT_BYTES] = "";
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof(text), format, arguments); /* A text that is too long is cut. */
    va_end(arguments);
    write_error_line(text, "");
}

void output_usage_error(const char *format, ...)
{
    char text[ERROR_TEXT_BYTES] = "";
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof(text), format, arguments); /* A text that is too long is cut. */
    va_end(arguments);
    write_error_line(text, " (see 'bench -help')");
}

int output_write(int fd, const char *bytes, size_t size)
{
    while (size > 0) {
        ssize_t written = write(fd, bytes, size);
        if (written >= 0) {
            bytes += written;
            size -= (size_t)written;
            continue;
        }
        if (errno == EPIPE)
            return 0;
        if (errno == EAGAIN) {
            /* Somebody has made the shared descriptor nonblocking: wait for room like everybody
             * else. */
            struct pollfd room = {.fd = fd, .events = POLLOUT};
            (void)poll(&room, 1, -1);
            continue;
        }
        if (errno != EINTR)
            return -errno;
    }
    return 0;
}

static bool is_written_directly(const struct stat *status)
{
    return S_ISCHR(status->st_mode) || S_ISFIFO(status->st_mode);
}

static int check_existing(const char *path, const struct stat *status, struct errmsg *why)
{
    if (S_ISDIR(status->st_mode))
        return errmsg_set(why, -EISDIR, "cannot be written: %s is a directory", path);
    if (!S_ISREG(status->st_mode) && !is_written_directly(status))
        return errmsg_set(why, -EINVAL, "cannot be written: %s is not a regular file", path);
    if (faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) != 0) {
        int error = errno;
        return errmsg_set(why, -error, "cannot be written: %s: %s", path, strerror(error));
    }
    return 0;
}

/* Follows symbolic links to the place that is written. A path that is still free is its own place.
 */
static int find_place(const char *path, char place[PATH_MAX], struct errmsg *why)
{
    if (realpath(path, place) != NULL)
        return 0;
    int error = errno;
    if (error != ENOENT)
        return errmsg_set(why, -error, "cannot be written: %s: %s", path, strerror(error));
    if (path[strlen(path) - 1] == '/')
        return errmsg_set(why, -EISDIR, "cannot be written: %s names a directory", path);
    (void)snprintf(place, PATH_MAX, "%s", path); /* ENAMETOOLONG came from realpath() already. */
    return 0;
}

int output_check(const char *path, struct errmsg *why)
{
    if (path[0] == '\0')
        return errmsg_set(why, -EINVAL, "must not be empty");
    char place[PATH_MAX];
    int error = find_place(path, place, why);
    if (error != 0)
        return error;

    struct stat status;
    bool exists = stat(place, &status) == 0;
    if (exists) {
        error = check_existing(place, &status, why);
        if (error != 0 || is_written_directly(&status))
            return error;
    }
    char *directory = dirname(place);
    if (stat(directory, &status) != 0) {
        error = errno;
        return errmsg_set(why, -error, "cannot be written: directory %s: %s", directory,
                          strerror(error));
    }
    if (!S_ISDIR(status.st_mode))
        return errmsg_set(why, -ENOTDIR, "cannot be written: %s is not a directory", directory);
    if (faccessat(AT_FDCWD, directory, W_OK | X_OK, AT_EACCESS) != 0) {
        error = errno;
        return errmsg_set(why, -error, "cannot be written: directory %s: %s", directory,
                          strerror(error));
    }
    return 0;
}

static int write_directly(const char *path, const char *bytes, size_t size)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    int error = output_write(fd, bytes, size);
    if (close(fd) != 0 && error == 0)
        error = -errno;
    return error;
}

/* Gives the temporary file the mode of the file that it replaces, or the one that open() would have
 * given it. */
static int copy_mode(int fd, const char *place)
{
    struct stat status;
    mode_t mode = 0;
    if (stat(place, &status) == 0) {
        mode = status.st_mode & 07777;
    } else {
        mode_t mask = umask(0);
        (void)umask(mask);
        mode = 0666 & ~mask;
    }
    return fchmod(fd, mode) == 0 ? 0 : -errno;
}

static int write_beside(const char *place, const char *bytes, size_t size)
{
    char parent[PATH_MAX];
    char beside[PATH_MAX + 16];
    (void)snprintf(parent, sizeof(parent), "%s", place);
    (void)snprintf(beside, sizeof(beside), "%s/.bench.XXXXXX", dirname(parent));
    int fd = mkostemp(beside, O_CLOEXEC);
    if (fd < 0)
        return -errno;

    int error = copy_mode(fd, place);
    if (error == 0)
        error = output_write(fd, bytes, size);
    if (close(fd) != 0 && error == 0)
        error = -errno;
    if (error == 0 && rename(beside, place) != 0)
        error = -errno;
    if (error != 0)
        (void)unlink(beside); /* The first error is the one to report. */
    return error;
}

int output_write_file(const char *path, const char *bytes, size_t size, struct errmsg *why)
{
    char place[PATH_MAX];
    int error = find_place(path, place, why);
    if (error != 0)
        return error;
    struct stat status;
    bool is_direct = stat(place, &status) == 0 && is_written_directly(&status);
    error = is_direct ? write_directly(place, bytes, size) : write_beside(place, bytes, size);
    if (error != 0)
        return errmsg_set(why, error, "cannot be written: %s: %s", path, strerror(-error));
    return 0;
}

bool output_is_same_file(const char *a, const char *b)
{
    char first[PATH_MAX];
    char second[PATH_MAX];
    struct stat first_status;
    struct stat second_status;
    if (find_place(a, first, NULL) != 0 || find_place(b, second, NULL) != 0)
        return false;
    bool has_first = stat(first, &first_status) == 0;
    bool has_second = stat(second, &second_status) == 0;
    if (has_first != has_second)
        return false;
    if (has_first &&
        (!S_ISREG(first_status.st_mode) || first_status.st_ino != second_status.st_ino ||
         first_status.st_dev != second_status.st_dev))
        return false;
    if (has_first)
        return true;

    /* Neither is there: the same name in the same directory would become the same file. */
    const char *first_name = strrchr(first, '/');
    const char *second_name = strrchr(second, '/');
    first_name = first_name == NULL ? first : first_name + 1;
    second_name = second_name == NULL ? second : second_name + 1;
    if (strcmp(first_name, second_name) != 0)
        return false;
    return stat(dirname(first), &first_status) == 0 && stat(dirname(second), &second_status) == 0 &&
           first_status.st_ino == second_status.st_ino &&
           first_status.st_dev == second_status.st_dev;
}
