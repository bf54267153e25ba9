/*
 * journal_audit: all that a journal shows of a campaign, held against what a journal may show and
 * against what the probes of the suite were acked.
 *
 * Every function looks at all parts, once each, on the calling thread. Faults are the suite's.
 */
#ifndef BENCH_TESTS_JOURNAL_AUDIT_H
#define BENCH_TESTS_JOURNAL_AUDIT_H

#include "tests/lib/journal_probe.h"

/* Visits all records of a campaign; what the visit that stopped it has returned, or 0. */
int audit_scan(struct suite *suite, uint64_t campaign, uint32_t kinds, journal_visit *visit,
               void *arg);

/* Looks at all that is visible: each run dense from 0 and in order (fault of J2), each key once
 * (J1), each record whole (J9). Returns how many records there are of runs [run, run + count). */
uint64_t audit_runs(struct suite *suite, uint64_t run, uint64_t count);

enum audit_extras { AUDIT_NOTHING_ELSE, AUDIT_MAY_HOLD_MORE };

/* Whether the campaign holds what was acked, byte for byte: scanned, scanned for some kinds, read
 * run by run, and counted. A breach is a fault of `check`, one of order of J2. The payloads that
 * were appended must still be there. In an audit it is only scanned. */
void audit_acked(struct suite *suite, unsigned check, enum audit_extras extras);

/* Whether the campaign stands in the list of campaigns, once, as it was begun, and in order. */
void audit_list(struct suite *suite, unsigned check);

#endif
