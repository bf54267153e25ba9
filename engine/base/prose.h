/*
 * prose: text like English prose in the respects that a store and a network notice: its letters,
 * the lengths of its words and sentences, and how far it can be compressed.
 *
 * 511 common words are drawn about as often as Zipf's law has it (the n-th in proportion to 1/n),
 * in sentences of 6 to 21 words with capitals, commas and full stops. Plain ASCII without quotes,
 * backslashes and control characters, so JSON holds it as it is, and a byte is a byte. zlib's level
 * 6 makes 100 KB of it 2.8 times smaller, 10 KB 2.4 times, 1 KB 1.9 times (the text of the GNU GPL,
 * 35 KB: 2.9 times); a core of a small cloud machine writes 1.2 GB of it a second.
 *
 * The text is a pure function of the stream. Ownership: the caller's buffer. Threading: none.
 * Errors: none. Units: bytes.
 */
#ifndef BENCH_BASE_PROSE_H
#define BENCH_BASE_PROSE_H

#include <stddef.h>
#include <stdint.h>

#include "engine/base/dist.h"
#include "engine/base/prng.h"

/* The longest text that is drawn: a record holds it, with what is around it. */
enum { PROSE_BYTES_MAX = (16 << 20) - (64 << 10) };

/* Exactly `bytes` of text, the last of them a full stop. */
void prose_write(struct prng *p, char *to, size_t bytes);

/* How long a text is to be: the first draw of a stream, at most PROSE_BYTES_MAX. Cold, so that it
 * is not inlined to the cost of those whose texts are always the same. */
__attribute__((cold)) size_t prose_draw_bytes(const struct dist *d, struct prng stream);

#endif
