/*
 * made_result: a result as bench writes it, made up: for the tests of what reads results.
 *
 * Ownership: the caller's struct between init and free. Errors: a test that fails.
 */
#ifndef BENCH_TESTS_LIB_MADE_RESULT_H
#define BENCH_TESTS_LIB_MADE_RESULT_H

#include <stddef.h>
#include <stdint.h>

#include "cmd/report.h"
#include "cmd/report_hists.h"
#include "engine/base/prng.h"

struct made_result {
    struct options options;
    struct campaign_result result;
    struct intervals intervals;
    struct hist *hists[REPORT_HISTS]; /* in the order of report_hists: response, service… */
};

/* A good result of a thousand runs, with the flags given. argv[0] is skipped. */
void made_result_init(struct made_result *made, int argc, char **argv);
void made_result_free(struct made_result *made);

/* Records values of all sizes, some of them often. */
void made_result_fill(struct hist *hist, uint64_t count, struct prng *draws);

/* As -json writes it; the caller's to free. A NUL follows. */
char *made_result_text(const struct made_result *made, size_t *size);

/* The text with the first `from`, which must be there, replaced; the caller's to free. */
char *made_result_edit(const char *text, const char *from, const char *to);

#endif
