/* sqlite_audit: see sqlite_audit.h. */
#include "journal/sqlite_audit.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

/* SQLite allocates it with the VFS below's own file behind it. */
struct file {
    sqlite3_file file;   /* first: SQLite hands a pointer to it back */
    sqlite3_file *below; /* NULL: the file is not there, and read as empty */
};
static_assert(sizeof(struct file) % 8 == 0, "the file below must be aligned");

static sqlite3_file *below_of(sqlite3_file *file)
{
    return ((struct file *)file)->below;
}

/* --- a file's methods --- */

static int file_close(sqlite3_file *file)
{
    sqlite3_file *below = below_of(file);
    return below == NULL ? SQLITE_OK : below->pMethods->xClose(below);
}

static int file_read(sqlite3_file *file, void *bytes, int size, sqlite3_int64 offset)
{
    sqlite3_file *below = below_of(file);
    if (below != NULL)
        return below->pMethods->xRead(below, bytes, size, offset);
    memset(bytes, 0, (size_t)size);
    return SQLITE_IOERR_SHORT_READ;
}

static int file_write(sqlite3_file *file, const void *bytes, int size, sqlite3_int64 offset)
{
    (void)file;
    (void)bytes;
    (void)size;
    (void)offset;
    return SQLITE_READONLY;
}

static int file_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    (void)file;
    (void)size;
    return SQLITE_READONLY;
}

/* There is nothing to be synced. */
static int file_sync(sqlite3_file *file, int flags)
{
    (void)file;
    (void)flags;
    return SQLITE_OK;
}

static int file_size(sqlite3_file *file, sqlite3_int64 *size)
{
    sqlite3_file *below = below_of(file);
    *size = 0;
    return below == NULL ? SQLITE_OK : below->pMethods->xFileSize(below, size);
}

static int file_lock(sqlite3_file *file, int level)
{
    sqlite3_file *below = below_of(file);
    if (below == NULL || level > SQLITE_LOCK_SHARED)
        return SQLITE_OK; /* SQLite has had the shared lock before */
    return below->pMethods->xLock(below, level);
}

static int file_unlock(sqlite3_file *file, int level)
{
    sqlite3_file *below = below_of(file);
    return below == NULL ? SQLITE_OK : below->pMethods->xUnlock(below, level);
}

static int file_check_reserved_lock(sqlite3_file *file, int *result)
{
    sqlite3_file *below = below_of(file);
    *result = 0;
    return below == NULL ? SQLITE_OK : below->pMethods->xCheckReservedLock(below, result);
}

static int file_control(sqlite3_file *file, int op, void *arg)
{
    (void)file;
    (void)op;
    (void)arg;
    return SQLITE_NOTFOUND;
}

static int file_sector_size(sqlite3_file *file)
{
    sqlite3_file *below = below_of(file);
    return below == NULL ? 0 : below->pMethods->xSectorSize(below);
}

static int file_device_characteristics(sqlite3_file *file)
{
    sqlite3_file *below = below_of(file);
    return below == NULL ? 0 : below->pMethods->xDeviceCharacteristics(below);
}

/* Version 1: neither shared memory, so that the index of the WAL is on the heap, nor mappings,
 * which would end the process when a file is cut short under it. */
static const sqlite3_io_methods file_methods = {
    .iVersion = 1,
    .xClose = file_close,
    .xRead = file_read,
    .xWrite = file_write,
    .xTruncate = file_truncate,
    .xSync = file_sync,
    .xFileSize = file_size,
    .xLock = file_lock,
    .xUnlock = file_unlock,
    .xCheckReservedLock = file_check_reserved_lock,
    .xFileControl = file_control,
    .xSectorSize = file_sector_size,
    .xDeviceCharacteristics = file_device_characteristics,
};

/* --- the VFS's methods: those that are not here are the VFS below's own --- */

static int vfs_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags,
                    int *flags_out)
{
    sqlite3_vfs *below = ((struct sqlite_audit_vfs *)vfs)->below;
    struct file *f = (struct file *)file;
    int is_there = 1;

    f->file.pMethods = NULL;
    f->below = (sqlite3_file *)(f + 1);
    f->below->pMethods = NULL;
    flags = (flags & ~(SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE)) | SQLITE_OPEN_READONLY;
    if ((flags & SQLITE_OPEN_WAL) != 0)
        (void)below->xAccess(below, name, SQLITE_ACCESS_EXISTS, &is_there);
    int code = SQLITE_OK;
    if (!is_there)
        f->below = NULL;
    else
        code = below->xOpen(below, name, f->below, flags, NULL);
    if (flags_out != NULL)
        *flags_out = flags;
    if (code == SQLITE_OK)
        f->file.pMethods = &file_methods;
    else if (f->below->pMethods != NULL)
        (void)f->below->pMethods->xClose(f->below); /* the reason is known already */
    return code;
}

static int vfs_delete(sqlite3_vfs *vfs, const char *name, int sync_folder)
{
    (void)vfs;
    (void)name;
    (void)sync_folder;
    return SQLITE_READONLY;
}

static int vfs_access(sqlite3_vfs *vfs, const char *name, int flags, int *result)
{
    sqlite3_vfs *below = ((struct sqlite_audit_vfs *)vfs)->below;
    return below->xAccess(below, name, flags, result);
}

static int vfs_full_path(sqlite3_vfs *vfs, const char *name, int size, char *path)
{
    sqlite3_vfs *below = ((struct sqlite_audit_vfs *)vfs)->below;
    return below->xFullPathname(below, name, size, path);
}

static int vfs_randomness(sqlite3_vfs *vfs, int size, char *bytes)
{
    sqlite3_vfs *below = ((struct sqlite_audit_vfs *)vfs)->below;
    return below->xRandomness(below, size, bytes);
}

static int vfs_sleep(sqlite3_vfs *vfs, int duration_us)
{
    sqlite3_vfs *below = ((struct sqlite_audit_vfs *)vfs)->below;
    return below->xSleep(below, duration_us);
}

static int vfs_current_time(sqlite3_vfs *vfs, double *days)
{
    sqlite3_vfs *below = ((struct sqlite_audit_vfs *)vfs)->below;
    return below->xCurrentTime(below, days);
}

static int vfs_last_error(sqlite3_vfs *vfs, int size, char *text)
{
    sqlite3_vfs *below = ((struct sqlite_audit_vfs *)vfs)->below;
    return below->xGetLastError(below, size, text);
}

int sqlite_audit_vfs_register(struct sqlite_audit_vfs *vfs, struct errmsg *why)
{
    sqlite3_vfs *below = sqlite3_vfs_find(NULL);
    if (below == NULL)
        return errmsg_set(why, -EIO, "SQLite has no VFS");
    *vfs = (struct sqlite_audit_vfs){.below = below};
    /* The address is unique as long as the struct is registered. */
    (void)snprintf(vfs->name, sizeof(vfs->name), "audit-%p", (void *)vfs);
    vfs->vfs = (sqlite3_vfs){
        .iVersion = 1,
        .szOsFile = (int)sizeof(struct file) + below->szOsFile,
        .mxPathname = below->mxPathname,
        .zName = vfs->name,
        .xOpen = vfs_open,
        .xDelete = vfs_delete,
        .xAccess = vfs_access,
        .xFullPathname = vfs_full_path,
        .xRandomness = vfs_randomness,
        .xSleep = vfs_sleep,
        .xCurrentTime = vfs_current_time,
        .xGetLastError = vfs_last_error,
    };
    int code = sqlite3_vfs_register(&vfs->vfs, 0);
    if (code != SQLITE_OK)
        return errmsg_set(why, -EIO, "registering a VFS: %s", sqlite3_errstr(code));
    return 0;
}

void sqlite_audit_vfs_unregister(struct sqlite_audit_vfs *vfs)
{
    (void)sqlite3_vfs_unregister(&vfs->vfs); /* fails only where registering would have, too */
}
