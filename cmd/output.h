/*
 * output: where messages and results go that are no files: standard output and standard error.
 *
 * Everything is written from memory with write(2), so that a failure is seen where it happens.
 * Errors: 0 or -errno. Threading: the main thread's.
 */
#ifndef BENCH_OUTPUT_H
#define BENCH_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/base/err.h"

/* Opens descriptors 0 to 2 on /dev/null where the parent has closed them, so that no file of ours
 * ends up as standard output. Writing to such a one fails with EBADF. */
void output_guard_standard_streams(void);

/* Whether the descriptor, standard output or standard error, is open for writing. */
int output_check_stream(int fd, struct errmsg *why);
const char *output_stream_name(int fd); /* "standard output" */

/* "bench: …" and a newline to standard error in one write. The line is cleaned as errmsg_set()
 * does, and no password is left in it: redact.h. */
void output_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same for a usage error: one line that ends in how to get help, such as "bench -help". */
void output_usage_error(const char *help, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Writes all bytes to the descriptor. A closed pipe is no error: whoever reads has seen enough. */
int output_write(int fd, const char *bytes, size_t size);

/* Writes a line that may get lost: not at all where writing would have to wait, as for a reader
 * that does not read or for a terminal that is stopped. Whether it was written. */
bool output_write_if_room(int fd, const char *bytes, size_t size);

#endif
