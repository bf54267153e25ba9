/* manual_journal: see manual_journal.h. */
#include "tests/lib/manual_journal.h"

#include <errno.h>
#include <string.h>

#include "tests/lib/loop_sim.h"

enum { DRAIN_ROUNDS_MAX = 100000, NOTE_DIGEST = 5 };

static int store_open(struct journal *journal, const struct journal_config *config,
                      struct errmsg *why)
{
    (void)journal;
    (void)config;
    (void)why;
    return 0;
}

static void store_close(struct journal *journal)
{
    (void)journal;
}

static int store_writer_open(struct journal_writer *writer, struct errmsg *why)
{
    (void)writer;
    (void)why;
    return 0;
}

/* What it has is let go of. */
static void store_writer_close(struct journal_writer *writer)
{
    ((struct manual *)writer->impl)->held_count = 0;
}

static void store_commit(struct journal_writer *writer, struct journal_batch *batch)
{
    struct manual *manual = writer->impl;
    assert(batch->count > 0 && manual->held_count < MANUAL_HELD_MAX);
    manual->commits++;
    if (manual->returns_left > 0) {
        manual->returns_left--;
        journal_batch_retry(writer, batch, -EBUSY, false);
        return;
    }
    manual->held[manual->held_count++] = batch;
}

static const struct journal_ops manual_ops = {
    .name = "manual",
    .levels = {DURABILITY_POWER, DURABILITY_NONE},
    .open = store_open,
    .close = store_close,
    .writer_open = store_writer_open,
    .writer_close = store_writer_close,
    .commit = store_commit,
};

bool manual_open(struct manual *manual, unsigned lanes, unsigned depth, uint64_t retry_for_ns)
{
    struct errmsg why;
    const struct journal_config journal = {
        .uri = "manual", .writers = 1, .retry_for_ns = retry_for_ns};
    memset(manual, 0, sizeof(*manual));
    if (loop_open_ops(&manual->loop, &loop_sim_ops, &why) != 0)
        return false;
    if (journal_open_ops(&manual->journal, &manual_ops, &journal, &why) != 0)
        goto fail;
    if (journal_writer_open(manual->journal, 0, &manual->loop, &manual->writer, &why) != 0) {
        journal_close(manual->journal);
        goto fail;
    }
    manual->writer->impl = manual;
    manual->writer->lanes = lanes;
    manual->writer->depth = depth;
    return true;

fail:
    loop_close(&manual->loop);
    return false;
}

void manual_close(struct manual *manual)
{
    journal_writer_close(manual->writer);
    journal_close(manual->journal);
    loop_close(&manual->loop);
}

static struct journal_batch *take(struct manual *manual, unsigned index)
{
    assert(index < manual->held_count);
    struct journal_batch *batch = manual->held[index];
    manual->held_count--;
    memmove(&manual->held[index], &manual->held[index + 1],
            (manual->held_count - index) * sizeof(struct journal_batch *));
    return batch;
}

void manual_settle(struct manual *manual, unsigned index, int result)
{
    struct journal_batch *batch = take(manual, index);
    journal_batch_fail(batch, result);
    journal_batch_done(manual->writer, batch, loop_clock_ns(&manual->loop));
}

void manual_return(struct manual *manual, unsigned index, int error, bool is_in_doubt)
{
    journal_batch_retry(manual->writer, take(manual, index), error, is_in_doubt);
}

void manual_pass(struct manual *manual, uint64_t duration_ns)
{
    uint64_t until_ns = manual->loop.now_ns + duration_ns;
    while (manual->loop.now_ns < until_ns)
        if (loop_poll(&manual->loop, until_ns, UINT32_MAX) != 0)
            return;
}

bool manual_drain(struct manual *manual)
{
    for (unsigned round = 0; round < DRAIN_ROUNDS_MAX; round++) {
        if (!journal_is_busy(manual->writer))
            return journal_deliver(manual->writer) == 0;
        journal_flush(manual->writer);
        while (manual->held_count > 0)
            manual_settle(manual, 0, JOURNAL_ACKED);
        (void)journal_deliver(manual->writer);
    }
    return false;
}

/* --- notes --- */

static unsigned note_order;

static void on_note(struct journal_append *append, int result)
{
    struct note *note = container_of(append, struct note, append);
    note->result = result;
    note->fired++;
    note->order = ++note_order;
}

void note_append(struct manual *manual, struct note *note, const void *payload, size_t bytes)
{
    note->append.done = on_note;
    note->append.digest = NOTE_DIGEST;
    note->result = NOTE_UNANSWERED;
    journal_append(manual->writer, &note->append, RECORD_MODEL, payload, bytes);
    assert(note->result == NOTE_UNANSWERED); /* never from inside the call */
}

void note_send(struct manual *manual, struct note *note, uint64_t run)
{
    note->append.run = run;
    note_append(manual, note, "x", 1);
    journal_flush(manual->writer);
}

/* --- runs --- */

uint64_t manual_run_in(unsigned lane, unsigned lanes, uint64_t from)
{
    while (journal_lane_of(from, lanes) != lane)
        from++;
    return from;
}

uint64_t manual_held_run(const struct manual *manual, unsigned index)
{
    assert(index < manual->held_count);
    return manual->held[index]->entries[0].run;
}
