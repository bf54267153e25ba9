/* report_provenance: see report_provenance.h. */
#include "cmd/report_provenance.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cmd/report_config.h"
#include "engine/base/clock.h"

enum { VALUE_BYTES = 256, KEY_BYTES = 64 };

struct telling {
    void (*tell)(void *arg, const struct fact *fact);
    void *arg;
    bool is_of_place;
};

static void tell(const struct telling *telling, const char *key, const char *value)
{
    const struct fact fact = {key, value, telling->is_of_place};
    telling->tell(telling->arg, &fact);
}

static void __attribute__((format(printf, 3, 4)))
tell_format(const struct telling *telling, const char *key, const char *format, ...)
{
    char value[VALUE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(value, sizeof(value), format, arguments);
    va_end(arguments);
    errmsg_clean(value);
    tell(telling, key, value);
}

const char *report_time(uint64_t unix_ns, char text[REPORT_TIME_BYTES])
{
    time_t seconds = (time_t)(unix_ns / NS_PER_S);
    struct tm utc;
    text[0] = '\0';
    if (gmtime_r(&seconds, &utc) == NULL)
        return text; /* no year that fits */
    size_t size = strftime(text, REPORT_TIME_BYTES, "%Y-%m-%dT%H:%M:%S", &utc);
    (void)snprintf(text + size, REPORT_TIME_BYTES - size, ".%03uZ",
                   (unsigned)(unix_ns % NS_PER_S / NS_PER_MS));
    return text;
}

/* An empty one is not known. */
static void tell_text(const struct telling *telling, const char *key, const char *text)
{
    if (text[0] != '\0')
        tell_format(telling, key, "%s", text);
}

/* Of hosts that differ what they differ in is left out. */
static void tell_host(const struct telling *telling, const struct host *host)
{
    tell_text(telling, "cpu_model", host->cpu_model);
    if (host->cpus > 0 && host->cpus_online > 0)
        tell_format(telling, "cpus", "%" PRIu32 " of %" PRIu32, host->cpus, host->cpus_online);
    if (host->cpu_quota > 0)
        tell_format(telling, "cpu_quota", "%.3f", host->cpu_quota);
    else if (host->cpu_quota == 0)
        tell(telling, "cpu_quota", "none");
    if (strstr(host->differs_in, "cpu_governor") == NULL)
        tell_text(telling, "cpu_governor",
                  host->cpu_governor[0] != '\0' ? host->cpu_governor : "unknown");
    tell_text(telling, "kernel", host->kernel);
    tell_text(telling, "clock_source", host->clock_source);
    tell_text(telling, "host_differs_in", host->differs_in);
}

/* 0: not known. */
static void tell_count(const struct telling *telling, const char *key, uint64_t count)
{
    if (count > 0)
        tell_format(telling, key, "%" PRIu64, count);
}

static void tell_store(const struct telling *telling, const struct campaign_result *result)
{
    tell(telling, "journal", result->journal_name);
    tell(telling, "durability", durability_name(result->durability));
    for (unsigned i = 0; result->settings != NULL && i < result->settings->count; i++) {
        char key[KEY_BYTES];
        (void)snprintf(key, sizeof(key), "store_%s", result->settings->all[i].key);
        tell(telling, key, result->settings->all[i].value);
    }
}

static void tell_build(const struct telling *telling, const struct version *version)
{
    tell_format(telling, "bench_version", "%s", version->version);
    tell_format(telling, "bench_revision", "%s", version->revision);
    tell(telling, "bench_is_dirty", version->is_dirty ? "true" : "false");
    tell_format(telling, "bench_compiler", "%s", version->compiler);
    tell_format(telling, "bench_flags", "%s", version->flags);
    tell_format(telling, "bench_sanitizers", "%s", version->sanitizers);
}

/* Without memory it is left out. */
static void tell_configuration(const struct telling *telling, const struct report *report)
{
    char *text = NULL;
    size_t size = 0;
    FILE *memory = open_memstream(&text, &size);
    if (memory == NULL)
        return;
    report_print_configuration(memory, report);
    if (fclose(memory) == 0) {
        text[strcspn(text, "\n")] = '\0';
        tell(telling, "configuration", text);
    }
    free(text);
}

void report_provenance(const struct report *report,
                       void (*told)(void *arg, const struct fact *fact), void *arg)
{
    char started[REPORT_TIME_BYTES];
    const struct telling place = {told, arg, true};
    const struct telling run = {told, arg, false};
    tell_host(&place, &report->host);
    tell_store(&place, report->result);
    tell_build(&run, &report->version);
    tell_count(&run, "memory_bytes", report->host.memory_bytes);
    tell_count(&run, "clock_step_ns", report->host.clock_step_ns);
    tell(&run, "started", report_time(report->result->started_unix_ns, started));
    if (report->merged == NULL) /* each of its results has a seed of its own */
        tell_format(&run, "seed", "%" PRIu64, report->options->campaign.seed);
    tell_configuration(&run, report);
    tell(&run, "verdict", report->reason_count == 0 ? "valid" : "invalid");
}
