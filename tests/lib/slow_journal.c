/* slow_journal: see slow_journal.h. */
#include "tests/lib/slow_journal.h"

#include <errno.h>
#include <stdlib.h>

#include "engine/loop.h"

struct slow_writer {
    void *inner; /* the in-memory store's own, in place while it is called */
    struct journal_writer *writer;
    struct journal_batch *batch; /* in flight, or NULL */
    struct timer timer;
};

static void settle(struct timer *timer, uint64_t now_ns)
{
    (void)now_ns;
    struct slow_writer *slow = container_of(timer, struct slow_writer, timer);
    struct journal_writer *writer = slow->writer;
    struct journal_batch *batch = slow->batch;

    slow->batch = NULL;
    writer->impl = slow->inner;
    journal_memory_ops.commit(writer, batch); /* ends in journal_commit_done() */
    writer->impl = slow;
}

static void slow_commit(struct journal_writer *writer, struct journal_batch *batch)
{
    struct slow_writer *slow = writer->impl;
    assert(slow->batch == NULL);
    slow->batch = batch;
    loop_timer_start(writer->loop, &slow->timer,
                     loop_clock_ns(writer->loop) + SLOW_JOURNAL_COMMIT_NS);
}

static int slow_open(struct journal *journal, const struct journal_config *config,
                     struct errmsg *why)
{
    return journal_memory_ops.open(journal, config, why);
}

static void slow_close(struct journal *journal)
{
    journal_memory_ops.close(journal);
}

static int slow_writer_open(struct journal_writer *writer, struct errmsg *why)
{
    struct slow_writer *slow = calloc(1, sizeof(*slow));
    if (slow == NULL)
        return errmsg_set(why, -ENOMEM, "no memory");
    int error = journal_memory_ops.writer_open(writer, why);
    if (error != 0) {
        free(slow);
        return error;
    }
    slow->inner = writer->impl;
    slow->writer = writer;
    timer_init(&slow->timer, settle);
    writer->impl = slow;
    return 0;
}

static void slow_writer_close(struct journal_writer *writer)
{
    struct slow_writer *slow = writer->impl;
    assert(slow->batch == NULL);
    writer->impl = slow->inner;
    journal_memory_ops.writer_close(writer);
    free(slow);
}

static int slow_read(struct journal_writer *writer, uint64_t run, uint32_t seq,
                     struct journal_record *record)
{
    struct slow_writer *slow = writer->impl;
    writer->impl = slow->inner;
    int result = journal_memory_ops.read(writer, run, seq, record);
    writer->impl = slow;
    return result;
}

static int slow_scan(struct journal_writer *writer,
                     int (*visit)(void *arg, const struct journal_record *record), void *arg)
{
    struct slow_writer *slow = writer->impl;
    writer->impl = slow->inner;
    int result = journal_memory_ops.scan(writer, visit, arg);
    writer->impl = slow;
    return result;
}

const struct journal_ops slow_journal_ops = {
    .name = "slow",
    .levels = {DURABILITY_NONE},
    .open = slow_open,
    .close = slow_close,
    .writer_open = slow_writer_open,
    .writer_close = slow_writer_close,
    .commit = slow_commit,
    .read = slow_read,
    .scan = slow_scan,
};
