/* fuzz_duration: a duration that is read is in range and survives being written and read again. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/units.h"
#include "tests/lib/exact_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Any number at all is written within the buffer, and what fits the program reads back the same. */
static void check_written(uint64_t value_ns)
{
    char text[UNITS_TEXT_BYTES];
    uint64_t back_ns = 0;
    (void)units_format_duration(value_ns, text);
    assert(strlen(text) < UNITS_TEXT_BYTES);
    (void)units_format_duration_exact(value_ns, text);
    assert(strlen(text) < UNITS_TEXT_BYTES);
    int error = units_parse_duration(text, &back_ns, NULL);
    assert((error == 0) == (value_ns <= NS_MAX_DURATION));
    assert(error != 0 || back_ns == value_ns);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size >= sizeof(uint64_t)) {
        uint64_t value_ns;
        memcpy(&value_ns, data, sizeof(value_ns));
        check_written(value_ns);
    }

    char *text = exact_text(data, size);
    uint64_t value_ns = UINT64_MAX;
    struct errmsg why = {""};
    int error = units_parse_duration(text, &value_ns, &why);
    if (error == 0) {
        assert(value_ns <= NS_MAX_DURATION && why.text[0] == '\0');
        check_written(value_ns);
    } else {
        assert(error < 0 && value_ns == UINT64_MAX);
        assert(strncmp(why.text, "must ", 5) == 0 && strchr(why.text, '\n') == NULL);
    }
    free(text);
    return 0;
}
