/* dist: draws against theory, the same draws for the same seed, and every bad specification
 * refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "tests/lib/parsed_dist.h"

enum { DRAWS = 200000 };

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static int compare(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left;
    uint64_t b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

static uint64_t *draw_sorted(const struct dist *d, uint64_t seed)
{
    uint64_t *draws = calloc(DRAWS, sizeof(draws[0]));
    assert_non_null(draws);
    /* As the stub draws: the first value of a stream of its own for each call. */
    for (size_t i = 0; i < DRAWS; i++) {
        struct prng p = prng_stream(seed, i / 2, PRNG_MODEL_LATENCY, i % 2);
        draws[i] = dist_sample(d, &p);
    }
    qsort(draws, DRAWS, sizeof(draws[0]), compare);
    return draws;
}

/* The expected quantiles are computed apart from the code: z(0.9) = 1.2815515655446004 and z(0.99)
 * = 2.3263478740408408 from tables, exponential -ln(1 - p). */
static const struct {
    const char *spec;
    enum dist_unit unit;
    double expected[4]; /* p10, p50, p90, p99 */
} theory[] = {
    {"50ms", DIST_DURATION, {50e6, 50e6, 50e6, 50e6}},
    {"uniform:10ms,90ms", DIST_DURATION, {18e6, 50e6, 82e6, 89.2e6}},
    {"uniform:1KB,100KB", DIST_BYTES, {10900, 50500, 90100, 99010}},
    {"normal:50ms,10ms",
     DIST_DURATION,
     {50e6 - 12815515.655446004, 50e6, 50e6 + 12815515.655446004, 50e6 + 23263478.740408408}},
    {"lognormal:p50=800ms,p99=8s",
     DIST_DURATION,
     /* p10 = p50 / (p99 / p50)^(z(0.9) / z(0.99)) */
     {225011325.44166857, 800e6, 2844301275.696952, 8e9}},
    {"lognormal:p50=2KB,p99=50KB",
     DIST_BYTES,
     {339.56659713999494, 2000, 11779.721661936313, 50000}},
    {"exp:50ms",
     DIST_DURATION,
     {50e6 * 0.10536051565782628, 50e6 * 0.6931471805599453, 50e6 * 2.302585092994046,
      50e6 * 4.605170185988092}},
};
static const double probabilities[4] = {0.1, 0.5, 0.9, 0.99};

static void quantiles_are_those_of_theory(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(theory); i++) {
        struct dist d = parsed_dist(theory[i].spec, theory[i].unit);
        for (size_t j = 0; j < 4; j++) {
            double quantile = dist_quantile(&d, probabilities[j]);
            if (fabs(quantile / theory[i].expected[j] - 1) > 1e-12)
                fail_msg("%s: p%g is %.4f", theory[i].spec, 100 * probabilities[j], quantile);
        }
        dist_free(&d);
    }
}

/* The share of n draws that lie below the quantile of p has the standard deviation sqrt(p (1 - p) /
 * n). Five of them to either side are exceeded once in 1.7 million, so over the 28 checks a correct
 * sampler fails for one seed in 60000; the seed is fixed. In terms of values: the draw of rank n p
 * lies between the quantiles of p - 5 sigma and p + 5 sigma, for p50 a shift of 0.6 % of the draws.
 */
static void draws_match_theory(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(theory); i++) {
        struct dist d = parsed_dist(theory[i].spec, theory[i].unit);
        uint64_t *draws = draw_sorted(&d, 1);
        for (size_t j = 0; j < 4; j++) {
            double p = probabilities[j];
            double tolerance = 5 * sqrt(p * (1 - p) / DRAWS);
            double low = dist_quantile(&d, p - tolerance) - 1; /* a draw is a whole number */
            double high = dist_quantile(&d, p + tolerance) + 1;
            double drawn = (double)draws[(size_t)(p * DRAWS)];
            if (drawn < low || drawn > high)
                fail_msg("%s: p%g is %.0f, not in %.0f to %.0f", theory[i].spec, 100 * p, drawn,
                         low, high);
        }
        free(draws);
        dist_free(&d);
    }
}

/* The share of draws that theory has below a value, written down apart from the sampler. */
static double share_below(const struct dist *d, double value)
{
    switch (d->kind) {
    case DIST_UNIFORM:
        return (value - 10e6) / 80e6;
    case DIST_NORMAL:
        return erfc((50e6 - value) / (10e6 * sqrt(2))) / 2;
    case DIST_LOGNORMAL: /* p99 is 2.3263 deviations above the median */
        return erfc(-log(value / 800e6) * 2.326347874 / (log(10) * sqrt(2))) / 2;
    case DIST_EXPONENTIAL:
        return 1 - exp(-value / 50e6);
    case DIST_CONSTANT:
    case DIST_FILE:
        break;
    }
    fail_msg("no theory for it");
    return 0;
}

/* The test of Kolmogorov and Smirnov at a level of 1 %: 1.628 / sqrt(n) (tables; for n > 35). */
static void draws_pass_the_test_of_kolmogorov_and_smirnov(void **state)
{
    static const char *const specs[] = {"uniform:10ms,90ms", "normal:50ms,10ms",
                                        "lognormal:p50=800ms,p99=8s", "exp:50ms"};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(specs); i++) {
        struct dist d = latency_of(specs[i]);
        uint64_t *draws = draw_sorted(&d, 5);
        double distance = 0;
        for (size_t n = 0; n < DRAWS; n++) {
            double below = share_below(&d, (double)draws[n]);
            distance = fmax(distance, below - (double)n / DRAWS);
            distance = fmax(distance, (double)(n + 1) / DRAWS - below);
        }
        if (distance > 1.628 / sqrt(DRAWS))
            fail_msg("%s: %g from what theory has", specs[i], distance);
        free(draws);
        dist_free(&d);
    }
}

/* Against erfc, which is another implementation: the normal distribution at z(p) is p. Every branch
 * of the algorithm is crossed, down to the smallest number that prng_unit() gives. */
static void normal_quantile_inverts_the_distribution(void **state)
{
    (void)state;
    enum { STEPS = 3622 }; /* of a hundredth each, which lead up to a half */
    struct dist d = parsed_dist("normal:0,1s", DIST_DURATION);
    for (int step = 0; step <= STEPS; step++) {
        double p = 0x1p-53 * pow(1.01, step);
        double z = dist_quantile(&d, p) / 1e9;
        if (fabs(0.5 * erfc(-z / sqrt(2)) / p - 1) > 1e-13)
            fail_msg("z(%g) = %.17g", p, z);
        double mirrored = dist_quantile(&d, 1 - p) / 1e9;
        if (p > 1e-3 && fabs(mirrored + z) > 1e-12)
            fail_msg("z(1 - %g) = %.17g", p, mirrored);
    }
}

static void same_seed_same_draws(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(theory); i++) {
        struct dist d = parsed_dist(theory[i].spec, theory[i].unit);
        struct prng first = prng_stream(7, 1, PRNG_TEST, 0);
        struct prng second = first;
        struct prng other = prng_stream(8, 1, PRNG_TEST, 0);
        size_t different = 0;
        for (int j = 0; j < 1000; j++) {
            uint64_t draw = dist_sample(&d, &first);
            assert_int_equal(draw, dist_sample(&d, &second));
            different += draw != dist_sample(&d, &other);
        }
        assert_int_equal(first.state, second.state);
        if (d.kind == DIST_CONSTANT)
            assert_int_equal(first.state, prng_stream(7, 1, PRNG_TEST, 0).state);
        else
            assert_true(different > 900);
        dist_free(&d);
    }
}

static void draws_stay_within_bounds(void **state)
{
    (void)state;
    static const struct {
        const char *spec;
        enum dist_unit unit;
        uint64_t min;
        uint64_t max;
        bool reaches_both;
    } cases[] = {
        {"0", DIST_DURATION, 0, 0, true},
        {"0", DIST_BYTES, 0, 0, true},
        {"24h", DIST_DURATION, NS_MAX_DURATION, NS_MAX_DURATION, true},
        {"16MiB", DIST_BYTES, DIST_BYTES_MAX, DIST_BYTES_MAX, true},
        {"uniform:1B,3B", DIST_BYTES, 1, 3, true},
        {"uniform:7ms,7ms", DIST_DURATION, 7000000, 7000000, true},
        {"normal:5ms,0", DIST_DURATION, 5000000, 5000000, true},
        {"normal:10ns,10ns", DIST_DURATION, 0, 70, false},
        {"normal:0,24h", DIST_DURATION, 0, NS_MAX_DURATION, true},
        {"lognormal:p50=1s,p99=1s", DIST_DURATION, 999999999, 1000000001, false},
        {"lognormal:p50=1ns,p99=24h", DIST_DURATION, 0, NS_MAX_DURATION, true},
        {"lognormal:p50=16MiB,p99=16MiB", DIST_BYTES, DIST_BYTES_MAX - 1, DIST_BYTES_MAX, false},
        {"exp:0", DIST_DURATION, 0, 0, true},
        {"exp:24h", DIST_DURATION, 0, NS_MAX_DURATION, false},
        {"exp:16MiB", DIST_BYTES, 0, DIST_BYTES_MAX, false},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct dist d = parsed_dist(cases[i].spec, cases[i].unit);
        uint64_t *draws = draw_sorted(&d, 2);
        if (draws[0] < cases[i].min || draws[DRAWS - 1] > cases[i].max)
            fail_msg("%s: %ju to %ju", cases[i].spec, (uintmax_t)draws[0],
                     (uintmax_t)draws[DRAWS - 1]);
        if (cases[i].reaches_both)
            assert_true(draws[0] == cases[i].min && draws[DRAWS - 1] == cases[i].max);
        free(draws);
        dist_free(&d);
    }
}

/* A third each, to five standard deviations: the ends are not short of their share. */
static void small_uniform_ranges_are_even(void **state)
{
    (void)state;
    struct dist d = parsed_dist("uniform:1B,3B", DIST_BYTES);
    struct prng p = prng_stream(3, 0, PRNG_TEST, 0);
    double seen[4] = {0};
    for (int i = 0; i < DRAWS; i++)
        seen[dist_sample(&d, &p)]++;
    for (int value = 1; value <= 3; value++)
        assert_true(fabs(seen[value] / DRAWS - 1.0 / 3) <= 5 * sqrt(2.0 / 9 / DRAWS));
}

#define DURATIONS " (known: ns, us, ms, s, m, h)"
#define UNIFORM "must be uniform:MIN,MAX"
#define LOGNORMAL "must be lognormal:p50=P50,p99=P99"
#define UNKNOWN(name, constant)                                                                    \
    "names the unknown distribution \"" name "\"; known are a constant such as " constant          \
    ", uniform:MIN,MAX, normal:MEAN,STDDEV, lognormal:p50=P50,p99=P99, exp:MEAN, file:PATH"
static const struct {
    const char *spec;
    enum dist_unit unit;
    int error;
    const char *why;
} bad_specs[] = {
    {"", DIST_DURATION, -EINVAL, "must be a duration such as 50ms, got \"\": it is empty"},
    {"50", DIST_DURATION, -EINVAL,
     "must be a duration such as 50ms, got \"50\": the unit is missing"},
    {"50", DIST_BYTES, -EINVAL, "must be a size such as 2KB, got \"50\": the unit is missing"},
    {"-5ms", DIST_DURATION, -EINVAL, "must not be negative, got \"-5ms\""},
    {"5ms,6ms", DIST_DURATION, -EINVAL,
     "must be a duration such as 50ms, got \"5ms,6ms\": unknown unit \"ms,\"" DURATIONS},
    {"nan", DIST_DURATION, -EINVAL, UNKNOWN("nan", "50ms")},
    {"1e999", DIST_DURATION, -EINVAL,
     "must be a duration such as 50ms, got \"1e999\": unknown unit \"e\"" DURATIONS},
    {"25h", DIST_DURATION, -ERANGE, "must be at most 24h, got \"25h\""},
    {"17MiB", DIST_BYTES, -ERANGE, "must be at most 16MiB, got \"17MiB\""},
    {"gauss:50ms,1ms", DIST_DURATION, -EINVAL, UNKNOWN("gauss", "50ms")},
    {"Uniform:1ms,2ms", DIST_DURATION, -EINVAL, UNKNOWN("Uniform", "50ms")},
    {":1ms", DIST_BYTES, -EINVAL, UNKNOWN("", "2KB")},
    {"uniform", DIST_DURATION, -EINVAL, UNIFORM ", got \"uniform\""},
    {"uniform:", DIST_DURATION, -EINVAL, UNIFORM ", got \"uniform:\""},
    {"uniform:1ms", DIST_DURATION, -EINVAL, UNIFORM ", got \"uniform:1ms\""},
    {"uniform:1ms,2ms,3ms", DIST_DURATION, -EINVAL, UNIFORM ", got \"uniform:1ms,2ms,3ms\""},
    {"uniform:2ms,1ms", DIST_DURATION, -EINVAL,
     UNIFORM " with MIN at most MAX, got \"uniform:2ms,1ms\""},
    {"uniform:1ms,2", DIST_DURATION, -EINVAL,
     "has a wrong MAX in uniform:MIN,MAX: it must be a duration such as 50ms, got \"2\": the unit "
     "is missing"},
    {"uniform:-1ms,2ms", DIST_DURATION, -EINVAL,
     "has a wrong MIN in uniform:MIN,MAX: it must not be negative, got \"-1ms\""},
    {"uniform:1ms,2ms ", DIST_DURATION, -EINVAL,
     "has a wrong MAX in uniform:MIN,MAX: it must be a duration such as 50ms, got \"2ms \": "
     "unknown unit \"ms \"" DURATIONS},
    {"normal:50ms,nan", DIST_DURATION, -EINVAL,
     "has a wrong STDDEV in normal:MEAN,STDDEV: it must be a duration such as 50ms, got \"nan\""},
    {"normal:50ms,1e999s", DIST_DURATION, -EINVAL,
     "has a wrong STDDEV in normal:MEAN,STDDEV: it must be a duration such as 50ms, got "
     "\"1e999s\": unknown unit \"e\"" DURATIONS},
    {"normal:50ms,-1ms", DIST_DURATION, -EINVAL,
     "has a wrong STDDEV in normal:MEAN,STDDEV: it must not be negative, got \"-1ms\""},
    {"normal:50ms,25h", DIST_DURATION, -ERANGE,
     "has a wrong STDDEV in normal:MEAN,STDDEV: it must be at most 24h, got \"25h\""},
    {"lognormal:1ms,2ms", DIST_DURATION, -EINVAL, LOGNORMAL ", got \"lognormal:1ms,2ms\""},
    {"lognormal:p99=2ms,p50=1ms", DIST_DURATION, -EINVAL,
     LOGNORMAL ", got \"lognormal:p99=2ms,p50=1ms\""},
    {"lognormal:p50=1ms", DIST_DURATION, -EINVAL, LOGNORMAL ", got \"lognormal:p50=1ms\""},
    {"lognormal:p50=2ms,p99=1ms", DIST_DURATION, -EINVAL,
     LOGNORMAL " with P99 at least P50, got \"lognormal:p50=2ms,p99=1ms\""},
    {"lognormal:p50=0,p99=1ms", DIST_DURATION, -EINVAL,
     LOGNORMAL " with P50 above 0, got \"lognormal:p50=0,p99=1ms\""},
    {"lognormal:p50=1KB,p99=17MiB", DIST_BYTES, -ERANGE,
     "has a wrong P99 in lognormal:p50=P50,p99=P99: it must be at most 16MiB, got \"17MiB\""},
    {"exp:", DIST_DURATION, -EINVAL, "must be exp:MEAN, got \"exp:\""},
    {"exp:1ms,", DIST_DURATION, -EINVAL, "must be exp:MEAN, got \"exp:1ms,\""},
    {"exp:1ms:", DIST_DURATION, -EINVAL,
     "has a wrong MEAN in exp:MEAN: it must be a duration such as 50ms, got \"1ms:\": unknown unit "
     "\"ms:\"" DURATIONS},
    {"file", DIST_DURATION, -EINVAL, "must be file:PATH, got \"file\""},
    {"file:", DIST_DURATION, -EINVAL, "must be file:PATH, got \"file:\""},
    {"file:/nonexistent/list", DIST_DURATION, -ENOENT,
     "names the file \"/nonexistent/list\", which cannot be read: No such file or directory"},
    {"file:/", DIST_DURATION, -EINVAL, "names the file \"/\", which is a directory"},
    {"file:/dev/zero", DIST_DURATION, -EINVAL,
     "names the file \"/dev/zero\", which is not a regular file"},
};
#undef DURATIONS
#undef UNIFORM
#undef LOGNORMAL
#undef UNKNOWN

static void bad_specs_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad_specs); i++) {
        struct dist d;
        struct errmsg why = {""};
        int error = dist_parse(&d, bad_specs[i].spec, bad_specs[i].unit, &why);
        assert_string_equal(why.text, bad_specs[i].why);
        assert_int_equal(error, bad_specs[i].error);
        assert_null(d.values);
        assert_int_equal(dist_parse(&d, bad_specs[i].spec, bad_specs[i].unit, NULL), error);
    }
}

static void long_specs_are_refused(void **state)
{
    (void)state;
    char spec[DIST_SPEC_BYTES + 1];
    memset(spec, '0', sizeof(spec));
    memcpy(spec + DIST_SPEC_BYTES - 3, "ms", sizeof("ms")); /* 255 bytes */
    struct dist d = parsed_dist(spec, DIST_DURATION);
    assert_int_equal(d.a, 0);
    memcpy(spec + DIST_SPEC_BYTES - 3, "0ms", sizeof("0ms"));
    struct errmsg why;
    assert_int_equal(dist_parse(&d, spec, DIST_DURATION, &why), -EINVAL);
    assert_string_equal(why.text, "must be at most 255 bytes long");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantiles_are_those_of_theory),
        cmocka_unit_test(draws_match_theory),
        cmocka_unit_test(draws_pass_the_test_of_kolmogorov_and_smirnov),
        cmocka_unit_test(normal_quantile_inverts_the_distribution),
        cmocka_unit_test(same_seed_same_draws),
        cmocka_unit_test(draws_stay_within_bounds),
        cmocka_unit_test(small_uniform_ranges_are_even),
        cmocka_unit_test(bad_specs_are_refused),
        cmocka_unit_test(long_specs_are_refused),
    };
    return cmocka_run_group_tests_name("dist", tests, NULL, NULL);
}
