/*
 * merge_take: what a row of merge_rules.c does with the value at its key, which is there. Not for
 * anyone but merge_rules.c.
 *
 * Threading: main thread. Errors: -EINVAL or -ERANGE with one line that names file and key.
 */
#ifndef BENCH_MERGE_TAKE_H
#define BENCH_MERGE_TAKE_H

#include "cmd/merge_rules.h"

struct flag_names;
struct merge_row;

typedef int merge_take(struct merged *merged, const struct merge_row *row,
                       const struct result_file *file, struct errmsg *why);

struct merge_row {
    const char *key;
    bool is_same; /* in all results: taken from the first, and the others are held against it */
    /* Takes the value in, at `offset` of struct merged; NULL: it is left to the report, which
     * computes it anew or has one of its own. */
    merge_take *take;
    size_t offset;
    const struct flag_names *names; /* of merge_take_name() */
    const char *of;                 /* of merge_add_mean(): how many values it is the mean of */
};

/* Of each result: a whole number is added; a null counts as 0, or must be one in all, or makes the
 * sum one that is not known. */
merge_take merge_add_u64;
merge_take merge_add_u32;
merge_take merge_add_u64_if_given;
merge_take merge_add_if_known;
merge_take merge_add_i64;
merge_take merge_add_double;
merge_take merge_add_mean;
merge_take merge_add_warmup; /* all have had one, or none */
merge_take merge_add_stages;
merge_take merge_max_u64;
merge_take merge_max_double;
merge_take merge_max_share; /* a null is not known, and no more than any */
merge_take merge_max_begun; /* from the rate of the starts, of as many as `of` says */
merge_take merge_add_checksum;
merge_take merge_first_error; /* with the name of its file */
merge_take merge_take_seed;   /* the first's */
merge_take merge_take_mode;   /* which must be that of a new campaign */

/* Of the first result. */
merge_take merge_take_u64;
merge_take merge_take_u32;
merge_take merge_take_bool;
merge_take merge_take_dist_ns;
merge_take merge_take_dist_bytes;
merge_take merge_take_name;
merge_take merge_take_name_if_given;
merge_take merge_take_journal;
merge_take merge_take_loop;

/* Says what the first result and this one have at a key. Returns -EINVAL. */
int merge_refuse_difference(const struct merged *merged, const char *key,
                            const struct result_file *file, struct errmsg *why);

#endif
