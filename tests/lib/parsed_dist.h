/* parsed_dist: a distribution from its text, which must be right. cmocka.h comes first in the
 * including file. */
#ifndef BENCH_TESTS_LIB_PARSED_DIST_H
#define BENCH_TESTS_LIB_PARSED_DIST_H

#include "engine/base/dist.h"

static inline struct dist parsed_dist(const char *spec, enum dist_unit unit)
{
    struct dist d;
    struct errmsg why = {""};
    if (dist_parse(&d, spec, unit, &why) != 0)
        fail_msg("\"%s\" is refused: %s", spec, why.text);
    assert_string_equal(d.spec, spec);
    return d;
}

static inline struct dist latency_of(const char *spec)
{
    return parsed_dist(spec, DIST_DURATION);
}

#endif
