/*
 * report_gha: the figures for github-action-benchmark, whose custom tools each read a list of
 * {"name","unit","value","extra"} of one direction: customSmallerIsBetter, customBiggerIsBetter. So
 * there are two files. A single run has no spread: "range" is left to who has several.
 */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>

#include "cmd/report_config.h"
#include "cmd/report_figures.h"
#include "cmd/report_provenance.h"

/* A line a fact: what the action shows beside a value. */
static void print_fact(void *arg, const struct fact *fact)
{
    FILE *out = (FILE *)arg;
    (void)fprintf(out, "%s: %s\n", fact->key, fact->value);
}

/* The caller's to free; NULL without memory. */
static char *facts_of(const struct report *report)
{
    char *text = NULL;
    size_t size = 0;
    FILE *memory = open_memstream(&text, &size);
    if (memory == NULL)
        return NULL;
    report_provenance(report, print_fact, memory);
    bool has_failed = ferror(memory) != 0;
    if (fclose(memory) == 0 && !has_failed)
        return text;
    free(text);
    return NULL;
}

static int write_direction(FILE *out, const struct report *report, enum figure_better better)
{
    struct figure figures[FIGURES_MAX];
    char series[SERIES_BYTES];
    size_t count = report_figures(report, figures);
    char *extra = facts_of(report);
    json_t *list = json_array();
    bool has_failed = extra == NULL || report_series(report, series) != 0;
    for (size_t i = 0; i < count && !has_failed; i++) {
        const struct figure *figure = &figures[i];
        char name[SERIES_BYTES + 64];
        if (figure->better != better)
            continue;
        (void)snprintf(name, sizeof(name), "%s/%s", series, figure->name);
        json_t *entry = json_pack("{s:s,s:s,s:f,s:s}", "name", name, "unit",
                                  figure->unit[0] != '\0' ? figure->unit : "count", "value",
                                  figure->value, "extra", extra);
        has_failed = json_array_append_new(list, entry) != 0;
    }
    has_failed = has_failed || json_dumpf(list, out, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) != 0;
    (void)fputc('\n', out);
    json_decref(list);
    free(extra);
    return has_failed ? -ENOMEM : 0;
}

static int write_smaller(FILE *out, const struct report *report)
{
    return write_direction(out, report, FIGURE_LOWER);
}

static int write_bigger(FILE *out, const struct report *report)
{
    return write_direction(out, report, FIGURE_HIGHER);
}

const struct report_format report_gha_smaller = {
    .name = "gha",
    .path_offset = offsetof(struct options, gha_path),
    .infix = "smaller",
    .write = write_smaller,
};

const struct report_format report_gha_bigger = {
    .name = "gha",
    .path_offset = offsetof(struct options, gha_path),
    .infix = "bigger",
    .write = write_bigger,
};
