/*
 * report_output: where the formats of a report go, found out before anything starts and written at
 * its end.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/output.h"
#include "cmd/report.h"

static const char *path_of(const struct report_format *format, const struct options *options)
{
    return *(const char *const *)((const char *)options + format->path_offset);
}

static bool is_standard_output(const char *path)
{
    return strcmp(path, "-") == 0;
}

/* A format on standard output moves the summary to standard error. */
static int summary_fd(const struct options *options)
{
    for (const struct report_format *const *row = report_table; *row != NULL; row++) {
        const char *path = path_of(*row, options);
        if (path != NULL && is_standard_output(path))
            return STDERR_FILENO;
    }
    return STDOUT_FILENO;
}

/* --- before --- */

/* What is written must not be what is read. */
static int check_lists(const char *flag, const struct output_file *file,
                       const struct options *options, struct errmsg *why)
{
    size_t at = 0;
    const char *reader = NULL;
    const struct dist *dist;
    while ((dist = options_next_dist(options, &at, &reader)) != NULL) {
        struct stat status;
        if (dist->kind == DIST_FILE && stat(strchr(dist->spec, ':') + 1, &status) == 0 &&
            output_file_is(file, &status))
            return errmsg_set(why, -EINVAL, "-%s must not name the list that -%s reads", flag,
                              reader);
    }
    return 0;
}

/* What a file gets must not be written over, or replaced, by what goes to a stream of ours. */
static int check_streams(const char *flag, const struct output_file *file, struct errmsg *why)
{
    static const struct {
        int fd;
        const char *name;
    } streams[] = {{STDOUT_FILENO, "standard output"}, {STDERR_FILENO, "standard error"}};
    for (size_t i = 0; i < sizeof(streams) / sizeof(streams[0]); i++) {
        struct stat status;
        if (fstat(streams[i].fd, &status) == 0 && output_file_is(file, &status))
            return errmsg_set(why, -EINVAL, "-%s must not name what %s is", flag, streams[i].name);
    }
    return 0;
}

/* The store may replace its files, and does not expect that others do. */
static int check_store(const char *flag, const struct output_file *file,
                       const struct options *options, struct errmsg *why)
{
    struct journal_config config = campaign_journal_config(&options->campaign);
    if (!journal_owns_path(&config, file->place[0] != '\0' ? file->place : file->path))
        return 0;
    return errmsg_set(why, -EINVAL, "-%s must not name a file of the journal: %s, of -journal %s",
                      flag, file->path, options->campaign.journal_uri);
}

/* Nor what is read. */
static int check_operands(const char *flag, const struct output_file *file,
                          const struct options *options, struct errmsg *why)
{
    for (int i = 0; i < options->operand_count; i++) {
        struct stat status;
        if (stat(options->operands[i], &status) == 0 && output_file_is(file, &status))
            return errmsg_set(why, -EINVAL, "-%s must not name a result that is read: %s", flag,
                              options->operands[i]);
    }
    return 0;
}

static int open_output(struct output_file *file, const char *flag, const char *path,
                       enum output_use use, const struct options *options, struct errmsg *why)
{
    struct errmsg reason = {.text = ""};
    int error = output_file_open(file, path, use, &reason);
    if (error != 0)
        return errmsg_set(why, error, "-%s %s", flag, reason.text);
    error = check_streams(flag, file, why);
    if (error == 0)
        error = check_store(flag, file, options, why);
    if (error == 0)
        error = check_operands(flag, file, options, why);
    return error != 0 ? error : check_lists(flag, file, options, why);
}

/* One of the files of a flag that names several: "a.json" is "a.INFIX.json". A name that only
 * begins with a dot has no extension. */
static int add_infix(char place[PATH_MAX], const char *path, const struct report_format *format,
                     struct errmsg *why)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    const char *dot = strrchr(name, '.');
    size_t stem = dot != NULL && dot > name ? (size_t)(dot - path) : strlen(path);
    struct stat status;
    /* Beside a device or a directory nobody wants a file of nearly its name. */
    if (name[0] == '\0' || (stat(path, &status) == 0 && !S_ISREG(status.st_mode)))
        return errmsg_set(why, -EINVAL, "-%s must name a file, got \"%s\"", format->name, path);
    int size = snprintf(place, PATH_MAX, "%.*s.%s%s", (int)(stem < PATH_MAX ? stem : PATH_MAX),
                        path, format->infix, path + stem);
    if (size < 0 || size >= PATH_MAX)
        return errmsg_set(why, -ENAMETOOLONG, "-%s: the path is too long", format->name);
    return 0;
}

static int open_format(struct report_outputs *outputs, struct output_file *file,
                       const struct report_format *format, const struct options *options,
                       struct errmsg *why)
{
    enum output_use use = format->is_appended ? OUTPUT_APPENDED : OUTPUT_REPLACED;
    const char *path = path_of(format, options);
    int error = 0;
    if (format->infix != NULL) {
        char *place = outputs->paths[file - outputs->files];
        error = add_infix(place, path, format, why);
        path = place;
    }
    if (error == 0)
        error = open_output(file, format->name, path, use, options, why);
    if (error != 0)
        return error;
    for (const struct output_file *other = outputs->files; other < file; other++) {
        const struct report_format *of_other = report_table[other - outputs->files];
        if (other->path == NULL || !output_file_is_same(file, other))
            continue;
        if (path_of(of_other, options) == path_of(format, options))
            return errmsg_set(why, -EINVAL, "-%s: %s and %s must not be the same file",
                              format->name, other->path, file->path);
        return errmsg_set(why, -EINVAL, "-%s and -%s must not name the same file", of_other->name,
                          format->name);
    }
    if (outputs->ledger.path != NULL && output_file_is_same(file, &outputs->ledger))
        return errmsg_set(why, -EINVAL, "-%s and -ledger must not name the same file",
                          format->name);
    return 0;
}

/* A new one, of a mistyped name, would split the effects of a resumed campaign in silence. */
static int check_ledger(const struct options *options, struct errmsg *why)
{
    const struct campaign_config *config = &options->campaign;
    if (config->mode != JOURNAL_RESUME || access(config->ledger_path, F_OK) == 0 || errno != ENOENT)
        return 0;
    return errmsg_set(why, -ENOENT,
                      "-ledger: the ledger of a resumed campaign must be there, and there is no %s",
                      config->ledger_path);
}

/* Two on one stream are neither. */
static int check_one_stream(const struct options *options, struct errmsg *why)
{
    const char *first = NULL;
    for (const struct report_format *const *row = report_table; *row != NULL; row++) {
        const char *path = path_of(*row, options);
        if (path == NULL || !is_standard_output(path))
            continue;
        if ((*row)->infix != NULL)
            return errmsg_set(why, -EINVAL,
                              "-%s makes two files, which cannot both go to standard output",
                              (*row)->name);
        if (first != NULL)
            return errmsg_set(why, -EINVAL, "-%s and -%s must not both go to standard output",
                              first, (*row)->name);
        first = (*row)->name;
    }
    return 0;
}

static int open_outputs(struct report_outputs *outputs, const struct options *options,
                        struct errmsg *why)
{
    const char *ledger = options->campaign.ledger_path;
    int error = check_one_stream(options, why);
    if (error == 0)
        error = output_check_stream(STDOUT_FILENO, why);
    if (error == 0)
        error = output_check_stream(summary_fd(options), why);
    if (error == 0 && ledger != NULL)
        error = check_ledger(options, why);
    if (error == 0 && ledger != NULL)
        error = open_output(&outputs->ledger, "ledger", ledger, OUTPUT_APPENDED, options, why);
    for (size_t i = 0; error == 0 && report_table[i] != NULL; i++) {
        const char *path = path_of(report_table[i], options);
        assert(i < REPORT_FORMATS_MAX);
        if (path != NULL && !is_standard_output(path))
            error = open_format(outputs, &outputs->files[i], report_table[i], options, why);
    }
    return error;
}

int report_outputs_open(struct report_outputs *outputs, const struct options *options,
                        struct errmsg *why)
{
    outputs->ledger = (struct output_file){.fd = -1};
    for (size_t i = 0; i < REPORT_FORMATS_MAX; i++)
        outputs->files[i] = (struct output_file){.fd = -1};
    int error = open_outputs(outputs, options, why);
    if (error != 0)
        report_outputs_close(outputs);
    return error;
}

void report_outputs_close(struct report_outputs *outputs)
{
    output_file_close(&outputs->ledger);
    for (size_t i = 0; i < REPORT_FORMATS_MAX; i++)
        output_file_close(&outputs->files[i]);
}

/* --- after --- */

/* Sends a text to a file, or to a descriptor when that is NULL. */
static int write_text(const char *name, const char *text, size_t size, struct output_file *file,
                      int fd, struct errmsg *why)
{
    struct errmsg reason = {.text = ""};
    int error = 0;
    if (file != NULL) {
        error = output_file_write(file, text, size, &reason);
        if (error != 0)
            (void)errmsg_set(why, error, "-%s %s", name, reason.text);
    } else {
        error = output_write(fd, text, size);
        if (error != 0)
            (void)errmsg_set(why, error, "%s cannot be written: %s", output_stream_name(fd),
                             strerrordesc_np(-error));
    }
    return error;
}

static int write_format(const struct report_format *format, const struct report *report,
                        struct output_file *file, int fd, struct errmsg *why)
{
    char *text = NULL;
    size_t size = 0;
    int error = report_render(format, report, &text, &size);
    if (error != 0)
        return errmsg_set(why, error, "%s report: %s", format->name, strerrordesc_np(-error));
    error = write_text(format->name, text, size, file, fd, why);
    free(text);
    return error;
}

int report_outputs_write(struct report_outputs *outputs, const struct report_format *format,
                         const struct options *options, const char *text, size_t size,
                         struct errmsg *why)
{
    if (format == &report_text)
        return write_text(format->name, text, size, NULL, summary_fd(options), why);
    for (size_t i = 0; report_table[i] != NULL; i++) {
        const char *path = path_of(report_table[i], options);
        if (report_table[i] != format || path == NULL)
            continue;
        struct output_file *file = is_standard_output(path) ? NULL : &outputs->files[i];
        return write_text(format->name, text, size, file, STDOUT_FILENO, why);
    }
    return 0;
}

/* Where the summary goes to somebody's eyes, or that was asked for. */
static bool shows_histogram(const struct options *options)
{
    if (options->is_histogram || options->command == OPTIONS_OF_RESUME)
        return options->is_histogram;
    return isatty(summary_fd(options)) == 1;
}

int report_write(struct report *report, struct report_outputs *outputs, struct errmsg *why)
{
    if (report->merged == NULL)
        host_read(&report->host);
    report_warn(report);
    report->shows_histogram = shows_histogram(report->options);
    report->is_utf8 = report_is_utf8();
    int first_error = write_format(&report_text, report, NULL, summary_fd(report->options), why);
    for (size_t i = 0; report_table[i] != NULL; i++) {
        const char *path = path_of(report_table[i], report->options);
        if (path == NULL)
            continue;
        struct output_file *file = is_standard_output(path) ? NULL : &outputs->files[i];
        struct errmsg reason = {.text = ""};
        int error = write_format(report_table[i], report, file, STDOUT_FILENO, &reason);
        if (error != 0 && first_error == 0)
            first_error = errmsg_set(why, error, "%s", reason.text);
    }
    return first_error;
}
