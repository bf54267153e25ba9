/*
 * journal_probe: appends that watch over their own callbacks, and what the checks of the
 * conformance suite share.
 *
 * A probe keeps the payload's address, so that it can append again when the journal says so; the
 * payload is the caller's until the probe is answered. Every breach of J10 is a fault, whichever
 * check it happens in. Ownership: probes are the suite's, until the process ends: a late callback
 * still finds its own. Threading: a writer belongs to one thread; faults may come from any.
 */
#ifndef BENCH_TESTS_JOURNAL_PROBE_H
#define BENCH_TESTS_JOURNAL_PROBE_H

#include <pthread.h>

#include "engine/loop.h"
#include "tests/lib/conformance.h"

enum { PROBE_UNANSWERED = 1 };

/* What a journal under test may hold, unless the check is about the bound. */
#define SUITE_BYTES_MAX (UINT64_C(1) << 30)

/* Of each campaign. */
#define SUITE_DESCRIPTION "{\"suite\":\"d\u00e9j\u00e0 vu\",\"quote\":\"'\"}"

/* One writer with its loop. */
struct probe_writer {
    struct suite *suite;
    struct journal_writer *writer;
    struct loop loop;
    pthread_t thread;
    bool is_inside_call; /* a callback now would come from inside it */
};

struct suite {
    const struct conformance_config *config;
    struct conformance_report *report; /* shared with the parent process */
    pthread_mutex_t lock;              /* of the report */
    struct journal *journal;
    uint64_t campaign; /* that suite_open() began */
    struct probe_writer writers[2];
    struct probe *acked; /* what must be in the campaign, the last ack first */
    uint64_t run_first;  /* this check may use a million runs from here */
    bool is_stuck;       /* an append is unanswered: nothing can be closed */
};

struct probe {
    struct journal_append append;
    struct probe_writer *writer;
    const void *payload;
    size_t bytes;
    uint64_t previous; /* digest of the record before */
    enum record_kind kind;
    int result; /* PROBE_UNANSWERED until it is known */
    unsigned again_count;
    unsigned
        again_order; /* the count of JOURNAL_AGAIN on this writer when the first came, from 1 */
    bool is_pending;
    struct probe *next_acked;
    void (*heard)(struct probe *probe); /* called from the callback, may be NULL */
};

/* Notes a breach of Jn, the first of each. */
void suite_fault(struct suite *suite, unsigned check, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A fault unless `condition`. */
#define EXPECT(suite, check, condition)                                                            \
    do {                                                                                           \
        if (!(condition))                                                                          \
            suite_fault(suite, check, "%s:%d: %s", __func__, __LINE__, #condition);                \
    } while (0)

/* Begins a campaign with two writers. False, with a fault of every check, when that fails. */
bool suite_open(struct suite *suite, uint64_t bytes_max);
/* The same, and goes on with a campaign that is there; 0: the newest. */
bool suite_reopen(struct suite *suite, uint64_t campaign);
/* The same, to read, without writers. */
bool suite_open_audit(struct suite *suite);
void suite_close(struct suite *suite);

/* Opens one writer and its loop for the calling thread. */
bool probe_writer_open(struct suite *suite, unsigned index);
void probe_writer_close(struct probe_writer *writer);

/* Jn at n - 1. */
extern void (*const conformance_checks[CONFORMANCE_CHECKS])(struct suite *suite);
/* What of J3 and J4 is about records that outlive a journal: in a file of its own. */
void conformance_check_survival(struct suite *suite);
void conformance_check_reopening(struct suite *suite, unsigned check);

/* Hands a record over. `previous` is the digest of the record before it. */
struct probe *probe_append(struct probe_writer *writer, uint64_t run, uint32_t seq,
                           uint64_t previous, enum record_kind kind, const void *payload,
                           size_t bytes);

/* A record that must be there although another process has appended it. */
void probe_expect(struct probe_writer *writer, uint64_t run, uint32_t seq, uint64_t previous,
                  enum record_kind kind, const void *payload, size_t bytes);

void probe_flush(struct probe_writer *writer);

/* Flushes, waits and delivers until all appends are answered. False, with a fault of J10, when
 * config->idle_polls_max is reached. */
bool probe_settle(struct probe_writer *writer);

/* Append and settle; the result. */
int probe_put(struct probe_writer *writer, uint64_t run, uint32_t seq, uint64_t previous,
              enum record_kind kind, const void *payload, size_t bytes);

/* Whether the record is what was appended: key, kind, digest, bytes. */
bool probe_is_record(const struct probe *probe, const struct journal_record *record);
/* Whether that is there. */
bool probe_is_readable(struct probe_writer *writer, const struct probe *probe);

/* Bytes that depend on all of their place and the seed, with every value among them. */
void probe_fill(char *bytes, size_t size, uint64_t seed);

#endif
