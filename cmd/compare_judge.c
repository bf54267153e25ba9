/* compare_judge: see compare_judge.h. Ratios are judged as logarithms, in which 10 % up and its
 * reverse are as far away. */
#include "cmd/compare_judge.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/shift.h"
#include "engine/base/significance.h"

#define SIGNIFICANT_P 0.05

const char *verdict_name(enum verdict verdict)
{
    switch (verdict) {
    case VERDICT_NONE:
        return "not there";
    case VERDICT_TOO_FEW:
        return "too few runs";
    case VERDICT_SAME:
        return "same";
    case VERDICT_CHANGED:
        return "changed";
    case VERDICT_EQUIVALENT:
        return "equivalent";
    case VERDICT_INCONCLUSIVE:
        return "inconclusive";
    case VERDICT_BETTER:
        return "better";
    case VERDICT_WORSE:
        return "worse";
    }
    return "unknown";
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

/* How many values to leave out at each end, so that the median lies between the next with at least
 * 95 %: the number of values below it is binomial. Below six runs there is none. */
static size_t count_outside(size_t count)
{
    double chance = pow(0.5, (double)count); /* of none below */
    double tail = chance;
    size_t outside = 0;
    while (tail + chance * (double)(count - outside) / (double)(outside + 1) <= 0.025) {
        chance *= (double)(count - outside) / (double)(outside + 1);
        tail += chance;
        outside++;
    }
    return outside;
}

/* `sorted` is ascending. */
static struct center center_of(const double *sorted, size_t count)
{
    double median = sorted[(count - 1) / 2] / 2 + sorted[count / 2] / 2;
    if (count < SHIFT_INTERVAL_MIN)
        return (struct center){median, NAN, NAN};
    size_t outside = count_outside(count);
    return (struct center){median, sorted[outside], sorted[count - 1 - outside]};
}

static enum verdict judge_count(const struct compare_row *row, const double *base,
                                size_t base_count, const double *head, size_t head_count,
                                const struct compare_rules *rules)
{
    double base_least = base[0];
    double base_most = base[base_count - 1];
    double head_least = head[0];
    double head_most = head[head_count - 1];
    bool is_constant = base_least == base_most && head_least == head_most;
    bool is_exact = is_constant && base_count > 1 && head_count > 1;
    bool is_enough = base_count >= SHIFT_INTERVAL_MIN && head_count >= SHIFT_INTERVAL_MIN;
    if (is_constant && base_least == head_least)
        return VERDICT_SAME;
    bool is_more = head_least > base_most;
    if (!is_more && head_most >= base_least)
        return VERDICT_INCONCLUSIVE;
    if (!is_exact && !is_enough)
        return VERDICT_TOO_FEW;
    double gap = is_more ? head_least - base_most : base_least - head_most;
    if (gap <= rules->threshold * fabs(is_more ? base_most : base_least))
        return VERDICT_CHANGED;
    return is_more == row->is_more_better ? VERDICT_BETTER : VERDICT_WORSE;
}

/* Both must be positive. */
static int judge_measure(const struct sample *base, const struct sample *head,
                         const struct compare_rules *rules, struct judgement *judgement)
{
    size_t count = base->count + head->count;
    double *logs = malloc(count * sizeof(*logs));
    struct shift shift = {NAN, NAN, NAN};
    if (logs == NULL)
        return -ENOMEM;
    double *head_logs = logs + base->count;
    for (size_t i = 0; i < base->count; i++)
        logs[i] = log(base->values[i]);
    for (size_t i = 0; i < head->count; i++)
        head_logs[i] = log(head->values[i]);
    int error = 0;
    if (rules->is_paired) {
        for (size_t i = 0; i < head->count; i++)
            logs[i] = head_logs[i] - logs[i];
        error = shift_of_pairs(logs, head->count, rules->seed, &shift);
        if (error == 0)
            error = significance_signed_rank(logs, head->count, &judgement->p);
    } else {
        error = shift_of_samples(logs, base->count, head_logs, head->count, rules->seed, &shift);
        if (error == 0)
            error =
                significance_mann_whitney(logs, base->count, head_logs, head->count, &judgement->p);
    }
    free(logs);
    judgement->change = expm1(shift.estimate);
    judgement->low = expm1(shift.low);
    judgement->high = expm1(shift.high);
    if (isnan(shift.low))
        judgement->p = NAN;
    return error;
}

static bool is_known(const struct sample *sample, bool must_be_positive)
{
    for (size_t i = 0; i < sample->count; i++)
        if (isnan(sample->values[i]) || (must_be_positive && sample->values[i] <= 0))
            return false;
    return sample->count > 0;
}

static double *sorted_copy(const struct sample *sample)
{
    double *copy = malloc(sample->count * sizeof(*copy));
    if (copy == NULL)
        return NULL;
    memcpy(copy, sample->values, sample->count * sizeof(*copy));
    qsort(copy, sample->count, sizeof(*copy), compare_doubles);
    return copy;
}

int compare_judge(const struct compare_row *row, const struct sample *base,
                  const struct sample *head, const struct compare_rules *rules,
                  struct judgement *judgement)
{
    bool is_measure = row->kind == COMPARE_MEASURE;
    *judgement = (struct judgement){.change = NAN, .low = NAN, .high = NAN, .p = NAN};
    if (!is_known(base, is_measure) || !is_known(head, is_measure))
        return 0;
    if (base->count > SHIFT_VALUES_MAX || head->count > SHIFT_VALUES_MAX)
        return -E2BIG;
    double *base_sorted = sorted_copy(base);
    double *head_sorted = sorted_copy(head);
    int error = base_sorted == NULL || head_sorted == NULL ? -ENOMEM : 0;
    if (error == 0) {
        judgement->base = center_of(base_sorted, base->count);
        judgement->head = center_of(head_sorted, head->count);
        judgement->verdict = VERDICT_INCONCLUSIVE;
        if (is_measure)
            error = judge_measure(base, head, rules, judgement);
        else
            judgement->verdict =
                judge_count(row, base_sorted, base->count, head_sorted, head->count, rules);
        if (!is_measure && judgement->base.median != 0)
            judgement->change = judgement->head.median / judgement->base.median - 1;
    }
    free(base_sorted);
    free(head_sorted);
    return error;
}

static enum verdict conclude(const struct judgement *j, const struct compare_row *row,
                             const struct compare_rules *rules)
{
    double bound = log1p(fmax(rules->threshold, rules->floor));
    double inside = log1p(rules->threshold);
    double effect = log1p(j->change);
    bool excludes_none = j->low > 0 || j->high < 0;
    if (isnan(j->low))
        return VERDICT_TOO_FEW;
    if (j->p < SIGNIFICANT_P && excludes_none && fabs(effect) > bound)
        return (effect > 0) == row->is_more_better ? VERDICT_BETTER : VERDICT_WORSE;
    if (log1p(j->low) > -inside && log1p(j->high) < inside)
        return VERDICT_EQUIVALENT;
    return VERDICT_INCONCLUSIVE;
}

int compare_conclude(struct judgement *judgements, const struct compare_row *const *rows,
                     const struct compare_rules *rules, size_t count)
{
    double *p = malloc((count > 0 ? count : 1) * sizeof(*p));
    if (p == NULL)
        return -ENOMEM;
    size_t judged = 0;
    for (size_t i = 0; i < count; i++)
        if (!isnan(judgements[i].p))
            p[judged++] = judgements[i].p;
    int error = significance_holm(p, judged);
    judged = 0;
    for (size_t i = 0; i < count && error == 0; i++) {
        if (!isnan(judgements[i].p))
            judgements[i].p = p[judged++];
        if (rows[i]->kind == COMPARE_MEASURE && judgements[i].verdict != VERDICT_NONE)
            judgements[i].verdict = conclude(&judgements[i], rows[i], &rules[i]);
    }
    free(p);
    return error;
}
