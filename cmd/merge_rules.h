/*
 * merge_rules: how each single value of a result is merged: one table, a row a key path.
 *
 * A key without a row is refused where adding could be meant (the numbers of store and result): a
 * merged result leaves out nothing in silence. In build and config, and where store has a text, it
 * must be the same in all, so that a setting that is new needs no row to be safe; in host it is the
 * first result's.
 *
 * Threading: main thread. Errors: -EINVAL with one line that names file, key and both values.
 */
#ifndef BENCH_MERGE_RULES_H
#define BENCH_MERGE_RULES_H

#include "cmd/merged.h"

/* Takes the values of one more result in. */
int merge_rules_apply(struct merged *merged, const struct result_file *file, struct errmsg *why);

#endif
