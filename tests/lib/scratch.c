/* scratch: see scratch.h. */
#include "tests/lib/scratch.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>

enum { DESCRIPTORS_MAX = 8 };

int scratch_make(struct scratch *scratch, const char *name)
{
    /* cppcheck takes what is written for what is read. */
    // cppcheck-suppress ctuuninitvar
    int size = snprintf(scratch->path, sizeof(scratch->path), "/tmp/bench-test-%s-XXXXXX", name);
    if (size < 0 || (size_t)size >= sizeof(scratch->path))
        return -ENAMETOOLONG;
    return mkdtemp(scratch->path) != NULL ? 0 : -errno;
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *place)
{
    (void)status;
    (void)kind;
    (void)place;
    return remove(path);
}

int scratch_remove(const struct scratch *scratch)
{
    return nftw(scratch->path, remove_one, DESCRIPTORS_MAX, FTW_DEPTH | FTW_PHYS) == 0 ? 0 : -errno;
}
