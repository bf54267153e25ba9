/* report_bmf: the figures in Bencher's metric format: {BENCHMARK: {MEASURE: {"value": NUMBER}}}. */
#include <errno.h>
#include <jansson.h>

#include "cmd/report_config.h"
#include "cmd/report_figures.h"

static int write_bmf(FILE *out, const struct report *report)
{
    struct figure figures[FIGURES_MAX];
    char series[SERIES_BYTES];
    size_t count = report_figures(report, figures);
    json_t *measures = json_object();
    bool has_failed = report_series(report, series) != 0;
    for (size_t i = 0; i < count; i++) {
        json_t *value = json_pack("{s:f}", "value", figures[i].value);
        has_failed = json_object_set_new(measures, figures[i].name, value) != 0 || has_failed;
    }
    json_t *object = json_pack("{s:o}", series, measures);
    has_failed = object == NULL || has_failed ||
                 json_dumpf(object, out, JSON_COMPACT | JSON_REAL_PRECISION(9)) != 0;
    (void)fputc('\n', out);
    json_decref(object);
    return has_failed ? -ENOMEM : 0;
}

const struct report_format report_bmf = {
    .name = "bmf",
    .path_offset = offsetof(struct options, bmf_path),
    .write = write_bmf,
};
