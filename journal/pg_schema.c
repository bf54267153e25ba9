/* pg_schema: see pg_schema.h. */
#include "journal/pg_schema.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "engine/base/clock.h"

/* A process that was killed is gone before its server's sessions have noticed. */
#define LOCK_PATIENCE_NS (2 * NS_PER_S)
#define LOCK_PAUSE_NS (50 * NS_PER_MS)

#define RECORDS                                                                                    \
    " (run %s NOT NULL, digest bigint NOT NULL, seq integer NOT NULL, kind smallint NOT NULL, "    \
    "payload bytea NOT NULL, PRIMARY KEY (run, seq)); "

/* Which columns a table of records has, is its key's kind; whether it is logged, its durability. */
static const struct table {
    const char *name;
    const char *definition;
} tables[2][2] = {
    {{"bench.records_seq", "CREATE TABLE bench.records_seq"},
     {"bench.records_seq_unlogged", "CREATE UNLOGGED TABLE bench.records_seq_unlogged"}},
    {{"bench.records_uuid", "CREATE TABLE bench.records_uuid"},
     {"bench.records_uuid_unlogged", "CREATE UNLOGGED TABLE bench.records_uuid_unlogged"}},
};

const char *pg_schema_table_at(unsigned n)
{
    return tables[n / 2][n % 2].name;
}

bool pg_schema_is_unlogged(unsigned n)
{
    return n % 2 == 1;
}

const char *pg_schema_table(enum run_key_kind key, enum durability durability)
{
    return tables[key != RUN_KEY_SEQ][durability == DURABILITY_NONE].name;
}

/* --- the schema --- */

static const char create_schema[] =
    "CREATE SCHEMA bench; "
    "CREATE TABLE bench.meta (format text NOT NULL, version integer NOT NULL); "
    "INSERT INTO bench.meta VALUES ('bench.journal', 1); "
    "CREATE TABLE bench.campaigns (id integer PRIMARY KEY, created_unix_ms bigint NOT NULL, "
    "key smallint NOT NULL, durability smallint NOT NULL, epoch bigint NOT NULL, "
    "description text NOT NULL)";
static_assert(PG_SCHEMA_VERSION == 1, "also written into bench.meta above");

/* For people with psql. The number of a run that goes by a UUID is bench's to know. */
#define SELECT_RECORDS(campaign, run, id)                                                          \
    "SELECT " campaign " AS campaign, " run " AS run, " id " AS id, seq, CASE kind "               \
    "WHEN 1 THEN 'begin' WHEN 2 THEN 'model' WHEN 3 THEN 'attempt' WHEN 4 THEN 'tool' "            \
    "WHEN 5 THEN 'end' WHEN 6 THEN 'retry' WHEN 7 THEN 'delta' ELSE kind::text END AS kind, "      \
    "bench.text_of(payload) AS payload, digest FROM "
#define SELECT_SEQ SELECT_RECORDS("run >> 40", "run & 1099511627775", "NULL::uuid")
#define SELECT_UUID SELECT_RECORDS("NULL::bigint", "NULL::bigint", "run")
static_assert(RUN_KEY_NUMBER_BITS == 40, "as the view takes keys apart");

/* A payload may be any bytes; what is no text is escaped, and spoils no row but its own. */
static const char create_view[] =
    "CREATE FUNCTION bench.text_of(bytea) RETURNS text LANGUAGE plpgsql IMMUTABLE STRICT AS "
    "$$BEGIN RETURN convert_from($1, 'UTF8'); "
    "EXCEPTION WHEN data_exception THEN RETURN encode($1, 'escape'); END$$; "
    "CREATE VIEW bench.journal AS " SELECT_SEQ "bench.records_seq UNION ALL " SELECT_SEQ
    "bench.records_seq_unlogged UNION ALL " SELECT_UUID "bench.records_uuid UNION ALL " SELECT_UUID
    "bench.records_uuid_unlogged";

static int create_tables(struct pg_store *store, struct errmsg *why)
{
    char sql[PG_STATEMENT_BYTES];
    int error = pg_control_do(store, create_schema, why);
    for (unsigned i = 0; i < PG_TABLES && error == 0; i++) {
        const struct table *table = &tables[i / 2][i % 2];
        (void)snprintf(sql, sizeof(sql),
                       "%s" RECORDS "ALTER TABLE %s ALTER payload "
                       "SET STORAGE EXTERNAL",
                       table->definition, i / 2 == 0 ? "bigint" : "uuid", table->name);
        error = pg_control_do(store, sql, why);
    }
    return error != 0 ? error : pg_control_do(store, create_view, why);
}

enum schema { SCHEMA_NONE, SCHEMA_FOREIGN, SCHEMA_OURS };

static int look_for_schema(struct pg_store *store, enum schema *schema, struct errmsg *why)
{
    static const char find[] =
        "SELECT CASE WHEN NOT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = 'bench') "
        "THEN 0 WHEN (SELECT count(*) FROM pg_catalog.pg_attribute WHERE attrelid = "
        "to_regclass('bench.meta') AND (attname, atttypid) IN (('format', 'text'::regtype), "
        "('version', 'int4'::regtype))) < 2 THEN 1 ELSE 2 END";
    static const char read_version[] =
        "SELECT coalesce(max(version), -1) FROM bench.meta WHERE format = 'bench.journal'";
    int64_t number = 0;
    int error = pg_control_number(store, find, &number, why);
    if (error != 0)
        return error;
    *schema = (enum schema)number;
    if (*schema != SCHEMA_OURS)
        return 0;
    error = pg_control_number(store, read_version, &number, why);
    if (error != 0)
        return error;
    if (number == -1)
        *schema = SCHEMA_FOREIGN;
    else if (number != PG_SCHEMA_VERSION)
        return errmsg_set(why, -EINVAL, "schema bench has version %" PRId64 ", this bench knows %d",
                          number, PG_SCHEMA_VERSION);
    return 0;
}

/* Two that are the first make one schema: the lock is a transaction's. */
static int make_schema(struct pg_store *store, enum schema *schema, struct errmsg *why)
{
    char sql[PG_STATEMENT_BYTES];
    (void)snprintf(sql, sizeof(sql), "BEGIN; SELECT pg_advisory_xact_lock(%d, 0)", PG_LOCK_CLASS);
    int error = pg_control_do(store, sql, why);
    if (error == 0)
        error = look_for_schema(store, schema, why);
    if (error == 0 && *schema == SCHEMA_NONE) {
        error = create_tables(store, why);
        *schema = SCHEMA_OURS;
    }
    return error != 0 ? error : pg_control_do(store, "COMMIT", why);
}

/* What the promises rest upon: the key, and whether the server logs what comes. */
static int check_table(struct pg_store *store, const struct table *table, const char *key_type,
                       char persistence, struct errmsg *why)
{
    char sql[PG_STATEMENT_BYTES];
    int64_t number = 0;
    (void)snprintf(
        sql, sizeof(sql),
        "SELECT count(*) FROM pg_catalog.pg_class AS c WHERE c.oid = to_regclass('%s') AND "
        "relkind = 'r' AND relpersistence = '%c' AND (SELECT count(*) FROM "
        "pg_catalog.pg_attribute WHERE attrelid = c.oid AND NOT attisdropped AND "
        "(attname, atttypid) IN (('run', '%s'::regtype), ('digest', 'int8'::regtype), "
        "('seq', 'int4'::regtype), ('kind', 'int2'::regtype), ('payload', 'bytea'::regtype))) = 5 "
        "AND EXISTS (SELECT FROM pg_catalog.pg_constraint AS k WHERE conrelid = c.oid AND "
        "pg_get_constraintdef(k.oid) = 'PRIMARY KEY (run, seq)')",
        table->name, persistence, key_type);
    int error = pg_control_number(store, sql, &number, why);
    if (error == 0 && number != 1)
        error = errmsg_set(why, -EINVAL, "table %s is not as bench makes it", table->name);
    return error;
}

/* What is read and written of the campaigns. */
static int check_campaigns(struct pg_store *store, struct errmsg *why)
{
    static const char count_columns[] =
        "SELECT count(*) FROM pg_catalog.pg_attribute WHERE attrelid = "
        "to_regclass('bench.campaigns') AND NOT attisdropped AND (attname, atttypid) IN "
        "(('id', 'int4'::regtype), ('created_unix_ms', 'int8'::regtype), ('key', 'int2'::regtype), "
        "('durability', 'int2'::regtype), ('epoch', 'int8'::regtype), "
        "('description', 'text'::regtype))";
    int64_t number = 0;
    int error = pg_control_number(store, count_columns, &number, why);
    if (error == 0 && number != 6)
        error = errmsg_set(why, -EINVAL, "table bench.campaigns is not as bench makes it");
    return error;
}

static int check_tables(struct pg_store *store, struct errmsg *why)
{
    int error = check_campaigns(store, why);
    for (unsigned i = 0; i < PG_TABLES && error == 0; i++)
        error = check_table(store, &tables[i / 2][i % 2], i / 2 == 0 ? "int8" : "uuid",
                            pg_schema_is_unlogged(i) ? 'u' : 'p', why);
    return error;
}

static int find_schema(struct pg_store *store, struct errmsg *why)
{
    enum schema schema = SCHEMA_NONE;
    int error = look_for_schema(store, &schema, why);
    if (error == 0 && schema == SCHEMA_NONE && store->journal->mode == JOURNAL_NEW)
        error = make_schema(store, &schema, why);
    if (error != 0)
        return error;
    if (schema == SCHEMA_NONE)
        return errmsg_set(why, -ENOENT, "the database has no journal of bench");
    if (schema == SCHEMA_FOREIGN)
        return errmsg_set(why, -EINVAL,
                          "the database has a schema bench that is not this bench's; "
                          "it was left untouched");
    return check_tables(store, why);
}

/* --- campaigns --- */

int pg_campaign_read(const PGresult *result, int row, struct journal_campaign *campaign,
                     struct errmsg *why)
{
    enum { ID, CREATED, KEY, DURABILITY, DESCRIPTION };
    int64_t id = strtoll(PQgetvalue(result, row, ID), NULL, 10);
    long key = strtol(PQgetvalue(result, row, KEY), NULL, 10);
    long durability = strtol(PQgetvalue(result, row, DURABILITY), NULL, 10);

    if (id < 1 || id > (int64_t)RUN_KEY_CAMPAIGN_MAX || key < 0 || key >= RUN_KEY_COUNT ||
        durability < DURABILITY_NONE || durability > DURABILITY_POWER)
        return errmsg_set(why, -EPROTO, "the row of campaign %" PRId64 " is damaged", id);
    *campaign = (struct journal_campaign){
        .id = (uint64_t)id,
        .created_unix_ms = strtoull(PQgetvalue(result, row, CREATED), NULL, 10),
        .key = (enum run_key_kind)key,
        .durability = (enum durability)durability,
        .description = PQgetvalue(result, row, DESCRIPTION),
    };
    return 0;
}

/* Campaign `id`, or the newest for 0. The caller clears *result. */
static int find_campaign(struct pg_store *store, uint64_t id, struct journal_campaign *campaign,
                         PGresult **result, struct errmsg *why)
{
    char sql[PG_STATEMENT_BYTES];
    struct pg_failure failure;

    (void)snprintf(sql, sizeof(sql),
                   "SELECT " PG_CAMPAIGN_COLUMNS " FROM bench.campaigns WHERE id = %" PRIu64
                   " OR %" PRIu64 " = 0 ORDER BY id DESC LIMIT 1",
                   id, id);
    *result = NULL;
    if (id > RUN_KEY_CAMPAIGN_MAX)
        return errmsg_set(why, -ENOENT, "there is no campaign %" PRIu64, id);
    *result = pg_control_ask(store, sql, &failure);
    if (*result == NULL)
        return pg_failure_say(&failure, why);
    if (PQntuples(*result) > 0)
        return pg_campaign_read(*result, 0, campaign, why);
    if (id == 0)
        return errmsg_set(why, -ENOENT, "there is no campaign yet");
    return errmsg_set(why, -ENOENT, "there is no campaign %" PRIu64, id);
}

static int keep_campaign(struct pg_store *store, const struct journal_campaign *campaign,
                         struct errmsg *why)
{
    struct journal *journal = store->journal;
    journal->campaign = *campaign;
    journal->campaign.description = strdup(campaign->description);
    if (journal->campaign.description == NULL)
        return errmsg_set(why, -ENOMEM, "no memory for the campaign's description");
    store->keys = campaign_key_of(campaign);
    store->table = pg_schema_table(campaign->key, campaign->durability);
    return 0;
}

static int check_server(struct pg_store *store, struct errmsg *why)
{
    static const char sql[] =
        "SELECT current_setting('fsync'), current_setting('full_page_writes'), "
        "current_setting('transaction_read_only')";
    struct pg_failure failure;
    PGresult *result = pg_control_ask(store, sql, &failure);
    if (result == NULL)
        return pg_failure_say(&failure, why);
    int error = pg_result_is(result, 1, 3)
                    ? pg_store_check_level(store->journal->durability, PQgetvalue(result, 0, 0),
                                           PQgetvalue(result, 0, 1), PQgetvalue(result, 0, 2), why)
                    : errmsg_set(why, -EPROTO, "the server's answer makes no sense");
    PQclear(result);
    return error;
}

/* The lock outlives the transaction, the ids are dense. */
static int begin_campaign(struct pg_store *store, const struct journal_config *config,
                          struct errmsg *why)
{
    char sql[PG_STATEMENT_BYTES];
    int64_t id = 0;
    struct journal_campaign campaign = journal_new_campaign(store->journal, config);
    char *quoted =
        PQescapeLiteral(store->control, campaign.description, strlen(campaign.description));
    size_t bytes = sizeof(sql) + (quoted == NULL ? 0 : strlen(quoted));
    char *insert = quoted == NULL ? NULL : malloc(bytes);
    if (insert != NULL)
        (void)snprintf(insert, bytes,
                       "INSERT INTO bench.campaigns SELECT coalesce(max(id), 0) + 1, %" PRIu64
                       ", %d, %d, %" PRId64 ", %s FROM bench.campaigns RETURNING id",
                       campaign.created_unix_ms, campaign.key, campaign.durability, store->epoch,
                       quoted);
    int error = 0;
    if (quoted == NULL) /* such as a path that is not UTF-8 */
        error = errmsg_set(why, -EINVAL, "the campaign cannot be described to the server: %s",
                           PQerrorMessage(store->control));
    else if (insert == NULL)
        error = errmsg_set(why, -ENOMEM, "no memory for the campaign");
    if (error == 0)
        error = pg_control_do(store, "BEGIN; LOCK TABLE bench.campaigns IN EXCLUSIVE MODE", why);
    if (error == 0)
        error = pg_control_number(store, insert, &id, why);
    if (error == 0 && id > (int64_t)RUN_KEY_CAMPAIGN_MAX)
        error = errmsg_set(why, -ENOSPC, "the journal has no room for another campaign");
    (void)snprintf(sql, sizeof(sql), "SELECT pg_advisory_lock_shared(%d, %" PRId64 "); COMMIT",
                   PG_LOCK_CLASS, id);
    if (error == 0)
        error = pg_control_do(store, sql, why);
    campaign.id = (uint64_t)id;
    free(insert);
    PQfreemem(quoted);
    return error != 0 ? error : keep_campaign(store, &campaign, why);
}

int pg_schema_remove_campaign(struct pg_store *store, struct errmsg *why)
{
    char sql[PG_STATEMENT_BYTES];
    (void)snprintf(sql, sizeof(sql),
                   "DELETE FROM bench.campaigns WHERE id = %" PRIu64 " AND epoch = %" PRId64,
                   store->journal->campaign.id, store->epoch);
    return pg_control_do(store, sql, why);
}

/* Asks for locks until the answer is 0; else it is the id of a campaign that somebody holds, and
 * `undo` is done before asking again. */
static int lock_patiently(struct pg_store *store, const char *sql, const char *undo,
                          struct errmsg *why)
{
    const struct timespec pause = {.tv_nsec = (long)LOCK_PAUSE_NS};
    uint64_t deadline_ns = clock_monotonic_ns() + LOCK_PATIENCE_NS;
    for (;;) {
        int64_t held = 0;
        int error = pg_control_number(store, sql, &held, why);
        if (error != 0 || held == 0)
            return error;
        error = pg_control_do(store, undo, why);
        if (error != 0)
            return error;
        if (clock_monotonic_ns() >= deadline_ns)
            return errmsg_set(why, -EBUSY, "campaign %" PRId64 " is in use by another process",
                              held);
        (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL); /* a shorter pause will do */
    }
}

/* Of sessions that hold locks of a class in this database. */
#define HOLDERS                                                                                    \
    "FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2 AND classid = %d AND database = "  \
    "(SELECT oid FROM pg_database WHERE datname = current_database())"

/* For the transaction that it begins. */
static int lock_to_take_over(struct pg_store *store, uint64_t id, struct errmsg *why)
{
    char sql[PG_STATEMENT_BYTES];
    (void)snprintf(sql, sizeof(sql),
                   "BEGIN; SELECT CASE WHEN NOT pg_try_advisory_xact_lock(%d, %" PRIu64
                   ") OR EXISTS (SELECT " HOLDERS " AND objid = %" PRIu64 ") THEN %" PRIu64
                   " ELSE 0 END",
                   PG_LOCK_CLASS, id, PG_LOCK_CLASS_AUDIT, id, id);
    return lock_patiently(store, sql, "ROLLBACK", why);
}

/* One campaign or all that are listed, for as long as the session lives. While there is a writer
 * nothing is locked, which would keep that one's next connection out. */
static int lock_to_audit(struct pg_store *store, uint64_t id, struct errmsg *why)
{
    char sql[PG_STATEMENT_BYTES];
    uint64_t first = id == PG_ALL_CAMPAIGNS ? 1 : id;
    uint64_t last = id == PG_ALL_CAMPAIGNS ? store->newest : id;
    (void)snprintf(sql, sizeof(sql),
                   "SELECT pg_advisory_lock_shared(%d, id) FROM bench.campaigns WHERE id BETWEEN "
                   "%" PRIu64 " AND %" PRIu64 " AND NOT EXISTS (SELECT " HOLDERS
                   " AND objid::bigint BETWEEN %" PRIu64 " AND %" PRIu64 "); "
                   "SELECT coalesce(min(objid::bigint), 0) " HOLDERS
                   " AND objid::bigint BETWEEN %" PRIu64 " AND %" PRIu64,
                   PG_LOCK_CLASS_AUDIT, first, last, PG_LOCK_CLASS, first, last, PG_LOCK_CLASS,
                   first, last);
    return lock_patiently(store, sql, "SELECT pg_advisory_unlock_all()", why);
}

static int take_over(struct pg_store *store, const struct journal_config *config,
                     const struct journal_campaign *campaign, struct errmsg *why)
{
    char sql[PG_STATEMENT_BYTES];
    int error = journal_resume_level(store->journal, config, campaign, why);
    if (error == 0)
        error = check_server(store, why);
    if (error == 0)
        error = lock_to_take_over(store, campaign->id, why);
    if (error != 0)
        return error;
    (void)snprintf(sql, sizeof(sql),
                   "UPDATE bench.campaigns SET epoch = %" PRId64 " WHERE id = %" PRIu64
                   "; SELECT pg_advisory_lock_shared(%d, %" PRIu64 "); COMMIT",
                   store->epoch, campaign->id, PG_LOCK_CLASS, campaign->id);
    error = pg_control_do(store, sql, why);
    store->holds_campaign = error == 0;
    return error != 0 ? error : keep_campaign(store, campaign, why);
}

int pg_schema_hold_campaign(struct pg_store *store, struct errmsg *why)
{
    char sql[PG_STATEMENT_BYTES];
    int64_t count = 0;
    (void)snprintf(sql, sizeof(sql),
                   "SELECT pg_advisory_lock_shared(%d, %" PRIu64 "); SELECT count(*) FROM "
                   "bench.campaigns WHERE id = %" PRIu64 " AND epoch = %" PRId64,
                   PG_LOCK_CLASS, store->keys.campaign, store->keys.campaign, store->epoch);
    int error = pg_control_number(store, sql, &count, why);
    if (error == 0 && count != 1)
        error = errmsg_set(why, -EBUSY, "campaign %" PRIu64 " was taken over by another process",
                           store->keys.campaign);
    store->holds_campaign = error == 0;
    return error;
}

static int resume_campaign(struct pg_store *store, const struct journal_config *config,
                           struct errmsg *why)
{
    struct journal_campaign campaign = {.description = "{}"};
    PGresult *result = NULL;
    int error = find_campaign(store, config->campaign, &campaign, &result, why);
    if (error == 0)
        error = take_over(store, config, &campaign, why);
    PQclear(result);
    return error;
}

/* Locks a campaign, or all of them, against writers for as long as the connection is kept. */
static int lock_audited(struct pg_store *store, uint64_t id, struct errmsg *why)
{
    if (store->journal->mode != JOURNAL_AUDIT || store->audited == id ||
        store->audited == PG_ALL_CAMPAIGNS)
        return 0;
    int error = pg_control_do(store, "SELECT pg_advisory_unlock_all()", why);
    store->audited = 0;
    if (error == 0)
        error = lock_to_audit(store, id, why);
    if (error == 0)
        store->audited = id;
    return error;
}

int pg_schema_find_campaign(struct pg_store *store, uint64_t id, struct campaign_key *key,
                            const char **table, struct errmsg *why)
{
    struct journal_campaign campaign = {.description = "{}"};
    PGresult *result = NULL;
    int error = find_campaign(store, id, &campaign, &result, why);
    if (error == 0) {
        *key = campaign_key_of(&campaign);
        *table = pg_schema_table(campaign.key, campaign.durability);
        error = lock_audited(store, id, why);
    }
    PQclear(result);
    return error;
}

/* Those up to an id. */
static int list_up_to(struct pg_store *store, uint64_t id, PGresult **result, struct errmsg *why)
{
    char sql[PG_STATEMENT_BYTES];
    struct pg_failure failure;
    (void)snprintf(sql, sizeof(sql),
                   "SELECT " PG_CAMPAIGN_COLUMNS " FROM bench.campaigns WHERE id <= %" PRIu64
                   " ORDER BY id",
                   id);
    *result = pg_control_ask(store, sql, &failure);
    return *result == NULL ? pg_failure_say(&failure, why) : 0;
}

/* What an audit reads first decides what it is about. */
static int choose_audited(struct pg_store *store, struct errmsg *why)
{
    int64_t newest = 0;
    if (store->journal->mode != JOURNAL_AUDIT || store->newest != PG_ALL_CAMPAIGNS)
        return 0;
    int error =
        pg_control_number(store, "SELECT coalesce(max(id), 0) FROM bench.campaigns", &newest, why);
    if (error == 0)
        store->newest = (uint64_t)newest;
    return error;
}

int pg_schema_list(struct pg_store *store, PGresult **result, struct errmsg *why)
{
    int error = choose_audited(store, why);
    return error != 0 ? error : list_up_to(store, store->newest, result, why);
}

int pg_schema_lock_campaigns(struct pg_store *store, struct errmsg *why)
{
    int error = choose_audited(store, why);
    return error != 0 ? error : lock_audited(store, PG_ALL_CAMPAIGNS, why);
}

int pg_schema_find_campaigns(struct pg_store *store, struct campaign_keys *keys, struct errmsg *why)
{
    PGresult *result = NULL;
    int error = list_up_to(store, PG_ALL_CAMPAIGNS, &result, why);
    for (int i = 0; error == 0 && i < PQntuples(result); i++) {
        struct journal_campaign campaign;
        error = pg_campaign_read(result, i, &campaign, why);
        if (error != 0)
            break;
        error = campaign_keys_add(keys, &campaign);
        if (error != 0)
            (void)campaign_keys_say(error, why);
    }
    PQclear(result);
    return error;
}

/* --- opening --- */

static void compose_statements(struct pg_store *store)
{
    const char *table = store->table;
    bool is_power = store->journal->durability == DURABILITY_POWER;
    /* A plan that was made for a table that was still empty must not be one for empty tables. */
    (void)snprintf(
        store->session, sizeof(store->session),
        "START TRANSACTION ISOLATION LEVEL READ COMMITTED; "
        "SELECT set_config('synchronous_commit', '%s', false), "
        "set_config('default_transaction_isolation', 'read committed', false), "
        "set_config('statement_timeout', '0', false), set_config('lock_timeout', '0', false), "
        "set_config('enable_seqscan', 'off', false), set_config('enable_hashjoin', 'off', false), "
        "set_config('enable_mergejoin', 'off', false), set_config('row_security', 'off', false), "
        "set_config('plan_cache_mode', 'force_generic_plan', false), "
        /* Since 14: who waits for a lock notices that its client has died, and lets go of ours. */
        "(SELECT set_config(name, '1s', false) FROM pg_settings WHERE name = "
        "'client_connection_check_interval'); "
        "SELECT CASE WHEN pg_try_advisory_lock_shared(%d, %" PRIu64
        ") THEN NOT EXISTS (SELECT " HOLDERS " AND objid = %" PRIu64 ") ELSE false END; "
        "SELECT epoch, current_setting('fsync'), current_setting('full_page_writes'), "
        "current_setting('transaction_read_only') FROM bench.campaigns WHERE id = %" PRIu64 "; "
        "PREPARE " PG_INSERT_NAME " (%s[], bigint[], integer[], smallint[], bytea, integer[], "
        "integer[]) AS INSERT INTO %s (run, digest, seq, kind, payload) SELECT unnest($1), "
        "unnest($2), unnest($3), unnest($4), substring($5, unnest($6), unnest($7)); "
        "COMMIT",
        is_power ? "on" : "off", PG_LOCK_CLASS, store->keys.campaign, PG_LOCK_CLASS_AUDIT,
        store->keys.campaign, store->keys.campaign,
        store->keys.kind == RUN_KEY_SEQ ? "bigint" : "uuid", table);
    (void)snprintf(store->question, sizeof(store->question),
                   "SELECT a.place, a.seq = 0 OR EXISTS (SELECT FROM %s p WHERE p.run = a.run AND "
                   "p.seq = a.seq - 1), r.kind, CASE WHEN octet_length(r.payload) = a.bytes AND "
                   "r.digest = a.digest THEN r.payload END FROM unnest($1, $2, $3, $4) WITH "
                   "ORDINALITY AS a(run, seq, bytes, digest, place) LEFT JOIN %s r "
                   "ON r.run = a.run AND r.seq = a.seq",
                   table, table);
}

int pg_schema_open(struct pg_store *store, const struct journal_config *config, struct errmsg *why)
{
    if (getrandom(&store->epoch, sizeof(store->epoch), 0) != sizeof(store->epoch))
        return errmsg_set(why, -EIO, "the kernel gives no random number");
    int error = config->mode == JOURNAL_NEW ? check_server(store, why) : 0;
    if (error == 0)
        error = find_schema(store, why);
    if (error != 0 || config->mode == JOURNAL_AUDIT)
        return error;
    error = config->mode == JOURNAL_NEW ? begin_campaign(store, config, why)
                                        : resume_campaign(store, config, why);
    if (error == 0)
        compose_statements(store);
    return error;
}
