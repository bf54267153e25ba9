/*
 * report_figures: the figures of a report that programs follow from run to run, for the formats
 * that know no more than name, unit and value.
 *
 * Ownership: plain data; names and units are constants. Threading: main thread. Units: with each
 * figure, SI without prefix: s, B; counts have none.
 */
#ifndef BENCH_REPORT_FIGURES_H
#define BENCH_REPORT_FIGURES_H

#include "cmd/report.h"

enum figure_better { FIGURE_LOWER, FIGURE_HIGHER };

struct figure {
    const char *name; /* "response_p99" */
    const char *unit; /* "s", "B", "1/s", "" */
    enum figure_better better;
    double value;
};

enum { FIGURES_MAX = 32 };

/* Those that are known. Returns how many. */
size_t report_figures(const struct report *report, struct figure figures[FIGURES_MAX]);

#endif
