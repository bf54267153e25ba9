/*
 * verify: the subcommand that audits every record of a journal.
 *
 * Prints what was read, the first faults with run and seq, and how many there are. Exit codes: good
 * without faults; failed with faults, or when the journal cannot be read to its end; usage when it
 * cannot be opened, is in use, or has no such campaign. It changes nothing, so that SIGINT and
 * SIGTERM may end it wherever it is.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/command.h"
#include "cmd/options.h"
#include "cmd/output.h"
#include "cmd/signals.h"
#include "engine/base/clock.h"
#include "engine/base/resource.h"
#include "engine/base/units.h"
#include "engine/verify.h"

/* Some six million runs: larger stores are read more than once. */
#define MEMORY_BYTES (UINT64_C(256) << 20)

static void print_faults(FILE *out, const struct verify_result *result)
{
    for (unsigned i = 0; i < result->first_count; i++) {
        const struct verify_fault *fault = &result->first[i];
        (void)fprintf(out, "fault: campaign %" PRIu64 " run %" PRIu64 " seq %" PRIu32 ": %s: %s\n",
                      fault->campaign, fault->run, fault->seq, replay_fault_name(fault->fault),
                      fault->why);
    }
    if (result->runs_faulty > result->first_count)
        (void)fprintf(out, "… and %" PRIu64 " more runs with a fault\n",
                      result->runs_faulty - result->first_count);
    if (result->unlisted_records > 0)
        (void)fprintf(out,
                      "fault: campaign %" PRIu64 ": %" PRIu64
                      " records of a campaign that the journal does not list\n",
                      result->unlisted_campaign, result->unlisted_records);
}

static void print_kind(FILE *out, const char **separator, const char *name, uint64_t count)
{
    if (count == 0)
        return;
    (void)fprintf(out, "%s%s=%" PRIu64, *separator, name, count);
    *separator = " ";
}

/* How the runs ended that have. */
static void print_outcomes(FILE *out, const struct verify_result *result)
{
    const char *separator = " (";
    for (unsigned i = 0; i < OUTCOME_COUNT; i++)
        print_kind(out, &separator, outcome_name((enum outcome)i), result->outcomes[i]);
    (void)fputs(result->runs_ended > 0 ? ")" : "", out);
}

/* How many there are, and of each kind. Records of unlisted campaigns are one, whoever's runs they
 * are. */
static void print_sum(FILE *out, const struct verify_result *result)
{
    const uint64_t unlisted = result->unlisted_records > 0;
    const char *separator = " (";
    (void)fprintf(out, "faults=%" PRIu64, result->runs_faulty + unlisted);
    for (unsigned i = 0; i < REPLAY_FAULT_COUNT; i++)
        print_kind(out, &separator, replay_fault_name((enum replay_fault)i), result->faults[i]);
    print_kind(out, &separator, "unlisted", unlisted);
    (void)fputs(verify_has_faults(result) ? ")" : "", out);
}

/* What is printed. */
struct audit {
    const char *journal;
    struct verify_result result;
    uint64_t elapsed_ns;
    bool is_complete; /* the journal was read to its end */
};

static void print_audit(FILE *out, const void *what)
{
    const struct audit *audit = what;
    const struct verify_result *result = &audit->result;
    char elapsed[UNITS_TEXT_BYTES];
    char bytes[UNITS_TEXT_BYTES];
    double seconds = (double)audit->elapsed_ns / (double)NS_PER_S;
    uint64_t sound = result->runs - result->runs_faulty;
    (void)fprintf(out, "journal=%s campaigns=%" PRIu64 " runs=%" PRIu64 " ended=%" PRIu64,
                  audit->journal, result->campaigns, result->runs, result->runs_ended);
    print_outcomes(out, result);
    (void)fprintf(out, " unfinished=%" PRIu64 "\n", sound - result->runs_ended);
    (void)fprintf(out, "elapsed=%s records=%" PRIu64 " (%.0f records/s, %s of payload)\n",
                  units_format_duration(audit->elapsed_ns, elapsed), result->records,
                  seconds > 0 ? (double)result->records / seconds : 0,
                  units_format_megabytes((int64_t)result->bytes, bytes));
    print_faults(out, result);
    print_sum(out, result);
    (void)fputs(audit->is_complete ? "\n" : " (incomplete)\n", out);
}

static int verify_opened(struct journal *journal, const struct options *options)
{
    const struct verify_config config = {
        .campaign = options->campaign.campaign,
        .memory_bytes = MEMORY_BYTES,
        .threads = resource_cpus(),
    };
    struct audit audit = {.journal = journal_name(journal)};
    struct errmsg why = {.text = ""};
    uint64_t start_ns = clock_monotonic_ns();
    int error = verify_journal(journal, &config, &audit.result, &why);
    audit.elapsed_ns = clock_monotonic_ns() - start_ns;
    audit.is_complete = error == 0;
    bool is_none = error == -ENOENT && audit.result.campaigns == 0; /* that was asked for */
    if (is_none || error == -EBUSY) { /* somebody writes: what was read says nothing yet */
        output_error("%s", why.text);
        return EXIT_CODE_USAGE;
    }
    if (error != 0)
        output_error("the journal cannot be read to its end: %s", why.text);
    int code = command_print(print_audit, &audit);
    return error == 0 && !verify_has_faults(&audit.result) ? code : EXIT_CODE_FAILED;
}

/* Nothing has been printed by then: the result is written at the end, in one piece. */
static void on_signal(int signal)
{
    static const char by_sigint[] = "bench: interrupted by SIGINT: the audit is incomplete\n";
    static const char by_sigterm[] = "bench: interrupted by SIGTERM: the audit is incomplete\n";
    bool is_sigint = signal == SIGINT;
    ssize_t written = write(STDERR_FILENO, is_sigint ? by_sigint : by_sigterm,
                            is_sigint ? sizeof(by_sigint) - 1 : sizeof(by_sigterm) - 1);
    (void)written; /* There is nowhere else to say it. */
    _exit(EXIT_CODE_SIGNAL_BASE + signal);
}

static int verify_what_is_named(struct options *options)
{
    struct journal *journal = NULL;
    struct errmsg why = {.text = ""};
    const struct journal_config config = campaign_journal_config(&options->campaign);
    const sigset_t taken = signals_taken();
    signals_handle(&taken, on_signal);
    if (journal_open(&journal, &config, &why) != 0) {
        output_error("%s", why.text);
        return EXIT_CODE_USAGE;
    }
    int code = verify_opened(journal, options);
    journal_close(journal);
    return code;
}

static int verify(int argc, char **argv)
{
    return command_with_options(OPTIONS_OF_VERIFY, argc, argv, verify_what_is_named);
}

const struct command command_verify = {.name = "verify", .run = verify};
