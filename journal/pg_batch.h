/*
 * pg_batch: a batch as the server gets it, its records or the question "what is there of it?", an
 * array a column; and what the answer means.
 *
 * Ownership: buffers are their lane's. Threading: the writer's. Errors: false without memory or
 * for an answer that makes no sense. Units: bytes.
 */
#ifndef BENCH_JOURNAL_PG_BATCH_H
#define BENCH_JOURNAL_PG_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <libpq-fe.h>

#include "journal/backend.h"
#include "journal/campaign_keys.h"

enum { PG_PARAMETERS_MAX = 7 };

/* Type numbers that the server's catalogue fixes. */
enum pg_type {
    PG_BYTEA = 17,
    PG_INT8 = 20,
    PG_INT2 = 21,
    PG_INT4 = 23,
    PG_UUID = 2950,
    PG_INT2_ARRAY = 1005,
    PG_INT4_ARRAY = 1007,
    PG_INT8_ARRAY = 1016,
    PG_UUID_ARRAY = 2951,
};

/* What goes with a statement, in the binary format. */
struct pg_parameters {
    char *buffer;
    size_t capacity;
    int count;
    Oid types[PG_PARAMETERS_MAX];
    const char *values[PG_PARAMETERS_MAX];
    int lengths[PG_PARAMETERS_MAX];
};

/* What is there in the place of an entry. */
enum pg_place {
    PG_PLACE_UNKNOWN = 0,
    PG_PLACE_FREE,  /* nothing, and the record before it is there */
    PG_PLACE_FAR,   /* nothing, and not the record before it either */
    PG_PLACE_SAME,  /* the same record */
    PG_PLACE_OTHER, /* another record */
};

/* Entries of a batch, by their index. */
struct pg_picks {
    uint32_t count;
    uint16_t index[JOURNAL_BATCH_RECORDS_MAX];
};

size_t pg_key_bytes(enum run_key_kind kind);
/* Writes a run's key as it is in the table; returns behind it. */
char *pg_key_put(char *at, const struct campaign_key *keys, uint64_t run);

/* All entries that have no result yet. */
void pg_picks_open(struct pg_picks *picks, const struct journal_batch *batch);
/* Keeps the first, as many as have `bytes_max` of payloads, and one at least. */
void pg_picks_cut(struct pg_picks *picks, const struct journal_batch *batch, uint32_t bytes_max);

/* The records: run, digest, seq, kind; then all payloads as one value, which the batch keeps unless
 * others lie between, and where in it each begins, from 1, and its length. */
bool pg_parameters_of_records(struct pg_parameters *parameters, const struct campaign_key *keys,
                              const struct journal_batch *batch, const struct pg_picks *picks);
/* The question for them: run, seq, bytes, digest. */
bool pg_parameters_of_question(struct pg_parameters *parameters, const struct campaign_key *keys,
                               const struct journal_batch *batch, const struct pg_picks *picks);
void pg_parameters_free(struct pg_parameters *parameters);

/* Reads the answer to the question for `picks` into places[], one an entry of the batch. False,
 * with nothing relied upon, when it is not the answer to that. */
bool pg_places_read(const PGresult *result, const struct journal_batch *batch,
                    const struct pg_picks *picks, uint8_t *places);

/* Settles which entries the places decide, and picks of the rest those that can be inserted now, in
 * their order. What is neither stands for a record that is picked already: ask again after it. */
void pg_picks_choose(struct pg_picks *picks, struct journal_batch *batch, const uint8_t *places);

#endif
