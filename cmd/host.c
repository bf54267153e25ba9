/* host: see host.h. */
#include "cmd/host.h"

#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/resource.h"

/* The first line of /proc/cpuinfo that names the model; ARM machines have none. */
static void read_cpu_model(char model[HOST_TEXT_BYTES])
{
    (void)snprintf(model, HOST_TEXT_BYTES, "unknown");
    FILE *info = fopen("/proc/cpuinfo", "re");
    if (info == NULL)
        return;
    char line[512];
    while (fgets(line, sizeof(line), info) != NULL) {
        if (strncmp(line, "model name", strlen("model name")) != 0)
            continue;
        char *value = strchr(line, ':');
        if (value == NULL)
            break;
        value += 1 + strspn(value + 1, " \t");
        value[strcspn(value, "\n")] = '\0';
        (void)snprintf(model, HOST_TEXT_BYTES, "%.*s", HOST_TEXT_BYTES - 1, value);
        break;
    }
    (void)fclose(info); /* Nothing was written. */
}

/* The first line of a file of the kernel; "" without it. */
static void read_line(const char *path, char line[HOST_TEXT_BYTES])
{
    FILE *file = fopen(path, "re");
    line[0] = '\0';
    if (file == NULL)
        return;
    if (fgets(line, HOST_TEXT_BYTES, file) == NULL)
        line[0] = '\0';
    line[strcspn(line, "\n")] = '\0';
    (void)fclose(file); /* Nothing was written. */
}

void host_read_governor(const char *directory, char governor[HOST_TEXT_BYTES])
{
    cpu_set_t set;
    governor[0] = '\0';
    if (sched_getaffinity(0, sizeof(set), &set) != 0)
        return; /* a machine of more CPUs than the set has room for */
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        char path[PATH_MAX];
        char found[HOST_TEXT_BYTES];
        if (!CPU_ISSET(cpu, &set))
            continue;
        (void)snprintf(path, sizeof(path), "%s/cpu%zu/cpufreq/scaling_governor", directory, cpu);
        read_line(path, found);
        if (found[0] == '\0')
            continue;
        memcpy(governor, found, sizeof(found));
        if (strcmp(found, "performance") != 0)
            return;
    }
}

/* A clock that stands still for longer than this is of no use. */
static uint64_t measure_clock_step_ns(void)
{
    enum { STEPS = 1000, READINGS_MAX = 100000 };
    uint64_t least_ns = 0;
    uint64_t before_ns = clock_monotonic_ns();
    for (int steps = 0, readings = 0; steps < STEPS && readings < READINGS_MAX; readings++) {
        uint64_t now_ns = clock_monotonic_ns();
        uint64_t step_ns = now_ns - before_ns;
        before_ns = now_ns;
        if (step_ns == 0)
            continue;
        least_ns = least_ns == 0 || step_ns < least_ns ? step_ns : least_ns;
        steps++;
    }
    return least_ns;
}

void host_read(struct host *host)
{
    memset(host, 0, sizeof(*host));
    read_cpu_model(host->cpu_model);
    host->cpus = resource_cpus();
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    host->cpus_online = online > 0 ? (uint32_t)online : host->cpus;
    host->cpu_quota = resource_cgroup_cpus("/proc/self/mountinfo", "/proc/self/cgroup");
    host->clock_step_ns = measure_clock_step_ns();
    read_line("/sys/devices/system/clocksource/clocksource0/current_clocksource",
              host->clock_source);
    if (host->clock_source[0] == '\0')
        (void)snprintf(host->clock_source, sizeof(host->clock_source), "unknown");
    host_read_governor("/sys/devices/system/cpu", host->cpu_governor);

    struct utsname name;
    if (uname(&name) == 0)
        (void)snprintf(host->kernel, sizeof(host->kernel), "%.30s %.60s %.30s", name.sysname,
                       name.release, name.machine);
    else
        (void)snprintf(host->kernel, sizeof(host->kernel), "unknown");

    struct sysinfo info;
    if (sysinfo(&info) == 0)
        host->memory_bytes = (uint64_t)info.totalram * info.mem_unit;
}
