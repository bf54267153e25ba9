/* dist: see dist.h. Parsing first, then sampling. The values of file: are read in dist_file.c. */
#include "engine/base/dist.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/dist_file.h"
#include "engine/base/units.h"

enum { PARAMETERS_MAX = 2 };

/* How a distribution is written. A parameter's value follows its key, which may be empty. */
struct form {
    const char *name;
    enum dist_kind kind;
    const char *usage;
    size_t parameter_count;
    const char *parameters[PARAMETERS_MAX];
    const char *keys[PARAMETERS_MAX];
};

static const struct form forms[] = {
    {"uniform", DIST_UNIFORM, "uniform:MIN,MAX", 2, {"MIN", "MAX"}, {"", ""}},
    {"normal", DIST_NORMAL, "normal:MEAN,STDDEV", 2, {"MEAN", "STDDEV"}, {"", ""}},
    {"lognormal", DIST_LOGNORMAL, "lognormal:p50=P50,p99=P99", 2, {"P50", "P99"}, {"p50=", "p99="}},
    {"exp", DIST_EXPONENTIAL, "exp:MEAN", 1, {"MEAN"}, {""}},
    {"file", DIST_FILE, "file:PATH", 0, {NULL}, {NULL}},
};

static const char known_forms[] =
    "uniform:MIN,MAX, normal:MEAN,STDDEV, lognormal:p50=P50,p99=P99, exp:MEAN, file:PATH";

int dist_parse_value(const char *text, enum dist_unit unit, uint64_t *value, struct errmsg *why)
{
    if (unit == DIST_DURATION)
        return units_parse_duration(text, value, why);
    uint64_t bytes = 0;
    int error = units_parse_bytes(text, &bytes, why);
    if (error != 0)
        return error;
    if (bytes > DIST_BYTES_MAX)
        return errmsg_set(why, -ERANGE, "must be at most 16MiB, got \"%s\"", text);
    *value = bytes;
    return 0;
}

static const struct form *find_form(const char *text, size_t name_size)
{
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        if (strlen(forms[i].name) == name_size && memcmp(forms[i].name, text, name_size) == 0)
            return &forms[i];
    }
    return NULL;
}

/* One parameter of `size` bytes. */
static int parse_parameter(const struct dist *d, const struct form *form, size_t i,
                           const char *text, size_t size, uint64_t *value, struct errmsg *why)
{
    char parameter[DIST_SPEC_BYTES];
    size_t key_size = strlen(form->keys[i]);
    assert(size < sizeof(parameter));
    if (size < key_size || memcmp(text, form->keys[i], key_size) != 0)
        return errmsg_set(why, -EINVAL, "must be %s, got \"%s\"", form->usage, d->spec);
    memcpy(parameter, text + key_size, size - key_size);
    parameter[size - key_size] = '\0';

    struct errmsg reason;
    int error = dist_parse_value(parameter, d->unit, value, &reason);
    if (error != 0)
        return errmsg_set(why, error, "has a wrong %s in %s: it %s", form->parameters[i],
                          form->usage, reason.text);
    return 0;
}

static int parse_parameters(const struct dist *d, const struct form *form, const char *text,
                            uint64_t values[PARAMETERS_MAX], struct errmsg *why)
{
    for (size_t i = 0; i < form->parameter_count; i++) {
        bool is_last = i + 1 == form->parameter_count;
        const char *end = strchr(text, ',');
        if (is_last != (end == NULL))
            return errmsg_set(why, -EINVAL, "must be %s, got \"%s\"", form->usage, d->spec);
        size_t size = is_last ? strlen(text) : (size_t)(end - text);
        int error = parse_parameter(d, form, i, text, size, &values[i], why);
        if (error != 0)
            return error;
        text += size + (is_last ? 0 : 1);
    }
    return 0;
}

static double normal_quantile(double p);

/* Turns the parameters into what sampling needs, once they make a distribution. */
static int set_parameters(struct dist *d, const struct form *form,
                          const uint64_t values[PARAMETERS_MAX], struct errmsg *why)
{
    d->a = (double)values[0];
    d->b = (double)values[1];
    if (d->kind == DIST_UNIFORM && values[0] > values[1])
        return errmsg_set(why, -EINVAL, "must be %s with MIN at most MAX, got \"%s\"", form->usage,
                          d->spec);
    if (d->kind != DIST_LOGNORMAL)
        return 0;
    if (values[0] == 0)
        return errmsg_set(why, -EINVAL, "must be %s with P50 above 0, got \"%s\"", form->usage,
                          d->spec);
    if (values[1] < values[0])
        return errmsg_set(why, -EINVAL, "must be %s with P99 at least P50, got \"%s\"", form->usage,
                          d->spec);
    d->a = log((double)values[0]);
    d->b = log((double)values[1] / (double)values[0]) / normal_quantile(0.99);
    return 0;
}

static int parse_constant(struct dist *d, struct errmsg *why)
{
    uint64_t value = 0;
    int error = dist_parse_value(d->spec, d->unit, &value, why);
    if (error != 0)
        return error;
    d->kind = DIST_CONSTANT;
    d->a = (double)value;
    return 0;
}

int dist_parse(struct dist *d, const char *text, enum dist_unit unit, struct errmsg *why)
{
    *d = (struct dist){.unit = unit};
    size_t size = strnlen(text, DIST_SPEC_BYTES);
    if (size == DIST_SPEC_BYTES)
        return errmsg_set(why, -EINVAL, "must be at most %d bytes long", DIST_SPEC_BYTES - 1);
    memcpy(d->spec, text, size + 1);

    /* A name is what stands before a colon, or a whole text that starts like one: "uniform" without
     * its parameters deserves better than a lesson on durations. */
    const char *colon = strchr(d->spec, ':');
    bool is_named = colon != NULL || (text[0] >= 'a' && text[0] <= 'z');
    if (!is_named)
        return parse_constant(d, why);
    size_t name_size = colon != NULL ? (size_t)(colon - d->spec) : size;
    const struct form *form = find_form(d->spec, name_size);
    if (form == NULL)
        return errmsg_set(
            why, -EINVAL,
            "names the unknown distribution \"%.*s\"; known are a constant such as %s, "
            "%s",
            (int)(name_size < 64 ? name_size : 64), d->spec, unit == DIST_DURATION ? "50ms" : "2KB",
            known_forms);
    if (colon == NULL || colon[1] == '\0')
        return errmsg_set(why, -EINVAL, "must be %s, got \"%s\"", form->usage, d->spec);
    d->kind = form->kind;
    if (d->kind == DIST_FILE)
        return dist_file_read(d, colon + 1, why);
    uint64_t values[PARAMETERS_MAX] = {0};
    int error = parse_parameters(d, form, colon + 1, values, why);
    return error != 0 ? error : set_parameters(d, form, values, why);
}

void dist_free(struct dist *d)
{
    free(d->values);
    d->values = NULL;
    d->value_count = 0;
}

/* c[0] + c[1] x + … + c[7] x^7 */
static double polynomial(const double c[8], double x)
{
    double sum = c[7];
    for (int i = 6; i >= 0; i--)
        sum = sum * x + c[i];
    return sum;
}

/* The normal quantile to about 16 digits: algorithm AS 241, routine PPND16. Wichura, M. J. (1988):
 * The Percentage Points of the Normal Distribution. Applied Statistics 37, 477-484. One fraction of
 * polynomials for the middle, one for the tails, one for the far tails. */
static double normal_quantile(double p)
{
    static const double a[8] = {3.3871328727963666080e0,  1.3314166789178437745e+2,
                                1.9715909503065514427e+3, 1.3731693765509461125e+4,
                                4.5921953931549871457e+4, 6.7265770927008700853e+4,
                                3.3430575583588128105e+4, 2.5090809287301226727e+3};
    static const double b[8] = {1.0,
                                4.2313330701600911252e+1,
                                6.8718700749205790830e+2,
                                5.3941960214247511077e+3,
                                2.1213794301586595867e+4,
                                3.9307895800092710610e+4,
                                2.8729085735721942674e+4,
                                5.2264952788528545610e+3};
    static const double c[8] = {1.42343711074968357734e0,  4.63033784615654529590e0,
                                5.76949722146069140550e0,  3.64784832476320460504e0,
                                1.27045825245236838258e0,  2.41780725177450611770e-1,
                                2.27238449892691845833e-2, 7.74545014278341407640e-4};
    static const double d[8] = {1.0,
                                2.05319162663775882187e0,
                                1.67638483018380384940e0,
                                6.89767334985100004550e-1,
                                1.48103976427480074590e-1,
                                1.51986665636164571966e-2,
                                5.47593808499534494600e-4,
                                1.05075007164441684324e-9};
    static const double e[8] = {6.65790464350110377720e0,  5.46378491116411436990e0,
                                1.78482653991729133580e0,  2.96560571828504891230e-1,
                                2.65321895265761230930e-2, 1.24266094738807843860e-3,
                                2.71155556874348757815e-5, 2.01033439929228813265e-7};
    static const double f[8] = {1.0,
                                5.99832206555887937690e-1,
                                1.36929880922735805310e-1,
                                1.48753612908506148525e-2,
                                7.86869131145613259100e-4,
                                1.84631831751005468180e-5,
                                1.42151175831644588870e-7,
                                2.04426310338993978564e-15};

    assert(p > 0 && p < 1);
    double q = p - 0.5;
    if (fabs(q) <= 0.425) {
        double r = 0.180625 - q * q;
        return q * polynomial(a, r) / polynomial(b, r);
    }
    double r = sqrt(-log(q < 0 ? p : 1 - p));
    double magnitude = r <= 5 ? polynomial(c, r - 1.6) / polynomial(d, r - 1.6)
                              : polynomial(e, r - 5) / polynomial(f, r - 5);
    return q < 0 ? -magnitude : magnitude;
}

double dist_quantile(const struct dist *d, double p)
{
    assert(p > 0 && p < 1);
    switch (d->kind) {
    case DIST_CONSTANT:
        return d->a;
    case DIST_UNIFORM:
        return d->a + (d->b - d->a) * p;
    case DIST_NORMAL:
        return d->a + d->b * normal_quantile(p);
    case DIST_LOGNORMAL:
        return exp(d->a + d->b * normal_quantile(p));
    case DIST_EXPONENTIAL:
        return -d->a * log1p(-p);
    case DIST_FILE: {
        size_t index = (size_t)(p * (double)d->value_count);
        return (double)d->values[index < d->value_count ? index : d->value_count - 1];
    }
    }
    __builtin_unreachable();
}

uint64_t dist_sample(const struct dist *d, struct prng *p)
{
    if (d->kind == DIST_CONSTANT)
        return (uint64_t)d->a;
    if (d->kind == DIST_FILE)
        return d->values[prng_below(p, d->value_count)];
    /* Rounding a uniform draw would give the two ends half their share, which shows in a range of a
     * few bytes. */
    if (d->kind == DIST_UNIFORM)
        return (uint64_t)d->a + prng_below(p, (uint64_t)(d->b - d->a) + 1);

    /* The others by inversion, which takes exactly one number from the stream. */
    double draw = dist_quantile(d, prng_unit(p));
    double max = d->unit == DIST_DURATION ? (double)NS_MAX_DURATION : (double)DIST_BYTES_MAX;
    if (draw >= max)
        return (uint64_t)max;
    return draw > 0 ? (uint64_t)(draw + 0.5) : 0;
}
