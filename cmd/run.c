/* run: the subcommand that drives new runs, and help, which prints its flags. */
#include "cmd/command.h"
#include "cmd/drive.h"

static int run(int argc, char **argv)
{
    return command_with_options(OPTIONS_OF_RUN, argc, argv, drive_campaign);
}

/* What people type who do not know the flags yet; what follows is not looked at, as after -help. */
static int help(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    return command_help_of(OPTIONS_OF_RUN);
}

const struct command command_run = {.name = "run", .run = run};
const struct command command_help = {.name = "help", .run = help};
