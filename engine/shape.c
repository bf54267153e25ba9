/* shape: see shape.h. */
#include "engine/shape.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/json_read.h"
#include "engine/base/json_write.h"
#include "engine/base/units.h"

enum { SHAPE_VERSION = 1 };

#define write_number(w, key, value)                                                                \
    (json_write_literal((w), "\"" key "\":"), json_write_u64((w), (value)))
#define write_text(w, key, text)                                                                   \
    (json_write_literal((w), ",\"" key "\":"), json_write_string((w), (text), strlen(text)))

static void write_model(struct json_writer *w, const struct campaign_model *model)
{
    char rate[UNITS_TEXT_BYTES];
    (void)snprintf(rate, sizeof(rate), "%.6f%%", 100 * model->error_rate);
    json_write_literal(w, ",");
    write_number(w, "tokens", model->tokens);
    json_write_literal(w, ",");
    write_number(w, "token_interval_ns", model->token_interval_ns);
    write_text(w, "stream_journal", stream_journal_name(model->rules.stream_journal));
    write_text(w, "model_error_rate", rate);
    json_write_literal(w, ",");
    write_number(w, "model_timeout_ns", model->rules.timeout_ns);
    json_write_literal(w, ",");
    write_number(w, "model_retries", model->rules.retries);
    json_write_literal(w, ",");
    write_number(w, "hedge_ns", model->rules.hedge_ns);
}

void shape_write(const struct campaign_config *config, char text[SHAPE_BYTES_MAX])
{
    struct json_writer w = json_writer_on(text, SHAPE_BYTES_MAX - 1);
    json_write_literal(&w, "{");
    write_number(&w, "v", SHAPE_VERSION);
    json_write_literal(&w, ",");
    write_number(&w, "seed", config->seed);
    json_write_literal(&w, ",");
    write_number(&w, "runs", config->runs);
    json_write_literal(&w, ",");
    write_number(&w, "duration_ns", config->duration_ns);
    json_write_literal(&w, ",");
    write_number(&w, "concurrency", config->concurrency);
    json_write_literal(&w, ",");
    write_number(&w, "timeout_ns", config->timeout_ns);
    json_write_literal(&w, ",");
    write_number(&w, "turns", config->turns);
    json_write_literal(&w, ",");
    write_number(&w, "tools", config->tools);
    if (config->warmup_ns > 0) {
        json_write_literal(&w, ",");
        write_number(&w, "warmup_ns", config->warmup_ns);
    }
    write_text(&w, "effect", tool_effect_name(config->tool_effect));
    write_text(&w, "history", history_mode_name(config->history));
    write_text(&w, "latency", config->latency.spec);
    write_text(&w, "tool_latency", config->tool_latency.spec);
    write_text(&w, "prompt_bytes", config->prompt_bytes.spec);
    write_text(&w, "reply_bytes", config->reply_bytes.spec);
    write_model(&w, &config->model);
    json_write_literal(&w, "}");
    assert(json_write_ok(&w));
    *w.at = '\0';
}

/* --- reading: a row a key --- */

enum field_kind {
    FIELD_U64,
    FIELD_U32,
    FIELD_EFFECT,
    FIELD_HISTORY,
    FIELD_STREAM,
    FIELD_SHARE,
    FIELD_DURATION,
    FIELD_BYTES,
};

struct field {
    const char *key;
    enum field_kind kind;
    size_t offset;
    uint64_t min; /* of numbers */
    uint64_t max;
};

#define FIELD(name, member, kind, min, max)                                                        \
    {                                                                                              \
        name, kind, offsetof(struct campaign_config, member), min, max                             \
    }

static const struct field fields[] = {
    FIELD("seed", seed, FIELD_U64, 0, UINT64_MAX),
    FIELD("runs", runs, FIELD_U64, 0, UINT64_MAX),
    FIELD("duration_ns", duration_ns, FIELD_U64, 0, NS_MAX_DURATION),
    FIELD("concurrency", concurrency, FIELD_U32, 1, CAMPAIGN_CONCURRENCY_MAX),
    FIELD("timeout_ns", timeout_ns, FIELD_U64, 0, NS_MAX_DURATION),
    FIELD("turns", turns, FIELD_U32, 1, CAMPAIGN_TURNS_MAX),
    FIELD("tools", tools, FIELD_U32, 1, CAMPAIGN_TOOLS_MAX),
    FIELD("effect", tool_effect, FIELD_EFFECT, 0, 0),
    FIELD("history", history, FIELD_HISTORY, 0, 0),
    FIELD("latency", latency, FIELD_DURATION, 0, 0),
    FIELD("tool_latency", tool_latency, FIELD_DURATION, 0, 0),
    FIELD("prompt_bytes", prompt_bytes, FIELD_BYTES, 0, 0),
    FIELD("reply_bytes", reply_bytes, FIELD_BYTES, 0, 0),
    FIELD("tokens", model.tokens, FIELD_U32, 0, CAMPAIGN_TOKENS_MAX),
    FIELD("token_interval_ns", model.token_interval_ns, FIELD_U64, 0, NS_MAX_DURATION),
    FIELD("stream_journal", model.rules.stream_journal, FIELD_STREAM, 0, 0),
    FIELD("model_error_rate", model.error_rate, FIELD_SHARE, 0, 0),
    FIELD("model_timeout_ns", model.rules.timeout_ns, FIELD_U64, 0, NS_MAX_DURATION),
    FIELD("model_retries", model.rules.retries, FIELD_U32, 0, AGENT_RETRIES_MAX),
    FIELD("hedge_ns", model.rules.hedge_ns, FIELD_U64, 0, NS_MAX_DURATION),
    FIELD("warmup_ns", warmup_ns, FIELD_U64, 0, NS_MAX_DURATION),
};

enum { FIELDS = sizeof(fields) / sizeof(fields[0]), FIELDS_NEEDED = 13 };

static int cannot_be_read(const struct field *field, struct errmsg *why)
{
    return errmsg_set(why, -EINVAL, "its %s cannot be read", field->key);
}

static bool read_number(struct json_reader *r, const struct field *field, void *target)
{
    uint64_t value = 0;
    if (!json_read_u64(r, &value) || value < field->min || value > field->max)
        return false;
    if (field->kind == FIELD_U64)
        *(uint64_t *)target = value;
    else
        *(uint32_t *)target = (uint32_t)value;
    return true;
}

static bool read_effect(const struct json_span *text, enum tool_effect *effect)
{
    for (int i = TOOL_EFFECT_NONE; i <= TOOL_EFFECT_LEDGER; i++) {
        const char *name = tool_effect_name((enum tool_effect)i);
        if (json_span_equals(text, name, strlen(name))) {
            *effect = (enum tool_effect)i;
            return true;
        }
    }
    return false;
}

static bool read_history(const struct json_span *text, enum history_mode *history)
{
    for (int i = HISTORY_DELTA; i <= HISTORY_SNAPSHOT; i++) {
        const char *name = history_mode_name((enum history_mode)i);
        if (json_span_equals(text, name, strlen(name))) {
            *history = (enum history_mode)i;
            return true;
        }
    }
    return false;
}

static bool read_stream(const struct json_span *text, enum stream_journal *mode)
{
    for (int i = STREAM_JOURNAL_NONE; i <= STREAM_JOURNAL_TOKEN; i++) {
        const char *name = stream_journal_name((enum stream_journal)i);
        if (json_span_equals(text, name, strlen(name))) {
            *mode = (enum stream_journal)i;
            return true;
        }
    }
    return false;
}

static bool read_share(const struct json_span *text, double *share)
{
    char digits[UNITS_TEXT_BYTES];
    struct errmsg unused;
    if (text->size >= sizeof(digits))
        return false;
    (void)snprintf(digits, sizeof(digits), "%.*s", (int)text->size, text->bytes);
    return units_parse_share(digits, share, &unused) == 0;
}

static int read_dist(const struct json_span *text, const struct field *field, struct dist *dist,
                     struct errmsg *why)
{
    char spec[JSON_ESCAPED_BYTES_MAX * DIST_SPEC_BYTES];
    struct errmsg reason = {.text = ""};
    if (text->size >= sizeof(spec))
        return cannot_be_read(field, why);
    size_t size = json_unescape(text, spec);
    spec[size] = '\0';
    if (strlen(spec) != size)
        return cannot_be_read(field, why);
    if (size == 0 && field->kind == FIELD_DURATION)
        return cannot_be_read(field, why);
    if (size == 0 || dist->spec[0] != '\0')
        return 0;
    int error =
        dist_parse(dist, spec, field->kind == FIELD_BYTES ? DIST_BYTES : DIST_DURATION, &reason);
    return error == 0 ? 0 : errmsg_set(why, error, "its %s %s", field->key, reason.text);
}

static int read_field(struct json_reader *r, const struct field *field,
                      struct campaign_config *config, struct errmsg *why)
{
    void *target = (char *)config + field->offset;
    struct json_span text = {.bytes = ""};
    bool is_number = field->kind == FIELD_U64 || field->kind == FIELD_U32;
    if (!is_number && !json_read_string(r, &text))
        return cannot_be_read(field, why);
    switch (field->kind) {
    case FIELD_U64:
    case FIELD_U32:
        return read_number(r, field, target) ? 0 : cannot_be_read(field, why);
    case FIELD_EFFECT:
        return read_effect(&text, target) ? 0 : cannot_be_read(field, why);
    case FIELD_HISTORY:
        return read_history(&text, target) ? 0 : cannot_be_read(field, why);
    case FIELD_STREAM:
        return read_stream(&text, target) ? 0 : cannot_be_read(field, why);
    case FIELD_SHARE:
        return read_share(&text, target) ? 0 : cannot_be_read(field, why);
    case FIELD_DURATION:
    case FIELD_BYTES:
        return read_dist(&text, field, target, why);
    }
    assert(!"unknown kind of field");
    return -EINVAL;
}

static int find_field(const struct json_span *key)
{
    for (int i = 0; i < FIELDS; i++)
        if (json_span_equals(key, fields[i].key, strlen(fields[i].key)))
            return i;
    return -1;
}

static int check_version(struct json_reader *r, bool was_there, struct errmsg *why)
{
    uint64_t version = 0;
    if (was_there)
        return errmsg_set(why, -EINVAL, "its version stands there twice");
    if (!json_read_u64(r, &version))
        return errmsg_set(why, -EINVAL, "its version cannot be read");
    if (version == SHAPE_VERSION)
        return 0;
    return errmsg_set(why, -EINVAL,
                      "its description is of version %" PRIu64 ", this bench knows %d", version,
                      SHAPE_VERSION);
}

int shape_read(struct campaign_config *config, const char *text, struct errmsg *why)
{
    struct json_reader r = json_reader_on(text, strlen(text));
    struct json_span key;
    bool has_version = false;
    unsigned seen = 0;

    (void)json_read_object(&r);
    while (json_read_key(&r, &key)) {
        int i = find_field(&key);
        int error = 0;
        if (i >= 0 && (seen & 1u << i) != 0) {
            error = errmsg_set(why, -EINVAL, "its %s stands there twice", fields[i].key);
        } else if (i >= 0) {
            error = read_field(&r, &fields[i], config, why);
            seen |= 1u << i;
        } else if (json_span_is(&key, "v")) { /* the first, so that the rest is known */
            error = check_version(&r, has_version, why);
            has_version = true;
        } else { /* what another bench adds can be done without, or the version is another */
            (void)json_skip_value(&r, NULL);
        }
        if (error != 0)
            return error;
    }
    if (!json_read_end(&r))
        return errmsg_set(why, -EINVAL, "its description is no JSON: %s", r.error);
    const unsigned needed = (1u << FIELDS_NEEDED) - 1;
    if (!has_version || (seen & needed) != needed)
        return errmsg_set(why, -EINVAL, "its description is not complete");
    if (config->runs == 0 && config->duration_ns == 0)
        return errmsg_set(why, -EINVAL, "it has neither runs nor a duration");
    return 0;
}
