/* fuzz_result: any bytes as a result. What is refused has a reason of one line; what is taken holds
 * together, histogram by histogram; merged with itself it is refused as the same, or for what it
 * holds, and never for nothing. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/merged.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool is_so, const char *what)
{
    if (!is_so) {
        (void)fprintf(stderr, "fuzz_result: %s\n", what); /* the trap tells it, too */
        __builtin_trap();
    }
}

static void require_reason(int error, const struct errmsg *why)
{
    if (error != 0)
        require(error < 0 && why->text[0] != '\0' && strchr(why->text, '\n') == NULL,
                "no reason of one line");
}

static void check_hist(const struct result_file *file, const char *name)
{
    static struct hist hist;
    struct errmsg why = {.text = ""};
    uint64_t count = 0;
    int error = result_file_read_hist(file, name, &hist, &why);
    require_reason(error, &why);
    if (error != 0)
        return;
    for (uint32_t i = 0; i < HIST_BUCKETS; i++)
        count += hist.counts[i];
    require(count == hist.count, "the buckets do not add up");
    require(count == 0 || hist.min_ns <= hist.max_ns, "the minimum is above the maximum");
    require(hist_mean_ns(&hist) <= hist.max_ns, "the mean is above the maximum");
    require(hist_quantile_ns(&hist, 1) == hist.max_ns, "the last quantile is not the maximum");
}

static void check_intervals(const struct result_file *file)
{
    struct interval *rows = NULL;
    size_t count = 0;
    struct errmsg why = {.text = ""};
    int error = result_file_read_intervals(file, &rows, &count, &why);
    require_reason(error, &why);
    for (size_t i = 1; i < count; i++)
        require(rows[i].end_ns > rows[i - 1].end_ns, "the intervals do not ascend");
    free(rows);
}

/* Lists are named and never read. */
static void check_merge(const struct result_file *file)
{
    struct merged merged;
    struct errmsg why = {.text = ""};
    int error = merged_init(&merged, &why);
    if (error == 0)
        error = merged_add(&merged, file, &why);
    if (error == 0)
        error = merged_finish(&merged, &why);
    require_reason(error, &why);
    if (error == 0) {
        error = merged_add(&merged, file, &why);
        if (error == 0)
            error = merged_finish(&merged, &why);
        require(error != 0, "the same result is merged twice");
        require_reason(error, &why);
    }
    merged_free(&merged);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"response", "append", "failed"};
    struct result_file file;
    struct errmsg why = {.text = ""};
    char *copy = malloc(size != 0 ? size : 1); /* exactly as large */
    require(copy != NULL, "no memory");
    memcpy(copy, data, size);
    int error = result_file_parse(&file, "a.json", copy, size, &why);
    require_reason(error, &why);
    if (error == 0) {
        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
            check_hist(&file, names[i]);
        check_intervals(&file);
        check_merge(&file);
        result_file_free(&file);
    }
    free(copy);
    return 0;
}
