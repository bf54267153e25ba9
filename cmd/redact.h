/*
 * redact: takes what may be a password out of a line that is about to be shown.
 *
 * A URI can end up anywhere on a command line, as an operand, as the value of any flag or in the
 * name of a file, and every message may quote it. So it is the line that is looked at, once, not
 * each place that quotes. In doubt more is hidden than had to be. Ownership: the caller's.
 * Threading, errors: none.
 */
#ifndef BENCH_REDACT_H
#define BENCH_REDACT_H

#include <stdbool.h>
#include <stddef.h>

/* Copies the line, with "…" in place of what stands before the @ of a URI, and of what password= is
 * followed by. `was_cut`: something of the line is missing, which may be the @. The copy is cut
 * between characters at `bytes`, which counts the NUL. */
void redact_line(const char *line, bool was_cut, char *copy, size_t bytes);

#endif
