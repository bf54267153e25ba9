/* fault_rules: the part of fault_vfs.h that counts calls, and decides which of them fail. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "tests/lib/fault_vfs_state.h"

static void enter(struct fault_vfs *vfs)
{
    (void)pthread_mutex_lock(&vfs->mutex);
}

static void leave(struct fault_vfs *vfs)
{
    (void)pthread_mutex_unlock(&vfs->mutex);
}

static void power_off(struct fault_vfs *vfs)
{
    struct list *link;
    while ((link = list_pop_front(&vfs->handles)) != NULL) {
        struct fault_handle *h = container_of(link, struct fault_handle, link);
        h->file = NULL;
        h->lock = SQLITE_LOCK_NONE;
    }
    vfs->is_off = true;
}

static unsigned call_index(enum fault_calls call)
{
    return (unsigned)__builtin_ctz(call);
}

/* Counts the call. True if a rule has its effect on it, which is then in `due`. */
static bool is_due(struct fault_vfs *vfs, const struct sim_file *file, enum fault_calls call,
                   struct fault_rule *due)
{
    bool found = false;
    vfs->calls_count[__builtin_ctz(file->kind)][call_index(call)]++;
    for (unsigned i = 0; i < FAULT_RULES_MAX; i++) {
        struct fault_rule *rule = &vfs->rules[i];
        if (rule->at == 0 || (rule->files & file->kind) == 0 || (rule->calls & call) == 0)
            continue;
        if (rule->path != NULL && (file->path == NULL || strstr(file->path, rule->path) == NULL))
            continue;
        if (rule->at > 1) {
            rule->at--;
        } else if (!found) {
            found = true;
            *due = *rule;
            if (!rule->is_sticky)
                rule->at = 0;
        }
    }
    if (found)
        vfs->faults_count++;
    return found;
}

int fault_vfs_fail(struct fault_vfs *vfs, int code, int error)
{
    vfs->last_errno = error;
    return code;
}

static int error_of(enum fault_calls call)
{
    switch (call) {
    case FAULT_READ:
        return SQLITE_IOERR_READ;
    case FAULT_WRITE:
        return SQLITE_IOERR_WRITE;
    case FAULT_TRUNCATE:
        return SQLITE_IOERR_TRUNCATE;
    case FAULT_SYNC:
        return SQLITE_IOERR_FSYNC;
    case FAULT_OPEN:
        return SQLITE_CANTOPEN;
    case FAULT_DELETE:
        return SQLITE_IOERR_DELETE;
    case FAULT_ANY_CHANGE:
    case FAULT_ANY_CALL:
        break;
    }
    return SQLITE_IOERR;
}

bool fault_vfs_goes_ahead(struct fault_vfs *vfs, const struct sim_file *file, enum fault_calls call,
                          struct fault_rule *due, int *code)
{
    *due = (struct fault_rule){0};
    *code = SQLITE_OK;
    if (file == NULL) { /* it lost its power */
        *code = fault_vfs_fail(vfs, error_of(call), EIO);
        return false;
    }
    if (!is_due(vfs, file, call, due))
        return true;
    switch (due->effect) {
    case FAULT_EIO:
        *code = fault_vfs_fail(vfs, error_of(call), EIO);
        break;
    case FAULT_FULL:
        *code = fault_vfs_fail(vfs, call == FAULT_WRITE ? SQLITE_FULL : error_of(call), ENOSPC);
        break;
    case FAULT_LIE:
        break;
    case FAULT_POWER_CUT:
        *code = fault_vfs_fail(vfs, error_of(call), EIO);
        power_off(vfs);
        sim_disk_power_cut(&vfs->disk, due->seed);
        break;
    }
    return false;
}

/* --- what tests call --- */

void fault_vfs_reset(struct fault_vfs *vfs, uint64_t seed)
{
    enter(vfs);
    assert(list_empty(&vfs->handles));
    sim_disk_clear(&vfs->disk);
    memset(vfs->rules, 0, sizeof(vfs->rules));
    memset(vfs->calls_count, 0, sizeof(vfs->calls_count));
    memset(vfs->written_bytes, 0, sizeof(vfs->written_bytes));
    vfs->faults_count = 0;
    vfs->last_errno = 0;
    vfs->is_off = false;
    vfs->random = prng_stream(seed, 0, PRNG_TEST, 5);
    leave(vfs);
    sqlite3_randomness(0, NULL); /* it asks for a seed again */
}

void fault_vfs_set(struct fault_vfs *vfs, const struct fault_rule *rule)
{
    assert(rule->at > 0 && rule->calls != 0);
    assert(rule->effect != FAULT_LIE || (rule->calls & ~(unsigned)FAULT_ANY_CHANGE) == 0);
    enter(vfs);
    unsigned i = 0;
    while (i < FAULT_RULES_MAX && vfs->rules[i].at != 0)
        i++;
    assert(i < FAULT_RULES_MAX);
    vfs->rules[i] = *rule;
    if (rule->files == 0)
        vfs->rules[i].files = FAULT_ANY_FILE;
    leave(vfs);
}

void fault_vfs_clear_rules(struct fault_vfs *vfs)
{
    enter(vfs);
    memset(vfs->rules, 0, sizeof(vfs->rules));
    leave(vfs);
}

void fault_vfs_power_cut(struct fault_vfs *vfs, uint64_t seed)
{
    enter(vfs);
    if (!vfs->is_off) {
        power_off(vfs);
        sim_disk_power_cut(&vfs->disk, seed);
    }
    leave(vfs);
}

void fault_vfs_kill(struct fault_vfs *vfs)
{
    enter(vfs);
    if (!vfs->is_off) {
        power_off(vfs);
        sim_disk_kill(&vfs->disk);
    }
    leave(vfs);
}

void fault_vfs_power_on(struct fault_vfs *vfs)
{
    enter(vfs);
    vfs->is_off = false;
    leave(vfs);
}

bool fault_vfs_is_off(struct fault_vfs *vfs)
{
    enter(vfs);
    bool is_off = vfs->is_off;
    leave(vfs);
    return is_off;
}

uint64_t fault_vfs_count(struct fault_vfs *vfs, unsigned files, unsigned calls)
{
    uint64_t sum = 0;
    enter(vfs);
    for (unsigned i = 0; i < FAULT_KINDS; i++) {
        for (unsigned j = 0; j < FAULT_CALL_KINDS; j++) {
            if ((files & (1U << i)) != 0 && (calls & (1U << j)) != 0)
                sum += vfs->calls_count[i][j];
        }
    }
    leave(vfs);
    return sum;
}

uint64_t fault_vfs_written_bytes(struct fault_vfs *vfs, unsigned files)
{
    uint64_t sum = 0;
    enter(vfs);
    for (unsigned i = 0; i < FAULT_KINDS; i++)
        sum += (files & (1U << i)) != 0 ? vfs->written_bytes[i] : 0;
    leave(vfs);
    return sum;
}

uint64_t fault_vfs_fault_count(struct fault_vfs *vfs)
{
    enter(vfs);
    uint64_t count = vfs->faults_count;
    leave(vfs);
    return count;
}
