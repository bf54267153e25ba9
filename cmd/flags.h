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
    FLAG_MODEL,
    FLAG_JOURNAL,
    FLAG_JUDGING,
    FLAG_OUTPUT,
    FLAG_LATER,
};

/* What a value of an enum is called. */
struct flag_names {
    const char *(*name_of)(unsigned value);
    unsigned first;
    unsigned count;
};

/* What holds where the flag is not given, which may differ between commands. */
struct flag_default {
    unsigned commands; /* as in struct flag; 0: none */
    const char *text;
};

enum { FLAG_DEFAULTS_MAX = 2 };

struct flag {
    const char *name;
    const char *argument; /* how -help calls it; NULL: the flag takes none */
    enum flag_group group;
    unsigned commands; /* a bit (1 << enum options_command) each command that has it */
    /* Sets the member of struct options at `offset` from the text ("" for a flag without argument).
     */
    int (*parse)(const struct flag *flag, const char *text, struct options *options,
                 struct errmsg *why);
    size_t offset;
    uint64_t min; /* of counts, ids and durations */
    uint64_t max;
    const char *help;
    struct flag_default defaults[FLAG_DEFAULTS_MAX];
    const struct flag_names *names; /* of flags_parse_name() */
    bool is_repeatable;
};

/* Parsers of values. `why` is phrased to follow "-flag ". */
int flags_parse_count64(const struct flag *, const char *text, struct options *, struct errmsg *);
int flags_parse_count32(const struct flag *, const char *text, struct options *, struct errmsg *);
/* An identity, not a quantity: digits only. */
int flags_parse_id(const struct flag *, const char *text, struct options *, struct errmsg *);
int flags_parse_duration(const struct flag *, const char *text, struct options *, struct errmsg *);
int flags_parse_share(const struct flag *, const char *text, struct options *, struct errmsg *);
int flags_parse_rate(const struct flag *, const char *text, struct options *, struct errmsg *);
int flags_parse_stages(const struct flag *, const char *text, struct options *, struct errmsg *);
int flags_parse_dist(const struct flag *, const char *text, struct options *, struct errmsg *);
int flags_parse_dist_bytes(const struct flag *, const char *text, struct options *,
                           struct errmsg *);
int flags_parse_text(const struct flag *, const char *text, struct options *, struct errmsg *);
int flags_parse_slo(const struct flag *, const char *text, struct options *, struct errmsg *);
int flags_parse_loop(const struct flag *, const char *text, struct options *, struct errmsg *);
int flags_parse_name(const struct flag *, const char *text, struct options *, struct errmsg *);
int flags_parse_switch(const struct flag *, const char *text, struct options *, struct errmsg *);
int flags_parse_help(const struct flag *, const char *text, struct options *, struct errmsg *);
int flags_parse_version(const struct flag *, const char *text, struct options *, struct errmsg *);

extern const struct flag_names flags_durability_names;
extern const struct flag_names flags_effect_names;
extern const struct flag_names flags_run_id_names;
extern const struct flag_names flags_history_names;
extern const struct flag_names flags_retry_names;
extern const struct flag_names flags_arrival_names;
extern const struct flag_names flags_stream_names;

/* The flag that somebody who wrote `name` may have meant, or NULL. `name` has `size` bytes. */
const struct flag *flags_find_nearest(const struct flag *flags, size_t count, const char *name,
                                      size_t size);

/* The flags of a command, and what their values look like. */
void flags_write_help(const struct flag *flags, size_t count, enum options_command command,
                      FILE *out);

#endif
