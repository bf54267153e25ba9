/*
 * report_openmetrics: the figures as gauges in the OpenMetrics text format 1.0, for Prometheus and
 * what reads its files; and what it was measured on, as the labels of a metric that is 1: as a
 * gauge, since the text format that the textfile collector and the Pushgateway read knows no
 * "info".
 */
#include <string.h>

#include "cmd/report_config.h"
#include "cmd/report_figures.h"
#include "cmd/report_provenance.h"

/* Its base units are spelt out. */
static const char *suffix_of(const struct figure *figure)
{
    if (strcmp(figure->unit, "s") == 0)
        return "_seconds";
    if (strcmp(figure->unit, "B") == 0)
        return "_bytes";
    return strcmp(figure->unit, "1/s") == 0 ? "_per_second" : "";
}

struct labels {
    FILE *out;
    bool has_any;
};

static void print_fact(void *arg, const struct fact *fact)
{
    struct labels *labels = arg;
    (void)fprintf(labels->out, "%s%s=\"", labels->has_any ? "," : "", fact->key);
    for (const char *c = fact->value; *c != '\0'; c++) {
        if (*c == '"' || *c == '\\')
            (void)fputc('\\', labels->out);
        (void)fputc(*c, labels->out);
    }
    (void)fputc('"', labels->out);
    labels->has_any = true;
}

static int write_openmetrics(FILE *out, const struct report *report)
{
    struct figure figures[FIGURES_MAX];
    char series[SERIES_BYTES];
    size_t count = report_figures(report, figures);
    int error = report_series(report, series);
    for (size_t i = 0; i < count; i++) {
        const char *suffix = suffix_of(&figures[i]);
        (void)fprintf(out, "# TYPE bench_%s%s gauge\n", figures[i].name, suffix);
        (void)fprintf(out, "bench_%s%s{series=\"%s\"} %.9g\n", figures[i].name, suffix, series,
                      figures[i].value);
    }
    struct labels labels = {.out = out};
    (void)fputs("# TYPE bench_run_info gauge\nbench_run_info{", out);
    report_provenance(report, print_fact, &labels);
    (void)fputs("} 1\n# EOF\n", out);
    return error;
}

const struct report_format report_openmetrics = {
    .name = "openmetrics",
    .path_offset = offsetof(struct options, openmetrics_path),
    .write = write_openmetrics,
};
