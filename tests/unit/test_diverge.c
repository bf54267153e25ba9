/*
 * A run that is put before records which are not its own stops there: nothing is appended, no model
 * asked, no tool run. One whose records say that it had failed ends so.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/digest.h"
#include "tests/lib/cut_run.h"
#include "tests/lib/loop_sim.h"
#include "tests/lib/parsed_dist.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

enum { RECORDS_MAX = 200 };

/* --- a run that its records are put before --- */

enum { SLOT_BYTES = 8192 };

/* The records of a run, to be changed. */
struct story {
    struct recovered_run run;
    struct recovered_record records[RECORDS_MAX];
    char bytes[RECORDS_MAX][SLOT_BYTES];
};

static void story_read(struct story *story, const struct sim_log *log, size_t count)
{
    size_t first = cut_first(log, CUT_RUN);
    for (size_t i = 0; i < count; i++) {
        const struct sim_record *record = &log->records[first + i];
        assert_true(record->bytes < SLOT_BYTES);
        memcpy(story->bytes[i], sim_log_payload(log, record), record->bytes + 1);
        story->records[i] = (struct recovered_record){.digest = record->digest,
                                                      .seq = record->seq,
                                                      .kind = record->kind,
                                                      .offset = (uint32_t)(i * SLOT_BYTES),
                                                      .bytes = record->bytes};
    }
    story->run = (struct recovered_run){
        .run = CUT_RUN, .records = story->records, .count = count, .bytes = story->bytes[0]};
}

/* As if it had been written so. */
static void story_seal(struct story *story)
{
    uint64_t digest = DIGEST_START;
    for (size_t i = 0; i < story->run.count; i++) {
        digest = digest_chain(digest, story->bytes[i], story->records[i].bytes);
        story->records[i].digest = digest;
    }
}

static void story_replace(struct story *story, size_t i, const char *from, const char *to)
{
    char *at = strstr(story->bytes[i], from);
    assert_non_null(at);
    char rest[SLOT_BYTES];
    (void)snprintf(rest, sizeof(rest), "%s", at + strlen(from));
    size_t used = (size_t)(at - story->bytes[i]);
    (void)snprintf(at, SLOT_BYTES - used, "%s%s", to, rest);
    story->records[i].bytes = (uint32_t)strlen(story->bytes[i]);
    story_seal(story);
}

/* A worker of one slot whose run is put before the story; it has not been driven yet. */
struct bench {
    struct campaign_config campaign;
    struct journal *journal;
    struct load load;
    struct worker worker;
};

static void bench_open(struct bench *b, const struct campaign_config *campaign)
{
    struct errmsg why;
    memset(b, 0, sizeof(*b));
    b->campaign = *campaign;
    b->journal = sim_world_journal(campaign, &why);
    assert_non_null(b->journal);
    load_init(&b->load, 0, UINT64_MAX);
    b->worker = (struct worker){
        .config = &b->campaign,
        .loop_ops = &loop_sim_ops,
        .journal = b->journal,
        .load = &b->load,
        .count = 1,
        .slots = 1,
        .pool_bytes_max = 1 << 24,
        .shape = {.seed = campaign->seed,
                  .prompt_bytes = campaign_dist_if_given(&b->campaign.prompt_bytes),
                  .turns = campaign->turns,
                  .tools = campaign->tools,
                  .tool_effect = campaign->tool_effect,
                  .history = campaign->history,
                  .tool_latency = campaign->tool_latency,
                  .ledger_fd = -1},
    };
    assert_int_equal(worker_open(&b->worker, &why), 0);
}

static void bench_close(struct bench *b)
{
    worker_close(&b->worker);
    journal_close(b->journal);
}

static void assert_diverged(const struct campaign_config *campaign, const struct story *story,
                            uint32_t seq, const char *why)
{
    char expected[256];
    struct bench *b = aligned_alloc(64, (sizeof(*b) + 63) / 64 * 64);
    assert_non_null(b);
    bench_open(b, campaign);
    struct run *run = &b->worker.runs[0];
    run_resume(run, &b->worker.env, &story->run, LOOP_SIM_START_NS, LOOP_SIM_START_NS);
    (void)snprintf(expected, sizeof(expected), "run 2: diverged at seq %u: %s", seq, why);
    assert_string_equal(b->worker.env.first_error.text, expected);
    assert_int_equal(run->agent.state, AGENT_ENDED);
    assert_int_equal(b->worker.runs_by_outcome[OUTCOME_DIVERGED], 1);
    assert_int_equal(b->worker.env.model_calls, 0);
    assert_int_equal(b->worker.env.tool_calls, 0);
    assert_false(journal_is_busy(b->worker.env.journal));
    bench_close(b);
    free(b);
}

static const char not_its_begin[] = "it is not the begin that this run would write";
static const char not_its_request[] =
    "the request that it answers is not the one that this run would make";
static const char not_its_digest[] =
    "its digest does not follow from its bytes and the record before it";
static const char not_its_call[] = "it is not the call that the model asked for";
static const char not_its_history[] = "it does not hold the history as this run would keep it";

/* The records of a shape's run but the end. */
static struct story *tell(const struct campaign_config *campaign)
{
    struct cut_told told;
    struct sim_log whole = {0};
    struct sim_world_config config = {.campaign = *campaign};
    struct story *story = calloc(1, sizeof(*story));
    assert_non_null(story);
    cut_world(&told, &config, &whole);
    story_read(story, &whole, sim_log_run_length(&whole, cut_first(&whole, CUT_RUN)) - 1);
    sim_log_free(&whole);
    return story;
}

static void another_campaign_diverges_at_its_begin(void **state)
{
    (void)state;
    const struct campaign_config campaign = cut_campaign(&cut_shapes[CUT_DEFAULT]);
    struct story *story = tell(&campaign);
    struct campaign_config other = campaign;
    other.seed++;
    assert_diverged(&other, story, 0, not_its_begin);
    other = campaign;
    other.turns++;
    assert_diverged(&other, story, 0, not_its_begin);
    other = campaign;
    other.tools++;
    assert_diverged(&other, story, 0, not_its_begin);
    other = campaign;
    other.tool_effect = TOOL_EFFECT_LEDGER;
    assert_diverged(&other, story, 0, not_its_begin);
    other = campaign;
    other.prompt_bytes = parsed_dist("100B", DIST_BYTES);
    assert_diverged(&other, story, 0, not_its_begin);
    other = campaign;
    other.history = HISTORY_SNAPSHOT;
    assert_diverged(&other, story, 1, not_its_history);
    free(story);
}

static void changed_records_diverge_where_they_are(void **state)
{
    (void)state;
    static const struct {
        uint32_t at;
        const char *from;
        const char *to;
        uint32_t seq;
        const char *why;
    } changes[] = {
        {0, "Where", "There", 0, not_its_begin},
        {1, "\"request\":\"", "\"request\":\"0", 1, "a digest that is none"},
        {1, "noop", "nope", 2, not_its_call},
        {1, "\"order\":", "\"order\":1", 2, not_its_call},
        {1, "\"content\":\"", "\"content\":\"x", 4, not_its_request},
        {2, "noop", "nope", 2, not_its_call},
        {2, "\"order\":", "\"order\":1", 2, not_its_call},
        {2, "\"call\":\"c1", "\"call\":\"c2", 2, "the last reply did not ask for this call"},
        {2, "\"attempt\":1", "\"attempt\":2", 2,
         "the number of the attempt is not one more than before"},
        {3, "\"result\":\"", "\"result\":\"x", 4, not_its_request},
        {3, "\"result\":", "\"error\":", 4, "the run had failed"},
        {3, "}", "} ", 3, "text behind the record"},
        {4, "\"finish\":\"stop", "\"finish\":\"tool_calls", 4,
         "a finish reason that does not fit the tool calls"},
    };
    const struct campaign_config campaign = cut_campaign(&cut_shapes[CUT_DEFAULT]);
    struct story *good = tell(&campaign);
    struct story *story = calloc(1, sizeof(*story));
    assert_non_null(story);
    for (size_t i = 0; i < COUNT_OF(changes); i++) {
        memcpy(story, good, sizeof(*story));
        story->run.records = story->records;
        story->run.bytes = story->bytes[0];
        story_replace(story, changes[i].at, changes[i].from, changes[i].to);
        assert_diverged(&campaign, story, changes[i].seq, changes[i].why);
    }
    free(story);
    free(good);
}

static void damage_and_gaps_diverge(void **state)
{
    (void)state;
    const struct campaign_config campaign = cut_campaign(&cut_shapes[CUT_DEFAULT]);
    struct story *story = tell(&campaign);
    for (uint32_t i = 0; i < story->run.count; i++) {
        story->bytes[i][20] ^= 1;
        assert_diverged(&campaign, story, i, not_its_digest);
        story->bytes[i][20] ^= 1;
        story->records[i].digest ^= 1;
        assert_diverged(&campaign, story, i, not_its_digest);
        story->records[i].digest ^= 1;
        story->records[i].seq += 2;
        assert_diverged(&campaign, story, i + 2, "records before it are missing");
        story->records[i].seq -= 2;
    }
    story->records[3].seq = 1;
    assert_diverged(&campaign, story, 1, "a record of this seq was there before");
    story->records[3].seq = 3;
    story->records[2].kind = 9;
    assert_diverged(&campaign, story, 2, "a record of an unknown kind");
    story->run.count = 0;
    assert_diverged(&campaign, story, 0, "it is not there");
    free(story);
}

static void assert_stopped(struct bench *b, const struct recovered_run *recovered,
                           enum outcome outcome, const char *reason)
{
    struct run *run = &b->worker.runs[0];
    run_resume(run, &b->worker.env, recovered, LOOP_SIM_START_NS, LOOP_SIM_START_NS);
    assert_string_equal(b->worker.env.first_error.text, reason);
    assert_int_equal(run->agent.state, AGENT_ENDED);
    assert_int_equal(b->worker.runs_by_outcome[outcome], 1);
    assert_int_equal(b->worker.env.model_calls + b->worker.env.tool_calls, 0);
    assert_false(b->worker.env.has_store_failed);
    assert_false(journal_is_busy(b->worker.env.journal));
}

/* It may be the very run: nothing is said of it, and it can be resumed another time. */
static void without_memory_a_run_stays_as_it_is(void **state)
{
    (void)state;
    const struct campaign_config campaign = cut_campaign(&cut_shapes[CUT_DEFAULT]);
    struct story *story = tell(&campaign);
    struct bench *b = aligned_alloc(64, (sizeof(*b) + 63) / 64 * 64);
    assert_non_null(b);
    bench_open(b, &campaign);
    b->worker.env.pool.bytes_max = 0;
    assert_stopped(b, &story->run, OUTCOME_JOURNAL, "run 2: at seq 0: no memory for the history");
    bench_close(b);
    free(b);
    free(story);
}

static void what_cannot_be_read_diverges(void **state)
{
    (void)state;
    const struct campaign_config campaign = cut_campaign(&cut_shapes[CUT_DEFAULT]);
    const struct recovered_run run = {.run = CUT_RUN, .bytes = "", .fault = "it is damaged"};
    struct bench *b = aligned_alloc(64, (sizeof(*b) + 63) / 64 * 64);
    assert_non_null(b);
    bench_open(b, &campaign);
    assert_stopped(b, &run, OUTCOME_DIVERGED,
                   "run 2: diverged: its records cannot be read: it is damaged");
    bench_close(b);
    free(b);
}

/* A request digest of another request, chained as if it had been written so. */
static void another_request_diverges(void **state)
{
    (void)state;
    const struct campaign_config campaign = cut_campaign(&cut_shapes[CUT_DEFAULT]);
    struct story *story = tell(&campaign);
    static const uint32_t models[] = {1, 4};
    for (size_t i = 0; i < COUNT_OF(models); i++) {
        char *digit = strstr(story->bytes[models[i]], "\"request\":\"") + 11;
        char kept = *digit;
        *digit = kept == '0' ? '1' : '0';
        story_seal(story);
        assert_diverged(&campaign, story, models[i], not_its_request);
        *digit = kept;
        story_seal(story);
    }
    free(story);
}

/* All messages that a snapshot holds are the run's, not only the last one. */
static void another_snapshot_diverges(void **state)
{
    (void)state;
    const struct campaign_config campaign = cut_campaign(&cut_shapes[CUT_SNAPSHOTS]);
    struct story *story = tell(&campaign);
    story_replace(story, 1, "Where", "There");
    assert_diverged(&campaign, story, 1, not_its_history);
    free(story);
}

static void a_tool_that_failed_ends_the_resumed_run(void **state)
{
    (void)state;
    struct campaign_config campaign = cut_campaign(&cut_shapes[CUT_MANY_EFFECTS]);
    struct story *story = tell(&campaign);
    struct bench *b = aligned_alloc(64, (sizeof(*b) + 63) / 64 * 64);
    assert_non_null(b);
    bench_open(b, &campaign);
    story->run.count = 7; /* begin, model, four attempts, a result */
    assert_int_equal(story->records[6].kind, RECORD_TOOL);
    story_replace(story, 6, "\"result\":\"", "\"error\":\"no \\\"paper\\\": ");
    run_resume(&b->worker.runs[0], &b->worker.env, &story->run, 0, LOOP_SIM_START_NS);
    struct run *run = &b->worker.runs[0];
    assert_int_equal(run->agent.state, AGENT_ENDING);
    assert_int_equal(run->agent.outcome, OUTCOME_FAILED);
    assert_int_equal(b->worker.env.tool_calls, 0);
    assert_non_null(strstr(b->worker.env.first_error.text, ": no \"paper\": Order "));
    assert_int_equal(strncmp(b->worker.env.first_error.text, "run 2: tool call c", 18), 0);
    run_abandon(run, LOOP_SIM_START_NS);
    bench_close(b);
    free(b);
    free(story);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_campaign_diverges_at_its_begin),
        cmocka_unit_test(changed_records_diverge_where_they_are),
        cmocka_unit_test(damage_and_gaps_diverge),
        cmocka_unit_test(without_memory_a_run_stays_as_it_is),
        cmocka_unit_test(what_cannot_be_read_diverges),
        cmocka_unit_test(another_request_diverges),
        cmocka_unit_test(another_snapshot_diverges),
        cmocka_unit_test(a_tool_that_failed_ends_the_resumed_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
