/*
 * fault_vfs: see fault_vfs.h. Here are SQLite's methods and the locks; fault_rules.c says what
 * fails, fault_damage.c has the bytes of files.
 */
#include "tests/lib/fault_vfs.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/fault_vfs_state.h"

/* What every device of the unix VFS says unless a URI denies it. */
enum { SECTOR_BYTES = 4096, PATH_BYTES_MAX = 512 };

static struct fault_handle *enter(sqlite3_file *file)
{
    struct fault_handle *h = (struct fault_handle *)file;
    (void)pthread_mutex_lock(&h->vfs->mutex);
    return h;
}

static int leave(struct fault_handle *h, int code)
{
    (void)pthread_mutex_unlock(&h->vfs->mutex);
    return code;
}

static bool handle_goes_ahead(struct fault_handle *h, enum fault_calls call, struct fault_rule *due,
                              int *code)
{
    bool ahead = fault_vfs_goes_ahead(h->vfs, h->file, call, due, code);
    if (*code != SQLITE_OK) /* the unix VFS tells no errno with SQLITE_FULL */
        h->last_errno = *code == SQLITE_FULL ? 0 : h->vfs->last_errno;
    return ahead;
}

/* --- a file's methods --- */

static int handle_close(sqlite3_file *file)
{
    struct fault_handle *h = enter(file);
    struct sim_file *closed = h->file;
    if (closed != NULL) {
        list_remove(&h->link);
        h->file = NULL;
        closed->opens_count--;
        if (h->deletes_on_close && !closed->is_deleted)
            sim_disk_delete(&h->vfs->disk, closed); /* ends it, if it has no name */
        else
            sim_disk_release(&h->vfs->disk, closed);
    }
    return leave(h, SQLITE_OK);
}

static int handle_read(sqlite3_file *file, void *bytes, int size, sqlite3_int64 offset)
{
    struct fault_handle *h = enter(file);
    struct fault_rule due;
    int code;
    if (handle_goes_ahead(h, FAULT_READ, &due, &code)) {
        size_t got = sim_file_read(h->file, (uint64_t)offset, bytes, (size_t)size);
        if (got < (size_t)size) {
            memset((char *)bytes + got, 0, (size_t)size - got);
            code = SQLITE_IOERR_SHORT_READ;
        }
    }
    return leave(h, code);
}

static int handle_write(sqlite3_file *file, const void *bytes, int size, sqlite3_int64 offset)
{
    struct fault_handle *h = enter(file);
    struct fault_rule due;
    int code;
    size_t part = (size_t)size;
    bool ahead = handle_goes_ahead(h, FAULT_WRITE, &due, &code);
    if (!ahead) {
        struct prng p = prng_stream(due.seed, 0, PRNG_TEST, 4);
        part = due.is_partial && size > 1 ? 1 + prng_below(&p, (uint64_t)size - 1) : 0;
    }
    if (h->file != NULL && part > 0) {
        if (sim_file_write(h->file, (uint64_t)offset, bytes, part) != 0)
            code = fault_vfs_fail(h->vfs, SQLITE_FULL, ENOSPC);
        else
            h->vfs->written_bytes[__builtin_ctz(h->file->kind)] += part;
    }
    return leave(h, code);
}

static int handle_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    struct fault_handle *h = enter(file);
    struct fault_rule due;
    int code;
    if (handle_goes_ahead(h, FAULT_TRUNCATE, &due, &code) &&
        sim_file_truncate(h->file, (uint64_t)size) != 0)
        code = fault_vfs_fail(h->vfs, SQLITE_IOERR_TRUNCATE, EFBIG);
    return leave(h, code);
}

static int handle_sync(sqlite3_file *file, int flags)
{
    (void)flags;
    struct fault_handle *h = enter(file);
    struct fault_rule due;
    int code;
    if (handle_goes_ahead(h, FAULT_SYNC, &due, &code))
        sim_file_sync(&h->vfs->disk, h->file);
    else if (h->file != NULL && due.loses_unsynced)
        sim_file_forget_changes(h->file);
    return leave(h, code);
}

static int handle_size(sqlite3_file *file, sqlite3_int64 *size)
{
    struct fault_handle *h = enter(file);
    if (h->file == NULL)
        return leave(h, fault_vfs_fail(h->vfs, SQLITE_IOERR_FSTAT, EIO));
    *size = (sqlite3_int64)h->file->seen.size;
    return leave(h, SQLITE_OK);
}

/* The highest lock that others hold on the file of `h`. */
static int lock_of_others(const struct fault_handle *h)
{
    int highest = SQLITE_LOCK_NONE;
    for (struct list *at = h->vfs->handles.next; at != &h->vfs->handles; at = at->next) {
        const struct fault_handle *other = container_of(at, struct fault_handle, link);
        if (other != h && other->file == h->file && other->lock > highest)
            highest = other->lock;
    }
    return highest;
}

/* Many may share, one may be about to write (reserved), it waits for readers to leave (pending, and
 * no more come), then it is alone (exclusive). */
static int handle_lock(sqlite3_file *file, int level)
{
    struct fault_handle *h = enter(file);
    if (h->file == NULL)
        return leave(h, fault_vfs_fail(h->vfs, SQLITE_IOERR_LOCK, EIO));
    if (h->lock >= level)
        return leave(h, SQLITE_OK);
    int others = lock_of_others(h);
    int barrier = level == SQLITE_LOCK_SHARED ? SQLITE_LOCK_PENDING : SQLITE_LOCK_RESERVED;
    if (others >= barrier)
        return leave(h, SQLITE_BUSY);
    if (level == SQLITE_LOCK_EXCLUSIVE && others >= SQLITE_LOCK_SHARED) {
        h->lock = SQLITE_LOCK_PENDING;
        return leave(h, SQLITE_BUSY);
    }
    h->lock = level;
    return leave(h, SQLITE_OK);
}

static int handle_unlock(sqlite3_file *file, int level)
{
    struct fault_handle *h = enter(file);
    if (h->lock > level)
        h->lock = level;
    return leave(h, SQLITE_OK);
}

static int handle_check_reserved_lock(sqlite3_file *file, int *result)
{
    struct fault_handle *h = enter(file);
    if (h->file == NULL)
        return leave(h, fault_vfs_fail(h->vfs, SQLITE_IOERR_CHECKRESERVEDLOCK, EIO));
    *result = h->lock >= SQLITE_LOCK_RESERVED || lock_of_others(h) >= SQLITE_LOCK_RESERVED;
    return leave(h, SQLITE_OK);
}

static int handle_control(sqlite3_file *file, int op, void *arg)
{
    struct fault_handle *h = enter(file);
    int *value = arg;
    int code = SQLITE_OK;
    if (op == SQLITE_FCNTL_LAST_ERRNO) {
        *value = h->last_errno;
    } else if (op == SQLITE_FCNTL_LOCKSTATE) {
        *value = h->lock;
    } else if (op == SQLITE_FCNTL_PERSIST_WAL) {
        if (*value < 0)
            *value = h->keeps_wal;
        else
            h->keeps_wal = *value != 0;
    } else {
        code = SQLITE_NOTFOUND;
    }
    return leave(h, code);
}

static int handle_sector_size(sqlite3_file *file)
{
    (void)file;
    return SECTOR_BYTES;
}

static int handle_device_characteristics(sqlite3_file *file)
{
    (void)file;
    return SQLITE_IOCAP_POWERSAFE_OVERWRITE;
}

static const sqlite3_io_methods handle_methods = {
    .iVersion = 1,
    .xClose = handle_close,
    .xRead = handle_read,
    .xWrite = handle_write,
    .xTruncate = handle_truncate,
    .xSync = handle_sync,
    .xFileSize = handle_size,
    .xLock = handle_lock,
    .xUnlock = handle_unlock,
    .xCheckReservedLock = handle_check_reserved_lock,
    .xFileControl = handle_control,
    .xSectorSize = handle_sector_size,
    .xDeviceCharacteristics = handle_device_characteristics,
};

/* --- the VFS's methods --- */

static struct fault_vfs *enter_vfs(sqlite3_vfs *base)
{
    struct fault_vfs *vfs = (struct fault_vfs *)base;
    (void)pthread_mutex_lock(&vfs->mutex);
    return vfs;
}

static int leave_vfs(struct fault_vfs *vfs, int code)
{
    (void)pthread_mutex_unlock(&vfs->mutex);
    return code;
}

static unsigned kind_of(int flags)
{
    if ((flags & SQLITE_OPEN_MAIN_DB) != 0)
        return FAULT_MAIN;
    if ((flags & SQLITE_OPEN_WAL) != 0)
        return FAULT_WAL;
    bool is_journal = (flags & (SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_SUPER_JOURNAL)) != 0;
    return is_journal ? FAULT_JOURNAL : FAULT_TEMPORARY;
}

/* Finds or makes what is opened; NULL if that fails. */
static struct sim_file *take(struct fault_vfs *vfs, const char *name, int flags, int *code)
{
    const struct sim_file asked = {.kind = kind_of(flags), .path = (char *)name};
    struct fault_rule due;
    *code = fault_vfs_fail(vfs, SQLITE_CANTOPEN, EIO);
    if (vfs->is_off || !fault_vfs_goes_ahead(vfs, &asked, FAULT_OPEN, &due, code))
        return NULL;
    struct sim_file *file = name != NULL ? sim_disk_find(&vfs->disk, name) : NULL;
    if (file == NULL && (flags & SQLITE_OPEN_CREATE) == 0) {
        *code = fault_vfs_fail(vfs, SQLITE_CANTOPEN, ENOENT);
    } else if (file != NULL && (flags & SQLITE_OPEN_EXCLUSIVE) != 0) {
        *code = fault_vfs_fail(vfs, SQLITE_CANTOPEN, EEXIST);
        file = NULL;
    } else if (file == NULL) {
        file = sim_disk_create(&vfs->disk, name);
        if (file == NULL)
            *code = fault_vfs_fail(vfs, SQLITE_CANTOPEN, ENFILE);
    }
    if (file == NULL)
        return NULL;
    file->kind = asked.kind;
    /* The unix VFS syncs the folder with the first sync of a journal that it may have made. */
    if ((flags & SQLITE_OPEN_CREATE) != 0 && (asked.kind & (FAULT_WAL | FAULT_JOURNAL)) != 0)
        file->syncs_its_folder = true;
    return file;
}

static int vfs_open(sqlite3_vfs *base, const char *name, sqlite3_file *file, int flags,
                    int *flags_out)
{
    struct fault_vfs *vfs = enter_vfs(base);
    struct fault_handle *h = (struct fault_handle *)file;
    int code = SQLITE_OK;
    *h = (struct fault_handle){.vfs = vfs};
    h->file = take(vfs, name, flags, &code);
    if (h->file == NULL)
        return leave_vfs(vfs, code);
    h->file->opens_count++;
    h->deletes_on_close = (flags & SQLITE_OPEN_DELETEONCLOSE) != 0 || name == NULL;
    h->base.pMethods = &handle_methods;
    list_push_back(&vfs->handles, &h->link);
    if (flags_out != NULL)
        *flags_out = flags;
    return leave_vfs(vfs, code);
}

static int vfs_delete(sqlite3_vfs *base, const char *name, int sync_folder)
{
    struct fault_vfs *vfs = enter_vfs(base);
    struct fault_rule due;
    int code;
    if (vfs->is_off)
        return leave_vfs(vfs, fault_vfs_fail(vfs, SQLITE_IOERR_DELETE, EIO));
    struct sim_file *file = sim_disk_find(&vfs->disk, name);
    if (file == NULL)
        return leave_vfs(vfs, fault_vfs_fail(vfs, SQLITE_IOERR_DELETE_NOENT, ENOENT));
    if (fault_vfs_goes_ahead(vfs, file, FAULT_DELETE, &due, &code)) {
        sim_disk_delete(&vfs->disk, file);
        if (sync_folder != 0)
            sim_disk_sync_folder(&vfs->disk, name);
    }
    return leave_vfs(vfs, code);
}

static int vfs_access(sqlite3_vfs *base, const char *name, int flags, int *result)
{
    struct fault_vfs *vfs = enter_vfs(base);
    if (vfs->is_off)
        return leave_vfs(vfs, fault_vfs_fail(vfs, SQLITE_IOERR_ACCESS, EIO));
    const struct sim_file *file = sim_disk_find(&vfs->disk, name);
    /* An empty file does not exist for whoever asks whether it does, as in the unix VFS. */
    *result = file != NULL && (flags != SQLITE_ACCESS_EXISTS || file->seen.size > 0);
    return leave_vfs(vfs, SQLITE_OK);
}

static int vfs_full_path(sqlite3_vfs *base, const char *name, int size, char *path)
{
    (void)base;
    (void)sqlite3_snprintf(size, path, "%s", name);
    return SQLITE_OK;
}

static int vfs_randomness(sqlite3_vfs *base, int size, char *bytes)
{
    struct fault_vfs *vfs = enter_vfs(base);
    for (int i = 0; i < size; i++)
        bytes[i] = (char)prng_next(&vfs->random);
    return leave_vfs(vfs, size);
}

static int vfs_sleep(sqlite3_vfs *base, int duration_us)
{
    sqlite3_vfs *below = ((struct fault_vfs *)base)->below;
    return below->xSleep(below, duration_us);
}

static int vfs_current_time(sqlite3_vfs *base, double *days)
{
    sqlite3_vfs *below = ((struct fault_vfs *)base)->below;
    return below->xCurrentTime(below, days);
}

static int vfs_last_error(sqlite3_vfs *base, int size, char *text)
{
    (void)size;
    (void)text;
    struct fault_vfs *vfs = enter_vfs(base);
    return leave_vfs(vfs, vfs->last_errno);
}

struct fault_vfs *fault_vfs_install(void)
{
    sqlite3_vfs *below = sqlite3_vfs_find(NULL);
    struct fault_vfs *vfs = calloc(1, sizeof(*vfs));
    if (below == NULL || vfs == NULL || pthread_mutex_init(&vfs->mutex, NULL) != 0) {
        free(vfs);
        return NULL;
    }
    vfs->below = below;
    sim_disk_init(&vfs->disk);
    list_init(&vfs->handles);
    vfs->base = (sqlite3_vfs){
        .iVersion = 1,
        .szOsFile = (int)sizeof(struct fault_handle),
        .mxPathname = PATH_BYTES_MAX,
        .zName = "bench-fault",
        .xOpen = vfs_open,
        .xDelete = vfs_delete,
        .xAccess = vfs_access,
        .xFullPathname = vfs_full_path,
        .xRandomness = vfs_randomness,
        .xSleep = vfs_sleep,
        .xCurrentTime = vfs_current_time,
        .xGetLastError = vfs_last_error,
    };
    if (sqlite3_vfs_register(&vfs->base, 1) != SQLITE_OK) {
        (void)pthread_mutex_destroy(&vfs->mutex);
        free(vfs);
        return NULL;
    }
    fault_vfs_reset(vfs, 1);
    return vfs;
}

void fault_vfs_uninstall(struct fault_vfs *vfs)
{
    assert(list_empty(&vfs->handles));
    (void)sqlite3_vfs_unregister(&vfs->base);
    (void)sqlite3_vfs_register(vfs->below, 1); /* else any other would be the default */
    sim_disk_clear(&vfs->disk);
    (void)pthread_mutex_destroy(&vfs->mutex);
    free(vfs);
}
