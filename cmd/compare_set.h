/*
 * compare_set: two sides of results, by scenario.
 *
 * An operand is a result, or a directory with results (*.json, in the order of their names, numbers
 * in them by value) and with directories of more, whose names are those of scenarios. What is given
 * as a file, or lies in the directory itself, is of the scenario without a name. All results of a
 * scenario must be of one host, store and workload.
 *
 * Life: compare_set_init() → compare_set_add() for each operand → compare_set_check() → what is
 * read → free. Ownership: the caller's struct. Threading: main thread. Errors: 0 or -errno with one
 * line that names the file; after one only compare_set_free() may follow. Bounds:
 * COMPARE_SCENARIOS_MAX scenarios, SHIFT_VALUES_MAX results of each a side.
 */
#ifndef BENCH_COMPARE_SET_H
#define BENCH_COMPARE_SET_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cmd/compare_rows.h"
#include "engine/base/err.h"

enum compare_side { COMPARE_BASE, COMPARE_HEAD, COMPARE_SIDES };

enum {
    COMPARE_SCENARIOS_MAX = 64,
    COMPARE_NAME_BYTES = 64,
    COMPARE_DIFFERENCES_MAX = 16,
    COMPARE_CHECKSUM_BYTES = 17,
};

/* The results of a side: values[row][i] of the i-th. */
struct compare_results {
    double *values[COMPARE_ROWS];
    size_t count;
    size_t invalid_count; /* of them, measurements that are not valid by their own verdict */
    char checksum[COMPARE_CHECKSUM_BYTES]; /* of all; empty when they differ or do not tell */
    char revision[COMPARE_NAME_BYTES];     /* of the first's build */
};

struct compare_scenario {
    char name[COMPARE_NAME_BYTES]; /* "": it has none */
    struct compare_results sides[COMPARE_SIDES];
    json_t *first; /* host, store and config of the first result; what others are held against */
    char first_name[RESULT_FILE_NAME_BYTES];
};

struct compare_set {
    struct compare_scenario *scenarios;
    size_t count;
    bool is_forced;                                     /* differences are listed, not refused */
    struct errmsg differences[COMPARE_DIFFERENCES_MAX]; /* "a.json and b.json differ: …" */
    size_t difference_count;                            /* in all; the first are kept */
};

void compare_set_init(struct compare_set *set, bool is_forced);
int compare_set_add(struct compare_set *set, enum compare_side side, const char *path,
                    struct errmsg *why);
/* Whether each scenario has results on both sides, and as many where they are pairs. */
int compare_set_check(const struct compare_set *set, bool is_paired, struct errmsg *why);
void compare_set_free(struct compare_set *set);

#endif
