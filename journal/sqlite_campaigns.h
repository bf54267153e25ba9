/*
 * sqlite_campaigns: the table of campaigns in shard 0.
 *
 * Ownership: a campaign's description is freed with sqlite_campaign_free(). Threading: as the
 * connection. Errors: 0 or -errno with text.
 */
#ifndef BENCH_JOURNAL_SQLITE_CAMPAIGNS_H
#define BENCH_JOURNAL_SQLITE_CAMPAIGNS_H

#include "journal/campaign_keys.h"
#include "journal/sqlite_db.h"

/* Records a campaign under the next id, which is filled in. */
int sqlite_campaigns_add(struct sqlite_db *db, struct journal_campaign *campaign,
                         struct errmsg *why);

/* Takes back one that has no records. */
int sqlite_campaigns_remove(struct sqlite_db *db, uint64_t id, struct errmsg *why);

/* -ENOENT without a campaign of that id. */
int sqlite_campaigns_find(struct sqlite_db *db, uint64_t id, struct journal_campaign *campaign,
                          struct errmsg *why);
void sqlite_campaign_free(struct journal_campaign *campaign);

/* Reads how the runs of all campaigns are keyed. What the list held is forgotten. */
int sqlite_campaigns_load(struct sqlite_db *db, struct campaign_keys *keys, struct errmsg *why);

/* As journal_list(). */
int sqlite_campaigns_list(struct sqlite_db *db,
                          int (*visit)(void *arg, const struct journal_campaign *campaign),
                          void *arg, struct errmsg *why);

#endif
