/*
 * result_file: a result of bench that was written with -json, read back: schema bench.run/1.
 *
 * The text is checked as a whole when it is loaded. Histograms and intervals, which are nearly all
 * of it, are kept as text and read by the engine's own reader where the caller wants them; the rest
 * is a small tree of jansson's. Values are looked up by their key path: "result.elapsed_ns".
 *
 * Reading is exact: a histogram that is written and read has the same buckets, minimum, maximum and
 * mean, and the same sum unless that was beyond what JSON has numbers for.
 *
 * Input is hostile: at most RESULT_FILE_BYTES_MAX, and RESULT_FILE_TREE_BYTES_MAX of it beside
 * histograms and intervals. Keys that are not known are the caller's to judge: later builds may
 * have more. Ownership: the caller's struct, between a load or parse that succeeded and free; texts
 * and trees that are handed out live as long. Threading: none, plain data. Errors: 0 or -errno,
 * with one line that names the file and the key path.
 */
#ifndef BENCH_RESULT_FILE_H
#define BENCH_RESULT_FILE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cmd/intervals.h"
#include "engine/base/err.h"
#include "engine/base/hist.h"
#include "engine/base/json_read.h"

enum {
    RESULT_FILE_BYTES_MAX = 64 << 20,
    RESULT_FILE_TREE_BYTES_MAX = 4 << 20,
    RESULT_FILE_HISTS_MAX = 32,
    RESULT_FILE_NAME_BYTES = 128,
};

struct result_file_hist {
    struct json_span name;
    struct json_span value;
};

struct result_file {
    char name[RESULT_FILE_NAME_BYTES]; /* of the file, for messages: the end of a long one */
    char *owned;                       /* its bytes, where they were loaded */
    json_t *tree;                      /* all but latency and intervals */
    struct result_file_hist hists[RESULT_FILE_HISTS_MAX];
    size_t hist_count;
    struct json_span intervals;
};

/* Reads a file, or a pipe to its end. -EINVAL when it holds no result, -EFBIG, or the errno of
 * reading. On failure nothing is left to free. */
int result_file_load(struct result_file *file, const char *path, struct errmsg *why);

/* The same from memory, which is the caller's and must outlive `file`. */
int result_file_parse(struct result_file *file, const char *name, const char *bytes, size_t size,
                      struct errmsg *why);
void result_file_free(struct result_file *file);

/* The value at a key path, or NULL. */
json_t *result_file_find(const struct result_file *file, const char *key);

/* Each reads the value at a key path that must be there. -EINVAL where it is of another type or out
 * of range. Of a null, where one may stand, *value becomes `if_null`. */
int result_file_read_u64(const struct result_file *file, const char *key, uint64_t *value,
                         struct errmsg *why);
int result_file_read_u64_or_null(const struct result_file *file, const char *key, uint64_t if_null,
                                 uint64_t *value, struct errmsg *why);
int result_file_read_i64(const struct result_file *file, const char *key, int64_t *value,
                         struct errmsg *why);
/* Any number of at least 0. */
int result_file_read_double(const struct result_file *file, const char *key, double *value,
                            struct errmsg *why);
int result_file_read_text(const struct result_file *file, const char *key, const char **value,
                          struct errmsg *why);
int result_file_read_text_or_null(const struct result_file *file, const char *key,
                                  const char **value, struct errmsg *why);

/* The histogram "latency.NAME", in place of what `hist` holds. */
int result_file_read_hist(const struct result_file *file, const char *name, struct hist *hist,
                          struct errmsg *why);

/* The intervals, in an array that the caller frees; NULL when there are none. */
int result_file_read_intervals(const struct result_file *file, struct interval **rows,
                               size_t *count, struct errmsg *why);

/* Whether this key of config says only what was printed or written, and so nothing of what was
 * measured. */
bool result_file_is_of_output(const char *key);

/* Says that the value at a key path is not what it must be, such as "a whole number"; shows it.
 * Returns -EINVAL. */
int result_file_refuse(const struct result_file *file, const char *key, const char *expected,
                       struct errmsg *why);

#endif
