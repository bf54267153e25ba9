/*
 * replay: feeds the files of corpus folders to a fuzz target, for builds without libFuzzer.
 *
 *     replay [-v] FOLDER…
 *
 * -v names each file before it is fed, so that after a crash the last one named is the cause. A
 * folder that is missing, empty, or not to be read is a failure: a corpus that went away must not
 * pass for one without faults. Each input is a heap block of exactly its size, so that a sanitizer
 * sees what is read beyond it.
 */
#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { INPUT_BYTES_MAX = 16 << 20, PATH_BYTES_MAX = 4096 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* 0, or -errno. */
static int feed_file(const char *path, size_t size)
{
    uint8_t *data = malloc(size != 0 ? size : 1);
    if (data == NULL) {
        return -ENOMEM;
    }
    int error = -EIO;
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        error = -errno;
        goto done;
    }
    if (fread(data, 1, size, file) == size) {
        error = 0;
    }
    (void)fclose(file); /* only read from */
    if (error == 0) {
        (void)LLVMFuzzerTestOneInput(data, size); /* tells of faults by dying */
    }
done:
    free(data);
    return error;
}

/* 1 when the entry was fed, 0 when it is no regular file, or -errno. */
static int feed_entry(const char *folder, const char *name, bool is_verbose)
{
    char path[PATH_BYTES_MAX];
    struct stat status;
    const int length = snprintf(path, sizeof(path), "%s/%s", folder, name);
    if (length < 0 || (size_t)length >= sizeof(path)) {
        return -ENAMETOOLONG;
    }
    if (stat(path, &status) != 0) {
        return -errno;
    }
    if (!S_ISREG(status.st_mode)) {
        return 0;
    }
    if (status.st_size > INPUT_BYTES_MAX) {
        return -EFBIG;
    }
    if (is_verbose) {
        (void)fprintf(stderr, "%s\n", path); /* for a person; unbuffered, so it comes first */
    }
    const int error = feed_file(path, (size_t)status.st_size);
    return error != 0 ? error : 1;
}

/* The number of files fed, in the order of their names, or -1 with the reason on stderr. */
static long feed_folder(const char *folder, bool is_verbose)
{
    struct dirent **entries;
    const int entry_count = scandir(folder, &entries, NULL, alphasort);
    if (entry_count < 0) {
        (void)fprintf(stderr, "replay: %s: %s\n", folder, strerror(errno)); /* nowhere else to go */
        return -1;
    }
    long fed = 0;
    for (int i = 0; i < entry_count; i++) {
        const int result = fed < 0 ? 0 : feed_entry(folder, entries[i]->d_name, is_verbose);
        if (result < 0) {
            (void)fprintf(stderr, "replay: %s/%s: %s\n", folder, entries[i]->d_name,
                          strerror(-result)); /* as above */
            fed = -1;
        } else {
            fed += result;
        }
        free(entries[i]);
    }
    free(entries);
    if (fed == 0) {
        (void)fprintf(stderr, "replay: %s: no inputs\n", folder); /* as above */
        return -1;
    }
    return fed;
}

int main(int argc, char **argv)
{
    const bool is_verbose = argc > 1 && strcmp(argv[1], "-v") == 0;
    const int first = is_verbose ? 2 : 1;
    int status = EXIT_SUCCESS;
    if (first >= argc) {
        (void)fprintf(stderr, "usage: replay [-v] FOLDER…\n"); /* as above */
        return 2;
    }
    for (int i = first; i < argc; i++) {
        const long fed = feed_folder(argv[i], is_verbose);
        /* The house's runner reads the second line; an input that fails ends the program. */
        if (fed < 0 || printf("replay: %s\n%ld passed, 0 failed\n", argv[i], fed) < 0) {
            status = EXIT_FAILURE;
        }
    }
    return status;
}
