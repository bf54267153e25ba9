/*
 * kill_journal: see kill_journal.h. The store is given entries whose appends are ours, so that we
 * hear what becomes of them before those who appended do.
 */
#include "tests/lib/kill_journal.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/list.h"

/* Stands in for somebody's append while the store has it. */
struct kill_append {
    struct journal_append append;
    struct journal_append *original; /* NULL: free */
    struct kill_writer *writer;
    struct journal_batch *batch;
    bool is_first; /* of its batch */
    bool is_last;
};

struct kill_writer {
    struct kill_journal *journal;
    struct kill_append appends[KILL_APPENDS_MAX];
};

struct kill_journal {
    struct journal_ops ops;
    const struct journal_ops *store;
    struct kill_log *log;
    struct kill_writer writers[KILL_WRITERS_MAX];
};

static struct kill_log *armed;

const char *kill_point_name(enum kill_point point)
{
    switch (point) {
    case KILL_NEVER:
        return "never";
    case KILL_BEFORE_APPEND:
        return "before append";
    case KILL_AFTER_COMMIT:
        return "after commit";
    case KILL_BEFORE_CALLBACKS:
        return "before callbacks";
    case KILL_AFTER_CALLBACKS:
        return "after callbacks";
    case KILL_AT_CALL:
        return "at call";
    case KILL_POINT_COUNT:
        break;
    }
    return "nowhere";
}

void kill_log_begin_process(struct kill_log *log, enum kill_point point, uint64_t at)
{
    log->point = point;
    log->at = at;
    for (unsigned i = 0; i < KILL_POINT_COUNT; i++)
        atomic_store(&log->reached[i], 0);
    atomic_store(&log->acked, 0);
    atomic_store(&log->refused, 0);
    atomic_store(&log->unknown, 0);
    atomic_store(&log->models, 0);
}

void kill_log_step(struct kill_log *log, enum kill_point point, uint64_t more)
{
    uint64_t before = atomic_fetch_add(&log->reached[point], more);
    if (log->point != point || before >= log->at || before + more < log->at)
        return;
    (void)kill(getpid(), SIGKILL);
    for (;;)
        (void)pause(); /* until it has come */
}

/* --- what becomes of a batch --- */

static struct kill_journal *journal_of(const struct journal_writer *writer)
{
    return container_of(writer->journal->ops, struct kill_journal, ops);
}

/* The store has said of all of them that they are durable: from here on they must be there, whether
 * or not anybody hears of it. */
static void note_settled(struct kill_log *log, const struct journal_batch *batch)
{
    for (uint32_t i = 0; i < batch->count; i++) {
        const struct journal_entry *entry = &batch->entries[i];
        if (entry->result == JOURNAL_ACKED)
            log->records[entry->run][entry->seq].is_acked = true;
    }
}

static void on_done(struct journal_append *append, int result)
{
    struct kill_append *mine = container_of(append, struct kill_append, append);
    struct journal_append *original = mine->original;
    struct kill_log *log = mine->writer->journal->log;
    bool is_last = mine->is_last;
    if (mine->is_first) {
        note_settled(log, mine->batch);
        kill_log_step(log, KILL_BEFORE_CALLBACKS, 1);
    }
    mine->original = NULL;
    if (result == JOURNAL_ACKED)
        atomic_fetch_add(&log->acked, 1);
    else if (result == JOURNAL_UNKNOWN)
        atomic_fetch_add(&log->unknown, 1);
    else
        atomic_fetch_add(&log->refused, 1);
    original->done(original, result);
    if (is_last)
        kill_log_step(log, KILL_AFTER_CALLBACKS, 1);
}

static struct kill_append *take_append(struct kill_writer *writer)
{
    for (unsigned i = 0; i < KILL_APPENDS_MAX; i++)
        if (writer->appends[i].original == NULL)
            return &writer->appends[i];
    assert(!"more appends than a test may have outstanding");
    return NULL;
}

static void note_handed(struct kill_log *log, const struct journal_entry *entry)
{
    assert(entry->run < KILL_RUNS_MAX && entry->seq < KILL_SEQS_MAX);
    struct kill_witness *witness = &log->records[entry->run][entry->seq];
    if (witness->is_acked || witness->is_recorded)
        atomic_fetch_add(&log->repeated, 1);
    witness->digest = entry->digest;
    witness->is_handed = true;
    if (entry->kind == RECORD_MODEL)
        atomic_fetch_add(&log->models, 1);
}

static void wrap(struct kill_writer *writer, struct journal_batch *batch, uint32_t index)
{
    struct journal_entry *entry = &batch->entries[index];
    struct kill_append *mine = take_append(writer);
    *mine = (struct kill_append){
        .append = *entry->append,
        .original = entry->append,
        .writer = writer,
        .batch = batch,
        .is_first = index == 0,
        .is_last = index == batch->count - 1,
    };
    mine->append.done = on_done;
    entry->append = &mine->append;
    note_handed(writer->journal->log, entry);
}

/* A batch that the store gave back comes again: its appends are ours already. */
static void kill_commit(struct journal_writer *writer, struct journal_batch *batch)
{
    struct kill_journal *journal = journal_of(writer);
    bool is_again = batch->entries[0].append->done == on_done;
    for (uint32_t i = 0; i < batch->count && !is_again; i++)
        wrap(&journal->writers[writer->index], batch, i);
    if (!is_again)
        kill_log_step(journal->log, KILL_BEFORE_APPEND, batch->count);
    journal->store->commit(writer, batch);
    kill_log_step(journal->log, KILL_AFTER_COMMIT, 1);
}

/* --- life --- */

static void kill_close(struct journal *journal)
{
    struct kill_journal *closed = container_of(journal->ops, struct kill_journal, ops);
    journal->ops = closed->store;
    journal->ops->close(journal);
    free(closed);
}

void kill_journal_arm(struct kill_log *log)
{
    armed = log;
}

int kill_journal_open(struct journal **journal, const struct journal_config *config,
                      struct errmsg *why)
{
    assert(armed != NULL && config->writers <= KILL_WRITERS_MAX);
    struct kill_journal *opened = calloc(1, sizeof(*opened));
    if (opened == NULL)
        return errmsg_set(why, -ENOMEM, "no memory for a journal that kills");
    int error = journal_open(journal, config, why);
    if (error != 0) {
        free(opened);
        return error;
    }
    opened->store = (*journal)->ops;
    opened->log = armed;
    opened->ops = *opened->store;
    opened->ops.commit = kill_commit;
    opened->ops.close = kill_close;
    for (unsigned i = 0; i < KILL_WRITERS_MAX; i++)
        opened->writers[i].journal = opened;
    (*journal)->ops = &opened->ops;
    armed->campaign = (*journal)->campaign.id;
    return 0;
}
