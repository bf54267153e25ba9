/* err: see err.h. */
#include "engine/base/err.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static bool is_continuation(unsigned char byte)
{
    return (byte & 0xc0) == 0x80;
}

/* The bytes that the character at `s` takes, or 0 for one that must not be shown. The NUL behind
 * the text is no continuation byte, so a sequence that is cut short ends the reading by itself.
 * Ranges are those of RFC 3629, less the control characters U+0080 to U+009F. */
static size_t printable_bytes(const unsigned char *s)
{
    if (s[0] < 0x80)
        return s[0] >= 0x20 && s[0] != 0x7f ? 1 : 0;
    if (s[0] < 0xc2 || s[0] > 0xf4 || !is_continuation(s[1]))
        return 0;
    if (s[0] < 0xe0)
        return s[0] == 0xc2 && s[1] < 0xa0 ? 0 : 2;
    if (!is_continuation(s[2]))
        return 0;
    if (s[0] < 0xf0) {
        bool is_overlong = s[0] == 0xe0 && s[1] < 0xa0;
        bool is_surrogate = s[0] == 0xed && s[1] > 0x9f;
        return is_overlong || is_surrogate ? 0 : 3;
    }
    bool is_overlong = s[0] == 0xf0 && s[1] < 0x90;
    bool is_beyond = s[0] == 0xf4 && s[1] > 0x8f;
    return is_overlong || is_beyond || !is_continuation(s[3]) ? 0 : 4;
}

/* Cuts the incomplete character that a full buffer may end in, so that it does not become '?'. */
static void drop_partial_character(char *text, size_t size)
{
    size_t start = size;
    while (start > 0 && size - start < 3 && is_continuation((unsigned char)text[start - 1]))
        start--;
    if (start > 0 && (unsigned char)text[start - 1] >= 0xc2 &&
        printable_bytes((unsigned char *)text + start - 1) == 0)
        text[start - 1] = '\0';
}

void errmsg_clean(char *text)
{
    for (size_t i = 0; text[i] != '\0';) {
        size_t bytes = printable_bytes((unsigned char *)text + i);
        if (bytes == 0)
            text[i] = '?';
        i += bytes == 0 ? 1 : bytes;
    }
}

int errmsg_set(struct errmsg *e, int error, const char *format, ...)
{
    if (e == NULL)
        return error;

    /* Formatted aside, because an argument may be e->text. */
    char text[ERRMSG_BYTES];
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (size < 0)
        (void)snprintf(text, sizeof(text), "(the reason cannot be shown)"); /* a constant fits */
    else if (size >= ERRMSG_BYTES)
        drop_partial_character(text, ERRMSG_BYTES - 1);

    errmsg_clean(text);
    memcpy(e->text, text, strlen(text) + 1);
    return error;
}
