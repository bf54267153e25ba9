/* pg_rows: see pg_rows.h. */
#include "journal/pg_rows.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    COPY_HEADER_BYTES = 19,
    COPY_END = UINT16_MAX, /* in the place of a count of columns */
    COLUMNS = 5,
    RUN = 0,
    DIGEST,
    SEQ,
    KIND,
    PAYLOAD,
};

/* A value as it came. */
struct value {
    const char *bytes;
    size_t length;
};

static int refuse(struct errmsg *why)
{
    return errmsg_set(why, -EPROTO, "the server's answer makes no sense");
}

static uint64_t number(const struct value *value)
{
    uint64_t number = 0;
    for (size_t i = 0; i < value->length; i++)
        number = number << 8 | (uint8_t)value->bytes[i];
    return number;
}

/* --- whose a row is --- */

static bool is_too_new(const struct pg_rows *rows, uint64_t campaign)
{
    return campaign > rows->newest && campaign_keys_find(rows->listed, campaign) != NULL;
}

/* False for a key that cannot be one. *is_wanted: the record is of a campaign that is. */
static bool read_key(struct pg_rows *rows, const struct value *value, struct journal_record *record,
                     bool *is_wanted)
{
    int64_t packed = -1;
    *is_wanted = false;
    if (value->length == sizeof(int64_t))
        packed = (int64_t)number(value);
    else if (value->length != RUN_KEY_UUID_BYTES)
        return false;
    else if (!campaign_keys_read_uuid(rows->listed, (const uint8_t *)value->bytes, &rows->recent,
                                      &packed))
        return rows->campaign != 0; /* another's, as far as one knows */
    if (packed < 0)
        return false;
    record->campaign = run_key_campaign(packed);
    record->run = run_key_number(packed);
    *is_wanted = rows->campaign == 0 ? !is_too_new(rows, record->campaign)
                                     : rows->campaign == record->campaign;
    return true;
}

/* --- rows --- */

static bool has_lengths(const struct pg_rows *rows, const struct value *values)
{
    return values[DIGEST].length == sizeof(int64_t) && values[SEQ].length == sizeof(int32_t) &&
           values[KIND].length == sizeof(int16_t) && values[PAYLOAD].length <= INT32_MAX &&
           (!rows->has_length_only || values[PAYLOAD].length == sizeof(int32_t));
}

static bool make_record(struct pg_rows *rows, const struct value *values,
                        struct journal_record *record, bool *is_wanted)
{
    const struct value *payload = &values[PAYLOAD];
    *record = (struct journal_record){
        .digest = number(&values[DIGEST]),
        .payload = payload->bytes,
        .seq = (uint32_t)number(&values[SEQ]),
        .bytes = (uint32_t)(rows->has_length_only ? number(payload) : payload->length),
        .kind = (enum record_kind)number(&values[KIND]),
    };
    return read_key(rows, &values[RUN], record, is_wanted);
}

static int visit_row(struct pg_rows *rows, const struct value *values, struct errmsg *why)
{
    struct journal_record record;
    bool is_wanted;
    if (!has_lengths(rows, values))
        return refuse(why);
    if (!make_record(rows, values, &record, &is_wanted))
        return errmsg_set(why, -EBADMSG, "a row of %s has a key that is none of bench's",
                          rows->table);
    if (!is_wanted || rows->passed++ < rows->visited)
        return 0;
    rows->visited++;
    return rows->visit(rows->arg, &record);
}

static bool take(const char **at, const char *end, void *to, size_t bytes)
{
    if ((size_t)(end - *at) < bytes)
        return false;
    memcpy(to, *at, bytes);
    *at += bytes;
    return true;
}

static bool take_value(const char **at, const char *end, struct value *value)
{
    uint32_t length;
    if (!take(at, end, &length, sizeof(length)))
        return false;
    value->length = be32toh(length);
    value->bytes = *at;
    if (value->length > (size_t)(end - *at)) /* a NULL's, too */
        return false;
    *at += value->length;
    return true;
}

/* The rows of one message: whole ones, as servers send them. */
static int read_message(struct pg_rows *rows, const char *at, const char *end, struct errmsg *why)
{
    char header[COPY_HEADER_BYTES];
    if (rows->is_ended || (!rows->is_begun && !take(&at, end, header, sizeof(header))))
        return refuse(why);
    rows->is_begun = true;
    while (at < end) {
        struct value values[COLUMNS];
        uint16_t columns;
        if (!take(&at, end, &columns, sizeof(columns)))
            return refuse(why);
        rows->is_ended = be16toh(columns) == COPY_END;
        if (rows->is_ended)
            return at == end ? 0 : refuse(why);
        if (be16toh(columns) != COLUMNS)
            return refuse(why);
        for (unsigned i = 0; i < COLUMNS; i++)
            if (!take_value(&at, end, &values[i]))
                return refuse(why);
        int result = visit_row(rows, values, why);
        if (result != 0)
            return result;
    }
    return 0;
}

/* --- the copy --- */

/* What comes after the visitor has had enough. */
static void cancel(PGconn *pg)
{
    char unused[256];
    PGcancel *request = PQgetCancel(pg);
    if (request != NULL)
        (void)PQcancel(request, unused, sizeof(unused)); /* without it more comes, that is all */
    PQfreeCancel(request);
}

/* After the last row. */
static int end_copy(struct pg_store *store, bool is_cancelled, struct errmsg *why)
{
    struct pg_failure failure;
    PGconn *pg = store->control;
    int error = 0;
    for (PGresult *result; (result = PQgetResult(pg)) != NULL; PQclear(result)) {
        ExecStatusType status = PQresultStatus(result);
        if (status ==
            PGRES_COPY_OUT) { /* libpq has lost its place; the connection ends with this */
            PQclear(result);
            return refuse(why);
        }
        if (status == PGRES_COMMAND_OK || is_cancelled || error != 0)
            continue;
        pg_control_judge(store, result, &failure);
        error = pg_failure_say(&failure, why);
    }
    return error;
}

/* In its middle, where the server says no more or the connection has ended. */
static int lose_copy(struct pg_store *store, struct errmsg *why)
{
    struct pg_failure failure;
    if (PQstatus(store->control) != CONNECTION_OK)
        pg_error_of_connection(&failure, store->control, true, &store->uri);
    else
        pg_error_set(&failure, PG_LOST, -ETIMEDOUT, "the server does not answer");
    store->is_control_lost = true;
    return pg_failure_say(&failure, why);
}

/* Asks for it: 0, or why there is nothing to read. */
static int begin_copy(struct pg_store *store, const char *sql, struct errmsg *why)
{
    struct pg_failure failure;
    PGresult *opened = pg_control_ask(store, sql, &failure);
    if (opened == NULL)
        return pg_failure_say(&failure, why);
    int error = PQresultStatus(opened) == PGRES_COPY_OUT ? 0 : refuse(why);
    PQclear(opened);
    return error;
}

int pg_rows_copy(struct pg_store *store, const char *sql, struct pg_rows *rows, struct errmsg *why)
{
    PGconn *pg = store->control;
    int bytes;
    char *message;
    int result = begin_copy(store, sql, why);

    rows->is_lost = result != 0 && pg_control_is_lost(store);
    if (result != 0)
        return result;
    rows->is_begun = false;
    rows->is_ended = false;
    rows->passed = 0;
    while ((bytes = PQgetCopyData(pg, &message, 1)) >= 0) {
        if (bytes == 0) {
            if (!pg_control_listen(store, UINT64_MAX) || PQconsumeInput(pg) != 1)
                break;
            continue;
        }
        if (result == 0) {
            result = read_message(rows, message, message + bytes, why);
            if (result != 0)
                cancel(pg);
        }
        PQfreemem(message);
    }
    int error = bytes == 0 ? lose_copy(store, why) : end_copy(store, result != 0, why);
    rows->is_lost = result == 0 && error != 0 && pg_control_is_lost(store);
    if (result == 0 && error == 0 && !rows->is_ended)
        error = refuse(why);
    /* A server that has crashed loses those that it had not to keep. */
    if (result == 0 && error == 0 && rows->passed < rows->visited)
        error = errmsg_set(why, -ESTALE, "records that were read are gone from %s", rows->table);
    return result != 0 ? result : error;
}

int pg_rows_read_one(const PGresult *result, struct pg_rows *rows, struct journal_record *record)
{
    struct value values[COLUMNS];
    bool is_wanted;
    if (PQnfields(result) != COLUMNS || PQntuples(result) < 1)
        return -EPROTO;
    for (int i = 0; i < COLUMNS; i++)
        values[i] = (struct value){.bytes = PQgetvalue(result, 0, i),
                                   .length = (size_t)PQgetlength(result, 0, i)};
    if (!has_lengths(rows, values))
        return -EPROTO;
    return make_record(rows, values, record, &is_wanted) && is_wanted ? 0 : -EBADMSG;
}
