/* sqlite_read: see sqlite_read.h. */
#include "journal/sqlite_read.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/digest.h"

/* The columns that every statement has. False for what cannot be shown. */
static bool read_row(sqlite3_stmt *row, uint64_t campaign, uint64_t run,
                     struct journal_record *record)
{
    int64_t kind = 0;
    int64_t seq = 0;
    if (!sqlite_column_is_integer(row, SQLITE_COLUMN_KIND, 0, INT32_MAX, &kind) ||
        !sqlite_column_is_integer(row, SQLITE_COLUMN_SEQ, 0, UINT32_MAX, &seq) ||
        sqlite3_column_type(row, SQLITE_COLUMN_DIGEST) != SQLITE_INTEGER ||
        sqlite3_column_type(row, SQLITE_COLUMN_PAYLOAD) != SQLITE_BLOB)
        return false;
    /* In this order: the address must be asked for before the size. */
    const char *payload = sqlite3_column_blob(row, SQLITE_COLUMN_PAYLOAD);
    int bytes = sqlite3_column_bytes(row, SQLITE_COLUMN_PAYLOAD);
    if (bytes > JOURNAL_PAYLOAD_BYTES_MAX || (payload == NULL && bytes > 0))
        return false;
    *record = (struct journal_record){
        .campaign = campaign,
        .run = run,
        .digest = (uint64_t)sqlite3_column_int64(row, SQLITE_COLUMN_DIGEST),
        .payload = payload != NULL ? payload : "",
        .seq = (uint32_t)seq,
        .bytes = (uint32_t)bytes,
        .kind = (enum record_kind)kind,
    };
    return true;
}

static int say_malformed(const struct sqlite_shard *shard, uint64_t run, sqlite3_stmt *row,
                         struct errmsg *why)
{
    return errmsg_set(why, -EBADMSG,
                      SQLITE_PATH_SHOWN " is damaged: a record of run %" PRIu64 ", seq %" PRId64
                                        ", is not as bench records it",
                      shard->db.path, run, (int64_t)sqlite3_column_int64(row, SQLITE_COLUMN_SEQ));
}

/* --- one record --- */

static int copy_record(struct sqlite_shard *shard, uint64_t run, struct journal_record *record,
                       char **buffer, size_t *buffer_bytes, struct errmsg *why)
{
    if (!read_row(shard->find, shard->campaign.id, run, record))
        return say_malformed(shard, run, shard->find, why);
    if (record->bytes > *buffer_bytes) {
        char *grown = realloc(*buffer, record->bytes);
        if (grown == NULL)
            return errmsg_set(why, -ENOMEM, "no memory for a record");
        *buffer = grown;
        *buffer_bytes = record->bytes;
    }
    if (record->bytes > 0) {
        memcpy(*buffer, record->payload, record->bytes);
        record->payload = *buffer;
    }
    return 0;
}

int sqlite_read_record(struct sqlite_shard *shard, uint64_t run, uint32_t seq,
                       struct journal_record *record, char **buffer, size_t *buffer_bytes,
                       struct errmsg *why)
{
    uint8_t uuid[RUN_KEY_UUID_BYTES];
    sqlite_shard_bind_run(shard, shard->find, 1, run, uuid);
    (void)sqlite3_bind_int64(shard->find, 2, seq); /* cannot fail: no memory is needed */
    int code = sqlite3_step(shard->find);
    int error = code == SQLITE_DONE ? -ENOENT : 0;
    if (code == SQLITE_ROW)
        error = copy_record(shard, run, record, buffer, buffer_bytes, why);
    else if (error == 0)
        error = sqlite_db_error(&shard->db, code, "reading a record", why);
    (void)sqlite3_reset(shard->find); /* repeats the error of the step */
    return error;
}

/* --- runs --- */

static int read_run(struct sqlite_shard *shard, sqlite3_stmt *rows, uint64_t run,
                    journal_visit *visit, void *arg, struct errmsg *why)
{
    uint8_t uuid[RUN_KEY_UUID_BYTES];
    struct journal_record record;
    int code = SQLITE_ROW;
    int error = 0;
    sqlite_shard_bind_run(shard, rows, 1, run, uuid);
    while (error == 0 && (code = sqlite3_step(rows)) == SQLITE_ROW)
        error = read_row(rows, shard->campaign.id, run, &record)
                    ? visit(arg, &record)
                    : say_malformed(shard, run, rows, why);
    if (error == 0 && code != SQLITE_DONE)
        error = sqlite_db_error(&shard->db, code, "reading a run", why);
    (void)sqlite3_reset(rows); /* repeats the error of the step */
    return error;
}

int sqlite_read_runs(struct sqlite_shard *shard, const uint64_t *runs, unsigned count,
                     journal_visit *visit, void *arg, struct errmsg *why)
{
    sqlite3_stmt *rows = NULL;
    int error = sqlite_db_prepare(&shard->db, shard->sql->run, &rows, why);
    for (unsigned i = 0; i < count && error == 0; i++)
        error = read_run(shard, rows, runs[i], visit, arg, why);
    (void)sqlite3_finalize(rows); /* an error was told when it happened */
    return error;
}

/* --- counting --- */

/* Whatever the columns hold: who wants to know that a record is damaged reads it. Nor are payloads
 * read, only how long they are. */
static const char count_numbers[] =
    "SELECT count(*), ifnull(sum(length(payload)), 0), ifnull(sum(kind = 1), 0),"
    " ifnull(sum(kind = 5), 0) FROM records NOT INDEXED WHERE run BETWEEN ? AND ?";
static_assert(RECORD_BEGIN == 1 && RECORD_END == 5, "as in the statement");

int sqlite_read_count_numbers(struct sqlite_shard *shard, uint64_t campaign,
                              struct journal_count *count, struct errmsg *why)
{
    sqlite3_stmt *sum = NULL;
    int error = sqlite_db_prepare(&shard->db, count_numbers, &sum, why);
    if (error != 0)
        return error;
    /* Neither fails: no memory is needed. */
    (void)sqlite3_bind_int64(sum, 1, run_key_pack(campaign, 0));
    (void)sqlite3_bind_int64(sum, 2, run_key_pack(campaign, JOURNAL_RUN_MAX));
    int code = sqlite3_step(sum);
    if (code == SQLITE_ROW) {
        count->records += (uint64_t)sqlite3_column_int64(sum, 0);
        count->bytes += (uint64_t)sqlite3_column_int64(sum, 1);
        count->begins += (uint64_t)sqlite3_column_int64(sum, 2);
        count->ends += (uint64_t)sqlite3_column_int64(sum, 3);
    } else {
        error = sqlite_db_error(&shard->db, code, "counting records", why);
    }
    (void)sqlite3_finalize(sum); /* repeats the error of the step */
    return error;
}

/* --- scan --- */

struct scan {
    const struct sqlite_shard *shard;
    const struct campaign_keys *known;
    uint64_t campaign; /* 0: all */
    uint32_t kinds;
    bool is_of_uuids;  /* the table */
    uint64_t keys_sum; /* over all rows of the table */
    /* Of the row before, which is mostly that of this one. */
    const struct campaign_key *recent;
};

/* The packed key of a UUID; -1 for none that bench makes. */
static int64_t read_uuid(struct scan *scan, sqlite3_stmt *row)
{
    int64_t packed = -1;
    if (sqlite3_column_type(row, SQLITE_COLUMN_RUN) != SQLITE_BLOB ||
        sqlite3_column_bytes(row, SQLITE_COLUMN_RUN) != RUN_KEY_UUID_BYTES)
        return -1;
    const uint8_t *uuid = sqlite3_column_blob(row, SQLITE_COLUMN_RUN);
    if (uuid == NULL || !campaign_keys_read_uuid(scan->known, uuid, &scan->recent, &packed))
        return -1;
    return packed;
}

/* Likewise of a number. It may be of a campaign that the store does not list: that is for who reads
 * all of them to find. */
static int64_t read_number(struct scan *scan, sqlite3_stmt *row)
{
    if (sqlite3_column_type(row, SQLITE_COLUMN_RUN) != SQLITE_INTEGER)
        return -1;
    int64_t packed = sqlite3_column_int64(row, SQLITE_COLUMN_RUN);
    if (packed < 0 || run_key_campaign(packed) == 0)
        return -1;
    if (scan->recent == NULL || scan->recent->campaign != run_key_campaign(packed))
        scan->recent = campaign_keys_find(scan->known, run_key_campaign(packed));
    return scan->recent == NULL || scan->recent->kind == RUN_KEY_SEQ ? packed : -1;
}

static bool is_wanted(uint32_t kinds, sqlite3_stmt *row)
{
    if (sqlite3_column_type(row, SQLITE_COLUMN_KIND) != SQLITE_INTEGER)
        return true; /* to be refused */
    return journal_wants(kinds, sqlite3_column_int64(row, SQLITE_COLUMN_KIND));
}

/* Of a row, whatever it holds, by which table and index are compared: sums of both, since they are
 * in different orders. */
static uint64_t hash_key(sqlite3_stmt *row)
{
    struct {
        int64_t id;
        int64_t seq;
        int64_t run;
        uint8_t uuid[RUN_KEY_UUID_BYTES];
    } key = {
        .id = sqlite3_column_int64(row, SQLITE_COLUMN_ID),
        .seq = sqlite3_column_int64(row, SQLITE_COLUMN_SEQ),
    };
    if (sqlite3_column_type(row, SQLITE_COLUMN_RUN) != SQLITE_BLOB) {
        key.run = sqlite3_column_int64(row, SQLITE_COLUMN_RUN);
    } else {
        const void *uuid = sqlite3_column_blob(row, SQLITE_COLUMN_RUN);
        int bytes = sqlite3_column_bytes(row, SQLITE_COLUMN_RUN);
        if (uuid != NULL && bytes == RUN_KEY_UUID_BYTES)
            memcpy(key.uuid, uuid, sizeof(key.uuid));
    }
    return digest_bytes(&key, sizeof(key));
}

static int check_index(struct sqlite_shard *shard, const struct scan *scan, struct errmsg *why)
{
    sqlite3_stmt *keys = NULL;
    uint64_t sum = 0;
    int code = SQLITE_ROW;
    const char *sql = sqlite_record_sql(scan->is_of_uuids ? RUN_KEY_UUIDV7 : RUN_KEY_SEQ)->keys;
    int error = sqlite_db_prepare(&shard->db, sql, &keys, why);
    while (error == 0 && (code = sqlite3_step(keys)) == SQLITE_ROW)
        sum += hash_key(keys);
    if (error == 0 && code != SQLITE_DONE)
        error = sqlite_db_error(&shard->db, code, "reading the index of its records", why);
    (void)sqlite3_finalize(keys); /* repeats the error of the step */
    if (error == 0 && sum != scan->keys_sum)
        error = errmsg_set(why, -EBADMSG,
                           SQLITE_PATH_SHOWN " is damaged: the index of its records is not theirs; "
                                             "sqlite3's REINDEX makes it anew",
                           shard->db.path);
    return error;
}

static int scan_row(struct scan *scan, sqlite3_stmt *row, journal_visit *visit, void *arg,
                    struct errmsg *why)
{
    struct journal_record record;
    scan->keys_sum += hash_key(row);
    int64_t packed = scan->is_of_uuids ? read_uuid(scan, row) : read_number(scan, row);
    if (packed < 0)
        return errmsg_set(
            why, -EBADMSG,
            SQLITE_PATH_SHOWN " is damaged: row %" PRId64 " is of no run of the store",
            scan->shard->db.path, (int64_t)sqlite3_column_int64(row, SQLITE_COLUMN_ID));
    uint64_t campaign = run_key_campaign(packed);
    uint64_t run = run_key_number(packed);
    if ((scan->campaign != 0 && campaign != scan->campaign) || !is_wanted(scan->kinds, row))
        return 0;
    if (!read_row(row, campaign, run, &record))
        return say_malformed(scan->shard, run, row, why);
    return visit(arg, &record);
}

static int scan_table(struct sqlite_shard *shard, struct scan *scan, journal_visit *visit,
                      void *arg, struct errmsg *why)
{
    sqlite3_stmt *rows = NULL;
    int code = SQLITE_ROW;
    const char *sql = sqlite_record_sql(scan->is_of_uuids ? RUN_KEY_UUIDV7 : RUN_KEY_SEQ)->scan;
    int error = sqlite_db_prepare(&shard->db, sql, &rows, why);
    scan->keys_sum = 0;
    while (error == 0 && (code = sqlite3_step(rows)) == SQLITE_ROW)
        error = scan_row(scan, rows, visit, arg, why);
    if (error == 0 && code != SQLITE_DONE)
        error = sqlite_db_error(&shard->db, code, "reading records", why);
    (void)sqlite3_finalize(rows); /* repeats the error of the step */
    return error != 0 ? error : check_index(shard, scan, why);
}

int sqlite_read_scan(struct sqlite_shard *shard, const struct campaign_keys *known,
                     uint64_t campaign, uint32_t kinds, journal_visit *visit, void *arg,
                     struct errmsg *why)
{
    struct scan scan = {.shard = shard, .known = known, .campaign = campaign, .kinds = kinds};
    if (campaign != 0) {
        scan.recent = campaign_keys_find(known, campaign);
        if (scan.recent == NULL)
            return errmsg_set(why, -ENOENT, SQLITE_PATH_SHOWN " has no campaign %" PRIu64,
                              shard->db.path, campaign);
        scan.is_of_uuids = scan.recent->kind != RUN_KEY_SEQ;
        return scan_table(shard, &scan, visit, arg, why);
    }
    int error = scan_table(shard, &scan, visit, arg, why);
    scan.is_of_uuids = true;
    return error != 0 ? error : scan_table(shard, &scan, visit, arg, why);
}
