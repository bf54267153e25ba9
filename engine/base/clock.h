/*
 * clock: the monotonic clock and the units of time. All times in the program but the time of day
 * are unsigned nanoseconds on this clock. Threading: safe from any thread.
 */
#ifndef BENCH_BASE_CLOCK_H
#define BENCH_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define NS_PER_US UINT64_C(1000)
#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_S UINT64_C(1000000000)
/* No duration in the program is longer: the histogram ends here. */
#define NS_MAX_DURATION (UINT64_C(24) * 3600 * NS_PER_S)

static inline uint64_t clock_monotonic_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail with a valid clock and pointer */
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

/* The time of day, since 1970 (UTC): for what is told, never to measure with, as it may jump. 0
 * while it is set to an earlier time. */
static inline uint64_t clock_realtime_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now); /* cannot fail with a valid clock and pointer */
    return now.tv_sec < 0 ? 0 : (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

#endif
