/* made_result: see made_result.h. */
#include "tests/lib/made_result.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"

void made_result_fill(struct hist *hist, uint64_t count, struct prng *draws)
{
    for (uint64_t i = 0; i < count; i++) {
        uint64_t value = prng_next(draws);
        hist_record(hist, i % 3 == 0 ? value % 3000 : value >> (16 + value % 47));
    }
}

void made_result_init(struct made_result *made, int argc, char **argv)
{
    struct errmsg why = {.text = ""};
    *made = (struct made_result){.result = {.elapsed_ns = 2 * NS_PER_S}};
    int error = options_parse(&made->options, OPTIONS_OF_RUN, argc, argv, &why);
    assert(error == 0);
    (void)error;
    made->options.campaign.threads = 2;
    for (size_t i = 0; i < REPORT_HISTS; i++) {
        made->hists[i] = malloc(sizeof(struct hist));
        assert(made->hists[i] != NULL);
        hist_init(made->hists[i]);
    }
    made->result = (struct campaign_result){
        .elapsed_ns = 2 * NS_PER_S,
        .started_unix_ns = 1700000000 * NS_PER_S,
        .runs_started = 1000,
        .runs_by_outcome = {[OUTCOME_COMPLETED] = 1000},
        .records = 6000,
        .records_acked = 6000,
        .records_bytes = 1000000,
        .batches = 600,
        .io = {.commits = 600,
               .commit_ns = 600 * NS_PER_MS,
               .checkpoints = 2,
               .checkpoint_ns = 10 * NS_PER_MS,
               .wal_bytes = 2000000,
               .db_bytes = 1000000,
               .syncs = 620,
               .store_bytes = 1500000},
        .campaign = 1,
        .peak_tasks = 100,
        .model_ns = 1000 * UINT64_C(100000),
        .journal_ns = 1000 * UINT64_C(4000),
        .tool_ns = 1000 * UINT64_C(20),
        .queue_ns = 1000 * UINT64_C(300),
        .model_calls = 2000,
        .tool_calls = 1000,
        .heap_delta_bytes = -1000,
        .total_alloc_bytes = 5000,
        .is_total_alloc_known = true,
        .counts = {.allocations = 70, .syscalls = COUNT_NOT_KNOWN, .instructions = 1000000},
        .checksum = UINT64_C(0xfedcba9876543210),
        .peak_rss_bytes = 30000000,
        .cpu_ns = 3000000,
        .busiest = 0.25,
        .threads = 2,
        .loop_name = "epoll",
        .journal_name = "sqlite",
        .shards = 1,
        .durability = DURABILITY_POWER,
    };
    for (size_t i = 0; i < REPORT_HISTS; i++)
        *report_hist_at(&made->result, i) = made->hists[i];
}

void made_result_free(struct made_result *made)
{
    options_free(&made->options);
    for (size_t i = 0; i < REPORT_HISTS; i++)
        free(made->hists[i]);
}

char *made_result_text(const struct made_result *made, size_t *size)
{
    struct report report;
    char *text = NULL;
    report_init(&report, &made->options, &made->result, 0, NULL);
    report.intervals = &made->intervals;
    report.version = (struct version){
        .version = "1.2.3",
        .revision = "0123456789ab",
        .compiler = "gcc 12.2.0",
        .sanitizers = "none",
        .flags = "-O2",
        .is_optimized = true,
    };
    (void)snprintf(report.host.cpu_model, HOST_TEXT_BYTES, "Example CPU");
    (void)snprintf(report.host.kernel, HOST_TEXT_BYTES, "Linux 6.1.0 x86_64");
    report.host.cpus = 2;
    int error = report_render(&report_json, &report, &text, size);
    assert(error == 0);
    (void)error;
    return text;
}

char *made_result_edit(const char *text, const char *from, const char *to)
{
    const char *at = strstr(text, from);
    char *edited = NULL;
    if (at == NULL)
        (void)fprintf(stderr, "there is no %s in %s\n", from, text);
    assert(at != NULL);
    int size = asprintf(&edited, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    assert(size >= 0);
    (void)size;
    return edited;
}
