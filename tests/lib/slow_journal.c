/* slow_journal: see slow_journal.h. */
#include "tests/lib/slow_journal.h"

#include "engine/loop.h"
#include "tests/lib/wrapped_journal.h"

static void settle(struct timer *timer, uint64_t now_ns)
{
    (void)now_ns;
    struct wrapped_writer *slow = container_of(timer, struct wrapped_writer, timer);
    wrapped_commit(slow, wrapped_take(slow));
}

static void slow_commit(struct journal_writer *writer, struct journal_batch *batch)
{
    wrapped_delay(writer->impl, batch, SLOW_JOURNAL_COMMIT_NS);
}

static int slow_writer_open(struct journal_writer *writer, struct errmsg *why)
{
    return wrapped_writer_open(writer, sizeof(struct wrapped_writer), settle, why);
}

const struct journal_ops slow_journal_ops = {
    .name = "slow",
    .levels = {DURABILITY_NONE},
    .open = wrapped_open,
    .close = wrapped_close,
    .writer_open = slow_writer_open,
    .writer_close = wrapped_writer_close,
    .commit = slow_commit,
    .read = wrapped_read,
    .scan = wrapped_scan,
};
