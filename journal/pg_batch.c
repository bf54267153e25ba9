/* pg_batch: see pg_batch.h. */
#include "journal/pg_batch.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

enum { ARRAY_HEADER_BYTES = 20, LENGTH_BYTES = 4, BUFFER_BYTES_FIRST = 16 << 10 };

/* --- numbers, most significant byte first --- */

static char *put(char *at, const void *bytes, size_t count)
{
    memcpy(at, bytes, count);
    return at + count;
}

static char *put_16(char *at, uint16_t value)
{
    value = htobe16(value);
    return put(at, &value, sizeof(value));
}

static char *put_32(char *at, uint32_t value)
{
    value = htobe32(value);
    return put(at, &value, sizeof(value));
}

static char *put_64(char *at, uint64_t value)
{
    value = htobe64(value);
    return put(at, &value, sizeof(value));
}

/* --- keys --- */

size_t pg_key_bytes(enum run_key_kind kind)
{
    return kind == RUN_KEY_SEQ ? sizeof(int64_t) : (size_t)RUN_KEY_UUID_BYTES;
}

char *pg_key_put(char *at, const struct campaign_key *keys, uint64_t run)
{
    int64_t packed = run_key_pack(keys->campaign, run);
    if (keys->kind == RUN_KEY_SEQ)
        return put_64(at, (uint64_t)packed);
    run_key_make_uuid(keys->kind, packed, keys->start_ms, (uint8_t *)at);
    return at + RUN_KEY_UUID_BYTES;
}

/* --- parameters --- */

/* Room for `bytes`, nothing of what was there is kept. */
static bool reserve(struct pg_parameters *parameters, size_t bytes)
{
    size_t capacity = BUFFER_BYTES_FIRST;
    if (bytes <= parameters->capacity)
        return true;
    while (capacity < bytes)
        capacity *= 2;
    free(parameters->buffer);
    parameters->buffer = malloc(capacity);
    parameters->capacity = parameters->buffer == NULL ? 0 : capacity;
    return parameters->buffer != NULL;
}

static Oid array_of(Oid type)
{
    if (type == PG_UUID)
        return PG_UUID_ARRAY;
    if (type == PG_INT8)
        return PG_INT8_ARRAY;
    return type == PG_INT4 ? PG_INT4_ARRAY : PG_INT2_ARRAY;
}

/* Dimensions, no NULLs, the type, how many, and the first index. */
static char *begin_array(struct pg_parameters *parameters, char *at, Oid type, uint32_t count)
{
    parameters->types[parameters->count] = array_of(type);
    parameters->values[parameters->count] = at;
    return put_32(put_32(put_32(put_32(put_32(at, 1), 0), type), count), 1);
}

static void end_array(struct pg_parameters *parameters, const char *end)
{
    int i = parameters->count++;
    parameters->lengths[i] = (int)(end - parameters->values[i]);
}

static char *put_runs(struct pg_parameters *parameters, char *at, const struct campaign_key *keys,
                      const struct journal_batch *batch, const struct pg_picks *picks)
{
    uint32_t bytes = (uint32_t)pg_key_bytes(keys->kind);
    at = begin_array(parameters, at, keys->kind == RUN_KEY_SEQ ? PG_INT8 : PG_UUID, picks->count);
    for (uint32_t i = 0; i < picks->count; i++)
        at = pg_key_put(put_32(at, bytes), keys, batch->entries[picks->index[i]].run);
    end_array(parameters, at);
    return at;
}

/* Of an entry, as it is: its type to the server, and where it is in the entry. */
struct column {
    enum pg_type type;
    uint32_t bytes;
    size_t offset;
};
static const struct column digests = {PG_INT8, 8, offsetof(struct journal_entry, digest)};
static const struct column seqs = {PG_INT4, 4, offsetof(struct journal_entry, seq)};
static const struct column kinds = {PG_INT2, 2, offsetof(struct journal_entry, kind)};
static const struct column lengths = {PG_INT4, 4, offsetof(struct journal_entry, bytes)};

/* A value of the column, most significant byte first. */
static char *put_value(char *at, const struct column *column, const struct journal_entry *entry)
{
    const char *value = (const char *)entry + column->offset;
    uint16_t value_16;
    uint32_t value_32;
    uint64_t value_64;
    if (column->bytes == sizeof(value_64))
        return put_64(at, *(const uint64_t *)memcpy(&value_64, value, sizeof(value_64)));
    if (column->bytes == sizeof(value_32))
        return put_32(at, *(const uint32_t *)memcpy(&value_32, value, sizeof(value_32)));
    return put_16(at, *(const uint16_t *)memcpy(&value_16, value, sizeof(value_16)));
}

static char *put_column(struct pg_parameters *parameters, char *at, const struct column *column,
                        const struct journal_batch *batch, const struct pg_picks *picks)
{
    at = begin_array(parameters, at, column->type, picks->count);
    for (uint32_t i = 0; i < picks->count; i++)
        at = put_value(put_32(at, column->bytes), column, &batch->entries[picks->index[i]]);
    end_array(parameters, at);
    return at;
}

/* Where each payload begins in what put_payloads() gives, one after the other. */
static char *put_offsets(struct pg_parameters *parameters, char *at,
                         const struct journal_batch *batch, const struct pg_picks *picks)
{
    uint32_t offset = 1;
    at = begin_array(parameters, at, PG_INT4, picks->count);
    for (uint32_t i = 0; i < picks->count; i++) {
        at = put_32(put_32(at, sizeof(int32_t)), offset);
        offset += batch->entries[picks->index[i]].bytes;
    }
    end_array(parameters, at);
    return at;
}

static uint32_t count_bytes(const struct journal_batch *batch, const struct pg_picks *picks)
{
    uint32_t bytes = 0;
    for (uint32_t i = 0; i < picks->count; i++)
        bytes += batch->entries[picks->index[i]].bytes;
    return bytes;
}

/* Whether nothing lies between the payloads. Entries are picked in the order in which theirs lie in
 * the batch. */
static bool is_one_piece(const struct journal_batch *batch, const struct pg_picks *picks,
                         uint32_t bytes)
{
    const struct journal_entry *first = &batch->entries[picks->index[0]];
    const struct journal_entry *last = &batch->entries[picks->index[picks->count - 1]];
    return last->offset + last->bytes - first->offset == bytes;
}

/* All payloads, copied only where they are not one piece. */
static char *put_payloads(struct pg_parameters *parameters, char *at,
                          const struct journal_batch *batch, const struct pg_picks *picks,
                          uint32_t bytes)
{
    int column = parameters->count++;
    parameters->types[column] = PG_BYTEA;
    parameters->lengths[column] = (int)bytes;
    if (is_one_piece(batch, picks, bytes)) {
        parameters->values[column] = batch->bytes + batch->entries[picks->index[0]].offset;
        return at;
    }
    parameters->values[column] = at;
    for (uint32_t i = 0; i < picks->count; i++) {
        const struct journal_entry *entry = &batch->entries[picks->index[i]];
        at = put(at, batch->bytes + entry->offset, entry->bytes);
    }
    return at;
}

/* Begins anew, with room for `columns` arrays and `bytes` of payloads. */
static bool begin_parameters(struct pg_parameters *parameters, const struct campaign_key *keys,
                             const struct pg_picks *picks, size_t columns, size_t row_bytes,
                             size_t bytes)
{
    size_t row_bytes_all = columns * LENGTH_BYTES + pg_key_bytes(keys->kind) + row_bytes;
    parameters->count = 0;
    return reserve(parameters, columns * ARRAY_HEADER_BYTES + picks->count * row_bytes_all + bytes);
}

bool pg_parameters_of_records(struct pg_parameters *parameters, const struct campaign_key *keys,
                              const struct journal_batch *batch, const struct pg_picks *picks)
{
    size_t row_bytes = sizeof(int64_t) + 3 * sizeof(int32_t) + sizeof(int16_t);
    assert(picks->count > 0);
    uint32_t bytes = count_bytes(batch, picks);
    size_t copied = is_one_piece(batch, picks, bytes) ? 0 : bytes;
    if (!begin_parameters(parameters, keys, picks, 6, row_bytes, copied))
        return false;
    char *at = put_runs(parameters, parameters->buffer, keys, batch, picks);
    at = put_column(parameters, at, &digests, batch, picks);
    at = put_column(parameters, at, &seqs, batch, picks);
    at = put_column(parameters, at, &kinds, batch, picks);
    at = put_payloads(parameters, at, batch, picks, bytes);
    at = put_offsets(parameters, at, batch, picks);
    at = put_column(parameters, at, &lengths, batch, picks);
    assert(at <= parameters->buffer + parameters->capacity);
    return true;
}

bool pg_parameters_of_question(struct pg_parameters *parameters, const struct campaign_key *keys,
                               const struct journal_batch *batch, const struct pg_picks *picks)
{
    size_t row_bytes = sizeof(int64_t) + 2 * sizeof(int32_t);
    if (!begin_parameters(parameters, keys, picks, 4, row_bytes, 0))
        return false;
    char *at = put_runs(parameters, parameters->buffer, keys, batch, picks);
    at = put_column(parameters, at, &seqs, batch, picks);
    at = put_column(parameters, at, &lengths, batch, picks);
    at = put_column(parameters, at, &digests, batch, picks);
    assert(at <= parameters->buffer + parameters->capacity);
    return true;
}

void pg_parameters_free(struct pg_parameters *parameters)
{
    free(parameters->buffer);
    *parameters = (struct pg_parameters){.buffer = NULL};
}

/* --- what is there --- */

void pg_picks_open(struct pg_picks *picks, const struct journal_batch *batch)
{
    picks->count = 0;
    for (uint32_t i = 0; i < batch->count; i++)
        if (batch->entries[i].result == JOURNAL_UNSET)
            picks->index[picks->count++] = (uint16_t)i;
}

void pg_picks_cut(struct pg_picks *picks, const struct journal_batch *batch, uint32_t bytes_max)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < picks->count; i++) {
        bytes += batch->entries[picks->index[i]].bytes;
        if (bytes > bytes_max && i > 0)
            picks->count = i;
    }
}

static uint64_t get_64(const char *from)
{
    uint64_t value;
    memcpy(&value, from, sizeof(value));
    return be64toh(value);
}

/* The columns of the answer, all binary: the place in the question (from 1), whether the record
 * before it is there, its kind, and its payload unless that or the digest has to be another. */
enum { ANSWER_PLACE, ANSWER_PREVIOUS, ANSWER_KIND, ANSWER_PAYLOAD, ANSWER_COLUMNS };

static bool is_same(const PGresult *result, int row, const struct journal_batch *batch,
                    const struct journal_entry *entry)
{
    uint16_t kind;
    memcpy(&kind, PQgetvalue(result, row, ANSWER_KIND), sizeof(kind));
    return be16toh(kind) == entry->kind && !PQgetisnull(result, row, ANSWER_PAYLOAD) &&
           PQgetlength(result, row, ANSWER_PAYLOAD) == (int)entry->bytes &&
           memcmp(PQgetvalue(result, row, ANSWER_PAYLOAD), batch->bytes + entry->offset,
                  entry->bytes) == 0;
}

static enum pg_place read_place(const PGresult *result, int row, const struct journal_batch *batch,
                                const struct journal_entry *entry)
{
    if (!PQgetisnull(result, row, ANSWER_KIND))
        return is_same(result, row, batch, entry) ? PG_PLACE_SAME : PG_PLACE_OTHER;
    return PQgetvalue(result, row, ANSWER_PREVIOUS)[0] != 0 ? PG_PLACE_FREE : PG_PLACE_FAR;
}

static bool has_lengths(const PGresult *result, int row)
{
    return PQgetlength(result, row, ANSWER_PLACE) == sizeof(int64_t) &&
           PQgetlength(result, row, ANSWER_PREVIOUS) == 1 &&
           (PQgetisnull(result, row, ANSWER_KIND) ||
            PQgetlength(result, row, ANSWER_KIND) == sizeof(int16_t));
}

bool pg_places_read(const PGresult *result, const struct journal_batch *batch,
                    const struct pg_picks *picks, uint8_t *places)
{
    if (PQnfields(result) != ANSWER_COLUMNS || PQntuples(result) != (int)picks->count)
        return false;
    for (uint32_t i = 0; i < picks->count; i++)
        places[picks->index[i]] = PG_PLACE_UNKNOWN;
    for (int row = 0; row < PQntuples(result); row++) {
        if (!has_lengths(result, row))
            return false;
        uint64_t place = get_64(PQgetvalue(result, row, ANSWER_PLACE)) - 1;
        if (place >= picks->count || places[picks->index[place]] != PG_PLACE_UNKNOWN)
            return false;
        uint16_t index = picks->index[place];
        places[index] = (uint8_t)read_place(result, row, batch, &batch->entries[index]);
    }
    return true;
}

static int compare_runs(const void *left, const void *right, void *arg)
{
    const struct journal_entry *entries = arg;
    uint16_t a = *(const uint16_t *)left;
    uint16_t b = *(const uint16_t *)right;
    if (entries[a].run != entries[b].run)
        return entries[a].run < entries[b].run ? -1 : 1;
    return a < b ? -1 : a > b;
}

static int compare_places(const void *left, const void *right)
{
    return *(const uint16_t *)left - *(const uint16_t *)right;
}

void pg_picks_choose(struct pg_picks *picks, struct journal_batch *batch, const uint8_t *places)
{
    enum { NONE = -1 };
    struct journal_entry *entries = batch->entries;
    uint64_t run = UINT64_MAX; /* none has this number */
    int64_t next = NONE;       /* seq of the run, as far as it is known */
    bool is_waiting = false;   /* for the answer about a record that is twice in the batch */

    /* Run by run, each in the order of its appends: an answer to one decides on those behind it. */
    pg_picks_open(picks, batch);
    qsort_r(picks->index, picks->count, sizeof(picks->index[0]), compare_runs, entries);
    uint32_t asked = picks->count;
    picks->count = 0;
    for (uint32_t i = 0; i < asked; i++) {
        uint16_t index = picks->index[i];
        struct journal_entry *entry = &entries[index];
        if (entry->run != run) {
            next = NONE;
            is_waiting = false;
        }
        run = entry->run;
        if (entry->result != JOURNAL_UNSET || is_waiting) /* refused since: see below */
            continue;
        bool is_next = next == entry->seq || (next == NONE && places[index] == PG_PLACE_FREE);
        if (places[index] == PG_PLACE_SAME) {
            entry->result = JOURNAL_ACKED;
        } else if (places[index] == PG_PLACE_OTHER) {
            journal_batch_refuse(batch, index, JOURNAL_CONFLICT);
        } else if (is_next) {
            next = (int64_t)entry->seq + 1;
            picks->index[picks->count++] = index;
        } else if (next == NONE || entry->seq > next) {
            journal_batch_refuse(batch, index, JOURNAL_GAP);
        } else {
            is_waiting = true;
        }
    }
    qsort(picks->index, picks->count, sizeof(picks->index[0]), compare_places);
}
