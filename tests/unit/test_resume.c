/*
 * A run that was cut off behind each of its records is resumed: it must write what it would have
 * written, and do nothing again that is recorded.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/cut_run.h"
#include "tests/lib/parsed_dist.h"

enum { RECORDS_MAX = 200 };

/* --- what must be there --- */

static unsigned count_kind(const struct sim_record *records, size_t count, enum record_kind kind)
{
    unsigned sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += records[i].kind == kind;
    return sum;
}

/* Whether a call of the last turn has been attempted, and has no result: each but the last turn
 * has calls, each of which is attempted once. */
static bool is_in_doubt(const struct campaign_config *campaign, const struct sim_record *records,
                        size_t count)
{
    unsigned attempts = count_kind(records, count, RECORD_ATTEMPT);
    return campaign->tool_effect != TOOL_EFFECT_NONE &&
           attempts > count_kind(records, count, RECORD_TOOL);
}

static void assert_same_records(const struct sim_log *log, const struct sim_log *whole,
                                size_t first, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct sim_record *is = &log->records[i];
        const struct sim_record *was = &whole->records[first + i];
        assert_int_equal(is->run, was->run);
        assert_int_equal(is->seq, was->seq);
        assert_int_equal(is->kind, was->kind);
        assert_int_equal(is->digest, was->digest);
        assert_int_equal(is->bytes, was->bytes);
        assert_memory_equal(sim_log_payload(log, is), sim_log_payload(whole, was), is->bytes);
    }
}

/* Each line of the ledger is of a call that has no result in the prefix, and is there once. */
static void check_ledger(const struct cut_told *told, const struct campaign_config *campaign,
                         const struct sim_log *whole, size_t count)
{
    unsigned lines = 0;
    size_t first = cut_first(whole, CUT_RUN);
    char ledger[CUT_LEDGER_BYTES_MAX];
    char *rest = NULL;
    memcpy(ledger, told->ledger, sizeof(ledger));
    for (char *line = strtok_r(ledger, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest), lines++) {
        unsigned run = 0;
        unsigned call = 0;
        unsigned attempt = 0;
        char start[32];
        assert_int_equal(sscanf(line, "%u c%u %u", &run, &call, &attempt), 3);
        assert_int_equal(run, CUT_RUN);
        assert_in_range(attempt, 1, campaign->tool_retry == AGENT_RETRY_HALT ? 1 : 2);
        (void)snprintf(start, sizeof(start), "{\"call\":\"c%u\",\"result", call);
        for (size_t i = 0; i < count; i++)
            assert_null(strstr(sim_log_payload(whole, &whole->records[first + i]), start));
        for (const char *at = told->ledger; (at = strstr(at, line)) != NULL; at++)
            assert_true(at == strstr(told->ledger, line));
    }
    bool has_ledger = campaign->tool_effect == TOOL_EFFECT_LEDGER;
    assert_int_equal(lines, has_ledger ? told->tool_calls : 0);
}

static void check_halted(const struct cut_told *told, const struct sim_log *log,
                         const struct sim_log *whole, size_t count)
{
    static const char reason[] =
        " was attempted and its result is not recorded: its outcome is unknown";
    assert_int_equal(told->by_outcome[OUTCOME_UNKNOWN], 1);
    assert_int_equal(told->model_calls, 0);
    assert_int_equal(told->tool_calls, 0);
    assert_int_equal(log->count, count + 1);
    assert_same_records(log, whole, cut_first(whole, CUT_RUN), count);
    assert_int_equal(log->records[count].kind, RECORD_END);
    assert_non_null(
        strstr(sim_log_payload(log, &log->records[count]), "{\"outcome\":\"unknown\","));
    assert_int_equal(strncmp(told->first_error, "run 2: tool call c", 18), 0);
    assert_non_null(strstr(told->first_error, reason));
}

/* All replies and results are those of the run that nothing interrupted, in their order; between
 * them stand second attempts of what was in doubt. */
static void check_retried(const struct cut_told *told, const struct sim_log *log,
                          const struct sim_log *whole, size_t count)
{
    size_t first = cut_first(whole, CUT_RUN);
    size_t was = first + count;
    unsigned again = 0;
    assert_same_records(log, whole, first, count);
    assert_int_equal(told->by_outcome[OUTCOME_COMPLETED], 1);
    for (size_t i = count; i + 1 < log->count; i++) {
        const struct sim_record *record = &log->records[i];
        const char *payload = sim_log_payload(log, record);
        if (record->kind == RECORD_ATTEMPT && strstr(payload, "\"attempt\":2,") != NULL) {
            again++;
            continue;
        }
        /* First attempts of a pass that was cut off come after the second ones. */
        if (record->kind == RECORD_ATTEMPT)
            continue;
        while (whole->records[was].kind == RECORD_ATTEMPT)
            was++;
        assert_string_equal(payload, sim_log_payload(whole, &whole->records[was]));
        was++;
    }
    assert_int_equal(whole->records[was].kind, RECORD_END);
    unsigned answered = count_kind(log->records, count, RECORD_TOOL);
    assert_int_equal(again, count_kind(log->records, count, RECORD_ATTEMPT) - answered);
}

static void check_resumed(const struct campaign_config *campaign, const struct sim_log *whole,
                          size_t count, size_t all)
{
    struct cut_told told;
    struct sim_log log = {0};
    size_t first = cut_first(whole, CUT_RUN);
    const struct sim_record *records = &whole->records[first];
    bool is_doubtful = is_in_doubt(campaign, records, count);
    cut_resume(&told, campaign, whole, count, &log);
    assert_int_equal(told.resumed, count < all);
    assert_int_equal(told.appended, log.count - count);
    check_ledger(&told, campaign, whole, count);
    if (is_doubtful && campaign->tool_retry == AGENT_RETRY_HALT) {
        check_halted(&told, &log, whole, count);
    } else {
        assert_int_equal(told.model_calls, count_kind(records, all, RECORD_MODEL) -
                                               count_kind(records, count, RECORD_MODEL));
        assert_int_equal(told.tool_calls, count_kind(records, all, RECORD_TOOL) -
                                              count_kind(records, count, RECORD_TOOL));
        assert_string_equal(told.first_error, "");
        assert_int_equal(told.by_outcome[OUTCOME_COMPLETED], count < all);
        if (is_doubtful) {
            check_retried(&told, &log, whole, count);
        } else {
            assert_int_equal(log.count, all);
            assert_same_records(&log, whole, first, all);
        }
    }
    sim_log_free(&log);
}

static void a_run_cut_off_anywhere_goes_on_as_if_it_had_not_been(void **state)
{
    (void)state;
    for (size_t i = 0; i < CUT_SHAPES; i++) {
        struct cut_told told;
        struct sim_log whole = {0};
        struct sim_world_config config = {.campaign = cut_campaign(&cut_shapes[i])};
        cut_world(&told, &config, &whole);
        assert_int_equal(told.by_outcome[OUTCOME_COMPLETED], CUT_RUNS);
        size_t all = sim_log_run_length(&whole, cut_first(&whole, CUT_RUN));
        assert_in_range(all, 3, RECORDS_MAX);
        for (size_t count = 1; count <= all; count++) {
            for (unsigned retry = AGENT_RETRY_HALT; retry <= AGENT_RETRY_UNKNOWN; retry++) {
                config.campaign.tool_retry = (enum agent_retry)retry;
                check_resumed(&config.campaign, &whole, count, all);
            }
        }
        sim_log_free(&whole);
    }
}

/* Resumed again behind each of the records of a resumed run. */
static void a_run_may_be_cut_off_again_and_again(void **state)
{
    (void)state;
    struct cut_told told;
    struct sim_log whole = {0};
    struct sim_world_config config = {.campaign = cut_campaign(&cut_shapes[CUT_MANY_EFFECTS])};
    config.campaign.tool_retry = AGENT_RETRY_UNKNOWN;
    cut_world(&told, &config, &whole);
    size_t count = 1;
    for (unsigned round = 0; round < 60; round++) {
        struct sim_log log = {0};
        cut_resume(&told, &config.campaign, &whole, count, &log);
        assert_int_equal(told.by_outcome[OUTCOME_COMPLETED], 1);
        sim_log_free(&whole);
        whole = log;
        if (count + 2 < log.count && round % 3 == 0)
            count++; /* else again behind the same record, of which there are more attempts now */
    }
    sim_log_free(&whole);
}

/* The result of a tool is the last straw: the live run fails then, and so does the resumed one. */
static void a_conversation_that_grew_too_long_ends_the_resumed_run(void **state)
{
    (void)state;
    struct cut_told told;
    struct sim_log whole = {0};
    struct sim_log log = {0};
    struct sim_world_config config = {.campaign = cut_campaign(&cut_shapes[CUT_DEFAULT])};
    size_t all = 0;
    config.campaign.runs = 3;
    config.campaign.concurrency = 1;
    for (unsigned less = 100; all != 5; less += 15) {
        char spec[32];
        assert_true(less < 600);
        sim_log_free(&whole);
        (void)snprintf(spec, sizeof(spec), "%uB", (JOURNAL_PAYLOAD_BYTES_MAX - less) / 2);
        config.campaign.prompt_bytes = parsed_dist(spec, DIST_BYTES);
        config.campaign.reply_bytes = config.campaign.prompt_bytes;
        cut_world(&told, &config, &whole);
        all = sim_log_run_length(&whole, cut_first(&whole, CUT_RUN));
    }
    size_t first = cut_first(&whole, CUT_RUN);
    assert_int_equal(whole.records[first + 3].kind, RECORD_TOOL);
    assert_non_null(strstr(told.first_error, "the conversation is longer than 16 MiB"));
    config.campaign.memory_bytes_max = UINT64_C(512) << 20;
    cut_resume(&told, &config.campaign, &whole, 4, &log);
    assert_int_equal(told.by_outcome[OUTCOME_FAILED], 1);
    assert_string_equal(told.first_error, "run 2: the conversation is longer than 16 MiB");
    assert_int_equal(log.count, 5);
    assert_same_records(&log, &whole, first, 5);
    sim_log_free(&log);
    sim_log_free(&whole);
}

static void a_resumed_run_may_time_out(void **state)
{
    (void)state;
    struct cut_told told;
    struct sim_log whole = {0};
    struct sim_log log = {0};
    struct sim_world_config config = {.campaign = cut_campaign(&cut_shapes[CUT_DEFAULT])};
    cut_world(&told, &config, &whole);
    config.campaign.latency = latency_of("1h");
    config.campaign.timeout_ns = NS_PER_S;
    cut_resume(&told, &config.campaign, &whole, 4, &log);
    assert_int_equal(told.by_outcome[OUTCOME_TIMEOUT], 1);
    assert_string_equal(told.first_error, "run 2: -timeout is over");
    assert_int_equal(log.count, 5);
    sim_log_free(&log);
    sim_log_free(&whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_cut_off_anywhere_goes_on_as_if_it_had_not_been),
        cmocka_unit_test(a_run_may_be_cut_off_again_and_again),
        cmocka_unit_test(a_conversation_that_grew_too_long_ends_the_resumed_run),
        cmocka_unit_test(a_resumed_run_may_time_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
