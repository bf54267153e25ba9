/*
 * compare: the subcommand that judges two sets of results.
 *
 * Exit codes: good; usage when a result cannot be read or was not measured like the others, and
 * nothing is written then; failed when the comparison cannot be written; regression.
 */
#include <errno.h>
#include <stdlib.h>

#include "cmd/command.h"
#include "cmd/comparison.h"
#include "cmd/output.h"
#include "cmd/report.h"

static const struct {
    const struct report_format *place; /* the flag that names the file */
    int (*write)(FILE *out, const struct comparison *comparison);
} formats[] = {
    {&report_text, comparison_write_text},
    {&report_json, comparison_write_json},
    {&report_markdown, comparison_write_markdown},
};

/* All of them, whatever becomes of one. */
static int write_all(const struct comparison *comparison, struct report_outputs *outputs,
                     const struct options *options)
{
    int code = EXIT_CODE_GOOD;
    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
        char *text = NULL;
        size_t size = 0;
        struct errmsg why = {.text = ""};
        FILE *memory = open_memstream(&text, &size);
        int error = memory == NULL ? -ENOMEM : formats[i].write(memory, comparison);
        if (memory != NULL && fclose(memory) != 0)
            error = -ENOMEM;
        if (error != 0)
            (void)errmsg_set(&why, error, "no memory for the comparison");
        else
            error = report_outputs_write(outputs, formats[i].place, options, text, size, &why);
        free(text);
        if (error == 0)
            continue;
        output_error("%s", why.text);
        code = EXIT_CODE_FAILED;
    }
    return code;
}

static int read_sides(struct compare_set *set, const struct options *options, struct errmsg *why)
{
    int base = options->operands_before < 0 ? 1 : options->operands_before;
    int error = 0;
    for (int i = 0; i < options->operand_count && error == 0; i++)
        error =
            compare_set_add(set, i < base ? COMPARE_BASE : COMPARE_HEAD, options->operands[i], why);
    return error != 0 ? error : compare_set_check(set, options->is_paired, why);
}

static int judge(const struct compare_set *set, struct report_outputs *outputs,
                 const struct options *options)
{
    const struct compare_rules rules = {
        .threshold = options->threshold,
        .floor = options->floor,
        .is_paired = options->is_paired,
        .seed = 1,
    };
    struct comparison comparison;
    struct errmsg why = {.text = ""};
    if (comparison_init(&comparison, set, &rules, NULL, &why) != 0) {
        output_error("%s", why.text);
        return EXIT_CODE_FAILED;
    }
    int code = write_all(&comparison, outputs, options);
    if (code == EXIT_CODE_GOOD && comparison.regressions > 0) {
        output_error("%zu worse", comparison.regressions);
        code = EXIT_CODE_REGRESSION;
    }
    comparison_free(&comparison);
    return code;
}

static int compare_results(struct options *options)
{
    struct report_outputs outputs;
    struct compare_set set;
    struct errmsg why = {.text = ""};
    int code = EXIT_CODE_USAGE;
    if (report_outputs_open(&outputs, options, &why) != 0) {
        output_usage_error(options_help_of(options->command), "%s", why.text);
        return EXIT_CODE_USAGE;
    }
    compare_set_init(&set, options->is_forced);
    if (read_sides(&set, options, &why) != 0)
        output_error("%s", why.text);
    else
        code = judge(&set, &outputs, options);
    compare_set_free(&set);
    report_outputs_close(&outputs);
    return code;
}

static int compare(int argc, char **argv)
{
    return command_with_options(OPTIONS_OF_COMPARE, argc, argv, compare_results);
}

const struct command command_compare = {.name = "compare", .run = compare};
