/* A campaign that was begun in a Postgres store and is not wanted after all. What it leaves in
 * files is test_campaign_resume.c's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/lib/pg_fixture.h"

static void open_one(struct pg_journal *opened, const struct journal_config *config)
{
    if (pg_journal_open(opened, config) != 0)
        fail_msg("%s", opened->why.text);
}

static void discard(struct pg_journal *opened)
{
    journal_writer_close(opened->writer);
    loop_close(&opened->loop);
    journal_discard(opened->journal);
}

static long count_campaigns(struct pg_fixture *fixture)
{
    return pg_ask_number(fixture->admin, "SELECT count(*) FROM bench.campaigns");
}

static void a_campaign_is_taken_back_unless_it_has_records(void **state)
{
    (void)state;
    struct pg_fixture fixture;
    struct pg_journal opened;
    pg_fixture_open(&fixture);
    struct journal_config config = pg_config(&fixture);
    open_one(&opened, &config);
    assert_int_equal(count_campaigns(&fixture), 1);
    discard(&opened);
    assert_int_equal(count_campaigns(&fixture), 0);

    open_one(&opened, &config);
    assert_int_equal(journal_campaign(opened.journal)->id, 1);
    assert_int_equal(pg_put(&opened, 0, 0, "{}"), JOURNAL_ACKED);
    discard(&opened);
    assert_int_equal(count_campaigns(&fixture), 1);

    /* Nor is it when it was only to be resumed, or another has taken it over meanwhile. */
    config.mode = JOURNAL_RESUME;
    open_one(&opened, &config);
    discard(&opened);
    assert_int_equal(count_campaigns(&fixture), 1);
    config.mode = JOURNAL_NEW;
    open_one(&opened, &config);
    (void)pg_ask(fixture.admin, "UPDATE bench.campaigns SET epoch = epoch + 1 WHERE id = 2");
    discard(&opened);
    assert_int_equal(count_campaigns(&fixture), 2);
    pg_fixture_close(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_campaign_is_taken_back_unless_it_has_records),
    };
    if (!pg_fixture_is_possible())
        return PG_SKIPPED;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
