/* The checks of the conformance suite: one function a promise of the contract, in its order. */
#include "tests/lib/conformance.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/digest.h"
#include "tests/lib/journal_audit.h"
#include "tests/lib/journal_probe.h"

enum { RACE_RUNS = 500 };

static uint64_t chain(uint64_t previous, const char *text)
{
    return digest_chain(previous, text, strlen(text));
}

static struct probe *text_append(struct probe_writer *writer, uint64_t run, uint32_t seq,
                                 uint64_t previous, const char *text)
{
    return probe_append(writer, run, seq, previous, RECORD_MODEL, text, strlen(text));
}

static int text_put(struct probe_writer *writer, uint64_t run, uint32_t seq, uint64_t previous,
                    const char *text)
{
    return probe_put(writer, run, seq, previous, RECORD_MODEL, text, strlen(text));
}

/* J1 */

struct racer {
    struct suite *suite;
    unsigned index;
    struct probe *probes[RACE_RUNS];
};

static void *race(void *arg)
{
    struct racer *racer = arg;
    struct suite *suite = racer->suite;
    struct probe_writer *writer = &suite->writers[racer->index];
    if (!probe_writer_open(suite, racer->index))
        return NULL;
    for (unsigned i = 0; i < RACE_RUNS; i++) {
        racer->probes[i] = text_append(writer, suite->run_first + 100 + i, 0, DIGEST_START,
                                       racer->index == 0 ? "left" : "right");
        if (i % 7 == 0)
            (void)probe_settle(writer);
    }
    (void)probe_settle(writer);
    return NULL;
}

/* Two threads with a writer each want the same runs. */
static void check_race(struct suite *suite)
{
    static struct racer racers[2];
    pthread_t threads[2];

    for (unsigned i = 0; i < 2; i++)
        probe_writer_close(&suite->writers[i]);
    if (suite->is_stuck)
        return;
    for (unsigned i = 0; i < 2; i++) {
        racers[i] = (struct racer){.suite = suite, .index = i};
        EXPECT(suite, 1, pthread_create(&threads[i], NULL, race, &racers[i]) == 0);
    }
    for (unsigned i = 0; i < 2; i++)
        (void)pthread_join(threads[i], NULL);
    for (unsigned i = 0; i < RACE_RUNS && !suite->is_stuck; i++) {
        int left = racers[0].probes[i]->result;
        int right = racers[1].probes[i]->result;
        EXPECT(suite, 1, (left == JOURNAL_ACKED) != (right == JOURNAL_ACKED));
        EXPECT(suite, 1, left == JOURNAL_CONFLICT || right == JOURNAL_CONFLICT);
    }
    if (!suite->is_stuck)
        EXPECT(suite, 1, audit_runs(suite, suite->run_first + 100, RACE_RUNS) == RACE_RUNS);
}

static void check_one_winner(struct suite *suite)
{
    struct probe_writer *writer = &suite->writers[0];
    uint64_t run = suite->run_first;

    struct probe *first = text_append(writer, run, 0, DIGEST_START, "first");
    const struct probe *second = text_append(writer, run, 0, DIGEST_START, "second");
    if (!probe_settle(writer))
        return;
    EXPECT(suite, 1, first->result == JOURNAL_ACKED);
    EXPECT(suite, 1, second->result == JOURNAL_CONFLICT);
    EXPECT(suite, 1, probe_is_readable(writer, first));
    EXPECT(suite, 1, text_put(writer, run, 0, DIGEST_START, "third") == JOURNAL_CONFLICT);
    EXPECT(suite, 1, text_put(writer, run, 0, DIGEST_START, "first") == JOURNAL_ACKED);
    EXPECT(suite, 1, probe_is_readable(writer, first));
    EXPECT(suite, 1, audit_runs(suite, run, 1) == 1);

    EXPECT(suite, 1, text_put(&suite->writers[1], run, 0, DIGEST_START, "4") == JOURNAL_CONFLICT);
    uint64_t digest = chain(DIGEST_START, "first");
    EXPECT(suite, 1, text_put(writer, run, 1, digest, "mine") == JOURNAL_ACKED);
    EXPECT(suite, 1, text_put(&suite->writers[1], run, 1, digest, "yours") != JOURNAL_ACKED);
    check_race(suite);
}

/* J2 */

static void check_prefix(struct suite *suite)
{
    struct probe_writer *writer = &suite->writers[0];
    uint64_t run = suite->run_first;
    struct journal_record record;

    EXPECT(suite, 2, text_put(writer, run, 1, chain(0, "0"), "1") == JOURNAL_GAP);
    EXPECT(suite, 2, journal_read(writer->writer, run, 1, &record) == -ENOENT);
    EXPECT(suite, 2, text_put(writer, run, 0, DIGEST_START, "0") == JOURNAL_ACKED);
    EXPECT(suite, 2, text_put(writer, run, JOURNAL_SEQ_MAX, DIGEST_START, "x") == JOURNAL_GAP);

    /* In one batch: a gap, and what follows it. */
    const struct probe *probes[4];
    static const uint32_t seqs[4] = {0, 2, 3, 1};
    for (unsigned i = 0; i < 4; i++)
        probes[i] = text_append(writer, run + 1, seqs[i], DIGEST_START, "a batch");
    if (!probe_settle(writer))
        return;
    EXPECT(suite, 2, probes[0]->result == JOURNAL_ACKED);
    for (unsigned i = 1; i < 4; i++)
        EXPECT(suite, 2, probes[i]->result == JOURNAL_GAP);
    /* A conflict, and what follows it. */
    probes[0] = text_append(writer, run + 1, 0, DIGEST_START, "other bytes");
    probes[1] = text_append(writer, run + 1, 1, chain(0, "other bytes"), "chained on them");
    if (!probe_settle(writer))
        return;
    EXPECT(suite, 2, probes[0]->result == JOURNAL_CONFLICT);
    EXPECT(suite, 2, probes[1]->result != JOURNAL_ACKED);

    /* Runs that grow side by side, within batches and across them. */
    uint64_t digests[3] = {DIGEST_START, DIGEST_START, DIGEST_START};
    for (uint32_t seq = 0; seq < 12; seq++) {
        for (unsigned i = 0; i < 3; i++) {
            (void)text_append(writer, run + 2 + i, seq, digests[i], "beside");
            digests[i] = chain(digests[i], "beside");
        }
        if (seq % 4 == 3 && !probe_settle(writer))
            return;
    }
    if (!probe_settle(writer))
        return;
    EXPECT(suite, 2, audit_runs(suite, run, 5) == 1 + 1 + 36);
    audit_acked(suite, 2, AUDIT_NOTHING_ELSE);
}

/* J3 */

struct search {
    const struct probe *probe;
    bool is_found;
};

static int search_visit(void *arg, const struct journal_record *record)
{
    struct search *search = arg;
    if (record->run == search->probe->append.run && record->seq == search->probe->append.seq)
        search->is_found = true;
    return search->is_found ? 77 : 0;
}

static void heard_scan(struct probe *probe)
{
    struct search search = {.probe = probe};
    if (probe->result != JOURNAL_ACKED)
        return;
    struct suite *suite = probe->writer->suite;
    int stopped = audit_scan(suite, suite->campaign, UINT32_MAX, search_visit, &search);
    EXPECT(probe->writer->suite, 3, search.is_found);
    EXPECT(probe->writer->suite, 4, !search.is_found || stopped == 77);
}

static void check_ack(struct suite *suite)
{
    uint64_t run = suite->run_first;
    uint64_t digest = DIGEST_START;

    for (uint32_t seq = 0; seq < 20; seq++) {
        text_append(&suite->writers[0], run, seq, digest, "acked")->heard = heard_scan;
        digest = chain(digest, "acked");
        if (seq % 3 == 0 && !probe_settle(&suite->writers[0]))
            return;
    }
    if (!probe_settle(&suite->writers[0]))
        return;
    enum durability level = journal_durability(suite->journal);
    conformance_check_reopening(suite, 3);
    if (suite->is_stuck || level == DURABILITY_NONE)
        return;
    suite_close(suite);
    conformance_check_survival(suite);
}

/* J4 */

static void heard_read(struct probe *probe)
{
    struct suite *suite = probe->writer->suite;
    struct journal_record record;
    if (probe->result != JOURNAL_ACKED)
        return;
    EXPECT(suite, 4, probe_is_readable(probe->writer, probe));
    EXPECT(suite, 4,
           journal_read(probe->writer->writer, probe->append.run + 100000, 0, &record) == -ENOENT);
}

static void check_read_your_writes(struct suite *suite)
{
    struct probe_writer *writer = &suite->writers[0];
    struct journal_record record;
    uint64_t digest = DIGEST_START;

    for (uint32_t seq = 0; seq < 20; seq++) {
        for (uint64_t run = suite->run_first; run < suite->run_first + 5; run++)
            probe_append(writer, run, seq, digest, (enum record_kind)(RECORD_BEGIN + seq % 5),
                         "read me", 7)
                ->heard = heard_read;
        digest = chain(digest, "read me");
        if (seq % 3 == 0 && !probe_settle(writer))
            return;
    }
    if (!probe_settle(writer))
        return;
    EXPECT(suite, 4, journal_read(writer->writer, suite->run_first, 20, &record) == -ENOENT);
    EXPECT(suite, 4, audit_runs(suite, suite->run_first, 5) == 5 * 20);
    audit_acked(suite, 4, AUDIT_NOTHING_ELSE);
    audit_list(suite, 4);
    conformance_check_reopening(suite, 4);
}

/* J5 */

static const size_t payload_sizes[] = {
    0,
    1,
    2,
    3,
    4,
    7,
    8,
    9,
    255,
    256,
    257,
    4096,
    8191,
    65536,
    1 << 20,
    (3 << 20) + 1,
#ifndef __SANITIZE_THREAD__ /* which looks at each byte that is read, slowly */
    (16 << 20) - 1,
    16 << 20,
#endif
};

static void check_bytes(struct suite *suite)
{
    enum { SIZES = sizeof(payload_sizes) / sizeof(payload_sizes[0]) };
    static const uint64_t runs[] = {
        0,
        511,
        512,
        INT32_MAX,
        UINT32_MAX,
        (uint64_t)UINT32_MAX + 1,
        JOURNAL_RUN_MAX - 1,
        JOURNAL_RUN_MAX,
    };
    struct probe_writer *writer = &suite->writers[0];
    struct probe *probes[SIZES];
    char *payloads[SIZES];
    uint64_t digest = DIGEST_START;

    for (unsigned i = 0; i < SIZES; i++) {
        payloads[i] = malloc(payload_sizes[i] + 1);
        if (payloads[i] == NULL)
            abort();
        probe_fill(payloads[i], payload_sizes[i], i);
        probes[i] =
            probe_append(writer, suite->run_first, i, digest,
                         (enum record_kind)(RECORD_BEGIN + i % 5), payloads[i], payload_sizes[i]);
        digest = digest_chain(digest, payloads[i], payload_sizes[i]);
        if (i % 4 == 0 && !probe_settle(writer))
            return;
    }
    if (!probe_settle(writer))
        return;
    for (unsigned i = 0; i < SIZES; i++) {
        EXPECT(suite, 5, probes[i]->result == JOURNAL_ACKED);
        EXPECT(suite, 5, probe_is_readable(writer, probes[i]));
    }
    EXPECT(suite, 5, audit_runs(suite, suite->run_first, 1) == SIZES);
    for (unsigned i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) {
        struct probe *probe = text_append(writer, runs[i], 0, DIGEST_START, "any run");
        EXPECT(suite, 5, probe_settle(writer) && probe->result == JOURNAL_ACKED);
        EXPECT(suite, 5, probe_is_readable(writer, probe));
    }
    struct probe *large = probe_append(writer, suite->run_first + 1, 0, DIGEST_START, RECORD_END,
                                       payloads[0], JOURNAL_PAYLOAD_BYTES_MAX + 1);
    EXPECT(suite, 5, probe_settle(writer) && large->result == JOURNAL_TOO_LARGE);
    EXPECT(suite, 5, audit_runs(suite, suite->run_first + 1, 1) == 0);
    audit_acked(suite, 5, AUDIT_NOTHING_ELSE);
    conformance_check_reopening(suite, 5);
    for (unsigned i = 0; i < SIZES; i++)
        free(payloads[i]);
}

/* J6 */

static void check_immutable(struct suite *suite)
{
    enum { LATER = 3000 };
    struct probe_writer *writer = &suite->writers[0];
    uint64_t run = suite->run_first;
    char payload[700];

    struct probe *probe = text_append(writer, run, 0, DIGEST_START, "engraved");
    (void)probe_settle(writer);
    (void)text_put(writer, run, 0, DIGEST_START, "scribble");
    EXPECT(suite, 6, suite->is_stuck || probe_is_readable(writer, probe));
    (void)text_put(writer, run, 0, DIGEST_START, "engraved");
    (void)probe_put(writer, run, 0, DIGEST_START, RECORD_END, "engraved", 8);
    EXPECT(suite, 6, suite->is_stuck || probe_is_readable(writer, probe));
    probe_fill(payload, sizeof(payload), 6);
    for (unsigned i = 1; i <= LATER && !suite->is_stuck; i++) {
        (void)probe_append(writer, run + i, 0, DIGEST_START, RECORD_BEGIN, payload,
                           sizeof(payload));
        if (i % 500 == 0)
            (void)probe_settle(writer);
    }
    if (!suite->is_stuck) {
        EXPECT(suite, 6, probe_is_readable(writer, probe));
        EXPECT(suite, 6, audit_runs(suite, run, LATER + 1) == LATER + 1);
    }
}

/* J7 */

static void check_retry(struct suite *suite)
{
    struct probe_writer *writer = &suite->writers[0];
    uint64_t run = suite->run_first;
    uint64_t digest = chain(DIGEST_START, "zero");

    (void)text_append(writer, run, 0, DIGEST_START, "zero");
    const struct probe *twin = text_append(writer, run, 0, DIGEST_START, "zero");
    if (!probe_settle(writer))
        return;
    EXPECT(suite, 7, twin->result == JOURNAL_ACKED);
    EXPECT(suite, 7, text_put(writer, run, 1, digest, "one") == JOURNAL_ACKED);
    EXPECT(suite, 7, text_put(writer, run, 2, chain(digest, "one"), "") == JOURNAL_ACKED);

    EXPECT(suite, 7, text_put(writer, run, 0, DIGEST_START, "zero") == JOURNAL_ACKED);
    EXPECT(suite, 7, text_put(writer, run, 1, digest, "one") == JOURNAL_ACKED);
    EXPECT(suite, 7, text_put(writer, run, 2, chain(digest, "one"), "") == JOURNAL_ACKED);
    static const char *const others[] = {"on", "ones", "two", "", "onE"};
    for (unsigned i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        EXPECT(suite, 7, text_put(writer, run, 1, digest, others[i]) == JOURNAL_CONFLICT);
    EXPECT(suite, 7, text_put(writer, run, 1, digest + 1, "one") == JOURNAL_CONFLICT);
    EXPECT(suite, 7, probe_put(writer, run, 1, digest, RECORD_TOOL, "one", 3) == JOURNAL_CONFLICT);
    EXPECT(suite, 7, suite->is_stuck || audit_runs(suite, run, 1) == 3);
}

/* J8 */

static unsigned again_total; /* of the one check that counts them; each runs in its own process */

static void heard_order(struct probe *probe)
{
    if (probe->result == PROBE_UNANSWERED && probe->again_order == 0)
        probe->again_order = ++again_total;
}

/* More than a writer holds, in records or in bytes: the rest waits, in order, and none is lost. */
static void check_waiting(struct suite *suite, uint64_t run, unsigned count, size_t bytes)
{
    struct probe_writer *writer = &suite->writers[0];
    struct probe **probes = calloc(count, sizeof(struct probe *));
    char *payload = malloc(bytes);
    unsigned waited = 0;
    unsigned order = 0;

    if (probes == NULL || payload == NULL)
        abort();
    again_total = 0;
    probe_fill(payload, bytes, count);
    for (unsigned i = 0; i < count; i++) {
        probes[i] = probe_append(writer, run + i, 0, DIGEST_START, RECORD_BEGIN, payload, bytes);
        probes[i]->heard = heard_order;
    }
    if (!probe_settle(writer))
        return;
    for (unsigned i = 0; i < count; i++) {
        EXPECT(suite, 8, probes[i]->result == JOURNAL_ACKED);
        waited += probes[i]->again_count > 0;
        EXPECT(suite, 8, probes[i]->again_order == 0 || probes[i]->again_order > order);
        order = probes[i]->again_order;
    }
    uint64_t held = count - waited;
    EXPECT(suite, 8, held <= JOURNAL_WRITER_RECORDS_MAX);
    EXPECT(suite, 8, held * bytes <= JOURNAL_WRITER_BYTES_MAX);
    EXPECT(suite, 8, waited > 0 && again_total == waited);
    EXPECT(suite, 8, audit_runs(suite, run, count) == count);
    free(payload);
    free(probes);
}

/* A store in memory, filled beyond its bound with runs of two records. */
static void check_full(struct suite *suite)
{
    enum { PAYLOAD_BYTES = 4096, RUNS = 1000, BOUND = 2 << 20 };
    struct probe_writer *writer = &suite->writers[0];
    uint64_t run = suite->run_first + 500000;
    char payload[PAYLOAD_BYTES];
    unsigned acked = 0;
    unsigned refused = 0;

    suite_close(suite);
    if (!suite_open(suite, BOUND))
        return;
    probe_fill(payload, sizeof(payload), 8);
    uint64_t digest = digest_chain(DIGEST_START, payload, sizeof(payload));
    for (unsigned i = 0; i < RUNS; i++) {
        struct probe *first =
            probe_append(writer, run + i, 0, DIGEST_START, RECORD_BEGIN, payload, sizeof(payload));
        struct probe *second =
            probe_append(writer, run + i, 1, digest, RECORD_END, payload, sizeof(payload));
        if (!probe_settle(writer))
            return;
        acked += first->result == JOURNAL_ACKED;
        acked += second->result == JOURNAL_ACKED;
        refused += first->result == JOURNAL_FULL;
        refused += second->result == JOURNAL_FULL;
        EXPECT(suite, 8, first->result == JOURNAL_ACKED || second->result == JOURNAL_FULL);
    }
    EXPECT(suite, 8, acked + refused == 2 * RUNS);
    EXPECT(suite, 8, refused > 0);
    EXPECT(suite, 8, (uint64_t)acked * PAYLOAD_BYTES <= BOUND);
    EXPECT(suite, 8, (uint64_t)acked * PAYLOAD_BYTES >= BOUND / 4);
    EXPECT(suite, 8, audit_runs(suite, run, RUNS) == acked);
}

static void check_bounded(struct suite *suite)
{
    uint64_t run = suite->run_first;
    check_waiting(suite, run, 3 * JOURNAL_BATCH_RECORDS_MAX + 100, 40);
    if (!suite->is_stuck)
        check_waiting(suite, run + 100000, 7, (16 << 20) - 100);
    if (!suite->is_stuck && suite->config->is_in_memory)
        check_full(suite);
}

/* J9 */

static void check_whole(struct suite *suite)
{
    enum { RUNS = 32, PAYLOAD_BYTES_MAX = 1 << 18 };
    struct probe_writer *writer = &suite->writers[0];
    uint64_t run = suite->run_first;
    char *payload = malloc(PAYLOAD_BYTES_MAX);
    uint64_t digests[RUNS] = {DIGEST_START};
    struct journal_record record;

    if (payload == NULL)
        abort();
    for (uint32_t seq = 0; seq < 3; seq++) {
        for (unsigned i = 0; i < RUNS; i++) {
            size_t bytes = (i + 1) * (size_t)(seq == 1 ? 7013 : 101);
            probe_fill(payload, bytes, i);
            (void)probe_append(writer, run + i, seq, digests[i], RECORD_TOOL, payload, bytes);
            digests[i] = digest_chain(digests[i], payload, bytes);
            /* So little is not sent before it is told to. */
            EXPECT(suite, 9, journal_read(writer->writer, run + i, seq, &record) == -ENOENT);
        }
        probe_flush(writer);
        memset(payload, 0, PAYLOAD_BYTES_MAX); /* the journal has its own copy */
        for (unsigned i = 0; i < 5; i++) {
            (void)audit_runs(suite, run, RUNS);
            (void)loop_poll(&writer->loop, clock_monotonic_ns() + NS_PER_MS / 2, UINT32_MAX);
        }
        if (!probe_settle(writer))
            return;
        EXPECT(suite, 9, audit_runs(suite, run, RUNS) == (seq + 1) * RUNS);
    }
    free(payload);
}

/* J10 */

static void check_callbacks(struct suite *suite)
{
    struct probe_writer *writer = &suite->writers[0];
    const struct probe *probes[100];

    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < 100; i++)
            probes[i] = text_append(writer, suite->run_first + i, round, DIGEST_START, "once");
        struct probe *large = probe_append(writer, suite->run_first, 9, DIGEST_START, RECORD_END,
                                           "", JOURNAL_PAYLOAD_BYTES_MAX + 1);
        EXPECT(suite, 10, large->result == PROBE_UNANSWERED);
        if (!probe_settle(writer))
            return;
        EXPECT(suite, 10, large->result == JOURNAL_TOO_LARGE);
        for (unsigned i = 0; i < 100; i++)
            EXPECT(suite, 10, probes[i]->result == JOURNAL_ACKED);
    }
    /* Time for callbacks that nobody waits for. */
    for (unsigned i = 0; i < 10; i++) {
        (void)loop_poll(&writer->loop, clock_monotonic_ns() + NS_PER_MS, UINT32_MAX);
        EXPECT(suite, 10, journal_deliver(writer->writer) == 0);
    }
}

void (*const conformance_checks[CONFORMANCE_CHECKS])(struct suite *suite) = {
    check_one_winner, check_prefix,    check_ack,   check_read_your_writes,
    check_bytes,      check_immutable, check_retry, check_bounded,
    check_whole,      check_callbacks,
};
