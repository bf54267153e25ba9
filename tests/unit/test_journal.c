/* The stores against the contract, and what a URI may be. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "journal/backend.h"
#include "tests/lib/conformance_assert.h"
#include "tests/lib/pg_fixture.h"
#include "tests/lib/scratch.h"

/* --- the stores in the table --- */

enum { URI_BYTES_MAX = PG_URI_BYTES, VARIANTS_MAX = 6 };
#if defined(__SANITIZE_THREAD__)
enum { VARIANTS_RUN = 2 };
#elif defined(BENCH_SANITIZER)
enum { VARIANTS_RUN = VARIANTS_MAX / 2 };
#else
enum { VARIANTS_RUN = VARIANTS_MAX };
#endif

struct variant {
    enum durability durability;
    enum run_key_kind key;
    unsigned shards;
    unsigned connections;
};

/* Where a store of the test's own is. */
struct place {
    struct scratch folder;
    struct pg_fixture server;
    bool has_server;
};

struct store_row {
    const char *scheme;
    /* Writes the URI of a store that nobody has used. False when there is no such store to be had
     * here: that is said, and not a failure. */
    bool (*make_uri)(char uri[URI_BYTES_MAX], struct place *place);
    bool is_in_memory;
    struct variant variants[VARIANTS_MAX]; /* ended by durability 0 unless full */
};

static bool make_memory_uri(char uri[URI_BYTES_MAX], struct place *place)
{
    (void)place;
    (void)snprintf(uri, URI_BYTES_MAX, "memory");
    return true;
}

static bool make_sqlite_uri(char uri[URI_BYTES_MAX], struct place *place)
{
    (void)snprintf(uri, URI_BYTES_MAX, "sqlite:%s/conformance.db", place->folder.path);
    return true;
}

/* A database of its own. Both schemes are libpq's, and one store. */
static bool make_postgres_uri(char uri[URI_BYTES_MAX], struct place *place)
{
    if (!pg_fixture_is_possible())
        return false;
    pg_fixture_open(&place->server);
    place->has_server = true;
    (void)snprintf(uri, URI_BYTES_MAX, "%s", place->server.uri);
    return true;
}

/* Each level, each kind of key and each number of shards, and all pairs of the last two. The first
 * half has each of them once, which is enough where a sanitizer makes all slow; the first two have
 * one shard and several, which is what threads can go wrong about. */
static const struct store_row store_rows[] = {
    {.scheme = "memory",
     .make_uri = make_memory_uri,
     .is_in_memory = true,
     .variants = {{.durability = DURABILITY_NONE}}},
    {.scheme = "sqlite",
     .make_uri = make_sqlite_uri,
     .variants = {{.durability = DURABILITY_POWER, .key = RUN_KEY_SEQ, .shards = 1},
                  {.durability = DURABILITY_PROCESS, .key = RUN_KEY_UUIDV7, .shards = 3},
                  {.durability = DURABILITY_NONE, .key = RUN_KEY_UUIDV4, .shards = 1},
                  {.durability = DURABILITY_POWER, .key = RUN_KEY_UUIDV4, .shards = 3},
                  {.durability = DURABILITY_PROCESS, .key = RUN_KEY_SEQ, .shards = 3},
                  {.durability = DURABILITY_NONE, .key = RUN_KEY_UUIDV7, .shards = 1}}},
    {.scheme = "postgres",
     .make_uri = make_postgres_uri,
     .variants = {{.durability = DURABILITY_POWER, .key = RUN_KEY_SEQ, .connections = 2},
                  {.durability = DURABILITY_PROCESS, .key = RUN_KEY_UUIDV7, .connections = 4},
                  {.durability = DURABILITY_NONE, .key = RUN_KEY_UUIDV4, .connections = 5}}},
    {.scheme = "postgresql",
     .make_uri = make_postgres_uri,
     .variants = {{.durability = DURABILITY_POWER, .key = RUN_KEY_UUIDV4, .connections = 5},
                  {.durability = DURABILITY_PROCESS, .key = RUN_KEY_SEQ, .connections = 2},
                  {.durability = DURABILITY_NONE, .key = RUN_KEY_UUIDV7, .connections = 4}}},
};

/* A store that is added to the table of stores must be given to the suite. */
static const struct store_row *find_row(const char *scheme)
{
    for (unsigned i = 0; i < sizeof(store_rows) / sizeof(store_rows[0]); i++)
        if (strcmp(store_rows[i].scheme, scheme) == 0)
            return &store_rows[i];
    return NULL;
}

static bool has_level(const struct store_row *row, enum durability level)
{
    for (unsigned i = 0; i < VARIANTS_MAX; i++)
        if (row->variants[i].durability == level)
            return true;
    return false;
}

static void assert_variant_conforms(const struct journal_store *store, const struct store_row *row,
                                    const struct variant *variant)
{
    struct place place = {.has_server = false};
    char uri[URI_BYTES_MAX];
    assert_int_equal(scratch_make(&place.folder, "journal"), 0);
    if (row->make_uri(uri, &place))
        assert_conforms(&(struct conformance_config){
            .ops = store->ops,
            .uri = uri,
            .durability = variant->durability,
            .key = variant->key,
            .shards = variant->shards,
            .connections = variant->connections,
            .is_in_memory = row->is_in_memory,
        });
    else
        print_message("%s: there is none here to be tested\n", row->scheme);
    if (place.has_server)
        pg_fixture_close(&place.server);
    assert_int_equal(scratch_remove(&place.folder), 0);
}

static void every_store_in_the_table_conforms(void **state)
{
    (void)state;
    for (const struct journal_store *store = journal_stores; store->scheme != NULL; store++) {
        const struct store_row *row = find_row(store->scheme);
        if (row == NULL) {
            print_error("test_journal.c has no row for store %s\n", store->scheme);
            fail();
            return;
        }
        for (unsigned i = 0; i < 3 && store->ops->levels[i] != DURABILITY_DEFAULT; i++)
            assert_true(has_level(row, store->ops->levels[i]));
        for (unsigned i = 0; i < VARIANTS_RUN && row->variants[i].durability != 0; i++)
            assert_variant_conforms(store, row, &row->variants[i]);
    }
}

/* Names */

static void results_have_names(void **state)
{
    (void)state;
    static const int results[] = {
        JOURNAL_ACKED, JOURNAL_AGAIN,   JOURNAL_CONFLICT, JOURNAL_FULL, JOURNAL_TOO_LARGE,
        JOURNAL_GAP,   JOURNAL_STOPPED, JOURNAL_UNKNOWN,  -EIO,         -ENOMEM};
    enum { COUNT = sizeof(results) / sizeof(results[0]) };
    for (unsigned i = 0; i < COUNT; i++) {
        assert_string_not_equal(journal_strerror(results[i]), "unknown error");
        for (unsigned k = 0; k < i; k++)
            assert_string_not_equal(journal_strerror(results[i]), journal_strerror(results[k]));
    }
    assert_string_equal(journal_strerror(1), "unknown error");
    assert_string_equal(journal_strerror(-4000), "unknown error");
    assert_string_equal(journal_strerror(INT32_MIN), "unknown error");
    /* The numbers are errno's, so that they may be mixed with a store's own. */
    assert_int_equal(JOURNAL_AGAIN, -EAGAIN);
    assert_int_equal(JOURNAL_CONFLICT, -EEXIST);
    assert_int_equal(JOURNAL_FULL, -ENOSPC);
    assert_int_equal(JOURNAL_TOO_LARGE, -EMSGSIZE);
    assert_int_equal(JOURNAL_GAP, -EPROTO);
    assert_int_equal(JOURNAL_STOPPED, -ESHUTDOWN);
    assert_int_equal(JOURNAL_UNKNOWN, -EINPROGRESS);

    assert_string_equal(durability_name(DURABILITY_NONE), "none");
    assert_string_equal(durability_name(DURABILITY_PROCESS), "process");
    assert_string_equal(durability_name(DURABILITY_POWER), "power");
    assert_string_equal(durability_name((enum durability)99), "unknown");
}

/* URIs */

static struct errmsg refusal_of(const char *uri, enum durability durability)
{
    struct errmsg why = {""};
    struct errmsg why_check = {""};
    struct journal *journal = NULL;
    const struct journal_config config = {
        .uri = uri, .durability = durability, .writers = 1, .bytes_max = 1 << 20};
    assert_int_equal(journal_open(&journal, &config, &why), -EINVAL);
    assert_int_equal(journal_check(&config, &why_check), -EINVAL);
    assert_string_equal(why.text, why_check.text);
    assert_true(strlen(why.text) > 0);
    return why;
}

static void hostile_uris_are_refused_and_not_repeated(void **state)
{
    (void)state;
    static const char *const uris[] = {
        "memory:secret",
        "memory://u:secret@h/",
        "mysql://u:secret@h/",
        "://u:secret@h/",
        "u@secret",
        "secret with a space",
        "SECRET:secret",
        "a-scheme-that-is-much-longer-than-any-secret",
        "my\nsecret",
        "\x1b]secret",
        "\xff\xfesecret:x",
        "%s%n%ssecret",
    };
    for (unsigned i = 0; i < sizeof(uris) / sizeof(uris[0]); i++) {
        struct errmsg why = refusal_of(uris[i], DURABILITY_DEFAULT);
        assert_null(strstr(why.text, "secret"));
    }
    assert_non_null(strstr(refusal_of("memroy", DURABILITY_DEFAULT).text, "\"memroy\""));
    assert_non_null(strstr(refusal_of("mysql:x", DURABILITY_DEFAULT).text, "\"mysql\""));
    assert_non_null(strstr(refusal_of("mysql:x", DURABILITY_DEFAULT).text, "memory"));
    assert_non_null(strstr(refusal_of("runs.db", DURABILITY_DEFAULT).text,
                           "\"runs.db\"; did you mean sqlite:runs.db?"));
    assert_non_null(strstr(refusal_of("/a/secret", DURABILITY_DEFAULT).text,
                           "; a file is given as sqlite:PATH"));
    assert_null(strstr(refusal_of("/a/secret", DURABILITY_DEFAULT).text, "secret"));
    assert_string_equal(refusal_of("sqlite://runs.db", DURABILITY_DEFAULT).text,
                        "journal sqlite is given as sqlite:PATH, without slashes before a relative "
                        "path");
    (void)refusal_of("", DURABILITY_DEFAULT);
    (void)refusal_of(":", DURABILITY_DEFAULT);
    (void)refusal_of("memory:", DURABILITY_DEFAULT);
    (void)refusal_of("memoryx", DURABILITY_DEFAULT);
    (void)refusal_of("MEMORY", DURABILITY_DEFAULT);
}

/* Whatever stores are in the table, a password never comes back in a refusal of journal_check(). */
static void postgres_passwords_do_not_leak(void **state)
{
    (void)state;
    static const char *const uris[] = {"postgres://u:secret@h/", "postgresql://u:secret@h/",
                                       "postgres:secret"};
    for (unsigned i = 0; i < sizeof(uris) / sizeof(uris[0]); i++) {
        struct errmsg why = {""};
        (void)journal_check(&(struct journal_config){.uri = uris[i],
                                                     .durability = (enum durability)99,
                                                     .writers = 1},
                            &why);
        assert_true(strlen(why.text) > 0);
        assert_null(strstr(why.text, "secret"));
    }
}

static void memory_keeps_none_and_says_so(void **state)
{
    (void)state;
    static const enum durability refused[] = {DURABILITY_PROCESS, DURABILITY_POWER,
                                              (enum durability)99};
    for (unsigned i = 0; i < 3; i++) {
        struct errmsg why = refusal_of("memory", refused[i]);
        assert_non_null(strstr(why.text, durability_name(refused[i])));
        assert_non_null(strstr(why.text, "it can keep: none"));
    }
    struct journal_config config = {.uri = "memory", .writers = 1, .bytes_max = 1 << 20};
    struct journal *journal;
    struct errmsg why;
    assert_int_equal(journal_check(&config, &why), 0);
    assert_int_equal(journal_open(&journal, &config, &why), 0);
    assert_string_equal(journal_name(journal), "memory");
    assert_int_equal(journal_durability(journal), DURABILITY_NONE);
    assert_int_equal(journal_writers_max(&config), 1024);
    journal_close(journal);

    config.mode = JOURNAL_RESUME;
    assert_int_equal(journal_open(&journal, &config, &why), -EINVAL);
    assert_non_null(strstr(why.text, "keeps nothing"));
    config.mode = JOURNAL_AUDIT;
    assert_int_equal(journal_open(&journal, &config, &why), -EINVAL);
    config.mode = JOURNAL_NEW;

    config.bytes_max = 0;
    assert_int_equal(journal_open(&journal, &config, &why), -EINVAL);
    assert_non_null(strstr(why.text, "bound"));
    config.bytes_max = 1 << 20;
    config.writers = 0;
    assert_int_equal(journal_open(&journal, &config, &why), -EINVAL);
    config.writers = UINT32_MAX;
    assert_int_equal(journal_open(&journal, &config, &why), -EINVAL);
}

/* Whoever opens a journal learns what the store cannot tell, and why it failed first. */
static void a_journal_tells_of_itself(void **state)
{
    (void)state;
    const struct journal_config config = {.uri = "memory",
                                          .key = RUN_KEY_UUIDV4,
                                          .description = "{\"mine\":true}",
                                          .writers = 3,
                                          .bytes_max = 1 << 20};
    struct journal *journal;
    struct journal_io io = {.commits = 1};
    struct errmsg why = {"before"};
    assert_int_equal(journal_open(&journal, &config, &why), 0);
    const struct journal_campaign *campaign = journal_campaign(journal);
    assert_int_equal(campaign->id, 1);
    assert_int_equal(campaign->key, RUN_KEY_UUIDV4);
    assert_int_equal(campaign->durability, DURABILITY_NONE);
    assert_string_equal(campaign->description, "{\"mine\":true}");
    assert_ptr_not_equal(campaign->description, config.description);
    assert_true(campaign->created_unix_ms > UINT64_C(1600000000000));
    assert_int_equal(journal_parts(journal), 3);

    journal_io(journal, &io);
    assert_true(io.commits == JOURNAL_NOT_KNOWN && io.store_bytes == JOURNAL_NOT_KNOWN);
    assert_false(io.is_servers);

    assert_false(journal_has_failed(journal, &why));
    assert_string_equal(why.text, "");
    journal_fail(journal, "disk %d is gone", 7);
    journal_fail(journal, "and so is %s", "all else");
    assert_true(journal_has_failed(journal, &why));
    assert_string_equal(why.text, "disk 7 is gone");
    journal_close(journal);
}

/* One rule for all stores, whether or not theirs could keep more. */
static void a_description_is_bounded(void **state)
{
    (void)state;
    static char description[JOURNAL_DESCRIPTION_BYTES_MAX + 2];
    const struct journal_config config = {
        .uri = "memory", .description = description, .writers = 1, .bytes_max = 1 << 20};
    struct journal *journal;
    struct errmsg why;
    memset(description, 'x', sizeof(description) - 2);
    assert_int_equal(journal_open(&journal, &config, &why), 0);
    journal_close(journal);
    description[JOURNAL_DESCRIPTION_BYTES_MAX] = 'x';
    assert_int_equal(journal_open(&journal, &config, &why), -EINVAL);
    assert_non_null(strstr(why.text, "more than 65536 bytes"));
}

static void a_connection_is_one_writers(void **state)
{
    (void)state;
    struct journal_config config = {.uri = "postgres://h/d", .writers = 5};
    struct journal *journal;
    struct errmsg why;
    assert_int_equal(journal_open(&journal, &config, &why), -EINVAL);
    assert_non_null(strstr(why.text, "4 connections"));
    config.connections = 2;
    config.writers = 3;
    assert_int_equal(journal_open(&journal, &config, &why), -EINVAL);
    assert_non_null(strstr(why.text, "2 connections"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_store_in_the_table_conforms),
        cmocka_unit_test(results_have_names),
        cmocka_unit_test(hostile_uris_are_refused_and_not_repeated),
        cmocka_unit_test(postgres_passwords_do_not_leak),
        cmocka_unit_test(memory_keeps_none_and_says_so),
        cmocka_unit_test(a_journal_tells_of_itself),
        cmocka_unit_test(a_description_is_bounded),
        cmocka_unit_test(a_connection_is_one_writers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
