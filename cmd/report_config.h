/*
 * report_config: what a result was configured by: as the first line of the summary, for a person,
 * and as the name of its series, for programs that follow figures from run to run. Both print what
 * is not at its default through the same function, so that two configurations never look the same
 * in either: a new flag is told once.
 *
 * Ownership: plain data. Threading: main thread. Errors: see each.
 */
#ifndef BENCH_REPORT_CONFIG_H
#define BENCH_REPORT_CONFIG_H

#include <stdio.h>

#include "cmd/report.h"

/* Prints the line, which tells all that a run is configured by. */
void report_print_configuration(FILE *out, const struct report *report);

enum { SERIES_BYTES = 512 };

/* "journal=sqlite/durability=power/concurrency=256/latency=50ms…": what tells one series of results
 * from another: what is run, and not how much of it, on what, or under which seed. Letters, digits
 * and "=/.:,+_-" only, others are '_'; where there are such, or the whole is too long and is cut, a
 * '+' and a digest of the whole are its end. 0, or -ENOMEM and an empty text. */
int report_series(const struct report *report, char text[SERIES_BYTES]);

#endif
