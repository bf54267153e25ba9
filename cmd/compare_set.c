/* compare_set: see compare_set.h. */
#include "cmd/compare_set.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/base/shift.h"

static const char *const sections[] = {"host", "store", "config"};
enum { SECTIONS = sizeof(sections) / sizeof(sections[0]), VALUE_BYTES = 80 };

/* --- what must not differ --- */

/* Whether a key must be the same in all results. Of store, that is what is set: its other numbers
 * are results; of host, what does not move by itself. */
static bool is_setting(const char *section, const char *key, const json_t *value)
{
    if (strcmp(section, "host") == 0)
        return strcmp(key, "clock_step_ns") != 0 && strcmp(key, "memory_bytes") != 0;
    if (strcmp(section, "config") == 0)
        return !result_file_is_of_output(key);
    return !json_is_number(value) || strcmp(key, "shards") == 0 || strcmp(key, "connections") == 0;
}

/* A value as it stands in the file, cut where it is long. */
static const char *show(const json_t *value, char text[VALUE_BYTES])
{
    char *dump = value == NULL ? NULL : json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    (void)snprintf(text, VALUE_BYTES, "%s", dump != NULL ? dump : "missing");
    free(dump);
    return text;
}

static int tell_difference(struct compare_set *set, const struct compare_scenario *scenario,
                           const char *section, const char *key, const struct result_file *file,
                           struct errmsg *why)
{
    char ours[VALUE_BYTES];
    char theirs[VALUE_BYTES];
    struct errmsg told;
    const json_t *first = json_object_get(json_object_get(scenario->first, section), key);
    const json_t *other = json_object_get(result_file_find(file, section), key);
    (void)errmsg_set(&told, 0, "%s and %s differ: %s.%s is %s and %s", scenario->first_name,
                     file->name, section, key, show(first, ours), show(other, theirs));
    if (!set->is_forced)
        return errmsg_set(why, -EINVAL, "%s (-force compares them all the same)", told.text);
    if (set->difference_count < COMPARE_DIFFERENCES_MAX)
        set->differences[set->difference_count] = told;
    set->difference_count++;
    return 0;
}

static int check_section(struct compare_set *set, const struct compare_scenario *scenario,
                         const char *section, const struct result_file *file, struct errmsg *why)
{
    json_t *ours = json_object_get(scenario->first, section);
    json_t *theirs = result_file_find(file, section);
    const char *key;
    json_t *value;
    int error = 0;
    json_object_foreach(ours, key, value)
    {
        if (error == 0 && is_setting(section, key, value) &&
            !json_equal(value, json_object_get(theirs, key)))
            error = tell_difference(set, scenario, section, key, file, why);
    }
    json_object_foreach(theirs, key, value)
    {
        if (error == 0 && is_setting(section, key, value) && json_object_get(ours, key) == NULL)
            error = tell_difference(set, scenario, section, key, file, why);
    }
    return error;
}

/* The first result of a scenario is what the others are held against. */
static int check_place(struct compare_set *set, struct compare_scenario *scenario,
                       const struct result_file *file, struct errmsg *why)
{
    int error = 0;
    if (scenario->first != NULL) {
        for (size_t i = 0; i < SECTIONS && error == 0; i++)
            error = check_section(set, scenario, sections[i], file, why);
        return error;
    }
    scenario->first = json_object();
    for (size_t i = 0; i < SECTIONS && error == 0; i++) {
        json_t *section = result_file_find(file, sections[i]);
        if (!json_is_object(section))
            return errmsg_set(why, -EINVAL, "%s: %s is missing", file->name, sections[i]);
        error = json_object_set(scenario->first, sections[i], section);
    }
    (void)snprintf(scenario->first_name, sizeof(scenario->first_name), "%s", file->name);
    return error != 0 ? errmsg_set(why, -ENOMEM, "no memory for a comparison") : 0;
}

/* --- results --- */

static int grow(struct compare_results *results, struct errmsg *why)
{
    for (size_t i = 0; i < COMPARE_ROWS; i++) {
        double *more =
            realloc(results->values[i], (results->count + 1) * sizeof(results->values[i][0]));
        if (more == NULL)
            return errmsg_set(why, -ENOMEM, "no memory for a comparison");
        results->values[i] = more;
    }
    return 0;
}

/* What tells whether the same work was done: of a fixed number of runs only. */
static int read_checksum(struct compare_results *results, const struct result_file *file,
                         struct errmsg *why)
{
    const char *text = "";
    if (result_file_find(file, "result.journal_checksum") != NULL &&
        !json_is_null(result_file_find(file, "config.runs"))) {
        int error = result_file_read_text(file, "result.journal_checksum", &text, why);
        if (error != 0)
            return error;
    }
    if (strlen(text) >= sizeof(results->checksum))
        return result_file_refuse(file, "result.journal_checksum", "16 hexadecimal digits", why);
    if (results->count == 0)
        memcpy(results->checksum, text, strlen(text) + 1);
    else if (strcmp(results->checksum, text) != 0)
        results->checksum[0] = '\0';
    return 0;
}

static int check_errors(const struct compare_set *set, const struct result_file *file,
                        struct errmsg *why)
{
    uint64_t errors = 0;
    int error = result_file_read_u64(file, "result.errors", &errors, why);
    if (error != 0 || errors == 0 || set->is_forced)
        return error;
    return errmsg_set(why, -EINVAL,
                      "%s: %" PRIu64 " of its runs did not complete (-force takes it"
                      " all the same)",
                      file->name, errors);
}

static int take_result(struct compare_set *set, struct compare_scenario *scenario,
                       enum compare_side side, const struct result_file *file, struct errmsg *why)
{
    struct compare_results *results = &scenario->sides[side];
    double values[COMPARE_ROWS];
    const char *verdict = NULL;
    const char *revision = NULL;
    if (results->count == SHIFT_VALUES_MAX)
        return errmsg_set(why, -E2BIG, "%s: more than %d results of a side", file->name,
                          SHIFT_VALUES_MAX);
    int error = check_errors(set, file, why);
    if (error == 0)
        error = check_place(set, scenario, file, why);
    if (error == 0)
        error = compare_rows_read(file, values, why);
    if (error == 0)
        error = read_checksum(results, file, why);
    if (error == 0)
        error = result_file_read_text(file, "validity.verdict", &verdict, why);
    if (error == 0)
        error = result_file_read_text(file, "build.revision", &revision, why);
    if (error == 0)
        error = grow(results, why);
    if (error != 0)
        return error;
    if (results->count == 0)
        (void)snprintf(results->revision, sizeof(results->revision), "%s", revision);
    results->invalid_count += strcmp(verdict, "valid") != 0;
    for (size_t i = 0; i < COMPARE_ROWS; i++)
        results->values[i][results->count] = values[i];
    results->count++;
    return 0;
}

/* --- files and directories --- */

static struct compare_scenario *find_scenario(struct compare_set *set, const char *name,
                                              struct errmsg *why)
{
    for (size_t i = 0; i < set->count; i++)
        if (strcmp(set->scenarios[i].name, name) == 0)
            return &set->scenarios[i];
    if (set->count == COMPARE_SCENARIOS_MAX || strlen(name) >= COMPARE_NAME_BYTES) {
        (void)errmsg_set(why, -E2BIG, "%s: more than %d scenarios, or a longer name than %d bytes",
                         name, COMPARE_SCENARIOS_MAX, COMPARE_NAME_BYTES - 1);
        return NULL;
    }
    struct compare_scenario *more =
        realloc(set->scenarios, (set->count + 1) * sizeof(set->scenarios[0]));
    if (more == NULL) {
        (void)errmsg_set(why, -ENOMEM, "no memory for a comparison");
        return NULL;
    }
    set->scenarios = more;
    struct compare_scenario *scenario = &more[set->count++];
    memset(scenario, 0, sizeof(*scenario));
    (void)snprintf(scenario->name, sizeof(scenario->name), "%s", name);
    return scenario;
}

static int add_file(struct compare_set *set, enum compare_side side, const char *path,
                    const char *name, struct errmsg *why)
{
    struct result_file file;
    struct compare_scenario *scenario = find_scenario(set, name, why);
    if (scenario == NULL)
        return -E2BIG;
    int error = result_file_load(&file, path, why);
    if (error != 0)
        return error;
    error = take_result(set, scenario, side, &file, why);
    result_file_free(&file);
    return error;
}

static int is_listed(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static bool is_result_name(const char *name)
{
    size_t size = strlen(name);
    return size > 5 && strcmp(name + size - 5, ".json") == 0;
}

/* `name` is the scenario of what lies there; a directory in a scenario is not looked into. */
static int add_directory(struct compare_set *set, enum compare_side side, const char *path,
                         const char *name, struct errmsg *why)
{
    struct dirent **entries = NULL;
    int count = scandir(path, &entries, is_listed, versionsort);
    if (count < 0)
        return errmsg_set(why, -errno, "%s: %s", path, strerror(errno));
    int error = 0;
    for (int i = 0; i < count; i++) {
        char inner[PATH_MAX];
        struct stat status;
        int size = snprintf(inner, sizeof(inner), "%s/%s", path, entries[i]->d_name);
        if (error == 0 && (size < 0 || size >= PATH_MAX || stat(inner, &status) != 0))
            error = errmsg_set(why, -ENOENT, "%s/%s cannot be looked at", path, entries[i]->d_name);
        else if (error == 0 && S_ISDIR(status.st_mode) && name[0] == '\0')
            error = add_directory(set, side, inner, entries[i]->d_name, why);
        else if (error == 0 && S_ISREG(status.st_mode) && is_result_name(entries[i]->d_name))
            error = add_file(set, side, inner, name, why);
        free(entries[i]);
    }
    free(entries);
    return error;
}

void compare_set_init(struct compare_set *set, bool is_forced)
{
    *set = (struct compare_set){.is_forced = is_forced};
}

int compare_set_add(struct compare_set *set, enum compare_side side, const char *path,
                    struct errmsg *why)
{
    struct stat status;
    if (stat(path, &status) == 0 && S_ISDIR(status.st_mode))
        return add_directory(set, side, path, "", why);
    return add_file(set, side, path, "", why);
}

int compare_set_check(const struct compare_set *set, bool is_paired, struct errmsg *why)
{
    static const char *const names[COMPARE_SIDES] = {"base", "head"};
    for (size_t i = 0; i < set->count; i++) {
        const struct compare_scenario *scenario = &set->scenarios[i];
        size_t base = scenario->sides[COMPARE_BASE].count;
        size_t head = scenario->sides[COMPARE_HEAD].count;
        if (base == 0 || head == 0)
            return errmsg_set(why, -EINVAL, "scenario \"%s\" has no result of the %s",
                              scenario->name, names[base == 0 ? COMPARE_BASE : COMPARE_HEAD]);
        if (is_paired && base != head)
            return errmsg_set(why, -EINVAL,
                              "scenario \"%s\" has %zu results of the base and %zu of the head,"
                              " which are no pairs",
                              scenario->name, base, head);
    }
    return set->count > 0 ? 0 : errmsg_set(why, -EINVAL, "there is no result to compare");
}

void compare_set_free(struct compare_set *set)
{
    for (size_t i = 0; i < set->count; i++) {
        json_decref(set->scenarios[i].first);
        for (size_t side = 0; side < COMPARE_SIDES; side++)
            for (size_t row = 0; row < COMPARE_ROWS; row++)
                free(set->scenarios[i].sides[side].values[row]);
    }
    free(set->scenarios);
}
