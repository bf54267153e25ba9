/* version: see version.h. */
#include "cmd/version.h"

#include <string.h>

#ifndef BENCH_VERSION
#define BENCH_VERSION "unknown"
#endif
#ifndef BENCH_REVISION
#define BENCH_REVISION "unknown"
#endif
#ifndef BENCH_FLAGS
#define BENCH_FLAGS "unknown"
#endif
#ifdef __OPTIMIZE__
#define IS_OPTIMIZED true
#else
#define IS_OPTIMIZED false
#endif

/* gcc and clang tell of their sanitizers in different ways. UBSan leaves no mark with either of
 * them. */
#ifndef __has_feature
#define __has_feature(feature) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#define SANITIZERS "address"
#elif defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
#define SANITIZERS "thread"
#elif defined(BENCH_SANITIZER)
#define SANITIZERS "other"
#else
#define SANITIZERS "none"
#endif

#define TEXT_OF(macro) #macro
#define NUMBER_TEXT(macro) TEXT_OF(macro)
#ifdef __clang__
#define COMPILER                                                                                   \
    "clang " NUMBER_TEXT(__clang_major__) "." NUMBER_TEXT(__clang_minor__) "." NUMBER_TEXT(        \
        __clang_patchlevel__)
#else
#define COMPILER                                                                                   \
    "gcc " NUMBER_TEXT(__GNUC__) "." NUMBER_TEXT(__GNUC_MINOR__) "." NUMBER_TEXT(                  \
        __GNUC_PATCHLEVEL__)
#endif

struct version version_of_build(void)
{
    return (struct version){
        .version = BENCH_VERSION,
        .revision = BENCH_REVISION,
        .compiler = COMPILER,
        .sanitizers = SANITIZERS,
        .flags = BENCH_FLAGS,
        .is_dirty = strstr(BENCH_REVISION, "-dirty") != NULL,
        .is_optimized = IS_OPTIMIZED,
    };
}

void version_write(FILE *out, const struct version *version)
{
    (void)fprintf(out, "bench %s (revision %s, %s, sanitizers: %s)\n", version->version,
                  version->revision, version->compiler, version->sanitizers);
}
