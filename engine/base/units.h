/*
 * units: counts, durations and sizes as people write and read them.
 *
 * Parsers take the whole text or refuse it: trailing garbage, signs, white space, hex, exponents,
 * "nan", "inf" and empty text are -EINVAL (malformed), too large a value is -ERANGE, with the
 * reason in `why`, phrased to follow "-flag " ("must be a duration such as 50ms, got \"50\": the
 * unit is missing"). A minus sign before a number is refused by saying that the value must not be
 * negative. A number is decimal digits with at most one point: "1.5" and ".5" are numbers, and
 * "1." is one in durations only, as in Go. On failure the result is untouched. They never read
 * errno or locale. Ownership: nothing is kept. Threading: pure functions. Units: ns, bytes.
 */
#ifndef BENCH_BASE_UNITS_H
#define BENCH_BASE_UNITS_H

#include <stddef.h>
#include <stdint.h>

#include "engine/base/err.h"

#define UNITS_RATE_MAX 1e9
#define UNITS_BYTES_MAX (UINT64_C(1) << 53) /* a double holds every size up to here exactly */

/* "20000", "20k", "1.5m" (k = 10^3, m = 10^6; a fraction must come out whole). */
int units_parse_count(const char *text, uint64_t *count, struct errmsg *why);

/* "99.9": finer than 10^-6 is cut off. */
int units_parse_decimal(const char *text, double *value, struct errmsg *why);

/* A part of a whole, as "0.1%" or "0.001": 0 to 1. */
int units_parse_share(const char *text, double *share, struct errmsg *why);

/* A count, which need not be whole, and "/s" or "/m" (a minute): "500", "1.5/s", "20k/s", "90/m".
 * At most UNITS_RATE_MAX a second; finer than 10^-6 is cut off, unless nothing but 0 would be left:
 * that is refused. */
int units_parse_rate(const char *text, double *per_s, struct errmsg *why);

/* Go's durations: one or more of decimal + ns|us|µs|ms|s|m|h, such as "1m30s", "1.5s", "250us". A
 * bare "0" is a duration, any other bare number is refused, naming the missing unit. At most 24h;
 * finer than 1 ns is cut off, unless nothing but 0 would be left: that is refused. */
int units_parse_duration(const char *text, uint64_t *duration_ns, struct errmsg *why);

/* Decimal + B|KB|MB|GB|KiB|MiB|GiB. A bare "0" is a size, any other bare number is refused, naming
 * the missing unit. At most 2^53; finer than a byte is cut off, unless nothing but 0 would be left:
 * that is refused. */
int units_parse_bytes(const char *text, uint64_t *bytes, struct errmsg *why);

enum { UNITS_TEXT_BYTES = 32 };

/* Writes a duration the way the report prints it, rounded, in the unit that leaves 1 to 999 before
 * the point: whole nanoseconds below 1 µs, then one decimal where it is not zero, from a minute on
 * two units: "0s", "250ns", "1.2µs", "41µs", "100.1ms", "103ms", "1.5s", "1m30s", "2h5m". Returns
 * `text`. */
const char *units_format_duration(uint64_t duration_ns, char text[UNITS_TEXT_BYTES]);

/* The flag form of a duration, exact, which units_parse_duration() reads back (up to its 24h):
 * "50ms", "1m30s", "1.5s", "250us", "0s". Returns `text`. */
const char *units_format_duration_exact(uint64_t duration_ns, char text[UNITS_TEXT_BYTES]);

/* "12.3 MB", decimal megabytes with one decimal, signed: the shape that scripts grep. Returns
 * `text`. */
const char *units_format_megabytes(int64_t bytes, char text[UNITS_TEXT_BYTES]);

#endif
