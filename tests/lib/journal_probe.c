/* journal_probe: see journal_probe.h. */
#include "tests/lib/journal_probe.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/base/digest.h"
#include "engine/base/prng.h"

void suite_fault(struct suite *suite, unsigned check, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)pthread_mutex_lock(&suite->lock);
    if ((suite->report->failed & 1u << check) == 0) {
        suite->report->failed |= 1u << check;
        (void)vsnprintf(suite->report->why[check], CONFORMANCE_WHY_BYTES, format, arguments);
    }
    (void)pthread_mutex_unlock(&suite->lock);
    va_end(arguments);
}

bool probe_writer_open(struct suite *suite, unsigned index)
{
    struct probe_writer *writer = &suite->writers[index];
    struct errmsg why;
    *writer = (struct probe_writer){.suite = suite, .thread = pthread_self()};
    if (loop_open(&writer->loop, "auto", &why) != 0 && loop_open(&writer->loop, "epoll", &why) != 0)
        goto fail;
    if (journal_writer_open(suite->journal, index, &writer->loop, &writer->writer, &why) == 0)
        return true;
    loop_close(&writer->loop);
fail:
    writer->writer = NULL;
    for (unsigned check = 1; check <= CONFORMANCE_CHECKS; check++)
        suite_fault(suite, check, "a writer does not open: %s", why.text);
    return false;
}

void probe_writer_close(struct probe_writer *writer)
{
    if (writer->writer == NULL || writer->suite->is_stuck)
        return;
    journal_writer_close(writer->writer);
    loop_close(&writer->loop);
    writer->writer = NULL;
}

/* A server may notice a little later than we that a client of it has died. */
static int open_patiently(struct suite *suite, const struct journal_config *config,
                          struct errmsg *why)
{
    for (unsigned polls = 0;; polls++) {
        int error = journal_open_ops(&suite->journal, suite->config->ops, config, why);
        if (error != -EBUSY || config->mode == JOURNAL_NEW ||
            polls == suite->config->idle_polls_max)
            return error;
        (void)nanosleep(&(struct timespec){.tv_nsec = NS_PER_MS}, NULL);
    }
}

static bool open_journal(struct suite *suite, enum journal_mode mode, uint64_t campaign,
                         uint64_t bytes_max)
{
    struct errmsg why;
    const struct journal_config config = {
        .uri = suite->config->uri,
        .mode = mode,
        .durability = suite->config->durability,
        .campaign = campaign,
        .key = suite->config->key,
        .description = SUITE_DESCRIPTION,
        .writers = 2,
        .shards = mode == JOURNAL_NEW ? suite->config->shards : 0,
        .connections = suite->config->connections,
        .bytes_max = bytes_max,
    };
    if (open_patiently(suite, &config, &why) == 0)
        return true;
    suite->journal = NULL;
    for (unsigned check = 1; check <= CONFORMANCE_CHECKS; check++)
        suite_fault(suite, check, "the journal does not open: %s", why.text);
    return false;
}

bool suite_open(struct suite *suite, uint64_t bytes_max)
{
    if (!open_journal(suite, JOURNAL_NEW, 0, bytes_max))
        return false;
    suite->campaign = journal_campaign(suite->journal)->id;
    return probe_writer_open(suite, 0) && probe_writer_open(suite, 1);
}

bool suite_reopen(struct suite *suite, uint64_t campaign)
{
    return open_journal(suite, JOURNAL_RESUME, campaign, SUITE_BYTES_MAX) &&
           probe_writer_open(suite, 0) && probe_writer_open(suite, 1);
}

bool suite_open_audit(struct suite *suite)
{
    return open_journal(suite, JOURNAL_AUDIT, 0, SUITE_BYTES_MAX);
}

void suite_close(struct suite *suite)
{
    if (suite->is_stuck || suite->journal == NULL)
        return;
    for (unsigned i = 0; i < 2; i++)
        probe_writer_close(&suite->writers[i]);
    journal_close(suite->journal);
    suite->journal = NULL;
}

/* Keeps it among what must be there from now on. */
static void probe_keep(struct probe *probe)
{
    struct suite *suite = probe->writer->suite;
    (void)pthread_mutex_lock(&suite->lock);
    probe->next_acked = suite->acked;
    suite->acked = probe;
    (void)pthread_mutex_unlock(&suite->lock);
}

static void probe_send(struct probe *probe)
{
    probe->append.digest = probe->previous;
    probe->is_pending = true;
    bool was_inside = probe->writer->is_inside_call;
    probe->writer->is_inside_call = true;
    journal_append(probe->writer->writer, &probe->append, probe->kind, probe->payload,
                   probe->bytes);
    probe->writer->is_inside_call = was_inside;
}

static void on_done(struct journal_append *append, int result)
{
    struct probe *probe = container_of(append, struct probe, append);
    struct suite *suite = probe->writer->suite;

    EXPECT(suite, 10, !probe->writer->is_inside_call);
    EXPECT(suite, 10, pthread_equal(probe->writer->thread, pthread_self()));
    EXPECT(suite, 10, probe->is_pending);
    if (!probe->is_pending)
        return;
    probe->is_pending = false;
    if (result == JOURNAL_AGAIN) {
        probe->again_count++;
        EXPECT(suite, 10, append->digest == probe->previous);
        if (probe->heard != NULL)
            probe->heard(probe);
        probe_send(probe);
        return;
    }
    probe->result = result;
    if (result == JOURNAL_ACKED)
        probe_keep(probe);
    if (probe->heard != NULL)
        probe->heard(probe);
}

static struct probe *probe_make(struct probe_writer *writer, uint64_t run, uint32_t seq,
                                uint64_t previous, enum record_kind kind, const void *payload,
                                size_t bytes)
{
    struct probe *probe = calloc(1, sizeof(*probe));
    if (probe == NULL)
        abort();
    *probe = (struct probe){
        .append = {.done = on_done, .run = run, .seq = seq},
        .writer = writer,
        .payload = payload,
        .bytes = bytes,
        .previous = previous,
        .kind = kind,
        .result = PROBE_UNANSWERED,
    };
    return probe;
}

struct probe *probe_append(struct probe_writer *writer, uint64_t run, uint32_t seq,
                           uint64_t previous, enum record_kind kind, const void *payload,
                           size_t bytes)
{
    struct probe *probe = probe_make(writer, run, seq, previous, kind, payload, bytes);
    probe_send(probe);
    return probe;
}

void probe_expect(struct probe_writer *writer, uint64_t run, uint32_t seq, uint64_t previous,
                  enum record_kind kind, const void *payload, size_t bytes)
{
    probe_keep(probe_make(writer, run, seq, previous, kind, payload, bytes));
}

void probe_flush(struct probe_writer *writer)
{
    writer->is_inside_call = true;
    journal_flush(writer->writer);
    writer->is_inside_call = false;
}

bool probe_settle(struct probe_writer *writer)
{
    struct suite *suite = writer->suite;
    unsigned idle_polls = 0;

    for (;;) {
        probe_flush(writer);
        unsigned fired = journal_deliver(writer->writer);
        if (!journal_is_busy(writer->writer))
            return true;
        if (fired > 0) {
            idle_polls = 0;
            continue;
        }
        if (idle_polls++ == suite->config->idle_polls_max) {
            suite_fault(suite, 10, "an append has had no callback when patience ended");
            suite->is_stuck = true;
            return false;
        }
        (void)loop_poll(&writer->loop, clock_monotonic_ns() + NS_PER_MS, UINT32_MAX);
    }
}

int probe_put(struct probe_writer *writer, uint64_t run, uint32_t seq, uint64_t previous,
              enum record_kind kind, const void *payload, size_t bytes)
{
    const struct probe *probe = probe_append(writer, run, seq, previous, kind, payload, bytes);
    (void)probe_settle(writer);
    return probe->result;
}

bool probe_is_record(const struct probe *probe, const struct journal_record *record)
{
    return record->run == probe->append.run && record->seq == probe->append.seq &&
           record->kind == probe->kind && record->bytes == probe->bytes &&
           record->digest == digest_chain(probe->previous, probe->payload, probe->bytes) &&
           memcmp(record->payload, probe->payload, probe->bytes) == 0;
}

bool probe_is_readable(struct probe_writer *writer, const struct probe *probe)
{
    struct journal_record record;
    return journal_read(writer->writer, probe->append.run, probe->append.seq, &record) == 0 &&
           probe_is_record(probe, &record);
}

void probe_fill(char *bytes, size_t size, uint64_t seed)
{
    struct prng prng = prng_stream(seed, 0, PRNG_TEST, 0);
    size_t at = 0;
    /* Every value in order first, then the seed's own. */
    for (; at < size && at < 256; at++)
        bytes[at] = (char)(at ^ (seed & 0xff));
    while (at < size) {
        uint64_t word = prng_next(&prng);
        size_t count = size - at < sizeof(word) ? size - at : sizeof(word);
        memcpy(&bytes[at], &word, count);
        at += count;
    }
}
