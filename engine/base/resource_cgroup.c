/*
 * resource_cgroup: what the limits of this process's cgroup leave of the memory, and of the CPUs.
 *
 * /proc/self/cgroup names the process's group in every hierarchy, /proc/self/mountinfo says where
 * the hierarchies are mounted and which part of each is visible there. The two are put together,
 * and every level from the group up to the mount is asked, because a limit holds for all below it.
 * Hybrid systems mount both versions; only one of them has the memory controller, the other has no
 * files to read. The same holds for the CPUs.
 */
#include "engine/base/resource.h"

#include <assert.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"

enum { LINE_BYTES = 3 * PATH_MAX };

/* The names that the two versions give to the same things. */
struct version {
    const char *filesystem;
    const char *limits[2];
    const char *usage;
    const char *reclaimable[2]; /* in memory.stat; for version 1, children included */
};

static const struct version version_1 = {
    .filesystem = "cgroup",
    .limits = {"memory.limit_in_bytes", NULL},
    .usage = "memory.usage_in_bytes",
    .reclaimable = {"total_inactive_file ", "total_active_file "},
};

static const struct version version_2 = {
    .filesystem = "cgroup2",
    .limits = {"memory.max", "memory.high"}, /* above "high", allocations are slowed to a crawl */
    .usage = "memory.current",
    .reclaimable = {"inactive_file ", "active_file "},
};

static FILE *open_in(const char *directory, const char *name)
{
    char path[PATH_MAX];
    int size = snprintf(path, sizeof(path), "%s/%s", directory, name);
    return size > 0 && (size_t)size < sizeof(path) ? fopen(path, "re") : NULL;
}

/* A file that holds one number, or "max". `missing` without it. */
static uint64_t read_number(const char *directory, const char *name, uint64_t missing)
{
    FILE *file = open_in(directory, name);
    if (file == NULL)
        return missing;
    uint64_t value = missing;
    if (fscanf(file, "%" SCNu64, &value) != 1)
        value = missing;
    (void)fclose(file); /* only read from: closing has nothing to report */
    return value;
}

static uint64_t read_reclaimable(const char *directory, const struct version *version)
{
    FILE *file = open_in(directory, "memory.stat");
    if (file == NULL)
        return 0;
    uint64_t total_bytes = 0;
    char line[256];
    while (fgets(line, sizeof(line), file) != NULL) {
        for (size_t i = 0; i < 2; i++) {
            size_t size = strlen(version->reclaimable[i]);
            if (strncmp(line, version->reclaimable[i], size) == 0)
                total_bytes += strtoull(line + size, NULL, 10);
        }
    }
    (void)fclose(file); /* only read from: closing has nothing to report */
    return total_bytes;
}

static uint64_t level_available_bytes(const char *directory, const struct version *version)
{
    uint64_t limit_bytes = UINT64_MAX;
    for (size_t i = 0; i < 2 && version->limits[i] != NULL; i++) {
        uint64_t bytes = read_number(directory, version->limits[i], UINT64_MAX);
        limit_bytes = bytes < limit_bytes ? bytes : limit_bytes;
    }
    /* Version 1 writes "no limit" as the largest multiple of a page that a signed number holds. */
    if (limit_bytes >= INT64_MAX / 2)
        return UINT64_MAX;
    uint64_t usage_bytes = read_number(directory, version->usage, 0);
    uint64_t reclaimable_bytes = read_reclaimable(directory, version);
    usage_bytes -= reclaimable_bytes < usage_bytes ? reclaimable_bytes : usage_bytes;
    return usage_bytes < limit_bytes ? limit_bytes - usage_bytes : 0;
}

/* Whether the comma-separated list has the word. */
static bool list_has(const char *list, const char *word)
{
    size_t size = strlen(word);
    for (const char *at = list; at != NULL && *at != '\0';) {
        if (strncmp(at, word, size) == 0 && (at[size] == ',' || at[size] == '\0'))
            return true;
        at = strchr(at, ',');
        at = at != NULL ? at + 1 : NULL;
    }
    return false;
}

/* The path of the process's group in the hierarchy of this version, from lines such as "0::/a/b"
 * (2) and "4:memory:/a/b" (1). */
static bool find_group(const char *cgroup_path, const struct version *version,
                       const char *controller, char group[PATH_MAX])
{
    FILE *file = fopen(cgroup_path, "re");
    if (file == NULL)
        return false;
    bool is_found = false;
    char line[LINE_BYTES];
    while (!is_found && fgets(line, sizeof(line), file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':');
        char *path = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
        if (path == NULL || strlen(path + 1) >= PATH_MAX)
            continue;
        *path = '\0';
        bool is_ours =
            version == &version_2 ? controllers[1] == '\0' : list_has(controllers + 1, controller);
        if (is_ours) {
            memcpy(group, path + 1, strlen(path + 1) + 1);
            is_found = true;
        }
    }
    (void)fclose(file); /* only read from: closing has nothing to report */
    return is_found;
}

/* Undoes the "\040" by which mountinfo writes white space and backslashes, in place. */
static void unescape(char *text)
{
    char *to = text;
    for (const char *from = text; *from != '\0'; to++) {
        if (from[0] == '\\' && strspn(from + 1, "01234567") >= 3) {
            *to = (char)((from[1] - '0') << 6 | (from[2] - '0') << 3 | (from[3] - '0'));
            from += 4;
        } else {
            *to = *from++;
        }
    }
    *to = '\0';
}

/* The next mount of this version: "36 35 98:0 ROOT POINT OPTIONS … - TYPE SOURCE SUPER-OPTIONS".
 * Version 1 has a mount for each controller; the super options name it. */
static bool next_mount(FILE *mounts, const struct version *version, const char *controller,
                       char root[PATH_MAX], char point[PATH_MAX])
{
    char line[LINE_BYTES];
    while (fgets(line, sizeof(line), mounts) != NULL) {
        char type[32];
        char options[1024] = "";
        const char *tail = strstr(line, " - ");
        if (tail == NULL || sscanf(tail, " - %31s %*s %1023s", type, options) < 1 ||
            strcmp(type, version->filesystem) != 0 ||
            (version == &version_1 && !list_has(options, controller)))
            continue;
        if (sscanf(line, "%*s %*s %*s %4095s %4095s", root, point) != 2)
            continue;
        unescape(root);
        unescape(point);
        return true;
    }
    return false;
}
static_assert(PATH_MAX == 4096, "the width in next_mount()");

/* Where the group lies below the mount's root; "" for the root itself, and for a group that the
 * mount does not show: in a container the visible root is then the nearest that there is. */
static const char *path_below(const char *root, const char *group)
{
    size_t size = strcmp(root, "/") == 0 ? 0 : strlen(root);
    bool is_below = strncmp(group, root, size) == 0 && (group[size] == '/' || group[size] == '\0');
    if (!is_below || strstr(group, "/..") != NULL || strcmp(group + size, "/") == 0)
        return "";
    return group + size;
}

/* What is asked of every level of the group, from the group up to the mount. */
struct walk {
    const char *controller;
    void (*visit)(struct walk *walk, const char *directory, const struct version *version);
    uint64_t value;
};

static void walk_version(struct walk *walk, const char *mountinfo_path, const char *group,
                         const struct version *version)
{
    FILE *mounts = fopen(mountinfo_path, "re");
    if (mounts == NULL)
        return;
    char root[PATH_MAX];
    char point[PATH_MAX];
    while (next_mount(mounts, version, walk->controller, root, point)) {
        char directory[2 * PATH_MAX];
        size_t point_size = strlen(point);
        (void)snprintf(directory, sizeof(directory), "%s%s", point,
                       path_below(root, group)); /* fits */
        for (;;) {
            walk->visit(walk, directory, version);
            char *last = strrchr(directory + point_size, '/');
            if (last == NULL)
                break;
            *last = '\0';
        }
    }
    (void)fclose(mounts); /* only read from: closing has nothing to report */
}

static uint64_t walk_levels(struct walk *walk, const char *mountinfo_path, const char *cgroup_path)
{
    static const struct version *const versions[] = {&version_1, &version_2};

    for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
        char group[PATH_MAX];
        if (find_group(cgroup_path, versions[i], walk->controller, group))
            walk_version(walk, mountinfo_path, group, versions[i]);
    }
    return walk->value;
}

static void take_available(struct walk *walk, const char *directory, const struct version *version)
{
    uint64_t bytes = level_available_bytes(directory, version);
    walk->value = bytes < walk->value ? bytes : walk->value;
}

uint64_t resource_cgroup_available_bytes(const char *mountinfo_path, const char *cgroup_path)
{
    struct walk walk = {.controller = "memory", .visit = take_available, .value = UINT64_MAX};
    return walk_levels(&walk, mountinfo_path, cgroup_path);
}

/* --- the CPUs --- */

/* A level without a quota has been held up never, which is told all the same. */
static void add_throttled(struct walk *walk, const char *directory, const struct version *version)
{
    FILE *file = open_in(directory, "cpu.stat");
    if (file == NULL)
        return;
    uint64_t unit_ns = version == &version_2 ? NS_PER_US : 1;
    const char *key = version == &version_2 ? "throttled_usec %" SCNu64 : "throttled_time %" SCNu64;
    char line[256];
    while (fgets(line, sizeof(line), file) != NULL) {
        uint64_t time = 0;
        if (sscanf(line, key, &time) != 1 || time > INT64_MAX / unit_ns)
            continue;
        uint64_t before_ns = walk->value == UINT64_MAX ? 0 : walk->value;
        walk->value = before_ns > INT64_MAX ? before_ns : before_ns + time * unit_ns;
    }
    (void)fclose(file); /* only read from: closing has nothing to report */
}

uint64_t resource_cgroup_throttled_ns(const char *mountinfo_path, const char *cgroup_path)
{
    struct walk walk = {.controller = "cpu", .visit = add_throttled, .value = UINT64_MAX};
    return walk_levels(&walk, mountinfo_path, cgroup_path);
}

/* "200000 100000", or "max 100000", in version 2; in version 1 a file each, and -1 for none. */
static void take_quota(struct walk *walk, const char *directory, const struct version *version)
{
    uint64_t quota_us = UINT64_MAX;
    uint64_t period_us = 0;
    if (version == &version_2) {
        FILE *file = open_in(directory, "cpu.max");
        if (file == NULL)
            return;
        if (fscanf(file, "%" SCNu64 " %" SCNu64, &quota_us, &period_us) != 2)
            quota_us = UINT64_MAX;
        (void)fclose(file); /* only read from: closing has nothing to report */
    } else {
        quota_us = read_number(directory, "cpu.cfs_quota_us", UINT64_MAX);
        period_us = read_number(directory, "cpu.cfs_period_us", 0);
    }
    if (period_us == 0 || quota_us > UINT64_MAX / 2000) /* -1 is read as a very large number */
        return;
    uint64_t thousandths = quota_us * 1000 / period_us;
    walk->value = thousandths < walk->value ? thousandths : walk->value;
}

double resource_cgroup_cpus(const char *mountinfo_path, const char *cgroup_path)
{
    struct walk walk = {.controller = "cpu", .visit = take_quota, .value = UINT64_MAX};
    uint64_t thousandths = walk_levels(&walk, mountinfo_path, cgroup_path);
    return thousandths == UINT64_MAX ? 0 : (double)thousandths / 1000;
}
