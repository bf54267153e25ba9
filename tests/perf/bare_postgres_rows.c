#include <assert.h>
#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/perf/bare_postgres_rows.h"

enum {
    RECORDS_A_RUN = 6,
    COLUMNS = 5,
    SLICE_PARAMETERS = 7, /* the last column is three: all payloads, where each begins, its size */
    KEY_BYTES_MAX = 16,
    ROW_BYTES_MAX = 64,          /* but for the payload, in any form */
    TEXT_SPARE_BYTES = 64 << 10, /* so that payloads differ */
    COPY_PIECE_BYTES = 64 << 10,
};

struct slot {
    char run[KEY_BYTES_MAX];
    uint32_t seq;
};

/* One record, numbers as the binary formats have them: big-endian. */
struct row {
    char run[KEY_BYTES_MAX];
    uint64_t digest;
    uint32_t seq;
    uint16_t kind;
    const char *payload;
};

struct field {
    const void *bytes;
    uint32_t count;
};

/* Object ids of a type and of its arrays, from the server's pg_type.dat. */
struct type {
    Oid scalar;
    Oid array;
};

static struct type column_type(const struct rows *rows, unsigned column)
{
    static const struct type types[COLUMNS] = {
        {20, 1016}, {20, 1016}, {23, 1007}, {21, 1005}, {17, 1001}};
    static const struct type uuid = {2950, 2951};
    return column == 0 && rows->key != KEY_SEQ ? uuid : types[column];
}

static uint64_t next_random(struct rows *rows)
{
    uint64_t x = rows->random += 0x9e3779b97f4a7c15U; /* splitmix64 */
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
    return x ^ (x >> 31);
}

static void make_key(struct rows *rows, char *key)
{
    uint64_t half[2] = {next_random(rows), next_random(rows) >> 2 | (uint64_t)2 << 62};
    struct timespec now;
    switch (rows->key) {
    case KEY_SEQ:
        half[0] = (uint64_t)1 << 40 | rows->run_next++;
        break;
    case KEY_UUIDV7:
        clock_gettime(CLOCK_REALTIME, &now);
        half[0] = ((uint64_t)now.tv_sec * 1000U + (uint64_t)now.tv_nsec / 1000000U) << 16 | 0x7000 |
                  (half[0] & 0xfff);
        break;
    case KEY_UUIDV4:
        half[0] = (half[0] & ~(uint64_t)0xf000) | 0x4000;
        break;
    }
    half[0] = htobe64(half[0]);
    half[1] = htobe64(half[1]);
    memcpy(key, half, KEY_BYTES_MAX);
}

void rows_open(struct rows *rows, unsigned connection, unsigned runs)
{
    static const char *const words[] = {"the",   "agent", "has",   "written",  "twelve", "records",
                                        "after", "a",     "model", "answered", "in",     "Paris"};
    assert(runs >= rows->batch);
    size_t text_bytes = (size_t)rows->payload_bytes + TEXT_SPARE_BYTES;
    size_t values = (size_t)rows->batch * COLUMNS + SLICE_PARAMETERS;
    rows->run_next = (uint64_t)connection * 1000000000U;
    rows->random = connection + 1;
    rows->text = bare_take(1, text_bytes + 1);
    for (size_t at = 0; at < text_bytes;)
        at += (size_t)snprintf(rows->text + at, text_bytes + 1 - at, "%s ",
                               words[next_random(rows) % (sizeof words / sizeof *words)]);
    rows->slot_count = runs;
    rows->slots = bare_take(runs, sizeof *rows->slots);
    for (unsigned i = 0; i < runs; i++) {
        make_key(rows, rows->slots[i].run);
        /* As in the middle of things, where runs are at all of their records. */
        rows->slots[i].seq = (uint32_t)(next_random(rows) % RECORDS_A_RUN);
    }
    rows->rows = bare_take(rows->batch, sizeof *rows->rows);
    rows->buffer = bare_take(rows->batch + COLUMNS, ROW_BYTES_MAX + rows->payload_bytes);
    rows->values = bare_take(values, sizeof *rows->values);
    rows->lengths = bare_take(values, sizeof *rows->lengths);
    rows->formats = bare_take(values, sizeof *rows->formats);
    for (size_t i = 0; i < values; i++)
        rows->formats[i] = 1; /* binary */
}

void rows_close(struct rows *rows)
{
    free(rows->text);
    free(rows->slots);
    free(rows->rows);
    free(rows->buffer);
    free(rows->values);
    free(rows->lengths);
    free(rows->formats);
}

static unsigned parameter_count(const struct rows *rows)
{
    switch (rows->form) {
    case FORM_SLICES:
        return SLICE_PARAMETERS;
    case FORM_UNNEST:
        return COLUMNS;
    case FORM_VALUES:
        return rows->batch * COLUMNS;
    case FORM_COPY:
        break;
    }
    return 0;
}

void rows_prepare(struct rows *rows, PGconn *pg, bool conflict)
{
    unsigned parameters = parameter_count(rows);
    if (parameters == 0)
        return;
    char *sql = bare_take(256 + (size_t)parameters * 12, 1);
    Oid *types = bare_take(parameters, sizeof *types);
    char *at = stpcpy(sql, "insert into bench_bare.records (run, digest, seq, kind, payload) ");
    if (rows->form == FORM_VALUES) {
        for (unsigned i = 0; i < parameters; i++) {
            at = stpcpy(at, i == 0 ? "values (" : i % COLUMNS == 0 ? "), (" : ", ");
            at += sprintf(at, "$%u", i + 1);
            types[i] = column_type(rows, i % COLUMNS).scalar;
        }
        at = stpcpy(at, ")");
    } else {
        /* In the list of the select, where the server makes no table of them first. */
        at = stpcpy(at, "select unnest($1), unnest($2), unnest($3), unnest($4), ");
        for (unsigned i = 0; i < COLUMNS; i++)
            types[i] = column_type(rows, i).array;
        if (rows->form == FORM_SLICES) {
            at = stpcpy(at, "substring($5, unnest($6), unnest($7))");
            types[4] = column_type(rows, 4).scalar;
            types[5] = types[6] = column_type(rows, 2).array;
        } else {
            at = stpcpy(at, "unnest($5)");
        }
    }
    (void)stpcpy(at, conflict ? " on conflict do nothing" : "");
    PGresult *result = PQprepare(pg, "append", sql, (int)parameters, types);
    if (PQresultStatus(result) != PGRES_COMMAND_OK)
        bare_fail("prepare", PQerrorMessage(pg));
    PQclear(result);
    free(sql);
    free(types);
}

static void make_batch(struct rows *rows)
{
    for (unsigned i = 0; i < rows->batch; i++) {
        struct slot *slot = &rows->slots[rows->slot_next];
        struct row *row = &rows->rows[i];
        memcpy(row->run, slot->run, sizeof row->run);
        row->seq = htobe32(slot->seq);
        row->kind = htobe16((uint16_t)(slot->seq % 5 + 1));
        row->digest = next_random(rows);
        row->payload = rows->text + next_random(rows) % TEXT_SPARE_BYTES;
        if (++slot->seq == RECORDS_A_RUN) {
            make_key(rows, slot->run);
            slot->seq = 0;
        }
        rows->slot_next = (rows->slot_next + 1) % rows->slot_count;
    }
    rows->copied = 0;
}

static struct field row_field(const struct rows *rows, const struct row *row, unsigned column)
{
    const struct field fields[COLUMNS] = {
        {row->run, rows->key == KEY_SEQ ? sizeof(uint64_t) : KEY_BYTES_MAX},
        {&row->digest, sizeof row->digest},
        {&row->seq, sizeof row->seq},
        {&row->kind, sizeof row->kind},
        {row->payload, rows->payload_bytes},
    };
    return fields[column];
}

static char *put_32(char *at, uint32_t value)
{
    value = htobe32(value);
    return mempcpy(at, &value, sizeof value);
}

/* A value behind its length, as arrays and the tuples of a copy have it. */
static char *put_field(char *at, struct field field)
{
    return mempcpy(put_32(at, field.count), field.bytes, field.count);
}

/* One dimension, no NULLs, the type, how many, the first index. */
static char *put_array_header(char *at, Oid type, uint32_t count)
{
    return put_32(put_32(put_32(put_32(put_32(at, 1), 0), type), count), 1);
}

static char *point_at(struct rows *rows, unsigned parameter, const char *from, char *to)
{
    rows->values[parameter] = from;
    rows->lengths[parameter] = (int)(to - from);
    return to;
}

static char *point_at_arrays(struct rows *rows, unsigned columns)
{
    char *from = rows->buffer;
    for (unsigned column = 0; column < columns; column++) {
        char *at = put_array_header(from, column_type(rows, column).scalar, rows->batch);
        for (unsigned i = 0; i < rows->batch; i++)
            at = put_field(at, row_field(rows, &rows->rows[i], column));
        from = point_at(rows, column, from, at);
    }
    return from;
}

static void point_at_slices(struct rows *rows, char *from)
{
    Oid type = column_type(rows, 2).scalar;
    char *at = from;
    for (unsigned i = 0; i < rows->batch; i++)
        at = mempcpy(at, rows->rows[i].payload, rows->payload_bytes);
    from = point_at(rows, 4, from, at);
    at = put_array_header(from, type, rows->batch);
    for (unsigned i = 0; i < rows->batch; i++)
        at = put_32(put_32(at, sizeof(uint32_t)), 1 + i * rows->payload_bytes);
    from = point_at(rows, 5, from, at);
    at = put_array_header(from, type, rows->batch);
    for (unsigned i = 0; i < rows->batch; i++)
        at = put_32(put_32(at, sizeof(uint32_t)), rows->payload_bytes);
    (void)point_at(rows, 6, from, at);
}

static void point_at_values(struct rows *rows)
{
    for (unsigned i = 0; i < rows->batch * COLUMNS; i++) {
        struct field field = row_field(rows, &rows->rows[i / COLUMNS], i % COLUMNS);
        rows->values[i] = field.bytes;
        rows->lengths[i] = (int)field.count;
    }
}

void rows_send(struct rows *rows, PGconn *pg)
{
    make_batch(rows);
    switch (rows->form) {
    case FORM_SLICES:
        point_at_slices(rows, point_at_arrays(rows, COLUMNS - 1));
        break;
    case FORM_UNNEST:
        (void)point_at_arrays(rows, COLUMNS);
        break;
    case FORM_VALUES:
        point_at_values(rows);
        break;
    case FORM_COPY:
        if (PQsendQuery(pg, "copy bench_bare.records (run, digest, seq, kind, payload) "
                            "from stdin (format binary)") != 1)
            bare_fail("sending", PQerrorMessage(pg));
        return;
    }
    if (PQsendQueryPrepared(pg, "append", (int)parameter_count(rows), rows->values, rows->lengths,
                            rows->formats, 1) != 1 ||
        PQpipelineSync(pg) != 1)
        bare_fail("sending", PQerrorMessage(pg));
}

bool rows_send_copy(struct rows *rows, PGconn *pg)
{
    static const char head[19] = "PGCOPY\n\377\r\n\0"; /* then no flags and no extension */
    const uint16_t columns = htobe16(COLUMNS);
    const uint16_t end = 0xffff;
    char *at = rows->buffer;
    if (rows->copied == 0)
        at = mempcpy(at, head, sizeof head);
    while (rows->copied < rows->batch && at - rows->buffer < COPY_PIECE_BYTES) {
        at = mempcpy(at, &columns, sizeof columns);
        for (unsigned i = 0; i < COLUMNS; i++)
            at = put_field(at, row_field(rows, &rows->rows[rows->copied], i));
        rows->copied++;
    }
    bool done = rows->copied == rows->batch;
    if (done)
        at = mempcpy(at, &end, sizeof end);
    if (PQputCopyData(pg, rows->buffer, (int)(at - rows->buffer)) != 1 ||
        (done && PQputCopyEnd(pg, NULL) != 1))
        bare_fail("sending", PQerrorMessage(pg));
    return !done;
}
