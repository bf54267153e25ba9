/*
 * compare_rows: what is compared of a result: one table, a row a figure.
 *
 * A measure differs from run to run and is judged by statistics. A count is the same on any machine
 * where the same work is done, and a change of it is exact.
 *
 * Ownership: constants, and the caller's values. Threading: main thread. Units: those of the
 * result; of a percentile ns. Errors: -EINVAL with one line that names file and key.
 */
#ifndef BENCH_COMPARE_ROWS_H
#define BENCH_COMPARE_ROWS_H

#include <stdbool.h>
#include <stddef.h>

#include "cmd/result_file.h"

enum compare_kind { COMPARE_COUNT, COMPARE_MEASURE };
enum compare_unit { COMPARE_PLAIN, COMPARE_NS, COMPARE_BYTES, COMPARE_PER_S };

struct compare_row {
    const char *name; /* "response p99" */
    enum compare_kind kind;
    enum compare_unit unit;
    bool is_more_better;
    const char *key; /* a key path; or a histogram's name */
    double quantile; /* of that histogram; 0: key is a key path */
    double factor;   /* that the value is shown and compared by: 1000 for "a thousand runs" */
};

enum { COMPARE_ROWS = 17 };
/* Counts first. */
extern const struct compare_row compare_rows[COMPARE_ROWS];

/* The values of a result in the order of the rows; NaN where it does not have one. */
int compare_rows_read(const struct result_file *file, double values[COMPARE_ROWS],
                      struct errmsg *why);

#endif
