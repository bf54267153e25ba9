/* The SQLite store's campaigns and shards: which there are, what belongs together, and what is
 * refused. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "journal/backend.h"
#include "tests/lib/store_client.h"
#include "tests/lib/store_place.h"

/* --- campaigns --- */

static int note_campaign(void *arg, const struct journal_campaign *campaign)
{
    uint64_t *ids = arg;
    *ids = *ids * 10 + campaign->id;
    assert_true(campaign->created_unix_ms > 0);
    return 0;
}

static int count_of_campaign(void *arg, const struct journal_record *record)
{
    uint64_t *seen = arg;
    if (record->campaign > 3)
        return (int)record->campaign;
    assert_true(record->run < 30);
    seen[record->campaign]++;
    return 0;
}

static void a_store_holds_campaigns(void **state)
{
    (void)state;
    struct store_place place;
    struct store_client client;
    struct errmsg why;
    uint64_t ids = 0;
    store_place_make(&place);
    struct journal_config config = {.uri = place.uri, .durability = DURABILITY_NONE};
    for (unsigned i = 0; i < 3; i++) {
        config.key = (enum run_key_kind)i;
        store_must_open(&client, &config);
        assert_int_equal(journal_campaign(client.journal)->id, i + 1);
        assert_int_equal(store_put_runs(&client, 0, 10 * (i + 1), 3, 20), 30 * (i + 1));
        store_close(&client);
    }
    config.mode = JOURNAL_RESUME;
    store_must_open(&client, &config);
    assert_int_equal(journal_campaign(client.journal)->id, 3);
    assert_int_equal(journal_campaign(client.journal)->durability, DURABILITY_NONE);
    store_close(&client);
    config.campaign = 2;
    config.durability = DURABILITY_DEFAULT;
    store_must_open(&client, &config);
    assert_int_equal(journal_campaign(client.journal)->id, 2);
    assert_int_equal(journal_durability(client.journal), DURABILITY_NONE); /* its own */
    store_close(&client);
    config.durability = DURABILITY_POWER;
    assert_int_equal(store_open(&client, &config, &why), -EINVAL);
    assert_non_null(strstr(why.text, "campaign 2 was begun at durability none"));
    config.durability = DURABILITY_DEFAULT;
    config.campaign = 7;
    assert_int_equal(store_open(&client, &config, &why), -ENOENT);
    assert_non_null(strstr(why.text, "no campaign 7"));
    config.mode = JOURNAL_AUDIT;
    store_must_open(&client, &config);
    for (unsigned i = 0; i < 3; i++)
        store_must_hold(client.journal, i + 1, 20, 10 * (i + 1), 3);
    assert_int_equal(journal_list(client.journal, note_campaign, &ids, &why), 0);
    assert_int_equal(ids, 123);
    /* All of them, with names of both kinds. */
    uint64_t seen[4] = {0};
    assert_int_equal(journal_scan(client.journal, 0, 0, UINT32_MAX, count_of_campaign, seen, &why),
                     0);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(seen[i], 30 * i);
    store_close(&client);
    /* A campaign that is not listed is shown, and is not another's. */
    store_execute(place.path, "UPDATE records SET run=(9 << 40)|1 WHERE id=1");
    store_must_open(&client, &config);
    assert_int_equal(journal_scan(client.journal, 0, 0, UINT32_MAX, count_of_campaign, seen, &why),
                     9);
    assert_int_equal(journal_scan(client.journal, 1, 0, UINT32_MAX, count_of_campaign, seen, &why),
                     0);
    store_close(&client);
    store_place_remove(&place);
}

/* --- shards --- */

static void shards_must_belong_together(void **state)
{
    (void)state;
    struct store_place places[2];
    struct store_client client;
    struct errmsg why;
    char from[STORE_PATH_BYTES];
    char to[STORE_PATH_BYTES];
    for (unsigned i = 0; i < 2; i++) {
        store_place_make(&places[i]);
        store_must_open(&client, &(struct journal_config){.uri = places[i].uri, .shards = 3});
        store_close(&client);
    }
    struct journal_config config = {.uri = places[0].uri, .shards = 2};
    assert_int_equal(store_open(&client, &config, &why), -EINVAL);
    assert_non_null(strstr(why.text, "3 shards"));
    config.shards = JOURNAL_SHARDS_MAX + 1;
    assert_int_equal(store_open(&client, &config, &why), -EINVAL);
    config.shards = 3;
    store_must_open(&client, &config);
    store_close(&client);
    config.shards = 0;

    (void)snprintf(to, sizeof(to), "%s.2", places[0].path);
    assert_int_equal(unlink(to), 0);
    assert_int_equal(store_open(&client, &config, &why), -ENOENT);
    assert_non_null(strstr(why.text, to));
    (void)snprintf(from, sizeof(from), "%s.2", places[1].path);
    assert_int_equal(rename(from, to), 0);
    assert_int_equal(store_open(&client, &config, &why), -EINVAL);
    assert_non_null(strstr(why.text, "is not shard 2"));
    (void)snprintf(from, sizeof(from), "sqlite:%s.1", places[0].path);
    config.uri = from;
    assert_int_equal(store_open(&client, &config, &why), -EINVAL);
    assert_non_null(strstr(why.text, "not its first"));
    store_place_remove(&places[0]);
    store_place_remove(&places[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_store_holds_campaigns),
        cmocka_unit_test(shards_must_belong_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
