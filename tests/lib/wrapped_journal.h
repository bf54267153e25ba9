/*
 * wrapped_journal: what the test stores share that are the in-memory store behind something: they
 * take batches, do as they like, and hand them on later.
 *
 * A writer of such a store begins with struct wrapped_writer. Threading and ownership: those of
 * journal/backend.h. Units: ns.
 */
#ifndef BENCH_TESTS_LIB_WRAPPED_JOURNAL_H
#define BENCH_TESTS_LIB_WRAPPED_JOURNAL_H

#include "engine/base/wheel.h"
#include "journal/backend.h"

/* Lanes times depth of such a store. */
enum { WRAPPED_BATCHES_MAX = 16 };

struct wrapped_writer {
    void *inner; /* the in-memory store's own, in place while it is called */
    struct journal_writer *writer;
    void (*settle)(struct wrapped_writer *wrapped, struct journal_batch *batch);
    struct timer timer;
    unsigned count;
    struct wrapped_delayed {
        struct journal_batch *batch;
        uint64_t due_ns;
    } delayed[WRAPPED_BATCHES_MAX]; /* in the order in which they are due */
};

/* As in journal_ops. */
int wrapped_open(struct journal *journal, const struct journal_config *config, struct errmsg *why);
void wrapped_close(struct journal *journal);
int wrapped_read(struct journal_writer *writer, uint64_t run, uint32_t seq,
                 struct journal_record *record);
int wrapped_list(struct journal *journal,
                 int (*visit)(void *arg, const struct journal_campaign *campaign), void *arg,
                 struct errmsg *why);
int wrapped_scan(struct journal *journal, uint64_t campaign, unsigned part, uint32_t kinds,
                 journal_visit *visit, void *arg, struct errmsg *why);
int wrapped_read_runs(struct journal *journal, unsigned part, const uint64_t *runs, unsigned count,
                      journal_visit *visit, void *arg, struct errmsg *why);
int wrapped_count(struct journal *journal, unsigned part, struct journal_count *count,
                  struct errmsg *why);

/* `bytes` is the size of the whole writer, which is zeroed; `settle` is called when a batch's time
 * has come, and has it from then on. 0 or -errno. */
int wrapped_writer_open(struct journal_writer *writer, size_t bytes,
                        void (*settle)(struct wrapped_writer *wrapped, struct journal_batch *batch),
                        struct errmsg *why);
void wrapped_writer_close(struct journal_writer *writer);

/* Lets `settle` be called once `delay_ns` have passed, and not before the batches of the same lane
 * that wait already. Other lanes may be overtaken. */
void wrapped_delay(struct wrapped_writer *wrapped, struct journal_batch *batch, uint64_t delay_ns);

/* Hands the batch to the in-memory store, which ends in journal_batch_done(). */
void wrapped_commit(struct wrapped_writer *wrapped, struct journal_batch *batch);

#endif
