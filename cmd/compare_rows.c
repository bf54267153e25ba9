/* compare_rows: see compare_rows.h. */
#include "cmd/compare_rows.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#define COUNT(row_name, row_unit, row_key, row_factor)                                             \
    {                                                                                              \
        .name = row_name, .kind = COMPARE_COUNT, .unit = row_unit, .key = row_key,                 \
        .factor = row_factor                                                                       \
    }
#define MEASURE(row_name, row_unit, row_key, is_more)                                              \
    {                                                                                              \
        .name = row_name, .kind = COMPARE_MEASURE, .unit = row_unit, .key = row_key, .factor = 1,  \
        .is_more_better = is_more                                                                  \
    }
#define QUANTILE(row_name, hist, row_quantile)                                                     \
    {                                                                                              \
        .name = row_name, .kind = COMPARE_MEASURE, .unit = COMPARE_NS, .key = hist, .factor = 1,   \
        .quantile = row_quantile                                                                   \
    }

const struct compare_row compare_rows[COMPARE_ROWS] = {
    COUNT("records a run", COMPARE_PLAIN, "store.records_per_run", 1),
    COUNT("journal bytes a run", COMPARE_BYTES, "store.logical_per_run_bytes", 1),
    COUNT("allocations a run", COMPARE_PLAIN, "result.allocations_per_run", 1),
    COUNT("bytes allocated a run", COMPARE_BYTES, "result.alloc_per_run_bytes", 1),
    COUNT("instructions a run", COMPARE_PLAIN, "result.instructions_per_run", 1),
    COUNT("syscalls a run", COMPARE_PLAIN, "result.syscalls_per_run", 1),
    COUNT("commits a thousand runs", COMPARE_PLAIN, "store.commits_per_run", 1000),
    COUNT("fsyncs a thousand runs", COMPARE_PLAIN, "store.syncs_per_run", 1000),
    MEASURE("throughput", COMPARE_PER_S, "result.throughput_runs_per_s", true),
    MEASURE("CPU a run", COMPARE_NS, "result.cpu_per_run_ns", false),
    QUANTILE("response p50", "response", 0.50),
    QUANTILE("response p99", "response", 0.99),
    QUANTILE("service p50", "service", 0.50),
    QUANTILE("append p50", "append", 0.50),
    QUANTILE("append p99", "append", 0.99),
    MEASURE("peak RSS", COMPARE_BYTES, "result.peak_rss_bytes", false),
    MEASURE("heap delta", COMPARE_BYTES, "result.heap_delta_bytes", false),
};

/* A number or null at a key path; a result of an older bench may lack the key. */
static int read_value(const struct result_file *file, const struct compare_row *row, double *value,
                      struct errmsg *why)
{
    json_t *found = result_file_find(file, row->key);
    if (found == NULL || json_is_null(found))
        return 0;
    if (!json_is_number(found) || !isfinite(json_number_value(found)))
        return result_file_refuse(file, row->key, "a number", why);
    *value = json_number_value(found) * row->factor;
    return 0;
}

int compare_rows_read(const struct result_file *file, double values[COMPARE_ROWS],
                      struct errmsg *why)
{
    struct hist *hist = malloc(sizeof(*hist));
    const char *read = ""; /* which stands in `hist` */
    int error = hist == NULL ? errmsg_set(why, -ENOMEM, "no memory for a histogram") : 0;
    for (size_t i = 0; i < COMPARE_ROWS && error == 0; i++) {
        const struct compare_row *row = &compare_rows[i];
        values[i] = NAN;
        if (row->quantile == 0) {
            error = read_value(file, row, &values[i], why);
            continue;
        }
        if (row->key != read)
            error = result_file_read_hist(file, row->key, hist, why);
        read = row->key;
        if (error == 0 && hist_quantile_is_known(hist, row->quantile))
            values[i] = (double)hist_quantile_ns(hist, row->quantile);
    }
    free(hist);
    return error;
}
