/*
 * in_child: runs a part of a test in a child process, so that an assertion, a crash, a sanitizer or
 * a hang of what is tested is a failure with the case's name, and not the end of the test.
 *
 * Ownership: the note is in memory that both processes see, from in_child_run() to in_child_end().
 * Threading: the caller must be its process's only thread. Errors: aborts where the system refuses.
 * Units: in the names.
 */
#ifndef BENCH_TESTS_LIB_IN_CHILD_H
#define BENCH_TESTS_LIB_IN_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { IN_CHILD_TEXT_BYTES = 4096, IN_CHILD_COUNTS = 16 };

struct in_child_note {
    char doing[256];                  /* which case runs */
    char faults[IN_CHILD_TEXT_BYTES]; /* a line each, as many as have room */
    uint64_t faults_count;
    uint64_t counts[IN_CHILD_COUNTS]; /* the body's */
};

/* Runs body(arg, note) in a child that has `seconds_max`, and prints what went wrong, with the case
 * and how the child ended. NULL then, else what the child has noted, to be given back. */
struct in_child_note *in_child_run(void (*body)(void *arg, struct in_child_note *note), void *arg,
                                   unsigned seconds_max);
void in_child_end(struct in_child_note *note);

/* For the body: which case begins, and what is wrong with it. */
void in_child_case(struct in_child_note *note, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void in_child_fault(struct in_child_note *note, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A number from the environment, for how much a test does. */
uint64_t in_child_setting(const char *name, uint64_t otherwise);

#endif
