/* fuzz_count: a count that is read means the same when its digits are written and read again. */
#include <assert.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/units.h"
#include "tests/lib/exact_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t read_back(const char *text)
{
    uint64_t value = 0;
    int error = units_parse_count(text, &value, NULL);
    assert(error == 0);
    return value;
}

/* All forms in which the value can be written are the same value. */
static void check_forms(uint64_t value)
{
    char text[48];
    (void)snprintf(text, sizeof(text), "%" PRIu64, value);
    assert(read_back(text) == value);
    (void)snprintf(text, sizeof(text), "%" PRIu64 ".%03" PRIu64 "k", value / 1000, value % 1000);
    assert(read_back(text) == value);
    (void)snprintf(text, sizeof(text), "%" PRIu64 ".%06" PRIu64 "m", value / 1000000,
                   value % 1000000);
    assert(read_back(text) == value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size >= sizeof(uint64_t)) {
        uint64_t value;
        memcpy(&value, data, sizeof(value));
        check_forms(value);
    }

    char *text = exact_text(data, size);
    uint64_t value = 4711;
    struct errmsg why = {""};
    int error = units_parse_count(text, &value, &why);
    if (error == 0) {
        assert(why.text[0] == '\0');
        check_forms(value);
    } else {
        assert(error < 0 && value == 4711);
        assert(strncmp(why.text, "must ", 5) == 0 && strchr(why.text, '\n') == NULL);
    }
    free(text);
    return 0;
}
