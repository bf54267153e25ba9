/*
 * redact: see redact.h. A line is copied piece by piece; the two kinds of secrets are looked for
 * one after the other, since a URI may hold a password of the second kind behind its host.
 */
#include "cmd/redact.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

static const char dots[] = "…";
static const char authority[] = "://";
static const char password[] = "password=";

enum {
    DOTS_BYTES = sizeof(dots) - 1,
    AUTHORITY_BYTES = sizeof(authority) - 1,
    PASSWORD_BYTES = sizeof(password) - 1,
};

/* What is written. */
struct copy {
    char *text;
    size_t used;
    size_t bytes;
};

static void put(struct copy *copy, const char *from, const char *to)
{
    size_t size = (size_t)(to - from);
    size_t room = copy->bytes - copy->used - 1;
    if (size > room) {
        size = room;
        while (size > 0 && ((unsigned char)from[size] & 0xc0) == 0x80)
            size--;
        copy->bytes = copy->used + size + 1; /* nothing follows a piece that was cut */
    }
    memcpy(copy->text + copy->used, from, size);
    copy->used += size;
    copy->text[copy->used] = '\0';
}

static const char *end_of_word(const char *text)
{
    return text + strcspn(text, " ");
}

/* --- before an @ --- */

static const char *last_at(const char *from, const char *to)
{
    return memrchr(from, '@', (size_t)(to - from));
}

/* Where what belongs to the URI at `from` ends at the latest: with the line, or before the next
 * word with a URI, since a password may hold blanks and quotes. */
static const char *end_of_uri(const char *from)
{
    const char *next = strstr(end_of_word(from), authority);
    if (next == NULL)
        return from + strlen(from);
    while (next[-1] != ' ')
        next--;
    return next;
}

/* Whether there is something behind a colon that is no port: "u:secret" in "postgres://u:secret",
 * of which the rest is not on the line. */
static bool has_half_a_secret(const char *from)
{
    size_t name = strcspn(from, ":/? \"");
    if (from[name] != ':')
        return false;
    const char *port = from + name + 1;
    size_t digits = strspn(port, "0123456789");
    return port[digits] != '\0' && strchr("/?,: \")", port[digits]) == NULL;
}

/* The usage of -journal names no secret. */
static bool is_placeholder(const char *from, const char *at)
{
    return at - from == 4 && memcmp(from, "USER", 4) == 0;
}

/* Up to where a URI without an @ is to be hidden; `from` itself where it holds no secret. */
static const char *end_of_half(const char *from, const char *end, bool was_cut)
{
    if (was_cut && *end == '\0')
        return end;
    const char *cut = NULL;
    for (const char *at = from; (at = memmem(at, (size_t)(end - at), dots, DOTS_BYTES)) != NULL;) {
        at += DOTS_BYTES;
        cut = at;
    }
    if (cut != NULL)
        return cut;
    return has_half_a_secret(from) ? end_of_word(from) : from;
}

static void hide_authorities(const char *line, bool was_cut, struct copy *copy)
{
    for (const char *found; (found = strstr(line, authority)) != NULL;) {
        const char *from = found + AUTHORITY_BYTES;
        const char *end = end_of_uri(from);
        const char *hidden = last_at(from, end);
        if (hidden == NULL)
            hidden = end_of_half(from, end, was_cut);
        else if (is_placeholder(from, hidden))
            hidden = from;
        put(copy, line, from);
        if (hidden > from)
            put(copy, dots, dots + DOTS_BYTES);
        put(copy, hidden, end);
        line = end;
    }
    put(copy, line, line + strlen(line));
}

/* --- behind password= --- */

/* libpq's: quoted, or up to a blank, or in a URI up to the next parameter. */
static const char *end_of_value(const char *value, bool is_in_uri)
{
    if (is_in_uri)
        return value + strcspn(value, "& ");
    const char *at = value;
    bool is_quoted = *at == '\'';
    for (at += is_quoted; *at != '\0' && *at != (is_quoted ? '\'' : ' '); at++)
        if (*at == '\\' && at[1] != '\0')
            at++;
    return at;
}

static void hide_passwords(const char *line, struct copy *copy)
{
    for (const char *found; (found = strcasestr(line, password)) != NULL;) {
        const char *name = found;
        while (name > line && isalpha((unsigned char)name[-1]))
            name--; /* sslpassword= */
        bool is_in_uri = name > line && (name[-1] == '?' || name[-1] == '&');
        const char *value = found + PASSWORD_BYTES;
        const char *end = end_of_value(value, is_in_uri);
        bool is_quote_left = end > value && end[-1] == '"'; /* of the message, most likely */
        put(copy, line, value);
        put(copy, dots, dots + DOTS_BYTES);
        line = is_quote_left ? end - 1 : end;
    }
    put(copy, line, line + strlen(line));
}

void redact_line(const char *line, bool was_cut, char *copy, size_t bytes)
{
    char half[2048] = ""; /* the longest line there is, and each … in place of a byte or two */
    struct copy first = {.text = half, .bytes = sizeof(half)};
    struct copy second = {.text = copy, .bytes = bytes};
    copy[0] = '\0';
    hide_authorities(line, was_cut, &first);
    hide_passwords(half, &second);
}
