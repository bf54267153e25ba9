/*
 * output: where results and messages go: standard output, standard error, files that are written
 * beside their place and renamed.
 *
 * Everything is written from memory with write(2), so that a failure is seen where it happens, and
 * a result is there whole or not at all. Errors: 0 or -errno, with the reason. Threading: the main
 * thread's.
 */
#ifndef BENCH_OUTPUT_H
#define BENCH_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/base/err.h"

/* Opens descriptors 0 to 2 on /dev/null where the parent has closed them, so that no file of ours
 * ends up as standard output. Writing to such a one fails with EBADF. */
void output_guard_standard_streams(void);

/* "bench: …" and a newline to standard error in one write. Control characters in the text are
 * replaced. */
void output_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same for a usage error: one line that ends in how to get help. */
void output_usage_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Writes all bytes to the descriptor. A closed pipe is no error: whoever reads has seen enough. */
int output_write(int fd, const char *bytes, size_t size);

/* Whether output_write_file() could write to this path, without touching it: the directory is there
 * and writable; the path is a regular file, a device or a pipe that may be written, or is free.
 * `why` is phrased to follow "-flag ". */
int output_check(const char *path, struct errmsg *why);

/* Puts the bytes in place of the file: beside it first, then renamed; a device or a pipe is written
 * directly. A symbolic link is followed, not replaced. `why` is phrased to follow "-flag ". */
int output_write_file(const char *path, const char *bytes, size_t size, struct errmsg *why);

/* Whether both paths name the same regular file, or one that is still to be created. */
bool output_is_same_file(const char *a, const char *b);

#endif
