/*
 * One transaction of a shard.
 *
 * The happy path: BEGIN; each record is held against the seq that its run is at (run_table, or the
 * database for a run that is not in it) and inserted, several by a statement; COMMIT; all are
 * acked. An entry that is to be acked has no result until then.
 *
 * A record that is there already: its seq is below the run's next one, or the index keeps it out.
 * It is read and compared: the same bytes are acked with the others, other bytes are a conflict.
 * What follows of a refused record's run is refused. A statement never holds two records of a run,
 * so that nothing is inserted after one that is kept out.
 *
 * An error before COMMIT, or a write that fails in it: the transaction is not there, since its
 * frames end without the mark of a commit, and everything is refused. (The mark is on the last
 * frame, and nothing is written behind it as long as the VFS says that overwriting is powersafe,
 * which SQLite's own does; one that does not has the last frame repeated to the end of a sector.)
 * Any other error of COMMIT, a sync above all: it may be there, durable or not, and is unknown; a
 * sync that has failed is never tried again, because the kernel has dropped what it could not
 * write. Either way the store stops. The connection writes nothing more, so that no frame that is
 * acked can be overwritten, and leaves the WAL to the next process, which writes all of it anew.
 *
 * A checkpoint that fails: what is acked is in the WAL. The store stops likewise.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "engine/base/clock.h"
#include "journal/sqlite_shard.h"

enum {
    WAL_HEADER_BYTES = 32,
    WAL_FRAME_HEADER_BYTES = 24,
};

static int run_statement(sqlite3_stmt *statement)
{
    (void)sqlite3_step(statement); /* reset repeats its error */
    return sqlite3_reset(statement);
}

/* A payload of no bytes is an empty blob, whatever its address; NULL would be no blob. */
static const void *payload_of(const struct journal_batch *batch, const struct journal_entry *entry)
{
    return entry->bytes > 0 ? batch->bytes + entry->offset : "";
}

/* Looks up where the run is. SQLite's code. */
static int read_next_seq(struct sqlite_shard *shard, uint64_t run, uint64_t *next_seq)
{
    uint8_t uuid[RUN_KEY_UUID_BYTES];
    int64_t value = 0;
    sqlite_shard_bind_run(shard, shard->next_seq, 1, run, uuid);
    int code = sqlite3_step(shard->next_seq);
    if (code == SQLITE_ROW) {
        bool is_valid =
            sqlite_column_is_integer(shard->next_seq, 0, 0, (int64_t)JOURNAL_SEQ_MAX + 1, &value);
        code = is_valid ? SQLITE_OK : SQLITE_CORRUPT;
    }
    (void)sqlite3_reset(shard->next_seq); /* repeats the error of the step */
    *next_seq = (uint64_t)value;
    return code == SQLITE_DONE ? SQLITE_CORRUPT : code; /* it must have a row */
}

static bool is_same(sqlite3_stmt *row, const struct journal_entry *entry, const void *payload)
{
    return sqlite3_column_type(row, SQLITE_COLUMN_KIND) == SQLITE_INTEGER &&
           sqlite3_column_int64(row, SQLITE_COLUMN_KIND) == entry->kind &&
           sqlite3_column_type(row, SQLITE_COLUMN_DIGEST) == SQLITE_INTEGER &&
           (uint64_t)sqlite3_column_int64(row, SQLITE_COLUMN_DIGEST) == entry->digest &&
           sqlite3_column_type(row, SQLITE_COLUMN_PAYLOAD) == SQLITE_BLOB &&
           (uint32_t)sqlite3_column_bytes(row, SQLITE_COLUMN_PAYLOAD) == entry->bytes &&
           (entry->bytes == 0 ||
            memcmp(sqlite3_column_blob(row, SQLITE_COLUMN_PAYLOAD), payload, entry->bytes) == 0);
}

/* What is recorded under the key, held against the entry. SQLite's code. */
static int compare(struct sqlite_shard *shard, struct journal_batch *batch, uint32_t index)
{
    const struct journal_entry *entry = &batch->entries[index];
    uint8_t uuid[RUN_KEY_UUID_BYTES];
    sqlite_shard_bind_run(shard, shard->find, 1, entry->run, uuid);
    (void)sqlite3_bind_int64(shard->find, 2, entry->seq);
    int code = sqlite3_step(shard->find);
    /* Below the next seq and not there: the index lies, or a row is missing. */
    if (code == SQLITE_DONE)
        code = SQLITE_CORRUPT;
    else if (code == SQLITE_ROW && !is_same(shard->find, entry, payload_of(batch, entry)))
        journal_batch_refuse(batch, index, JOURNAL_CONFLICT);
    (void)sqlite3_reset(shard->find); /* repeats the error of the step */
    return code == SQLITE_ROW ? SQLITE_OK : code;
}

/* --- inserting --- */

/* Records that wait to be inserted by one statement, each of another run. */
struct group {
    unsigned count;
    struct row {
        struct journal_batch *batch;
        uint32_t index;
    } rows[SQLITE_INSERT_ROWS];
    uint64_t runs[SQLITE_INSERT_ROWS];
    uint8_t uuids[SQLITE_INSERT_ROWS][RUN_KEY_UUID_BYTES];
};

static const struct journal_entry *entry_of(const struct row *row)
{
    return &row->batch->entries[row->index];
}

/* No binding needs memory, so none fails. */
static void bind(const struct sqlite_shard *shard, sqlite3_stmt *statement, int at,
                 struct group *group, unsigned i)
{
    const struct row *row = &group->rows[i];
    const struct journal_entry *entry = entry_of(row);
    sqlite_shard_bind_run(shard, statement, at, entry->run, group->uuids[i]);
    (void)sqlite3_bind_int64(statement, at + 1, entry->seq);
    (void)sqlite3_bind_int64(statement, at + 2, entry->kind);
    (void)sqlite3_bind_int64(statement, at + 3, (int64_t)entry->digest);
    (void)sqlite3_bind_blob(statement, at + 4, payload_of(row->batch, entry), (int)entry->bytes,
                            SQLITE_STATIC);
}

static void note_inserted(struct sqlite_shard *shard, const struct journal_entry *entry)
{
    if (entry->kind == RECORD_END)
        run_table_drop(&shard->runs, entry->run);
    else
        run_table_put(&shard->runs, entry->run, (uint64_t)entry->seq + 1);
}

/* Inserts rows [first, first + count) of the group, as many as the statement has. Those whose key
 * is there already are left out, and compared. SQLite's code. */
static int insert(struct sqlite_shard *shard, sqlite3_stmt *statement, struct group *group,
                  unsigned first, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        bind(shard, statement, 1 + (int)i * SQLITE_INSERT_PARAMETERS, group, first + i);
    int code = run_statement(statement);
    if (code != SQLITE_OK)
        return code;
    if (__builtin_expect(sqlite3_changes(shard->db.handle) == (int)count, 1)) {
        for (unsigned i = first; i < first + count; i++)
            note_inserted(shard, entry_of(&group->rows[i]));
        return SQLITE_OK;
    }
    for (unsigned i = first; i < first + count && code == SQLITE_OK; i++) {
        const struct row *row = &group->rows[i];
        run_table_drop(&shard->runs, entry_of(row)->run); /* it is to be looked up again */
        code = compare(shard, row->batch, row->index);
    }
    return code;
}

static int insert_group(struct sqlite_shard *shard, struct group *group)
{
    unsigned count = group->count;
    int code = SQLITE_OK;
    group->count = 0;
    if (count == SQLITE_INSERT_ROWS)
        return insert(shard, shard->insert_many, group, 0, count);
    for (unsigned i = 0; i < count && code == SQLITE_OK; i++)
        code = insert(shard, shard->insert, group, i, 1);
    return code;
}

static bool holds_run(const struct group *group, uint64_t run)
{
    for (unsigned i = 0; i < group->count; i++)
        if (group->runs[i] == run)
            return true;
    return false;
}

/* --- one record after the other --- */

/* What is to be done with a record that is not known to be the next of its run. */
enum verdict { INSERT_IT, LEAVE_IT };

static int judge(struct sqlite_shard *shard, struct journal_batch *batch, uint32_t index,
                 enum verdict *verdict)
{
    const struct journal_entry *entry = &batch->entries[index];
    uint64_t next_seq = run_table_find(&shard->runs, entry->run);
    int code = SQLITE_OK;

    /* A first record is not looked up, or each would be: the index finds one that is there. */
    if (next_seq == 0 && entry->seq > 0) {
        code = read_next_seq(shard, entry->run, &next_seq);
        if (code == SQLITE_OK && next_seq > 0)
            run_table_put(&shard->runs, entry->run, next_seq);
    }
    *verdict = entry->seq == next_seq ? INSERT_IT : LEAVE_IT;
    if (code != SQLITE_OK || *verdict == INSERT_IT)
        return code;
    if (entry->seq < next_seq)
        return compare(shard, batch, index);
    journal_batch_refuse(batch, index, JOURNAL_GAP);
    return SQLITE_OK;
}

static int put(struct sqlite_shard *shard, struct group *group, struct journal_batch *batch,
               uint32_t index)
{
    uint64_t run = batch->entries[index].run;
    enum verdict verdict = INSERT_IT;
    int code = SQLITE_OK;

    if (holds_run(group, run)) {
        code = insert_group(shard, group);
        if (batch->entries[index].result != JOURNAL_UNSET)
            return code; /* it was refused with the one before it */
    }
    if (code == SQLITE_OK)
        code = judge(shard, batch, index, &verdict);
    if (code != SQLITE_OK || verdict == LEAVE_IT)
        return code;
    group->runs[group->count] = run;
    group->rows[group->count++] = (struct row){batch, index};
    return group->count < SQLITE_INSERT_ROWS ? SQLITE_OK : insert_group(shard, group);
}

static int put_all(struct sqlite_shard *shard, const struct sqlite_sent *first)
{
    struct group group = {.count = 0};
    for (const struct sqlite_sent *sent = first; sent != NULL; sent = sent->next) {
        struct journal_batch *batch = sent->batch;
        for (uint32_t i = 0; i < batch->count; i++) {
            if (batch->entries[i].result != JOURNAL_UNSET)
                continue;
            int code = put(shard, &group, batch, i);
            if (code != SQLITE_OK)
                return code;
        }
    }
    return insert_group(shard, &group);
}

/* The store takes nothing more. */
static void stop(struct sqlite_shard *shard, const struct errmsg *why)
{
    shard->is_broken = true;
    sqlite_db_trust(&shard->db, false);
    journal_fail(shard->journal, "%s", why->text);
    atomic_store(shard->has_failed, true);
}

static bool is_surely_not_there(int code)
{
    return (code & 0xff) == SQLITE_FULL || code == SQLITE_IOERR_WRITE;
}

/* A result that no caller takes for another: the system's errno may be any. */
static int result_of(int error)
{
    switch (error) {
    case -ENOSPC:
    case -EDQUOT:
        return JOURNAL_FULL;
    case -ENOMEM:
    case -EBADMSG:
        return error;
    default:
        return -EIO;
    }
}

/* What becomes of the records when SQLite has answered with an error: the result. */
static int fail(struct sqlite_shard *shard, int code, bool was_at_commit)
{
    struct errmsg why;
    int error = sqlite_db_error(&shard->db, code, was_at_commit ? "COMMIT" : "INSERT", &why);
    stop(shard, &why);
    if (sqlite3_get_autocommit(shard->db.handle) == 0)
        (void)run_statement(shard->rollback); /* nothing more is written, whatever it says */
    run_table_clear(&shard->runs);
    if (was_at_commit && !is_surely_not_there(code))
        return JOURNAL_UNKNOWN;
    return result_of(error);
}

uint64_t sqlite_shard_commit(struct sqlite_shard *shard, struct sqlite_sent *first)
{
    uint64_t start_ns = clock_monotonic_ns();
    int result = JOURNAL_STOPPED;

    if (!atomic_load_explicit(shard->has_failed, memory_order_relaxed)) {
        int code = run_statement(shard->begin);
        bool is_at_commit = false;
        if (code == SQLITE_OK)
            code = put_all(shard, first);
        if (code == SQLITE_OK) {
            is_at_commit = true;
            code = run_statement(shard->commit);
        }
        result = code == SQLITE_OK ? JOURNAL_ACKED : fail(shard, code, is_at_commit);
    }
    uint64_t end_ns = clock_monotonic_ns();
    for (struct sqlite_sent *sent = first; sent != NULL; sent = sent->next)
        journal_batch_fail(sent->batch, result);
    sqlite_add(&shard->commits, result == JOURNAL_ACKED);
    sqlite_add(&shard->commit_ns, end_ns - start_ns);
    return end_ns;
}

int sqlite_shard_checkpoint(struct sqlite_shard *shard, struct errmsg *why)
{
    int pages = 0;
    int done = 0;
    uint64_t start_ns = clock_monotonic_ns();
    int code = sqlite3_wal_checkpoint_v2(shard->db.handle, "main", SQLITE_CHECKPOINT_PASSIVE,
                                         &pages, &done);
    sqlite_add(&shard->checkpoints, 1);
    sqlite_add(&shard->checkpoint_ns, clock_monotonic_ns() - start_ns);
    if (code != SQLITE_OK)
        return sqlite_db_error(&shard->db, code, "checkpoint", why);
    if (done != pages)
        return errmsg_set(why, -EIO, SQLITE_PATH_SHOWN ": %d pages of the WAL remain",
                          shard->db.path, pages - done);
    shard->wal_pages = 0;
    return 0;
}

void sqlite_shard_bound_wal(struct sqlite_shard *shard)
{
    struct errmsg why;
    uint64_t bytes =
        WAL_HEADER_BYTES + shard->wal_pages * (SQLITE_PAGE_BYTES + WAL_FRAME_HEADER_BYTES);
    if (bytes < SQLITE_WAL_BYTES_BOUND || shard->is_broken)
        return;
    if (sqlite_shard_checkpoint(shard, &why) != 0)
        stop(shard, &why);
}
