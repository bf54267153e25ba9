/*
 * resource: what the process has used and what the machine allows: heap (jemalloc's own figures),
 * CPU time, resident memory, the limits of machine and cgroup.
 *
 * In sanitizer builds (BENCH_SANITIZER), which cannot use jemalloc, the heap is the sanitizer's
 * figure, or glibc's where the sanitizer keeps none, and what a thread has allocated is unknown.
 * Ownership: nothing is kept. Threading: safe from any thread; none is for the hot path, since most
 * read files of the kernel. Errors: what cannot be learnt is 0, or no limit. Units: bytes, ns.
 */
#ifndef BENCH_BASE_RESOURCE_H
#define BENCH_BASE_RESOURCE_H

#include <stdint.h>

/* Live heap bytes of the whole process now (stats.allocated after an epoch; what jemalloc caches
 * for its threads counts as allocated only while in use). 0 where unknown. */
uint64_t resource_heap_bytes(void);

/* Gives back what the allocator keeps at hand for this thread, which would count as live. */
void resource_flush_thread_cache(void);
/* All bytes that this thread has ever allocated (thread.allocated); 0 where unknown. */
uint64_t resource_thread_allocated_bytes(void);

/* How often any thread has asked for memory so far, as far as the caches of threads have been
 * flushed; UINT64_MAX where unknown. */
uint64_t resource_allocations(void);

/* "jemalloc 5.3.0", or what counts instead. */
const char *resource_heap_source(void);

uint64_t resource_cpu_ns(void); /* user + system, all threads, so far */

/* VmHWM, to some 100 KB: the kernel counts pages for each CPU and adds them up only now and then.
 */
uint64_t resource_peak_rss_bytes(void);

/* What the process may still take: the least of MemAvailable and, at every level of its cgroup (v1
 * or v2), limit − usage (page cache that can be reclaimed not counted as used), and half of what
 * RLIMIT_AS and RLIMIT_DATA leave. `limit_name`, unless NULL, says which: "machine", "cgroup",
 * "RLIMIT_AS", "RLIMIT_DATA". UINT64_MAX where nothing is known. */
uint64_t resource_memory_available_bytes(const char **limit_name);

/* The part of that which is the cgroup's, from the text of /proc/self/mountinfo and
 * /proc/self/cgroup: apart, so that tests can lay out a cgroup of their own. UINT64_MAX without a
 * limit. */
uint64_t resource_cgroup_available_bytes(const char *mountinfo_path, const char *cgroup_path);

/* How many CPUs' worth of time the quotas of the cgroup allow, at the level that allows least; 0
 * without any. From the same two files, as is the next. */
double resource_cgroup_cpus(const char *mountinfo_path, const char *cgroup_path);

/* How long quotas have held up its tasks so far, on every CPU and at every level; UINT64_MAX where
 * it is not known. */
uint64_t resource_cgroup_throttled_ns(const char *mountinfo_path, const char *cgroup_path);

/* What became of the time of all CPUs of the machine since it started, from the text of /proc/stat;
 * all 0 where it cannot be read. */
struct resource_ticks {
    uint64_t all;
    uint64_t stolen; /* by the host of a virtual machine, while there was work */
};
struct resource_ticks resource_ticks(const char *stat_path);

unsigned resource_cpus(void); /* that this process may run on (sched_getaffinity); at least 1 */

#endif
