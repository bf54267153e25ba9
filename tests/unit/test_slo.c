/* slo: what an objective says, and what it refuses to be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>

#include "cmd/slo.h"
#include "cmd/slo_watch.h"

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

static struct hist *hist_of(uint64_t count, uint64_t value_ns)
{
    struct hist *h = malloc(sizeof(*h));
    assert_non_null(h);
    hist_init(h);
    for (uint64_t i = 0; i < count; i++)
        hist_record(h, value_ns);
    return h;
}

/* What ends a campaign is what is missed, not what is not known yet. */
static void what_is_not_known_yet_is_not_missed(void **state)
{
    static const struct {
        const char *text;
        uint64_t completed;
        uint64_t errors;
        bool is_missed;
        double value;
    } cases[] = {
        {"p(99)<100ns", 999, 0, false, 0},
        {"p(99)<100ns", 1000, 0, true, 200},
        {"p(99)<300ns", 1000, 0, false, 0},
        {"append.p(50)<1us", 20, 0, true, 2000},
        {"append.p(50)<3us", 20, 0, false, 0},
        {"max<100ns", 1, 0, true, 200},
        {"max<100ns", 0, 5, false, 0},
        {"errors<10%", 0, 0, false, 0},
        {"errors<10%", 9, 1, true, 0.1},
        {"errors<=10%", 9, 1, false, 0},
        {"rate>=5", 0, 0, true, 0},
        {"rate>=5", 50, 0, false, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hist *response = hist_of(cases[i].completed, 200);
        struct hist *append = hist_of(cases[i].completed, 2000);
        struct options options = {.slo_count = 2};
        struct slo_abort abort = {.is_aborted = false};
        struct errmsg why;
        assert_int_equal(slo_parse(&options.slos[0], "errors<=100%", &why), 0);
        assert_int_equal(slo_parse(&options.slos[1], cases[i].text, &why), 0);
        const struct slo_figures figures = {
            .response = response,
            .service = response,
            .append = append,
            .dispatch = append,
            .completed = cases[i].completed,
            .errors = cases[i].errors,
            .is_rate_known = true,
            .rate = (double)cases[i].completed / 10,
        };
        assert_int_equal(slo_watch_hold(&options, &figures, &abort), cases[i].is_missed);
        assert_int_equal(abort.is_aborted, cases[i].is_missed);
        if (cases[i].is_missed) {
            assert_int_equal(abort.slo, 1);
            assert_true(fabs(abort.value - cases[i].value) < 1e-9);
        }
        free(response);
        free(append);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_ones_are_understood),
        cmocka_unit_test(bad_ones_are_refused),
        cmocka_unit_test(bounds_are_as_their_operators_say),
        cmocka_unit_test(what_is_not_known_yet_is_not_missed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
