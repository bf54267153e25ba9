/*
 * merge: the subcommand that makes one result of those of several generators.
 *
 * Exit codes: good; usage when a result cannot be read or does not fit the others, and nothing is
 * written then; failed when the merged one cannot be written; invalid when one of them is; SLO when
 * an objective of its own flags is missed. Runs that did not complete are told in the result, as
 * the generators have told of them.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/command.h"
#include "cmd/merge_check.h"
#include "cmd/merged.h"
#include "cmd/output.h"
#include "cmd/report.h"
#include "cmd/signals.h"
#include "cmd/verdict.h"

static int read_results(struct merged *merged, const struct options *options, struct errmsg *why)
{
    int error = merged_init(merged, why);
    for (int i = 0; i < options->operand_count && error == 0; i++) {
        struct result_file file;
        error = result_file_load(&file, options->operands[i], why);
        if (error != 0)
            break;
        /* What differs is told first: it may be why figures do not hold together. */
        error = merged_add(merged, &file, why);
        if (error == 0)
            error = merge_check_result(&file, why);
        result_file_free(&file);
    }
    return error != 0 ? error : merged_finish(merged, why);
}

static int write_merged(const struct merged *merged, const struct options *options,
                        struct report_outputs *outputs)
{
    struct report report;
    struct errmsg why = {.text = ""};
    merged_report(merged, options, &report);
    if (merged->intervals.is_cut)
        output_error("warning: the intervals are left out: there would be too many");
    const struct verdict_facts facts = {.has_lost_output =
                                            report_write(&report, outputs, &why) != 0};
    if (facts.has_lost_output)
        output_error("%s", why.text);
    return verdict_of(&report, &facts);
}

/* What is said of the configuration is said by the options: the report's readers know no other. */
static void set_config(struct options *options, const struct merged *merged)
{
    bool has_intervals = merged->intervals.every_ns > 0;
    options->campaign = merged->config;
    options->is_progress_given = has_intervals;
    options->progress_ns = has_intervals ? merged->intervals.every_ns : 0;
}

static int merge_results(struct options *options)
{
    struct report_outputs outputs;
    struct merged merged = {.part_count = 0};
    struct errmsg why = {.text = ""};
    const struct campaign_config none = options->campaign;
    const sigset_t taken = signals_taken();
    int code = EXIT_CODE_USAGE;

    /* They end it between two files, where no half one is left behind. */
    (void)sigprocmask(SIG_BLOCK, &taken, NULL);
    int error = report_outputs_open(&outputs, options, &why);
    (void)sigprocmask(SIG_UNBLOCK, &taken, NULL);
    if (error != 0) {
        output_usage_error(options_help_of(options->command), "%s", why.text);
        return EXIT_CODE_USAGE;
    }
    if (read_results(&merged, options, &why) != 0) {
        output_error("%s", why.text);
    } else {
        (void)sigprocmask(SIG_BLOCK, &taken, NULL);
        set_config(options, &merged);
        code = write_merged(&merged, options, &outputs);
        options->campaign = none;
        (void)sigprocmask(SIG_UNBLOCK, &taken, NULL);
    }
    merged_free(&merged);
    report_outputs_close(&outputs);
    return code;
}

static int merge(int argc, char **argv)
{
    return command_with_options(OPTIONS_OF_MERGE, argc, argv, merge_results);
}

const struct command command_merge = {.name = "merge", .run = merge};
