/* Looking at what a campaign has measured while it measures; ThreadSanitizer watches. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "engine/campaign.h"
#include "engine/loop.h"
#include "tests/lib/parsed_dist.h"

static const uint32_t all_watched = (1u << WATCH_COUNT) - 1;

static struct campaign_config config_of(uint64_t runs, uint32_t threads, const char *loop_name)
{
    return (struct campaign_config){
        .runs = runs,
        .concurrency = 64,
        .threads = threads,
        .seed = 1,
        .latency = latency_of("20us"),
        .tool_latency = latency_of("0"),
        .turns = 2,
        .tools = 1,
        .tool_effect = TOOL_EFFECT_NOOP,
        .loop_name = loop_name,
        .journal_uri = "memory",
        .memory_bytes_max = UINT64_C(256) << 20,
        .watched = all_watched,
    };
}

static struct hist *new_hist(void)
{
    struct hist *h = calloc(1, sizeof(*h));
    assert_non_null(h);
    hist_init(h);
    return h;
}

static void open_view(struct campaign_view *view)
{
    *view = (struct campaign_view){.failed = 0};
    for (unsigned i = 0; i < WATCH_COUNT; i++)
        view->hists[i] = new_hist();
}

static void close_view(struct campaign_view *view)
{
    for (unsigned i = 0; i < WATCH_COUNT; i++)
        free(view->hists[i]);
}

/* Looks again and again until the campaign is done, which wakes us as every answer does: the loop
 * waits without a limit of its own. Returns how often it has seen something. */
static unsigned look_until_done(struct loop *waiter, struct campaign *campaign,
                                struct campaign_view *view)
{
    uint64_t last = 0;
    unsigned seen = 0;
    campaign_look(campaign);
    while (!campaign_is_done(campaign)) {
        assert_int_equal(loop_poll(waiter, UINT64_MAX, 1), 0);
        if (!campaign_seen(campaign, view))
            continue;
        const struct hist *response = view->hists[WATCH_RESPONSE];
        uint64_t sum = 0;
        for (uint32_t i = 0; i < HIST_BUCKETS; i++)
            sum += response->counts[i];
        assert_int_equal(sum, response->count);
        assert_int_equal(view->hists[WATCH_SERVICE]->count, response->count);
        assert_true(response->count >= last);
        assert_true(view->hists[WATCH_APPEND]->count >= 6 * response->count);
        last = response->count;
        seen++;
        campaign_look(campaign);
    }
    return seen;
}

static void views_grow_until_they_are_the_result(void **state)
{
    (void)state;
    for (size_t i = 0; loop_table[i] != NULL; i++) {
        for (uint32_t threads = 1; threads <= 3; threads++) {
            struct campaign_config config = config_of(20000, threads, loop_table[i]->name);
            struct loop waiter;
            struct campaign *campaign = NULL;
            struct campaign_result result;
            struct campaign_view view;
            struct errmsg why = {.text = ""};
            assert_int_equal(loop_open(&waiter, "epoll", &why), 0);
            if (campaign_open(&campaign, &config, &waiter, &why) != 0) {
                assert_int_not_equal(i, 1); /* epoll is everywhere */
                loop_close(&waiter);
                continue;
            }
            open_view(&view);
            campaign_start(campaign);
            assert_true(look_until_done(&waiter, campaign, &view) > 0);
            assert_true(campaign_seen(campaign, &view)); /* whatever is outstanding */
            campaign_look(campaign);
            assert_true(campaign_seen(campaign, &view));
            assert_int_equal(campaign_finish(campaign, &result, &why), 0);
            assert_memory_equal(view.hists[WATCH_RESPONSE], result.response, sizeof(struct hist));
            assert_memory_equal(view.hists[WATCH_APPEND], result.append, sizeof(struct hist));
            assert_int_equal(view.failed, 0);
            close_view(&view);
            campaign_close(campaign);
            loop_close(&waiter);
        }
    }
}

/* Failed runs are told apart, and what is not watched stays empty. */
static void only_what_is_watched_is_shown(void **state)
{
    struct campaign_config config = config_of(500, 2, "epoll");
    struct loop waiter;
    struct campaign *campaign = NULL;
    struct campaign_result result;
    struct campaign_view view;
    struct errmsg why = {.text = ""};
    (void)state;
    config.watched = 1u << WATCH_APPEND;
    config.latency = latency_of("5ms");
    config.timeout_ns = 1;
    assert_int_equal(loop_open(&waiter, "epoll", &why), 0);
    assert_int_equal(campaign_open(&campaign, &config, &waiter, &why), 0);
    open_view(&view);
    campaign_start(campaign);
    while (!campaign_is_done(campaign))
        assert_int_equal(loop_poll(&waiter, UINT64_MAX, 1), 0);
    campaign_look(campaign);
    assert_true(campaign_seen(campaign, &view));
    assert_int_equal(view.failed, 500);
    assert_int_equal(view.hists[WATCH_SERVICE]->count, 0);
    assert_true(view.hists[WATCH_APPEND]->count > 0);
    assert_int_equal(campaign_finish(campaign, &result, &why), 0);
    close_view(&view);
    campaign_close(campaign);
    loop_close(&waiter);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(views_grow_until_they_are_the_result),
        cmocka_unit_test(only_what_is_watched_is_shown),
    };
    return cmocka_run_group_tests_name("snapshot", tests, NULL, NULL);
}
