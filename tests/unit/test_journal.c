/* The stores against the contract, the suite against broken stores, and what a URI may be. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "journal/backend.h"
#include "tests/lib/broken_journals.h"
#include "tests/lib/conformance.h"
#include "tests/lib/slow_journal.h"

static void assert_conforms(const struct conformance_config *config)
{
    struct conformance_report report;
    assert_int_equal(conformance_run(config, &report), 0);
    for (unsigned check = 1; check <= CONFORMANCE_CHECKS; check++) {
        if ((report.failed & 1u << check) != 0)
            print_error("%s breaks J%u: %s\n", config->ops->name, check, report.why[check]);
    }
    assert_int_equal(report.failed, 0);
}

/* A store that is added to the table must be given to the suite: without a URI here this fails. */
static const char *test_uri(const struct journal_store *store)
{
    if (strcmp(store->scheme, "memory") == 0)
        return "memory";
    fail_msg("test_journal.c has no URI for store %s", store->scheme);
    return NULL;
}

static void every_store_in_the_table_conforms(void **state)
{
    (void)state;
    unsigned count = 0;
    for (const struct journal_store *store = journal_stores; store->scheme != NULL; store++) {
        const char *uri = test_uri(store);
        for (unsigned i = 0; i < 3 && store->ops->levels[i] != DURABILITY_DEFAULT; i++, count++)
            assert_conforms(&(struct conformance_config){
                .ops = store->ops,
                .uri = uri,
                .durability = store->ops->levels[i],
                .is_in_memory = store->ops == &journal_memory_ops,
            });
    }
    assert_true(count >= 1);
}

static void a_store_that_settles_later_conforms(void **state)
{
    (void)state;
    assert_conforms(&(struct conformance_config){
        .ops = &slow_journal_ops, .uri = "slow", .is_in_memory = true});
}

static void the_suite_finds_what_is_broken(void **state)
{
    (void)state;
    for (const struct broken_journal *broken = broken_journals; broken->name != NULL; broken++) {
        struct conformance_report report;
        const struct conformance_config config = {
            .ops = &broken->ops,
            .uri = "broken",
            .only = broken->breaks == 0 ? 0 : 1u << broken->breaks,
            .is_in_memory = true,
            .idle_polls_max = broken->fault == FAULT_CALLBACK_NEVER ? 50 : 0,
        };
        if (broken->breaks == 0) {
            assert_conforms(&config);
            continue;
        }
        assert_int_equal(conformance_run(&config, &report), 0);
        if ((report.failed & 1u << broken->breaks) == 0)
            fail_msg("\"%s\" was not found by J%u (failed: 0x%x)", broken->name, broken->breaks,
                     report.failed);
    }
}

/* Names */

static void results_have_names(void **state)
{
    (void)state;
    static const int results[] = {
        JOURNAL_ACKED, JOURNAL_AGAIN, JOURNAL_CONFLICT, JOURNAL_FULL, JOURNAL_TOO_LARGE,
        JOURNAL_GAP,   -EIO,          -ENOMEM};
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
    journal_close(journal);

    config.bytes_max = 0;
    assert_int_equal(journal_open(&journal, &config, &why), -EINVAL);
    assert_non_null(strstr(why.text, "bound"));
    config.bytes_max = 1 << 20;
    config.writers = 0;
    assert_int_equal(journal_open(&journal, &config, &why), -EINVAL);
    config.writers = UINT32_MAX;
    assert_int_equal(journal_open(&journal, &config, &why), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_store_in_the_table_conforms),
        cmocka_unit_test(a_store_that_settles_later_conforms),
        cmocka_unit_test(the_suite_finds_what_is_broken),
        cmocka_unit_test(results_have_names),
        cmocka_unit_test(hostile_uris_are_refused_and_not_repeated),
        cmocka_unit_test(postgres_passwords_do_not_leak),
        cmocka_unit_test(memory_keeps_none_and_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
