/*
 * pg_rows: records as they come from the server: by COPY in the binary format, a row at a time, so
 * that memory is bounded by the longest record; or as a single row. Nothing that comes is trusted:
 * lengths are checked before a value is read.
 *
 * Ownership: a record's payload lives until the visit returns. Threading: that of the control
 * connection. Errors: -EPROTO for an answer that makes no sense, -EBADMSG for a row that cannot be
 * a record, or what the visit returned.
 */
#ifndef BENCH_JOURNAL_PG_ROWS_H
#define BENCH_JOURNAL_PG_ROWS_H

#include "journal/pg_store.h"

/* The columns of a record, in this order. */
#define PG_RECORD_COLUMNS "run, digest, seq, kind, payload"

struct pg_rows {
    const char *table;                  /* whose rows they are */
    const struct campaign_keys *listed; /* the campaigns that a row may be of */
    const struct campaign_key *recent;  /* NULL at first */
    uint64_t campaign;                  /* whose records are wanted; 0: of all */
    uint64_t newest; /* of all: those of campaigns that are listed and above it are left out */
    journal_visit *visit;
    void *arg;
    bool has_length_only; /* in the place of the payload, 4 bytes */
    bool is_begun;        /* the header has been read */
    bool is_ended;        /* and the trailer */
    bool is_lost;         /* the copy ended since the connection did */
    uint64_t visited;     /* rows, by all copies of one statement */
    uint64_t passed;      /* rows of this copy, visited by it or one before */
};

/* Runs a COPY … TO STDOUT (FORMAT binary) and visits its rows; once more, those that the
 * copies of the same statement before had not come to. */
int pg_rows_copy(struct pg_store *store, const char *sql, struct pg_rows *rows, struct errmsg *why);

/* The record in the first row of a binary result, which has all columns. */
int pg_rows_read_one(const PGresult *result, struct pg_rows *rows, struct journal_record *record);

#endif
