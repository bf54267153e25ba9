/*
 * journal: where the records of runs become durable. One contract, several stores.
 *
 * The contract (docs/journal.md):
 *
 *   J1  (run, seq) has one winner.
 *   J2  A record is visible only if all before it in its run are.
 *   J3  An ack means durable at the declared level, never earlier.
 *   J4  Read-your-writes after the ack.
 *   J5  Bytes come back as they went in, any byte, 0 to 16 MiB.
 *   J6  Records never change.
 *   J7  The same bytes appended again under their key succeed; other bytes are a conflict.
 *   J8  Memory is bounded: at the bound callers wait, nothing is dropped.
 *   J9  No partial record is ever visible.
 *   J10 A callback fires exactly once, on its own thread, never from inside the call.
 *
 * Group commit and retries, once for all stores: appends are copied into the open batch of their
 * lane (a shard, a connection); journal_flush() sends it to the store as soon as the store takes
 * one more; what arrives meanwhile leaves with the next. journal_deliver() fires the callbacks of
 * what has been settled.
 *
 * A store may hold many campaigns. A journal is opened on one: a new one, or an old one that is to
 * be resumed; or on none, to be audited. A run is named by its number in its campaign.
 *
 * Ownership: a journal_append is embedded in the caller's struct and belongs to the journal from
 * journal_append() until its callback. Payload bytes are copied before journal_append() returns.
 * Threading: a journal is opened and closed by one thread; each writer belongs to the thread of its
 * loop, so that there is no lock on the append path; reading says for itself. Errors: 0 or -errno,
 * see below. Units: ns, bytes.
 *
 * A new store is one file, a row in journal.c and a line in backend.h.
 */
#ifndef BENCH_JOURNAL_H
#define BENCH_JOURNAL_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "journal/run_key.h"

struct loop;
struct journal;
struct journal_writer;

enum {
    JOURNAL_PAYLOAD_BYTES_MAX = 16 << 20,
    JOURNAL_BATCH_RECORDS_MAX = 4096,
    JOURNAL_BATCH_BYTES_MAX = 32 << 20,
    /* What a writer holds in all its batches; at the bound callers wait. */
    JOURNAL_WRITER_RECORDS_MAX = 2 * JOURNAL_BATCH_RECORDS_MAX,
    JOURNAL_WRITER_BYTES_MAX = 2 * JOURNAL_BATCH_BYTES_MAX,
    JOURNAL_SEQ_MAX = INT32_MAX,
    JOURNAL_DESCRIPTION_BYTES_MAX = 64 << 10,
};
#define JOURNAL_RUN_MAX RUN_KEY_NUMBER_MAX

/* Values reach disks: append-only. */
enum record_kind {
    RECORD_BEGIN = 1,
    RECORD_MODEL = 2,
    RECORD_ATTEMPT = 3,
    RECORD_TOOL = 4,
    RECORD_END = 5,
    RECORD_RETRY = 6,
    RECORD_DELTA = 7,
};

enum durability {
    DURABILITY_DEFAULT = 0, /* the store's own default */
    DURABILITY_NONE = 1,
    DURABILITY_PROCESS = 2,
    DURABILITY_POWER = 3,
};
const char *durability_name(enum durability level); /* "none", "process", "power" */

/* Results of an append, besides other -errno of the store. */
enum {
    JOURNAL_ACKED = 0,
    JOURNAL_AGAIN = -11,     /* -EAGAIN: nothing was taken for want of room; now append again */
    JOURNAL_CONFLICT = -17,  /* -EEXIST: other bytes are recorded under this key */
    JOURNAL_FULL = -28,      /* -ENOSPC: the store is at its bound */
    JOURNAL_TOO_LARGE = -90, /* -EMSGSIZE: a payload of more than 16 MiB */
    JOURNAL_GAP = -71,       /* -EPROTO: the record before it in its run is not there */
    JOURNAL_STOPPED = -108,  /* -ESHUTDOWN: the store has failed before; this was not tried */
    JOURNAL_UNKNOWN = -115,  /* -EINPROGRESS: sent, and never answered: it may be recorded */
};
const char *journal_strerror(int result);

struct journal_append {
    struct journal_append *next; /* the journal's own */
    void (*done)(struct journal_append *append, int result);
    uint64_t run;
    /* In: of the run's previous record (DIGEST_START at seq 0); out, once taken: of this one. */
    uint64_t digest;
    uint32_t seq;
    uint32_t bytes; /* the journal's own: how much room is awaited */
};
static_assert(sizeof(struct journal_append) == 40, "embedded in every run");

/* A record as it is read back. `payload` is the journal's, until the next call on the same writer
 * or return from the visit. kind is as recorded, which may be none of the enum. */
struct journal_record {
    uint64_t campaign;
    uint64_t run;
    uint64_t digest;
    const char *payload;
    uint32_t seq;
    uint32_t bytes;
    enum record_kind kind;
};

enum journal_mode {
    JOURNAL_NEW,    /* begins a campaign, and the store itself when there is none */
    JOURNAL_RESUME, /* goes on with a campaign */
    JOURNAL_AUDIT,  /* reads; nothing is appended and nothing changed */
};

struct journal_config {
    const char *uri;
    enum journal_mode mode;
    enum durability durability;
    uint64_t campaign;       /* to resume; 0: the newest */
    enum run_key_kind key;   /* of a new campaign */
    const char *description; /* of a new campaign: JSON, the journal's only to keep */
    unsigned writers;        /* how many journal_writer_open() will follow at the most */
    unsigned shards;       /* files of a new store; 0: 1 of a new one, else as many as there are */
    unsigned connections;  /* to a server; 0: JOURNAL_CONNECTIONS_DEFAULT */
    uint64_t retry_for_ns; /* how long what a server may yet do is tried again; 0: not */
    uint64_t bytes_max;    /* what an in-memory store may hold altogether, all writers */
    /* Asked, by any thread, while a server is waited for: whether to give it up. NULL: never. */
    bool (*must_stop)(void);
};

enum {
    JOURNAL_SHARDS_MAX = 64,
    JOURNAL_CONNECTIONS_MAX = 256,
    JOURNAL_CONNECTIONS_DEFAULT = 4,
};

struct journal_campaign {
    uint64_t id; /* from 1 in its store */
    uint64_t created_unix_ms;
    enum run_key_kind key;
    enum durability durability; /* that it was begun at */
    const char *description;    /* as given; never NULL */
};

/* What has become of a writer's appends. */
struct journal_totals {
    uint64_t records; /* acked */
    uint64_t bytes;   /* of their payloads */
    uint64_t refused;
    uint64_t unknown; /* may be recorded or not */
    uint64_t batches; /* settled */
    uint64_t retries; /* of batches */
};

/* What is recorded of a campaign, by reading it. */
struct journal_count {
    uint64_t records;
    uint64_t bytes; /* of payloads */
    uint64_t begins;
    uint64_t ends;
};

/* What a store has done, for what it was given. Sums, of which the difference between two times
 * tells: they begin when it was opened, or with is_servers, some of them, when the server was. What
 * a store cannot tell is JOURNAL_NOT_KNOWN. */
#define JOURNAL_NOT_KNOWN UINT64_MAX
struct journal_io {
    uint64_t commits; /* transactions */
    uint64_t commit_ns;
    uint64_t checkpoints;
    uint64_t checkpoint_ns;
    uint64_t wal_bytes; /* written */
    uint64_t db_bytes; /* written, beside the WAL; or what tables grew by, less where they shrank */
    uint64_t syncs;
    uint64_t store_bytes; /* what it takes on disk now */
    bool is_servers;      /* a server's own figures: whatever else it did meanwhile is among them */
};

/* One that tells of nothing. */
static inline struct journal_io journal_io_unknown(void)
{
    return (struct journal_io){
        .commits = JOURNAL_NOT_KNOWN,
        .commit_ns = JOURNAL_NOT_KNOWN,
        .checkpoints = JOURNAL_NOT_KNOWN,
        .checkpoint_ns = JOURNAL_NOT_KNOWN,
        .wal_bytes = JOURNAL_NOT_KNOWN,
        .db_bytes = JOURNAL_NOT_KNOWN,
        .syncs = JOURNAL_NOT_KNOWN,
        .store_bytes = JOURNAL_NOT_KNOWN,
    };
}

/* What a store runs on and how it is set, as it says itself: "journal_mode" is "wal". */
enum { JOURNAL_SETTINGS_MAX = 16, JOURNAL_SETTING_BYTES = 96 };
struct journal_setting {
    const char *key; /* a constant: lower case, digits and underscores */
    char value[JOURNAL_SETTING_BYTES];
};
struct journal_settings {
    unsigned count;
    struct journal_setting all[JOURNAL_SETTINGS_MAX];
};

/* Opens the store that the URI names. -EBUSY when a live process holds it, or its campaign; -EINVAL
 * with the reason for an unknown scheme or a level that the store cannot keep. `why` repeats the
 * path of a file, but nothing of the URI of a server past its scheme, nor of one whose scheme is
 * unknown: it may hold a password. */
int journal_open(struct journal **journal, const struct journal_config *config, struct errmsg *why);
void journal_close(struct journal *journal); /* after all writers */
/* The same for one that is not wanted after all: unless anything was sent to the store, the
 * campaign that it has begun is taken back, and a file that was made for it. */
void journal_discard(struct journal *journal);
/* Only checks what journal_open() would refuse without touching the store; for the command line. */
int journal_check(const struct journal_config *config, struct errmsg *why);

/* Whether the file is the store's, or will be once there is a store: nobody else may write it.
 * Links are followed. */
bool journal_owns_path(const struct journal_config *config, const char *path);
/* The file system where its files are, or will be. */
struct journal_disk {
    uint64_t free_bytes; /* JOURNAL_NOT_KNOWN without files, or where it cannot be told */
    bool is_memory;      /* nothing in it outlives the machine's power, whatever is synced */
};
struct journal_disk journal_disk(const struct journal_config *config);

/* Whether a text begins as the URI of a store does, one that is no more than its scheme included.
 */
bool journal_is_named_by(const char *text);

const char *journal_name(const struct journal *journal);           /* "memory" */
enum durability journal_durability(const struct journal *journal); /* the level in force */
/* The one that is being written; NULL in an audit. */
const struct journal_campaign *journal_campaign(const struct journal *journal);
/* Whether it keeps its records in this process, within bytes_max. */
bool journal_keeps_in_memory(const struct journal_config *config);
/* How many writers a journal can have: a connection is one writer's. */
unsigned journal_writers_max(const struct journal_config *config);
/* The first reason, in the store's words, why it stopped taking records, was tried no longer, or
 * could not read one; false while nothing of that has happened. */
bool journal_has_failed(struct journal *journal, struct errmsg *why);
void journal_io(struct journal *journal, struct journal_io *io);
/* What a store cannot tell now is left out. Not while its writers are at work. */
void journal_describe(struct journal *journal, struct journal_settings *settings);

int journal_writer_open(struct journal *journal, unsigned index, struct loop *loop,
                        struct journal_writer **writer, struct errmsg *why);
/* Appends that are outstanding are forgotten, see journal_forget(). */
void journal_writer_close(struct journal_writer *writer);

/* Gives up waiting: the callbacks of outstanding appends will not come. Whether these are recorded
 * is not known, and counted so. Nothing may be appended afterwards. */
void journal_forget(struct journal_writer *writer);

/* Hands over one record. append->{done, run, seq, digest} are set by the caller. The callback
 * follows exactly once, from a later journal_deliver(): JOURNAL_ACKED, JOURNAL_AGAIN, or why the
 * record was refused. Room is kept for who is told JOURNAL_AGAIN until the next journal_deliver();
 * who comes new while others wait goes behind them. */
void journal_append(struct journal_writer *writer, struct journal_append *append,
                    enum record_kind kind, const void *payload, size_t bytes);

/* Sends what waits to the store, as far as the store takes more batches now. */
void journal_flush(struct journal_writer *writer);

/* Fires the callbacks of what has been settled; returns how many. New appends made by them wait for
 * the next journal_flush(). */
unsigned journal_deliver(struct journal_writer *writer);

/* When the batch was settled whose callbacks journal_deliver() is firing: the time of the ack,
 * which the callback may come after. Of an earlier batch for an append that was refused before it
 * was in one. */
uint64_t journal_settled_ns(const struct journal_writer *writer);

/* Whether appends await their callback. */
bool journal_is_busy(const struct journal_writer *writer);

struct journal_totals journal_writer_totals(const struct journal_writer *writer);

/* 0, or -ENOENT, or another -errno, whose reason journal_has_failed() tells. Only acked records are
 * found; through another writer than the one that appended it perhaps not. */
int journal_read(struct journal_writer *writer, uint64_t run, uint32_t seq,
                 struct journal_record *record);

/* --- reading what is there ---
 *
 * A store is read in parts, as many as can be read side by side, each by one thread. Beside writers
 * at work what is visible is read, except in memory, where the part of a writer is to be read by
 * its thread. Errors come with their reason. */

/* What a reader does with a record: 0 to go on. A visit must not call the journal: a store may hold
 * a lock meanwhile. */
typedef int journal_visit(void *arg, const struct journal_record *record);

unsigned journal_parts(const struct journal *journal);

/* Files, and connections that append; 0 for a store that has none. */
unsigned journal_shards(const struct journal *journal);
unsigned journal_connections(const struct journal *journal);

/* Visits the campaigns of the store in the order of their ids; stops at the first visit that
 * returns not 0, and returns it. */
int journal_list(struct journal *journal,
                 int (*visit)(void *arg, const struct journal_campaign *campaign), void *arg,
                 struct errmsg *why);

/* Visits every record of a campaign, or of all of them with campaign 0, in a part, each run's in
 * the order in which they were recorded, runs interleaved; `kinds` has a bit (1 << kind) each kind
 * that is wanted, UINT32_MAX: also those that are none. -ENOENT without such a campaign. Stops at
 * the first visit that returns not 0, and returns it. A record of a kind or seq that the contract
 * does not know is visited all the same; one that cannot be shown as a record is -EBADMSG. */
int journal_scan(struct journal *journal, uint64_t campaign, unsigned part, uint32_t kinds,
                 journal_visit *visit, void *arg, struct errmsg *why);

/* Visits all records of the given runs of the campaign in force, run by run as given, in the order
 * of seq. The runs must be of this part, as journal_scan() showed them. */
int journal_read_runs(struct journal *journal, unsigned part, const uint64_t *runs, unsigned count,
                      journal_visit *visit, void *arg, struct errmsg *why);

/* Adds what is there of the campaign in force. */
int journal_count(struct journal *journal, unsigned part, struct journal_count *count,
                  struct errmsg *why);

#endif
