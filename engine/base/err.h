/*
 * err: the text that goes with an error code.
 *
 * Functions return 0 or -errno. Where a person will read the reason, they also take a
 * `struct errmsg *` and fill it with one line, without a trailing newline and without a prefix.
 * Ownership: the caller's, usually on its stack. Threading: none, plain data.
 */
#ifndef BENCH_BASE_ERR_H
#define BENCH_BASE_ERR_H

enum { ERRMSG_BYTES = 512 };

struct errmsg {
    char text[ERRMSG_BYTES];
};

/* Formats the reason into `e` (which may be NULL) and returns `error`, so that a failing
 * function can end in `return errmsg_set(e, -EINVAL, "…")`. A text that is too long is cut between
 * characters. The result is always one line of valid UTF-8, whatever hostile input it quotes: each
 * control character (C0, DEL, C1) and each byte that is no UTF-8 becomes '?'. The arguments may
 * point into `e` itself: `errmsg_set(e, error, "shard 3: %s", e->text)` adds a prefix. */
int errmsg_set(struct errmsg *e, int error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same cleaning for a text that goes elsewhere, in place: what must not be shown becomes '?'.
 */
void errmsg_clean(char *text);

#endif
