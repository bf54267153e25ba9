/* result_file: see result_file.h. Histograms and intervals are in result_file_series.c. */
#include "cmd/result_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { READ_FIRST_BYTES = 1 << 20, SHOWN_BYTES = 80 };

static const char schema[] = "bench.run/1";

/* What every result has, and of what type; latency and intervals are not kept in the tree. */
static const struct {
    const char *key;
    json_type type;
} sections[] = {
    {"build", JSON_OBJECT},    {"host", JSON_OBJECT},   {"store", JSON_OBJECT},
    {"config", JSON_OBJECT},   {"result", JSON_OBJECT}, {"slo", JSON_ARRAY},
    {"validity", JSON_OBJECT},
};

/* --- the whole text --- */

static int refuse_text(const struct result_file *file, const struct json_reader *r,
                       struct errmsg *why)
{
    return errmsg_set(why, -EINVAL, "%s: byte %td: %s", file->name, r->at - r->start, r->error);
}

static int add_section(struct result_file *file, const struct json_span *key,
                       const struct json_span *value, size_t *tree_bytes, struct errmsg *why)
{
    char name[RESULT_FILE_NAME_BYTES];
    json_error_t error;
    if (key->has_escapes || key->size >= sizeof(name))
        return errmsg_set(why, -EINVAL, "%s: %.*s… is no key of a result", file->name, SHOWN_BYTES,
                          key->bytes);
    memcpy(name, key->bytes, key->size);
    name[key->size] = '\0';
    if (json_object_get(file->tree, name) != NULL)
        return errmsg_set(why, -EINVAL, "%s: %s stands there twice", file->name, name);
    *tree_bytes += value->size;
    if (*tree_bytes > RESULT_FILE_TREE_BYTES_MAX)
        return errmsg_set(why, -EFBIG, "%s: %s: there is more than %d MiB beside the histograms",
                          file->name, name, RESULT_FILE_TREE_BYTES_MAX >> 20);
    json_t *section =
        json_loadb(value->bytes, value->size, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
    if (section == NULL)
        return errmsg_set(why, -EINVAL, "%s: %s: %s", file->name, name, error.text);
    if (json_object_set_new(file->tree, name, section) != 0)
        return errmsg_set(why, -ENOMEM, "%s: no memory for it", file->name);
    return 0;
}

/* The value of "latency", which is most of the text and so is passed over once. */
static int add_hists(struct result_file *file, struct json_reader *r, struct errmsg *why)
{
    struct result_file_hist hist;
    if (file->hist_count > 0)
        return errmsg_set(why, -EINVAL, "%s: latency stands there twice", file->name);
    (void)json_read_object(r); /* An error sticks to the end. */
    while (json_read_key(r, &hist.name) && json_skip_value(r, &hist.value)) {
        for (size_t i = 0; i < file->hist_count; i++)
            if (json_span_equals(&file->hists[i].name, hist.name.bytes, hist.name.size))
                return errmsg_set(why, -EINVAL, "%s: latency.%.*s stands there twice", file->name,
                                  (int)hist.name.size, hist.name.bytes);
        if (file->hist_count == RESULT_FILE_HISTS_MAX)
            return errmsg_set(why, -EINVAL, "%s: latency has more than %d histograms", file->name,
                              RESULT_FILE_HISTS_MAX);
        file->hists[file->hist_count++] = hist;
    }
    return 0;
}

static int add_member(struct result_file *file, struct json_reader *r, const struct json_span *key,
                      size_t *tree_bytes, struct errmsg *why)
{
    struct json_span value;
    if (json_span_is(key, "latency"))
        return add_hists(file, r, why);
    if (!json_skip_value(r, &value))
        return 0; /* The reader says why. */
    if (!json_span_is(key, "intervals"))
        return add_section(file, key, &value, tree_bytes, why);
    if (file->intervals.bytes != NULL)
        return errmsg_set(why, -EINVAL, "%s: intervals stands there twice", file->name);
    file->intervals = value;
    return 0;
}

static int read_members(struct result_file *file, struct json_reader *r, struct errmsg *why)
{
    struct json_span key;
    size_t tree_bytes = 0;
    int error = 0;
    while (error == 0 && json_read_key(r, &key))
        error = add_member(file, r, &key, &tree_bytes, why);
    if (error == 0 && !json_read_end(r))
        error = refuse_text(file, r, why);
    return error;
}

static int check_schema(const struct result_file *file, struct errmsg *why)
{
    const json_t *found = json_object_get(file->tree, "schema");
    if (found == NULL)
        return errmsg_set(why, -EINVAL, "%s: schema is missing: it is no result of bench",
                          file->name);
    if (!json_is_string(found) || strcmp(json_string_value(found), schema) != 0)
        return result_file_refuse(file, "schema", "\"bench.run/1\"", why);
    for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]); i++) {
        found = json_object_get(file->tree, sections[i].key);
        if (found == NULL || json_typeof(found) != sections[i].type)
            return result_file_refuse(file, sections[i].key,
                                      sections[i].type == JSON_ARRAY ? "an array" : "an object",
                                      why);
    }
    if (file->hist_count == 0)
        return errmsg_set(why, -EINVAL, "%s: latency is missing", file->name);
    if (file->intervals.bytes == NULL)
        return errmsg_set(why, -EINVAL, "%s: intervals is missing", file->name);
    return 0;
}

static void set_name(struct result_file *file, const char *name)
{
    struct errmsg clean;
    size_t bytes = strlen(name);
    const size_t room = sizeof(file->name) - 1;
    if (bytes > room) /* after the "…", which takes three bytes */
        (void)errmsg_set(&clean, 0, "…%s", name + bytes - (room - 3));
    else
        (void)errmsg_set(&clean, 0, "%s", name);
    /* A character that was cut in two has become question marks: no byte more. */
    (void)memccpy(file->name, clean.text, '\0', sizeof(file->name));
}

int result_file_parse(struct result_file *file, const char *name, const char *bytes, size_t size,
                      struct errmsg *why)
{
    struct json_reader r = json_reader_on(bytes, size);
    *file = (struct result_file){.tree = json_object()};
    set_name(file, name);
    int error = 0;
    if (file->tree == NULL)
        return errmsg_set(why, -ENOMEM, "%s: no memory for it", file->name);
    if (size > RESULT_FILE_BYTES_MAX)
        error = errmsg_set(why, -EFBIG, "%s: larger than %d MiB", file->name,
                           RESULT_FILE_BYTES_MAX >> 20);
    (void)json_read_object(&r);
    if (error == 0)
        error = read_members(file, &r, why);
    if (error == 0)
        error = check_schema(file, why);
    if (error != 0)
        result_file_free(file);
    return error;
}

void result_file_free(struct result_file *file)
{
    json_decref(file->tree);
    free(file->owned);
    file->tree = NULL;
    file->owned = NULL;
}

/* --- the file --- */

/* To the end, or to one byte more than it may have. */
static int read_all(int fd, char **bytes, size_t *size)
{
    size_t capacity = 0;
    for (*size = 0; *size <= RESULT_FILE_BYTES_MAX;) {
        if (*size == capacity) {
            capacity = capacity == 0 ? READ_FIRST_BYTES : 2 * capacity;
            char *grown = realloc(*bytes, capacity);
            if (grown == NULL)
                return -ENOMEM;
            *bytes = grown;
        }
        ssize_t got = read(fd, *bytes + *size, capacity - *size);
        if (got == 0)
            return 0;
        if (got < 0 && errno != EINTR)
            return -errno;
        *size += got > 0 ? (size_t)got : 0;
    }
    return 0;
}

int result_file_load(struct result_file *file, const char *path, struct errmsg *why)
{
    char *bytes = NULL;
    size_t size = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    int error = fd < 0 ? -errno : read_all(fd, &bytes, &size);
    if (fd >= 0)
        (void)close(fd); /* only read from */
    if (error != 0) {
        free(bytes);
        set_name(file, path);
        return errmsg_set(why, error, "%s: cannot be read: %s", file->name,
                          strerrordesc_np(-error));
    }
    error = result_file_parse(file, path, bytes, size, why);
    if (error != 0)
        free(bytes);
    else
        file->owned = bytes;
    return error;
}

/* --- values --- */

json_t *result_file_find(const struct result_file *file, const char *key)
{
    json_t *value = file->tree;
    while (value != NULL && key != NULL) {
        size_t bytes = strcspn(key, ".");
        value = json_object_getn(value, key, bytes);
        key = key[bytes] == '.' ? key + bytes + 1 : NULL;
    }
    return value;
}

int result_file_refuse(const struct result_file *file, const char *key, const char *expected,
                       struct errmsg *why)
{
    const json_t *found = result_file_find(file, key);
    if (found == NULL)
        return errmsg_set(why, -EINVAL, "%s: %s is missing", file->name, key);
    char *shown = json_dumps(found, JSON_COMPACT | JSON_ENCODE_ANY);
    (void)errmsg_set(why, -EINVAL, "%s: %s must be %s, got %.*s", file->name, key, expected,
                     SHOWN_BYTES, shown != NULL ? shown : "?");
    free(shown);
    return -EINVAL;
}

int result_file_read_i64(const struct result_file *file, const char *key, int64_t *value,
                         struct errmsg *why)
{
    const json_t *found = result_file_find(file, key);
    if (!json_is_integer(found))
        return result_file_refuse(file, key, "a whole number", why);
    *value = json_integer_value(found);
    return 0;
}

int result_file_read_u64(const struct result_file *file, const char *key, uint64_t *value,
                         struct errmsg *why)
{
    const json_t *found = result_file_find(file, key);
    if (!json_is_integer(found) || json_integer_value(found) < 0)
        return result_file_refuse(file, key, "a whole number of at least 0", why);
    *value = (uint64_t)json_integer_value(found);
    return 0;
}

int result_file_read_u64_or_null(const struct result_file *file, const char *key, uint64_t if_null,
                                 uint64_t *value, struct errmsg *why)
{
    if (!json_is_null(result_file_find(file, key)))
        return result_file_read_u64(file, key, value, why);
    *value = if_null;
    return 0;
}

int result_file_read_double(const struct result_file *file, const char *key, double *value,
                            struct errmsg *why)
{
    const json_t *found = result_file_find(file, key);
    if (!json_is_number(found) || json_number_value(found) < 0)
        return result_file_refuse(file, key, "a number of at least 0", why);
    *value = json_number_value(found);
    return 0;
}

int result_file_read_text(const struct result_file *file, const char *key, const char **value,
                          struct errmsg *why)
{
    const json_t *found = result_file_find(file, key);
    if (!json_is_string(found))
        return result_file_refuse(file, key, "a text", why);
    *value = json_string_value(found);
    return 0;
}

int result_file_read_text_or_null(const struct result_file *file, const char *key,
                                  const char **value, struct errmsg *why)
{
    if (!json_is_null(result_file_find(file, key)))
        return result_file_read_text(file, key, value, why);
    *value = NULL;
    return 0;
}

bool result_file_is_of_output(const char *key)
{
    static const char *const keys[] = {"json",  "csv",         "markdown",  "hgrm",
                                       "gha",   "gobench",     "bmf",       "openmetrics",
                                       "quiet", "progress_ns", "histogram", "ledger"};
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        if (strcmp(keys[i], key) == 0)
            return true;
    return false;
}
