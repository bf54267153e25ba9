/*
 * slow_journal: the in-memory store whose commits settle a while later, several at a time, from a
 * timer of the writer's loop: how a store with a disk or a network behaves towards group commit.
 */
#ifndef BENCH_TESTS_SLOW_JOURNAL_H
#define BENCH_TESTS_SLOW_JOURNAL_H

#include "engine/base/clock.h"
#include "journal/backend.h"

#define SLOW_JOURNAL_COMMIT_NS (2 * NS_PER_MS)

enum { SLOW_JOURNAL_LANES = 3, SLOW_JOURNAL_DEPTH = 4 };

extern const struct journal_ops slow_journal_ops;

#endif
