/*
 * shape: what a store keeps of a campaign besides its records, as JSON: all that the content of its
 * runs depends on, so that they can be resumed as what they were, and how they were driven.
 *
 *   {"v":1,"seed":1,"runs":5000,"duration_ns":0,"concurrency":256,"timeout_ns":0,"turns":2,
 *    "tools":1,"effect":"noop","history":"delta","latency":"50ms","tool_latency":"0",
 *    "prompt_bytes":"","reply_bytes":"","tokens":0,"token_interval_ns":0,
 *    "stream_journal":"none","model_error_rate":"0.000000%","model_timeout_ns":0,"model_retries":0,
 *    "hedge_ns":0}
 *
 * Keys are append-only; those from "tokens" on may be missing and are 0 then. Distributions stand
 * as they were given; a file: is read again. What is read comes from a store and is not trusted.
 * Ownership: the caller's. Threading: none.
 */
#ifndef BENCH_SHAPE_H
#define BENCH_SHAPE_H

#include <stddef.h>

#include "engine/base/err.h"
#include "engine/campaign.h"

enum { SHAPE_BYTES_MAX = 16 << 10 }; /* any shape fits */

/* Writes the text and a terminating NUL. */
void shape_write(const struct campaign_config *config, char text[SHAPE_BYTES_MAX]);

/* Sets the members that a shape has; of the distributions those that are empty (spec ""), so that
 * what the caller has been given goes before. -EINVAL, or what dist_parse() returns, with the
 * reason; then what has been set is to be freed all the same. */
int shape_read(struct campaign_config *config, const char *text, struct errmsg *why);

#endif
