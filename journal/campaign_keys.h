/*
 * campaign_keys: how the runs of each campaign of a store are keyed, for who reads its records: the
 * campaign and the number of a run from its key alone.
 *
 * Ownership: the list is the caller's, who frees what it holds; zeroed is empty. What is found in
 * it lives until something is added. Threading: plain data, read by any number of threads while
 * nothing is added. Errors: -errno, NULL or false. Units: ms since 1970.
 */
#ifndef BENCH_JOURNAL_CAMPAIGN_KEYS_H
#define BENCH_JOURNAL_CAMPAIGN_KEYS_H

#include "journal/journal.h"

/* How a campaign's runs are keyed. */
struct campaign_key {
    uint64_t campaign;
    uint64_t start_ms;
    enum run_key_kind kind;
};

/* Those of a store, by campaign. */
struct campaign_keys {
    struct campaign_key *all;
    size_t count;
    size_t capacity;
};

static inline struct campaign_key campaign_key_of(const struct journal_campaign *campaign)
{
    return (struct campaign_key){campaign->id, campaign->created_unix_ms, campaign->key};
}

/* Adds a campaign: a visit for journal_list(), with the list as its argument. 0, -ENOMEM, or
 * -EBADMSG when its id is not above all that are there. */
int campaign_keys_add(void *keys, const struct journal_campaign *campaign);
/* The reason, for people. */
int campaign_keys_say(int error, struct errmsg *why);
void campaign_keys_free(struct campaign_keys *keys);

/* NULL without a campaign of that id. */
const struct campaign_key *campaign_keys_find(const struct campaign_keys *keys, uint64_t campaign);

/* The packed key of a UUID. False for one that no campaign of the list has made. *recent is what
 * the call before this one found, NULL at first: mostly that is right again, and saves the look. */
bool campaign_keys_read_uuid(const struct campaign_keys *keys,
                             const uint8_t uuid[RUN_KEY_UUID_BYTES],
                             const struct campaign_key **recent, int64_t *packed);

#endif
