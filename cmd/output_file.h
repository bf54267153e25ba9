/*
 * output_file: a file that a flag names. Whether it can be written is found out before anything
 * starts, by doing what writing it will take, since permissions alone do not tell: root, /proc, a
 * sticky directory and a terminal that is gone each have rules of their own.
 *
 * A result is written beside its place and renamed, so that it is there whole or not at all; a
 * device or a pipe is opened at once and written directly, and so is what is appended to. Symbolic
 * links are followed, never replaced, also those that lead to nothing yet. Ownership: the caller's;
 * the path must outlive it. Errors: 0 or -errno; `why` is phrased to follow "-flag ". Threading:
 * none.
 */
#ifndef BENCH_OUTPUT_FILE_H
#define BENCH_OUTPUT_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "engine/base/err.h"

enum output_use {
    OUTPUT_REPLACED, /* by output_file_write() */
    OUTPUT_APPENDED, /* by others, who open the path themselves */
};

struct output_file {
    const char *path;     /* as given */
    char place[PATH_MAX]; /* where it is, links followed; empty while `fd` is open */
    int fd;               /* what is written directly or appended to, or -1 */
    bool exists;
    struct stat status; /* if it exists */
};

/* Makes sure that the path can be written, without touching what is there. A temporary file stands
 * beside it for a moment. A pipe that nobody reads is refused. */
int output_file_open(struct output_file *file, const char *path, enum output_use use,
                     struct errmsg *why);

/* Puts the bytes in place of the file. Once only. */
int output_file_write(struct output_file *file, const char *bytes, size_t size, struct errmsg *why);

void output_file_close(struct output_file *file);

/* Whether the file is the one with this status, and holds bytes: two devices are never the same. */
bool output_file_is(const struct output_file *file, const struct stat *status);

/* Whether both are the same file, or will be once they are created. */
bool output_file_is_same(const struct output_file *a, const struct output_file *b);

#endif
