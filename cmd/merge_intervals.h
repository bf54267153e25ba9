/*
 * merge_intervals: the intervals of several results as those of one, laid over each other by the
 * time of day.
 *
 * The merged ones are as long as the longest that any was asked for, and begin with the first
 * start. Within an interval a count is taken to grow evenly, as no more is known: what falls into
 * one of the merged is rounded down, and made up for in the next, so that the sums are exact.
 */
#ifndef BENCH_MERGE_INTERVALS_H
#define BENCH_MERGE_INTERVALS_H

#include "cmd/merged.h"

/* Fills `intervals`, whose is_cut says that they would be too many. Each part's times are at or
 * after start_ns. 0 or -ENOMEM. */
int merge_intervals(struct intervals *intervals, const struct merged_part *parts, size_t count,
                    uint64_t start_ns);

#endif
