/* merged_place: see merged_place.h. */
#include "cmd/merged_place.h"

#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* --- hosts --- */

static void take_text(const json_t *value, void *target)
{
    if (!json_is_string(value))
        return;
    (void)snprintf(target, HOST_TEXT_BYTES, "%s", json_string_value(value));
    errmsg_clean(target);
}

static void take_u32(const json_t *value, void *target)
{
    json_int_t whole = json_integer_value(value);
    *(uint32_t *)target = whole > 0 && whole <= UINT32_MAX ? (uint32_t)whole : 0;
}

static void take_u64(const json_t *value, void *target)
{
    json_int_t whole = json_integer_value(value);
    *(uint64_t *)target = whole > 0 ? (uint64_t)whole : 0;
}

static void take_quota(const json_t *value, void *target)
{
    if (json_is_null(value))
        *(double *)target = 0;
    else if (json_is_number(value) && json_number_value(value) > 0)
        *(double *)target = json_number_value(value);
}

static const struct row {
    const char *key;
    size_t offset;
    void (*take)(const json_t *value, void *target);
    bool is_measured; /* and so another each time, on the same machine */
} rows[] = {
    {"cpu_model", offsetof(struct host, cpu_model), take_text, false},
    {"cpus", offsetof(struct host, cpus), take_u32, false},
    {"cpus_online", offsetof(struct host, cpus_online), take_u32, false},
    {"cpu_quota", offsetof(struct host, cpu_quota), take_quota, false},
    {"cpu_governor", offsetof(struct host, cpu_governor), take_text, false},
    {"kernel", offsetof(struct host, kernel), take_text, false},
    {"clock_source", offsetof(struct host, clock_source), take_text, false},
    {"clock_step_ns", offsetof(struct host, clock_step_ns), take_u64, true},
    {"memory_bytes", offsetof(struct host, memory_bytes), take_u64, false},
};

static json_t *fact_of(const json_t *sources, size_t index, const char *key)
{
    return json_object_get(json_object_get(json_array_get(sources, index), "host"), key);
}

static bool is_same_in_all(const json_t *sources, const char *key)
{
    const json_t *first = fact_of(sources, 0, key);
    for (size_t i = 1; i < json_array_size(sources); i++) {
        const json_t *other = fact_of(sources, i, key);
        if (first != other && !json_equal(first, other))
            return false;
    }
    return true;
}

void merged_place_host(const json_t *sources, struct host *host)
{
    size_t used = 0;
    *host = (struct host){.cpu_quota = HOST_QUOTA_NOT_KNOWN};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct row *row = &rows[i];
        if (is_same_in_all(sources, row->key)) {
            row->take(fact_of(sources, 0, row->key), (char *)host + row->offset);
        } else if (!row->is_measured) {
            int size = snprintf(host->differs_in + used, sizeof(host->differs_in) - used, "%s%s",
                                used == 0 ? "" : ", ", row->key);
            used += (size_t)size;
            assert(used < sizeof(host->differs_in)); /* all the keys fit */
        }
    }
}

/* --- build and store --- */

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "unknown";
}

struct version merged_place_build(const struct result_file *file)
{
    const json_t *build = result_file_find(file, "build");
    return (struct version){
        .version = text_of(build, "version"),
        .revision = text_of(build, "revision"),
        .compiler = text_of(build, "compiler"),
        .sanitizers = text_of(build, "sanitizers"),
        .flags = text_of(build, "flags"),
        .is_dirty = json_is_true(json_object_get(build, "is_dirty")),
        .is_optimized = json_is_true(json_object_get(build, "is_optimized")),
    };
}

static bool is_setting(const char *key, const json_t *value)
{
    size_t size = strlen(key);
    return json_is_string(value) && size > 0 && size <= MERGED_SETTING_KEY_BYTES_MAX &&
           strspn(key, "abcdefghijklmnopqrstuvwxyz0123456789_") == size;
}

int merged_place_settings(const struct result_file *file, struct journal_settings *settings,
                          struct errmsg *why)
{
    const char *key;
    json_t *value;
    json_t *all = result_file_find(file, "store.settings");
    settings->count = 0;
    if (!json_is_object(all) || json_object_size(all) > JOURNAL_SETTINGS_MAX)
        return result_file_refuse(file, "store.settings", "an object of at most 16 settings", why);
    json_object_foreach(all, key, value)
    {
        struct journal_setting *setting = &settings->all[settings->count];
        if (!is_setting(key, value))
            return result_file_refuse(file, "store.settings", "of a name and a text each", why);
        setting->key = key;
        (void)snprintf(setting->value, sizeof(setting->value), "%s", json_string_value(value));
        errmsg_clean(setting->value);
        settings->count++;
    }
    return 0;
}
