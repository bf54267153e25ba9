/*
 * scratch: a folder of a test's own below /tmp, with whatever the test puts into it.
 *
 * Errors: 0 or -errno. Ownership and threading: plain data of the caller's.
 */
#ifndef BENCH_TESTS_LIB_SCRATCH_H
#define BENCH_TESTS_LIB_SCRATCH_H

struct scratch {
    char path[64];
};

/* Makes the folder; `name` is for whoever finds it after a crash. */
int scratch_make(struct scratch *scratch, const char *name);

/* Removes the folder and all that is in it. */
int scratch_remove(const struct scratch *scratch);

#endif
