/* campaign_keys: see campaign_keys.h. */
#include "journal/campaign_keys.h"

#include <errno.h>
#include <stdlib.h>

enum { CAPACITY_FIRST = 16 };

int campaign_keys_add(void *arg, const struct journal_campaign *campaign)
{
    struct campaign_keys *keys = arg;
    if (keys->count > 0 && keys->all[keys->count - 1].campaign >= campaign->id)
        return -EBADMSG;
    if (keys->count == keys->capacity) {
        size_t capacity = keys->capacity == 0 ? CAPACITY_FIRST : 2 * keys->capacity;
        void *grown = realloc(keys->all, capacity * sizeof(keys->all[0]));
        if (grown == NULL)
            return -ENOMEM;
        keys->all = grown;
        keys->capacity = capacity;
    }
    keys->all[keys->count++] = campaign_key_of(campaign);
    return 0;
}

int campaign_keys_say(int error, struct errmsg *why)
{
    return errmsg_set(why, error, "%s",
                      error == -ENOMEM ? "no memory for the list of campaigns"
                                       : "the campaigns are not in the order of their ids");
}

void campaign_keys_free(struct campaign_keys *keys)
{
    free(keys->all);
    *keys = (struct campaign_keys){.all = NULL};
}

static int compare(const void *campaign, const void *key)
{
    uint64_t left = *(const uint64_t *)campaign;
    uint64_t right = ((const struct campaign_key *)key)->campaign;
    return (left > right) - (left < right);
}

const struct campaign_key *campaign_keys_find(const struct campaign_keys *keys, uint64_t campaign)
{
    if (keys->count == 0)
        return NULL;
    return bsearch(&campaign, keys->all, keys->count, sizeof(keys->all[0]), compare);
}

bool campaign_keys_read_uuid(const struct campaign_keys *keys,
                             const uint8_t uuid[RUN_KEY_UUID_BYTES],
                             const struct campaign_key **recent, int64_t *packed)
{
    enum run_key_kind kind = uuid[6] >> 4 == 7 ? RUN_KEY_UUIDV7 : RUN_KEY_UUIDV4;
    const struct campaign_key *guess = *recent;
    *packed = -1;
    bool is_made = run_key_read_uuid(kind, uuid, guess != NULL ? guess->start_ms : 0, packed);
    if (*packed < 0)
        return false;
    /* The number tells the campaign, whose start then tells whether all other bits are right. */
    uint64_t campaign = run_key_campaign(*packed);
    if (guess == NULL || guess->campaign != campaign) {
        guess = campaign_keys_find(keys, campaign);
        if (guess == NULL)
            return false;
        *recent = guess;
        is_made = run_key_read_uuid(kind, uuid, guess->start_ms, packed);
    }
    return is_made && guess->kind == kind;
}
