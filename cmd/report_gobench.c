/*
 * report_gobench: the figures in the format of Go's benchmarks, for benchstat
 * (golang.org/design/14313-benchmark-format): a line a benchmark, of pairs of value and unit;
 * `Unit` lines say which direction is better.
 */
#include <inttypes.h>
#include <string.h>

#include "cmd/report_config.h"
#include "cmd/report_figures.h"
#include "cmd/report_provenance.h"

/* "response_p99" of s is "response_p99-s". */
static void print_unit(FILE *out, const struct figure *figure)
{
    (void)fprintf(out, "%s%s%s", figure->name, figure->unit[0] != '\0' ? "-" : "",
                  strcmp(figure->unit, "1/s") == 0 ? "per-s" : figure->unit);
}

/* benchstat makes a table of its own for each set of configuration lines: so only what stands
 * against a comparison is one. What may differ from run to run is said in lines that it skips. */
static void print_fact(void *arg, const struct fact *fact)
{
    FILE *out = (FILE *)arg;
    /* Go's own name for it. */
    const char *key = strcmp(fact->key, "cpu_model") == 0 ? "cpu" : fact->key;
    (void)fputs(fact->is_of_place ? "" : "# ", out);
    for (const char *c = key; *c != '\0'; c++)
        (void)fputc(*c == '_' ? '-' : *c, out);
    (void)fprintf(out, ": %s\n", fact->value);
}

static int write_gobench(FILE *out, const struct report *report)
{
    struct figure figures[FIGURES_MAX];
    char series[SERIES_BYTES];
    size_t count = report_figures(report, figures);
    int error = report_series(report, series);
    for (size_t i = 0; i < count; i++) {
        (void)fputs("Unit ", out);
        print_unit(out, &figures[i]);
        (void)fputs(figures[i].better == FIGURE_HIGHER ? " better=higher\n" : " better=lower\n",
                    out);
    }
    (void)fputs("goos: linux\npkg: bench\n", out);
    report_provenance(report, print_fact, out);
    (void)fprintf(out, "BenchmarkRun/%s-%" PRIu32 " %" PRId64, series, report->result->threads,
                  report->metrics[METRIC_RUNS_COMPLETED].whole);
    for (size_t i = 0; i < count; i++) {
        (void)fprintf(out, " %.9g ", figures[i].value);
        print_unit(out, &figures[i]);
    }
    (void)fputc('\n', out);
    return error;
}

const struct report_format report_gobench = {
    .name = "gobench",
    .path_offset = offsetof(struct options, gobench_path),
    .write = write_gobench,
};
