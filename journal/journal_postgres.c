/*
 * The Postgres store: a few connections, each with one batch at a time on its way.
 *
 * What is where: pg_uri the address; pg_error what failures mean; pg_schema the schema `bench`, its
 * campaigns and their locks; pg_control the connection for all that; pg_connection a connection on
 * the event loop, pg_lane the batches on it, pg_batch what they look like; pg_read reading, pg_rows
 * the rows that come.
 *
 * The connections are divided over the writers; a run stays on one. Levels: `power` is
 * synchronous_commit=on with the server's fsync and full_page_writes, `process` the same without
 * waiting for the WAL, `none` a table that has none.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "journal/pg_lane.h"
#include "journal/pg_read.h"
#include "journal/pg_schema.h"

struct postgres_writer {
    PGresult *read; /* what journal_read() has shown last */
    unsigned lane_count;
    struct pg_lane lanes[];
};

void pg_store_stop(struct pg_store *store, const struct pg_failure *failure)
{
    journal_fail(store->journal, "%s", failure->why.text);
    atomic_store(&store->is_stopped, true);
}

/* --- figures --- */

static const char sum_wal[] = "SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint";
static const char sum_syncs[] = "SELECT wal_sync FROM pg_stat_wal";
static const char sum_syncs_since_18[] =
    "SELECT coalesce(sum(fsyncs), 0)::bigint FROM pg_stat_io WHERE object = 'wal'";
static const char sum_sizes[] = "SELECT sum(pg_total_relation_size(c.oid))::bigint FROM pg_class c "
                                "WHERE c.relnamespace = 'bench'::regnamespace AND c.relkind = 'r'";

/* What the server does not tell is not known: an old one, or one that does not let us ask. */
static uint64_t read_figure(struct pg_store *store, const char *sql)
{
    struct errmsg unused;
    int64_t number = 0;
    int error = pg_control_number(store, sql, &number, &unused);
    return error == 0 && number >= 0 ? (uint64_t)number : JOURNAL_NOT_KNOWN;
}

static uint64_t read_syncs(struct pg_store *store)
{
    bool is_moved = PQserverVersion(store->control) >= 180000;
    return read_figure(store, is_moved ? sum_syncs_since_18 : sum_syncs);
}

static void postgres_io(struct journal *journal, struct journal_io *io)
{
    struct pg_store *store = pg_store_of(journal);
    struct errmsg unused;

    pg_lanes_hand_in(store);
    io->is_servers = true;
    io->commits = atomic_load(&store->commits);
    io->commit_ns = atomic_load(&store->commit_ns);
    if (pg_control_begin(store, &unused) != 0)
        return;
    io->wal_bytes = read_figure(store, sum_wal);
    io->syncs = read_syncs(store);
    io->store_bytes = read_figure(store, sum_sizes);
    io->db_bytes = io->store_bytes; /* the growth is left to the server's checkpoints */
    pg_control_end(store);
}

/* --- settings --- */

/* Without an error for one that the server does not have. What is a session's own is told by a data
 * connection: this one is another. */
static const char settings_sql[] =
    "SELECT current_setting('server_version', true), current_setting('fsync', true), "
    "current_setting('full_page_writes', true), current_setting('wal_compression', true), "
    "current_setting('wal_sync_method', true), current_setting('wal_level', true), "
    "current_setting('shared_buffers', true), current_setting('max_wal_size', true)";
static const char *const settings_keys[] = {
    "server_version",  "fsync",     "full_page_writes", "wal_compression",
    "wal_sync_method", "wal_level", "shared_buffers",   "max_wal_size",
};
enum { SETTINGS_COUNT = sizeof(settings_keys) / sizeof(settings_keys[0]) };

static void add_libpq(struct journal_settings *settings)
{
    int version = PQlibVersion(); /* such as 150018 for 15.18 */
    char text[32];
    (void)snprintf(text, sizeof(text), "%d.%d", version / 10000, version % 10000);
    journal_settings_add(settings, "libpq_version", text);
}

static void postgres_describe(struct journal *journal, struct journal_settings *settings)
{
    struct pg_store *store = pg_store_of(journal);
    struct pg_failure failure;
    struct errmsg unused;
    char commit[sizeof(store->synchronous_commit)];

    add_libpq(settings);
    (void)pthread_mutex_lock(&store->lanes_lock); /* a plain mutex, never held twice */
    memcpy(commit, store->synchronous_commit, sizeof(commit));
    (void)pthread_mutex_unlock(&store->lanes_lock);
    journal_settings_add(settings, "synchronous_commit", commit[0] != '\0' ? commit : NULL);
    if (pg_control_begin(store, &unused) != 0)
        return;
    PGresult *result = pg_control_ask(store, settings_sql, &failure);
    for (int i = 0; result != NULL && pg_result_is(result, 1, SETTINGS_COUNT) && i < SETTINGS_COUNT;
         i++)
        journal_settings_add(settings, settings_keys[i],
                             PQgetisnull(result, 0, i) ? NULL : PQgetvalue(result, 0, i));
    PQclear(result);
    pg_control_end(store);
}

/* --- life --- */

static void destroy(struct pg_store *store)
{
    PQfinish(store->control);
    (void)pthread_mutex_destroy(&store->control_lock); /* nobody holds them */
    (void)pthread_mutex_destroy(&store->lanes_lock);
    pg_uri_free(&store->uri);
    free(store);
}

static int open_control(struct pg_store *store, const struct journal_config *config,
                        struct errmsg *why)
{
    int error = pg_control_begin(store, why);
    if (error != 0)
        return error;
    error = pg_schema_open(store, config, why);
    pg_control_end(store);
    return error;
}

static int postgres_open(struct journal *journal, const struct journal_config *config,
                         struct errmsg *why)
{
    struct pg_store *store = calloc(1, sizeof(*store));
    if (store == NULL)
        return errmsg_set(why, -ENOMEM, "no memory for the journal");
    uint64_t silence_ns = pg_connection_limit_ns(config->retry_for_ns);
    int error = pg_uri_parse(&store->uri, config->uri, silence_ns, why);
    if (error != 0) {
        free(store);
        return error;
    }
    (void)pthread_mutex_init(&store->control_lock, NULL); /* cannot fail with default attributes */
    (void)pthread_mutex_init(&store->lanes_lock, NULL);
    list_init(&store->lanes);
    store->journal = journal;
    store->newest = PG_ALL_CAMPAIGNS;
    /* Until data connections hold the campaign, this one does. */
    atomic_init(&store->keeps_control, true);
    if (journal->connections > JOURNAL_CONNECTIONS_MAX)
        error = errmsg_set(why, -EINVAL, "a journal has at most %d connections, not %u",
                           JOURNAL_CONNECTIONS_MAX, journal->connections);
    journal->impl = store;
    if (error == 0)
        error = open_control(store, config, why);
    if (error != 0)
        destroy(store);
    return error;
}

static void postgres_close(struct journal *journal)
{
    free((char *)journal->campaign.description); /* from strdup() */
    destroy(pg_store_of(journal));
}

static void postgres_discard(struct journal *journal)
{
    struct pg_store *store = pg_store_of(journal);
    struct errmsg unused;
    if (pg_control_begin(store, &unused) == 0) {
        (void)pg_schema_remove_campaign(store, &unused);
        pg_control_end(store);
    }
    postgres_close(journal);
}

static void close_writer(struct postgres_writer *opened)
{
    for (unsigned i = 0; i < opened->lane_count; i++)
        pg_lane_close(&opened->lanes[i]);
    PQclear(opened->read);
    free(opened);
}

/* This writer's share of the connections. */
static unsigned share_of(const struct journal_writer *writer)
{
    unsigned writers = writer->journal->writers;
    unsigned connections = writer->journal->connections;
    return connections * (writer->index + 1) / writers - connections * writer->index / writers;
}

static int postgres_writer_open(struct journal_writer *writer, struct errmsg *why)
{
    struct pg_store *store = pg_store_of(writer->journal);
    unsigned lanes = share_of(writer);
    assert(lanes > 0); /* has_connections: no more writers than connections */
    struct postgres_writer *opened = calloc(1, sizeof(*opened) + lanes * sizeof(opened->lanes[0]));
    if (opened == NULL)
        return errmsg_set(why, -ENOMEM, "no memory for a writer's connections");
    opened->lane_count = lanes;
    int error = 0;
    for (unsigned i = 0; i < lanes; i++)
        pg_lane_init(&opened->lanes[i], writer);
    for (unsigned i = 0; i < lanes && error == 0; i++)
        error = pg_connection_start_now(&opened->lanes[i].connection, why);
    if (error != 0) {
        close_writer(opened);
        return error;
    }
    writer->lanes = lanes;
    writer->impl = opened;
    /* A resumed campaign is read as it goes on. */
    if (writer->journal->mode == JOURNAL_NEW && atomic_exchange(&store->keeps_control, false)) {
        struct errmsg unused;
        if (pg_control_begin(store, &unused) == 0)
            pg_control_end(store);
    }
    return 0;
}

static void postgres_writer_close(struct journal_writer *writer)
{
    close_writer(writer->impl);
}

static void postgres_commit(struct journal_writer *writer, struct journal_batch *batch)
{
    struct postgres_writer *opened = writer->impl;
    pg_lane_commit(&opened->lanes[batch->lane], batch);
}

static int postgres_read(struct journal_writer *writer, uint64_t run, uint32_t seq,
                         struct journal_record *record)
{
    struct postgres_writer *opened = writer->impl;
    PQclear(opened->read);
    opened->read = NULL;
    return pg_read_one(writer->journal, run, seq, record, &opened->read);
}

const struct journal_ops journal_postgres_ops = {
    .name = "postgres",
    .levels = {DURABILITY_POWER, DURABILITY_PROCESS, DURABILITY_NONE},
    .has_connections = true,
    .has_keys = true,
    .open = postgres_open,
    .close = postgres_close,
    .discard = postgres_discard,
    .writer_open = postgres_writer_open,
    .writer_close = postgres_writer_close,
    .commit = postgres_commit,
    .read = postgres_read,
    .io = postgres_io,
    .describe = postgres_describe,
    .list = pg_read_list,
    .scan = pg_read_scan,
    .read_runs = pg_read_runs,
    .count = pg_read_count,
};
