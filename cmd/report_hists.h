/*
 * report_hists: the histograms of a result, each with its name below "latency" in the JSON: the one
 * list of those that are written, read and merged. Threading: constants.
 */
#ifndef BENCH_REPORT_HISTS_H
#define BENCH_REPORT_HISTS_H

#include <stddef.h>

#include "engine/campaign.h"

enum { REPORT_HISTS = 10 };

struct report_hist {
    const char *name;
    size_t offset; /* of the pointer in struct campaign_result */
};

/* In the order of the schema. */
extern const struct report_hist report_hists[REPORT_HISTS];

static inline struct hist **report_hist_at(struct campaign_result *result, size_t row)
{
    return (struct hist **)((char *)result + report_hists[row].offset);
}

static inline const struct hist *report_hist_of(const struct campaign_result *result, size_t row)
{
    return *(struct hist *const *)((const char *)result + report_hists[row].offset);
}

#endif
