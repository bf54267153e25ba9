/*
 * fault_vfs_state: what the files of fault_vfs share, and nobody else includes.
 *
 * All of it belongs to whoever holds the mutex, but for `base` and `below`, which do not change.
 */
#ifndef BENCH_TESTS_LIB_FAULT_VFS_STATE_H
#define BENCH_TESTS_LIB_FAULT_VFS_STATE_H

#include <pthread.h>
#include <sqlite3.h>

#include "engine/base/list.h"
#include "engine/base/prng.h"
#include "tests/lib/fault_vfs.h"
#include "tests/lib/sim_disk.h"

enum { FAULT_KINDS = 4, FAULT_CALL_KINDS = 6 };

struct fault_vfs {
    sqlite3_vfs base; /* first: SQLite hands a pointer to it back */
    sqlite3_vfs *below;
    pthread_mutex_t mutex;
    struct sim_disk disk;
    struct list handles;
    struct fault_rule rules[FAULT_RULES_MAX]; /* `at` is 0 in those that are free */
    uint64_t calls_count[FAULT_KINDS][FAULT_CALL_KINDS];
    uint64_t written_bytes[FAULT_KINDS];
    uint64_t faults_count;
    struct prng random;
    int last_errno;
    bool is_off;
};

/* SQLite allocates it. */
struct fault_handle {
    sqlite3_file base; /* first: SQLite hands a pointer to it back */
    struct list link;  /* on vfs->handles while `file` is not NULL */
    struct fault_vfs *vfs;
    struct sim_file *file; /* NULL: the power was cut */
    int lock;              /* SQLITE_LOCK_*, a ladder */
    int last_errno;
    bool deletes_on_close;
    bool keeps_wal; /* remembered for whoever asks, as the unix VFS does */
};

/* Counts a call on `file`, which is NULL where the power was cut under it, and says whether it goes
 * ahead. If not, `*code` is its result, and `due` the rule that stopped it (all 0 without one). */
bool fault_vfs_goes_ahead(struct fault_vfs *vfs, const struct sim_file *file, enum fault_calls call,
                          struct fault_rule *due, int *code);

/* Remembers the errno, and returns the code. */
int fault_vfs_fail(struct fault_vfs *vfs, int code, int error);

#endif
