"""Servers that go away under a run, and clocks that jump."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time

from clusters import DATABASE, own_cluster
from harness import Missing, NotApplicable, bench, check, environment, expect, start

# Jumps of the wall clock back and forth by a day, a call of it each; all other clocks stay as they
# are.
JUMPING_CLOCK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <sys/time.h>
#include <time.h>

static long jump(void)
{
    static atomic_int calls;
    return atomic_fetch_add(&calls, 1) % 2 == 0 ? 86400 : -86400;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    static int (*next)(clockid_t, struct timespec *);
    if (next == NULL)
        next = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int result = next(clock, now);
    if (clock == CLOCK_REALTIME)
        now->tv_sec += jump();
    return result;
}

int gettimeofday(struct timeval *now, void *zone)
{
    struct timespec exact;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *now)
{
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (now != NULL)
        *now = exact.tv_sec;
    return exact.tv_sec;
}
"""


def has_tables(cluster):
    return cluster.psql("select to_regclass('bench.records_seq') is not null") == "t"


def await_records(cluster, process, count):
    """Until the store holds as many, or the process has ended."""
    while process.poll() is None and not (
            has_tables(cluster)
            and int(cluster.psql("select count(*) from bench.records_seq")) >= count):
        time.sleep(0.02)


def restarted_mid_run(how):
    with own_cluster() as cluster:
        process = start("-runs", "30000", "-concurrency", "300", "-latency", "2ms", "-journal",
                        cluster.uri)
        await_records(cluster, process, 1)
        is_running = process.poll() is None
        cluster.restart(how)
        stdout, stderr = process.communicate(timeout=60)
        expect(is_running, "it was over before the server was stopped")
        expect(process.returncode == 0, f"exit code {process.returncode}: {stderr!r}")
        expect(stdout.decode().endswith("\nerrors=0\n"), stdout)
        expect(re.search(rb" retries=[1-9]", stdout), f"nothing was tried again: {stdout!r}")
        done = bench("verify", "-journal", cluster.uri)
        expect(done.returncode == 0 and b" runs=30000 ended=30000 " in done.stdout, done.stdout)


def cut_off_mid_run(cluster):
    """Leaves 2000 unfinished runs."""
    process = start("-runs", "100000", "-concurrency", "2000", "-latency", "1s", "-tool-effect",
                    "none", "-journal", cluster.uri)
    await_records(cluster, process, 2000)
    process.kill()
    process.communicate(timeout=20)


@check
def postgres_restarted_under_a_resume():
    """Which reads as it goes on: over a new connection it goes on where it was."""
    with own_cluster() as cluster:
        cut_off_mid_run(cluster)
        process = start("resume", "-concurrency", "50", "-latency", "100ms", "-journal",
                        cluster.uri)
        for records, how in ((2100, "immediate"), (3000, "kill")):
            await_records(cluster, process, records)
            expect(process.poll() is None, "it was over before the server was stopped")
            cluster.restart(how)
        stdout, stderr = process.communicate(timeout=60)
        expect(process.returncode == 0, f"exit code {process.returncode}: {stderr!r}")
        expect(b"\nresumed=2000 " in stdout and b" diverged=0 completed=2000 " in stdout, stdout)
        expect(re.search(rb" retries=[1-9]", stdout), f"nothing was tried again: {stdout!r}")
        done = bench("verify", "-journal", cluster.uri)
        expect(done.returncode == 0 and b" unfinished=0\n" in done.stdout, done.stdout)


@check
def signal_ends_a_resume_that_waits_for_its_server():
    with own_cluster() as cluster:
        cut_off_mid_run(cluster)
        process = start("resume", "-concurrency", "100", "-latency", "100ms", "-retry-for", "60s",
                        "-journal", cluster.uri)
        await_records(cluster, process, 2100)
        cluster.stop("kill")
        time.sleep(0.5)
        begin = time.monotonic()
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=50)
        took = time.monotonic() - begin
        expect(process.returncode == 130, f"exit code {process.returncode}: {stderr!r}")
        expect(took < 20, f"it took {took:.1f} s")
        expect(b"bytes/run=-" in stdout or re.search(rb"bytes/run=\d{1,6} ", stdout), stdout)
        expect(b"no memory" not in stderr + stdout, stderr)


@check
def postgres_stopped_immediately_and_restarted():
    restarted_mid_run("immediate")


@check
def postgres_killed_and_restarted():
    restarted_mid_run("kill")


def run_slowly(cluster, *arguments):
    """A run that has begun and has nothing to record for seconds."""
    process = start("-runs", "50", "-latency", "3s", *arguments, "-journal", cluster.uri)
    await_records(cluster, process, 50)
    time.sleep(0.2)  # until it has heard of that
    return process


@check
def sessions_that_end_while_idle_keep_their_campaign():
    with own_cluster() as cluster:
        process = run_slowly(cluster)
        cluster.terminate_backends()
        time.sleep(0.5)
        done = bench("resume", "-latency", "0", "-journal", cluster.uri)
        expect(done.returncode == 2 and b"in use by another process" in done.stderr, done.stderr)
        stdout, stderr = process.communicate(timeout=60)
        expect(process.returncode == 0, f"exit code {process.returncode}: {stderr!r}")


@check
def stopped_process_does_not_blame_the_server():
    """What came meanwhile is read before the server is called silent."""
    with own_cluster() as cluster:
        process = start("-runs", "20000", "-concurrency", "50", "-latency", "5ms", "-retry-for",
                        "2s", "-journal", cluster.uri)
        time.sleep(0.5)
        process.send_signal(signal.SIGSTOP)
        time.sleep(3)
        is_running = process.poll() is None
        process.send_signal(signal.SIGCONT)
        stdout, stderr = process.communicate(timeout=60)
        expect(is_running and process.returncode == 0, f"{process.returncode}: {stderr!r}")


@check
def stalled_server_is_not_waited_for_once_interrupted():
    with own_cluster() as cluster:
        process = run_slowly(cluster)
        backends = cluster.backends()
        for pid in (cluster.pid, *backends):
            os.kill(pid, signal.SIGSTOP)
        begin = time.monotonic()
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=60)
        took = time.monotonic() - begin
        for pid in (cluster.pid, *backends):
            os.kill(pid, signal.SIGCONT)
        expect(process.returncode == 130 and took < 20, f"{process.returncode} after {took:.1f} s")
        expect(b"interrupted by SIGINT" in stdout, stdout)


@check
def standby_can_be_verified():
    with own_cluster() as cluster:
        bench("-runs", "1000", "-journal", cluster.uri)
        cluster.stop()
        (cluster.folder / "data" / "standby.signal").touch()  # of nobody: it waits for more WAL
        cluster.start()
        done = bench("verify", "-journal", cluster.uri)
        expect(done.returncode == 0 and b"\nfaults=0\n" in done.stdout, done.stdout + done.stderr)


@check
def settings_of_a_database_do_not_hide_its_tables():
    with own_cluster() as cluster:
        cluster.psql(f"alter database {DATABASE} set quote_all_identifiers = on")
        for command in ("run", "verify"):
            done = bench(command, "-journal", cluster.uri)
            expect(done.returncode == 0, f"{command}: {done.stderr!r}")


@check
def clock_that_jumps_changes_nothing():
    compiler = shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise Missing("a C compiler")
    if b"sanitizers: none" not in bench("-version").stdout:
        raise NotApplicable("a sanitizer wants to be loaded first")
    with tempfile.TemporaryDirectory() as directory:
        source = pathlib.Path(directory, "clock.c")
        source.write_text(JUMPING_CLOCK)
        subprocess.run([compiler, "-shared", "-fPIC", "-o", f"{directory}/clock.so", str(source)],
                       check=True)
        jumping = {**environment(), "LD_PRELOAD": f"{directory}/clock.so"}
        store = ["-journal", f"sqlite:{directory}/a.db"]
        process = start("-runs", "100000", "-latency", "5ms", "-run-id", "uuidv7", "-tool-effect",
                        "none", *store, env=jumping)
        while process.poll() is None and not os.path.exists(f"{directory}/a.db-wal"):
            time.sleep(0.01)
        time.sleep(0.3)
        process.kill()
        process.communicate(timeout=20)
        for command in (["verify"], ["resume", "-latency", "1ms"], ["verify"]):
            process = start(*command, *store, env=jumping)
            stdout, stderr = process.communicate(timeout=60)
            expect(process.returncode == 0, f"{command}: {stderr!r}")
        expect(b" unfinished=0\n" in stdout, stdout)
        begun = time.monotonic()
        process = start("-runs", "500", "-latency", "20ms", env=jumping)
        stdout, stderr = process.communicate(timeout=20)
        expect(process.returncode == 0, stderr)
        fifty = float(re.search(rb"p50=([0-9.]+)ms", stdout)[1])
        expect(40 <= fifty <= 1000 * (time.monotonic() - begun), f"p50 is {fifty} ms")
