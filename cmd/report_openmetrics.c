/*
 * report_openmetrics: the figures as gauges in the OpenMetrics text format 1.0, for Prometheus and
 * what reads its files.
 */
#include <string.h>

#include "cmd/report_figures.h"

/* Its base units are spelt out. */
static const char *suffix_of(const struct figure *figure)
{
    if (strcmp(figure->unit, "s") == 0)
        return "_seconds";
    if (strcmp(figure->unit, "B") == 0)
        return "_bytes";
    return strcmp(figure->unit, "1/s") == 0 ? "_per_second" : "";
}

static int write_openmetrics(FILE *out, const struct report *report)
{
    struct figure figures[FIGURES_MAX];
    char series[SERIES_BYTES];
    size_t count = report_figures(report, figures);
    (void)report_series(report, series);
    for (size_t i = 0; i < count; i++) {
        const char *suffix = suffix_of(&figures[i]);
        (void)fprintf(out, "# TYPE bench_%s%s gauge\n", figures[i].name, suffix);
        (void)fprintf(out, "bench_%s%s{series=\"%s\"} %.9g\n", figures[i].name, suffix, series,
                      figures[i].value);
    }
    (void)fputs("# EOF\n", out);
    return 0;
}

const struct report_format report_openmetrics = {
    .name = "openmetrics",
    .path_offset = offsetof(struct options, openmetrics_path),
    .write = write_openmetrics,
};
