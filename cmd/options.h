/*
 * options: the flags of all commands: one table in options.c, a row a flag.
 *
 * Parsing has no side effects (a `file:` distribution is read). It accepts -flag value,
 * -flag=value, --flag value; no abbreviations, no flag twice. Ownership: texts point into argv,
 * which outlives the options; options_free() releases the rest. Threading: main thread only, since
 * getopt keeps its state in globals. Units: ns.
 */
#ifndef BENCH_OPTIONS_H
#define BENCH_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "cmd/slo.h"
#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/campaign.h"

#define OPTIONS_RUNS_DEFAULT 5000
#define OPTIONS_TURNS_DEFAULT 2
#define OPTIONS_TOOLS_DEFAULT 1
#define OPTIONS_OPERANDS_MAX 1000
#define OPTIONS_THRESHOLD_DEFAULT 0.05
#define OPTIONS_RUNS_MAX UINT64_C(1000000000000)

#define OPTIONS_STEADY_WARMUP_NS (60 * NS_PER_S) /* the longest, unless -warmup says another */
#define OPTIONS_STEADY_WARMUP_NS_MIN (200 * NS_PER_MS) /* what its window fits into */
#define OPTIONS_RETRY_FOR_NS_DEFAULT (30 * NS_PER_S)

/* The command that the flags are of. */
enum options_command {
    OPTIONS_OF_RUN,
    OPTIONS_OF_RESUME,
    OPTIONS_OF_VERIFY,
    OPTIONS_OF_MERGE,
    OPTIONS_OF_COMPARE,
};

enum options_action { OPTIONS_GO, OPTIONS_HELP, OPTIONS_VERSION };

#define OPTIONS_AT(member) offsetof(struct options, member)

struct options {
    enum options_command command;
    enum options_action action;
    struct campaign_config campaign; /* memory_bytes_max is left 0: it depends on the machine */
    const char *json_path;           /* NULL: none; "-": standard output; as are the next six */
    const char *csv_path;
    const char *markdown_path;
    const char *hgrm_path;
    const char *gobench_path;
    const char *bmf_path;
    const char *openmetrics_path;
    const char *gha_path; /* of which two are made; never "-" */
    struct slo slos[SLOS_MAX];
    size_t slo_count;
    double steady_ratio; /* 0: not asked for */
    bool is_slo_abort;
    uint64_t slo_delay_ns;
    uint64_t progress_ns; /* 0 with is_progress_given: none */
    bool is_progress_given;
    bool is_quiet;
    bool is_histogram;
    double threshold; /* of a comparison, as are the next three */
    double floor;
    bool is_paired;
    bool is_forced;
    char **operands; /* of a merge or a comparison: other commands take none */
    int operand_count;
    int operands_before; /* how many stand before a "--"; -1: there is none */
    uint64_t given;      /* flags, see options_is_given() */
};

/* argv[0] is skipped; operands are moved to the front of the rest. 0, or -EINVAL or the errno of an
 * unreadable `file:` with one line in `why`; then nothing is left to free. -help and -version end
 * the parsing where they stand. */
int options_parse(struct options *options, enum options_command command, int argc, char **argv,
                  struct errmsg *why);
void options_free(struct options *options);

/* Whether the flag that sets the member at this offset was given, be it its default or 0. */
bool options_is_given(const struct options *options, size_t offset);

/* The distributions among the options, one a call, with the flag that gives it; NULL after the
 * last. `at` starts from 0. */
const struct dist *options_next_dist(const struct options *options, size_t *at, const char **flag);

/* Whether what was given goes together, and what follows from it: the last part of parsing. */
int options_check(struct options *options, struct errmsg *why);

/* Whether what is said of the model goes together: 0 or -EINVAL. */
int options_check_model(const struct options *options, struct errmsg *why);

/* What -tool-retry calls it: "unknown=halt". */
const char *options_retry_name(enum agent_retry retry);

const char *options_name_of(enum options_command command); /* "resume" */

/* How to get the help of a command: "bench resume -help". */
const char *options_help_of(enum options_command command);

/* What -help prints: lines of 80 columns, as many as fit a large screen. */
void options_write_help(enum options_command command, FILE *out);

#endif
