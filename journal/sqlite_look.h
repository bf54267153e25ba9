/*
 * sqlite_look: what is at a path, looked at before SQLite may open it.
 *
 * SQLite writes to what it opens: it rolls journals back, recovers and deletes WALs. So that a file
 * which is not ours stays as it is, its header is read first. The main file of a store carries our
 * application id from its first synced page on (sqlite_schema.c), whatever its WAL holds.
 *
 * A path is any file name: never a URI, and no name means anything special.
 *
 * Ownership: plain data of the caller's. Threading: any. Errors: 0 or -errno with text, which shows
 * the path cut short.
 */
#ifndef BENCH_JOURNAL_SQLITE_LOOK_H
#define BENCH_JOURNAL_SQLITE_LOOK_H

#include <stdint.h>

#include "engine/base/err.h"

/* In the header of every file: "BNCH". Reaches disks. */
#define SQLITE_APPLICATION_ID 0x424e4348

/* How much of a path a text shows. */
#define SQLITE_PATH_SHOWN "%.200s"

enum {
    SQLITE_SCHEMA_VERSION = 1,
    /* Room for the full path of a shard; SQLite's own bound is lower. */
    SQLITE_PATH_BYTES = 4096 + 16,
};

enum sqlite_look {
    SQLITE_LOOK_ABSENT,
    SQLITE_LOOK_EMPTY, /* of size 0, or left by a process that was stopped while creating it */
    SQLITE_LOOK_OURS,
};

/* Finds the full path and what is there. Refuses what is not a regular file, what has content that
 * is not a bench database of this version, and a WAL without its database. */
int sqlite_look(const char *path, char full[SQLITE_PATH_BYTES], enum sqlite_look *found,
                struct errmsg *why);

/* Why the file cannot be opened or written, as far as the system tells; else `error`. */
int sqlite_look_for_reason(const char *full, int error);

#endif
