/* units: see units.h. Parsing first, then formatting. */
#include "engine/base/units.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"

__extension__ typedef unsigned __int128 wide; /* the product of any number and any unit fits */

struct unit {
    const char *name;
    uint64_t factor;
};

static const struct unit duration_units[] = {
    {"ns", 1},
    {"us", NS_PER_US},
    {"\u00b5s", NS_PER_US}, /* the micro sign, which keyboards have */
    {"\u03bcs", NS_PER_US}, /* the Greek letter, which Unicode prefers */
    {"ms", NS_PER_MS},
    {"s", NS_PER_S},
    {"m", 60 * NS_PER_S},
    {"h", 3600 * NS_PER_S},
};

static const struct unit bytes_units[] = {
    {"B", 1},
    {"KB", UINT64_C(1000)},
    {"MB", UINT64_C(1000000)},
    {"GB", UINT64_C(1000000000)},
    {"KiB", UINT64_C(1) << 10},
    {"MiB", UINT64_C(1) << 20},
    {"GiB", UINT64_C(1) << 30},
};

/* What a parser reads, for its messages. */
struct quantity {
    const char *article; /* "a duration such as 50ms" */
    const char *known_units;
    const char *minimum; /* but for 0 */
    const char *maximum;
    uint64_t max;
    bool may_end_in_point; /* "1.s" */
    const struct unit *units;
    size_t unit_count;
};

static const struct quantity quantity_duration = {
    .article = "a duration such as 50ms",
    .known_units = "ns, us, ms, s, m, h",
    .minimum = "1ns",
    .maximum = "24h",
    .max = NS_MAX_DURATION,
    .may_end_in_point = true,
    .units = duration_units,
    .unit_count = sizeof(duration_units) / sizeof(duration_units[0]),
};

static const struct quantity quantity_bytes = {
    .article = "a size such as 2KB",
    .known_units = "B, KB, MB, GB, KiB, MiB, GiB",
    .minimum = "1B",
    .maximum = "8388608GiB",
    .max = UNITS_BYTES_MAX,
    .units = bytes_units,
    .unit_count = sizeof(bytes_units) / sizeof(bytes_units[0]),
};

static const char count_article[] = "a count such as 5000 or 20k";

/* A piece of the user's text for a message: short enough that what follows it is still read. */
struct quoted {
    int size;
    const char *ellipsis;
};

enum { QUOTED_BYTES_MAX = 80 };

static struct quoted quote(const char *text, size_t size)
{
    if (size <= QUOTED_BYTES_MAX)
        return (struct quoted){(int)size, ""};
    int cut = QUOTED_BYTES_MAX;
    while (cut > QUOTED_BYTES_MAX - 4 && ((unsigned char)text[cut] & 0xc0) == 0x80)
        cut--; /* not within a character */
    return (struct quoted){cut, "…"};
}

static int refuse(struct errmsg *why, const char *article, const char *text, const char *reason)
{
    struct quoted q = quote(text, strlen(text));
    return errmsg_set(why, -EINVAL, "must be %s, got \"%.*s%s\"%s", article, q.size, text,
                      q.ellipsis, reason);
}

static int refuse_too_large(struct errmsg *why, const char *maximum, const char *text)
{
    struct quoted q = quote(text, strlen(text));
    return errmsg_set(why, -ERANGE, "must be at most %s, got \"%.*s%s\"", maximum, q.size, text,
                      q.ellipsis);
}

static int refuse_too_small(struct errmsg *why, const char *minimum, const char *text)
{
    struct quoted q = quote(text, strlen(text));
    return errmsg_set(why, -EINVAL, "must be at least %s, got \"%.*s%s\"", minimum, q.size, text,
                      q.ellipsis);
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static int refuse_start(struct errmsg *why, const char *article, const char *text)
{
    if (text[0] == '-' && (is_digit(text[1]) || text[1] == '.')) {
        struct quoted q = quote(text, strlen(text));
        return errmsg_set(why, -EINVAL, "must not be negative, got \"%.*s%s\"", q.size, text,
                          q.ellipsis);
    }
    return refuse(why, article, text, text[0] == '\0' ? ": it is empty" : "");
}

/* whole + fraction / fraction_scale. */
struct decimal {
    uint64_t whole;
    uint64_t fraction;
    uint64_t fraction_scale;
    bool is_too_large;    /* the whole part does not fit */
    bool has_lost_digits; /* digits other than 0 behind the 18th place */
    bool ends_in_point;
};

/* Reads a number and returns what follows it, or NULL where none starts. */
static const char *read_decimal(const char *at, struct decimal *d)
{
    *d = (struct decimal){.fraction_scale = 1};
    bool has_digits = false;
    for (; is_digit(*at); at++) {
        has_digits = true;
        if (__builtin_mul_overflow(d->whole, UINT64_C(10), &d->whole) ||
            __builtin_add_overflow(d->whole, (uint64_t)(*at - '0'), &d->whole))
            d->is_too_large = true;
    }
    if (*at == '.') {
        d->ends_in_point = !is_digit(at[1]);
        for (at++; is_digit(*at); at++) {
            has_digits = true;
            if (d->fraction_scale < UINT64_C(1000000000000000000)) {
                d->fraction = d->fraction * 10 + (uint64_t)(*at - '0');
                d->fraction_scale *= 10;
            } else if (*at != '0') {
                d->has_lost_digits = true;
            }
        }
    }
    return has_digits ? at : NULL;
}

/* The number in units of `factor`, cut off to a whole one. -ERANGE above max. */
static int scale_decimal(const struct decimal *d, uint64_t factor, uint64_t max, uint64_t *value,
                         bool *is_exact)
{
    wide fraction = (wide)d->fraction * factor;
    wide total = (wide)d->whole * factor + fraction / d->fraction_scale;
    if (d->is_too_large || total > max)
        return -ERANGE;
    *is_exact = fraction % d->fraction_scale == 0 && !d->has_lost_digits;
    *value = (uint64_t)total;
    return 0;
}

static const struct unit *find_unit(const struct quantity *q, const char *name, size_t size)
{
    for (size_t i = 0; i < q->unit_count; i++) {
        if (strlen(q->units[i].name) == size && memcmp(q->units[i].name, name, size) == 0)
            return &q->units[i];
    }
    return NULL;
}

static bool is_zero(const struct decimal *d)
{
    return d->whole == 0 && d->fraction == 0 && !d->has_lost_digits && !d->is_too_large;
}

static const char lone_point[] = ": no digit follows the point";

/* One number and its unit. Moves *at behind both. *is_cut becomes true for a number other than 0
 * that is cut off to 0. */
static int read_term(const struct quantity *q, const char *text, const char **at, uint64_t *value,
                     bool *is_cut, struct errmsg *why)
{
    struct decimal number;
    const char *name = read_decimal(*at, &number);
    if (name == NULL)
        return *at == text ? refuse_start(why, q->article, text)
                           : refuse(why, q->article, text, "");
    if (number.ends_in_point && !q->may_end_in_point)
        return refuse(why, q->article, text, lone_point);
    const char *end = name;
    while (*end != '\0' && *end != '.' && !is_digit(*end))
        end++;
    size_t size = (size_t)(end - name);
    if (size == 0)
        return refuse(why, q->article, text, *end == '\0' ? ": the unit is missing" : "");
    const struct unit *unit = find_unit(q, name, size);
    if (unit == NULL) {
        struct quoted whole = quote(text, strlen(text));
        struct quoted part = quote(name, size);
        return errmsg_set(why, -EINVAL,
                          "must be %s, got \"%.*s%s\": unknown unit \"%.*s%s\" (known: %s)",
                          q->article, whole.size, text, whole.ellipsis, part.size, name,
                          part.ellipsis, q->known_units);
    }
    *at = end;
    bool is_exact; /* finer than the smallest unit is cut off */
    if (scale_decimal(&number, unit->factor, q->max, value, &is_exact) != 0)
        return refuse_too_large(why, q->maximum, text);
    *is_cut = *is_cut || (*value == 0 && !is_zero(&number));
    return 0;
}

int units_parse_duration(const char *text, uint64_t *duration_ns, struct errmsg *why)
{
    if (strcmp(text, "0") == 0) {
        *duration_ns = 0;
        return 0;
    }
    uint64_t total_ns = 0;
    bool is_cut = false;
    const char *at = text;
    do {
        uint64_t term_ns = 0;
        int error = read_term(&quantity_duration, text, &at, &term_ns, &is_cut, why);
        if (error != 0)
            return error;
        total_ns += term_ns; /* both are at most 24 h, so the sum cannot overflow */
        if (total_ns > NS_MAX_DURATION)
            return refuse_too_large(why, quantity_duration.maximum, text);
    } while (*at != '\0');
    if (total_ns == 0 && is_cut)
        return refuse_too_small(why, quantity_duration.minimum, text);
    *duration_ns = total_ns;
    return 0;
}

int units_parse_bytes(const char *text, uint64_t *bytes, struct errmsg *why)
{
    if (strcmp(text, "0") == 0) {
        *bytes = 0;
        return 0;
    }
    const char *at = text;
    uint64_t value = 0;
    bool is_cut = false;
    int error = read_term(&quantity_bytes, text, &at, &value, &is_cut, why);
    if (error != 0)
        return error;
    if (*at != '\0')
        return refuse(why, quantity_bytes.article, text, ": something follows the unit");
    if (is_cut)
        return refuse_too_small(why, quantity_bytes.minimum, text);
    *bytes = value;
    return 0;
}

int units_parse_count(const char *text, uint64_t *count, struct errmsg *why)
{
    struct decimal number;
    const char *suffix = read_decimal(text, &number);
    if (suffix == NULL)
        return refuse_start(why, count_article, text);
    if (number.ends_in_point && *suffix != '.')
        return refuse(why, count_article, text, lone_point);
    uint64_t factor = 1;
    if (strcmp(suffix, "k") == 0)
        factor = 1000;
    else if (strcmp(suffix, "m") == 0)
        factor = 1000000;
    else if (*suffix != '\0')
        return refuse(why, count_article, text,
                      ": only k (thousands) or m (millions) may follow the number");
    uint64_t value = 0;
    bool is_exact;
    if (scale_decimal(&number, factor, UINT64_MAX, &value, &is_exact) != 0)
        return refuse_too_large(why, "18446744073709551615", text);
    if (!is_exact)
        return refuse(why, count_article, text, ": it is not a whole number");
    *count = value;
    return 0;
}

enum { DECIMAL_PARTS = 1000000 /* of 1 */ };
static const char too_fine[] = ": at most six digits may follow its point";

int units_parse_decimal(const char *text, double *value, struct errmsg *why)
{
    static const char article[] = "a number such as 99.9";
    struct decimal number;
    uint64_t parts = 0;
    bool is_exact;
    const char *suffix = read_decimal(text, &number);
    if (suffix == NULL)
        return refuse_start(why, article, text);
    if (*suffix != '\0' || number.ends_in_point)
        return refuse(why, article, text, *suffix != '\0' ? "" : lone_point);
    if (scale_decimal(&number, DECIMAL_PARTS, UINT64_MAX, &parts, &is_exact) != 0)
        return refuse_too_large(why, "18446744073709", text);
    if (!is_exact) {
        (void)refuse(why, article, text, too_fine);
        return -ERANGE;
    }
    *value = (double)parts / DECIMAL_PARTS;
    return 0;
}

int units_parse_share(const char *text, double *share, struct errmsg *why)
{
    char number[UNITS_TEXT_BYTES];
    struct errmsg unused;
    size_t bytes = strlen(text);
    bool is_percent = bytes > 0 && text[bytes - 1] == '%';
    (void)snprintf(number, sizeof(number), "%.*s", (int)(bytes - is_percent), text);
    int error = bytes < sizeof(number) ? units_parse_decimal(number, share, &unused) : -EINVAL;
    if (error != 0)
        return refuse(why, "a share such as 5% or 0.05", text, error == -ERANGE ? too_fine : "");
    *share /= is_percent ? 100 : 1;
    return *share <= 1 ? 0 : errmsg_set(why, -ERANGE, "must be at most 100%%, got \"%s\"", text);
}

int units_parse_rate(const char *text, double *per_s, struct errmsg *why)
{
    static const char article[] = "a rate such as 500/s or 90/m";
    static const struct {
        const char *text;
        uint64_t factor;
        double seconds;
    } suffixes[] = {
        {"", 1, 1},        {"/s", 1, 1},        {"/m", 1, 60},
        {"k", 1000, 1},    {"k/s", 1000, 1},    {"k/m", 1000, 60},
        {"m", 1000000, 1}, {"m/s", 1000000, 1}, {"m/m", 1000000, 60},
    };
    struct decimal number;
    const char *suffix = read_decimal(text, &number);
    if (suffix == NULL)
        return refuse_start(why, article, text);
    if (number.ends_in_point)
        return refuse(why, article, text, lone_point);
    for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
        uint64_t value = 0;
        bool is_exact;
        if (strcmp(suffix, suffixes[i].text) != 0)
            continue;
        int error = scale_decimal(&number, DECIMAL_PARTS * suffixes[i].factor, UINT64_MAX, &value,
                                  &is_exact);
        double rate = (double)value / DECIMAL_PARTS / suffixes[i].seconds;
        if (error != 0 || rate > UNITS_RATE_MAX)
            return refuse_too_large(why, "1000000000/s", text);
        if (value == 0 && !is_zero(&number))
            return refuse_too_small(why, "0.000001/s", text);
        *per_s = rate;
        return 0;
    }
    return refuse(why, article, text, ": only k or m, and then /s or /m, may follow the number");
}

/* Every text below fits by arithmetic: two 64-bit numbers would not, but what is printed behind the
 * first number is always less than its unit. */
#define PRINT(text, ...) (void)snprintf((text), UNITS_TEXT_BYTES, __VA_ARGS__)

const char *units_format_duration(uint64_t duration_ns, char text[UNITS_TEXT_BYTES])
{
    static const struct unit steps[] = {{"\u00b5s", NS_PER_US}, {"ms", NS_PER_MS}, {"s", NS_PER_S}};

    if (duration_ns < NS_PER_US) {
        PRINT(text, "%" PRIu64 "%s", duration_ns, duration_ns == 0 ? "s" : "ns");
        return text;
    }
    /* Rounding comes before the choice of the unit: 999.96 ms are "1s", not "1000ms". */
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        uint64_t tenth = steps[i].factor / 10;
        uint64_t tenths = duration_ns / tenth + (duration_ns % tenth >= tenth / 2 ? 1 : 0);
        if (tenths >= (steps[i].factor == NS_PER_S ? 600 : 10000))
            continue;
        if (tenths % 10 == 0)
            PRINT(text, "%" PRIu64 "%s", tenths / 10, steps[i].name);
        else
            PRINT(text, "%" PRIu64 ".%" PRIu64 "%s", tenths / 10, tenths % 10, steps[i].name);
        return text;
    }
    uint64_t seconds = duration_ns / NS_PER_S + (duration_ns % NS_PER_S >= NS_PER_S / 2 ? 1 : 0);
    uint64_t minutes = (seconds + 30) / 60;
    if (seconds < 3600 && seconds % 60 == 0)
        PRINT(text, "%" PRIu64 "m", seconds / 60);
    else if (seconds < 3600)
        PRINT(text, "%" PRIu64 "m%" PRIu64 "s", seconds / 60, seconds % 60);
    else if (minutes % 60 == 0)
        PRINT(text, "%" PRIu64 "h", minutes / 60);
    else
        PRINT(text, "%" PRIu64 "h%" PRIu64 "m", minutes / 60, minutes % 60);
    return text;
}

/* A value in a unit, with as many decimals as it needs, at `text`. */
static void print_exact(char *text, size_t size, uint64_t value_ns, const struct unit *unit)
{
    uint64_t billionths = value_ns % unit->factor * (NS_PER_S / unit->factor);
    size_t used =
        (size_t)snprintf(text, size, "%" PRIu64 ".%09" PRIu64, value_ns / unit->factor, billionths);
    while (text[used - 1] == '0')
        used--;
    if (text[used - 1] == '.')
        used--;
    (void)snprintf(text + used, size - used, "%s", unit->name); /* fits: see PRINT */
}

const char *units_format_duration_exact(uint64_t duration_ns, char text[UNITS_TEXT_BYTES])
{
    static const struct unit steps[] = {{"ns", 1}, {"us", NS_PER_US}, {"ms", NS_PER_MS}};

    for (size_t i = 0; duration_ns > 0 && i < sizeof(steps) / sizeof(steps[0]); i++) {
        if (duration_ns < steps[i].factor * 1000) {
            print_exact(text, UNITS_TEXT_BYTES, duration_ns, &steps[i]);
            return text;
        }
    }
    uint64_t hours = duration_ns / (3600 * NS_PER_S);
    uint64_t minutes = duration_ns / (60 * NS_PER_S) % 60;
    uint64_t rest_ns = duration_ns % (60 * NS_PER_S);
    size_t used = 0;
    if (hours > 0)
        used += (size_t)snprintf(text, UNITS_TEXT_BYTES, "%" PRIu64 "h", hours);
    if (minutes > 0)
        used += (size_t)snprintf(text + used, UNITS_TEXT_BYTES - used, "%" PRIu64 "m", minutes);
    if (rest_ns > 0 || used == 0)
        print_exact(text + used, UNITS_TEXT_BYTES - used, rest_ns, &(struct unit){"s", NS_PER_S});
    return text;
}

const char *units_format_megabytes(int64_t bytes, char text[UNITS_TEXT_BYTES])
{
    /* The magnitude of INT64_MIN fits only unsigned; negating it signed would overflow. */
    uint64_t magnitude = bytes < 0 ? -(uint64_t)bytes : (uint64_t)bytes;
    uint64_t tenths = (magnitude + 50000) / 100000;
    const char *sign = bytes < 0 && tenths > 0 ? "-" : ""; /* no "-0.0 MB" */
    PRINT(text, "%s%" PRIu64 ".%" PRIu64 " MB", sign, tenths / 10, tenths % 10);
    return text;
}
