/* verdict: see verdict.h. */
#include "cmd/verdict.h"

#include "cmd/command.h"
#include "cmd/output.h"

/* Whether an objective allows for runs that did not complete, and has been met: as many may. */
static bool are_failures_allowed(const struct report *report)
{
    const struct options *options = report->options;
    bool is_allowed = false;
    for (size_t i = 0; i < options->slo_count; i++)
        is_allowed =
            is_allowed || (options->slos[i].subject == SLO_ERRORS && report->slos[i].is_met);
    return is_allowed && report->slos_missed == 0;
}

int verdict_of(const struct report *report, const struct verdict_facts *facts)
{
    const struct options *options = report->options;
    if (report->stop_signal != 0)
        return EXIT_CODE_SIGNAL_BASE + report->stop_signal;
    if (facts->has_lost_output || facts->has_gone_wrong)
        return EXIT_CODE_FAILED;
    bool has_failed = facts->has_failed_runs && !are_failures_allowed(report);
    if (report->reason_count > 0 && !has_failed) {
        output_error("the measurement is not valid: %s", report->reasons[0].text);
        return EXIT_CODE_INVALID;
    }
    if (report->slo_abort.is_aborted) {
        output_error("stopped, as an objective was missed: %s",
                     options->slos[report->slo_abort.slo].text);
        return EXIT_CODE_SLO;
    }
    if (report->slos_missed > 0) {
        output_error("%zu of %zu objectives missed", report->slos_missed, options->slo_count);
        return EXIT_CODE_SLO;
    }
    return has_failed ? EXIT_CODE_FAILED : EXIT_CODE_GOOD;
}
