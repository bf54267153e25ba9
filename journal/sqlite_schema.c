/* sqlite_schema: see sqlite_schema.h. */
#include "journal/sqlite_schema.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* SQLite keeps the text as it is here, by which an opened file is checked. */
struct object {
    const char *name;
    const char *sql;
};

static const struct object objects[] = {
    {"store", "CREATE TABLE store(id BLOB NOT NULL, shard INTEGER NOT NULL,"
              " shards INTEGER NOT NULL)"},
    {"campaigns", "CREATE TABLE campaigns(id INTEGER PRIMARY KEY,"
                  " created_unix_ms INTEGER NOT NULL, key INTEGER NOT NULL,"
                  " durability INTEGER NOT NULL, description TEXT NOT NULL)"},
    {"records", "CREATE TABLE records(id INTEGER PRIMARY KEY, run INTEGER NOT NULL,"
                " seq INTEGER NOT NULL, kind INTEGER NOT NULL, digest INTEGER NOT NULL,"
                " payload BLOB NOT NULL)"},
    {"records_key", "CREATE UNIQUE INDEX records_key ON records(run, seq)"},
    {"uuid_records", "CREATE TABLE uuid_records(id INTEGER PRIMARY KEY, run BLOB NOT NULL,"
                     " seq INTEGER NOT NULL, kind INTEGER NOT NULL, digest INTEGER NOT NULL,"
                     " payload BLOB NOT NULL)"},
    {"uuid_records_key", "CREATE UNIQUE INDEX uuid_records_key ON uuid_records(run, seq)"},
};
enum { OBJECTS = sizeof(objects) / sizeof(objects[0]) };

/* For whoever looks with sqlite3; bench itself never reads it, so it may be another. Runs of UUIDs
 * do not say their campaign. */
static const char journal_view[] =
    "CREATE VIEW journal AS"
    " SELECT run >> 40 AS campaign, run & 1099511627775 AS run, seq, CASE kind"
    " WHEN 1 THEN 'begin' WHEN 2 THEN 'model' WHEN 3 THEN 'attempt' WHEN 4 THEN 'tool'"
    " WHEN 5 THEN 'end' WHEN 6 THEN 'retry' WHEN 7 THEN 'delta' ELSE kind END AS kind, digest, "
    "CAST(payload AS TEXT) AS payload"
    " FROM records UNION ALL"
    " SELECT NULL, lower(hex(run)), seq, CASE kind"
    " WHEN 1 THEN 'begin' WHEN 2 THEN 'model' WHEN 3 THEN 'attempt' WHEN 4 THEN 'tool'"
    " WHEN 5 THEN 'end' WHEN 6 THEN 'retry' WHEN 7 THEN 'delta' ELSE kind END, digest, "
    "CAST(payload AS TEXT)"
    " FROM uuid_records";

static_assert(RUN_KEY_NUMBER_BITS == 40, "the view takes keys apart");

/* With OR ABORT, the default, SQLite would keep a journal a statement to undo some of many rows. */
#define INSERT_INTO(table) "INSERT OR IGNORE INTO " table "(run, seq, kind, digest, payload) VALUES"
#define ROW "(?, ?, ?, ?, ?)"
#define FOUR_ROWS ROW ", " ROW ", " ROW ", " ROW
#define MANY_ROWS FOUR_ROWS ", " FOUR_ROWS ", " FOUR_ROWS ", " FOUR_ROWS
static_assert(SQLITE_INSERT_ROWS == 16, "as MANY_ROWS has");

static const struct sqlite_record_sql number_sql = {
    .insert = INSERT_INTO("records") ROW,
    .insert_many = INSERT_INTO("records") MANY_ROWS,
    .next_seq = "SELECT ifnull(max(seq) + 1, 0) FROM records WHERE run = ?",
    .find = "SELECT kind, digest, payload, seq FROM records WHERE run = ? AND seq = ?",
    .run = "SELECT kind, digest, payload, seq FROM records WHERE run = ? ORDER BY seq",
    .scan = "SELECT kind, digest, payload, seq, run, id FROM records NOT INDEXED ORDER BY id",
    .keys = "SELECT NULL, NULL, NULL, seq, run, id FROM records INDEXED BY records_key",
};

static const struct sqlite_record_sql uuid_sql = {
    .insert = INSERT_INTO("uuid_records") ROW,
    .insert_many = INSERT_INTO("uuid_records") MANY_ROWS,
    .next_seq = "SELECT ifnull(max(seq) + 1, 0) FROM uuid_records WHERE run = ?",
    .find = "SELECT kind, digest, payload, seq FROM uuid_records WHERE run = ? AND seq = ?",
    .run = "SELECT kind, digest, payload, seq FROM uuid_records WHERE run = ? ORDER BY seq",
    .scan = "SELECT kind, digest, payload, seq, run, id FROM uuid_records NOT INDEXED ORDER BY id",
    .keys = "SELECT NULL, NULL, NULL, seq, run, id FROM uuid_records INDEXED BY uuid_records_key",
};

const struct sqlite_record_sql *sqlite_record_sql(enum run_key_kind key)
{
    return key == RUN_KEY_SEQ ? &number_sql : &uuid_sql;
}

static int put_identity(struct sqlite_db *db, const struct sqlite_identity *identity,
                        struct errmsg *why)
{
    sqlite3_stmt *insert = NULL;
    int error =
        sqlite_db_prepare(db, "INSERT INTO store(id, shard, shards) VALUES(?, ?, ?)", &insert, why);
    if (error != 0)
        return error;
    /* A binding that fails for want of memory leaves NULL, which the table does not take. */
    (void)sqlite3_bind_blob(insert, 1, identity->store, SQLITE_STORE_ID_BYTES, SQLITE_STATIC);
    (void)sqlite3_bind_int64(insert, 2, identity->shard);
    (void)sqlite3_bind_int64(insert, 3, identity->shards);
    int code = sqlite3_step(insert);
    if (code != SQLITE_DONE)
        error = sqlite_db_error(db, code, "making its tables", why);
    (void)sqlite3_finalize(insert); /* repeats the error of the step */
    return error;
}

int sqlite_schema_create(struct sqlite_db *db, const struct sqlite_identity *identity,
                         struct errmsg *why)
{
    static const char what[] = "making its tables";
    char head[128];
    (void)snprintf(head, sizeof(head), "PRAGMA application_id=%d; PRAGMA user_version=%d",
                   SQLITE_APPLICATION_ID, SQLITE_SCHEMA_VERSION);
    int error = sqlite_db_execute(db, head, what, why);
    for (unsigned i = 0; i < OBJECTS && error == 0; i++)
        error = sqlite_db_execute(db, objects[i].sql, what, why);
    if (error == 0)
        error = sqlite_db_execute(db, journal_view, what, why);
    return error != 0 ? error : put_identity(db, identity, why);
}

/* What the header says once WAL and journal are read, too. */
static int check_header(struct sqlite_db *db, struct errmsg *why)
{
    int64_t id = 0;
    int64_t version = 0;
    int error = sqlite_db_get(db, "PRAGMA application_id", &id, why);
    if (error == 0)
        error = sqlite_db_get(db, "PRAGMA user_version", &version, why);
    if (error != 0)
        return error;
    if (id != SQLITE_APPLICATION_ID || version != SQLITE_SCHEMA_VERSION)
        return errmsg_set(why, -EMEDIUMTYPE,
                          SQLITE_PATH_SHOWN " is not a bench database of this version", db->path);
    return 0;
}

static int check_objects(struct sqlite_db *db, struct errmsg *why)
{
    sqlite3_stmt *find = NULL;
    int error = sqlite_db_prepare(
        db, "SELECT count(*) FROM sqlite_schema WHERE name = ? AND sql = ?", &find, why);
    for (unsigned i = 0; i < OBJECTS && error == 0; i++) {
        (void)sqlite3_bind_text(find, 1, objects[i].name, -1, SQLITE_STATIC);
        (void)sqlite3_bind_text(find, 2, objects[i].sql, -1, SQLITE_STATIC);
        int code = sqlite3_step(find);
        if (code != SQLITE_ROW)
            error = sqlite_db_error(db, code, "reading its tables", why);
        else if (sqlite3_column_int64(find, 0) != 1)
            error = errmsg_set(why, -EBADMSG,
                               SQLITE_PATH_SHOWN " is damaged: \"%s\" is not as bench makes it",
                               db->path, objects[i].name);
        (void)sqlite3_reset(find); /* repeats the error of the step */
    }
    (void)sqlite3_finalize(find); /* likewise */
    return error;
}

static bool read_identity_row(sqlite3_stmt *row, struct sqlite_identity *identity)
{
    int64_t shard = 0;
    int64_t shards = 0;
    if (sqlite3_column_type(row, 0) != SQLITE_BLOB ||
        sqlite3_column_bytes(row, 0) != SQLITE_STORE_ID_BYTES ||
        !sqlite_column_is_integer(row, 2, 1, JOURNAL_SHARDS_MAX, &shards) ||
        !sqlite_column_is_integer(row, 1, 0, shards - 1, &shard))
        return false;
    memcpy(identity->store, sqlite3_column_blob(row, 0), SQLITE_STORE_ID_BYTES);
    identity->shard = (unsigned)shard;
    identity->shards = (unsigned)shards;
    return true;
}

static int get_identity(struct sqlite_db *db, struct sqlite_identity *identity, struct errmsg *why)
{
    sqlite3_stmt *find = NULL;
    int error = sqlite_db_prepare(db, "SELECT id, shard, shards FROM store LIMIT 1", &find, why);
    if (error != 0)
        return error;
    int code = sqlite3_step(find);
    if (code != SQLITE_ROW && code != SQLITE_DONE)
        error = sqlite_db_error(db, code, "reading its identity", why);
    else if (code == SQLITE_DONE || !read_identity_row(find, identity))
        error = errmsg_set(why, -EBADMSG,
                           SQLITE_PATH_SHOWN " is damaged: it does not say which shard it is",
                           db->path);
    (void)sqlite3_finalize(find); /* repeats the error of the step */
    return error;
}

int sqlite_schema_check(struct sqlite_db *db, struct sqlite_identity *identity, struct errmsg *why)
{
    int error = check_header(db, why);
    if (error == 0)
        error = check_objects(db, why);
    if (error == 0)
        error = get_identity(db, identity, why);
    return error;
}
