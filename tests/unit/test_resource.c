/* resource: figures that move when what they measure moves, and the cgroup's limits from a tree
 * that the test lays out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <assert.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/counters.h"
#include "engine/base/resource.h"
#include "tests/lib/scratch.h"

enum { BLOCK_BYTES = 32 << 20 };

/* A block that the compiler cannot do without. */
static char *take(size_t bytes)
{
    char *volatile block = malloc(bytes);
    assert_non_null(block);
    return block;
}

static void the_heap_grows_and_shrinks(void **state)
{
    (void)state;
    uint64_t before_bytes = resource_heap_bytes();
    uint64_t thread_before_bytes = resource_thread_allocated_bytes();
    char *block = take(BLOCK_BYTES);
    uint64_t with_bytes = resource_heap_bytes();
    assert_in_range(with_bytes - before_bytes, BLOCK_BYTES, BLOCK_BYTES + (2 << 20));
    free(block);
    uint64_t after_bytes = resource_heap_bytes();
    assert_true(after_bytes < before_bytes + (1 << 20));
#ifdef BENCH_SANITIZER
    assert_int_equal(resource_thread_allocated_bytes(), 0);
    assert_int_equal(thread_before_bytes, 0);
#else
    /* What was freed stays counted here. */
    assert_in_range(resource_thread_allocated_bytes() - thread_before_bytes, BLOCK_BYTES,
                    BLOCK_BYTES + (2 << 20));
    assert_int_equal(strncmp(resource_heap_source(), "jemalloc 5.", 11), 0);
#endif
    assert_true(strlen(resource_heap_source()) > 0);
}

static void each_allocation_is_counted(void **state)
{
    (void)state;
    enum { SMALL = 1000, LARGE = 10 };
    resource_flush_thread_cache();
    uint64_t before = resource_allocations();
    for (int i = 0; i < SMALL; i++)
        free(take(16));
    for (int i = 0; i < LARGE; i++)
        free(take(BLOCK_BYTES));
    resource_flush_thread_cache();
    uint64_t after = resource_allocations();
#ifdef BENCH_SANITIZER
    assert_int_equal(before, UINT64_MAX);
    assert_int_equal(after, UINT64_MAX);
#else
    assert_int_equal(after - before, SMALL + LARGE);
#endif
}

static void what_is_not_granted_is_not_known(void **state)
{
    (void)state;
    struct counters counters;
    counters_open(&counters);
    struct counts before = counters_read(&counters);
    for (int i = 0; i < 100; i++)
        (void)getppid();
    struct counts after = counters_read(&counters);
    struct counts passed = counts_since(&before, &after);
    assert_int_equal(passed.syscalls == COUNT_NOT_KNOWN, counters.syscalls_fd < 0);
    assert_int_equal(passed.instructions == COUNT_NOT_KNOWN, counters.instructions_fd < 0);
    if (counters.syscalls_fd >= 0)
        assert_true(passed.syscalls >= 100);
    counters_close(&counters);
    struct counts closed = counters_read(&counters);
    assert_int_equal(closed.syscalls, COUNT_NOT_KNOWN);
    assert_int_equal(closed.instructions, COUNT_NOT_KNOWN);
    assert_int_equal(counts_since(&closed, &after).syscalls, COUNT_NOT_KNOWN);
    assert_int_equal(counts_since(&after, &closed).instructions, COUNT_NOT_KNOWN);
}

static void cpu_time_passes_while_working(void **state)
{
    (void)state;
    static_assert(CLOCKS_PER_SEC == NS_PER_S / NS_PER_US, "clock() counts microseconds");
    uint64_t start_ns = resource_cpu_ns();
    while (resource_cpu_ns() - start_ns < 20 * NS_PER_MS)
        continue;
    /* The C library counts the same: the process's, and none of it for time spent waiting. */
    clock_t before_us = clock();
    uint64_t between_ns = resource_cpu_ns();
    clock_t after_us = clock();
    assert_in_range(between_ns / NS_PER_US, before_us, after_us);
}

static void the_peak_stays_when_memory_goes(void **state)
{
    (void)state;
    uint64_t before_bytes = resource_peak_rss_bytes();
    assert_true(before_bytes > 100000);
    size_t block_bytes = before_bytes + BLOCK_BYTES;
    char *block = take(block_bytes);
    memset(block, 1, block_bytes);
    uint64_t with_bytes = resource_peak_rss_bytes();
    assert_true(with_bytes >= block_bytes);
    free(block);
    /* Not to the byte: the kernel counts pages for each CPU and adds them up only now and then. */
    assert_true(resource_peak_rss_bytes() >= before_bytes + BLOCK_BYTES / 2);
}

static void the_least_limit_is_named(void **state)
{
    (void)state;
    const char *name = NULL;
    uint64_t available_bytes = resource_memory_available_bytes(&name);
    assert_true(available_bytes > 1 << 20);
    assert_true(strcmp(name, "machine") == 0 || strcmp(name, "cgroup") == 0 ||
                strcmp(name, "RLIMIT_AS") == 0);
    assert_true(resource_memory_available_bytes(NULL) > 1 << 20);

#ifndef BENCH_SANITIZER /* whose shadow memory takes terabytes of addresses */
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    struct rlimit limit = {.rlim_cur = UINT64_C(1) << 30, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
    available_bytes = resource_memory_available_bytes(&name);
    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
    if (strcmp(name, "RLIMIT_AS") != 0)
        skip(); /* the machine itself has less than 1 GiB */
    assert_in_range(available_bytes, 1 << 20, (1 << 30) - (1 << 20));
#endif
}

static void cpus_are_those_of_the_affinity(void **state)
{
    (void)state;
    cpu_set_t before;
    cpu_set_t one;
    assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
    assert_int_equal(resource_cpus(), CPU_COUNT(&before));
    CPU_ZERO(&one);
    for (size_t cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; cpu++) {
        if (CPU_ISSET(cpu, &before))
            CPU_SET(cpu, &one);
    }
    assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
    unsigned cpus = resource_cpus();
    assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
    assert_int_equal(cpus, 1);
}

/* A directory that stands for the mounts of the kernel. */
struct tree {
    struct scratch scratch;
    char mountinfo[96];
    char cgroup[96];
};

static int make_tree(void **state)
{
    struct tree *t = calloc(1, sizeof(*t));
    if (t == NULL || scratch_make(&t->scratch, "cgroup") != 0) {
        free(t);
        return -1;
    }
    (void)snprintf(t->mountinfo, sizeof(t->mountinfo), "%s/mountinfo", t->scratch.path);
    (void)snprintf(t->cgroup, sizeof(t->cgroup), "%s/cgroup", t->scratch.path);
    *state = t;
    return 0;
}

static int remove_tree(void **state)
{
    struct tree *t = *state;
    int error = scratch_remove(&t->scratch);
    free(t);
    return error;
}

/* Writes a file below the tree and the directories that lead to it. */
static void put(const struct tree *t, const char *name, const char *text)
{
    char path[256];
    int size = snprintf(path, sizeof(path), "%s/%s", t->scratch.path, name);
    assert_in_range(size, 1, sizeof(path) - 1);
    for (char *slash = path + strlen(t->scratch.path) + 1; (slash = strchr(slash, '/')) != NULL;
         slash++) {
        *slash = '\0';
        (void)mkdir(path, 0700); /* may be there already */
        *slash = '/';
    }
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* Lays out mounts as given, of which each @ stands for the tree's root, and the process's groups.
 */
static void lay_out(const struct tree *t, const char *mounts, const char *cgroup)
{
    char text[1024] = "";
    size_t used = 0;
    for (const char *at = mounts; *at != '\0'; at++) {
        if (*at == '@')
            used += (size_t)snprintf(text + used, sizeof(text) - used, "%s", t->scratch.path);
        else
            text[used++] = *at;
        assert_true(used < sizeof(text) - 1);
    }
    put(t, "mountinfo", text);
    put(t, "cgroup", cgroup);
}

static uint64_t available(const struct tree *t, const char *mounts, const char *cgroup)
{
    lay_out(t, mounts, cgroup);
    return resource_cgroup_available_bytes(t->mountinfo, t->cgroup);
}

static const char v2_mount[] =
    "24 1 8:1 / / rw - ext4 /dev/sda rw\n"
    "30 24 0:26 / @/v2 rw,nosuid shared:9 - cgroup2 cgroup rw,nsdelegate\n";

static void version_2_takes_the_least_of_all_levels(void **state)
{
    const struct tree *t = *state;
    put(t, "v2/a/b/memory.max", "max\n");
    put(t, "v2/a/b/memory.current", "700\n");
    assert_int_equal(available(t, v2_mount, "0::/a/b\n"), UINT64_MAX);
    put(t, "v2/a/memory.max", "10000\n");
    put(t, "v2/a/memory.current", "4000\n");
    assert_int_equal(available(t, v2_mount, "0::/a/b\n"), 6000);
    put(t, "v2/a/memory.stat", "anon 5\nfile 9\ninactive_file 1000\nactive_file 500\nslab 7\n");
    assert_int_equal(available(t, v2_mount, "0::/a/b\n"), 7500);
    put(t, "v2/a/b/memory.max", "8000\n");
    assert_int_equal(available(t, v2_mount, "0::/a/b\n"), 7300);
    put(t, "v2/a/b/memory.high", "900\n");
    assert_int_equal(available(t, v2_mount, "0::/a/b\n"), 200);
    put(t, "v2/a/b/memory.current", "901\n"); /* above the limit: none is left */
    assert_int_equal(available(t, v2_mount, "0::/a/b\n"), 0);
    assert_int_equal(available(t, v2_mount, "0::/a\n"), 7500); /* the level below does not count */
}

/* In a container the mount shows the process's own group as its root. */
static void version_2_in_a_namespace(void **state)
{
    const struct tree *t = *state;
    put(t, "v2/memory.max", "5000\n");
    put(t, "v2/memory.current", "1000\n");
    assert_int_equal(available(t, v2_mount, "0::/\n"), 4000);
    assert_int_equal(available(t, v2_mount, "0::/../elsewhere\n"), 4000);
    assert_int_equal(available(t, v2_mount, "0::/gone/since\n"), 4000);
}

static void version_1_and_hybrid(void **state)
{
    const struct tree *t = *state;
    static const char mounts[] =
        "31 24 0:27 / @/v2 rw - cgroup2 cgroup rw\n"
        "32 24 0:28 / @/v1cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
        "33 24 0:29 /docker/1f @/v1\\040mem rw - cgroup cgroup rw,memory\n";
    static const char group[] = "5:cpu,cpuacct:/wrong\n4:memory:/docker/1f/x\n0::/\n";
    put(t, "v1cpu/memory.limit_in_bytes", "1\n"); /* of another controller: not to be read */
    put(t, "v1 mem/memory.limit_in_bytes", "20000\n");
    put(t, "v1 mem/memory.usage_in_bytes", "6000\n");
    put(t, "v1 mem/x/memory.limit_in_bytes", "9223372036854771712\n"); /* no limit */
    put(t, "v1 mem/x/memory.usage_in_bytes", "5000\n");
    put(t, "v1 mem/memory.stat",
        "inactive_file 7\ntotal_inactive_file 300\ntotal_active_file 30\n");
    assert_int_equal(available(t, mounts, group), 14330);
    put(t, "v1 mem/x/memory.limit_in_bytes", "15000\n");
    assert_int_equal(available(t, mounts, group), 10000);
    /* A group outside what the mount shows: the mount's root is the nearest. */
    assert_int_equal(available(t, mounts, "4:memory:/docker/1fx\n"), 14330);
}

static void without_cgroups_there_is_no_limit(void **state)
{
    const struct tree *t = *state;
    assert_int_equal(available(t, "", "0::/\n"), UINT64_MAX);
    assert_int_equal(available(t, "no mount\n - \n - cgroup2\n", "garbage\n:\n::\n0::/\n"),
                     UINT64_MAX);
    assert_int_equal(resource_cgroup_available_bytes("/nonexistent", "/nonexistent"), UINT64_MAX);
}

static double quota(const struct tree *t)
{
    return resource_cgroup_cpus(t->mountinfo, t->cgroup);
}

static uint64_t throttled_ns(const struct tree *t)
{
    return resource_cgroup_throttled_ns(t->mountinfo, t->cgroup);
}

static void cpus_of_version_2(void **state)
{
    const struct tree *t = *state;
    lay_out(t, v2_mount, "0::/a/b\n");
    assert_true(quota(t) == 0);
    assert_int_equal(throttled_ns(t), UINT64_MAX);
    put(t, "v2/a/b/cpu.max", "max 100000\n");
    put(t, "v2/a/b/cpu.stat", "usage_usec 9\nnr_throttled 3\nthrottled_usec 0\n");
    assert_true(quota(t) == 0);
    assert_int_equal(throttled_ns(t), 0);
    put(t, "v2/a/cpu.max", "150000 100000\n");
    put(t, "v2/a/cpu.stat", "throttled_usec 7\n");
    assert_true(quota(t) == 1.5);
    assert_int_equal(throttled_ns(t), 7000);
    put(t, "v2/a/b/cpu.max", "50000 100000\n");
    put(t, "v2/a/b/cpu.stat", "throttled_usec 5\n");
    assert_true(quota(t) == 0.5);
    assert_int_equal(throttled_ns(t), 12000);
}

static void cpus_of_version_1(void **state)
{
    const struct tree *t = *state;
    lay_out(t, "32 24 0:28 / @/v1 rw - cgroup cgroup rw,cpu,cpuacct\n", "5:cpu,cpuacct:/a\n0::/\n");
    put(t, "v1/a/cpu.cfs_quota_us", "-1\n");
    put(t, "v1/a/cpu.cfs_period_us", "100000\n");
    assert_true(quota(t) == 0);
    put(t, "v1/a/cpu.cfs_quota_us", "25000\n");
    put(t, "v1/a/cpu.stat", "nr_periods 8\nnr_throttled 2\nthrottled_time 1234567\n");
    assert_true(quota(t) == 0.25);
    assert_int_equal(throttled_ns(t), 1234567);
}

static void cpu_files_that_make_no_sense(void **state)
{
    const struct tree *t = *state;
    static const char *const garbage[] = {"", "x", "1", "5 0", "-3 -4", "99999999999999999999 1"};
    lay_out(t, v2_mount, "0::/\n");
    for (size_t i = 0; i < sizeof(garbage) / sizeof(garbage[0]); i++) {
        put(t, "v2/cpu.max", garbage[i]);
        put(t, "v2/cpu.stat", garbage[i]);
        assert_true(quota(t) == 0);
        assert_int_equal(throttled_ns(t), UINT64_MAX);
    }
    put(t, "v2/cpu.stat", "throttled_usec 18446744073709551615\nthrottled_usec -1\n");
    assert_int_equal(throttled_ns(t), UINT64_MAX);
}

static struct resource_ticks ticks_of(const struct tree *t, const char *text)
{
    char path[128];
    (void)snprintf(path, sizeof(path), "%s/stat", t->scratch.path);
    put(t, "stat", text);
    return resource_ticks(path);
}

static void ticks_are_those_of_all_cpus(void **state)
{
    const struct tree *t = *state;
    struct resource_ticks ticks =
        ticks_of(t, "cpu  10 1 20 300 5 2 3 59 8 1\ncpu0 1 2 3 4 5 6 7 8 9 10\nintr 7\n");
    assert_int_equal(ticks.all, 400); /* guests are counted already */
    assert_int_equal(ticks.stolen, 59);
    assert_int_equal(ticks_of(t, "cpu 1 2 3 4 5 6 7\n").all, 0); /* older than stealing */
    assert_int_equal(ticks_of(t, "").all, 0);
    assert_int_equal(ticks_of(t, "processor 1\n").all, 0);
    assert_int_equal(resource_ticks("/nonexistent").all, 0);
    ticks = resource_ticks("/proc/stat");
    assert_true(ticks.all > 0 && ticks.stolen <= ticks.all);
}

#define WITH_TREE(test) cmocka_unit_test_setup_teardown(test, make_tree, remove_tree)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_heap_grows_and_shrinks),
        cmocka_unit_test(each_allocation_is_counted),
        cmocka_unit_test(what_is_not_granted_is_not_known),
        cmocka_unit_test(cpu_time_passes_while_working),
        cmocka_unit_test(the_peak_stays_when_memory_goes),
        cmocka_unit_test(the_least_limit_is_named),
        cmocka_unit_test(cpus_are_those_of_the_affinity),
        WITH_TREE(version_2_takes_the_least_of_all_levels),
        WITH_TREE(version_2_in_a_namespace),
        WITH_TREE(version_1_and_hybrid),
        WITH_TREE(without_cgroups_there_is_no_limit),
        WITH_TREE(cpus_of_version_2),
        WITH_TREE(cpus_of_version_1),
        WITH_TREE(cpu_files_that_make_no_sense),
        WITH_TREE(ticks_are_those_of_all_cpus),
    };
    return cmocka_run_group_tests_name("resource", tests, NULL, NULL);
}
