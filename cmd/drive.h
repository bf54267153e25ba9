/*
 * drive: drives a campaign, new or resumed, and reports it: what run and resume share.
 *
 * Ownership: the options are the caller's; memory_bytes_max is filled in. Threading: the main
 * thread's, which takes the signals meanwhile.
 */
#ifndef BENCH_DRIVE_H
#define BENCH_DRIVE_H

#include "cmd/options.h"

/* Returns the exit code, having said on standard error what went wrong. */
int drive_campaign(struct options *options);

#endif
