/*
 * comparison_text: the table on a terminal, in the manner of benchstat: counts first, then measures
 * as "median ± interval", with "~" where nothing can be said.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "cmd/comparison.h"

enum { NAME_COLUMNS = 24, VALUE_COLUMNS = 20 };

/* printf() pads by bytes, and "±" and "µ" have two. */
static void print_padded(FILE *out, const char *text, int columns)
{
    int shown = 0;
    for (const char *c = text; *c != '\0'; c++)
        shown += ((unsigned char)*c & 0xc0) != 0x80;
    (void)fprintf(out, "%s%*s", text, shown < columns ? columns - shown : 1, "");
}

/* "101.2ms ± 1%": the further end of the interval. */
static void print_center(FILE *out, const struct compare_row *row, const struct center *center)
{
    char value[COMPARISON_TEXT_BYTES];
    char text[2 * COMPARISON_TEXT_BYTES];
    double away = fmax(center->high - center->median, center->median - center->low);
    (void)comparison_value(row, center->median, value);
    if (row->kind == COMPARE_COUNT && center->low == center->high)
        (void)snprintf(text, sizeof(text), "%s", value);
    else if (isnan(away))
        (void)snprintf(text, sizeof(text), "%s ± ∞", value);
    else if (center->median == 0)
        (void)snprintf(text, sizeof(text), "%s ± %.3g", value, away);
    else
        (void)snprintf(text, sizeof(text), "%s ± %.0f%%", value,
                       fmin(999, 100 * away / fabs(center->median)));
    print_padded(out, text, VALUE_COLUMNS);
}

static void print_row(FILE *out, const struct compare_row *row, const struct judgement *judgement,
                      size_t runs)
{
    char change[COMPARISON_TEXT_BYTES];
    bool is_few = judgement->verdict == VERDICT_TOO_FEW && row->kind == COMPARE_MEASURE;
    bool is_silent =
        judgement->verdict == VERDICT_INCONCLUSIVE || is_few || judgement->verdict == VERDICT_SAME;
    print_padded(out, row->name, NAME_COLUMNS);
    print_center(out, row, &judgement->base);
    print_center(out, row, &judgement->head);
    print_padded(out, is_silent ? "~" : comparison_change(row, judgement, change), 10);
    if (!isnan(judgement->low))
        (void)fprintf(out, "[%+.2f%%, %+.2f%%] ", 100 * judgement->low, 100 * judgement->high);
    if (!isnan(judgement->p))
        (void)fprintf(out, "(p=%.3f n=%zu) ", judgement->p, runs);
    else if (row->kind == COMPARE_MEASURE)
        (void)fprintf(out, "(n=%zu) ", runs);
    (void)fprintf(out, "%s\n", verdict_name(judgement->verdict));
}

static void print_kind(FILE *out, const struct compared_scenario *scenario, enum compare_kind kind)
{
    size_t runs = scenario->of->sides[COMPARE_HEAD].count;
    for (size_t i = 0; i < COMPARE_ROWS; i++)
        if (compare_rows[i].kind == kind && scenario->judgements[i].verdict != VERDICT_NONE)
            print_row(out, &compare_rows[i], &scenario->judgements[i], runs);
}

static void print_head(FILE *out, const struct comparison *comparison,
                       const struct compared_scenario *scenario)
{
    const struct compare_results *base = &scenario->of->sides[COMPARE_BASE];
    const struct compare_results *head = &scenario->of->sides[COMPARE_HEAD];
    if (scenario->of->name[0] != '\0')
        (void)fprintf(out, "scenario %s\n", scenario->of->name);
    if (scenario->work == COMPARE_WORK_DIFFERS)
        (void)fprintf(out, "THE WORK DIFFERS: the checksum of what was journaled is %s and %s\n",
                      base->checksum, head->checksum);
    (void)fprintf(out, "base %s, %zu runs; head %s, %zu runs; %s; journaled %s\n", base->revision,
                  base->count, head->revision, head->count,
                  comparison->rules.is_paired ? "paired" : "independent",
                  scenario->work == COMPARE_WORK_SAME      ? "the same bytes"
                  : scenario->work == COMPARE_WORK_UNKNOWN ? "not known to be the same"
                                                           : "other bytes");
    if (base->invalid_count + head->invalid_count > 0)
        (void)fprintf(out, "warning: %zu of %zu runs are not valid by their own verdict\n",
                      base->invalid_count + head->invalid_count, base->count + head->count);
}

static void print_geomeans(FILE *out, const struct comparison *comparison)
{
    bool is_begun = false;
    for (size_t i = 0; i < COMPARE_ROWS; i++) {
        if (isnan(comparison->geomeans[i]) || compare_rows[i].kind == COMPARE_COUNT)
            continue;
        (void)fprintf(out, "%s", is_begun ? "" : "geometric mean of all scenarios\n");
        is_begun = true;
        print_padded(out, compare_rows[i].name, NAME_COLUMNS);
        (void)fprintf(out, "%+.2f%%\n", 100 * comparison->geomeans[i]);
    }
}

int comparison_write_text(FILE *out, const struct comparison *comparison)
{
    const struct compare_set *set = comparison->set;
    for (size_t i = 0; i < set->difference_count && i < COMPARE_DIFFERENCES_MAX; i++)
        (void)fprintf(out, "DIFFERENT: %s\n", set->differences[i].text);
    if (set->difference_count > COMPARE_DIFFERENCES_MAX)
        (void)fprintf(out, "DIFFERENT: %zu more\n",
                      set->difference_count - COMPARE_DIFFERENCES_MAX);
    for (size_t i = 0; i < comparison->count; i++) {
        print_head(out, comparison, &comparison->scenarios[i]);
        print_kind(out, &comparison->scenarios[i], COMPARE_COUNT);
        print_kind(out, &comparison->scenarios[i], COMPARE_MEASURE);
        (void)fputc('\n', out);
    }
    print_geomeans(out, comparison);
    (void)fprintf(out, "regressions=%zu threshold=%.3g%%\n", comparison->regressions,
                  100 * comparison->rules.threshold);
    return 0;
}
