"""The open loop: the instrument shows what a closed loop hides."""

import json
import os
import pathlib
import re
import signal
import tempfile
import time

from clusters import own_cluster
from harness import NotApplicable, bench, blamed, check, expect, start, validate


def result_of(directory, disturb, *arguments):
    """The result of a run at a constant rate that is disturbed two seconds after its start."""
    path = pathlib.Path(directory, "r.json")
    process = start("-rate", "200", "-latency", "2ms", "-concurrency", "2000", "-json", str(path),
                    *arguments, is_judged=True)
    time.sleep(2)
    disturb(process)
    stdout, stderr = process.communicate(timeout=60)
    result = json.loads(path.read_text())
    validate(result)
    return process.returncode, stdout.decode(), result


@check
def stop_of_the_process_shows_in_the_response_time_only():
    """1.4 s of 10 s: the runs that were due meanwhile have waited, none has taken longer."""
    def stop(process):
        process.send_signal(signal.SIGSTOP)
        time.sleep(1.4)
        process.send_signal(signal.SIGCONT)
    with tempfile.TemporaryDirectory() as directory:
        code, stdout, result = result_of(directory, stop, "-duration", "10s")
        latency = result["latency"]
        expect(latency["response"]["count"] == 2000, latency["response"]["count"])
        expect(latency["response"]["p99_ns"] >= 1.2e9, latency["response"]["p99_ns"])
        expect(latency["service"]["p99_ns"] < 0.5e9, latency["service"]["p99_ns"])
        expect(latency["dispatch"]["p99_ns"] >= 1.2e9, latency["dispatch"]["p99_ns"])
        expect(code == 4, f"exit code {code}")
        expect("\nnot valid: runs were started late: the dispatch lag's p99 is 1." in stdout,
               stdout)


@check
def stall_of_the_store_shows_in_the_response_time():
    """And is none of the instrument's: neither late starts nor a rate that was missed are told."""
    def stall(_):
        backends = cluster.backends()
        for pid in backends:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(1)
        for pid in backends:
            os.kill(pid, signal.SIGCONT)
    with own_cluster() as cluster, tempfile.TemporaryDirectory() as directory:
        code, stdout, result = result_of(directory, stall, "-duration", "8s", "-journal",
                                         cluster.uri)
        expect(not blamed(result), f"exit code {code}: {stdout}")
        expect(result["latency"]["response"]["p99_ns"] >= 0.8e9, stdout)
        expect(result["latency"]["dispatch"]["p99_ns"] < 0.2e9, stdout)


@check
def schedule_does_not_depend_on_what_happens():
    """As many runs are due whatever they take, and those that wait for a slot are told."""
    with tempfile.TemporaryDirectory() as directory:
        due = set()
        for latency, concurrency in (("0", "1000"), ("100ms", "1000"), ("100ms", "20")):
            path = pathlib.Path(directory, "r.json")
            done = bench("-rate", "300", "-arrival", "poisson", "-duration", "2s", "-seed", "7",
                         "-latency", latency, "-concurrency", concurrency, "-json", str(path))
            result = json.loads(path.read_text())
            due.add(result["result"]["runs_due"])
            expect(result["result"]["runs_completed"] == result["result"]["runs_due"], done.stdout)
            expect((result["result"]["runs_queued"] > 100) == (concurrency == "20"), done.stdout)
        expect(len(due) == 1 and 500 <= due.pop() <= 700, "not the same schedule")


@check
def closed_loop_says_what_it_hides():
    done = bench("-runs", "10")
    expect(b"\nclosed loop: a run starts when another has ended" in done.stdout, done.stdout)


@check
def busy_scheduler_makes_the_measurement_invalid():
    """More than a thread can do; a closed loop that does all it can is a good one."""
    done = bench("-rate", "5m/s", "-runs", "300k", "-threads", "1", "-concurrency", "1000",
                 is_judged=True)
    expect(done.returncode == 4, f"exit code {done.returncode}: {done.stdout!r}")
    expect(b"not valid: a scheduler thread was busy for " in done.stdout, done.stdout)
    done = bench("-runs", "300k", "-threads", "1", "-concurrency", "1000")
    expect(done.returncode == 0, f"exit code {done.returncode}: {done.stdout!r}")


def measured(directory, *arguments):
    path = pathlib.Path(directory, "r.json")
    done = bench("-json", str(path), *arguments)
    result = json.loads(path.read_text())
    validate(result)
    expect(done.returncode == (4 if result["validity"]["reasons"] else 0), done.stderr)
    return result


@check
def rate_that_the_cap_misses_makes_the_measurement_invalid():
    """100 slots of 400 ms are 250 runs/s; the store has nothing to do with it."""
    with tempfile.TemporaryDirectory() as directory:
        result = measured(directory, "-rate", "500", "-duration", "2s", "-latency", "200ms",
                          "-concurrency", "100")
        whole = result["result"]
        expect(whole["offered_runs_per_s"] == 500 and whole["achieved_runs_per_s"] < 300, whole)
        reason, = blamed(result)
        expect(re.fullmatch(r"2\d\d\.\d+ runs/s were started of 500/s offered, and it was not the "
                            r"store's doing: -concurrency 100 is too low .*", reason), reason)


@check
def rate_that_the_store_misses_is_the_stores():
    """One run at a time and a sync for each record: no store holds 20,000 a second of these."""
    with tempfile.TemporaryDirectory() as directory:
        result = measured(directory, "-rate", "20000", "-runs", "2000", "-concurrency", "16",
                          "-journal", f"sqlite:{directory}/s.db")
        whole = result["result"]
        if whole["achieved_runs_per_s"] > 0.5 * whole["offered_runs_per_s"]:
            raise NotApplicable("the disk does not sync")
        expect(not [reason for reason in blamed(result) if "of 20000/s offered" in reason],
               result["validity"])
