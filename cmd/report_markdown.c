/* report_markdown: the figures as a table, appended to what is there: for $GITHUB_STEP_SUMMARY. */
#include <math.h>
#include <string.h>

#include "cmd/report_config.h"
#include "cmd/report_figures.h"
#include "cmd/report_provenance.h"
#include "engine/base/clock.h"
#include "engine/base/units.h"

static void print_value(FILE *out, const struct figure *figure)
{
    char text[UNITS_TEXT_BYTES];
    bool is_large = fabs(figure->value) >= 1e6;
    if (strcmp(figure->unit, "s") == 0)
        (void)fputs(units_format_duration((uint64_t)llround(figure->value * NS_PER_S), text), out);
    else if (strcmp(figure->unit, "B") == 0 && is_large)
        (void)fputs(units_format_megabytes((int64_t)figure->value, text), out);
    else
        (void)fprintf(out, "%.6g%s%s", figure->value, figure->unit[0] == 'B' ? " " : "",
                      strcmp(figure->unit, "1/s") == 0 ? "/s" : figure->unit);
}

/* As code, in which only a backtick and the cell's own border mean something. */
static void print_fact(void *arg, const struct fact *fact)
{
    FILE *out = (FILE *)arg;
    (void)fprintf(out, "| %s | `", fact->key);
    for (const char *c = fact->value; *c != '\0'; c++)
        (void)fputc(*c == '`' || *c == '|' ? '\'' : *c, out);
    (void)fputs("` |\n", out);
}

/* An objective holds no backtick: its grammar has none. */
static void print_slos(FILE *out, const struct report *report)
{
    for (size_t i = 0; i < report->options->slo_count; i++) {
        const struct report_slo *held = &report->slos[i];
        char value[UNITS_TEXT_BYTES] = "-";
        if (held->is_known)
            report_format_slo(&report->options->slos[i], held->value, value);
        (void)fprintf(out, "%s `%s`: %s\n\n",
                      held->is_met ? "Objective met:" : "**Objective missed:**",
                      report->options->slos[i].text, value);
    }
    if (report->slo_abort.is_aborted)
        (void)fputs("**Stopped, as an objective was missed.**\n\n", out);
}

static int write_markdown(FILE *out, const struct report *report)
{
    struct figure figures[FIGURES_MAX];
    char series[SERIES_BYTES];
    size_t count = report_figures(report, figures);
    int error = report_series(report, series);
    (void)fprintf(out, "### bench `%s`\n\n", series);
    for (size_t i = 0; i < report->reason_count; i++)
        (void)fprintf(out, "**Not valid:** `%s`\n\n", report->reasons[i].text);
    for (size_t i = 0; i < report->warning_count; i++)
        (void)fprintf(out, "Warning: `%s`\n\n", report->warnings[i].text);
    print_slos(out, report);
    (void)fputs("| figure | value | better |\n| --- | ---: | --- |\n", out);
    for (size_t i = 0; i < count; i++) {
        (void)fprintf(out, "| %s | ", figures[i].name);
        print_value(out, &figures[i]);
        (void)fputs(figures[i].better == FIGURE_HIGHER ? " | higher |\n" : " | lower |\n", out);
    }
    (void)fputs(
        "\n<details><summary>Measured with and on</summary>\n\n| of | value |\n| --- | --- |\n",
        out);
    report_provenance(report, print_fact, out);
    (void)fputs("\n</details>\n\n", out);
    return error;
}

const struct report_format report_markdown = {
    .name = "markdown",
    .path_offset = offsetof(struct options, markdown_path),
    .is_appended = true,
    .write = write_markdown,
};
