/*
 * bench: a load generator for durable agent runs. This file finds the subcommand and hands over.
 */
#include <signal.h>
#include <stddef.h>
#include <string.h>

#include "cmd/command.h"
#include "cmd/output.h"

/* Every subcommand of the design, the default first. A row without a function is not built yet. */
static const struct command *const commands[] = {
    &command_run,
    &command_resume,
    &command_verify,
    &command_merge,
    &command_compare,
    &command_help,
    &(const struct command){.name = "ab"},
    &(const struct command){.name = "suite"},
    &(const struct command){.name = "capacity"},
    &(const struct command){.name = "report"},
    NULL,
};

static const struct command *find_command(const char *name)
{
    for (const struct command *const *row = commands; *row != NULL; row++)
        if (strcmp((*row)->name, name) == 0)
            return *row;
    return NULL;
}

int main(int argc, char **argv)
{
    output_guard_standard_streams();
    /* `bench … | head` must not die of it: output_write() sees the closed pipe as an error code. */
    (void)signal(SIGPIPE, SIG_IGN);
    /* Nor must a file that reaches its limit end the process: write() says so, and what is half
     * written is taken away. */
    (void)signal(SIGXFSZ, SIG_IGN);

    const struct command *command = commands[0];
    if (argc > 1 && argv[1][0] != '-') {
        command = find_command(argv[1]);
        if (command == NULL) {
            output_usage_error("bench -help", "unknown command \"%s\"", argv[1]);
            return EXIT_CODE_USAGE;
        }
        argc--;
        argv++;
    }
    if (command->run == NULL) {
        output_usage_error("bench -help", "command %s is not built yet", command->name);
        return EXIT_CODE_USAGE;
    }
    return command->run(argc, argv);
}
