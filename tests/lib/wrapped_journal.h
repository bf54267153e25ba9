/*
 * wrapped_journal: what the test stores share that are the in-memory store behind something: they
 * take a batch, do as they like, and hand it on later.
 *
 * A writer of such a store begins with struct wrapped_writer. Threading and ownership: those of
 * journal/backend.h.
 */
#ifndef BENCH_TESTS_LIB_WRAPPED_JOURNAL_H
#define BENCH_TESTS_LIB_WRAPPED_JOURNAL_H

#include "engine/base/wheel.h"
#include "journal/backend.h"

struct wrapped_writer {
    void *inner; /* the in-memory store's own, in place while it is called */
    struct journal_writer *writer;
    struct journal_batch *batch; /* in flight, or NULL */
    struct timer timer;
};

/* As in journal_ops. */
int wrapped_open(struct journal *journal, const struct journal_config *config, struct errmsg *why);
void wrapped_close(struct journal *journal);
int wrapped_read(struct journal_writer *writer, uint64_t run, uint32_t seq,
                 struct journal_record *record);
int wrapped_scan(struct journal_writer *writer,
                 int (*visit)(void *arg, const struct journal_record *record), void *arg);

/* `bytes` is the size of the whole writer, which is zeroed; `settle` is called when a batch's time
 * has come. 0 or -errno. */
int wrapped_writer_open(struct journal_writer *writer, size_t bytes,
                        void (*settle)(struct timer *timer, uint64_t now_ns), struct errmsg *why);
void wrapped_writer_close(struct journal_writer *writer);

/* Keeps the batch in flight and lets `settle` be called once `delay_ns` have passed. */
void wrapped_delay(struct wrapped_writer *wrapped, struct journal_batch *batch, uint64_t delay_ns);

/* The batch that was in flight, which is not any more. For `settle`. */
struct journal_batch *wrapped_take(struct wrapped_writer *wrapped);

/* Hands the batch to the in-memory store, which ends in journal_commit_done(). */
void wrapped_commit(struct wrapped_writer *wrapped, struct journal_batch *batch);

#endif
