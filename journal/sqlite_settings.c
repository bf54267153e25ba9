/* sqlite_settings: see sqlite_settings.h. */
#include "journal/sqlite_settings.h"

#include <linux/magic.h>
#include <stdio.h>
#include <sys/vfs.h>

#include "journal/backend.h"

/* Asked in this order; a pragma that answers with a number is told as the name that sets it. */
static const struct pragma {
    const char *key;
    const char *sql;
    const char *names[4];
} pragmas[] = {
    {"journal_mode", "PRAGMA journal_mode", {NULL}},
    {"synchronous", "PRAGMA synchronous", {"off", "normal", "full", "extra"}},
    {"locking_mode", "PRAGMA locking_mode", {NULL}},
    {"page_size", "PRAGMA page_size", {NULL}},
    {"cache_size", "PRAGMA cache_size", {NULL}},
};

static void read_pragma(struct sqlite_db *db, const struct pragma *pragma,
                        struct journal_settings *settings)
{
    sqlite3_stmt *statement = NULL;
    struct errmsg unused;
    if (sqlite_db_prepare(db, pragma->sql, &statement, &unused) != 0)
        return;
    if (sqlite3_step(statement) == SQLITE_ROW) {
        sqlite3_int64 number = sqlite3_column_int64(statement, 0);
        bool is_named = pragma->names[0] != NULL && number >= 0 && number < 4;
        const char *text = (const char *)sqlite3_column_text(statement, 0);
        journal_settings_add(settings, pragma->key, is_named ? pragma->names[number] : text);
    }
    (void)sqlite3_finalize(statement); /* repeats the failure of a step, if any */
}

/* As the kernel numbers them; ext2 to ext4 share a number. Not all of these are in its headers. */
static const struct {
    unsigned long magic;
    const char *name;
} filesystems[] = {
    {EXT4_SUPER_MAGIC, "ext2/ext3/ext4"},
    {XFS_SUPER_MAGIC, "xfs"},
    {BTRFS_SUPER_MAGIC, "btrfs"},
    {F2FS_SUPER_MAGIC, "f2fs"},
    {0x2fc12fc1, "zfs"},
    {0xca451a4e, "bcachefs"},
    {TMPFS_MAGIC, "tmpfs"},
    {RAMFS_MAGIC, "ramfs"},
    {OVERLAYFS_SUPER_MAGIC, "overlay"},
    {FUSE_SUPER_MAGIC, "fuse"},
    {NFS_SUPER_MAGIC, "nfs"},
    {CIFS_SUPER_MAGIC, "cifs"},
    {SMB2_SUPER_MAGIC, "smb2"},
    {V9FS_MAGIC, "9p"},
    {CEPH_SUPER_MAGIC, "ceph"},
};

static void read_filesystem(const char *path, struct journal_settings *settings)
{
    struct statfs disk;
    char number[32];
    if (statfs(path, &disk) != 0)
        return;
    /* The kernel's numbers have 32 bits; the type of the field is wider, and may be signed. */
    unsigned long magic = (unsigned long)disk.f_type & 0xffffffff;
    for (size_t i = 0; i < sizeof(filesystems) / sizeof(filesystems[0]); i++) {
        if (filesystems[i].magic == magic) {
            journal_settings_add(settings, "filesystem", filesystems[i].name);
            return;
        }
    }
    (void)snprintf(number, sizeof(number), "0x%lx", magic);
    journal_settings_add(settings, "filesystem", number);
}

void sqlite_settings_read(struct sqlite_db *db, struct journal_settings *settings)
{
    journal_settings_add(settings, "sqlite_version", sqlite3_libversion());
    for (size_t i = 0; i < sizeof(pragmas) / sizeof(pragmas[0]); i++)
        read_pragma(db, &pragmas[i], settings);
    read_filesystem(db->full, settings);
}
