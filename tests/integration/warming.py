"""-warmup and -steady: what is measured, and what the result says of the rest."""

import json
import pathlib
import re
import tempfile

from harness import bench, check, expect, start, validate, without_warnings


def warmed(*arguments, code=0):
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory, "r.json")
        done = bench("-json", str(path), *arguments)
        expect(done.returncode == code, f"exit code {done.returncode}: {done.stderr!r}")
        result = json.loads(path.read_text())
        validate(result)
        return done, result


def check_sums(result):
    """Everything has been counted once: as measured, or as warm-up."""
    warmup, measured = result["result"]["warmup"], result["result"]
    runs = measured["runs_completed"] + warmup["runs_completed"]
    expect(result["store"]["records"] == 6 * runs, "records")
    expect(result["latency"]["response"]["count"] == measured["runs_completed"], "response")
    expect(result["latency"]["warmup"]["count"] == warmup["runs_completed"], "warm-up")
    rows = result["intervals"]
    expect(sum(row["runs_ended"] for row in rows) == runs, rows)
    kinds = [row["is_warmup"] for row in rows]
    expect(kinds == sorted(kinds, reverse=True) and set(kinds) == {True, False}, kinds)


@check
def warm_up_is_apart_from_what_is_measured():
    done, result = warmed("-runs", "300", "-warmup", "300ms", "-latency", "2ms", "-threads", "2",
                          "-progress", "100ms")
    check_sums(result)
    warmup = result["result"]["warmup"]
    expect(result["result"]["runs_completed"] == 300, result["result"])
    expect(warmup["is_over"] and warmup["elapsed_ns"] == 3e8 and warmup["steady"] is None, warmup)
    expect(result["config"]["warmup_ns"] == 3e8, result["config"])
    expect(re.search(rb"\nwarm-up: 300ms, \d+ runs that are not in the figures of runs, p50=",
                     done.stdout), done.stdout)
    expect(b" warmup=300ms" in done.stdout.splitlines()[0], done.stdout)


@check
def without_a_warm_up_there_is_none():
    done, result = warmed("-runs", "20")
    expect(result["result"]["warmup"] is None and result["latency"]["warmup"]["count"] == 0, "")
    expect(b"warm-up" not in done.stdout, done.stdout)


@check
def steady_state_begins_what_is_measured():
    """Any slope will do: it begins when the window is full, well before the bound."""
    done, result = warmed("-runs", "200", "-steady", "100%", "-warmup", "4s", "-rate", "500",
                          "-latency", "1ms")
    check_sums(result)
    warmup = result["result"]["warmup"]
    expect(warmup["steady"]["is_reached"] and warmup["elapsed_ns"] < 4e9, warmup)
    expect(warmup["steady"]["window_ns"] == 2e9 <= warmup["elapsed_ns"], warmup)
    expect(abs(warmup["steady"]["slope_ratio"]) <= 1, warmup)
    expect(result["result"]["runs_due"] == 200, result["result"])
    expect(re.search(rb"\nsteady state: after \S+ \(slope \S+% over 2s; at most 100% was asked "
                     rb"for\)\n", done.stdout), done.stdout)


@check
def steady_state_that_does_not_come_is_told():
    done, result = warmed("-runs", "200", "-steady", "0.0001%", "-warmup", "300ms", "-latency",
                          "1ms")
    steady = result["result"]["warmup"]["steady"]
    expect(not steady["is_reached"] and steady["slope_ratio"] is not None, steady)
    expect(result["result"]["runs_completed"] == 200, result["result"])
    expect(b"\nsteady state: not reached in 3" in done.stdout, done.stdout)
    expect("bench: warning: what is measured began without a steady state\n" ==
           without_warnings(done.stderr), done.stderr)
    done, result = warmed("-runs", "1", "-steady", "1%", "-warmup", "200ms", "-latency", "500ms",
                          "-quiet")
    expect(result["result"]["warmup"]["steady"]["slope_ratio"] is None, result["result"])
    expect(b" (too little has ended to tell)\n" in done.stdout, done.stdout)


@check
def failures_of_the_warm_up_are_told():
    with tempfile.TemporaryDirectory() as directory:
        latencies = pathlib.Path(directory, "latencies")
        latencies.write_text("1ms\n" * 500 + "500ms\n")
        done, result = warmed("-runs", "1", "-warmup", "500ms", "-latency", f"file:{latencies}",
                              "-timeout", "50ms", code=1)
        errors = result["result"]["warmup"]["errors"]
        expect(errors > 0, result["result"])
        if result["result"]["errors"] == 0:
            message = rb"bench: \d+ of \d+ runs of the warm-up did not complete; the first: run "
            expect(re.search(message, done.stderr), done.stderr)


@check
def objectives_wait_for_the_warm_up():
    """It is as slow as the rest, and ends nothing."""
    _, result = warmed("-warmup", "1200ms", "-latency", "1ms", "-slo-abort", "-slo", "max<1us",
                       "-slo-delay", "200ms", "-duration", "10m", code=99)
    expect(result["result"]["warmup"]["is_over"], result["result"])
    expect(result["result"]["runs_completed"] > 0, result["result"])
    expect(result["result"]["slo_abort"]["at_ns"] < 6e10, result["result"])


@check
def campaign_that_is_killed_in_its_warm_up_is_resumed():
    """How many runs were not begun, nobody knows: that of the warm-up were is no answer."""
    with tempfile.TemporaryDirectory() as directory:
        journal = f"sqlite:{directory}/runs.db"
        path = pathlib.Path(directory, "r.json")
        killed = start("-journal", journal, "-durability", "none", "-warmup", "10m", "-runs",
                       "100m", "-latency", "50ms", "-concurrency", "20", "-progress", "200ms")
        for line in killed.stderr:
            if re.search(rb" warm-up runs=[1-9]", line):
                break
        killed.kill()
        killed.communicate()
        done = bench("resume", "-journal", journal, "-json", str(path))
        expect(done.returncode == 0, done.stderr)
        result = json.loads(path.read_text())
        validate(result)
        expect(result["result"]["runs_resumed"] > 0, result["result"])
        expect(result["result"]["runs_not_begun"] == 0, result["result"])
        expect(result["result"]["warmup"] is None, result["result"])
        expect(bench("verify", "-journal", journal).returncode == 0, "verify")


@check
def nothing_due_after_an_end_that_is_learnt_is_run():
    """The next arrival, of three seconds later, has been drawn before the end is known."""
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory, "r.json")
        bench("-duration", "200ms", "-rate", "20/m", "-warmup", "500ms", "-steady", "100%", "-json",
              str(path))
        result = json.loads(path.read_text())["result"]
    expect(result["runs_started"] <= result["runs_due"], result)
    expect(result["elapsed_ns"] < 1.5e9, result)


@check
def threads_without_a_run_after_the_warmup_are_not_busy():
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory, "r.json")
        done = bench("-rate", "1", "-duration", "1s", "-warmup", "1s", "-threads", "2", "-json",
                     str(path))
        expect(done.returncode == 0, done.stderr)
        result = json.loads(path.read_text())["result"]
    expect(result["scheduler_busy_ratio"] < 0.5, result)


@check
def records_count_while_their_runs_go_on():
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory, "r.json")
        bench("-runs", "10", "-turns", "4", "-latency", "300ms", "-progress", "250ms", "-json",
              str(path))
        result = json.loads(path.read_text())
    records = [row["records"] for row in result["intervals"]]
    expect(sum(records) == result["store"]["records_acked"], records)
    expect(records[0] > 0 and records[2] > 0, records)
