/* slo: see slo.h. */
#include "cmd/slo.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/units.h"

enum { WORD_BYTES = 64 };

static int refuse(const char *text, struct errmsg *why)
{
    return errmsg_set(
        why, -EINVAL,
        "must be an objective such as p(99)<250ms, append.p(99)<20ms, errors<0.1%% or "
        "rate>=2000, got \"%.80s\"",
        text);
}

/* Passes a constant text; false where there is another. */
static bool skip(const char **at, const char *word)
{
    size_t bytes = strlen(word);
    if (strncmp(*at, word, bytes) != 0)
        return false;
    *at += bytes;
    return true;
}

static void skip_blanks(const char **at)
{
    *at += strspn(*at, " ");
}

/* The text up to the first of `ends`; false where there is none of them, or too much before. */
static bool take_until(const char **at, const char *ends, char word[WORD_BYTES])
{
    size_t bytes = strcspn(*at, ends);
    if ((*at)[bytes] == '\0' || bytes >= WORD_BYTES)
        return false;
    (void)snprintf(word, WORD_BYTES, "%.*s", (int)bytes, *at);
    *at += bytes;
    return true;
}

static bool parse_quantile(struct slo *slo, const char **at)
{
    char number[WORD_BYTES];
    struct errmsg unused;
    double percent = 0;
    if (!take_until(at, ")", number) || units_parse_decimal(number, &percent, &unused) != 0 ||
        percent <= 0 || percent >= 100)
        return false;
    ++*at;
    slo->quantile = percent / 100;
    return true;
}

static bool parse_statistic(struct slo *slo, const char **at)
{
    static const struct {
        const char *name;
        enum slo_statistic statistic;
        double quantile;
    } names[] = {
        {"avg", SLO_MEAN, 0}, {"min", SLO_MIN, 0}, {"max", SLO_MAX, 0}, {"med", SLO_QUANTILE, 0.5}};
    slo->statistic = SLO_QUANTILE;
    if (skip(at, "p("))
        return parse_quantile(slo, at);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (!skip(at, names[i].name))
            continue;
        slo->statistic = names[i].statistic;
        slo->quantile = names[i].quantile;
        return true;
    }
    return false;
}

static bool parse_subject(struct slo *slo, const char **at)
{
    static const struct {
        const char *prefix;
        enum slo_subject subject;
    } times[] = {{"response.", SLO_RESPONSE}, {"service.", SLO_SERVICE},
                 {"append.", SLO_APPEND},     {"retried.", SLO_RETRIED},
                 {"token.", SLO_TOKEN},       {"dispatch.", SLO_DISPATCH}};
    if (skip(at, "errors")) {
        slo->subject = SLO_ERRORS;
        return true;
    }
    if (skip(at, "rate")) {
        slo->subject = SLO_RATE;
        return true;
    }
    slo->subject = SLO_RESPONSE;
    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++)
        if (skip(at, times[i].prefix))
            slo->subject = times[i].subject;
    return parse_statistic(slo, at);
}

/* The longer ones first. */
static bool parse_operator(struct slo *slo, const char **at)
{
    static const struct {
        const char *text;
        enum slo_operator operator;
    } operators[] = {{"<=", SLO_LESS_OR_EQUAL},
                     {">=", SLO_GREATER_OR_EQUAL},
                     {"<", SLO_LESS},
                     {">", SLO_GREATER}};
    for (size_t i = 0; i < sizeof(operators) / sizeof(operators[0]); i++) {
        if (!skip(at, operators[i].text))
            continue;
        slo->operator= operators[i].operator;
        return true;
    }
    return false;
}

static int parse_bound(struct slo *slo, const char *text, struct errmsg *why)
{
    uint64_t duration_ns = 0;
    int error;
    if (slo->subject == SLO_ERRORS)
        return units_parse_share(text, &slo->bound, why);
    if (slo->subject == SLO_RATE)
        return units_parse_rate(text, &slo->bound, why);
    error = units_parse_duration(text, &duration_ns, why);
    slo->bound = (double)duration_ns;
    return error;
}

int slo_parse(struct slo *slo, const char *text, struct errmsg *why)
{
    const char *at = text;
    struct errmsg reason;
    *slo = (struct slo){.text = text};
    if (strlen(text) >= WORD_BYTES || !parse_subject(slo, &at))
        return refuse(text, why);
    skip_blanks(&at);
    if (!parse_operator(slo, &at))
        return refuse(text, why);
    skip_blanks(&at);
    int error = parse_bound(slo, at, &reason);
    return error == 0 ? 0 : errmsg_set(why, error, "\"%s\": the bound %s", text, reason.text);
}

bool slo_is_met(const struct slo *slo, double value)
{
    switch (slo->operator) {
    case SLO_LESS:
        return value < slo->bound;
    case SLO_LESS_OR_EQUAL:
        return value <= slo->bound;
    case SLO_GREATER:
        return value > slo->bound;
    case SLO_GREATER_OR_EQUAL:
        return value >= slo->bound;
    }
    return false;
}

const struct hist *slo_hist(const struct slo *slo, const struct slo_figures *figures)
{
    switch (slo->subject) {
    case SLO_SERVICE:
        return figures->service;
    case SLO_APPEND:
        return figures->append;
    case SLO_RETRIED:
        return figures->retried;
    case SLO_TOKEN:
        return figures->token_lag;
    case SLO_DISPATCH:
        return figures->dispatch;
    case SLO_RESPONSE:
    case SLO_ERRORS:
    case SLO_RATE:
        break;
    }
    return figures->response;
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

bool slo_measure(const struct slo *slo, const struct slo_figures *figures, double *value)
{
    uint64_t ended = figures->errors + figures->completed;
    switch (slo->subject) {
    case SLO_ERRORS:
        *value = ended > 0 ? (double)figures->errors / (double)ended : 0;
        return ended > 0;
    case SLO_RATE:
        *value = figures->rate;
        return figures->is_rate_known;
    case SLO_RESPONSE:
    case SLO_SERVICE:
    case SLO_APPEND:
    case SLO_RETRIED:
    case SLO_TOKEN:
    case SLO_DISPATCH:
        break;
    }
    return measure_time(slo, slo_hist(slo, figures), value);
}
