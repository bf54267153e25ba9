/* pg_read: see pg_read.h. */
#include "journal/pg_read.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/base/clock.h"
#include "journal/pg_rows.h"
#include "journal/pg_schema.h"

enum { RUN_TEXT_BYTES = 40 /* of one in a list */ };

/* --- statements --- */

/* A text that grows; `text` is NULL once there was no memory. */
struct text {
    char *text;
    size_t used;
    size_t capacity;
};

static void append(struct text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void append(struct text *text, const char *format, ...)
{
    va_list arguments;
    if (text->text == NULL)
        return;
    va_start(arguments, format);
    int bytes = vsnprintf(text->text + text->used, text->capacity - text->used, format, arguments);
    va_end(arguments);
    assert(bytes >= 0 && text->used + (size_t)bytes < text->capacity);
    text->used += (size_t)bytes;
}

static struct text begin_text(size_t capacity)
{
    return (struct text){.text = malloc(capacity), .capacity = capacity};
}

/* Only records of the campaign where its key says so; a UUID does not, to the server. */
static void append_where(struct text *text, const struct campaign_key *keys)
{
    if (keys != NULL && keys->kind == RUN_KEY_SEQ)
        append(text, " WHERE run BETWEEN %" PRId64 " AND %" PRId64, run_key_pack(keys->campaign, 0),
               run_key_pack(keys->campaign, RUN_KEY_NUMBER_MAX));
    else
        append(text, " WHERE true");
}

static void append_kinds(struct text *text, uint32_t kinds)
{
    if (kinds == UINT32_MAX) /* also those that are none */
        return;
    append(text, " AND kind IN (-1");
    for (unsigned kind = 0; kind < 32; kind++)
        if (journal_wants(kinds, kind))
            append(text, ", %u", kind);
    append(text, ")");
}

static void append_run(struct text *text, const struct campaign_key *keys, uint64_t run)
{
    char key[RUN_KEY_UUID_BYTES];
    if (keys->kind == RUN_KEY_SEQ) {
        append(text, "%" PRId64, run_key_pack(keys->campaign, run));
        return;
    }
    (void)pg_key_put(key, keys, run);
    for (unsigned i = 0; i < RUN_KEY_UUID_BYTES; i++)
        append(text, "%02x", (uint8_t)key[i]);
}

/* --- the connection, and another one where it is lost --- */

/* An audit's has locks that it must not be without: it is not waited for. */
static struct pg_patience patience_of(const struct pg_store *store)
{
    struct pg_patience patience = pg_store_patience(store);
    if (store->journal->mode == JOURNAL_AUDIT)
        patience.until_ns = 0;
    return patience;
}

/* A resumed campaign is held over a new connection, too, which may be lost before it is. */
static int connect(struct pg_store *store, const struct pg_patience *patience, struct errmsg *why)
{
    for (;;) {
        int error = pg_control_renew(store, patience, why);
        if (error != 0 || store->holds_campaign || store->journal->mode != JOURNAL_RESUME)
            return error;
        error = pg_schema_hold_campaign(store, why);
        if (error == 0 || !pg_control_is_lost(store) || !pg_patience_wait(patience))
            return error;
    }
}

static int begin_reading(struct pg_store *store, struct errmsg *why)
{
    const struct pg_patience patience = patience_of(store);
    pg_control_take(store);
    int error = connect(store, &patience, why);
    if (error != 0)
        pg_control_end(store);
    return error;
}

/* Whether what has failed with `result` can be asked once more. */
static bool renew(struct pg_store *store, const struct pg_patience *patience, int *result,
                  struct errmsg *why)
{
    if (!pg_control_is_lost(store) || clock_monotonic_ns() >= patience->until_ns)
        return false;
    *result = connect(store, patience, why);
    return *result == 0;
}

/* Over a new connection the rows go on where they ended, so that they must stay as they are and
 * where they are meanwhile. */
static int ask(struct pg_store *store, struct text *text, struct pg_rows *rows, struct errmsg *why)
{
    struct pg_patience patience = patience_of(store);
    uint64_t visited = 0;
    int result = 0;
    if (text->text == NULL)
        return errmsg_set(why, -ENOMEM, "no memory for a statement");
    rows->visited = 0;
    do {
        result = pg_rows_copy(store, text->text, rows, why);
        if (rows->visited > visited) /* the patience is with a server that says nothing more */
            patience = patience_of(store);
        visited = rows->visited;
    } while (rows->is_lost && renew(store, &patience, &result, why));
    free(text->text);
    return result;
}

/* --- the functions of the journal --- */

/* A table's records of one campaign, or of all where `keys` is NULL. */
static int scan_table(struct pg_store *store, const struct campaign_key *keys, uint32_t kinds,
                      struct pg_rows *rows, struct errmsg *why)
{
    struct text text = begin_text(2 * PG_STATEMENT_BYTES);
    append(&text, "COPY (SELECT " PG_RECORD_COLUMNS " FROM %s", rows->table);
    append_where(&text, keys);
    append_kinds(&text, kinds);
    append(&text, " ORDER BY run, seq) TO STDOUT (FORMAT binary)");
    return ask(store, &text, rows, why);
}

/* A standby has the logged tables only: there the others may be left out where no campaign uses
 * them. */
static const char has_unlogged_records[] =
    "SELECT (NOT pg_is_in_recovery() OR EXISTS (SELECT FROM bench.campaigns WHERE durability = 1))"
    "::int";
static_assert(DURABILITY_NONE == 1, "as in the statement");

/* The list and the tables are read as they were at one moment: a campaign that begins meanwhile has
 * all its rows in neither. */
static int scan_tables(struct pg_store *store, uint32_t kinds, struct pg_rows *rows,
                       struct errmsg *why)
{
    struct campaign_keys listed = {.all = NULL};
    int result = pg_control_do(store, "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY", why);
    if (result == 0)
        result = pg_schema_find_campaigns(store, &listed, why);
    rows->listed = &listed;
    rows->recent = NULL;
    int64_t has_unlogged = 1;
    if (result == 0)
        result = pg_control_number(store, has_unlogged_records, &has_unlogged, why);
    for (unsigned i = 0; i < PG_TABLES && result == 0; i++) {
        rows->table = pg_schema_table_at(i);
        if (has_unlogged != 0 || !pg_schema_is_unlogged(i))
            result = scan_table(store, NULL, kinds, rows, why);
    }
    rows->listed = NULL;
    rows->recent = NULL;
    campaign_keys_free(&listed);
    if (PQtransactionStatus(store->control) != PQTRANS_IDLE) {
        struct errmsg unused;
        (void)pg_control_do(store, "COMMIT", &unused); /* else the connection is closed */
    }
    return result;
}

static int scan_all(struct pg_store *store, uint32_t kinds, struct pg_rows *rows,
                    struct errmsg *why)
{
    int error = pg_schema_lock_campaigns(store, why);
    rows->newest = store->newest;
    return error != 0 ? error : scan_tables(store, kinds, rows, why);
}

static int scan_one(struct pg_store *store, uint32_t kinds, struct pg_rows *rows,
                    struct errmsg *why)
{
    struct campaign_key keys = store->keys;
    const struct campaign_keys listed = {.all = &keys, .count = 1};
    rows->table = store->table;
    int error = rows->campaign == keys.campaign
                    ? 0
                    : pg_schema_find_campaign(store, rows->campaign, &keys, &rows->table, why);
    if (error != 0)
        return error;
    struct pg_rows of_one = *rows;
    of_one.listed = &listed;
    return scan_table(store, &keys, kinds, &of_one, why);
}

int pg_read_scan(struct journal *journal, uint64_t campaign, unsigned part, uint32_t kinds,
                 journal_visit *visit, void *arg, struct errmsg *why)
{
    (void)part; /* there is one */
    struct pg_store *store = pg_store_of(journal);
    struct pg_rows rows = {.campaign = campaign, .visit = visit, .arg = arg};
    int result = begin_reading(store, why);
    if (result != 0)
        return result;
    result =
        campaign == 0 ? scan_all(store, kinds, &rows, why) : scan_one(store, kinds, &rows, why);
    pg_control_end(store);
    return result;
}

/* Rows of the campaign in force. */
static struct pg_rows rows_in_force(const struct pg_store *store,
                                    const struct campaign_keys *listed)
{
    return (struct pg_rows){
        .table = store->table, .listed = listed, .campaign = store->keys.campaign};
}

int pg_read_runs(struct journal *journal, unsigned part, const uint64_t *runs, unsigned count,
                 journal_visit *visit, void *arg, struct errmsg *why)
{
    (void)part;
    struct pg_store *store = pg_store_of(journal);
    const struct campaign_keys listed = {.all = &store->keys, .count = 1};
    struct pg_rows rows = rows_in_force(store, &listed);
    rows.visit = visit;
    rows.arg = arg;
    int result = count == 0 ? 0 : begin_reading(store, why);
    if (count == 0 || result != 0)
        return result;
    struct text text = begin_text((size_t)count * RUN_TEXT_BYTES + PG_STATEMENT_BYTES);
    append(&text, "COPY (SELECT r.* FROM unnest('{");
    for (unsigned i = 0; i < count; i++) {
        append(&text, "%s", i == 0 ? "" : ",");
        append_run(&text, &store->keys, runs[i]);
    }
    /* Run by run through the index, whatever the server believes of the table (OFFSET 0). */
    append(&text,
           "}'::%s[]) WITH ORDINALITY AS a(run, place), LATERAL (SELECT " PG_RECORD_COLUMNS
           " FROM %s AS t WHERE t.run = a.run ORDER BY seq OFFSET 0) AS r "
           "ORDER BY place, seq) TO STDOUT (FORMAT binary)",
           store->keys.kind == RUN_KEY_SEQ ? "bigint" : "uuid", store->table);
    result = ask(store, &text, &rows, why);
    pg_control_end(store);
    return result;
}

/* A UUID does not tell the server its campaign, so the rows themselves must come; in no order, and
 * so over a new connection all of them again. */
static int count_rows(struct pg_store *store, struct journal_count *count, struct errmsg *why)
{
    const struct campaign_keys listed = {.all = &store->keys, .count = 1};
    const struct pg_patience patience = patience_of(store);
    const struct journal_count before = *count;
    struct pg_rows rows = rows_in_force(store, &listed);
    int result = 0;
    rows.visit = journal_count_record;
    rows.arg = count;
    rows.has_length_only = true;
    struct text text = begin_text(PG_STATEMENT_BYTES);
    append(&text, "COPY (SELECT run, digest, seq, kind, octet_length(payload) FROM %s",
           store->table);
    append_where(&text, &store->keys);
    append(&text, ") TO STDOUT (FORMAT binary)");
    if (text.text == NULL)
        return errmsg_set(why, -ENOMEM, "no memory for a statement");
    do {
        *count = before;
        rows.visited = 0;
        result = pg_rows_copy(store, text.text, &rows, why);
    } while (rows.is_lost && renew(store, &patience, &result, why));
    free(text.text);
    return result;
}

static int sum_rows(struct pg_store *store, struct journal_count *count, struct errmsg *why)
{
    enum { RECORDS, BYTES, BEGINS, ENDS, SUMS };
    const struct pg_patience patience = patience_of(store);
    struct pg_failure failure;
    PGresult *sums;
    int error = 0;
    struct text text = begin_text(PG_STATEMENT_BYTES);
    append(&text,
           "SELECT count(*), coalesce(sum(octet_length(payload)), 0), "
           "count(*) FILTER (WHERE kind = %d), count(*) FILTER (WHERE kind = %d) FROM %s",
           RECORD_BEGIN, RECORD_END, store->table);
    append_where(&text, &store->keys);
    if (text.text == NULL)
        return errmsg_set(why, -ENOMEM, "no memory for a statement");
    do {
        sums = pg_control_ask(store, text.text, &failure);
        error = sums == NULL ? pg_failure_say(&failure, why) : 0;
    } while (sums == NULL && renew(store, &patience, &error, why));
    free(text.text);
    if (error != 0)
        return error;
    if (pg_result_is(sums, 1, SUMS)) {
        count->records += strtoull(PQgetvalue(sums, 0, RECORDS), NULL, 10);
        count->bytes += strtoull(PQgetvalue(sums, 0, BYTES), NULL, 10);
        count->begins += strtoull(PQgetvalue(sums, 0, BEGINS), NULL, 10);
        count->ends += strtoull(PQgetvalue(sums, 0, ENDS), NULL, 10);
    } else {
        error = errmsg_set(why, -EPROTO, "the server's answer makes no sense");
    }
    PQclear(sums);
    return error;
}

int pg_read_count(struct journal *journal, unsigned part, struct journal_count *count,
                  struct errmsg *why)
{
    (void)part;
    struct pg_store *store = pg_store_of(journal);
    int error = begin_reading(store, why);
    if (error != 0)
        return error;
    error = store->keys.kind == RUN_KEY_SEQ ? sum_rows(store, count, why)
                                            : count_rows(store, count, why);
    pg_control_end(store);
    return error;
}

int pg_read_list(struct journal *journal,
                 int (*visit)(void *arg, const struct journal_campaign *campaign), void *arg,
                 struct errmsg *why)
{
    struct pg_store *store = pg_store_of(journal);
    PGresult *result = NULL;
    int error = begin_reading(store, why);
    if (error != 0)
        return error;
    error = pg_schema_list(store, &result, why);
    pg_control_end(store); /* the visitor may take long */
    for (int row = 0; row < PQntuples(result) && error == 0; row++) {
        struct journal_campaign campaign;
        error = pg_campaign_read(result, row, &campaign, why);
        if (error == 0)
            error = visit(arg, &campaign);
    }
    PQclear(result);
    return error;
}

/* --- one record --- */

static int ask_for_one(struct pg_store *store, uint64_t run, uint32_t seq,
                       struct journal_record *record, PGresult **result, struct errmsg *why)
{
    char sql[PG_STATEMENT_BYTES];
    char key[RUN_KEY_UUID_BYTES];
    const Oid types[1] = {store->keys.kind == RUN_KEY_SEQ ? PG_INT8 : PG_UUID};
    const char *const values[1] = {key};
    const int lengths[1] = {(int)pg_key_bytes(store->keys.kind)};
    const int formats[1] = {1};

    (void)snprintf(sql, sizeof(sql),
                   "SELECT " PG_RECORD_COLUMNS " FROM %s WHERE run = $1 AND seq = %d", store->table,
                   (int)seq);
    (void)pg_key_put(key, &store->keys, run);
    *result = PQexecParams(store->control, sql, 1, types, values, lengths, formats, 1);
    if (PQresultStatus(*result) != PGRES_TUPLES_OK) {
        struct pg_failure failure;
        pg_control_judge(store, *result, &failure);
        return pg_failure_say(&failure, why);
    }
    if (PQntuples(*result) == 0)
        return -ENOENT;
    const struct campaign_keys listed = {.all = &store->keys, .count = 1};
    struct pg_rows rows = rows_in_force(store, &listed);
    int error = pg_rows_read_one(*result, &rows, record);
    return error == 0 ? 0 : errmsg_set(why, error, "a row of %s is no record", store->table);
}

int pg_read_one(struct journal *journal, uint64_t run, uint32_t seq, struct journal_record *record,
                PGresult **result)
{
    struct pg_store *store = pg_store_of(journal);
    struct errmsg why = {.text = ""};
    int error = begin_reading(store, &why);
    if (error == 0) {
        error = ask_for_one(store, run, seq, record, result, &why);
        pg_control_end(store);
    }
    if (error != 0 && error != -ENOENT)
        journal_fail(journal, "%s", why.text);
    return error;
}
