/* slow_journal: see slow_journal.h. */
#include "tests/lib/slow_journal.h"

#include "engine/loop.h"
#include "tests/lib/wrapped_journal.h"

static_assert(SLOW_JOURNAL_LANES * SLOW_JOURNAL_DEPTH <= WRAPPED_BATCHES_MAX, "all at a time");

static void slow_commit(struct journal_writer *writer, struct journal_batch *batch)
{
    wrapped_delay(writer->impl, batch, SLOW_JOURNAL_COMMIT_NS);
}

static int slow_writer_open(struct journal_writer *writer, struct errmsg *why)
{
    writer->lanes = SLOW_JOURNAL_LANES;
    writer->depth = SLOW_JOURNAL_DEPTH;
    return wrapped_writer_open(writer, sizeof(struct wrapped_writer), wrapped_commit, why);
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
    .list = wrapped_list,
    .scan = wrapped_scan,
    .read_runs = wrapped_read_runs,
    .count = wrapped_count,
};
