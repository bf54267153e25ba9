/*
 * sqlite_vfs: counts what SQLite does to the files of one shard.
 *
 * A VFS over the one that is the default when it is registered. It passes everything on (shared
 * memory, mappings, locks, controls: whatever the VFS below has) and counts writes, their bytes,
 * syncs, and the time that syncs take. It remembers the last call that failed, because SQLite
 * forgets the system's errno of some by the time that the error is reported.
 *
 * Ownership: the caller's, both structs embedded wherever it likes. They must not move between
 * registering and unregistering, and every connection that names the VFS is closed before the
 * latter. Name it to sqlite3_open_v2() by `vfs.name`; it never becomes the default.
 * Threading: connections of one VFS are used by one thread at a time (a shard's), so that counting
 * needs no lock. Any thread may read the counts at any time; `failure` belongs to that one thread.
 * Errors: 0 or -errno with text. Units: in the names.
 */
#ifndef BENCH_JOURNAL_SQLITE_VFS_H
#define BENCH_JOURNAL_SQLITE_VFS_H

#include <sqlite3.h>
#include <stdatomic.h>
#include <stdint.h>

#include "engine/base/err.h"

enum sqlite_file_kind {
    SQLITE_FILE_MAIN,
    SQLITE_FILE_WAL,
    SQLITE_FILE_OTHER, /* rollback journals and whatever is temporary */
    SQLITE_FILE_KINDS
};

/* What was asked of the VFS below, whether or not it succeeded; `bytes` holds only what did. */
struct sqlite_io_counts {
    _Atomic uint64_t writes_count;
    _Atomic uint64_t written_bytes;
    _Atomic uint64_t syncs_count;
    _Atomic uint64_t sync_ns;
};

/* For a count that one thread writes: a load and a store do, where an addition would lock the bus.
 */
static inline void sqlite_add(_Atomic uint64_t *count, uint64_t more)
{
    uint64_t before = atomic_load_explicit(count, memory_order_relaxed);
    atomic_store_explicit(count, before + more, memory_order_relaxed);
}

/* The last call that failed; `call` is NULL while none has. */
struct sqlite_io_failure {
    const char *call; /* "write", "sync", "truncate", "read" */
    enum sqlite_file_kind kind;
    int code;   /* SQLite's, extended */
    int system; /* the errno below it, or 0 where the VFS does not tell */
};

struct sqlite_io {
    struct sqlite_io_counts counts[SQLITE_FILE_KINDS];
    struct sqlite_io_failure failure;
};

struct sqlite_vfs {
    sqlite3_vfs vfs; /* first: SQLite hands a pointer to it back */
    sqlite3_vfs *below;
    struct sqlite_io *io;
    char name[32];
};

/* Sets `vfs` up and registers it under a name of its own. `io` is the caller's to clear before, so
 * that its counts may go on over several registrations. -EIO if SQLite has no VFS to build on. */
int sqlite_vfs_register(struct sqlite_vfs *vfs, struct sqlite_io *io, struct errmsg *why);

void sqlite_vfs_unregister(struct sqlite_vfs *vfs);

/* The kind in words, for an error's text: "database", "WAL", "journal". */
const char *sqlite_file_kind_name(enum sqlite_file_kind kind);

#endif
