/*
 * script_journal: a store that holds what the test puts into it, record by record, in parts, and
 * fails where it is told to: for the tests of who reads a store. Nothing can be appended.
 *
 * Ownership: the script is the test's and outlives the journals that are opened on it; payloads are
 * the test's unless script_add_copy() took them. Threading: read from any number of threads while
 * nothing is added. Errors: aborts without memory.
 */
#ifndef BENCH_TESTS_LIB_SCRIPT_JOURNAL_H
#define BENCH_TESTS_LIB_SCRIPT_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "journal/backend.h"

enum { SCRIPT_CAMPAIGNS_MAX = 8 };

struct script_record {
    unsigned part;
    bool is_copy;
    bool is_hidden;     /* from read_runs */
    bool is_unreadable; /* for it */
    struct journal_record record;
};

struct script {
    struct journal_ops ops;
    unsigned parts;
    uint64_t campaigns[SCRIPT_CAMPAIGNS_MAX]; /* that are listed; the last one is the newest */
    unsigned campaign_count;
    struct script_record *records; /* in the order in which they are read */
    size_t count;
    size_t capacity;
    size_t scan_fails_after; /* so many records of a part; UINT64_MAX at first: never */
    bool does_read_fail;
    bool are_runs_reversed; /* as read_runs shows them */
};

/* One campaign, 1, is listed. */
void script_init(struct script *script, unsigned parts);
void script_free(struct script *script);

void script_add(struct script *script, unsigned part, const struct journal_record *record);
void script_add_copy(struct script *script, unsigned part, const struct journal_record *record);

/* A journal on it that resumes the newest campaign; or is an audit. */
struct journal *script_open(struct script *script, enum journal_mode mode);

#endif
