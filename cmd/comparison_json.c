/*
 * comparison_json: the comparison for programs, schema "bench.compare/1", described by
 * docs/bench.compare.schema.json. Changes to it are append-only. What is not known is null.
 */
#include <errno.h>
#include <jansson.h>
#include <math.h>

#include "cmd/comparison.h"

/* The only way that building can fail is to run out of memory; `failed` remembers it to the end. */
static void set(bool *failed, json_t *object, const char *key, json_t *value)
{
    if (json_object_set_new(object, key, value) != 0)
        *failed = true;
}

static json_t *real_or_null(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *text_or_null(const char *text)
{
    return text[0] != '\0' ? json_string(text) : json_null();
}

static json_t *center(bool *failed, const struct center *center)
{
    json_t *object = json_object();
    set(failed, object, "median", real_or_null(center->median));
    set(failed, object, "low", real_or_null(center->low));
    set(failed, object, "high", real_or_null(center->high));
    return object;
}

static json_t *figure(bool *failed, const struct compare_row *row,
                      const struct judgement *judgement, double floor)
{
    static const char *const units[] = {
        [COMPARE_PLAIN] = "", [COMPARE_NS] = "ns", [COMPARE_BYTES] = "B", [COMPARE_PER_S] = "1/s"};
    json_t *object = json_object();
    set(failed, object, "name", json_string(row->name));
    set(failed, object, "kind", json_string(row->kind == COMPARE_COUNT ? "count" : "measure"));
    set(failed, object, "unit", json_string(units[row->unit]));
    set(failed, object, "is_more_better", json_boolean(row->is_more_better));
    set(failed, object, "verdict", json_string(verdict_name(judgement->verdict)));
    set(failed, object, "base", center(failed, &judgement->base));
    set(failed, object, "head", center(failed, &judgement->head));
    set(failed, object, "change_ratio", real_or_null(judgement->change));
    set(failed, object, "low_ratio", real_or_null(judgement->low));
    set(failed, object, "high_ratio", real_or_null(judgement->high));
    set(failed, object, "p", real_or_null(judgement->p));
    set(failed, object, "floor_ratio", real_or_null(floor));
    return object;
}

static json_t *side(bool *failed, const struct compare_results *results)
{
    json_t *object = json_object();
    set(failed, object, "runs", json_integer((json_int_t)results->count));
    set(failed, object, "runs_invalid", json_integer((json_int_t)results->invalid_count));
    set(failed, object, "revision", json_string(results->revision));
    set(failed, object, "journal_checksum", text_or_null(results->checksum));
    return object;
}

static json_t *scenario(bool *failed, const struct compared_scenario *compared)
{
    static const char *const works[] = {[COMPARE_WORK_UNKNOWN] = "unknown",
                                        [COMPARE_WORK_SAME] = "same",
                                        [COMPARE_WORK_DIFFERS] = "differs"};
    json_t *object = json_object();
    json_t *figures = json_array();
    set(failed, object, "name", json_string(compared->of->name));
    set(failed, object, "work", json_string(works[compared->work]));
    set(failed, object, "base", side(failed, &compared->of->sides[COMPARE_BASE]));
    set(failed, object, "head", side(failed, &compared->of->sides[COMPARE_HEAD]));
    for (size_t i = 0; i < COMPARE_ROWS; i++) {
        const struct judgement *judgement = &compared->judgements[i];
        if (judgement->verdict == VERDICT_NONE)
            continue;
        json_t *value = figure(failed, &compare_rows[i], judgement, compared->floors[i]);
        *failed = json_array_append_new(figures, value) != 0 || *failed;
    }
    set(failed, object, "figures", figures);
    return object;
}

static json_t *geomeans(bool *failed, const struct comparison *comparison)
{
    json_t *object = json_object();
    for (size_t i = 0; i < COMPARE_ROWS; i++)
        if (compare_rows[i].kind == COMPARE_MEASURE)
            set(failed, object, compare_rows[i].name, real_or_null(comparison->geomeans[i]));
    return object;
}

int comparison_write_json(FILE *out, const struct comparison *comparison)
{
    const struct compare_set *compared = comparison->set;
    bool failed = false;
    json_t *root = json_object();
    json_t *scenarios = json_array();
    json_t *differences = json_array();
    for (size_t i = 0; i < compared->difference_count && i < COMPARE_DIFFERENCES_MAX; i++)
        failed =
            json_array_append_new(differences, json_string(compared->differences[i].text)) != 0 ||
            failed;
    for (size_t i = 0; i < comparison->count; i++)
        failed =
            json_array_append_new(scenarios, scenario(&failed, &comparison->scenarios[i])) != 0 ||
            failed;
    set(&failed, root, "schema", json_string("bench.compare/1"));
    set(&failed, root, "is_paired", json_boolean(comparison->rules.is_paired));
    set(&failed, root, "threshold_ratio", json_real(comparison->rules.threshold));
    set(&failed, root, "regressions", json_integer((json_int_t)comparison->regressions));
    set(&failed, root, "differences", differences);
    set(&failed, root, "scenarios", scenarios);
    set(&failed, root, "geomean_ratios", geomeans(&failed, comparison));
    if (!failed)
        failed = json_dumpf(root, out, JSON_COMPACT | JSON_REAL_PRECISION(9)) != 0 ||
                 fputc('\n', out) == EOF;
    json_decref(root);
    return failed ? -ENOMEM : 0;
}
