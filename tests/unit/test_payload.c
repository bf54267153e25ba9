/*
 * Runs with payloads to order, on a virtual clock: prompts and replies as long as was drawn, the
 * history in delta and snapshot, and what happens where a payload or a conversation becomes too
 * large.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/prose.h"
#include "tests/lib/parsed_dist.h"
#include "tests/lib/sim_world.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static struct dist sizes(const char *spec)
{
    return parsed_dist(spec, DIST_BYTES);
}

/* Runs a campaign to its end and leaves the world open. */
static struct sim_world *run_world(const struct campaign_config *campaign)
{
    const struct sim_world_config config = {.campaign = *campaign, .ledger_fd = -1};
    struct sim_world *world = aligned_alloc(64, sizeof(*world));
    assert_non_null(world);
    assert_int_equal(sim_world_open(world, &config), 0);
    for (unsigned i = 0; i < world->lane_count; i++) {
        struct run_shape *shape = &world->lanes[i].worker.shape;
        shape->prompt_bytes = campaign_dist_if_given(&world->config.campaign.prompt_bytes);
        shape->history = campaign->history;
    }
    sim_world_run(world);
    assert_string_equal(world->fault.text, "");
    return world;
}

static void close_world(struct sim_world *world)
{
    sim_world_close(world);
    free(world);
}

static const struct worker *worker_of(const struct sim_world *world)
{
    return &world->lanes[0].worker;
}

/* A copy of a record's payload as text. */
static char *payload_of(const struct sim_world *world, uint64_t run, uint32_t seq)
{
    struct journal_record record;
    assert_int_equal(journal_read(worker_of(world)->env.journal, run, seq, &record), 0);
    char *text = malloc(record.bytes + 1);
    assert_non_null(text);
    memcpy(text, record.payload, record.bytes);
    text[record.bytes] = '\0';
    return text;
}

/* How much stands between two texts. */
static size_t bytes_between(const char *text, const char *before, const char *after)
{
    const char *start = strstr(text, before);
    assert_non_null(start);
    const char *end = strstr(start + strlen(before), after);
    assert_non_null(end);
    return (size_t)(end - start) - strlen(before);
}

static uint64_t drawn(const struct dist *dist, uint64_t run, enum prng_purpose purpose,
                      uint64_t turn)
{
    return prose_draw_bytes(dist, prng_stream(1, run, purpose, turn));
}

static void texts_are_as_long_as_was_drawn(void **state)
{
    (void)state;
    static const char *const specs[] = {"0", "1B", "uniform:0B,5KB", "300KB"};
    for (size_t i = 0; i < COUNT_OF(specs); i++) {
        struct campaign_config campaign = sim_campaign(10);
        campaign.prompt_bytes = sizes(specs[i]);
        campaign.reply_bytes = sizes(specs[i]);
        struct sim_world *world = run_world(&campaign);
        assert_int_equal(worker_of(world)->runs_by_outcome[OUTCOME_COMPLETED], 10);
        for (uint64_t run = 0; run < 10; run++) {
            char *begin = payload_of(world, run, 0);
            char *first = payload_of(world, run, 1);
            char *last = payload_of(world, run, 4);
            assert_int_equal(bytes_between(begin, "\"input\":\"", "\"}"),
                             drawn(&campaign.prompt_bytes, run, PRNG_PROMPT_BYTES, 0));
            assert_int_equal(bytes_between(first, "\"content\":\"", "\",\"tool_calls\""),
                             drawn(&campaign.reply_bytes, run, PRNG_REPLY_BYTES, 0));
            assert_int_equal(bytes_between(last, "\"content\":\"", "\"}"),
                             drawn(&campaign.reply_bytes, run, PRNG_REPLY_BYTES, 1));
            free(begin);
            free(first);
            free(last);
        }
        close_world(world);
    }
}

/* Batches hold two such prompts at the most: most begin records are composed more than once. The
 * same records come of it as when each run has the journal to itself. */
static void records_composed_again_are_the_same(void **state)
{
    (void)state;
    struct campaign_config campaign = sim_campaign(6);
    campaign.memory_bytes_max = UINT64_C(1) << 30;
    campaign.prompt_bytes = sizes("uniform:10MiB,14MiB");
    struct sim_world *crowded = run_world(&campaign);
    campaign.concurrency = 1;
    struct sim_world *alone = run_world(&campaign);
    for (uint64_t run = 0; run < 6; run++) {
        assert_int_equal(crowded->ends[run].outcome, OUTCOME_COMPLETED);
        for (uint32_t seq = 0; seq < 6; seq++) {
            char *first = payload_of(crowded, run, seq);
            char *second = payload_of(alone, run, seq);
            assert_string_equal(first, second);
            free(first);
            free(second);
        }
    }
    close_world(crowded);
    close_world(alone);
}

/* Each snapshot begins with the messages of the one before. */
static void a_snapshot_holds_all_messages(void **state)
{
    (void)state;
    enum { TURNS = 5 };
    static const char head[] = "{\"messages\":[";
    struct campaign_config campaign = sim_campaign(1);
    campaign.turns = TURNS;
    campaign.prompt_bytes = sizes("2KB");
    campaign.reply_bytes = sizes("uniform:0B,6KB");
    campaign.history = HISTORY_SNAPSHOT;
    struct sim_world *world = run_world(&campaign);
    assert_int_equal(world->ends[0].outcome, OUTCOME_COMPLETED);
    char *before = NULL;
    size_t before_size = 0;
    for (uint32_t turn = 0; turn < TURNS; turn++) {
        char *snapshot = payload_of(world, 0, 1 + 3 * turn); /* model, attempt, tool */
        size_t size = bytes_between(snapshot, head, "],\"finish\":");
        assert_int_equal(strncmp(snapshot, head, strlen(head)), 0);
        assert_int_equal(bytes_between(snapshot, "\"role\":\"user\",\"content\":\"", "\"}"), 2000);
        assert_true(size > before_size + drawn(&campaign.reply_bytes, 0, PRNG_REPLY_BYTES, turn));
        if (before != NULL)
            assert_memory_equal(snapshot, before, strlen(head) + before_size);
        free(before);
        before = snapshot;
        before_size = size;
    }
    free(before);
    close_world(world);

    campaign.history = HISTORY_DELTA;
    world = run_world(&campaign);
    char *delta = payload_of(world, 0, 1);
    assert_non_null(strstr(delta, "{\"message\":{\"role\":\"assistant\""));
    free(delta);
    close_world(world);
}

/* The largest prompt and a reply that leaves the conversation just within its bound: with what a
 * snapshot has around it, it is beyond a record's. */
static void a_payload_that_is_too_large_fails_its_run(void **state)
{
    (void)state;
    struct campaign_config campaign = sim_campaign(2);
    campaign.turns = 1;
    campaign.memory_bytes_max = UINT64_C(1) << 30;
    campaign.prompt_bytes = sizes("16MiB");
    campaign.reply_bytes = sizes("65400B");
    campaign.history = HISTORY_SNAPSHOT;
    struct sim_world *world = run_world(&campaign);
    const struct worker *w = worker_of(world);
    char why[128];
    assert_int_equal(w->runs_by_outcome[OUTCOME_JOURNAL], 2);
    (void)snprintf(why, sizeof(why), "run 0: %s", journal_strerror(JOURNAL_TOO_LARGE));
    assert_string_equal(w->env.first_error.text, why);
    assert_false(w->env.has_store_failed); /* other runs may fit */
    close_world(world);

    campaign.history = HISTORY_DELTA;
    world = run_world(&campaign);
    assert_int_equal(worker_of(world)->runs_by_outcome[OUTCOME_COMPLETED], 2);
    close_world(world);
}

static void a_conversation_that_is_too_long_fails_its_run(void **state)
{
    (void)state;
    struct campaign_config campaign = sim_campaign(2);
    campaign.turns = 10;
    campaign.memory_bytes_max = UINT64_C(1) << 30;
    campaign.reply_bytes = sizes("5MiB");
    struct sim_world *world = run_world(&campaign);
    const struct worker *w = worker_of(world);
    assert_int_equal(w->runs_by_outcome[OUTCOME_FAILED], 2);
    assert_string_equal(w->env.first_error.text, "run 0: the conversation is longer than 16 MiB");
    close_world(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_as_long_as_was_drawn),
        cmocka_unit_test(records_composed_again_are_the_same),
        cmocka_unit_test(a_snapshot_holds_all_messages),
        cmocka_unit_test(a_payload_that_is_too_large_fails_its_run),
        cmocka_unit_test(a_conversation_that_is_too_long_fails_its_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
