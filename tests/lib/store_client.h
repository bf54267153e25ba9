/*
 * store_client: a journal with its writers and their loops, all on one thread, for tests of a store
 * that keeps its records.
 *
 * Payloads are made from run and seq, so that what comes back can be told from what should have;
 * their digests are chained. Ownership: the caller's struct, which must not move while it is open.
 * Threading: one. Errors: as the journal's; what must be so ends the test when it is not.
 */
#ifndef BENCH_TESTS_LIB_STORE_CLIENT_H
#define BENCH_TESTS_LIB_STORE_CLIENT_H

#include <stdbool.h>

#include "engine/loop.h"
#include "journal/journal.h"

enum { STORE_WRITERS_MAX = 2 };

struct store_client {
    struct journal *journal;
    unsigned writer_count; /* 0 in an audit */
    struct {
        struct journal_writer *writer;
        struct loop loop;
    } writers[STORE_WRITERS_MAX];
};

int store_open(struct store_client *client, const struct journal_config *config,
               struct errmsg *why);
void store_must_open(struct store_client *client, const struct journal_config *config);
/* A SQLite store, at the level `process`. */
int store_open_path(struct store_client *client, const char *path, enum journal_mode mode,
                    struct errmsg *why);
void store_close(struct store_client *client);

/* A record that is being appended. `result` is 1 until it is known. */
struct store_record {
    struct journal_append append;
    struct store_client *client;
    unsigned writer;
    int result;
    enum record_kind kind;
    uint64_t previous; /* digest of the record before it */
    size_t bytes;
    char *payload; /* its own */
};

/* The payload's size follows from the key, too: 0 to `bytes_max`. */
void store_record_init(struct store_record *record, struct store_client *client, unsigned writer,
                       uint64_t run, uint32_t seq, enum record_kind kind, uint64_t previous,
                       size_t bytes_max);
void store_record_free(struct store_record *record);

/* Hands it over, without waiting. */
void store_record_send(struct store_record *record);

/* Flushes, waits and delivers until everything has its result. */
void store_settle(struct store_client *client);

/* All records of runs [first, first + count), one seq after the other, each wave in one batch:
 * begin, models, end. How many were acked. */
uint64_t store_put_runs(struct store_client *client, uint64_t first, unsigned count,
                        uint32_t records, size_t bytes_max);

/* One record of the given bytes, which need not be what the key says; the result. */
int store_put(struct store_client *client, uint64_t run, uint32_t seq, enum record_kind kind,
              uint64_t previous, const void *payload, size_t bytes);

/* What a look at all that is there of a campaign has found. */
struct store_audit {
    uint64_t records;
    uint64_t ends;
    uint64_t runs;  /* with a record of seq 0 */
    uint64_t wrong; /* records that are not what their key says, or not the next of their run */
};

/* Scans all parts. 0, or the scan's error. Runs are below 65536. */
int store_audit(struct journal *journal, uint64_t campaign, size_t bytes_max,
                struct store_audit *audit, struct errmsg *why);

/* That so many runs of so many records are there, all ended, and nothing else. */
void store_must_hold(struct journal *journal, uint64_t campaign, size_t bytes_max, uint64_t runs,
                     uint32_t records);

#endif
