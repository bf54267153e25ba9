/*
 * comparison: all figures of two sides, judged together, for the formats that show them.
 *
 * All measures of all scenarios are one family, whose p are adjusted together. A regression is a
 * figure whose verdict is worse; see compare_judge.h.
 *
 * Life: comparison_init() → what is read → free. Ownership: `set` is the caller's and must live as
 * long. Threading: main thread. Errors: 0 or -errno with one line.
 */
#ifndef BENCH_COMPARISON_H
#define BENCH_COMPARISON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "cmd/compare_judge.h"
#include "cmd/compare_set.h"

/* Whether both sides journaled the same bytes. */
enum compare_work { COMPARE_WORK_UNKNOWN, COMPARE_WORK_SAME, COMPARE_WORK_DIFFERS };

struct compared_scenario {
    const struct compare_scenario *of;
    enum compare_work work;
    struct judgement judgements[COMPARE_ROWS];
    double floors[COMPARE_ROWS]; /* that they were held against */
};

struct comparison {
    const struct compare_set *set;
    struct compare_rules rules; /* floor: where a scenario has none of its own */
    struct compared_scenario *scenarios;
    size_t count;
    double geomeans[COMPARE_ROWS]; /* head / base - 1 over the scenarios; NaN with fewer than two */
    size_t regressions;
};

/* `floors`, unless NULL, has a noise floor for each row of each scenario of `set`. */
int comparison_init(struct comparison *comparison, const struct compare_set *set,
                    const struct compare_rules *rules, const double (*floors)[COMPARE_ROWS],
                    struct errmsg *why);
void comparison_free(struct comparison *comparison);

/* The formats. Each returns 0 or -ENOMEM. */
int comparison_write_text(FILE *out, const struct comparison *comparison);
int comparison_write_markdown(FILE *out, const struct comparison *comparison);
int comparison_write_json(FILE *out, const struct comparison *comparison); /* bench.compare/1 */

/* What formats share. A value with its unit: "101.2ms"; a change: "+10.3%", of counts from 0 the
 * difference itself. Return `text`. */
enum { COMPARISON_TEXT_BYTES = 48 };
const char *comparison_value(const struct compare_row *row, double value,
                             char text[COMPARISON_TEXT_BYTES]);
const char *comparison_change(const struct compare_row *row, const struct judgement *judgement,
                              char text[COMPARISON_TEXT_BYTES]);

#endif
