/*
 * flags: the row of the flag table, shared by options.c (the table and its parser) and flags.c (the
 * parsers of values, the search for the nearest name, the help text).
 */
#ifndef BENCH_FLAGS_H
#define BENCH_FLAGS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "cmd/options.h"

/* The order of -help. A flag of FLAG_LATER is known to the design but not built yet. */
enum flag_group {
    FLAG_LOAD,
    FLAG_AGENT,
    FLAG_JOURNAL,
    FLAG_OUTPUT,
    FLAG_LATER,
};

struct flag {
    const char *name;
    const char *argument; /* how -help calls it; NULL: the flag takes none */
    enum flag_group group;
    /* Sets the member of struct options at `offset` from the text ("" for a flag without argument).
     */
    int (*parse)(const struct flag *flag, const char *text, struct options *options,
                 struct errmsg *why);
    size_t offset;
    uint64_t min; /* of counts and durations */
    uint64_t max;
    const char *help;
};

/* Parsers of values. `why` is phrased to follow "-flag ". */
int flags_parse_count64(const struct flag *, const char *text, struct options *, struct errmsg *);
int flags_parse_count32(const struct flag *, const char *text, struct options *, struct errmsg *);
int flags_parse_seed(const struct flag *, const char *text, struct options *, struct errmsg *);
int flags_parse_duration(const struct flag *, const char *text, struct options *, struct errmsg *);
int flags_parse_dist(const struct flag *, const char *text, struct options *, struct errmsg *);
int flags_parse_text(const struct flag *, const char *text, struct options *, struct errmsg *);
int flags_parse_loop(const struct flag *, const char *text, struct options *, struct errmsg *);
int flags_parse_durability(const struct flag *, const char *text, struct options *,
                           struct errmsg *);
int flags_parse_effect(const struct flag *, const char *text, struct options *, struct errmsg *);
int flags_parse_switch(const struct flag *, const char *text, struct options *, struct errmsg *);
int flags_parse_help(const struct flag *, const char *text, struct options *, struct errmsg *);
int flags_parse_version(const struct flag *, const char *text, struct options *, struct errmsg *);

/* The flag that somebody who wrote `name` may have meant, or NULL. `name` has `size` bytes. */
const struct flag *flags_find_nearest(const struct flag *flags, size_t count, const char *name,
                                      size_t size);

void flags_write_help(const struct flag *flags, size_t count, FILE *out);

#endif
