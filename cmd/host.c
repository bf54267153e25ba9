/* host: see host.h. */
#include "cmd/host.h"

#include <stdio.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>

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

void host_read(struct host *host)
{
    memset(host, 0, sizeof(*host));
    read_cpu_model(host->cpu_model);
    host->cpus = resource_cpus();

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
