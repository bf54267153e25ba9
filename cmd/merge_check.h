/*
 * merge_check: whether the figures of a result hold together, as those of any campaign do: runs
 * that started are runs that ended, failures have their latencies, records were acked. What does
 * not is no result, whoever made it.
 *
 * Threading: main thread. Errors: -EINVAL, with one line that names file and keys; -ENOMEM.
 */
#ifndef BENCH_MERGE_CHECK_H
#define BENCH_MERGE_CHECK_H

#include "cmd/result_file.h"

int merge_check_result(const struct result_file *file, struct errmsg *why);

#endif
