/* fuzz_bytes: a size that is read is in range and means the same in bytes. */
#include <assert.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/units.h"
#include "tests/lib/exact_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_forms(uint64_t value)
{
    static const struct {
        const char *name;
        uint64_t factor;
    } units[] = {{"B", 1}, {"KB", 1000}, {"KiB", 1024}, {"MiB", 1 << 20}, {"GB", 1000000000}};

    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (value % units[i].factor != 0)
            continue;
        char text[48];
        uint64_t back = 0;
        (void)snprintf(text, sizeof(text), "%" PRIu64 "%s", value / units[i].factor, units[i].name);
        int error = units_parse_bytes(text, &back, NULL);
        assert(error == 0 && back == value);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = exact_text(data, size);
    uint64_t value = UINT64_MAX;
    struct errmsg why = {""};
    int error = units_parse_bytes(text, &value, &why);
    if (error == 0) {
        assert(value <= UNITS_BYTES_MAX && why.text[0] == '\0');
        check_forms(value);
    } else {
        assert(error < 0 && value == UINT64_MAX);
        assert(strncmp(why.text, "must ", 5) == 0 && strchr(why.text, '\n') == NULL);
    }
    free(text);
    return 0;
}
