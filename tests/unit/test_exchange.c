/*
 * Model calls that fail, take too long or are hedged, and replies that stream, on a virtual clock:
 * what is asked how often, what it is counted as, how long it takes, and what is recorded of it.
 * What a kill leaves of them is in tests/sim.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/exchange.h"
#include "tests/lib/loop_sim.h"
#include "tests/lib/parsed_dist.h"
#include "tests/lib/sim_log.h"
#include "tests/lib/sim_world.h"

enum { RUNS = 200, MS = 1000000 };

static struct campaign_config plain_campaign(uint64_t runs, const char *latency)
{
    struct campaign_config campaign = sim_campaign(runs);
    campaign.latency = latency_of(latency);
    campaign.turns = 1;
    return campaign;
}

/* A campaign run to its end, with what its journal holds. */
struct played {
    struct sim_world *world;
    const struct worker *worker;
    struct model_count count;
    struct sim_log log;
};

static void play_with(struct played *played, const struct campaign_config *campaign,
                      const struct sim_faults *faults)
{
    struct sim_world_config config = {.campaign = *campaign, .ledger_fd = -1};
    if (faults != NULL)
        config.faults = *faults;
    *played = (struct played){.world = aligned_alloc(64, sizeof(struct sim_world))};
    assert_non_null(played->world);
    assert_int_equal(sim_world_open(played->world, &config), 0);
    sim_world_run(played->world);
    assert_string_equal(played->world->fault.text, "");
    played->worker = &played->world->lanes[0].worker;
    played->count = played->worker->env.model_count;
    assert_int_equal(sim_log_read(&played->log, played->world->journal, UINT64_MAX), 0);
    sim_log_sort(&played->log);
}

static void play(struct played *played, const struct campaign_config *campaign)
{
    play_with(played, campaign, NULL);
}

static void clear(struct played *played)
{
    sim_log_free(&played->log);
    sim_world_close(played->world);
    free(played->world);
}

static uint64_t records_of(const struct played *played, enum record_kind kind)
{
    uint64_t count = 0;
    for (size_t i = 0; i < played->log.count; i++)
        count += played->log.records[i].kind == kind;
    return count;
}

static uint64_t outcomes_of(const struct played *played, enum outcome outcome)
{
    return played->worker->runs_by_outcome[outcome];
}

static uint64_t took_ns(const struct played *played)
{
    return played->worker->ended_ns - LOOP_SIM_START_NS;
}

/* --- retries --- */

static void a_call_that_always_fails_is_made_as_often_as_it_may_be(void **state)
{
    (void)state;
    struct played played;
    struct campaign_config campaign = plain_campaign(RUNS, "5ms");
    campaign.model.error_rate = 1;
    campaign.model.rules.retries = 3;
    play(&played, &campaign);
    assert_int_equal(outcomes_of(&played, OUTCOME_FAILED), RUNS);
    assert_int_equal(played.worker->env.model_calls, 4 * RUNS);
    assert_int_equal(played.count.failures, 4 * RUNS);
    assert_int_equal(played.count.retries, 3 * RUNS);
    assert_int_equal(records_of(&played, RECORD_RETRY), 3 * RUNS);
    assert_int_equal(played.count.timeouts + played.count.hedges + played.count.deltas, 0);
    assert_int_equal(played.worker->failed->count, RUNS);
    assert_non_null(strstr(played.worker->env.first_error.text, "the model is overloaded"));
    /* Four calls, and waits of up to 100, 200 and 400 ms: full jitter comes near to neither end. */
    assert_in_range(took_ns(&played), (4 * 5 + 500) * (uint64_t)MS, (4 * 5 + 700) * (uint64_t)MS);
    assert_true(played.worker->failed->min_ns < 200 * (uint64_t)MS);
    assert_true(played.worker->failed->min_ns >= 20 * (uint64_t)MS);
    clear(&played);
}

static void without_retries_the_first_failure_is_the_runs(void **state)
{
    (void)state;
    for (unsigned is_timed = 0; is_timed <= 1; is_timed++) {
        struct played played;
        struct campaign_config campaign = plain_campaign(RUNS, "5ms");
        campaign.model.error_rate = 0.5;
        campaign.model.rules.timeout_ns =
            is_timed ? NS_PER_S : 0; /* with an exchange, and without */
        play(&played, &campaign);
        uint64_t failed = outcomes_of(&played, OUTCOME_FAILED);
        assert_in_range(failed, RUNS / 2 - 50, RUNS / 2 + 50); /* seven deviations */
        assert_int_equal(played.count.failures, failed);
        assert_int_equal(played.count.retries + records_of(&played, RECORD_RETRY), 0);
        assert_int_equal(played.worker->env.model_calls, RUNS);
        clear(&played);
    }
}

static void retried_runs_are_not_among_the_others(void **state)
{
    (void)state;
    struct played played;
    struct campaign_config campaign = plain_campaign(RUNS, "5ms");
    campaign.model.error_rate = 0.3;
    campaign.model.rules.retries = 50;
    play(&played, &campaign);
    assert_int_equal(outcomes_of(&played, OUTCOME_COMPLETED), RUNS);
    assert_int_equal(played.count.failures, played.count.retries);
    assert_int_equal(played.count.retries, records_of(&played, RECORD_RETRY));
    assert_in_range(played.worker->retried->count, RUNS / 10, RUNS / 2);
    assert_int_equal(played.worker->retried->count + played.worker->response->count, RUNS);
    assert_int_equal(played.worker->service->count, played.worker->response->count);
    /* The others answer after the latency, whatever their neighbours have met. */
    assert_in_range(played.worker->response->max_ns, 5 * MS, 6 * MS);
    clear(&played);
}

/* The same seed waits as long again; the waits differ from run to run. */
static void back_off_is_drawn_from_the_seed(void **state)
{
    (void)state;
    uint64_t took[3];
    for (unsigned i = 0; i < 3; i++) {
        struct played played;
        struct campaign_config campaign = plain_campaign(1, "5ms");
        campaign.model.error_rate = 1;
        campaign.model.rules.retries = 2;
        campaign.seed = i == 2 ? 8 : 7;
        play(&played, &campaign);
        took[i] = took_ns(&played);
        clear(&played);
    }
    assert_int_equal(took[0], took[1]);
    assert_int_not_equal(took[0], took[2]);
}

static void back_off_has_a_bound(void **state)
{
    (void)state;
    struct played played;
    struct campaign_config campaign = plain_campaign(RUNS, "0");
    campaign.model.error_rate = 1;
    campaign.model.rules.retries = AGENT_RETRIES_MAX;
    play(&played, &campaign);
    /* 100 waits, of 10 s at the most: the mean of the long ones is half of that. */
    assert_int_equal(played.count.retries, RUNS * (uint64_t)AGENT_RETRIES_MAX);
    assert_in_range(took_ns(&played), 400 * NS_PER_S, 700 * NS_PER_S);
    clear(&played);
}

/* --- too slow --- */

static void a_call_that_takes_too_long_fails(void **state)
{
    (void)state;
    struct played played;
    struct campaign_config campaign = plain_campaign(RUNS, "100ms");
    campaign.model.rules.timeout_ns = 30 * MS;
    campaign.model.rules.retries = 2;
    play(&played, &campaign);
    assert_int_equal(outcomes_of(&played, OUTCOME_FAILED), RUNS);
    assert_int_equal(played.count.timeouts, 3 * RUNS);
    assert_int_equal(played.count.failures, 3 * RUNS);
    assert_non_null(strstr(played.worker->env.first_error.text, "-model-timeout"));
    assert_true(played.worker->failed->min_ns >= 90 * (uint64_t)MS);
    clear(&played);
}

/* One that streams must have come to its end by then. */
static void a_stream_that_takes_too_long_fails(void **state)
{
    (void)state;
    struct played played;
    struct campaign_config campaign = plain_campaign(1, "5ms");
    campaign.model.tokens = 100;
    campaign.model.token_interval_ns = MS;
    campaign.model.rules.timeout_ns = 50 * MS;
    campaign.model.rules.stream_journal = STREAM_JOURNAL_TOKEN;
    play(&played, &campaign);
    assert_int_equal(outcomes_of(&played, OUTCOME_FAILED), 1);
    assert_int_equal(played.count.timeouts, 1);
    assert_in_range(took_ns(&played), 50 * MS, 52 * MS);
    assert_in_range(played.count.deltas, 40, 46);
    clear(&played);
}

/* --- hedges --- */

static void a_rival_of_the_same_latency_comes_too_late(void **state)
{
    (void)state;
    struct played played;
    struct campaign_config campaign = plain_campaign(RUNS, "50ms");
    campaign.model.rules.hedge_ns = 10 * MS;
    play(&played, &campaign);
    assert_int_equal(outcomes_of(&played, OUTCOME_COMPLETED), RUNS);
    assert_int_equal(played.count.hedges, RUNS);
    assert_int_equal(played.count.hedge_wins, 0);
    assert_int_equal(played.count.discarded, RUNS);
    assert_int_equal(played.worker->env.model_calls, 2 * RUNS);
    assert_int_equal(played.worker->response->count, RUNS); /* a hedge is no retry */
    assert_in_range(played.worker->response->max_ns, 50 * MS, 52 * MS);
    clear(&played);
}

static void an_answer_in_time_has_no_rival(void **state)
{
    (void)state;
    struct played played;
    struct campaign_config campaign = plain_campaign(RUNS, "10ms");
    campaign.model.rules.hedge_ns = 50 * MS;
    play(&played, &campaign);
    assert_int_equal(played.count.hedges + played.count.discarded, 0);
    assert_int_equal(played.worker->env.model_calls, RUNS);
    clear(&played);
}

/* Its latency is another draw: with it the slowest are not as slow. What is recorded is the same.
 */
static void the_first_answer_wins(void **state)
{
    (void)state;
    struct played plain;
    struct played hedged;
    struct campaign_config campaign = plain_campaign(RUNS, "uniform:0ms,1s");
    play(&plain, &campaign);
    campaign.model.rules.hedge_ns = 100 * MS;
    play(&hedged, &campaign);
    assert_in_range(hedged.count.hedges, RUNS / 2, RUNS);
    assert_int_equal(hedged.count.discarded, hedged.count.hedges);
    assert_in_range(hedged.count.hedge_wins, hedged.count.hedges / 4, hedged.count.hedges * 3 / 4);
    assert_true(hedged.worker->response->sum_ns < plain.worker->response->sum_ns * 8 / 10);
    assert_int_equal(sim_log_digest(&hedged.log), sim_log_digest(&plain.log));
    clear(&plain);
    clear(&hedged);
}

/* Where the first fails while the rival is at it, the rival may yet answer: only when both have
 * failed has the try. */
static void a_rival_may_save_the_try(void **state)
{
    (void)state;
    struct played played;
    struct campaign_config campaign = plain_campaign(RUNS, "50ms");
    campaign.model.error_rate = 0.5;
    campaign.model.rules.hedge_ns = 10 * MS;
    play(&played, &campaign);
    uint64_t failed = outcomes_of(&played, OUTCOME_FAILED);
    assert_in_range(failed, RUNS / 4 - 40, RUNS / 4 + 40);
    assert_int_equal(played.count.failures, failed);
    /* Those that the rival has saved, and those whose rival was not needed. */
    assert_int_equal(played.count.hedges, RUNS);
    assert_int_equal(played.count.hedge_wins + played.count.discarded + failed, RUNS);
    assert_in_range(played.count.hedge_wins, RUNS / 4 - 40, RUNS / 4 + 40);
    clear(&played);
}

/* --- streams --- */

/* The text between two marks, in the payload; NULL when they are not there. */
static const char *text_of(const char *payload, const char *before, size_t *size)
{
    const char *start = strstr(payload, before);
    if (start == NULL)
        return NULL;
    start += strlen(before);
    *size = strcspn(start, "\"");
    return start;
}

/* The deltas since the last reply, joined, are how the next one begins; returns their bytes. */
static size_t assert_deltas_are_of_replies(const struct sim_log *log)
{
    char streamed[8192] = "";
    size_t bytes = 0;
    size_t all = 0;
    for (size_t i = 0; i < log->count; i++) {
        const char *payload = sim_log_payload(log, &log->records[i]);
        size_t size = 0;
        if (log->records[i].kind == RECORD_DELTA) {
            const char *text = text_of(payload, "\"text\":\"", &size);
            assert_non_null(text);
            assert_true(size > 0 && bytes + size < sizeof(streamed));
            memcpy(streamed + bytes, text, size);
            bytes += size;
            all += size;
        } else if (log->records[i].kind == RECORD_MODEL) {
            const char *text = text_of(payload, "\"content\":\"", &size);
            assert_true(bytes <= size);
            assert_memory_equal(text, streamed, bytes);
            bytes = 0;
        }
    }
    return all;
}

static struct campaign_config streaming_campaign(uint64_t runs, enum stream_journal mode)
{
    struct campaign_config campaign = sim_campaign(runs);
    campaign.latency = latency_of("5ms");
    campaign.model.tokens = 200;
    campaign.model.token_interval_ns = 2 * MS;
    campaign.model.rules.stream_journal = mode;
    return campaign;
}

static void each_token_is_recorded_when_the_journal_keeps_up(void **state)
{
    (void)state;
    struct played played;
    const struct campaign_config campaign = streaming_campaign(3, STREAM_JOURNAL_TOKEN);
    play(&played, &campaign);
    assert_int_equal(outcomes_of(&played, OUTCOME_COMPLETED), 3);
    /* But for the last: it comes together with the end, which holds them all. */
    assert_in_range(played.count.deltas, 3 * 2 * 199, 3 * 2 * 200);
    assert_int_equal(played.count.deltas, records_of(&played, RECORD_DELTA));
    (void)assert_deltas_are_of_replies(&played.log);
    assert_int_equal(played.worker->token_lag->count, 3 * 2 * 200);
    clear(&played);
}

/* A slow journal holds up neither the stream nor the reply; tokens share records. */
static void tokens_share_records_when_the_journal_is_slow(void **state)
{
    (void)state;
    struct played played;
    const struct sim_faults faults = {.seed = 1, .delay_ns_max = 20 * MS, .stall_ns = 200 * MS};
    const struct campaign_config campaign = streaming_campaign(10, STREAM_JOURNAL_TOKEN);
    play_with(&played, &campaign, &faults);
    assert_int_equal(outcomes_of(&played, OUTCOME_COMPLETED), 10);
    assert_in_range(played.count.deltas, 200, 10 * 2 * 150);
    (void)assert_deltas_are_of_replies(&played.log);
    assert_true(played.worker->token_lag->max_ns < 2 * (uint64_t)MS);
    clear(&played);
}

static void coalesced_pieces_are_of_as_many_characters(void **state)
{
    (void)state;
    struct played played;
    const struct campaign_config campaign = streaming_campaign(5, STREAM_JOURNAL_COALESCED);
    play(&played, &campaign);
    /* 200 tokens of four bytes, two replies a run. */
    assert_in_range(played.count.deltas, 5 * 2 * 3, 5 * 2 * 4);
    size_t bytes = assert_deltas_are_of_replies(&played.log);
    assert_in_range(bytes / played.count.deltas, COALESCE_CHARS_MAX, COALESCE_CHARS_MAX + 8);
    clear(&played);
}

/* Slow tokens are recorded by the timers: 800 ms idle, or 3 s since the first. */
static void coalesced_pieces_wait_no_longer_than_they_may(void **state)
{
    (void)state;
    struct played played;
    struct campaign_config campaign = streaming_campaign(1, STREAM_JOURNAL_COALESCED);
    campaign.turns = 1;
    campaign.model.tokens = 10;
    campaign.model.token_interval_ns = 2 * NS_PER_S; /* each is idle for 800 ms */
    play(&played, &campaign);
    assert_int_equal(played.count.deltas, 9); /* the last comes with the end */
    clear(&played);
    campaign.model.tokens = 21;
    campaign.model.token_interval_ns = 500 * MS; /* never idle: 3 s hold six or seven */
    play(&played, &campaign);
    assert_int_equal(played.count.deltas, 3);
    clear(&played);
}

static void nothing_is_recorded_of_a_stream_unless_it_is_asked_for(void **state)
{
    (void)state;
    struct played played;
    const struct campaign_config campaign = streaming_campaign(2, STREAM_JOURNAL_NONE);
    play(&played, &campaign);
    assert_int_equal(played.log.count, 2 * 6);
    assert_int_equal(played.worker->token_lag->count, 2 * 2 * 200);
    clear(&played);
}

/* What a try has streamed before it failed is not in the history of the next. */
static void a_try_that_fails_in_mid_stream_leaves_nothing(void **state)
{
    (void)state;
    struct played slow;
    struct played plain;
    struct campaign_config campaign = streaming_campaign(RUNS, STREAM_JOURNAL_NONE);
    campaign.latency = latency_of("uniform:0ms,100ms");
    campaign.model.tokens = 20;
    play(&plain, &campaign);
    campaign.model.rules.timeout_ns = 80 * MS; /* 40 ms of it are the stream's */
    campaign.model.rules.retries = 60;
    play(&slow, &campaign);
    assert_true(slow.count.timeouts > RUNS / 4);
    assert_int_equal(outcomes_of(&slow, OUTCOME_COMPLETED), RUNS);
    size_t at = 0;
    for (size_t i = 0; i < slow.log.count; i++) { /* all but the retries, and the end's count */
        const struct sim_record *record = &slow.log.records[i];
        if (record->kind == RECORD_RETRY)
            continue;
        if (record->kind == RECORD_MODEL)
            assert_string_equal(sim_log_payload(&slow.log, record),
                                sim_log_payload(&plain.log, &plain.log.records[at]));
        at++;
    }
    assert_int_equal(at, plain.log.count);
    clear(&slow);
    clear(&plain);
}

/* -timeout comes while a delta is on its way, and the reply's end is held behind it. */
static void a_run_that_times_out_in_mid_stream_ends_once(void **state)
{
    (void)state;
    struct played played;
    const struct sim_faults faults = {.seed = 3, .delay_ns_max = 50 * MS, .stall_ns = 300 * MS};
    struct campaign_config campaign = streaming_campaign(RUNS, STREAM_JOURNAL_TOKEN);
    campaign.timeout_ns = 500 * MS;
    play_with(&played, &campaign, &faults);
    uint64_t timeouts = outcomes_of(&played, OUTCOME_TIMEOUT);
    assert_true(timeouts > RUNS / 4);
    assert_int_equal(timeouts + outcomes_of(&played, OUTCOME_COMPLETED), RUNS);
    assert_int_equal(records_of(&played, RECORD_END), RUNS);
    clear(&played);
}

/* The record of the last token but one, after 300 ms, takes until 500 ms, and the reply, after
 * 400 ms, is held behind it. That wait is the journal's; also where -timeout comes before the
 * reply, or before the record. */
static void a_wait_for_a_delta_is_the_journals_when_nothing_else_is_to_come(void **state)
{
    static const struct {
        uint64_t timeout_ms;
        uint64_t slot_ms;
        uint64_t journal_ms;
    } cases[] = {{0, 500, 100}, {350, 500, 150}, {450, 500, 100}, {250, 250, 0}};
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct played played;
        const struct sim_faults faults = {.freeze_at_ns = LOOP_SIM_START_NS + 290 * MS,
                                          .freeze_ns = 210 * MS};
        struct campaign_config campaign = plain_campaign(RUNS, "0ms");
        campaign.model.tokens = 5; /* after 0, 100, … 400 ms */
        campaign.model.token_interval_ns = 100 * MS;
        campaign.model.rules.stream_journal = STREAM_JOURNAL_TOKEN;
        campaign.timeout_ns = cases[i].timeout_ms * MS;
        play_with(&played, &campaign, &faults);
        uint64_t slot_ns = played.worker->slot_ns / RUNS;
        uint64_t journal_ns = played.worker->slot_journal_ns / RUNS;
        assert_in_range(slot_ns, cases[i].slot_ms * MS, (cases[i].slot_ms + 6) * MS);
        assert_in_range(journal_ns, (cases[i].journal_ms - (cases[i].journal_ms > 0)) * MS,
                        (cases[i].journal_ms + 1) * MS);
        clear(&played);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_that_always_fails_is_made_as_often_as_it_may_be),
        cmocka_unit_test(without_retries_the_first_failure_is_the_runs),
        cmocka_unit_test(retried_runs_are_not_among_the_others),
        cmocka_unit_test(back_off_is_drawn_from_the_seed),
        cmocka_unit_test(back_off_has_a_bound),
        cmocka_unit_test(a_call_that_takes_too_long_fails),
        cmocka_unit_test(a_stream_that_takes_too_long_fails),
        cmocka_unit_test(a_rival_of_the_same_latency_comes_too_late),
        cmocka_unit_test(an_answer_in_time_has_no_rival),
        cmocka_unit_test(the_first_answer_wins),
        cmocka_unit_test(a_rival_may_save_the_try),
        cmocka_unit_test(each_token_is_recorded_when_the_journal_keeps_up),
        cmocka_unit_test(tokens_share_records_when_the_journal_is_slow),
        cmocka_unit_test(coalesced_pieces_are_of_as_many_characters),
        cmocka_unit_test(coalesced_pieces_wait_no_longer_than_they_may),
        cmocka_unit_test(nothing_is_recorded_of_a_stream_unless_it_is_asked_for),
        cmocka_unit_test(a_try_that_fails_in_mid_stream_leaves_nothing),
        cmocka_unit_test(a_run_that_times_out_in_mid_stream_ends_once),
        cmocka_unit_test(a_wait_for_a_delta_is_the_journals_when_nothing_else_is_to_come),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
