/*
 * version: what this build is. BENCH_VERSION, BENCH_REVISION and BENCH_FLAGS come from the
 * Makefile. Threading: constants.
 */
#ifndef BENCH_VERSION_H
#define BENCH_VERSION_H

#include <stdbool.h>
#include <stdio.h>

struct version {
    const char *version;    /* "0.1.0" */
    const char *revision;   /* of the source, or "unknown" */
    const char *compiler;   /* "gcc 12.2.0" */
    const char *sanitizers; /* "none", or "address", "thread", … as far as the compiler tells */
    const char *flags;      /* that it was compiled with, but for warnings and paths */
    bool is_dirty;          /* the source was changed since that revision */
    bool is_optimized;
};

struct version version_of_build(void);

/* What -version prints: one line. */
void version_write(FILE *out, const struct version *version);

#endif
