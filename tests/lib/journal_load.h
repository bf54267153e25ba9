/*
 * journal_load: a campaign's load on any journal, and an auditor that knows what the journal has
 * said about each record.
 *
 * Each of one or two writers has a thread and a loop of its own and drives its share of the runs as
 * the engine does: the next record of a run only after the ack of the one before. How many records
 * a run has, their kinds and bytes are functions of the seed, so that the same load can be driven
 * again, on another journal or after a fault, and held against what is there.
 *
 * With one writer and one lane, and flush_every 0, batches are the same every time.
 *
 * What has been said of a record only ever grows: what was acked once must be there for ever after,
 * whatever an attempt to append it again is told.
 *
 * Ownership: the caller's struct, between init and free. Threading: the caller's thread, which is
 * writer 0's, too. Errors: 0 or -errno with text; aborts without memory. Units: in the names.
 */
#ifndef BENCH_TESTS_LIB_JOURNAL_LOAD_H
#define BENCH_TESTS_LIB_JOURNAL_LOAD_H

#include <stdatomic.h>

#include "journal/journal.h"

enum {
    JOURNAL_LOAD_RUNS_MAX = 1024,
    JOURNAL_LOAD_RECORDS_MAX = 16, /* of a run */
    JOURNAL_LOAD_WRITERS_MAX = 2,
};

struct journal_load_config {
    const char *uri;
    enum durability durability;
    enum run_key_kind key;
    unsigned writers;
    unsigned shards;
    unsigned connections;
    unsigned drives; /* so many journal_load_drive() follow an open at the most; 0: 1 */
    uint64_t retry_for_ns;
    uint64_t seed;
    unsigned runs;
    unsigned concurrency; /* runs in flight, of a writer; 0: all of its */
    unsigned records_min; /* of a run; at least 1 */
    unsigned records_max;
    unsigned payload_bytes_min;
    unsigned payload_bytes_max;
    unsigned flush_every;   /* so many appends; 0: once a turn */
    uint64_t answer_ns_max; /* without any answer, until it is a hang; 0: 20 s */
    /* Told of each ack, on its writer's thread, with how many there have been; may be NULL. */
    void (*acked)(void *arg, uint64_t count);
    void *arg;
};

/* The greater, the more it binds. */
enum journal_load_told {
    LOAD_TOLD_NOTHING, /* it was not appended */
    LOAD_TOLD_REFUSED, /* it must not be there */
    LOAD_TOLD_UNKNOWN, /* it may be: the journal said that it does not know, or never answered */
    LOAD_TOLD_ACKED,
};

struct journal_load_run {
    struct journal_append append;
    struct journal_load_writer *writer;
    struct journal_load_run *next_again; /* told to append once more */
    uint32_t records_count;              /* that it is to have */
    uint32_t found_count;                /* of them, in the last audit: a prefix */
    uint8_t told[JOURNAL_LOAD_RECORDS_MAX];
    bool is_pending;
};

/* What callbacks have said, and what was to be said by them. */
struct journal_load_counts {
    uint64_t appends;
    uint64_t acked;
    uint64_t refused;
    uint64_t unknown;
    uint64_t unanswered;
    uint64_t stopped; /* of the refused: with JOURNAL_STOPPED */
};

struct journal_load {
    struct journal_load_config config;
    struct journal *journal; /* while it is open */
    uint64_t campaign;       /* 0: none has begun */
    unsigned writers_used;
    atomic_uint_fast64_t acked_count; /* since init */
    struct journal_load_run *runs;
    /* Of the last drive, all writers together. */
    struct journal_load_counts counts;
    struct journal_totals totals;
    struct errmsg why; /* of a writer that did not open; else empty */
    int results_first; /* the first that was neither an ack nor JOURNAL_STOPPED; else 0 */
};

void journal_load_init(struct journal_load *load, const struct journal_load_config *config);
void journal_load_free(struct journal_load *load);

/* A new campaign, the one that was begun, or an audit. */
int journal_load_open(struct journal_load *load, enum journal_mode mode, struct errmsg *why);
void journal_load_close(struct journal_load *load);

enum journal_load_from {
    LOAD_FROM_FOUND, /* what the last audit has found is not appended again */
    LOAD_FROM_START, /* everything is */
};

/* Appends until every run has all its records or has been told of one that it cannot have. */
void journal_load_drive(struct journal_load *load, enum journal_load_from from);

/* Whether the journal's own totals of the last drive say what the callbacks did, and everything was
 * answered. */
bool journal_load_counts_agree(const struct journal_load *load);

/* The bytes of a record, of which there are at most payload_bytes_max, and its kind. */
uint32_t journal_load_payload(const struct journal_load_config *config, uint64_t run, uint32_t seq,
                              char *bytes);
enum record_kind journal_load_kind(const struct journal_load_run *run, uint32_t seq);

/* --- journal_load_audit.c --- */

struct journal_load_audit {
    int error;              /* of opening or reading; then the rest says what was seen before */
    uint64_t records;       /* there */
    uint64_t acked_lost;    /* not counted with an error */
    uint64_t refused_there; /* or not even appended, and there */
    uint64_t unknown_there;
    uint64_t out_of_order; /* not the next one of its run: a gap or a duplicate */
    uint64_t wrong;        /* other bytes, kind or digest than were appended, or none of ours */
    uint64_t undetected;   /* of these: with a digest that is the chain's */
    uint64_t disagreed;    /* between scan, read_runs, count and list */
    uint64_t misnamed;     /* with another campaign's number */
    struct errmsg why;     /* of the error, or the first of the faults; else empty */
};

/* Reads everything that the open journal shows of the campaign, in all ways that its mode has, and
 * sets found_count of each run. */
void journal_load_look(struct journal_load *load, struct journal_load_audit *audit);

/* The same, opened for it and closed. */
void journal_load_audit(struct journal_load *load, enum journal_mode mode,
                        struct journal_load_audit *audit);

/* Nothing but acked records may be missing. */
bool journal_load_is_sound(const struct journal_load_audit *audit);

/* After a loss that the level allows: what was lost may come back, and need not. Returns how many
 * records. */
uint64_t journal_load_forgive(struct journal_load *load);

/* Whether the last audit has found everything of every run. */
bool journal_load_is_complete(const struct journal_load *load);

#endif
