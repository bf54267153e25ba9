/*
 * sim_disk: files in memory that know what a power cut would leave of them.
 *
 * Each file has the bytes that programs see, the bytes that are durable, and the changes between
 * the two, in their order. A sync makes all of a file's changes durable. A power cut keeps the
 * durable bytes and, of each change since, all, nothing, or a part:
 *   - A write that was not synced may survive, be lost, or be torn at sectors of 512 bytes: a
 *     prefix, any subset of them, or a prefix with garbage behind it. Bytes outside the write are
 *     never touched (the powersafe overwrite that SQLite's unix VFS claims). A write that is lost
 *     may still have made the file longer, with zeros.
 *   - A truncation that was not synced survives or is lost, whatever becomes of the writes around
 *     it.
 *   - Of changes to the same byte the newest that survived wins, as in a page cache, which holds
 *     only the newest. Everything else may reach the disk in any order: that is what subsets are.
 *   - A new file's name survives if the file or its folder was ever synced, else by chance. A
 *     deleted file stays away if its folder or a new file of that name was synced since, else it
 *     comes back by chance.
 *
 * Ownership: the disk owns its files; a file is good until it is deleted and no longer open, or
 * until the next power cut, kill or clear. Threading: none. Errors: 0 or -errno; a disk without
 * room says -ENOSPC, and the test ends where the machine has no memory.
 */
#ifndef BENCH_TESTS_LIB_SIM_DISK_H
#define BENCH_TESTS_LIB_SIM_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of a file, and of what it has not synced. */
#define SIM_FILE_BYTES_MAX (UINT64_C(1) << 30)
enum { SIM_SECTOR_BYTES = 512, SIM_FILES_MAX = 256 };

struct sim_bytes {
    unsigned char *at;
    size_t size;
    size_t capacity;
};

struct sim_change;

struct sim_file {
    char *path; /* NULL for a file without a name, which no power cut survives */
    struct sim_bytes seen;
    struct sim_bytes durable;
    struct sim_change *changes; /* not synced, oldest first */
    size_t changes_count;
    size_t changes_capacity;
    uint64_t changes_bytes;
    unsigned opens_count;  /* the user's */
    unsigned kind;         /* the user's */
    bool is_name_durable;  /* a power cut leaves its name */
    bool is_deleted;       /* by its name it is not found, and yet it may come back */
    bool is_gone;          /* deleted for good */
    bool syncs_its_folder; /* with its first sync */
};

struct sim_disk {
    struct sim_file *files[SIM_FILES_MAX]; /* oldest first */
    size_t files_count;
};

void sim_disk_init(struct sim_disk *disk);
void sim_disk_clear(struct sim_disk *disk);

struct sim_file *sim_disk_find(const struct sim_disk *disk, const char *path);
/* NULL at the bound of files, deleted ones that may come back among them. */
struct sim_file *sim_disk_create(struct sim_disk *disk, const char *path);
void sim_disk_delete(struct sim_disk *disk, struct sim_file *file);
/* Makes names that were made or deleted in the folder of `path` durable. */
void sim_disk_sync_folder(struct sim_disk *disk, const char *path);
/* To be told when a file is no longer open: one that is deleted for good ends there. */
void sim_disk_release(struct sim_disk *disk, struct sim_file *file);

/* Leaves what survives, as if each file had just been made and synced with it. */
void sim_disk_power_cut(struct sim_disk *disk, uint64_t seed);
/* The process ends and the machine does not: deleted files that were still open end. */
void sim_disk_kill(struct sim_disk *disk);

/* How many bytes were there to be read. */
size_t sim_file_read(const struct sim_file *file, uint64_t offset, void *bytes, size_t size);
int sim_file_write(struct sim_file *file, uint64_t offset, const void *bytes, size_t size);
int sim_file_truncate(struct sim_file *file, uint64_t size);
void sim_file_sync(struct sim_disk *disk, struct sim_file *file);
/* What Linux does when a sync fails: the changes are seen, and no later sync writes them. */
void sim_file_forget_changes(struct sim_file *file);

/* Of all names and bytes that are seen: equal for equal disks. */
uint64_t sim_disk_digest(const struct sim_disk *disk);

#endif
