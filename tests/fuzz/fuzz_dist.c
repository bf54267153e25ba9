/* fuzz_dist: a distribution that is read has finite, ordered quantiles and draws within its bounds.
 * The first byte chooses the unit; the rest is the specification. */
#include <assert.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/dist.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_distribution(const struct dist *d)
{
    static const double probabilities[] = {0x1p-53, 1e-9, 0.01,   0.1,      0.5,
                                           0.9,     0.99, 0.9999, 1 - 1e-9, 1 - 0x1p-53};
    double before = -INFINITY;
    for (size_t i = 0; i < sizeof(probabilities) / sizeof(probabilities[0]); i++) {
        double quantile = dist_quantile(d, probabilities[i]);
        assert(isfinite(quantile) && quantile >= before);
        before = quantile;
    }

    uint64_t max = d->unit == DIST_DURATION ? NS_MAX_DURATION : DIST_BYTES_MAX;
    struct prng p = prng_stream(1, 2, PRNG_TEST, 3);
    struct prng same = p;
    for (int i = 0; i < 16; i++) {
        uint64_t draw = dist_sample(d, &p);
        assert(draw <= max);
        assert(draw == dist_sample(d, &same));
        if (d->kind == DIST_UNIFORM)
            assert((double)draw >= d->a && (double)draw <= d->b);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* Which files there are is not the fuzzer's to try. */
    if (size == 0 || (size >= 6 && memcmp(data + 1, "file:", 5) == 0))
        return 0;
    enum dist_unit unit = data[0] == 'b' ? DIST_BYTES : DIST_DURATION;
    char *text = malloc(size); /* exactly as large, so that reading beyond is found */
    assert(text != NULL);
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';

    struct dist d;
    struct errmsg why = {""};
    int error = dist_parse(&d, text, unit, &why);
    assert(d.values == NULL);
    if (error == 0) {
        assert(strcmp(d.spec, text) == 0 && why.text[0] == '\0');
        check_distribution(&d);
    } else {
        assert(error < 0 && why.text[0] != '\0' && strchr(why.text, '\n') == NULL);
    }
    dist_free(&d);
    free(text);
    return 0;
}
