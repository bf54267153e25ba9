/*
 * dist_file: the list of values behind a "file:PATH" distribution. Internal to dist.
 *
 * Ownership: the values belong to the dist. Threading: none. Units: ns or bytes.
 */
#ifndef BENCH_BASE_DIST_FILE_H
#define BENCH_BASE_DIST_FILE_H

#include "engine/base/dist.h"

/* One value, with the bound of its unit: 0, -EINVAL or -ERANGE. In dist.c. */
int dist_parse_value(const char *text, enum dist_unit unit, uint64_t *value, struct errmsg *why);

/* Reads the file into d->values, ascending. 0; -EINVAL for what is not a regular file, for an empty
 * list and for a malformed line, which `why` numbers; -ERANGE for too many values or one that is
 * too large; -ENOMEM; the errno of the file. On failure d->values is NULL. */
int dist_file_read(struct dist *d, const char *path, struct errmsg *why);

#endif
