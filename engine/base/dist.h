/*
 * dist: a distribution of durations or sizes, parsed from a flag and sampled from the seed.
 *
 *   50ms                          constant
 *   uniform:10ms,90ms             uniform on [min, max], both included
 *   normal:50ms,10ms              mean, standard deviation; draws below 0 count as 0
 *   lognormal:p50=800ms,p99=8s    median and 99th percentile:
 *                                 mu = ln p50, sigma = ln(p99/p50) / z(0.99)
 *   exp:50ms                      exponential with that mean
 *   file:PATH                     a value a line, each equally likely; read once, at most
 *                                 DIST_FILE_VALUES_MAX, from a regular file
 *
 * Every parameter and every value of a file is at most 24 h (durations) or 16 MiB (sizes), else it
 * is refused; draws from an unbounded tail are cut off there. A draw takes one number from the
 * stream (a constant: none) and the same stream gives the same draws on the same build.
 *
 * Ownership: dist_parse() may allocate (file:); dist_free() releases it. A copy of the struct
 * shares the values. Threading: read-only after parsing, shared by all threads. Units: ns or bytes.
 */
#ifndef BENCH_BASE_DIST_H
#define BENCH_BASE_DIST_H

#include <stddef.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "engine/base/prng.h"

enum {
    DIST_FILE_VALUES_MAX = 1000000,
    DIST_SPEC_BYTES = 256,
    DIST_BYTES_MAX = 16 << 20, /* as large as a record may be */
};

enum dist_unit { DIST_DURATION, DIST_BYTES };

enum dist_kind {
    DIST_CONSTANT,
    DIST_UNIFORM,
    DIST_NORMAL,
    DIST_LOGNORMAL,
    DIST_EXPONENTIAL,
    DIST_FILE,
};

struct dist {
    enum dist_kind kind;
    enum dist_unit unit;
    double a; /* constant: the value; uniform: min; normal: mean; lognormal: mu; exp: mean */
    double b; /* uniform: max; normal: standard deviation; lognormal: sigma */
    uint64_t *values;           /* file: the values, ascending, whatever their order in the file */
    size_t value_count;         /* file */
    char spec[DIST_SPEC_BYTES]; /* the text as given, for the report */
};

/* 0; -EINVAL for a malformed spec or parameters that make no distribution (min > max, p99 < p50,
 * negative, …) or a file that is none; -ERANGE for a value or a file that is too large; -ENOMEM;
 * the errno of an unreadable file. `why` is phrased to follow "-flag ". On failure nothing is left
 * to free. */
int dist_parse(struct dist *d, const char *text, enum dist_unit unit, struct errmsg *why);
void dist_free(struct dist *d);

/* One draw, in ns or bytes. A constant does not touch the stream. */
uint64_t dist_sample(const struct dist *d, struct prng *p);

/* The theoretical quantile at p in (0, 1), before cutting off: what the tests hold the draws
 * against. */
double dist_quantile(const struct dist *d, double p);

#endif
