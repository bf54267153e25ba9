/*
 * fault_vfs: SQLite's files on a disk in memory (sim_disk.h), which fails and loses power to order.
 *
 * Installed, it is SQLite's default VFS, so that the code under test uses it without knowing, by
 * any path (folders need not exist; nothing but SQLite may look for the files). It has locks
 * between connections of the process and no shared memory: WAL works in
 * `PRAGMA locking_mode=EXCLUSIVE` only, which must be set before the first access. It claims what
 * the unix VFS claims (powersafe overwrite, sectors of 4096 bytes), and its randomness is seeded by
 * fault_vfs_reset(), so that one thread's run is the same every time.
 *
 * After a power cut or a kill the power is off: whatever is still open fails, and so does opening.
 * Close what is open (it changes nothing any more), then fault_vfs_power_on().
 *
 * Ownership: install allocates, uninstall frees; one is installed at a time. Everything opened in
 * it is closed before uninstall. Threading: any thread, one mutex. Errors: 0 or -errno; NULL where
 * SQLite cannot be had. A path in this interface is a full one.
 */
#ifndef BENCH_TESTS_LIB_FAULT_VFS_H
#define BENCH_TESTS_LIB_FAULT_VFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Kinds of files, to be combined. */
enum fault_files {
    FAULT_MAIN = 1,
    FAULT_WAL = 2,
    FAULT_JOURNAL = 4,
    FAULT_TEMPORARY = 8,
    FAULT_ANY_FILE = 15,
};

/* Kinds of calls, to be combined. Looking (sizes, access, locks) is never counted. */
enum fault_calls {
    FAULT_READ = 1,
    FAULT_WRITE = 2,
    FAULT_TRUNCATE = 4,
    FAULT_SYNC = 8,
    FAULT_OPEN = 16,
    FAULT_DELETE = 32,
    FAULT_ANY_CHANGE = FAULT_WRITE | FAULT_TRUNCATE | FAULT_SYNC | FAULT_DELETE,
    FAULT_ANY_CALL = 63,
};

enum fault_effect {
    FAULT_EIO,       /* SQLITE_IOERR_*, or SQLITE_CANTOPEN */
    FAULT_FULL,      /* SQLITE_FULL for a write; else as FAULT_EIO with errno ENOSPC */
    FAULT_LIE,       /* success, and nothing is done: of changes only */
    FAULT_POWER_CUT, /* instead of the call */
};

enum { FAULT_RULES_MAX = 8 };

/* The `at`th call from now that the rule is about has the effect. */
struct fault_rule {
    unsigned files;      /* enum fault_files; 0 is any */
    unsigned calls;      /* enum fault_calls */
    const char *path;    /* of files whose path contains it; NULL is any. A constant */
    uint64_t at;         /* from 1, the next one */
    uint64_t seed;       /* of the power cut, or of where a write in part ends */
    bool is_sticky;      /* so do all later ones */
    bool is_partial;     /* of writes: a part, neither nothing nor all, is written before */
    bool loses_unsynced; /* of syncs that fail: no later sync writes it either, as on Linux */
    enum fault_effect effect;
};

struct fault_vfs;

struct fault_vfs *fault_vfs_install(void);
void fault_vfs_uninstall(struct fault_vfs *vfs);

/* No files, no rules, no counts, the power on. Nothing may be open. */
void fault_vfs_reset(struct fault_vfs *vfs, uint64_t seed);

/* Adds a rule; all of them count, and the first that is due has its effect. A rule that is not
 * sticky ends with it. */
void fault_vfs_set(struct fault_vfs *vfs, const struct fault_rule *rule);
void fault_vfs_clear_rules(struct fault_vfs *vfs);

/* What is not synced survives by chance, see sim_disk.h. */
void fault_vfs_power_cut(struct fault_vfs *vfs, uint64_t seed);
/* What a kill -9 of the process leaves: every write, and no lock. */
void fault_vfs_kill(struct fault_vfs *vfs);
void fault_vfs_power_on(struct fault_vfs *vfs);
bool fault_vfs_is_off(struct fault_vfs *vfs);

/* Calls since the reset, failed ones too, but none while the power is off. */
uint64_t fault_vfs_count(struct fault_vfs *vfs, unsigned files, unsigned calls);
uint64_t fault_vfs_written_bytes(struct fault_vfs *vfs, unsigned files);
/* How often a rule had its effect. */
uint64_t fault_vfs_fault_count(struct fault_vfs *vfs);
/* Of all files, equal for equal disks. */
uint64_t fault_vfs_digest(struct fault_vfs *vfs);

/* The bytes of files, for damage and for looking. A change by these is durable at once, and so is
 * all that the file had not synced. -ENOENT without such a file, -ERANGE beyond its end. */
int fault_vfs_size(struct fault_vfs *vfs, const char *path, uint64_t *size);
int fault_vfs_peek(struct fault_vfs *vfs, const char *path, uint64_t offset, void *bytes,
                   size_t size);
int fault_vfs_poke(struct fault_vfs *vfs, const char *path, uint64_t offset, const void *bytes,
                   size_t size);
int fault_vfs_flip(struct fault_vfs *vfs, const char *path, uint64_t offset); /* a byte's bits */
int fault_vfs_resize(struct fault_vfs *vfs, const char *path, uint64_t size);
/* Between the disk in memory and a real one. Copying in makes the file or replaces its bytes, and
 * syncs its folder. */
int fault_vfs_copy_in(struct fault_vfs *vfs, const char *real_path, const char *path);
int fault_vfs_copy_out(struct fault_vfs *vfs, const char *path, const char *real_path);

#endif
