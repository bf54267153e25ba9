/*
 * digest: XXH3-64 (xxhash), as the journal chains it over the records of a run and as a model
 * record names the request that it answers. Detects damage and mistakes, not forgery. Threading:
 * pure functions.
 */
#ifndef BENCH_BASE_DIGEST_H
#define BENCH_BASE_DIGEST_H

#include <stddef.h>
#include <stdint.h>

/* The digest of a run before its first record. */
#define DIGEST_START UINT64_C(0)

/* The digest of a record: the previous record's digest, as seed, over the payload. */
uint64_t digest_chain(uint64_t previous, const void *bytes, size_t size);

uint64_t digest_bytes(const void *bytes, size_t size);

#endif
