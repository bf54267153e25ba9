/*
 * digest: XXH3-64, compiled into this file: most of what is digested is shorter than 240 bytes,
 * where the call into the shared library would cost as much as the digest.
 *
 * Beyond 240 bytes a seed other than 0 costs more than none, for XXH3 derives a secret of 192 bytes
 * from it at each call. It could be spared only by another definition of the chain, which verify
 * and every store on a disk rely on.
 */
#include "engine/base/digest.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t digest_chain(uint64_t previous, const void *bytes, size_t size)
{
    return XXH3_64bits_withSeed(bytes, size, previous);
}

uint64_t digest_bytes(const void *bytes, size_t size)
{
    return XXH3_64bits(bytes, size);
}
