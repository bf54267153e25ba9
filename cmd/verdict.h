/*
 * verdict: the exit code that a report ends in, with the line to stderr that says why, in the order
 * in which one reason hides another:
 *
 *   a signal > an output that is lost > a campaign that went wrong > a measurement that is not
 * valid > an objective that was missed > runs that did not complete
 *
 * Runs that did not complete are no failure where an objective of errors that is met allows for
 * them. A missed objective comes before failed runs, since it may be about them: 'errors<0.1%'. For
 * the same reason it is told of them though the measurement is not valid, as where none completed.
 * Threading: main thread.
 */
#ifndef BENCH_VERDICT_H
#define BENCH_VERDICT_H

#include "cmd/report.h"

/* What the report does not tell itself; whoever finds it has said so already. */
struct verdict_facts {
    bool has_lost_output;
    bool has_gone_wrong;  /* the campaign, beyond runs that did not complete */
    bool has_failed_runs; /* or, of resume, anything else that makes it a failure */
};

int verdict_of(const struct report *report, const struct verdict_facts *facts);

#endif
