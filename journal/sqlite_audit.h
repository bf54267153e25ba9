/*
 * sqlite_audit: a VFS that only reads, so that an audit changes nothing on disk whatever SQLite
 * would like to do.
 *
 * SQLite reads a database in WAL mode through files that it writes and deletes: it creates a WAL
 * that is missing, and wants an exclusive lock when no other process may share the index. Here
 * every file is opened for reading, a WAL that is missing is empty, and the exclusive lock is the
 * shared one, which keeps writers out just as well. Nothing is written, truncated or deleted: that
 * is an error.
 *
 * Ownership: the caller's struct, which must not move between registering and unregistering; every
 * connection that names it is closed before the latter. Threading: as the VFS below. Errors: 0 or
 * -errno with text.
 */
#ifndef BENCH_JOURNAL_SQLITE_AUDIT_H
#define BENCH_JOURNAL_SQLITE_AUDIT_H

#include <sqlite3.h>

#include "engine/base/err.h"

struct sqlite_audit_vfs {
    sqlite3_vfs vfs; /* first: SQLite hands a pointer to it back */
    sqlite3_vfs *below;
    char name[32];
};

int sqlite_audit_vfs_register(struct sqlite_audit_vfs *vfs, struct errmsg *why);
void sqlite_audit_vfs_unregister(struct sqlite_audit_vfs *vfs);

#endif
