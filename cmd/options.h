/*
 * options: the flags of `bench run`: one table in options.c, a row a flag.
 *
 * Parsing has no side effects (a `file:` distribution is read). It accepts -flag value,
 * -flag=value, --flag value; no abbreviations, no flag twice. Ownership: texts point into argv,
 * which outlives the options; options_free() releases the rest. Threading: main thread only, since
 * getopt keeps its state in globals. Units: ns.
 */
#ifndef BENCH_OPTIONS_H
#define BENCH_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "engine/base/err.h"
#include "engine/campaign.h"

#define OPTIONS_RUNS_DEFAULT 5000
#define OPTIONS_TURNS_DEFAULT 2
#define OPTIONS_TOOLS_DEFAULT 1
#define OPTIONS_RUNS_MAX UINT64_C(1000000000000)

enum options_action { OPTIONS_RUN, OPTIONS_HELP, OPTIONS_VERSION };

struct options {
    enum options_action action;
    struct campaign_config campaign; /* memory_bytes_max is left 0: it depends on the machine */
    const char *json_path;           /* NULL: none; "-": standard output */
    uint64_t progress_ns;            /* 0 with is_progress_given: none */
    bool is_progress_given;
    bool is_quiet;
};

/* argv[0] is skipped. 0, or -EINVAL or the errno of an unreadable `file:` with one line in `why`;
 * then nothing is left to free. -help and -version end the parsing where they stand. */
int options_parse(struct options *options, int argc, char **argv, struct errmsg *why);
void options_free(struct options *options);

/* What -help prints: at most 40 lines of 80 columns. */
void options_write_help(FILE *out);

#endif
