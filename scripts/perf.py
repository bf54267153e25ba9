#!/usr/bin/env python3
"""Measures what bench has to reach and prints each figure beside its limit.

Usage: scripts/perf.py [BENCH] [ROUNDS]

Every workload is run ROUNDS times (5), alternating, and the median counts; the range stands beside
it, since a busy machine shows there. It is a benchmark, not a test: a missed limit is printed, and
the exit status is 0 all the same.
"""

import json
import mmap
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

BENCH = sys.argv[1] if len(sys.argv) > 1 else "build/bench"
ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 5
WARM_BYTES = 3 << 30


def run(arguments):
    """One run: its result as JSON, with the wall and CPU time of the whole process added."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "result.json")
        before = os.times()
        start = time.perf_counter()
        done = subprocess.run([BENCH, *arguments, "-json", path, "-quiet"], check=False,
                              stdout=subprocess.DEVNULL)
        # What a busy machine has spoilt (4) is shown as it is.
        if done.returncode not in (0, 4):
            sys.exit(f"bench {' '.join(arguments)}: exit status {done.returncode}")
        wall = time.perf_counter() - start
        after = os.times()
        with open(path, encoding="utf-8") as file:
            data = json.load(file)
    data["wall_s"] = wall
    data["process_cpu_s"] = (after.children_user - before.children_user
                             + after.children_system - before.children_system)
    return data


def result(key):
    return lambda data: data["result"][key]


def quantile_ms(name, key):
    return lambda data: data["latency"][name][key] / 1e6


def runs_per_s(data):
    return data["result"]["runs_completed"] / (data["result"]["elapsed_ns"] / 1e9)


def seconds(key):
    return lambda data: data["result"][key] / 1e9


def gigabytes(key):
    return lambda data: data["result"][key] / 1e9


def cpu_percent(data):
    return 100 * data["process_cpu_s"] / data["wall_s"]


def cpu_us(data):
    return data["result"]["cpu_ns"] / data["result"]["runs_completed"] / 1e3


MAIN = "-runs 20000 -concurrency 5000 -latency 50ms"
STEP = "-runs 2000000 -concurrency 256"
STEP_ONE = STEP + " -threads 1"
SHORT = "-runs 5000 -concurrency 256"
MILLION = "-runs 1000000 -concurrency 1000000 -latency 1s"
OPEN = "-rate 300000/s -runs 1500000 -concurrency 5000"
STREAM = "-runs 10000 -concurrency 5000 -latency 50ms -tokens 100 -token-interval 20ms"
IDLE = "-runs 1000 -concurrency 1000 -latency 5s"

# workload, what, unit, limit, whether more is better, figure of one run
FIGURES = [
    (MAIN, "throughput", "runs/s", 48500, True, runs_per_s),
    (MAIN, "p50", "ms", 101, False, quantile_ms("response", "p50_ns")),
    (MAIN, "p99", "ms", 103, False, quantile_ms("response", "p99_ns")),
    (MAIN, "heap delta", "MB", 30, False, lambda d: d["result"]["heap_delta_bytes"] / 1e6),
    (STEP, "CPU a run", "µs", 2.0, False, cpu_us),
    (STEP_ONE, "CPU a run, one thread", "µs", 2.0, False, cpu_us),
    (SHORT, "whole process", "ms", 40, False, lambda d: d["wall_s"] * 1e3),
    (MILLION, "peak tasks", "", 1000000, True, result("peak_tasks")),
    (MILLION, "errors", "", 0, False, result("errors")),
    (MILLION, "elapsed", "s", 2.6, False, seconds("elapsed_ns")),
    (MILLION, "whole process", "s", 2.6, False, lambda d: d["wall_s"]),
    (MILLION, "peak RSS", "GB", 1.6, False, gigabytes("peak_rss_bytes")),
    (OPEN, "dispatch lag p99", "ms", 1, False, quantile_ms("dispatch", "p99_ns")),
    (OPEN, "started", "runs/s", 299000, True, result("achieved_runs_per_s")),
    (STREAM, "token lag p99", "ms", 5, False, quantile_ms("token_lag", "p99_ns")),
    (IDLE, "CPU of a core", "%", 1, False, cpu_percent),
]


def warm_memory():
    """Has the machine bring in the memory that the workloads will ask for. The memory of a virtual
    machine may be given back to its host while unused; a first touch then costs 20 times as much,
    which is the host's cost, not ours. In huge pages, as bench asks for them: others would leave
    the kernel to look for whole ones elsewhere."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    with mmap.mmap(-1, WARM_BYTES, flags=flags) as block:
        block.madvise(mmap.MADV_HUGEPAGE)
        for i in range(0, WARM_BYTES, 4096):
            block[i] = 1


def print_row(workload, what, values, unit, limit, more_is_better=True, beside=""):
    median = statistics.median(values)
    is_met = median >= limit if more_is_better else median <= limit
    spread = f"{min(values):.5g} to {max(values):.5g}"
    relation = ">=" if more_is_better else "<="
    verdict = "met" if is_met else "MISSED"
    print(f"{workload:52} {what:28} {median:9.5g} {unit:9} {relation} {limit:<8.5g} {verdict:6}"
          f" ({spread}{beside})", flush=True)


MERGED = "-rate 10000 -runs 20000 -concurrency 5000 -latency lognormal:p50=50ms,p99=500ms"
MERGED_COUNT = 100


def merge_seconds():
    """Of results of one run with other seeds, since what it takes depends on their size only."""
    with tempfile.TemporaryDirectory() as folder:
        data = run(MERGED.split())
        paths = [os.path.join(folder, str(seed)) for seed in range(MERGED_COUNT)]
        for seed, path in enumerate(paths):
            data["config"]["seed"] = seed
            with open(path, "w", encoding="utf-8") as file:
                json.dump({key: data[key] for key in data if not key.endswith("_s")}, file,
                          separators=(",", ":"))
        kilobytes = os.path.getsize(paths[0]) / 1e3
        seconds_each = []
        for _ in range(ROUNDS):
            start = time.perf_counter()
            subprocess.run([BENCH, "merge", *paths], check=True, stdout=subprocess.DEVNULL)
            seconds_each.append(time.perf_counter() - start)
    return seconds_each, kilobytes


def instructions_a_run():
    """The difference of two counts, without the start; repeatable where time is not."""
    counts = []
    for runs in (10000, 30000):
        flags = f"-runs {runs} -concurrency 256 -threads 1 -loop epoll -quiet".split()
        with tempfile.TemporaryDirectory() as folder:
            valgrind = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out"]
            output = subprocess.run([*valgrind, BENCH, *flags], check=True, capture_output=True,
                                    text=True).stderr
        counts.append(int(output.split("Collected :")[1].split()[0]))
    return (counts[1] - counts[0]) / 20000


def main():
    values = {}
    for _ in range(ROUNDS):
        for workload in dict.fromkeys(figure[0] for figure in FIGURES):
            if workload == IDLE and IDLE in values:
                continue  # 10 s a run, and it hardly varies
            if workload in (STEP, STEP_ONE, MILLION):
                warm_memory()
            values.setdefault(workload, []).append(run(workload.split()))
    for workload, what, unit, limit, more_is_better, figure in FIGURES:
        figures = [figure(data) for data in values[workload]]
        print_row(workload, what, figures, unit, limit, more_is_better)
    pairs = zip(values[STEP], values[STEP_ONE])
    ratios = [runs_per_s(two) / runs_per_s(one) for two, one in pairs]
    print_row(STEP, "two threads over one", ratios, "x", 1.8)
    merges, kilobytes = merge_seconds()
    print_row(f"merge of {MERGED_COUNT} results", "whole process", merges, "s", 1, False,
              f"; {kilobytes:.0f} KB each")
    if shutil.which("valgrind") is not None:
        what = "instructions a run (callgrind, one thread, epoll)"
        print(f"{what:81} {instructions_a_run():9.0f}")


if __name__ == "__main__":
    main()
