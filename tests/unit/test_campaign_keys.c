/* The campaigns of a store: found by their number, and a run's from its UUID alone. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "journal/campaign_keys.h"

enum { CAMPAIGNS = 40 };

/* Every third id is missing. Each began at another time. */
static struct journal_campaign campaign_of(unsigned i)
{
    return (struct journal_campaign){.id = 1 + i + i / 2,
                                     .created_unix_ms = 1000 + 7 * i,
                                     .key = (enum run_key_kind)(i % RUN_KEY_COUNT)};
}

static void fill(struct campaign_keys *keys)
{
    for (unsigned i = 0; i < CAMPAIGNS; i++) {
        struct journal_campaign campaign = campaign_of(i);
        assert_int_equal(campaign_keys_add(keys, &campaign), 0);
    }
}

static void campaigns_are_found(void **state)
{
    (void)state;
    struct campaign_keys keys = {.all = NULL};
    assert_null(campaign_keys_find(&keys, 1));
    fill(&keys);
    assert_int_equal(keys.count, CAMPAIGNS);
    for (unsigned i = 0; i < CAMPAIGNS; i++) {
        struct journal_campaign campaign = campaign_of(i);
        const struct campaign_key *key = campaign_keys_find(&keys, campaign.id);
        assert_non_null(key);
        assert_int_equal(key->campaign, campaign.id);
        assert_int_equal(key->start_ms, campaign.created_unix_ms);
        assert_int_equal(key->kind, campaign.key);
    }
    assert_null(campaign_keys_find(&keys, 0));
    assert_null(campaign_keys_find(&keys, 3));
    assert_null(campaign_keys_find(&keys, 1000));
    campaign_keys_free(&keys);
    assert_null(campaign_keys_find(&keys, 1));
}

/* A damaged store may list them in any order. */
static void out_of_order_they_are_refused(void **state)
{
    (void)state;
    struct campaign_keys keys = {.all = NULL};
    fill(&keys);
    assert_int_equal(campaign_keys_add(&keys, &(struct journal_campaign){.id = 1}), -EBADMSG);
    struct journal_campaign last = campaign_of(CAMPAIGNS - 1);
    assert_int_equal(campaign_keys_add(&keys, &last), -EBADMSG);
    assert_int_equal(keys.count, CAMPAIGNS);
    campaign_keys_free(&keys);
}

static void uuids_tell_their_campaign(void **state)
{
    (void)state;
    struct campaign_keys keys = {.all = NULL};
    const struct campaign_key *recent = NULL;
    uint8_t uuid[RUN_KEY_UUID_BYTES];
    int64_t packed;
    fill(&keys);
    for (unsigned n = 0; n < 3 * CAMPAIGNS; n++) {
        struct journal_campaign campaign = campaign_of(n % CAMPAIGNS);
        int64_t made = run_key_pack(campaign.id, 1000 * n);
        if (campaign.key == RUN_KEY_SEQ)
            continue;
        run_key_make_uuid(campaign.key, made, campaign.created_unix_ms, uuid);
        for (unsigned again = 0; again < 2; again++) {
            packed = -1;
            assert_true(campaign_keys_read_uuid(&keys, uuid, &recent, &packed));
            assert_true(packed == made);
            assert_int_equal(recent->campaign, campaign.id);
        }
        uuid[0] ^= 1;
        assert_false(campaign_keys_read_uuid(&keys, uuid, &recent, &packed));
    }
    campaign_keys_free(&keys);
}

static void uuids_of_no_campaign_are_refused(void **state)
{
    (void)state;
    struct campaign_keys keys = {.all = NULL};
    uint8_t uuid[RUN_KEY_UUID_BYTES];
    int64_t packed;
    fill(&keys);
    struct journal_campaign v7 = campaign_of(1);
    struct journal_campaign v4 = campaign_of(2);
    assert_int_equal(v7.key, RUN_KEY_UUIDV7);
    assert_int_equal(v4.key, RUN_KEY_UUIDV4);
    const struct {
        enum run_key_kind kind;
        uint64_t campaign;
        uint64_t start_ms;
    } cases[] = {
        {RUN_KEY_UUIDV4, 3, 0},                           /* a campaign that is not listed */
        {RUN_KEY_UUIDV4, v7.id, v7.created_unix_ms},      /* one that has others */
        {RUN_KEY_UUIDV7, v4.id, v4.created_unix_ms},      /* likewise */
        {RUN_KEY_UUIDV4, 1, 1000},                        /* one that has none */
        {RUN_KEY_UUIDV7, v7.id, v7.created_unix_ms + 99}, /* one that began at another time */
    };
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct campaign_key *recents[] = {NULL, campaign_keys_find(&keys, v7.id),
                                                campaign_keys_find(&keys, v4.id)};
        run_key_make_uuid(cases[i].kind, run_key_pack(cases[i].campaign, 5), cases[i].start_ms,
                          uuid);
        for (unsigned r = 0; r < 3; r++)
            assert_false(campaign_keys_read_uuid(&keys, uuid, &recents[r], &packed));
    }
    campaign_keys_free(&keys);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(campaigns_are_found),
        cmocka_unit_test(out_of_order_they_are_refused),
        cmocka_unit_test(uuids_tell_their_campaign),
        cmocka_unit_test(uuids_of_no_campaign_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
