/*
 * pg_schema: what a Postgres journal is in its database: schema `bench`, its tables, its campaigns,
 * and who may write to one.
 *
 * Two kinds of advisory locks, by the campaign's id, both shared and a session's: PG_LOCK_CLASS is
 * held by all data connections of who writes it, and by the control connection until the first of
 * them does (or for good, where a campaign is resumed: over a new connection it is taken again, as
 * soon as there is one); PG_LOCK_CLASS_AUDIT by who audits it. Each
 * takes its own and then looks that nobody has the other, so that of two that come at once one at
 * least sees the other; audits do not exclude each other. Who resumes a campaign must get the
 * writers' lock exclusively: nobody alive holds it then. Taking it over writes a new epoch, which
 * data connections compare after they have the lock: a process that lost all its connections cannot
 * come back to a campaign that another has taken over meanwhile.
 *
 * All functions need the control connection, between pg_control_begin() and pg_control_end().
 * Errors: 0 or -errno, with the reason. Nothing is changed in a schema that is not ours.
 */
#ifndef BENCH_JOURNAL_PG_SCHEMA_H
#define BENCH_JOURNAL_PG_SCHEMA_H

#include "journal/pg_store.h"

/* The columns of a campaign, for statements, and a row of them; the description is the result's. */
#define PG_CAMPAIGN_COLUMNS                                                                        \
    "id, created_unix_ms, key, durability, CASE WHEN octet_length(description) <= 65536 THEN "     \
    "description ELSE '{}' END"
int pg_campaign_read(const PGresult *result, int row, struct journal_campaign *campaign,
                     struct errmsg *why);

/* Finds or makes the schema, and begins, takes over or (for an audit) leaves alone a campaign.
 * Fills journal->campaign and, of the store, what belongs to it. */
int pg_schema_open(struct pg_store *store, const struct journal_config *config, struct errmsg *why);

/* Takes the lock of a resumed campaign for another control connection; -EBUSY once somebody else
 * has taken it over. */
int pg_schema_hold_campaign(struct pg_store *store, struct errmsg *why);

/* Takes back the campaign that was begun, unless somebody else has taken it over. */
int pg_schema_remove_campaign(struct pg_store *store, struct errmsg *why);

/* The tables of records, "bench.records_…": the n-th, and that of a campaign. */
enum { PG_TABLES = 4 };
const char *pg_schema_table_at(unsigned n);
bool pg_schema_is_unlogged(unsigned n);
const char *pg_schema_table(enum run_key_kind key, enum durability durability);

/* The rows of the campaigns, by their ids: in an audit those that were there when it first asked.
 * The caller clears *result. */
int pg_schema_list(struct pg_store *store, PGresult **result, struct errmsg *why);

/* In an audit, locks those that it lists against writers, for as long as the connection is kept. */
int pg_schema_lock_campaigns(struct pg_store *store, struct errmsg *why);

/* The keys and the table of any campaign, locked likewise. */
int pg_schema_find_campaign(struct pg_store *store, uint64_t id, struct campaign_key *key,
                            const char **table, struct errmsg *why);

/* The keys of all campaigns, also of those that an audit does not list. */
int pg_schema_find_campaigns(struct pg_store *store, struct campaign_keys *keys,
                             struct errmsg *why);

#endif
