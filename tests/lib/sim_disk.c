/* sim_disk: see sim_disk.h. */
#include "tests/lib/sim_disk.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "engine/base/prng.h"

struct sim_change {
    uint64_t offset; /* of a write, or the new size */
    size_t size;
    unsigned char *bytes; /* NULL for a truncation */
};

/* How a write that did not survive whole ends. */
enum tear { TEAR_LOST, TEAR_PREFIX, TEAR_SCATTERED, TEAR_GARBAGE, TEARS };

static void *grow(void *memory, size_t bytes)
{
    void *grown = realloc(memory, bytes);
    if (grown == NULL) {
        (void)fprintf(stderr, "sim_disk: no memory for %zu bytes\n", bytes);
        abort();
    }
    return grown;
}

/* --- bytes --- */

static void bytes_resize(struct sim_bytes *b, size_t size)
{
    if (size > b->capacity) {
        b->capacity = 2 * size;
        b->at = grow(b->at, b->capacity);
    }
    if (size > b->size)
        memset(b->at + b->size, 0, size - b->size);
    b->size = size;
}

static void bytes_put(struct sim_bytes *b, uint64_t offset, const unsigned char *bytes, size_t size)
{
    if (size == 0)
        return;
    if (b->size < offset + size)
        bytes_resize(b, offset + size);
    memcpy(b->at + offset, bytes, size);
}

static void bytes_free(struct sim_bytes *b)
{
    free(b->at);
    *b = (struct sim_bytes){0};
}

/* --- a file --- */

static void add_change(struct sim_file *file, struct sim_change change)
{
    if (file->changes_count == file->changes_capacity) {
        file->changes_capacity = file->changes_capacity == 0 ? 16 : 2 * file->changes_capacity;
        file->changes = grow(file->changes, file->changes_capacity * sizeof(file->changes[0]));
    }
    file->changes[file->changes_count++] = change;
    file->changes_bytes += change.size;
}

static void apply(struct sim_bytes *b, const struct sim_change *change)
{
    if (change->bytes == NULL)
        bytes_resize(b, change->offset);
    else
        bytes_put(b, change->offset, change->bytes, change->size);
}

void sim_file_forget_changes(struct sim_file *file)
{
    for (size_t i = 0; i < file->changes_count; i++)
        free(file->changes[i].bytes);
    file->changes_count = 0;
    file->changes_bytes = 0;
}

static void file_end(struct sim_disk *disk, struct sim_file *file)
{
    size_t i = 0;
    while (disk->files[i] != file)
        i++;
    disk->files_count--;
    for (; i < disk->files_count; i++)
        disk->files[i] = disk->files[i + 1];
    sim_file_forget_changes(file);
    free(file->changes);
    bytes_free(&file->seen);
    bytes_free(&file->durable);
    free(file->path);
    free(file);
}

size_t sim_file_read(const struct sim_file *file, uint64_t offset, void *bytes, size_t size)
{
    if (offset >= file->seen.size)
        return 0;
    size_t there = file->seen.size - offset;
    if (size > there)
        size = there;
    memcpy(bytes, file->seen.at + offset, size);
    return size;
}

int sim_file_write(struct sim_file *file, uint64_t offset, const void *bytes, size_t size)
{
    if (size == 0)
        return 0;
    if (offset > SIM_FILE_BYTES_MAX || size > SIM_FILE_BYTES_MAX - offset ||
        size > SIM_FILE_BYTES_MAX - file->changes_bytes)
        return -ENOSPC;
    struct sim_change change = {.offset = offset, .size = size, .bytes = grow(NULL, size)};
    memcpy(change.bytes, bytes, size);
    add_change(file, change);
    apply(&file->seen, &change);
    return 0;
}

int sim_file_truncate(struct sim_file *file, uint64_t size)
{
    if (size > SIM_FILE_BYTES_MAX)
        return -ENOSPC;
    struct sim_change change = {.offset = size};
    add_change(file, change);
    apply(&file->seen, &change);
    return 0;
}

/* --- names: loops go from the newest file to the oldest, so that one may end within --- */

/* The length of what precedes the last slash. */
static size_t folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? (size_t)(slash - path) : 0;
}

static void delete_for_good(struct sim_disk *disk, struct sim_file *file)
{
    file->is_gone = true;
    if (file->opens_count == 0)
        file_end(disk, file);
}

void sim_disk_init(struct sim_disk *disk)
{
    disk->files_count = 0;
}

void sim_disk_clear(struct sim_disk *disk)
{
    while (disk->files_count > 0)
        file_end(disk, disk->files[disk->files_count - 1]);
}

struct sim_file *sim_disk_find(const struct sim_disk *disk, const char *path)
{
    for (size_t i = disk->files_count; i-- > 0;) {
        struct sim_file *file = disk->files[i];
        if (file->path != NULL && !file->is_deleted && strcmp(file->path, path) == 0)
            return file;
    }
    return NULL;
}

struct sim_file *sim_disk_create(struct sim_disk *disk, const char *path)
{
    assert(path == NULL || sim_disk_find(disk, path) == NULL);
    if (disk->files_count == SIM_FILES_MAX)
        return NULL;
    struct sim_file *file = grow(NULL, sizeof(*file));
    memset(file, 0, sizeof(*file));
    if (path != NULL) {
        file->path = grow(NULL, strlen(path) + 1);
        memcpy(file->path, path, strlen(path) + 1);
    }
    disk->files[disk->files_count++] = file;
    return file;
}

void sim_disk_delete(struct sim_disk *disk, struct sim_file *file)
{
    assert(!file->is_deleted);
    file->is_deleted = true;
    if (file->path == NULL)
        delete_for_good(disk, file);
}

void sim_disk_release(struct sim_disk *disk, struct sim_file *file)
{
    if (file->opens_count == 0 && file->is_gone)
        file_end(disk, file);
}

void sim_disk_sync_folder(struct sim_disk *disk, const char *path)
{
    size_t length = folder_of(path);
    for (size_t i = disk->files_count; i-- > 0;) {
        struct sim_file *file = disk->files[i];
        if (file->path == NULL || folder_of(file->path) != length ||
            strncmp(file->path, path, length) != 0)
            continue;
        file->is_name_durable = true;
        if (file->is_deleted && !file->is_gone)
            delete_for_good(disk, file);
    }
}

/* What an older file of that name left behind cannot come back once there is a new one. */
static void end_namesakes(struct sim_disk *disk, const struct sim_file *file)
{
    for (size_t i = disk->files_count; i-- > 0;) {
        struct sim_file *other = disk->files[i];
        if (other != file && other->path != NULL && other->is_deleted && !other->is_gone &&
            strcmp(other->path, file->path) == 0)
            delete_for_good(disk, other);
    }
}

void sim_file_sync(struct sim_disk *disk, struct sim_file *file)
{
    for (size_t i = 0; i < file->changes_count; i++)
        apply(&file->durable, &file->changes[i]);
    sim_file_forget_changes(file);
    if (file->path == NULL || file->is_deleted)
        return;
    file->is_name_durable = true;
    end_namesakes(disk, file);
    if (file->syncs_its_folder)
        sim_disk_sync_folder(disk, file->path);
    file->syncs_its_folder = false;
}

/* --- a power cut --- */

static void put_garbage(struct sim_bytes *b, uint64_t offset, size_t size, struct prng *p)
{
    unsigned char garbage[SIM_SECTOR_BYTES];
    for (size_t i = 0; i < size; i++)
        garbage[i] = (unsigned char)prng_next(p);
    bytes_put(b, offset, garbage, size);
}

static void apply_torn(struct sim_bytes *b, const struct sim_change *change, enum tear tear,
                       struct prng *p)
{
    uint64_t end = change->offset + change->size;
    uint64_t sectors = end / SIM_SECTOR_BYTES - change->offset / SIM_SECTOR_BYTES + 1;
    uint64_t whole = prng_below(p, sectors); /* of TEAR_PREFIX and TEAR_GARBAGE */
    uint64_t at = change->offset;
    for (uint64_t i = 0; at < end; i++) {
        uint64_t next = (at / SIM_SECTOR_BYTES + 1) * SIM_SECTOR_BYTES;
        if (next > end)
            next = end;
        bool survives = tear == TEAR_SCATTERED ? prng_below(p, 2) == 0 : i < whole;
        if (survives)
            bytes_put(b, at, change->bytes + (at - change->offset), next - at);
        else if (tear == TEAR_GARBAGE)
            put_garbage(b, at, next - at, p);
        at = next;
    }
}

static void cut_file(struct sim_file *file, struct prng *p)
{
    /* A disk that had written nearly all is as likely as one that had just begun. */
    static const uint64_t percents[] = {0, 10, 50, 90, 98, 100};
    uint64_t percent = percents[prng_below(p, sizeof(percents) / sizeof(percents[0]))];
    for (size_t i = 0; i < file->changes_count; i++) {
        const struct sim_change *change = &file->changes[i];
        if (prng_below(p, 100) < percent) {
            apply(&file->durable, change);
            continue;
        }
        if (change->bytes == NULL)
            continue;
        enum tear tear = (enum tear)prng_below(p, TEARS);
        if (tear != TEAR_LOST)
            apply_torn(&file->durable, change, tear, p);
        uint64_t end = change->offset + change->size;
        if (file->durable.size < end && prng_below(p, 4) == 0)
            bytes_resize(&file->durable, end);
    }
    sim_file_forget_changes(file);
    bytes_resize(&file->seen, 0);
    bytes_put(&file->seen, 0, file->durable.at, file->durable.size);
}

static bool survives_cut(const struct sim_disk *disk, const struct sim_file *file, struct prng *p)
{
    /* The draws do not hang on what is found, so that a seed's later ones stay the same. */
    bool name_stays = prng_below(p, 2) == 0 || file->is_name_durable;
    bool comes_back = prng_below(p, 2) == 0;
    if (file->path == NULL || file->is_gone || !name_stays)
        return false;
    if (!file->is_deleted)
        return true;
    return comes_back && sim_disk_find(disk, file->path) == NULL;
}

void sim_disk_power_cut(struct sim_disk *disk, uint64_t seed)
{
    struct prng p = prng_stream(seed, 0, PRNG_TEST, 3);
    /* Newest first: where a new file's name does not survive, an older one of that name may. */
    for (size_t i = disk->files_count; i-- > 0;) {
        struct sim_file *file = disk->files[i];
        if (!survives_cut(disk, file, &p)) {
            file_end(disk, file);
            continue;
        }
        cut_file(file, &p);
        file->is_name_durable = true;
        file->is_deleted = false;
        file->syncs_its_folder = false;
        file->opens_count = 0;
    }
}

void sim_disk_kill(struct sim_disk *disk)
{
    for (size_t i = disk->files_count; i-- > 0;) {
        struct sim_file *file = disk->files[i];
        file->opens_count = 0;
        if (file->path == NULL || file->is_gone)
            file_end(disk, file);
    }
}

uint64_t sim_disk_digest(const struct sim_disk *disk)
{
    uint64_t digest = 0;
    for (size_t i = disk->files_count; i-- > 0;) {
        const struct sim_file *file = disk->files[i];
        if (file->path == NULL || file->is_deleted)
            continue;
        /* Added, so that the order of the files does not count. */
        digest += XXH3_64bits_withSeed(file->seen.at, file->seen.size,
                                       XXH3_64bits(file->path, strlen(file->path)));
    }
    return digest;
}
