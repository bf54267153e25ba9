#!/usr/bin/env python3
"""Measures what bench reaches on SQLite and Postgres beside a bare loop of the same rows.

Usage: scripts/perf_stores.py [BENCH] [ROUNDS]

The bare loops are plain C with the same schema and statements and no engine (tests/perf/): they are
given the batch and the payload that bench has just had on average, on the same disk, in the same
round. Every workload is run ROUNDS times (3), in pairs, and medians count. It is a benchmark, not a
test: a missed limit is printed, and the exit status is 0 all the same.

Stores are made in a folder below PERF_DIR (/var/tmp), which should be on a real disk.
"""

import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "lib"))
import postgres  # noqa: E402
from perf import BENCH, print_row, run  # noqa: E402

ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 3
BARE = os.path.join(os.path.dirname(BENCH), "tests", "perf")
MODEL_RECORDS_PER_S = 5000 / 0.1 * 6  # 5,000 runs in flight, two calls of 50 ms, six records
CONNECTIONS = 4


def bare(program, *arguments):
    output = subprocess.run([os.path.join(BARE, program), *map(str, arguments)], check=True,
                            capture_output=True, text=True).stdout
    return {key: float(value) for key, value in (pair.split("=") for pair in output.split())}


def records_per_s(result):
    return result["store"]["records_acked"] / (result["result"]["elapsed_ns"] / 1e9)


def batch_of(result):
    return max(1, round(result["store"]["records_per_commit"]))


def payload_of(result):
    return round(result["store"]["logical_bytes"] / result["store"]["records_acked"])


def fresh(folder, name):
    """The URI of a new SQLite store."""
    for path in pathlib.Path(folder).glob(name + "*"):
        path.unlink()
    return os.path.join(folder, name)


def beside(values):
    return f"; bare {statistics.median(values):.4g}"


def sqlite_pair(folder, arguments):
    path = fresh(folder, "bench.db")
    ours = run([*arguments.split(), "-journal", f"sqlite:{path}"])
    fresh(folder, "bench.db")
    loop = bare("bare_sqlite", "-rows", ours["store"]["records_acked"], "-batch", batch_of(ours),
                "-payload", payload_of(ours), fresh(folder, "bare.db"))
    fresh(folder, "bare.db")
    return ours, loop


def sqlite_figures(folder):
    main = "-runs 20000 -concurrency 5000 -latency 50ms"
    full = "-runs 100000 -concurrency 5000"
    single = "-runs 400 -concurrency 1"
    pairs = {w: [] for w in (main, full, single)}
    for _ in range(ROUNDS):
        for workload, found in pairs.items():
            found.append(sqlite_pair(folder, workload))
    for workload in (main, full):
        rates = [records_per_s(ours) for ours, _ in pairs[workload]]
        loops = [loop["rows_per_s"] for _, loop in pairs[workload]]
        limit = 0.85 * statistics.median(loops)
        if workload == main:
            limit = min(limit, 0.97 * MODEL_RECORDS_PER_S)
        print_row("sqlite " + workload, "throughput", rates, "records/s", limit,
                  beside=beside(loops))
    ratios, commits = [], []
    for ours, _ in pairs[full]:
        store = ours["store"]
        commit = (store["commit_mean_ns"] * store["commits"]
                  + store["checkpoint_mean_ns"] * store["checkpoints"]) / store["commits"]
        commits.append(store["commit_mean_ns"] / 1e6)
        ratios.append(ours["latency"]["append"]["p99_ns"] / commit)
    print_row("sqlite " + full, "append p99 / mean commit", ratios, "x", 3, False,
              f"; with its share of checkpoints; alone {statistics.median(commits):.3g} ms")
    ratios = [ours["latency"]["append"]["p50_ns"] / loop["commit_p50_ns"]
              for ours, loop in pairs[single]]
    bares = [loop["commit_p50_ns"] / 1e3 for _, loop in pairs[single]]
    print_row("sqlite " + single, "append p50 / bare commit", ratios, "x", 1.2, False,
              beside(bares) + " µs")


def postgres_figures(folder):
    workload = "-runs 100000 -concurrency 5000"
    rates, loops = [], []
    with postgres.Cluster() as cluster:
        for _ in range(ROUNDS):
            ours = run([*workload.split(), "-journal", cluster.uri,
                        "-connections", str(CONNECTIONS)])
            rates.append(records_per_s(ours))
            best = 0.0
            for form in ("slices", "copy"):
                for batch in (batch_of(ours), 5000 // CONNECTIONS):
                    loop = bare("bare_postgres", "-connections", CONNECTIONS, "-rows", 600000,
                                "-batch", batch, "-payload", payload_of(ours), "-form", form,
                                cluster.uri)
                    best = max(best, loop["rows_per_s"])
            loops.append(best)
    print_row("postgres " + workload, "throughput", rates, "records/s",
              0.8 * statistics.median(loops), beside=beside(loops))


def resume_figures(folder):
    """100,000 runs killed in their second model call, four records each, and resumed at once."""
    workload = "-runs 100000 -concurrency 100000 -latency 5s"
    rates, records = [], []
    for _ in range(ROUNDS):
        path = fresh(folder, "resume.db")
        with subprocess.Popen([BENCH, *workload.split(), "-journal", f"sqlite:{path}", "-quiet"],
                              stdout=subprocess.DEVNULL) as process:
            time.sleep(9)
            process.send_signal(signal.SIGKILL)
        result = run(["resume", "-journal", f"sqlite:{path}", "-latency", "1s"])["result"]
        rates.append(result["runs_resumed"] / (result["recovery_ns"] / 1e9))
        records.append(result["records_replayed"])
    print_row("sqlite resume of 100,000 unfinished runs", "recovery", rates, "runs/s", 100000,
              beside=f"; {statistics.median(records):.0f} records")
    fresh(folder, "resume.db")


def verify_figures(folder):
    path = fresh(folder, "verify.db")
    run(["-runs", "1670000", "-concurrency", "5000", "-journal", f"sqlite:{path}",
         "-durability", "none"])
    rates = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        subprocess.run([BENCH, "verify", "-journal", f"sqlite:{path}"], check=True,
                       stdout=subprocess.DEVNULL)
        rates.append(1670000 * 6 / (time.perf_counter() - start))
    print_row("sqlite verify of 10 million records", "whole process", rates, "records/s", 1e6)
    fresh(folder, "verify.db")


def resident_bytes(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        for line in file:
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
    return 0


def flat_memory_figure(folder):
    """10 GB of journal; resident memory at a fifth of it beside the most from there on."""
    path = fresh(folder, "flat.db")
    arguments = ["-runs", "320000", "-concurrency", "2000", "-reply-bytes", "16KB",
                 "-journal", f"sqlite:{path}", "-durability", "none", "-quiet"]
    samples = []
    with subprocess.Popen([BENCH, *arguments], stdout=subprocess.DEVNULL) as process:
        while process.poll() is None:
            size = sum(p.stat().st_size for p in pathlib.Path(folder).glob("flat.db*"))
            try:
                samples.append((size, resident_bytes(process.pid)))
            except (FileNotFoundError, ProcessLookupError):
                break
            time.sleep(0.2)
    written = max(size for size, _ in samples)
    early = [rss for size, rss in samples if written * 0.1 < size < written * 0.2]
    late = [rss for size, rss in samples if size >= written * 0.2]
    growth = max(late) / max(early)
    print_row(f"sqlite {written / 1e9:.1f} GB of journal", "resident memory, late/early",
              [growth], "x", 1.1, False, f"; {max(late) / 1e6:.0f} MB")
    fresh(folder, "flat.db")


def main():
    with tempfile.TemporaryDirectory(dir=os.environ.get("PERF_DIR", "/var/tmp")) as folder:
        sqlite_figures(folder)
        try:
            postgres_figures(folder)
        except postgres.Missing as missing:
            print(f"postgres: skipped: {missing}")
        resume_figures(folder)
        verify_figures(folder)
        flat_memory_figure(folder)


if __name__ == "__main__":
    main()
