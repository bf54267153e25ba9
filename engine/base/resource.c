/* resource: see resource.h. The walk through the cgroup is in resource_cgroup.c. */
#include "engine/base/resource.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "engine/base/clock.h"

#ifdef BENCH_SANITIZER

#include <malloc.h>

/* Weak: AddressSanitizer and ThreadSanitizer have it, UndefinedBehaviorSanitizer alone does not. */
size_t __sanitizer_get_current_allocated_bytes(void) __attribute__((weak));

uint64_t resource_heap_bytes(void)
{
    if (__sanitizer_get_current_allocated_bytes != NULL)
        return __sanitizer_get_current_allocated_bytes();
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

void resource_flush_thread_cache(void)
{
    /* Nothing is kept that counts. */
}

uint64_t resource_thread_allocated_bytes(void)
{
    return 0;
}

uint64_t resource_allocations(void)
{
    return UINT64_MAX;
}

const char *resource_heap_source(void)
{
    return __sanitizer_get_current_allocated_bytes != NULL ? "sanitizer" : "glibc";
}

#else

#include <jemalloc/jemalloc.h>

/* Read by jemalloc when it starts: it keeps the pages of freed memory for their next use instead of
 * giving them back after a while, so that what chunk_warm() has brought in stays. */
const char *malloc_conf = "dirty_decay_ms:-1,muzzy_decay_ms:-1";

#define TEXT(value) #value
#define TEXT_OF(value) TEXT(value)

uint64_t resource_heap_bytes(void)
{
    /* The figures are those of the last epoch; writing any value starts a new one. */
    uint64_t epoch = 1;
    size_t allocated_bytes = 0;
    size_t size = sizeof(allocated_bytes);
    if (mallctl("epoch", NULL, NULL, &epoch, sizeof(epoch)) != 0 ||
        mallctl("stats.allocated", &allocated_bytes, &size, NULL, 0) != 0)
        return 0; /* a jemalloc that was built without statistics */
    return allocated_bytes;
}

void resource_flush_thread_cache(void)
{
    (void)mallctl("thread.tcache.flush", NULL, NULL, NULL, 0); /* fails where there is no cache */
}

uint64_t resource_allocations(void)
{
#define OF_ALL_ARENAS(name) "stats.arenas." TEXT_OF(MALLCTL_ARENAS_ALL) "." name
    uint64_t epoch = 1;
    uint64_t small = 0;
    uint64_t large = 0;
    size_t size = sizeof(small);
    if (mallctl("epoch", NULL, NULL, &epoch, sizeof(epoch)) != 0 ||
        mallctl(OF_ALL_ARENAS("small.nrequests"), &small, &size, NULL, 0) != 0 ||
        mallctl(OF_ALL_ARENAS("large.nrequests"), &large, &size, NULL, 0) != 0)
        return UINT64_MAX;
    return small + large;
}

uint64_t resource_thread_allocated_bytes(void)
{
    uint64_t allocated_bytes = 0;
    size_t size = sizeof(allocated_bytes);
    if (mallctl("thread.allocated", &allocated_bytes, &size, NULL, 0) != 0)
        return 0;
    return allocated_bytes;
}

#define DOTTED(major, minor, bugfix) TEXT_OF(major) "." TEXT_OF(minor) "." TEXT_OF(bugfix)

const char *resource_heap_source(void)
{
    return "jemalloc " DOTTED(JEMALLOC_VERSION_MAJOR, JEMALLOC_VERSION_MINOR,
                              JEMALLOC_VERSION_BUGFIX);
}

#endif

uint64_t resource_cpu_ns(void)
{
    struct timespec used;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID,
                        &used); /* cannot fail: clock and pointer are valid */
    return (uint64_t)used.tv_sec * NS_PER_S + (uint64_t)used.tv_nsec;
}

/* A line such as "VmHWM:     1234 kB" of a file of the kernel, in bytes; `missing` without it. */
static uint64_t read_kilobytes(const char *path, const char *key, uint64_t missing)
{
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return missing;
    uint64_t value = missing;
    size_t key_size = strlen(key);
    char line[256];
    while (fgets(line, sizeof(line), file) != NULL) {
        uint64_t kilobytes;
        if (strncmp(line, key, key_size) == 0 &&
            sscanf(line + key_size, ": %" SCNu64 " kB", &kilobytes) == 1) {
            value = kilobytes * 1024;
            break;
        }
    }
    (void)fclose(file); /* only read from: closing has nothing to report */
    return value;
}

uint64_t resource_peak_rss_bytes(void)
{
    /* Not getrusage(): its figure survives exec, so a large parent would be counted as this
     * process. */
    return read_kilobytes("/proc/self/status", "VmHWM", 0);
}

/* `used` names what counts against the limit in /proc/self/status. These limits count addresses, of
 * which the alignment of chunks to huge pages takes as many again: half of them hold memory. */
static uint64_t rlimit_available_bytes(int resource, const char *used)
{
    struct rlimit limit;
    if (getrlimit((__rlimit_resource_t)resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return UINT64_MAX;
    uint64_t used_bytes = read_kilobytes("/proc/self/status", used, 0);
    return limit.rlim_cur > used_bytes ? (limit.rlim_cur - used_bytes) / 2 : 0;
}

uint64_t resource_memory_available_bytes(const char **limit_name)
{
    const struct {
        const char *name;
        uint64_t available_bytes;
    } limits[] = {
        {"machine", read_kilobytes("/proc/meminfo", "MemAvailable", UINT64_MAX)},
        {"cgroup", resource_cgroup_available_bytes("/proc/self/mountinfo", "/proc/self/cgroup")},
        {"RLIMIT_AS", rlimit_available_bytes(RLIMIT_AS, "VmSize")},
        {"RLIMIT_DATA", rlimit_available_bytes(RLIMIT_DATA, "VmData")},
    };
    size_t least = 0;
    for (size_t i = 1; i < sizeof(limits) / sizeof(limits[0]); i++) {
        if (limits[i].available_bytes < limits[least].available_bytes)
            least = i;
    }
    if (limit_name != NULL)
        *limit_name = limits[least].name;
    return limits[least].available_bytes;
}

/* "cpu  USER NICE SYSTEM IDLE IOWAIT IRQ SOFTIRQ STEAL GUEST GUEST_NICE"; the last two are in the
 * first two already. */
struct resource_ticks resource_ticks(const char *stat_path)
{
    enum { STEAL = 7, FIELDS };
    struct resource_ticks ticks = {0};
    uint64_t fields[FIELDS] = {0};
    FILE *file = fopen(stat_path, "re");
    if (file == NULL)
        return ticks;
    int count = fscanf(file,
                       "cpu %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64
                       " %" SCNu64 " %" SCNu64,
                       &fields[0], &fields[1], &fields[2], &fields[3], &fields[4], &fields[5],
                       &fields[6], &fields[STEAL]);
    (void)fclose(file); /* only read from: closing has nothing to report */
    if (count != FIELDS)
        return ticks;
    for (int i = 0; i < FIELDS; i++)
        ticks.all += fields[i];
    ticks.stolen = fields[STEAL];
    return ticks;
}

unsigned resource_cpus(void)
{
    /* The kernel refuses a set smaller than its own (EINVAL), and does not say how large that is.
     */
    for (int cpus_max = 1024; cpus_max <= 1 << 20; cpus_max *= 2) {
        cpu_set_t *set = CPU_ALLOC((size_t)cpus_max);
        if (set == NULL)
            break;
        size_t size = CPU_ALLOC_SIZE((size_t)cpus_max);
        int error = sched_getaffinity(0, size, set) == 0 ? 0 : errno;
        int count = error == 0 ? CPU_COUNT_S(size, set) : 0;
        CPU_FREE(set);
        if (count > 0)
            return (unsigned)count;
        if (error != EINVAL)
            break;
    }
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (unsigned)online : 1;
}
