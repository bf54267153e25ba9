/*
 * report_provenance: what a result was measured with and on, as pairs of key and text, for the
 * formats that have a place for them: build, host, store and its settings, start, configuration.
 *
 * Ownership: a fact lives until tell() returns. Threading: main thread. Units: in the keys.
 */
#ifndef BENCH_REPORT_PROVENANCE_H
#define BENCH_REPORT_PROVENANCE_H

#include "cmd/report.h"

struct fact {
    const char *key;   /* lower case letters, digits and underscores */
    const char *value; /* one line of UTF-8 */
    /* Of machine and store: results that differ in it should not be compared as they stand. The
     * others may well differ from run to run. */
    bool is_of_place;
};

/* What is not known is left out, and of a merged result what is not the same in all. */
void report_provenance(const struct report *report,
                       void (*tell)(void *arg, const struct fact *fact), void *arg);

enum { REPORT_TIME_BYTES = 32 };
/* "2026-01-02T03:04:05.678Z" */
const char *report_time(uint64_t unix_ns, char text[REPORT_TIME_BYTES]);

#endif
