/* command: what all subcommands with flags do first. See command.h. */
#include "cmd/command.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/output.h"
#include "cmd/version.h"

int command_print(void (*print)(FILE *out, const void *what), const void *what)
{
    char *text = NULL;
    size_t size = 0;
    FILE *memory = open_memstream(&text, &size);
    int error = memory == NULL ? -errno : 0;
    if (memory != NULL) {
        print(memory, what);
        error = fclose(memory) == 0 ? output_write(STDOUT_FILENO, text, size) : -ENOMEM;
        free(text);
    }
    if (error == 0)
        return EXIT_CODE_GOOD;
    output_error("standard output cannot be written: %s", strerror(-error));
    return EXIT_CODE_FAILED;
}

static void print_help(FILE *out, const void *what)
{
    options_write_help(*(const enum options_command *)what, out);
}

static void print_version(FILE *out, const void *what)
{
    version_write(out, what);
}

int command_help_of(enum options_command command)
{
    return command_print(print_help, &command);
}

/* What is printed into a file of the store would damage it. */
static bool prints_into_journal(const struct options *options)
{
    const struct journal_config journal = campaign_journal_config(&options->campaign);
    struct stat status;
    bool is_file = fstat(STDOUT_FILENO, &status) == 0 && S_ISREG(status.st_mode);
    return is_file && journal_owns_path(&journal, "/proc/self/fd/1"); /* which looks at many */
}

static int act(struct options *options, int (*go)(struct options *options))
{
    struct version version;
    switch (options->action) {
    case OPTIONS_HELP:
        return command_help_of(options->command);
    case OPTIONS_VERSION:
        version = version_of_build();
        return command_print(print_version, &version);
    case OPTIONS_GO:
        if (!prints_into_journal(options))
            return go(options);
        output_usage_error(options_help_of(options->command),
                           "standard output must not be a file of the journal");
        return EXIT_CODE_USAGE;
    }
    return EXIT_CODE_USAGE;
}

int command_with_options(enum options_command command, int argc, char **argv,
                         int (*go)(struct options *options))
{
    struct options options;
    struct errmsg why = {.text = ""};
    if (options_parse(&options, command, argc, argv, &why) != 0) {
        output_usage_error(options_help_of(command), "%s", why.text);
        return EXIT_CODE_USAGE;
    }
    int code = act(&options, go);
    options_free(&options);
    return code;
}
