/*
 * report_slo: the objectives held against the result. What is not known does not meet any.
 */
#include "cmd/report.h"

static struct slo_figures figures_of(const struct campaign_result *result)
{
    return (struct slo_figures){
        .response = result->response,
        .service = result->service,
        .append = result->append,
        .retried = result->retried,
        .token_lag = result->token_lag,
        .dispatch = result->dispatch,
    };
}

const struct hist *report_slo_hist(const struct slo *slo, const struct campaign_result *result)
{
    const struct slo_figures figures = figures_of(result);
    return slo_hist(slo, &figures);
}

void report_hold_slos(struct report *report)
{
    struct slo_figures figures = figures_of(report->result);
    figures.completed = (uint64_t)report->metrics[METRIC_RUNS_COMPLETED].whole;
    figures.errors = (uint64_t)report->metrics[METRIC_ERRORS].whole;
    /* Of an open loop's throughput the last and longest runs decide. */
    enum metric rate = report->result->is_open_loop ? METRIC_ACHIEVED : METRIC_THROUGHPUT;
    figures.is_rate_known = report->metrics[rate].is_known;
    figures.rate = report->metrics[rate].rate;
    for (size_t i = 0; i < report->options->slo_count; i++) {
        const struct slo *slo = &report->options->slos[i];
        struct report_slo *held = &report->slos[i];
        held->is_known = slo_measure(slo, &figures, &held->value);
        held->is_met = held->is_known && slo_is_met(slo, held->value);
        report->slos_missed += !held->is_met;
    }
}

void report_format_slo(const struct slo *slo, double value, char text[UNITS_TEXT_BYTES])
{
    if (slo_is_of_time(slo))
        (void)units_format_duration((uint64_t)value, text);
    else if (slo->subject == SLO_ERRORS)
        (void)snprintf(text, UNITS_TEXT_BYTES, "%.6g%%", 100 * value);
    else
        (void)snprintf(text, UNITS_TEXT_BYTES, "%.6g/s", value);
}
