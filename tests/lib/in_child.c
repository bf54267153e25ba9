/* in_child: see in_child.h. */
#include "tests/lib/in_child.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

void in_child_case(struct in_child_note *note, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(note->doing, sizeof(note->doing), format, arguments);
    va_end(arguments);
}

void in_child_fault(struct in_child_note *note, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    note->faults_count++;
    size_t used = strlen(note->faults);
    if (used < sizeof(note->faults) - 2) { /* room for a part of it */
        used +=
            (size_t)snprintf(note->faults + used, sizeof(note->faults) - used, "%s: ", note->doing);
        if (used < sizeof(note->faults) - 1)
            used += (size_t)vsnprintf(note->faults + used, sizeof(note->faults) - used, format,
                                      arguments);
        if (used < sizeof(note->faults) - 1)
            note->faults[used] = '\n'; /* and the rest is zero */
    }
    va_end(arguments);
}

struct in_child_note *in_child_run(void (*body)(void *arg, struct in_child_note *note), void *arg,
                                   unsigned seconds_max)
{
    int status = -1;
    struct in_child_note *note =
        mmap(NULL, sizeof(*note), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (note == MAP_FAILED)
        abort();
    (void)fflush(NULL); /* else both print what is buffered */
    pid_t child = fork();
    if (child < 0)
        abort();
    if (child == 0) {
        (void)alarm(seconds_max);
        body(arg, note);
        exit(0); /* so that a leak is told */
    }
    if (waitpid(child, &status, 0) != child)
        abort();
    if (status == 0 && note->faults_count == 0)
        return note;
    if (note->faults_count > 0)
        (void)fprintf(stderr, "%llu faults, the first of them:\n%s\n",
                      (unsigned long long)note->faults_count, note->faults);
    if (status != 0)
        (void)fprintf(stderr, "%s: the process ended with wait status %d%s\n", note->doing, status,
                      WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM ? ": it hung" : "");
    in_child_end(note);
    return NULL;
}

void in_child_end(struct in_child_note *note)
{
    (void)munmap(note, sizeof(*note)); /* ours, and whole */
}

uint64_t in_child_setting(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text != NULL ? strtoull(text, NULL, 10) : otherwise;
}
