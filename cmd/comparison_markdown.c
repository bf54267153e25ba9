/* comparison_markdown: the tables for $GITHUB_STEP_SUMMARY; what is worse comes first and in bold.
 */
#include <math.h>
#include <string.h>

#include "cmd/comparison.h"

/* In a cell, as code: a name may hold anything. */
static void print_code(FILE *out, const char *text)
{
    (void)fputc('`', out);
    for (const char *c = text; *c != '\0'; c++)
        (void)fputc(*c == '`' || *c == '|' ? '\'' : *c, out);
    (void)fputc('`', out);
}

static void print_row(FILE *out, const struct compare_row *row, const struct judgement *judgement)
{
    char base[COMPARISON_TEXT_BYTES];
    char head[COMPARISON_TEXT_BYTES];
    char change[COMPARISON_TEXT_BYTES];
    const char *mark = judgement->verdict == VERDICT_WORSE ? "**" : "";
    (void)fprintf(out, "| %s | %s | %s | %s |", row->name,
                  comparison_value(row, judgement->base.median, base),
                  comparison_value(row, judgement->head.median, head),
                  comparison_change(row, judgement, change));
    if (!isnan(judgement->low))
        (void)fprintf(out, " %+.2f%% to %+.2f%% | %.3f |", 100 * judgement->low,
                      100 * judgement->high, judgement->p);
    else
        (void)fputs(" | |", out);
    (void)fprintf(out, " %s%s%s |\n", mark, verdict_name(judgement->verdict), mark);
}

static void print_scenario(FILE *out, const struct compared_scenario *scenario)
{
    const struct compare_results *base = &scenario->of->sides[COMPARE_BASE];
    const struct compare_results *head = &scenario->of->sides[COMPARE_HEAD];
    if (scenario->of->name[0] != '\0') {
        (void)fputs("#### scenario ", out);
        print_code(out, scenario->of->name);
        (void)fputs("\n\n", out);
    }
    if (scenario->work == COMPARE_WORK_DIFFERS)
        (void)fputs("**The two sides have not done the same work:** the checksums of what they"
                    " journaled differ.\n\n",
                    out);
    if (base->invalid_count + head->invalid_count > 0)
        (void)fprintf(out, "Warning: %zu of %zu runs are not valid by their own verdict.\n\n",
                      base->invalid_count + head->invalid_count, base->count + head->count);
    (void)fputs("| figure | base ", out);
    print_code(out, base->revision);
    (void)fprintf(out, " (n=%zu) | head ", base->count);
    print_code(out, head->revision);
    (void)fprintf(out,
                  " (n=%zu) | change | 95 %% interval | p | verdict |\n"
                  "| --- | ---: | ---: | ---: | --- | ---: | --- |\n",
                  head->count);
    for (size_t i = 0; i < COMPARE_ROWS; i++)
        if (scenario->judgements[i].verdict != VERDICT_NONE)
            print_row(out, &compare_rows[i], &scenario->judgements[i]);
    (void)fputc('\n', out);
}

int comparison_write_markdown(FILE *out, const struct comparison *comparison)
{
    const struct compare_set *set = comparison->set;
    if (comparison->regressions > 0)
        (void)fprintf(out, "### bench: **%zu worse**\n\n", comparison->regressions);
    else
        (void)fputs("### bench: nothing is worse\n\n", out);
    for (size_t i = 0; i < set->difference_count && i < COMPARE_DIFFERENCES_MAX; i++) {
        (void)fputs("**Different:** ", out);
        print_code(out, set->differences[i].text);
        (void)fputs("\n\n", out);
    }
    for (size_t i = 0; i < comparison->count; i++)
        print_scenario(out, &comparison->scenarios[i]);
    return 0;
}
