/* store_client: see store_client.h. */
#include "tests/lib/store_client.h"

#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/base/digest.h"
#include "engine/base/prng.h"

enum { RUNS_MAX = 1 << 16 };

int store_open(struct store_client *client, const struct journal_config *config, struct errmsg *why)
{
    struct journal_config filled = *config;
    *client = (struct store_client){.journal = NULL};
    filled.writers = config->writers > 0 ? config->writers : 1;
    int error = journal_open(&client->journal, &filled, why);
    if (error != 0 || config->mode == JOURNAL_AUDIT)
        return error;
    for (unsigned i = 0; i < filled.writers && error == 0; i++) {
        error = loop_open(&client->writers[i].loop, "epoll", why);
        if (error != 0)
            break;
        error = journal_writer_open(client->journal, i, &client->writers[i].loop,
                                    &client->writers[i].writer, why);
        if (error != 0)
            loop_close(&client->writers[i].loop);
        else
            client->writer_count++;
    }
    if (error != 0)
        store_close(client);
    return error;
}

void store_must_open(struct store_client *client, const struct journal_config *config)
{
    struct errmsg why = {.text = ""};
    int error = store_open(client, config, &why);
    if (error != 0)
        fail_msg("%d: %s", error, why.text);
}

int store_open_path(struct store_client *client, const char *path, enum journal_mode mode,
                    struct errmsg *why)
{
    char uri[PATH_MAX + 8];
    (void)snprintf(uri, sizeof(uri), "sqlite:%s", path);
    why->text[0] = '\0';
    return store_open(
        client,
        &(struct journal_config){.uri = uri, .mode = mode, .durability = DURABILITY_PROCESS}, why);
}

void store_close(struct store_client *client)
{
    for (unsigned i = 0; i < client->writer_count; i++) {
        journal_writer_close(client->writers[i].writer);
        loop_close(&client->writers[i].loop);
    }
    journal_close(client->journal);
    client->journal = NULL;
}

static size_t size_of(uint64_t run, uint32_t seq, size_t bytes_max)
{
    return bytes_max == 0 ? 0 : prng_mix(run * 31 + seq + 1) % (bytes_max + 1);
}

static void fill(char *payload, size_t bytes, uint64_t run, uint32_t seq)
{
    uint64_t value = prng_mix(run << 20 ^ seq ^ 0x5eed);
    for (size_t i = 0; i < bytes; i++)
        payload[i] = (char)(value >> i % 8 * 8) ^ (char)i;
}

static void on_done(struct journal_append *append, int result)
{
    struct store_record *record = container_of(append, struct store_record, append);
    if (result == JOURNAL_AGAIN)
        store_record_send(record);
    else
        record->result = result;
}

void store_record_init(struct store_record *record, struct store_client *client, unsigned writer,
                       uint64_t run, uint32_t seq, enum record_kind kind, uint64_t previous,
                       size_t bytes_max)
{
    *record = (struct store_record){
        .append = {.done = on_done, .run = run, .seq = seq},
        .client = client,
        .writer = writer,
        .result = 1,
        .kind = kind,
        .previous = previous,
        .bytes = size_of(run, seq, bytes_max),
    };
    record->payload = malloc(record->bytes + 1);
    if (record->payload == NULL)
        abort();
    fill(record->payload, record->bytes, run, seq);
}

void store_record_free(struct store_record *record)
{
    free(record->payload);
    record->payload = NULL;
}

void store_record_send(struct store_record *record)
{
    record->append.digest = record->previous;
    journal_append(record->client->writers[record->writer].writer, &record->append, record->kind,
                   record->payload, record->bytes);
}

void store_settle(struct store_client *client)
{
    for (unsigned i = 0; i < client->writer_count; i++)
        journal_flush(client->writers[i].writer);
    for (unsigned i = 0; i < client->writer_count; i++) {
        struct journal_writer *writer = client->writers[i].writer;
        while (journal_is_busy(writer)) {
            journal_flush(writer);
            if (journal_deliver(writer) == 0)
                (void)loop_poll(&client->writers[i].loop, UINT64_MAX, UINT32_MAX);
        }
    }
}

uint64_t store_put_runs(struct store_client *client, uint64_t first, unsigned count,
                        uint32_t records, size_t bytes_max)
{
    uint64_t acked = 0;
    struct store_record *wave = calloc(count, sizeof(*wave));
    if (wave == NULL)
        abort();
    for (uint32_t seq = 0; seq < records; seq++) {
        enum record_kind kind = seq == 0             ? RECORD_BEGIN
                                : seq + 1 == records ? RECORD_END
                                                     : RECORD_MODEL;
        for (unsigned i = 0; i < count; i++) {
            uint64_t digest = seq == 0 ? DIGEST_START : wave[i].append.digest;
            store_record_init(&wave[i], client, i % client->writer_count, first + i, seq, kind,
                              digest, bytes_max);
            store_record_send(&wave[i]);
        }
        store_settle(client);
        for (unsigned i = 0; i < count; i++) {
            acked += wave[i].result == JOURNAL_ACKED;
            store_record_free(&wave[i]);
        }
    }
    free(wave);
    return acked;
}

int store_put(struct store_client *client, uint64_t run, uint32_t seq, enum record_kind kind,
              uint64_t previous, const void *payload, size_t bytes)
{
    struct store_record record;
    store_record_init(&record, client, 0, run, seq, kind, previous, 0);
    free(record.payload);
    record.payload = (char *)payload;
    record.bytes = bytes;
    store_record_send(&record);
    store_settle(client);
    return record.result;
}

struct seen {
    struct store_audit *audit;
    size_t bytes_max;
    uint32_t next_seq[RUNS_MAX];
    uint64_t digest[RUNS_MAX];
};

static int see(void *arg, const struct journal_record *record)
{
    struct seen *seen = arg;
    seen->audit->records++;
    if (record->run >= RUNS_MAX) {
        seen->audit->wrong++;
        return 0;
    }
    size_t bytes = size_of(record->run, record->seq, seen->bytes_max);
    char *payload = malloc(bytes + 1);
    if (payload == NULL)
        return -ENOMEM;
    fill(payload, bytes, record->run, record->seq);
    uint64_t digest = digest_chain(seen->digest[record->run], payload, bytes);
    bool is_right = record->seq == seen->next_seq[record->run] && record->bytes == bytes &&
                    memcmp(record->payload, payload, bytes) == 0 && record->digest == digest;
    free(payload);
    seen->audit->wrong += !is_right;
    seen->audit->runs += record->seq == 0;
    seen->audit->ends += record->kind == RECORD_END;
    seen->next_seq[record->run]++;
    seen->digest[record->run] = digest;
    return 0;
}

int store_audit(struct journal *journal, uint64_t campaign, size_t bytes_max,
                struct store_audit *audit, struct errmsg *why)
{
    struct seen *seen = calloc(1, sizeof(*seen));
    int result = 0;
    if (seen == NULL)
        abort();
    *audit = (struct store_audit){.records = 0};
    seen->audit = audit;
    seen->bytes_max = bytes_max;
    for (unsigned part = 0; part < journal_parts(journal) && result == 0; part++)
        result = journal_scan(journal, campaign, part, UINT32_MAX, see, seen, why);
    free(seen);
    return result;
}

void store_must_hold(struct journal *journal, uint64_t campaign, size_t bytes_max, uint64_t runs,
                     uint32_t records)
{
    struct store_audit audit;
    struct errmsg why = {.text = ""};
    if (store_audit(journal, campaign, bytes_max, &audit, &why) != 0)
        fail_msg("%s", why.text);
    assert_int_equal(audit.wrong, 0);
    assert_int_equal(audit.runs, runs);
    assert_int_equal(audit.ends, runs);
    assert_int_equal(audit.records, runs * records);
}
