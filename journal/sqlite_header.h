/*
 * sqlite_header: the header of a database file, read without SQLite, which would write.
 *
 * The header is the begin of page 1. A process or a machine that stopped while page 1 was being
 * written leaves it torn; its bytes are then in the WAL or the rollback journal, from which SQLite
 * restores it. So that a store of ours is known again they are looked for there.
 *
 * Files are read through SQLite's VFS, because closing a descriptor of our own would give up the
 * locks that another connection of this process has on the file.
 *
 * Ownership: plain data. Threading: any. Errors: 0 or -errno.
 */
#ifndef BENCH_JOURNAL_SQLITE_HEADER_H
#define BENCH_JOURNAL_SQLITE_HEADER_H

#include <stdbool.h>
#include <stdint.h>

struct sqlite_header {
    bool is_database; /* SQLite's, whoever's; else the two below mean nothing */
    uint32_t application_id;
    uint32_t user_version;
    bool is_empty; /* the file is of size 0 */
};

/* Whether there is such a file, and not of size 0: "" or "-wal" or "-journal" behind the path. */
bool sqlite_file_exists(const char *full, const char *ending);

/* Of the main file; or of page 1 in its WAL or journal, if the main file's is none and its size is
 * one that a file whose writing was cut may have: of whole sectors. */
int sqlite_header_read(const char *full, struct sqlite_header *header);

/* Whether a rollback journal says that the database was empty before the transaction that did not
 * end: then nothing is lost, and SQLite will make it empty again. */
bool sqlite_was_being_created(const char *full);

#endif
