/*
 * store_place: a folder of its own for a store that keeps its records in files, and what else tests
 * of such files share.
 *
 * Ownership: plain data of the caller's. Threading: none. Errors: the test ends with what is wrong.
 */
#ifndef BENCH_TESTS_LIB_STORE_PLACE_H
#define BENCH_TESTS_LIB_STORE_PLACE_H

#include <stddef.h>
#include <stdint.h>

#include "tests/lib/scratch.h"

enum { STORE_PATH_BYTES = 1024 };

struct store_place {
    struct scratch folder;
    char path[128]; /* of the store, which is not made yet */
    char uri[160];
};

void store_place_make(struct store_place *place);
void store_place_remove(const struct store_place *place);

/* The size of the file at the store's path with that ending, or -1. */
int64_t store_place_size(const struct store_place *place, const char *ending);

/* A name in the folder, valid until the eighth call after it. */
const char *store_place_name(const struct store_place *place, const char *file);

/* Of the names and bytes of all files in the folder. */
uint64_t store_place_digest(const struct store_place *place);

/* Makes the file, or another of it. */
void store_write_file(const char *path, const void *bytes, size_t size);

/* Runs SQL on a database, with SQLite's default settings. */
void store_execute(const char *path, const char *sql);

/* What a process leaves that is killed once it has called the function. */
void store_leave_behind(void (*leave)(const char *path), const char *path);

#endif
