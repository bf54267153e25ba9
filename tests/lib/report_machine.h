/*
 * report_machine: build, host and store settings that are the same on every machine, for tests of
 * reports. Threading: constants.
 */
#ifndef BENCH_TESTS_LIB_REPORT_MACHINE_H
#define BENCH_TESTS_LIB_REPORT_MACHINE_H

#include <stdio.h>

#include "cmd/report.h"

static const struct version machine_version = {
    .version = "1.2.3",
    .revision = "0123456789ab",
    .compiler = "gcc 12.2.0",
    .sanitizers = "none",
    .flags = "-O3 -g -DNAME=\"a b\"",
    .is_optimized = true,
};

static const struct journal_settings machine_sqlite = {
    .count = 4,
    .all = {{"sqlite_version", "3.40.1"},
            {"journal_mode", "wal"},
            {"synchronous", "full"},
            {"filesystem", "ext2/ext3/ext4"}},
};

static const struct journal_settings machine_postgres = {
    .count = 3,
    .all = {{"libpq_version", "15.18"},
            {"server_version", "15.18 (Debian \"15.18-0\\deb12u1\")"},
            {"fsync", "on"}},
};

static inline void machine_fix(struct report *report)
{
    report->version = machine_version;
    (void)snprintf(report->host.cpu_model, HOST_TEXT_BYTES, "Example CPU @ 2.00GHz");
    (void)snprintf(report->host.kernel, HOST_TEXT_BYTES, "Linux 6.1.0 x86_64");
    (void)snprintf(report->host.clock_source, HOST_TEXT_BYTES, "tsc");
    (void)snprintf(report->host.cpu_governor, HOST_TEXT_BYTES, "performance");
    report->host.cpus = 2;
    report->host.cpus_online = 4;
    report->host.cpu_quota = 1.5;
    report->host.clock_step_ns = 21;
    report->host.memory_bytes = UINT64_C(8) << 30;
}

#endif
