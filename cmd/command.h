/*
 * command: the interface of a subcommand. main.c keeps the table of them.
 *
 * A new subcommand is one file in cmd/ that defines a `const struct command`, and one row in
 * main.c.
 */
#ifndef BENCH_COMMAND_H
#define BENCH_COMMAND_H

#include <stdio.h>

#include "cmd/options.h"

/* Exit codes: scripts depend on them, append-only. */
enum {
    EXIT_CODE_GOOD = 0,
    EXIT_CODE_FAILED = 1,        /* a run, the journal or an output failed */
    EXIT_CODE_USAGE = 2,         /* or more than the machine has: nothing was touched */
    EXIT_CODE_REGRESSION = 3,    /* of a comparison: something is worse */
    EXIT_CODE_INVALID = 4,       /* nothing failed, but the measurement is not valid */
    EXIT_CODE_SLO = 99,          /* an objective was missed */
    EXIT_CODE_SIGNAL_BASE = 128, /* plus the signal's number: 130 for SIGINT, 143 for SIGTERM */
};

struct command {
    const char *name;
    /* argv[0] stands for the command itself, flags and operands follow. Returns the exit code.
     * NULL: the command is known to the design but not built yet. */
    int (*run)(int argc, char **argv);
};

extern const struct command command_run;
extern const struct command command_resume;
extern const struct command command_verify;
extern const struct command command_merge;
extern const struct command command_compare;
extern const struct command command_help; /* prints the help of run */

/* Reads the flags of a subcommand and goes on with `go`, unless they are wrong or ask for help or
 * the version. Returns the exit code. */
int command_with_options(enum options_command command, int argc, char **argv,
                         int (*go)(struct options *options));

/* Prints to standard output, all or nothing. Returns the exit code. */
int command_print(void (*print)(FILE *out, const void *what), const void *what);
int command_help_of(enum options_command command);

#endif
