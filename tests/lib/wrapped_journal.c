/* wrapped_journal: see wrapped_journal.h. */
#include "tests/lib/wrapped_journal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/loop.h"

int wrapped_open(struct journal *journal, const struct journal_config *config, struct errmsg *why)
{
    return journal_memory_ops.open(journal, config, why);
}

void wrapped_close(struct journal *journal)
{
    journal_memory_ops.close(journal);
}

/* The loop's, for the batch that is due first. */
static void arm(struct wrapped_writer *wrapped)
{
    struct loop *loop = wrapped->writer->loop;
    loop_timer_stop(loop, &wrapped->timer);
    if (wrapped->count > 0)
        loop_timer_start(loop, &wrapped->timer, wrapped->delayed[0].due_ns);
}

static void on_due(struct timer *timer, uint64_t now_ns)
{
    struct wrapped_writer *wrapped = container_of(timer, struct wrapped_writer, timer);
    while (wrapped->count > 0 && wrapped->delayed[0].due_ns <= now_ns) {
        struct journal_batch *batch = wrapped->delayed[0].batch;
        wrapped->count--;
        memmove(&wrapped->delayed[0], &wrapped->delayed[1],
                wrapped->count * sizeof(wrapped->delayed[0]));
        wrapped->settle(wrapped, batch);
    }
    arm(wrapped);
}

int wrapped_writer_open(struct journal_writer *writer, size_t bytes,
                        void (*settle)(struct wrapped_writer *wrapped, struct journal_batch *batch),
                        struct errmsg *why)
{
    assert(bytes >= sizeof(struct wrapped_writer));
    struct wrapped_writer *wrapped = calloc(1, bytes);
    if (wrapped == NULL)
        return errmsg_set(why, -ENOMEM, "no memory");
    int error = journal_memory_ops.writer_open(writer, why);
    if (error != 0) {
        free(wrapped);
        return error;
    }
    wrapped->inner = writer->impl;
    wrapped->writer = writer;
    wrapped->settle = settle;
    timer_init(&wrapped->timer, on_due);
    writer->impl = wrapped;
    return 0;
}

void wrapped_writer_close(struct journal_writer *writer)
{
    struct wrapped_writer *wrapped = writer->impl;
    loop_timer_stop(writer->loop, &wrapped->timer);
    writer->impl = wrapped->inner;
    journal_memory_ops.writer_close(writer);
    free(wrapped);
}

void wrapped_delay(struct wrapped_writer *wrapped, struct journal_batch *batch, uint64_t delay_ns)
{
    uint64_t due_ns = loop_clock_ns(wrapped->writer->loop) + delay_ns;
    unsigned at = wrapped->count;
    assert(wrapped->count < WRAPPED_BATCHES_MAX);
    while (at > 0 && wrapped->delayed[at - 1].due_ns > due_ns) {
        if (wrapped->delayed[at - 1].batch->lane == batch->lane) {
            due_ns = wrapped->delayed[at - 1].due_ns;
            break;
        }
        at--;
    }
    memmove(&wrapped->delayed[at + 1], &wrapped->delayed[at],
            (wrapped->count - at) * sizeof(wrapped->delayed[0]));
    wrapped->delayed[at] = (struct wrapped_delayed){.batch = batch, .due_ns = due_ns};
    wrapped->count++;
    arm(wrapped);
}

void wrapped_commit(struct wrapped_writer *wrapped, struct journal_batch *batch)
{
    struct journal_writer *writer = wrapped->writer;
    writer->impl = wrapped->inner;
    journal_memory_ops.commit(writer, batch);
    writer->impl = wrapped;
}

int wrapped_read(struct journal_writer *writer, uint64_t run, uint32_t seq,
                 struct journal_record *record)
{
    struct wrapped_writer *wrapped = writer->impl;
    writer->impl = wrapped->inner;
    int result = journal_memory_ops.read(writer, run, seq, record);
    writer->impl = wrapped;
    return result;
}

int wrapped_list(struct journal *journal,
                 int (*visit)(void *arg, const struct journal_campaign *campaign), void *arg,
                 struct errmsg *why)
{
    return journal_memory_ops.list(journal, visit, arg, why);
}

int wrapped_scan(struct journal *journal, uint64_t campaign, unsigned part, uint32_t kinds,
                 journal_visit *visit, void *arg, struct errmsg *why)
{
    return journal_memory_ops.scan(journal, campaign, part, kinds, visit, arg, why);
}

int wrapped_read_runs(struct journal *journal, unsigned part, const uint64_t *runs, unsigned count,
                      journal_visit *visit, void *arg, struct errmsg *why)
{
    return journal_memory_ops.read_runs(journal, part, runs, count, visit, arg, why);
}

int wrapped_count(struct journal *journal, unsigned part, struct journal_count *count,
                  struct errmsg *why)
{
    return journal_memory_ops.count(journal, part, count, why);
}
