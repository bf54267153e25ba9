/* slo: what an objective says, and what it refuses to be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "cmd/slo.h"

static void good_ones_are_understood(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        struct slo slo;
    } cases[] = {
        {"p(99)<250ms", {NULL, SLO_RESPONSE, SLO_QUANTILE, 0.99, SLO_LESS, 250e6}},
        {"p(99.9) <= 1s", {NULL, SLO_RESPONSE, SLO_QUANTILE, 0.999, SLO_LESS_OR_EQUAL, 1e9}},
        {"append.p(50)<20us", {NULL, SLO_APPEND, SLO_QUANTILE, 0.5, SLO_LESS, 20e3}},
        {"service.med<1ms", {NULL, SLO_SERVICE, SLO_QUANTILE, 0.5, SLO_LESS, 1e6}},
        {"dispatch.max<=1ms", {NULL, SLO_DISPATCH, SLO_MAX, 0, SLO_LESS_OR_EQUAL, 1e6}},
        {"response.avg<1m30s", {NULL, SLO_RESPONSE, SLO_MEAN, 0, SLO_LESS, 90e9}},
        {"min>0", {NULL, SLO_RESPONSE, SLO_MIN, 0, SLO_GREATER, 0}},
        {"errors<0.1%", {NULL, SLO_ERRORS, SLO_QUANTILE, 0, SLO_LESS, 0.001}},
        {"errors<=0.25", {NULL, SLO_ERRORS, SLO_QUANTILE, 0, SLO_LESS_OR_EQUAL, 0.25}},
        {"rate>=2000", {NULL, SLO_RATE, SLO_QUANTILE, 0, SLO_GREATER_OR_EQUAL, 2000}},
        {"rate>90/m", {NULL, SLO_RATE, SLO_QUANTILE, 0, SLO_GREATER, 1.5}},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct slo *wanted = &cases[i].slo;
        struct slo slo;
        struct errmsg why;
        if (slo_parse(&slo, cases[i].text, &why) != 0)
            fail_msg("%s: %s", cases[i].text, why.text);
        assert_ptr_equal(slo.text, cases[i].text);
        assert_int_equal(slo.subject, wanted->subject);
        assert_int_equal(slo.operator, wanted->operator);
        if (slo_is_of_time(&slo))
            assert_int_equal(slo.statistic, wanted->statistic);
        assert_true(fabs(slo.quantile - wanted->quantile) < 1e-12);
        assert_true(fabs(slo.bound - wanted->bound) <= 1e-12 * wanted->bound);
    }
}

static void bad_ones_are_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "p(99)",
        "p(99)<",
        "p(99)<250",
        "p(0)<1s",
        "p(100)<1s",
        "p(-1)<1s",
        "p(1e1)<1s",
        "p(<1s",
        "p99<1s",
        "p(99)=1s",
        "p(99)==1s",
        "p(99)!=1s",
        "p(99)<1s ",
        "p(99)<1s;max",
        "errors<x",
        "errors<101%",
        "errors<-1%",
        "rate>=1/h",
        "rate.p(9)<1",
        "foo<1",
        " p(99)<1s",
        "append<1s",
        "append.rate>1",
        "max<<1s",
        "p(99)<25h",
        "%s%n<1",
        "p(99)<\x01",
        "p(99.99999999999999999999999999999999999999999999999999999999999)<1s",
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct slo slo;
        struct errmsg why = {.text = ""};
        if (slo_parse(&slo, texts[i], &why) >= 0)
            fail_msg("\"%s\" is accepted", texts[i]);
        assert_true(why.text[0] != '\0');
    }
}

static void bounds_are_as_their_operators_say(void **state)
{
    (void)state;
    static const struct {
        enum slo_operator operator;
        bool is_met[3]; /* by less, as much, more */
    } cases[] = {
        {SLO_LESS, {true, false, false}},
        {SLO_LESS_OR_EQUAL, {true, true, false}},
        {SLO_GREATER, {false, false, true}},
        {SLO_GREATER_OR_EQUAL, {false, true, true}},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct slo slo = {.operator= cases[i].operator, .bound = 5 };
        for (int j = 0; j < 3; j++)
            assert_int_equal(slo_is_met(&slo, 4 + j), cases[i].is_met[j]);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_ones_are_understood),
        cmocka_unit_test(bad_ones_are_refused),
        cmocka_unit_test(bounds_are_as_their_operators_say),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
