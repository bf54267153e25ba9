/* What a store says of how it is set. A server's settings are in test_journal_postgres_reading.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <sqlite3.h>

#include "journal/backend.h"
#include "tests/lib/store_client.h"
#include "tests/lib/store_place.h"

static const char *value_of(const struct journal_settings *settings, const char *key)
{
    for (unsigned i = 0; i < settings->count; i++)
        if (strcmp(settings->all[i].key, key) == 0)
            return settings->all[i].value;
    return "(none)";
}

static void memory_has_no_settings(void **state)
{
    const struct journal_config config = {.uri = "memory", .writers = 1, .bytes_max = 1 << 20};
    struct journal_settings settings = {.count = 7};
    struct journal *journal;
    struct errmsg why;
    (void)state;
    assert_int_equal(journal_open(&journal, &config, &why), 0);
    journal_describe(journal, &settings);
    assert_int_equal(settings.count, 0);
    journal_close(journal);
}

/* As SQLite says, not as it was asked to be. */
static void sqlite_reads_its_settings_back(void **state)
{
    static const struct {
        enum durability level;
        const char *synchronous;
    } levels[] = {
        {DURABILITY_POWER, "full"}, {DURABILITY_PROCESS, "normal"}, {DURABILITY_NONE, "off"}};
    (void)state;
    for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++) {
        struct store_place place;
        struct store_client client;
        struct journal_settings settings;
        store_place_make(&place);
        store_must_open(&client,
                        &(struct journal_config){.uri = place.uri, .durability = levels[i].level});
        assert_int_equal(store_put_runs(&client, 0, 10, 2, 100), 20);
        journal_describe(client.journal, &settings);
        assert_string_equal(value_of(&settings, "sqlite_version"), sqlite3_libversion());
        assert_string_equal(value_of(&settings, "journal_mode"), "wal");
        assert_string_equal(value_of(&settings, "synchronous"), levels[i].synchronous);
        assert_string_equal(value_of(&settings, "locking_mode"), "exclusive");
        assert_string_equal(value_of(&settings, "page_size"), "8192");
        assert_string_not_equal(value_of(&settings, "filesystem"), "(none)");
        assert_int_equal(store_put_runs(&client, 10, 10, 2, 100), 20); /* it goes on */
        store_close(&client);
        store_place_remove(&place);
    }
}

static void settings_are_clean_and_bounded(void **state)
{
    struct journal_settings settings = {.count = 0};
    char text[4 * JOURNAL_SETTING_BYTES];
    (void)state;
    journal_settings_add(&settings, "absent", NULL);
    assert_int_equal(settings.count, 0);
    journal_settings_add(&settings, "hostile", "a\nb\x1b[31m\xff");
    assert_string_equal(value_of(&settings, "hostile"), "a?b?[31m?");
    memset(text, 'x', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    journal_settings_add(&settings, "long", text);
    assert_int_equal(strlen(value_of(&settings, "long")), JOURNAL_SETTING_BYTES - 1);
    /* A character that the end cuts in two is none. */
    for (size_t i = 0; i + 3 < sizeof(text); i += 3)
        memcpy(text + i, "\u20ac", 3);
    journal_settings_add(&settings, "wide", text);
    const char *wide = value_of(&settings, "wide");
    assert_int_equal(strlen(wide), 95);
    assert_string_equal(wide + 90, "\u20ac??");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_has_no_settings),
        cmocka_unit_test(sqlite_reads_its_settings_back),
        cmocka_unit_test(settings_are_clean_and_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
