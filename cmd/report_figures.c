/* report_figures: see report_figures.h. */
#include "cmd/report_figures.h"

#include <string.h>

#include "engine/base/clock.h"

/* What stands for a metric; ns become s. */
static const struct row {
    enum metric metric;
    enum figure_better better;
    const char *name;
    const char *unit;
} rows[] = {
    {METRIC_THROUGHPUT, FIGURE_HIGHER, "throughput_runs", "1/s"},
    {METRIC_RECORD_RATE, FIGURE_HIGHER, "throughput_records", "1/s"},
    {METRIC_ERRORS, FIGURE_LOWER, "errors", ""},
    {METRIC_CPU_PER_RUN, FIGURE_LOWER, "cpu_per_run", "s"},
    {METRIC_HEAP_DELTA, FIGURE_LOWER, "heap_delta", "B"},
    {METRIC_PEAK_RSS, FIGURE_LOWER, "peak_rss", "B"},
    {METRIC_COMMITS_PER_RUN, FIGURE_LOWER, "commits_per_run", ""},
    {METRIC_SYNCS_PER_RUN, FIGURE_LOWER, "syncs_per_run", ""},
    {METRIC_LOGICAL_PER_RUN, FIGURE_LOWER, "logical_per_run", "B"},
    {METRIC_WAL_PER_RUN, FIGURE_LOWER, "wal_per_run", "B"},
    {METRIC_DB_PER_RUN, FIGURE_LOWER, "db_per_run", "B"},
};

struct figure_list {
    struct figure *figures;
    size_t count;
};

static void add(struct figure_list *list, const char *name, const char *unit,
                enum figure_better better, double value)
{
    assert(list->count < FIGURES_MAX);
    list->figures[list->count++] = (struct figure){name, unit, better, value};
}

static void add_quantile(struct figure_list *list, const char *name, const struct hist *hist,
                         double quantile)
{
    if (hist_quantile_is_known(hist, quantile))
        add(list, name, "s", FIGURE_LOWER, (double)hist_quantile_ns(hist, quantile) / NS_PER_S);
}

static void add_metric(struct figure_list *list, const struct report *report, const struct row *row)
{
    const struct metric_value *value = &report->metrics[row->metric];
    if (!value->is_known)
        return;
    switch (metric_rows[row->metric].unit) {
    case METRIC_UNIT_NS:
        add(list, row->name, row->unit, row->better, (double)value->whole / NS_PER_S);
        return;
    case METRIC_UNIT_COUNT:
    case METRIC_UNIT_BYTES:
        add(list, row->name, row->unit, row->better, (double)value->whole);
        return;
    case METRIC_UNIT_PER_S:
    case METRIC_UNIT_RATIO:
        add(list, row->name, row->unit, row->better, value->rate);
        return;
    }
}

size_t report_figures(const struct report *report, struct figure figures[FIGURES_MAX])
{
    const struct campaign_result *result = report->result;
    struct figure_list list = {.figures = figures};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        add_metric(&list, report, &rows[i]);
    add_quantile(&list, "response_p50", result->response, 0.50);
    add_quantile(&list, "response_p90", result->response, 0.90);
    add_quantile(&list, "response_p99", result->response, 0.99);
    add_quantile(&list, "response_p999", result->response, 0.999);
    add_quantile(&list, "retried_p99", result->retried, 0.99);
    add_quantile(&list, "token_lag_p99", result->token_lag, 0.99);
    add_quantile(&list, "append_p50", result->append, 0.50);
    add_quantile(&list, "append_p99", result->append, 0.99);
    add_quantile(&list, "dispatch_p99", result->dispatch, 0.99);
    return list.count;
}
