/* output: see output.h. */
#include "cmd/output.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cmd/redact.h"

void output_guard_standard_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) >= 0 || errno != EBADF)
            continue;
        /* The lowest free descriptor is this one. Its mode is the wrong one on purpose: using it is
         * an error. */
        (void)open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
    }
}

const char *output_stream_name(int fd)
{
    return fd == STDOUT_FILENO ? "standard output" : "standard error";
}

int output_check_stream(int fd, struct errmsg *why)
{
    int flags = fcntl(fd, F_GETFL);
    if (flags >= 0 && (flags & O_ACCMODE) != O_RDONLY)
        return 0;
    return errmsg_set(why, -EBADF, "%s is not open for writing", output_stream_name(fd));
}

enum { ERROR_TEXT_BYTES = ERRMSG_BYTES + 256, CHARACTER_BYTES_MAX = 4 };

/* A text that is too long is cut, here or already where the reason was written. */
static void __attribute__((format(printf, 2, 0)))
write_error_line(const char *suffix, const char *format, va_list arguments)
{
    char text[ERROR_TEXT_BYTES] = "";
    char shown[ERROR_TEXT_BYTES + 64];
    char line[sizeof(shown) + 128];
    (void)vsnprintf(text, sizeof(text), format, arguments);
    errmsg_clean(text);
    redact_line(text, strlen(text) >= ERRMSG_BYTES - CHARACTER_BYTES_MAX, shown, sizeof(shown));
    int size = snprintf(line, sizeof(line), "bench: %s%s\n", shown, suffix);
    if (size > 0)
        (void)output_write(STDERR_FILENO, line,
                           (size_t)size); /* There is nowhere else to say it. */
}

void output_error(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    write_error_line("", format, arguments);
    va_end(arguments);
}

void output_usage_error(const char *help, const char *format, ...)
{
    char suffix[64];
    (void)snprintf(suffix, sizeof(suffix), " (see '%s')", help);
    va_list arguments;
    va_start(arguments, format);
    write_error_line(suffix, format, arguments);
    va_end(arguments);
}

int output_write(int fd, const char *bytes, size_t size)
{
    while (size > 0) {
        ssize_t written = write(fd, bytes, size);
        if (written >= 0) {
            bytes += written;
            size -= (size_t)written;
            continue;
        }
        if (errno == EPIPE)
            return 0;
        if (errno == EAGAIN) {
            /* Somebody has made the shared descriptor nonblocking: wait for room like everybody
             * else. */
            struct pollfd room = {.fd = fd, .events = POLLOUT};
            (void)poll(&room, 1, -1);
            continue;
        }
        if (errno != EINTR)
            return -errno;
    }
    return 0;
}

bool output_write_if_room(int fd, const char *bytes, size_t size)
{
    struct pollfd room = {.fd = fd, .events = POLLOUT};
    if (poll(&room, 1, 0) != 1 || (room.revents & POLLOUT) == 0)
        return false;
    return write(fd, bytes, size) == (ssize_t)size;
}
