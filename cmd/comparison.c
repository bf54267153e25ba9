/* comparison: see comparison.h. */
#include "cmd/comparison.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/units.h"

static enum compare_work compare_work(const struct compare_scenario *scenario)
{
    const char *base = scenario->sides[COMPARE_BASE].checksum;
    const char *head = scenario->sides[COMPARE_HEAD].checksum;
    if (base[0] == '\0' || head[0] == '\0')
        return COMPARE_WORK_UNKNOWN;
    return strcmp(base, head) == 0 ? COMPARE_WORK_SAME : COMPARE_WORK_DIFFERS;
}

static int judge_scenario(struct compared_scenario *scenario, const struct compare_rules *rules)
{
    const struct compare_results *base = &scenario->of->sides[COMPARE_BASE];
    const struct compare_results *head = &scenario->of->sides[COMPARE_HEAD];
    int error = 0;
    for (size_t i = 0; i < COMPARE_ROWS && error == 0; i++) {
        const struct sample base_sample = {base->values[i], base->count};
        const struct sample head_sample = {head->values[i], head->count};
        error = compare_judge(&compare_rows[i], &base_sample, &head_sample, rules,
                              &scenario->judgements[i]);
    }
    return error;
}

/* Holm's correction is for all of them. */
static int conclude(struct comparison *comparison)
{
    size_t count = comparison->count * COMPARE_ROWS;
    struct judgement *judgements = malloc(count * sizeof(*judgements));
    struct compare_rules *rules = malloc(count * sizeof(*rules));
    const struct compare_row **rows = malloc(count * sizeof(const struct compare_row *));
    int error = judgements == NULL || rules == NULL || rows == NULL ? -ENOMEM : 0;
    for (size_t i = 0; i < count && error == 0; i++) {
        const struct compared_scenario *scenario = &comparison->scenarios[i / COMPARE_ROWS];
        judgements[i] = scenario->judgements[i % COMPARE_ROWS];
        rows[i] = &compare_rows[i % COMPARE_ROWS];
        rules[i] = comparison->rules;
        rules[i].floor = scenario->floors[i % COMPARE_ROWS];
    }
    if (error == 0)
        error = compare_conclude(judgements, rows, rules, count);
    for (size_t i = 0; i < count && error == 0; i++) {
        comparison->scenarios[i / COMPARE_ROWS].judgements[i % COMPARE_ROWS] = judgements[i];
        comparison->regressions += judgements[i].verdict == VERDICT_WORSE;
    }
    free(judgements);
    free(rules);
    free(rows);
    return error;
}

/* Of those scenarios that have the figure. */
static double geomean(const struct comparison *comparison, size_t row)
{
    double sum = 0;
    size_t count = 0;
    for (size_t i = 0; i < comparison->count; i++) {
        double change = comparison->scenarios[i].judgements[row].change;
        if (isfinite(change) && change > -1) {
            sum += log1p(change);
            count++;
        }
    }
    return count < 2 ? NAN : expm1(sum / (double)count);
}

int comparison_init(struct comparison *comparison, const struct compare_set *set,
                    const struct compare_rules *rules, const double (*floors)[COMPARE_ROWS],
                    struct errmsg *why)
{
    *comparison = (struct comparison){.set = set, .rules = *rules};
    comparison->scenarios = calloc(set->count, sizeof(comparison->scenarios[0]));
    int error = comparison->scenarios == NULL ? -ENOMEM : 0;
    for (size_t i = 0; i < set->count && error == 0; i++) {
        struct compared_scenario *scenario = &comparison->scenarios[comparison->count++];
        scenario->of = &set->scenarios[i];
        scenario->work = compare_work(scenario->of);
        for (size_t row = 0; row < COMPARE_ROWS; row++)
            scenario->floors[row] = floors != NULL ? floors[i][row] : rules->floor;
        error = judge_scenario(scenario, rules);
    }
    if (error == 0)
        error = conclude(comparison);
    for (size_t row = 0; row < COMPARE_ROWS && error == 0; row++)
        comparison->geomeans[row] = geomean(comparison, row);
    if (error == 0)
        return 0;
    comparison_free(comparison);
    return errmsg_set(why, error, "the results cannot be compared: %s", strerror(-error));
}

void comparison_free(struct comparison *comparison)
{
    free(comparison->scenarios);
    comparison->scenarios = NULL;
}

const char *comparison_value(const struct compare_row *row, double value,
                             char text[COMPARISON_TEXT_BYTES])
{
    char units[UNITS_TEXT_BYTES];
    switch (row->unit) {
    case COMPARE_NS:
        (void)snprintf(text, COMPARISON_TEXT_BYTES, "%s",
                       units_format_duration((uint64_t)llround(fmax(0, value)), units));
        return text;
    case COMPARE_BYTES:
        if (fabs(value) >= 1e6 && fabs(value) < 0x1p62)
            (void)snprintf(text, COMPARISON_TEXT_BYTES, "%s",
                           units_format_megabytes((int64_t)value, units));
        else
            (void)snprintf(text, COMPARISON_TEXT_BYTES, "%.6g B", value);
        return text;
    case COMPARE_PER_S:
        (void)snprintf(text, COMPARISON_TEXT_BYTES, "%.6g/s", value);
        return text;
    case COMPARE_PLAIN:
        (void)snprintf(text, COMPARISON_TEXT_BYTES, "%.6g", value);
        return text;
    }
    return text;
}

const char *comparison_change(const struct compare_row *row, const struct judgement *judgement,
                              char text[COMPARISON_TEXT_BYTES])
{
    double difference = judgement->head.median - judgement->base.median;
    text[0] = '\0';
    if (judgement->verdict == VERDICT_NONE)
        return text;
    /* A count is told exactly; a share of next to nothing tells little. */
    if (row->kind == COMPARE_COUNT && difference != 0)
        (void)snprintf(text, COMPARISON_TEXT_BYTES, "%+.6g", difference);
    else if (row->kind == COMPARE_MEASURE)
        (void)snprintf(text, COMPARISON_TEXT_BYTES, "%+.2f%%", 100 * judgement->change);
    return text;
}
