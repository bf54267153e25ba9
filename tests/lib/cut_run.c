/* cut_run: see cut_run.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/base/digest.h"
#include "engine/verify.h"
#include "tests/lib/cut_run.h"
#include "tests/lib/loop_sim.h"
#include "tests/lib/parsed_dist.h"

const struct cut_shape cut_shapes[CUT_SHAPES] = {
    {"default", 2, 1, TOOL_EFFECT_NOOP, HISTORY_DELTA, "0", NULL, NULL},
    {"one turn", 1, 1, TOOL_EFFECT_NOOP, HISTORY_DELTA, "0", NULL, NULL},
    {"read-only", 3, 1, TOOL_EFFECT_NONE, HISTORY_DELTA, "0", NULL, NULL},
    {"ledger", 2, 1, TOOL_EFFECT_LEDGER, HISTORY_DELTA, "1ms", NULL, NULL},
    {"many tools", 4, 5, TOOL_EFFECT_NONE, HISTORY_DELTA, "uniform:1ms,90ms", NULL, NULL},
    {"many effects", 3, 4, TOOL_EFFECT_LEDGER, HISTORY_DELTA, "uniform:1ms,90ms", NULL, NULL},
    {"many at once", 3, 4, TOOL_EFFECT_NOOP, HISTORY_DELTA, "0", NULL, NULL},
    {"snapshots", 4, 2, TOOL_EFFECT_NOOP, HISTORY_SNAPSHOT, "0", NULL, NULL},
    {"texts", 3, 2, TOOL_EFFECT_NONE, HISTORY_DELTA, "0", "uniform:10B,3KB", "exp:500B"},
    {"texts kept whole", 3, 1, TOOL_EFFECT_NOOP, HISTORY_SNAPSHOT, "0", "4KB", "normal:2KB,1KB"},
    {"no texts", 2, 2, TOOL_EFFECT_NOOP, HISTORY_DELTA, "0", "0", "0"},
};

struct campaign_config cut_campaign(const struct cut_shape *shape)
{
    struct campaign_config campaign = sim_campaign(CUT_RUNS);
    campaign.seed = 17;
    campaign.turns = shape->turns;
    campaign.tools = shape->tools;
    campaign.tool_effect = shape->effect;
    campaign.history = shape->history;
    campaign.latency = latency_of("3ms");
    campaign.tool_latency = latency_of(shape->tool_latency);
    if (shape->prompt_bytes != NULL)
        campaign.prompt_bytes = parsed_dist(shape->prompt_bytes, DIST_BYTES);
    if (shape->reply_bytes != NULL)
        campaign.reply_bytes = parsed_dist(shape->reply_bytes, DIST_BYTES);
    return campaign;
}

void cut_world(struct cut_told *told, struct sim_world_config *config, struct sim_log *log)
{
    struct sim_world *world = aligned_alloc(64, sizeof(*world));
    assert_non_null(world);
    memset(told, 0, sizeof(*told));
    config->ledger_fd = memfd_create("ledger", MFD_CLOEXEC);
    assert_int_equal(sim_world_open(world, config), 0);
    sim_world_run(world);
    assert_string_equal(world->fault.text, "");
    const struct worker *w = &world->lanes[0].worker;
    told->resumed = w->runs_resumed;
    assert_int_equal(w->resuming_ns, 0); /* it waits for nothing meanwhile */
    memcpy(told->by_outcome, w->runs_by_outcome, sizeof(told->by_outcome));
    told->model_calls = w->env.model_calls;
    told->tool_calls = w->env.tool_calls;
    told->appended = journal_writer_totals(w->env.journal).records;
    (void)snprintf(told->first_error, sizeof(told->first_error), "%s", w->env.first_error.text);
    assert_true(pread(config->ledger_fd, told->ledger, CUT_LEDGER_BYTES_MAX - 1, 0) >= 0);
    assert_int_equal(sim_log_read(log, world->journal, SIM_SQUATTER_RUN), 0);
    sim_log_sort(log);
    sim_world_close(world);
    free(world);
    (void)close(config->ledger_fd); /* it has been read */
}

size_t cut_first(const struct sim_log *log, uint64_t run)
{
    size_t first = 0;
    while (first < log->count && log->records[first].run < run)
        first++;
    return first;
}

static void on_put(struct journal_append *append, int result)
{
    (void)append;
    assert_int_equal(result, JOURNAL_ACKED);
}

/* Records the first `count` records of the run, as they were. */
static void put_prefix(struct journal *journal, const struct sim_log *log, size_t count)
{
    struct loop loop;
    struct errmsg why;
    struct journal_writer *writer = NULL;
    struct journal_append append = {.done = on_put, .run = CUT_RUN, .digest = DIGEST_START};
    size_t first = cut_first(log, CUT_RUN);
    assert_int_equal(loop_open_ops(&loop, &loop_sim_ops, &why), 0);
    assert_int_equal(journal_writer_open(journal, 0, &loop, &writer, &why), 0);
    for (size_t i = 0; i < count; i++) {
        const struct sim_record *record = &log->records[first + i];
        append.seq = record->seq;
        journal_append(writer, &append, (enum record_kind)record->kind,
                       sim_log_payload(log, record), record->bytes);
        journal_flush(writer);
        while (journal_deliver(writer) > 0)
            ;
        assert_int_equal(append.digest, record->digest);
    }
    journal_writer_close(writer);
    loop_close(&loop);
}

static void assert_no_faults(struct journal *journal, uint64_t records)
{
    const struct verify_config config = {.threads = 1, .memory_bytes = 1 << 20};
    struct verify_result result;
    struct errmsg why;
    assert_int_equal(verify_journal(journal, &config, &result, &why), 0);
    if (result.runs_faulty > 0)
        fail_msg("run %u seq %u: %s", (unsigned)result.first[0].run, result.first[0].seq,
                 result.first[0].why);
    assert_int_equal(result.records, records);
}

void cut_resume(struct cut_told *told, const struct campaign_config *campaign,
                const struct sim_log *whole, size_t count, struct sim_log *log)
{
    struct errmsg why;
    struct sim_world_config config = {.campaign = *campaign, .is_resumed = true};
    config.journal = sim_world_journal(campaign, &why);
    assert_non_null(config.journal);
    put_prefix(config.journal, whole, count);
    cut_world(told, &config, log);
    assert_no_faults(config.journal, log->count);
    journal_close(config.journal);
}
