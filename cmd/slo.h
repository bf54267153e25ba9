/*
 * slo: a service level objective, as -slo says it: what is looked at, an operator, a bound.
 *
 *   p(99)<250ms   append.p(99.9)<=20ms   avg<1s   max<5s   errors<0.1%   rate>=2000
 *
 * The grammar is k6's for thresholds, with units. Percentiles, avg, min, med and max are of the
 * response time, or with a prefix of service, append, retried, token or dispatch; errors is the
 * share of runs that ended and did not complete; rate the completed runs a second, in an open loop
 * the runs that were started a second.
 *
 * Ownership: the text is the caller's, and outlives it. Threading: pure functions.
 */
#ifndef BENCH_SLO_H
#define BENCH_SLO_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/err.h"
#include "engine/base/hist.h"

enum { SLOS_MAX = 16 };

enum slo_subject {
    SLO_RESPONSE,
    SLO_SERVICE,
    SLO_APPEND,
    SLO_RETRIED,
    SLO_TOKEN,
    SLO_DISPATCH,
    SLO_ERRORS,
    SLO_RATE,
};

enum slo_statistic { SLO_QUANTILE, SLO_MEAN, SLO_MIN, SLO_MAX };

enum slo_operator { SLO_LESS, SLO_LESS_OR_EQUAL, SLO_GREATER, SLO_GREATER_OR_EQUAL };

struct slo {
    const char *text;
    enum slo_subject subject;
    enum slo_statistic statistic; /* of durations, as is the next */
    double quantile;
    enum slo_operator operator;
    double bound; /* ns; a share; runs a second */
};

/* 0, or -EINVAL or -ERANGE with a reason phrased to follow "-flag ". */
int slo_parse(struct slo *slo, const char *text, struct errmsg *why);

static inline bool slo_is_of_time(const struct slo *slo)
{
    return slo->subject <= SLO_DISPATCH;
}

/* What objectives are held against. */
struct slo_figures {
    const struct hist *response;
    const struct hist *service;
    const struct hist *append;
    const struct hist *retried;
    const struct hist *token_lag;
    const struct hist *dispatch;
    uint64_t completed;
    uint64_t errors;
    bool is_rate_known;
    double rate; /* runs a second */
};

/* What an objective of time is about. */
const struct hist *slo_hist(const struct slo *slo, const struct slo_figures *figures);

/* The value that an objective is about, in the unit of its bound. False where it is not known: a
 * percentile with too few samples beyond it, or a share of no runs. */
bool slo_measure(const struct slo *slo, const struct slo_figures *figures, double *value);

/* Whether a value is within the bound. */
bool slo_is_met(const struct slo *slo, double value);

#endif
