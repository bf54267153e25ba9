/* dist_file: see dist_file.h. */
#include "engine/base/dist_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINE_BYTES = 128, VALUES_FIRST = 1024 };

/* A stream on the file, or NULL with the code in *error. */
static FILE *open_list(const char *path, int *error, struct errmsg *why)
{
    int fd = -1;
    struct stat status;
    /* Looked at before it is opened, because opening alone can hang (a FIFO) or do something (a
     * device); and again afterwards, because it may have been replaced in between. */
    if (stat(path, &status) != 0)
        goto fail_errno;
    if (S_ISREG(status.st_mode)) {
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        if (fd < 0 || fstat(fd, &status) != 0)
            goto fail_errno;
    }
    if (!S_ISREG(status.st_mode)) {
        *error = errmsg_set(why, -EINVAL, "names the file \"%s\", which is %s", path,
                            S_ISDIR(status.st_mode) ? "a directory" : "not a regular file");
        goto fail;
    }
    FILE *list = fdopen(fd, "r");
    if (list == NULL)
        goto fail_errno;
    return list;

fail_errno:
    *error = -errno;
    (void)errmsg_set(why, *error, "names the file \"%s\", which cannot be read: %s", path,
                     strerror(-*error)); /* the code is returned through *error */
fail:
    if (fd >= 0)
        (void)close(fd); /* only read from: closing has nothing to report */
    return NULL;
}

/* Reads a line, without its end, into `line`: 1; 0 at the end of the file; -EINVAL for a line that
 * is too long; the errno of a failed read. */
static int read_line(FILE *list, char line[LINE_BYTES])
{
    size_t size = 0;
    int c;
    while ((c = getc_unlocked(list)) != EOF && c != '\n') {
        if (size == LINE_BYTES - 1)
            return -EINVAL;
        /* A NUL would end the text early and hide what follows it. */
        line[size++] = c == '\0' ? '?' : (char)c;
    }
    if (c == EOF && ferror(list))
        return errno != 0 ? -errno : -EIO;
    if (c == EOF && size == 0)
        return 0;
    if (size > 0 && line[size - 1] == '\r')
        size--;
    line[size] = '\0';
    return 1;
}

static int append_value(struct dist *d, size_t *capacity, uint64_t value)
{
    if (d->value_count == *capacity) {
        size_t larger = *capacity == 0 ? VALUES_FIRST : *capacity * 2;
        uint64_t *values = reallocarray(d->values, larger, sizeof(values[0]));
        if (values == NULL)
            return -ENOMEM;
        d->values = values;
        *capacity = larger;
    }
    d->values[d->value_count++] = value;
    return 0;
}

static int read_values(struct dist *d, FILE *list, const char *path, struct errmsg *why)
{
    size_t capacity = 0;
    for (size_t number = 1;; number++) {
        char line[LINE_BYTES];
        int status = read_line(list, line);
        if (status == 0)
            break;
        if (status == -EINVAL)
            return errmsg_set(why, -EINVAL,
                              "names the file \"%s\", whose line %zu is longer than %d bytes", path,
                              number, LINE_BYTES - 1);
        if (status < 0)
            return errmsg_set(why, status, "names the file \"%s\", which cannot be read: %s", path,
                              strerror(-status));
        if (d->value_count == DIST_FILE_VALUES_MAX)
            return errmsg_set(why, -ERANGE, "names the file \"%s\", which has more than %d values",
                              path, DIST_FILE_VALUES_MAX);
        uint64_t value = 0;
        struct errmsg reason;
        int error = dist_parse_value(line, d->unit, &value, &reason);
        if (error != 0)
            return errmsg_set(why, error, "names the file \"%s\", whose line %zu %s", path, number,
                              reason.text);
        if (append_value(d, &capacity, value) != 0)
            return errmsg_set(why, -ENOMEM, "names the file \"%s\", for which memory is lacking",
                              path);
    }
    if (d->value_count == 0)
        return errmsg_set(why, -EINVAL, "names the file \"%s\", which is empty", path);
    return 0;
}

static int compare_values(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left;
    uint64_t b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

int dist_file_read(struct dist *d, const char *path, struct errmsg *why)
{
    int error = 0;
    FILE *list = open_list(path, &error, why);
    if (list == NULL)
        return error;
    error = read_values(d, list, path, why);
    (void)fclose(list); /* only read from: closing has nothing to report */
    if (error != 0) {
        dist_free(d);
        return error;
    }
    qsort(d->values, d->value_count, sizeof(d->values[0]), compare_values);
    return 0;
}
