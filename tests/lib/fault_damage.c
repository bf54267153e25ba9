/* fault_damage: the part of fault_vfs.h that reaches into files. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/lib/fault_vfs_state.h"

/* What a file is read into and written from, to copy it. */
struct buffer {
    unsigned char *bytes;
    size_t size;
};

static struct sim_file *enter(struct fault_vfs *vfs, const char *path)
{
    (void)pthread_mutex_lock(&vfs->mutex);
    return sim_disk_find(&vfs->disk, path);
}

static int leave(struct fault_vfs *vfs, int error)
{
    (void)pthread_mutex_unlock(&vfs->mutex);
    return error;
}

static bool is_beyond(const struct sim_file *file, uint64_t offset, size_t size)
{
    return offset > file->seen.size || size > file->seen.size - offset;
}

uint64_t fault_vfs_digest(struct fault_vfs *vfs)
{
    (void)pthread_mutex_lock(&vfs->mutex);
    uint64_t digest = sim_disk_digest(&vfs->disk);
    (void)pthread_mutex_unlock(&vfs->mutex);
    return digest;
}

int fault_vfs_size(struct fault_vfs *vfs, const char *path, uint64_t *size)
{
    const struct sim_file *file = enter(vfs, path);
    if (file == NULL)
        return leave(vfs, -ENOENT);
    *size = file->seen.size;
    return leave(vfs, 0);
}

int fault_vfs_peek(struct fault_vfs *vfs, const char *path, uint64_t offset, void *bytes,
                   size_t size)
{
    const struct sim_file *file = enter(vfs, path);
    if (file == NULL)
        return leave(vfs, -ENOENT);
    if (is_beyond(file, offset, size))
        return leave(vfs, -ERANGE);
    (void)sim_file_read(file, offset, bytes, size);
    return leave(vfs, 0);
}

int fault_vfs_poke(struct fault_vfs *vfs, const char *path, uint64_t offset, const void *bytes,
                   size_t size)
{
    struct sim_file *file = enter(vfs, path);
    if (file == NULL)
        return leave(vfs, -ENOENT);
    if (is_beyond(file, offset, size))
        return leave(vfs, -ERANGE);
    int error = sim_file_write(file, offset, bytes, size);
    sim_file_sync(&vfs->disk, file);
    return leave(vfs, error);
}

int fault_vfs_flip(struct fault_vfs *vfs, const char *path, uint64_t offset)
{
    unsigned char byte;
    int error = fault_vfs_peek(vfs, path, offset, &byte, 1);
    if (error != 0)
        return error;
    byte = (unsigned char)~byte;
    return fault_vfs_poke(vfs, path, offset, &byte, 1);
}

int fault_vfs_resize(struct fault_vfs *vfs, const char *path, uint64_t size)
{
    struct sim_file *file = enter(vfs, path);
    if (file == NULL)
        return leave(vfs, -ENOENT);
    int error = sim_file_truncate(file, size);
    sim_file_sync(&vfs->disk, file);
    return leave(vfs, error);
}

static int buffer_load(struct buffer *buffer, const char *path)
{
    int error = 0;
    *buffer = (struct buffer){0};
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return -errno;
    long size = -1;
    if (fseek(file, 0, SEEK_END) == 0)
        size = ftell(file);
    if (size < 0 || fseek(file, 0, SEEK_SET) != 0) {
        error = -errno;
        goto close;
    }
    buffer->size = (size_t)size;
    buffer->bytes = malloc(buffer->size + 1);
    if (buffer->bytes == NULL)
        error = -ENOMEM;
    else if (fread(buffer->bytes, 1, buffer->size, file) != buffer->size)
        error = -EIO;
close:
    (void)fclose(file); /* only read from */
    if (error != 0)
        free(buffer->bytes);
    return error;
}

static int buffer_store(const struct buffer *buffer, const char *path)
{
    FILE *file = fopen(path, "wb");
    if (file == NULL)
        return -errno;
    bool is_written = fwrite(buffer->bytes, 1, buffer->size, file) == buffer->size;
    return fclose(file) == 0 && is_written ? 0 : -EIO;
}

int fault_vfs_copy_in(struct fault_vfs *vfs, const char *real_path, const char *path)
{
    struct buffer buffer;
    int error = buffer_load(&buffer, real_path);
    if (error != 0)
        return error;
    struct sim_file *file = enter(vfs, path);
    if (file == NULL)
        file = sim_disk_create(&vfs->disk, path);
    if (file == NULL) {
        free(buffer.bytes);
        return leave(vfs, -ENFILE);
    }
    error = sim_file_truncate(file, 0);
    if (error == 0)
        error = sim_file_write(file, 0, buffer.bytes, buffer.size);
    sim_file_sync(&vfs->disk, file);
    sim_disk_sync_folder(&vfs->disk, path); /* no deleted WAL may come back to it */
    free(buffer.bytes);
    return leave(vfs, error);
}

int fault_vfs_copy_out(struct fault_vfs *vfs, const char *path, const char *real_path)
{
    struct buffer buffer = {0};
    const struct sim_file *file = enter(vfs, path);
    if (file == NULL)
        return leave(vfs, -ENOENT);
    buffer.bytes = malloc(file->seen.size + 1);
    if (buffer.bytes == NULL)
        return leave(vfs, -ENOMEM);
    buffer.size = sim_file_read(file, 0, buffer.bytes, file->seen.size);
    (void)leave(vfs, 0);
    int error = buffer_store(&buffer, real_path);
    free(buffer.bytes);
    return error;
}
