/*
 * output_file: see output_file.h. The happy path of a file: find its place, try whether a file can
 * be made beside it; later, temporary file, rename. Any failure removes the temporary file and
 * leaves what was there before.
 */
#include "cmd/output_file.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/output.h"

enum { LINKS_MAX = 40, BESIDE_BYTES = PATH_MAX + 16 };

static int refuse(struct errmsg *why, int error, const char *path)
{
    return errmsg_set(why, error, "cannot be written: %s: %s", path, strerrordesc_np(-error));
}

static bool is_written_directly(const struct stat *status)
{
    return S_ISCHR(status->st_mode) || S_ISFIFO(status->st_mode);
}

/* --- the place --- */

/* The place of a path at which there is nothing, not even a link. */
static int find_free_place(const char *path, char place[PATH_MAX], struct errmsg *why)
{
    char copy[PATH_MAX];
    const char *slash = strrchr(path, '/');
    const char *name = slash == NULL ? path : slash + 1;
    (void)snprintf(copy, sizeof(copy), "%s", path); /* stat() has refused longer ones */
    const char *directory = dirname(copy);
    if (realpath(directory, place) == NULL) {
        int error = -errno;
        return errmsg_set(why, error, "cannot be written: directory %s: %s", directory,
                          strerrordesc_np(-error));
    }
    size_t used = strlen(place);
    if (used == 1)
        used = 0; /* the root ends in its slash */
    int size = snprintf(place + used, PATH_MAX - used, "/%s", name);
    return used + (size_t)size < PATH_MAX ? 0 : refuse(why, -ENAMETOOLONG, path);
}

/* The place that a path leads to which stat() does not find: free, or behind links that lead to
 * nothing yet. */
static int follow_links(const char *path, char place[PATH_MAX], struct errmsg *why)
{
    char at[PATH_MAX];
    (void)snprintf(at, sizeof(at), "%s", path); /* stat() has refused longer ones */
    for (int links = 0; links < LINKS_MAX; links++) {
        if (at[strlen(at) - 1] == '/')
            return errmsg_set(why, -EISDIR, "cannot be written: %s names a directory", path);
        char target[PATH_MAX];
        ssize_t target_size = readlink(at, target, sizeof(target) - 1);
        if (target_size < 0)
            return find_free_place(at, place, why);
        target[target_size] = '\0';
        if (target[0] == '/') {
            (void)snprintf(at, sizeof(at), "%s", target); /* of the same size */
            continue;
        }
        char next[2 * PATH_MAX];
        int size = snprintf(next, sizeof(next), "%s/%s", dirname(at), target);
        if (size >= PATH_MAX)
            return refuse(why, -ENAMETOOLONG, path);
        memcpy(at, next, (size_t)size + 1);
    }
    return refuse(why, -ELOOP, path);
}

/* --- the check --- */

/* A temporary file in the directory of the place. Returns its descriptor, or -errno. */
static int make_beside(const char *place, char beside[BESIDE_BYTES])
{
    char parent[PATH_MAX];
    (void)snprintf(parent, sizeof(parent), "%s", place);
    (void)snprintf(beside, BESIDE_BYTES, "%s/.bench.XXXXXX", dirname(parent));
    int fd = mkostemp(beside, O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static int try_beside(const char *place, struct errmsg *why)
{
    char beside[BESIDE_BYTES];
    int fd = make_beside(place, beside);
    if (fd < 0)
        return errmsg_set(why, fd, "cannot be written: no file can be made in directory %s: %s",
                          dirname(beside), strerrordesc_np(-fd));
    (void)close(fd); /* Nothing was written to it. */
    if (unlink(beside) == 0)
        return 0;
    int error = -errno; /* an append-only directory */
    return errmsg_set(why, error, "cannot be written: %s cannot be removed again: %s", beside,
                      strerrordesc_np(-error));
}

/* Whether the directory lets go of the file, for which rename() will ask: mounted files, others'
 * files in a sticky directory and immutable ones stay. rmdir() asks the same before it sees that
 * this is no directory. */
static int try_removal(const char *place)
{
    struct statx status;
    if (statx(AT_FDCWD, place, 0, 0, &status) == 0 &&
        (status.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0)
        return -EBUSY;
    int error = rmdir(place) == 0 ? 0 : -errno;
    return error == -EPERM || error == -EACCES || error == -EROFS ? error : 0;
}

static int open_existing(struct output_file *file, enum output_use use, struct errmsg *why)
{
    const char *path = file->path;
    if (S_ISDIR(file->status.st_mode))
        return errmsg_set(why, -EISDIR, "cannot be written: %s is a directory", path);
    if (!S_ISREG(file->status.st_mode) && !is_written_directly(&file->status))
        return errmsg_set(why, -EINVAL, "cannot be written: %s is not a regular file", path);
    if (use == OUTPUT_APPENDED || is_written_directly(&file->status)) {
        /* Not blocking, for a pipe that nobody reads; kept open, since whoever reads a pipe takes
         * closing for the end. */
        file->fd = open(path, O_WRONLY | O_APPEND | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        if (file->fd < 0 && errno == ENXIO && S_ISFIFO(file->status.st_mode))
            return errmsg_set(why, -ENXIO, "cannot be written: nobody reads the pipe %s", path);
        return file->fd < 0 ? refuse(why, -errno, path) : 0;
    }
    if (realpath(path, file->place) == NULL)
        return refuse(why, -errno, path);
    if (faccessat(AT_FDCWD, file->place, W_OK, AT_EACCESS) != 0)
        return refuse(why, -errno, path);
    int error = try_removal(file->place);
    if (error != 0)
        return errmsg_set(why, error, "cannot be written: %s cannot be replaced: %s", path,
                          strerrordesc_np(-error));
    return try_beside(file->place, why);
}

int output_file_open(struct output_file *file, const char *path, enum output_use use,
                     struct errmsg *why)
{
    *file = (struct output_file){.path = path, .fd = -1};
    if (path[0] == '\0')
        return errmsg_set(why, -EINVAL, "must not be empty");
    file->exists = stat(path, &file->status) == 0;
    if (file->exists)
        return open_existing(file, use, why);
    if (errno != ENOENT)
        return refuse(why, -errno, path);
    int error = follow_links(path, file->place, why);
    return error != 0 ? error : try_beside(file->place, why);
}

void output_file_close(struct output_file *file)
{
    if (file->fd >= 0)
        (void)close(file->fd); /* What was written to it has been looked at. */
    file->fd = -1;
}

/* --- writing --- */

/* Gives the temporary file the mode of the file that it replaces, or the one that open() would have
 * given it. Not every file system has modes: a report with another mode is better than none. */
static void copy_mode(int fd, const char *place)
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
    (void)fchmod(fd, mode);
}

static int write_beside(const char *place, const char *bytes, size_t size)
{
    char beside[BESIDE_BYTES];
    int fd = make_beside(place, beside);
    if (fd < 0)
        return fd;
    copy_mode(fd, place);
    int error = output_write(fd, bytes, size);
    if (close(fd) != 0 && error == 0)
        error = -errno;
    if (error == 0 && rename(beside, place) != 0)
        error = -errno;
    if (error != 0)
        (void)unlink(beside); /* The first error is the one to report. */
    return error;
}

int output_file_write(struct output_file *file, const char *bytes, size_t size, struct errmsg *why)
{
    int error = 0;
    if (file->fd < 0) {
        error = write_beside(file->place, bytes, size);
    } else {
        error = output_write(file->fd, bytes, size);
        if (close(file->fd) != 0 && error == 0)
            error = -errno;
        file->fd = -1;
    }
    return error == 0 ? 0 : refuse(why, error, file->path);
}

/* --- which file it is --- */

bool output_file_is(const struct output_file *file, const struct stat *status)
{
    return file->exists && !S_ISCHR(status->st_mode) && file->status.st_dev == status->st_dev &&
           file->status.st_ino == status->st_ino;
}

bool output_file_is_same(const struct output_file *a, const struct output_file *b)
{
    if (a->exists && b->exists)
        return output_file_is(a, &b->status);
    return !a->exists && !b->exists && strcmp(a->place, b->place) == 0;
}
