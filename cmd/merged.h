/*
 * merged: one result of those of several generators that drove the same store, or stores of the
 * same kind, at the same time. What struct report needs is rebuilt from the results, so that each
 * format writes a merged result as it writes one campaign's.
 *
 * Life: merged_init() → merged_add() for each result → merged_finish() → what is read, or
 * merged_report() → free.
 *
 * What is added, and how: merge_rules.h for single values; histograms bucket by bucket, which is
 * exact; elapsed is from the first start of any to the last end of any, and rates are of that;
 * intervals: merge_intervals.h. Refused are results that did not run at the same time, that are of
 * another build or configuration, or that are given twice; which and why is in `why`.
 *
 * Ownership: the caller's struct; a result_file may be freed once it is added. Threading: main
 * thread. Errors: 0 or -errno, after which only merged_free() may follow. Units: ns, bytes.
 */
#ifndef BENCH_MERGED_H
#define BENCH_MERGED_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "cmd/intervals.h"
#include "cmd/report.h"
#include "cmd/result_file.h"

enum { MERGED_URI_BYTES = 32 };

/* A result that was added. */
struct merged_part {
    char name[RESULT_FILE_NAME_BYTES];
    uint64_t started_ns; /* time of day */
    uint64_t warmup_ns;  /* what is measured begins so much later; 0: there was none */
    uint64_t elapsed_ns; /* of what is measured, as is the next */
    uint64_t issuing_ns; /* 0: a closed loop */
    uint64_t every_ns;   /* its intervals, and the next two */
    struct interval *rows;
    size_t row_count;
};

struct merged {
    struct campaign_config config; /* that all have, or the sum */
    struct campaign_result result;
    struct intervals intervals;
    struct report_merged about;
    struct errmsg *reasons; /* why those that are not valid are not, each with its file */
    size_t reason_count;
    struct host host;                 /* of all, see merged_place.h, as are the next two */
    struct version version;           /* its texts are those of `first` */
    struct journal_settings settings; /* likewise its keys */

    struct result_file first; /* its name and tree */
    struct merged_part *parts;
    size_t part_count;
    size_t part_capacity;
    struct hist *hists; /* those of the result, and one to read into */
    char journal_uri[MERGED_URI_BYTES];
    char journal_name[MERGED_URI_BYTES];
};

int merged_init(struct merged *merged, struct errmsg *why);
int merged_add(struct merged *merged, const struct result_file *file, struct errmsg *why);
int merged_finish(struct merged *merged, struct errmsg *why);
/* report_init(), and what the results know of themselves. */
void merged_report(const struct merged *merged, const struct options *options,
                   struct report *report);
void merged_free(struct merged *merged);

#endif
