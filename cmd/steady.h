/*
 * steady: whether runs a second have come to rest: the straight line through the last few of them,
 * by least squares, goes up or down by no more than a share of their mean over the window.
 *
 * Ownership: plain data, zeroed at first. Threading: pure functions.
 */
#ifndef BENCH_STEADY_H
#define BENCH_STEADY_H

#include <stdbool.h>

enum { STEADY_WINDOW = 10 };

struct steady {
    double rates[STEADY_WINDOW]; /* a ring */
    unsigned next;
    unsigned count;
};

/* The rate of the next interval, all of which are as long. */
void steady_add(struct steady *steady, double rate);

/* By how much of the mean the line changes from the first to the last; false while there are too
 * few, or when nothing has ended at all. */
bool steady_slope(const struct steady *steady, double *slope);

#endif
