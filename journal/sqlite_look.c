/* sqlite_look: see sqlite_look.h. */
#include "journal/sqlite_look.h"

#include <errno.h>
#include <limits.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "journal/sqlite_header.h"

/* What SQLite appends to a name at the most ("-journal"), and a shard's ending (".63"). */
enum { ENDINGS_BYTES = 8 + 3 };

static int check_header(const char *path, const struct sqlite_header *header, struct errmsg *why)
{
    if (!header->is_database)
        return errmsg_set(why, -EMEDIUMTYPE, SQLITE_PATH_SHOWN " is not a bench database", path);
    if (header->application_id != SQLITE_APPLICATION_ID)
        return errmsg_set(why, -EMEDIUMTYPE,
                          SQLITE_PATH_SHOWN " is not a bench database but another program's "
                                            "(SQLite, application_id %u)",
                          path, header->application_id);
    if (header->user_version != SQLITE_SCHEMA_VERSION)
        return errmsg_set(why, -EMEDIUMTYPE,
                          SQLITE_PATH_SHOWN " has schema version %u, this bench knows %d", path,
                          header->user_version, SQLITE_SCHEMA_VERSION);
    return 0;
}

/* The full path as SQLite will have it, symbolic links followed. */
static int find_full_path(const char *path, char full[SQLITE_PATH_BYTES], struct errmsg *why)
{
    sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
    if (vfs == NULL)
        return errmsg_set(why, -EIO, "SQLite has no VFS");
    size_t bytes = strlen(path);
    int bytes_max = vfs->mxPathname < PATH_MAX ? vfs->mxPathname : PATH_MAX;
    errno = 0;
    if (bytes < (size_t)bytes_max) {
        int code = vfs->xFullPathname(vfs, path, bytes_max + 1, full);
        if (code == SQLITE_OK || code == SQLITE_OK_SYMLINK)
            bytes = strlen(full);
        else if (errno != 0)
            return errmsg_set(why, -errno, SQLITE_PATH_SHOWN ": %s", path, strerror(errno));
        else
            bytes = SIZE_MAX;
    }
    if (bytes > (size_t)bytes_max - ENDINGS_BYTES)
        return errmsg_set(why, -ENAMETOOLONG,
                          "%.60s…: the full path is longer than SQLite's bound of %d bytes", path,
                          bytes_max - ENDINGS_BYTES);
    return 0;
}

/* What the system says about the path itself. 0 for a regular file, and for none. */
static int check_kind(const char *path, bool *is_there, struct errmsg *why)
{
    struct stat status;
    size_t bytes = strlen(path);
    *is_there = false;
    if (path[bytes - 1] == '/')
        return errmsg_set(why, -EISDIR, SQLITE_PATH_SHOWN ": %s", path, strerror(EISDIR));
    if (stat(path, &status) != 0) {
        if (errno == ENOENT || errno == ENAMETOOLONG) /* too long a name has its own text */
            return 0;
        return errmsg_set(why, -errno, SQLITE_PATH_SHOWN ": %s", path, strerror(errno));
    }
    *is_there = true;
    if (S_ISDIR(status.st_mode))
        return errmsg_set(why, -EISDIR, SQLITE_PATH_SHOWN ": %s", path, strerror(EISDIR));
    if (!S_ISREG(status.st_mode))
        return errmsg_set(why, -EINVAL, SQLITE_PATH_SHOWN " is not a regular file", path);
    return 0;
}

/* Reading a pipe or a device in the place of one of these would wait for ever. */
static int check_kinds_beside(const char *path, const char *full, struct errmsg *why)
{
    static const char *const endings[] = {"-wal", "-journal"};
    struct stat status;
    char name[SQLITE_PATH_BYTES + 16];
    for (unsigned i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
        (void)snprintf(name, sizeof(name), "%s%s", full, endings[i]);
        if (stat(name, &status) == 0 && !S_ISREG(status.st_mode))
            return errmsg_set(why, -EINVAL, SQLITE_PATH_SHOWN "%s is not a regular file", path,
                              endings[i]);
    }
    return 0;
}

int sqlite_look(const char *path, char full[SQLITE_PATH_BYTES], enum sqlite_look *found,
                struct errmsg *why)
{
    struct sqlite_header header;
    bool is_there = false;

    int error = sqlite3_initialize() == SQLITE_OK ? 0 : errmsg_set(why, -EIO, "SQLite has failed");
    if (error == 0)
        error = check_kind(path, &is_there, why);
    if (error == 0)
        error = find_full_path(path, full, why);
    if (error == 0)
        error = check_kinds_beside(path, full, why);
    if (error != 0)
        return error;

    /* SQLite has a file of size 0 for none. */
    bool is_new = !sqlite_file_exists(full, "");
    *found = is_there || !is_new ? SQLITE_LOOK_EMPTY : SQLITE_LOOK_ABSENT;
    if (is_new || sqlite_was_being_created(full)) {
        if (sqlite_file_exists(full, "-wal"))
            return errmsg_set(why, -EEXIST, SQLITE_PATH_SHOWN "-wal is there without its database",
                              path);
        return 0;
    }
    error = sqlite_header_read(full, &header);
    if (error != 0)
        return errmsg_set(why, error, SQLITE_PATH_SHOWN ": %s", path, strerror(-error));
    if (header.is_empty) /* it was emptied meanwhile */
        return 0;
    *found = SQLITE_LOOK_OURS;
    return check_header(path, &header, why);
}

int sqlite_look_for_reason(const char *full, int error)
{
    char folder[SQLITE_PATH_BYTES];
    if (access(full, F_OK) == 0)
        return access(full, R_OK | W_OK) != 0 ? -errno : error;
    (void)snprintf(folder, sizeof(folder), "%s", full);
    char *slash = strrchr(folder, '/');
    if (slash == NULL)
        return error;
    slash[slash == folder ? 1 : 0] = '\0';
    return access(folder, W_OK | X_OK) != 0 ? -errno : error;
}
