/* conformance: see conformance.h. Runs each check in a process of its own. */
#include "tests/lib/conformance.h"

#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/journal_probe.h"

enum { CHECK_SECONDS_MAX = 120, IDLE_POLLS_MAX = 10000 };

/* Those that fill a store with many megabytes come last: others may look at all that is there. */
static const unsigned check_order[CONFORMANCE_CHECKS] = {1, 2, 3, 4, 6, 7, 9, 10, 5, 8};

#define RUNS_A_CHECK (UINT64_C(1) << 20)

/* Writes the counts of a coverage build, which else are lost in _exit(). The name is gcc's. */
// NOLINTNEXTLINE(readability-identifier-naming)
extern void __gcov_dump(void) __attribute__((weak));

/* In the child. */
static void run_check(const struct conformance_config *config, struct conformance_report *report,
                      unsigned check)
{
    static struct suite suite; /* racing threads and late callbacks may outlive the check */
    suite.config = config;
    suite.report = report;
    suite.run_first = 1 + check * RUNS_A_CHECK;
    (void)pthread_mutex_init(&suite.lock, NULL);
    (void)alarm(CHECK_SECONDS_MAX);
    if (suite_open(&suite, SUITE_BYTES_MAX))
        conformance_checks[check - 1](&suite);
    suite_close(&suite);
    (void)fflush(NULL);
    if (__gcov_dump != NULL)
        __gcov_dump();
    /* Not exit(): probes are never freed, and the parent's handlers are not ours to run. */
    _exit(0);
}

int conformance_run(const struct conformance_config *config, struct conformance_report *report)
{
    struct conformance_config filled = *config;
    struct conformance_report *shared =
        mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return -errno;
    if (filled.idle_polls_max == 0)
        filled.idle_polls_max = IDLE_POLLS_MAX;
    int error = 0;
    for (unsigned i = 0; i < CONFORMANCE_CHECKS && error == 0; i++) {
        unsigned check = check_order[i];
        int status = 0;
        if (config->only != 0 && (config->only & 1u << check) == 0)
            continue;
        (void)fflush(NULL);
        pid_t child = fork();
        if (child == 0)
            run_check(&filled, shared, check);
        if (child < 0 || waitpid(child, &status, 0) != child) {
            error = -errno;
        } else if (status != 0) {
            shared->failed |= 1u << check;
            (void)snprintf(shared->why[check], CONFORMANCE_WHY_BYTES,
                           "the process of the check ended with status 0x%x", (unsigned)status);
        }
    }
    *report = *shared;
    (void)munmap(shared, sizeof(*shared));
    return error;
}
