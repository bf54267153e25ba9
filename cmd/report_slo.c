/*
 * report_slo: the objectives held against the result. What is not known does not meet any: a
 * percentile with too few samples beyond it, or a share of no runs.
 */
#include "cmd/report.h"

const struct hist *report_slo_hist(const struct slo *slo, const struct campaign_result *result)
{
    switch (slo->subject) {
    case SLO_SERVICE:
        return result->service;
    case SLO_APPEND:
        return result->append;
    case SLO_DISPATCH:
        return result->dispatch;
    case SLO_RESPONSE:
    case SLO_ERRORS:
    case SLO_RATE:
        break;
    }
    return result->response;
}

static bool measure_time(const struct slo *slo, const struct hist *hist, double *value)
{
    if (hist->count == 0)
        return false;
    switch (slo->statistic) {
    case SLO_QUANTILE:
        *value = (double)hist_quantile_ns(hist, slo->quantile);
        return hist_quantile_is_known(hist, slo->quantile);
    case SLO_MEAN:
        *value = (double)hist_mean_ns(hist);
        return true;
    case SLO_MIN:
        *value = (double)hist->min_ns;
        return true;
    case SLO_MAX:
        *value = (double)hist->max_ns;
        return true;
    }
    return false;
}

static bool measure(const struct slo *slo, const struct report *report, double *value)
{
    int64_t errors = report->metrics[METRIC_ERRORS].whole;
    int64_t ended = errors + report->metrics[METRIC_RUNS_COMPLETED].whole;
    switch (slo->subject) {
    case SLO_ERRORS:
        *value = ended > 0 ? (double)errors / (double)ended : 0;
        return ended > 0;
    case SLO_RATE:
        *value = report->metrics[METRIC_THROUGHPUT].rate;
        return report->metrics[METRIC_THROUGHPUT].is_known;
    case SLO_RESPONSE:
    case SLO_SERVICE:
    case SLO_APPEND:
    case SLO_DISPATCH:
        break;
    }
    return measure_time(slo, report_slo_hist(slo, report->result), value);
}

void report_hold_slos(struct report *report)
{
    for (size_t i = 0; i < report->options->slo_count; i++) {
        const struct slo *slo = &report->options->slos[i];
        struct report_slo *held = &report->slos[i];
        held->is_known = measure(slo, report, &held->value);
        held->is_met = held->is_known && slo_is_met(slo, held->value);
        report->slos_missed += !held->is_met;
    }
}
