/* wrapped_journal: see wrapped_journal.h. */
#include "tests/lib/wrapped_journal.h"

#include <errno.h>
#include <stdlib.h>

#include "engine/loop.h"

int wrapped_open(struct journal *journal, const struct journal_config *config, struct errmsg *why)
{
    return journal_memory_ops.open(journal, config, why);
}

void wrapped_close(struct journal *journal)
{
    journal_memory_ops.close(journal);
}

int wrapped_writer_open(struct journal_writer *writer, size_t bytes,
                        void (*settle)(struct timer *timer, uint64_t now_ns), struct errmsg *why)
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
    timer_init(&wrapped->timer, settle);
    writer->impl = wrapped;
    return 0;
}

void wrapped_writer_close(struct journal_writer *writer)
{
    struct wrapped_writer *wrapped = writer->impl;
    assert(wrapped->batch == NULL);
    writer->impl = wrapped->inner;
    journal_memory_ops.writer_close(writer);
    free(wrapped);
}

void wrapped_delay(struct wrapped_writer *wrapped, struct journal_batch *batch, uint64_t delay_ns)
{
    assert(wrapped->batch == NULL);
    struct loop *loop = wrapped->writer->loop;
    wrapped->batch = batch;
    loop_timer_start(loop, &wrapped->timer, loop_clock_ns(loop) + delay_ns);
}

struct journal_batch *wrapped_take(struct wrapped_writer *wrapped)
{
    struct journal_batch *batch = wrapped->batch;
    assert(batch != NULL);
    wrapped->batch = NULL;
    return batch;
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

int wrapped_scan(struct journal_writer *writer,
                 int (*visit)(void *arg, const struct journal_record *record), void *arg)
{
    struct wrapped_writer *wrapped = writer->impl;
    writer->impl = wrapped->inner;
    int result = journal_memory_ops.scan(writer, visit, arg);
    writer->impl = wrapped;
    return result;
}
