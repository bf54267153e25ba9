"""The figures that do not depend on the machine: what is counted, and the checksum of the work."""

import json
import os
import pathlib
import subprocess
import tempfile

import harness
from harness import NotApplicable, bench, check, expect, validate

RUNS = 2000


def result_of(*arguments):
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory, "r.json")
        where = [a.replace("DIRECTORY", directory) for a in arguments]
        done = bench("-runs", str(RUNS), "-json", str(path), *where)
        expect(done.returncode == 0, done.stderr)
        result = json.loads(path.read_text())
    validate(result)
    return result


@check
def counts_are_shared_among_the_runs():
    result = result_of()["result"]
    for name in ("allocations", "syscalls", "instructions"):
        count, each = result[name], result[f"{name}_per_run"]
        expect((count is None) == (each is None), result)
        expect(count is None or abs(each - count / RUNS) < 1e-5, result)
    is_sanitized = result["total_alloc_bytes"] is None
    expect((result["allocations"] is None) == is_sanitized, result)
    if not is_sanitized:
        expect(abs(result["alloc_per_run_bytes"] - result["total_alloc_bytes"] / RUNS) < 1, result)
        # Nothing is allocated a step: a whole campaign asks for less than once in ten runs.
        expect(0 < result["allocations"] < RUNS / 10, result)


@check
def the_checksum_is_of_the_work_and_not_of_how_it_went():
    one = result_of()["result"]["journal_checksum"]
    for same in (["-threads", "1", "-loop", "epoll"], ["-concurrency", "7"], ["-latency", "1ms"],
                 ["-journal", "sqlite:DIRECTORY/c.db", "-durability", "none", "-run-id", "uuidv4"]):
        other = result_of(*same)["result"]["journal_checksum"]
        expect(other == one, f"{same}: {other}, not {one}")
    for different in (["-seed", "2"], ["-turns", "3"], ["-prompt-bytes", "100B"],
                      ["-tool-effect", "none"]):
        other = result_of(*different)["result"]["journal_checksum"]
        expect(other != one, f"{different}: {other}, too")


@check
def system_calls_are_those_that_the_kernel_counts():
    if os.geteuid() != 0:
        raise NotApplicable("only root may mount tracefs")
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory, "r.json")
        # In a mount namespace of its own, which ends with it.
        done = subprocess.run(
            ["unshare", "-m", "sh", "-c",
             "mount -t tracefs none /sys/kernel/tracing 2>/dev/null; exec \"$@\"", "sh",
             harness.BENCH, "-runs", str(RUNS), "-concurrency", "1", "-json", str(path),
             "-journal", f"sqlite:{directory}/s.db", "-quiet"],
            capture_output=True, timeout=harness.LIMIT_S)
        expect(done.returncode in (0, 4), done.stderr)
        result = json.loads(path.read_text())
    syscalls, store = result["result"]["syscalls"], result["store"]
    if syscalls is None:
        raise NotApplicable("this kernel does not share its tracepoints")
    # Each commit is some calls, and each of its fsyncs is one.
    expect(store["syncs"] >= store["commits"] > RUNS, store)
    expect(2 * store["syncs"] < syscalls < 60 * store["syncs"], f"{syscalls} {store}")
