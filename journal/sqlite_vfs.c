/* sqlite_vfs: see sqlite_vfs.h. */
#include "journal/sqlite_vfs.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>

#include "engine/base/clock.h"

/* SQLite allocates it with the VFS below's own file behind it. The methods are a copy a file,
 * because what a file can do (shared memory, mappings) is for the file below to say. */
struct file {
    sqlite3_file file; /* first: SQLite hands a pointer to it back */
    sqlite3_io_methods methods;
    struct sqlite_io *io;
    sqlite3_file *below;
    enum sqlite_file_kind kind;
};
static_assert(sizeof(struct file) % 8 == 0, "the file below must be aligned");

static struct file *file_of(sqlite3_file *file)
{
    return (struct file *)file;
}

static sqlite3_vfs *below_of(sqlite3_vfs *vfs)
{
    return ((struct sqlite_vfs *)vfs)->below;
}

static int passed(struct file *f, const char *call, int code)
{
    if (code == SQLITE_OK || code == SQLITE_IOERR_SHORT_READ)
        return code;
    int system = 0;
    (void)f->below->pMethods->xFileControl(f->below, SQLITE_FCNTL_LAST_ERRNO, &system);
    f->io->failure =
        (struct sqlite_io_failure){.call = call, .kind = f->kind, .code = code, .system = system};
    return code;
}

/* --- a file's methods --- */

static int file_close(sqlite3_file *file)
{
    sqlite3_file *below = file_of(file)->below;
    return below->pMethods->xClose(below);
}

static int file_read(sqlite3_file *file, void *bytes, int size, sqlite3_int64 offset)
{
    struct file *f = file_of(file);
    return passed(f, "read", f->below->pMethods->xRead(f->below, bytes, size, offset));
}

static int file_write(sqlite3_file *file, const void *bytes, int size, sqlite3_int64 offset)
{
    struct file *f = file_of(file);
    struct sqlite_io_counts *counts = &f->io->counts[f->kind];
    int code = f->below->pMethods->xWrite(f->below, bytes, size, offset);
    sqlite_add(&counts->writes_count, 1);
    if (code == SQLITE_OK)
        sqlite_add(&counts->written_bytes, (uint64_t)size);
    return passed(f, "write", code);
}

static int file_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    struct file *f = file_of(file);
    return passed(f, "truncate", f->below->pMethods->xTruncate(f->below, size));
}

static int file_sync(sqlite3_file *file, int flags)
{
    struct file *f = file_of(file);
    struct sqlite_io_counts *counts = &f->io->counts[f->kind];
    uint64_t start_ns = clock_monotonic_ns();
    int code = f->below->pMethods->xSync(f->below, flags);
    sqlite_add(&counts->sync_ns, clock_monotonic_ns() - start_ns);
    sqlite_add(&counts->syncs_count, 1);
    return passed(f, "sync", code);
}

static int file_size(sqlite3_file *file, sqlite3_int64 *size)
{
    sqlite3_file *below = file_of(file)->below;
    return below->pMethods->xFileSize(below, size);
}

static int file_lock(sqlite3_file *file, int level)
{
    sqlite3_file *below = file_of(file)->below;
    return below->pMethods->xLock(below, level);
}

static int file_unlock(sqlite3_file *file, int level)
{
    sqlite3_file *below = file_of(file)->below;
    return below->pMethods->xUnlock(below, level);
}

static int file_check_reserved_lock(sqlite3_file *file, int *result)
{
    sqlite3_file *below = file_of(file)->below;
    return below->pMethods->xCheckReservedLock(below, result);
}

static int file_control(sqlite3_file *file, int op, void *arg)
{
    sqlite3_file *below = file_of(file)->below;
    return below->pMethods->xFileControl(below, op, arg);
}

static int file_sector_size(sqlite3_file *file)
{
    sqlite3_file *below = file_of(file)->below;
    return below->pMethods->xSectorSize(below);
}

static int file_device_characteristics(sqlite3_file *file)
{
    sqlite3_file *below = file_of(file)->below;
    return below->pMethods->xDeviceCharacteristics(below);
}

static int file_shm_map(sqlite3_file *file, int region, int size, int extend,
                        void volatile **memory)
{
    sqlite3_file *below = file_of(file)->below;
    return below->pMethods->xShmMap(below, region, size, extend, memory);
}

static int file_shm_lock(sqlite3_file *file, int offset, int count, int flags)
{
    sqlite3_file *below = file_of(file)->below;
    return below->pMethods->xShmLock(below, offset, count, flags);
}

static void file_shm_barrier(sqlite3_file *file)
{
    sqlite3_file *below = file_of(file)->below;
    below->pMethods->xShmBarrier(below);
}

static int file_shm_unmap(sqlite3_file *file, int must_delete)
{
    sqlite3_file *below = file_of(file)->below;
    return below->pMethods->xShmUnmap(below, must_delete);
}

static int file_fetch(sqlite3_file *file, sqlite3_int64 offset, int size, void **memory)
{
    sqlite3_file *below = file_of(file)->below;
    return below->pMethods->xFetch(below, offset, size, memory);
}

static int file_unfetch(sqlite3_file *file, sqlite3_int64 offset, void *memory)
{
    sqlite3_file *below = file_of(file)->below;
    return below->pMethods->xUnfetch(below, offset, memory);
}

static const sqlite3_io_methods file_methods = {
    .iVersion = 3,
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
    .xShmMap = file_shm_map,
    .xShmLock = file_shm_lock,
    .xShmBarrier = file_shm_barrier,
    .xShmUnmap = file_shm_unmap,
    .xFetch = file_fetch,
    .xUnfetch = file_unfetch,
};

/* --- the VFS's methods --- */

static enum sqlite_file_kind kind_of(int flags)
{
    if ((flags & SQLITE_OPEN_MAIN_DB) != 0)
        return SQLITE_FILE_MAIN;
    return (flags & SQLITE_OPEN_WAL) != 0 ? SQLITE_FILE_WAL : SQLITE_FILE_OTHER;
}

static int vfs_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags,
                    int *flags_out)
{
    struct file *f = file_of(file);
    sqlite3_vfs *below = below_of(vfs);
    *f = (struct file){.methods = file_methods,
                       .io = ((struct sqlite_vfs *)vfs)->io,
                       .below = (sqlite3_file *)(f + 1),
                       .kind = kind_of(flags)};
    f->below->pMethods = NULL;
    int code = below->xOpen(below, name, f->below, flags, flags_out);
    const sqlite3_io_methods *has = f->below->pMethods;
    if (has == NULL)
        return code; /* nothing to close: ours stay NULL, too */
    if (has->iVersion < f->methods.iVersion)
        f->methods.iVersion = has->iVersion;
    /* SQLite takes a missing xShmMap for a VFS without shared memory. */
    if (has->iVersion >= 2 && has->xShmMap == NULL)
        f->methods.xShmMap = NULL;
    f->file.pMethods = &f->methods;
    return code;
}

static int vfs_delete(sqlite3_vfs *vfs, const char *name, int sync_folder)
{
    return below_of(vfs)->xDelete(below_of(vfs), name, sync_folder);
}

static int vfs_access(sqlite3_vfs *vfs, const char *name, int flags, int *result)
{
    return below_of(vfs)->xAccess(below_of(vfs), name, flags, result);
}

static int vfs_full_path(sqlite3_vfs *vfs, const char *name, int size, char *path)
{
    return below_of(vfs)->xFullPathname(below_of(vfs), name, size, path);
}

static void *vfs_dl_open(sqlite3_vfs *vfs, const char *path)
{
    return below_of(vfs)->xDlOpen(below_of(vfs), path);
}

static void vfs_dl_error(sqlite3_vfs *vfs, int size, char *text)
{
    below_of(vfs)->xDlError(below_of(vfs), size, text);
}

static void (*vfs_dl_symbol(sqlite3_vfs *vfs, void *library, const char *symbol))(void)
{
    return below_of(vfs)->xDlSym(below_of(vfs), library, symbol);
}

static void vfs_dl_close(sqlite3_vfs *vfs, void *library)
{
    below_of(vfs)->xDlClose(below_of(vfs), library);
}

static int vfs_randomness(sqlite3_vfs *vfs, int size, char *bytes)
{
    return below_of(vfs)->xRandomness(below_of(vfs), size, bytes);
}

static int vfs_sleep(sqlite3_vfs *vfs, int duration_us)
{
    return below_of(vfs)->xSleep(below_of(vfs), duration_us);
}

static int vfs_current_time(sqlite3_vfs *vfs, double *days)
{
    return below_of(vfs)->xCurrentTime(below_of(vfs), days);
}

static int vfs_last_error(sqlite3_vfs *vfs, int size, char *text)
{
    return below_of(vfs)->xGetLastError(below_of(vfs), size, text);
}

static int vfs_current_time_ms(sqlite3_vfs *vfs, sqlite3_int64 *time_ms)
{
    return below_of(vfs)->xCurrentTimeInt64(below_of(vfs), time_ms);
}

int sqlite_vfs_register(struct sqlite_vfs *vfs, struct sqlite_io *io, struct errmsg *why)
{
    sqlite3_vfs *below = sqlite3_vfs_find(NULL);
    if (below == NULL)
        return errmsg_set(why, -EIO, "SQLite has no VFS");
    *vfs = (struct sqlite_vfs){.below = below, .io = io};
    /* The address is unique as long as the struct is registered. */
    (void)snprintf(vfs->name, sizeof(vfs->name), "bench-%p", (void *)vfs);
    vfs->vfs = (sqlite3_vfs){
        .iVersion = below->iVersion < 2 ? below->iVersion : 2, /* 3 is for SQLite's own tests */
        .szOsFile = (int)sizeof(struct file) + below->szOsFile,
        .mxPathname = below->mxPathname,
        .zName = vfs->name,
        .xOpen = vfs_open,
        .xDelete = vfs_delete,
        .xAccess = vfs_access,
        .xFullPathname = vfs_full_path,
        .xDlOpen = vfs_dl_open,
        .xDlError = vfs_dl_error,
        .xDlSym = vfs_dl_symbol,
        .xDlClose = vfs_dl_close,
        .xRandomness = vfs_randomness,
        .xSleep = vfs_sleep,
        .xCurrentTime = vfs_current_time,
        .xGetLastError = vfs_last_error,
        .xCurrentTimeInt64 = vfs_current_time_ms,
    };
    int code = sqlite3_vfs_register(&vfs->vfs, 0);
    if (code != SQLITE_OK)
        return errmsg_set(why, -EIO, "registering a VFS: %s", sqlite3_errstr(code));
    return 0;
}

void sqlite_vfs_unregister(struct sqlite_vfs *vfs)
{
    (void)sqlite3_vfs_unregister(&vfs->vfs); /* fails only where registering would have, too */
}

const char *sqlite_file_kind_name(enum sqlite_file_kind kind)
{
    switch (kind) {
    case SQLITE_FILE_MAIN:
        return "database";
    case SQLITE_FILE_WAL:
        return "WAL";
    case SQLITE_FILE_OTHER:
        return "journal";
    case SQLITE_FILE_KINDS:
        break;
    }
    return "file";
}
