"""bench resume: runs that a kill -9 has cut off are finished, each step once.

The many kills are another test's; here each rule is seen once, from end to end.
"""

import collections
import json
import pathlib
import random
import re
import tempfile
import time

from harness import bench, check, expect, start, validate, LIMIT_S
from sqlite_store import (ATTEMPT, END, TOOL, contents, copy_store, key, opened, payload_of, put,
                          records, unfinished)

# Of such spread that runs are cut off at every step.
SLOW = ["-latency", "uniform:1ms,9ms", "-tool-latency", "uniform:1ms,9ms"]
LEDGER = ["-tool-effect", "ledger", "-ledger"]
LINE = re.compile(r"resumed=(\d+) replayed=(\d+) records unknown=(\d+) diverged=(\d+)"
                  r" completed=(\d+)(?: not begun=\d+)? recovery=\S+ \(\d+ runs/s, \d+ records/s\)")


def kill_in_full_swing(path, ledger, *arguments):
    """Starts far more runs than can be driven, and kills bench at a moment of chance."""
    process = start("-runs", "10m", "-concurrency", "100", "-journal", f"sqlite:{path}", *SLOW,
                    *LEDGER, str(ledger), *arguments)
    limit = time.monotonic() + LIMIT_S
    while not (ledger.exists() and ledger.stat().st_size > 2000):
        expect(process.poll() is None and time.monotonic() < limit, "it does not get going")
        time.sleep(0.01)
    time.sleep(random.uniform(0, 0.05))
    process.kill()
    process.communicate(timeout=LIMIT_S)


def verify(path):
    """Also of a store that was cut off, with a log beside it, nothing is changed."""
    before = contents(pathlib.Path(path).parent)
    done = bench("verify", "-journal", f"sqlite:{path}")
    expect(contents(pathlib.Path(path).parent) == before, "verify has changed the store")
    expect(done.returncode == 0, done.stdout.decode() + done.stderr.decode())
    return done.stdout.decode()


def resume(path, *arguments):
    return bench("resume", "-journal", f"sqlite:{path}", *arguments)


def numbers(done):
    """What the line of a resumed campaign says; it stands before the last."""
    lines = done.stdout.decode().splitlines()
    expect(len(lines) >= 2 and LINE.fullmatch(lines[-2]), done.stdout)
    names = ("resumed", "replayed", "unknown", "diverged", "completed")
    return dict(zip(names, map(int, LINE.fullmatch(lines[-2]).groups())))


def hold_against_ledger(runs, ledger):
    """Every tool record has its line in the ledger, and no attempt was made twice."""
    lines = ledger.read_text().splitlines()
    expect(len(lines) == len(set(lines)), "a call happened twice")
    happened = set(lines)
    for run, steps in runs.items():
        attempt = {}
        for kind, payload in steps:
            if kind == ATTEMPT:
                attempt[payload["call"]] = payload["attempt"]
            elif kind == TOOL:
                line = f"{run} {payload['call']} {attempt[payload['call']]}"
                expect(line in happened, f"no line {line}")
    attempts = {f"{run} {payload['call']} {payload['attempt']}" for run, steps in runs.items()
                for kind, payload in steps if kind == ATTEMPT}
    expect(happened <= attempts, f"not attempted: {sorted(happened - attempts)[:3]}")


def outcomes(runs):
    return collections.Counter(steps[-1][1]["outcome"] for steps in runs.values())


def expect_finished(path, ledger, was_cut_off, done):
    """All runs have ended, and the report tells of them as the store does."""
    told = numbers(done)
    runs = records(path)
    expect(unfinished(runs) == [], "runs are left unfinished")
    expect(told["resumed"] == len(was_cut_off), f"{told}: {len(was_cut_off)} were cut off")
    expect(told["diverged"] == 0, told)
    expect(told["unknown"] == outcomes(runs)["unknown"], f"{told}: {outcomes(runs)}")
    expect(told["unknown"] + told["completed"] == told["resumed"], told)
    expect(" unfinished=0\n" in verify(path), "verify says otherwise")
    hold_against_ledger(runs, ledger)
    again = resume(path, "-ledger", str(ledger))
    expect(again.returncode == 0, f"exit code {again.returncode}: {again.stderr!r}")
    expect(numbers(again)["resumed"] == 0, again.stdout)
    expect(b"not valid" not in again.stdout, again.stdout)
    expect(records(path) == runs, "there was nothing to do, and something was done")
    return told


@check
def killed_runs_are_finished_each_step_once():
    with tempfile.TemporaryDirectory() as directory:
        path, ledger = f"{directory}/s.db", pathlib.Path(directory, "ledger")
        kill_in_full_swing(path, ledger, "-turns", "3", "-tools", "2", "-seed", "7")
        verify(path)
        before = records(path)
        was_cut_off = unfinished(before)
        expect(was_cut_off, "nothing was cut off")
        done = resume(path, "-ledger", str(ledger), "-json", f"{directory}/r.json")
        told = expect_finished(path, ledger, was_cut_off, done)
        expect(done.returncode == (1 if told["unknown"] else 0), f"{done.returncode}: {told}")
        if told["unknown"]:
            message = rf"bench: {told['unknown']} of {told['resumed']} runs did not complete;" \
                      r" the first: run \d+: [^\n]+\n"
            expect(re.fullmatch(message, done.stderr.decode()), done.stderr)
        after = records(path)
        for run, steps in before.items():
            expect(after[run][:len(steps)] == steps, f"run {run}: what was recorded has changed")
            begin = steps[0][1]
            shape = (begin["seed"], begin["turns"], begin["tools"], begin["effect"])
            expect(shape == (7, 3, 2, "ledger"), f"run {run}: {shape}")
        result = json.loads(pathlib.Path(directory, "r.json").read_text())
        validate(result)
        config = result["config"]
        shape = [config[name] for name in ("mode", "campaign", "seed", "turns", "tools", "latency")]
        expect(shape == ["resume", 1, 7, 3, 2, "uniform:1ms,9ms"], shape)
        expect(config["tool_retry"] == "unknown=halt", config["tool_retry"])
        expect(result["result"]["runs_resumed"] == told["resumed"], "runs_resumed")
        expect(result["store"]["records_before"] == sum(map(len, before.values())), "before")
        expect(result["store"]["records"] == sum(map(len, after.values())), "records")


@check
def unknown_calls_are_tried_again_when_told_so():
    with tempfile.TemporaryDirectory() as directory:
        path, ledger = f"{directory}/s.db", pathlib.Path(directory, "ledger")
        kill_in_full_swing(path, ledger)
        was_cut_off = unfinished(records(path))
        halted, halted_ledger = f"{directory}/h.db", pathlib.Path(directory, "halted")
        copy_store(path, halted)
        halted_ledger.write_text(ledger.read_text())
        done = resume(halted, "-ledger", str(halted_ledger))
        unknown = expect_finished(halted, halted_ledger, was_cut_off, done)["unknown"]
        expect(unknown > 0, "of 100 runs not one stood in its tool call")

        done = resume(path, "-ledger", str(ledger), "-tool-retry", "unknown=retry")
        expect(done.returncode == 0, done.stderr)
        expect(b" tool-retry=unknown=retry resume of campaign=1\n" in done.stdout, done.stdout)
        told = expect_finished(path, ledger, was_cut_off, done)
        expect(told["unknown"] == 0, told)
        again = [run for run, steps in records(path).items()
                 if any(kind == ATTEMPT and payload["attempt"] == 2 for kind, payload in steps)]
        expect(len(again) == unknown, f"{len(again)} attempted again, {unknown} were unknown")


@check
def run_that_would_do_something_else_is_left_alone():
    """Its digests are right; but the request that its reply answers is not the one it makes."""
    with tempfile.TemporaryDirectory() as directory:
        path, ledger = f"{directory}/s.db", pathlib.Path(directory, "ledger")
        kill_in_full_swing(path, ledger)
        runs = records(path)
        run = next(run for run in unfinished(runs) if len(runs[run]) >= 2)
        with opened(path) as db:
            payloads = [payload_of(db, run, seq) for seq in range(len(runs[run]))]
            changed = re.sub(rb'"request":"\w+"', b'"request":"0123456789abcdef"', payloads[1])
            expect(changed != payloads[1], "there is nothing to change")
            payloads[1] = changed
            db.execute("DELETE FROM records WHERE run = ? AND seq >= 1", (key(run),))
            for seq in range(1, len(payloads)):
                put(db, run, seq, runs[run][seq][0], payloads[seq])
        before = records(path)
        for _ in range(2):  # once more: it stays unfinished
            done = resume(path, "-ledger", str(ledger), "-tool-retry", "unknown=retry")
            expect(done.returncode == 1, f"exit code {done.returncode}: {done.stderr!r}")
            expect(numbers(done)["diverged"] == 1, done.stdout)
            expect(f"runs did not complete; the first: run {run}: ".encode() in done.stderr,
                   done.stderr)
            after = records(path)
            expect(unfinished(after) == [run], f"unfinished: {unfinished(after)}")
            expect(after[run] == before[run], "it was touched")


@check
def campaign_to_resume_is_chosen():
    with tempfile.TemporaryDirectory() as directory:
        path, first = f"{directory}/s.db", pathlib.Path(directory, "first")
        kill_in_full_swing(path, first, "-turns", "3")
        kill_in_full_swing(path, pathlib.Path(directory, "second"))
        second_before = records(path, 2)
        expect(unfinished(second_before), "nothing was cut off")
        expect(resume(path, "-campaign", "3").returncode == 2, "there are two")
        done = resume(path, "-campaign", "1", "-ledger", str(first), "-concurrency", "7",
                      "-tool-retry", "unknown=retry")
        expect(done.returncode == 0, done.stderr)
        first_line = done.stdout.decode().splitlines()[0]
        expect(" concurrency=7 " in first_line and " turns=3 " in first_line, first_line)
        expect(first_line.endswith(" resume of campaign=1"), first_line)
        peak = int(re.search(r"peak tasks=(\d+) ", done.stdout.decode()).group(1))
        expect(1 <= peak <= 7, f"{peak} runs in flight")
        expect(unfinished(records(path, 1)) == [], "runs are left unfinished")
        hold_against_ledger(records(path, 1), first)
        expect(records(path, 2) == second_before, "the other campaign was touched")
        done = resume(path, "-ledger", f"{directory}/second", "-tool-retry", "unknown=retry")
        expect(done.stdout.decode().splitlines()[0].endswith(" resume of campaign=2"), done.stdout)
        expect(unfinished(records(path, 2)) == [], "the newest is the one that is resumed")


@check
def store_in_use_is_refused():
    with tempfile.TemporaryDirectory() as directory:
        path, ledger = f"{directory}/s.db", pathlib.Path(directory, "ledger")
        process = start("-duration", "10m", "-journal", f"sqlite:{path}", *SLOW, *LEDGER,
                        str(ledger))
        try:
            limit = time.monotonic() + LIMIT_S
            while not ledger.exists() or ledger.stat().st_size == 0:
                expect(time.monotonic() < limit, "it does not get going")
                time.sleep(0.01)
            for command in (["resume", "-ledger", str(ledger)], ["run", "-runs", "20"]):
                done = bench(*command, "-journal", f"sqlite:{path}")
                expect(done.returncode == 2, f"{command}: exit code {done.returncode}")
                expect(b" is in use by another process" in done.stderr, done.stderr)
                expect(done.stdout == b"", done.stdout)
        finally:
            process.kill()
            process.communicate(timeout=LIMIT_S)
        verify(path)


@check
def resume_needs_the_ledger_that_there_was():
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/s.db"
        done = bench("-runs", "20", "-journal", f"sqlite:{path}", *LEDGER, f"{directory}/l")
        expect(done.returncode == 0, done.stderr)
        done = resume(path)
        expect(done.returncode == 2, f"exit code {done.returncode}")
        message = b"bench: campaign 1 has -tool-effect ledger: it needs -ledger FILE\n"
        expect(done.stderr == message, done.stderr)
        done = resume(path, "-ledger", f"{directory}/mistyped")
        expect(done.returncode == 2, f"exit code {done.returncode}")
        message = "bench: -ledger: the ledger of a resumed campaign must be there, and there is" \
                  f" no {directory}/mistyped (see 'bench resume -help')\n"
        expect(done.stderr.decode() == message, done.stderr)
        expect(not pathlib.Path(directory, "mistyped").exists(), "it was made")
        done = bench("-runs", "20", "-journal", f"sqlite:{path}")
        expect(done.returncode == 0, done.stderr)
        done = resume(path, "-ledger", f"{directory}/l")
        expect(done.returncode == 2, f"exit code {done.returncode}")
        message = b"bench: -ledger is of no use: campaign 2 has -tool-effect noop\n"
        expect(done.stderr == message, done.stderr)
        expect(outcomes(records(path, 2)) == {"completed": 20}, "campaign 2")
        expect(all(len(steps) == 6 and steps[-1][0] == END for steps in records(path).values()),
               "campaign 1")


@check
def timeout_of_0_takes_the_limit_away():
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/s.db"
        done = bench("-runs", "20", "-journal", f"sqlite:{path}", "-timeout", "9s")
        expect(done.returncode == 0, done.stderr)
        for given, limit_s in (([], 9), (["-timeout", "0"], 0), (["-timeout=5s"], 5)):
            done = resume(path, *given, "-json", f"{directory}/r.json")
            expect(done.returncode == 0, done.stderr)
            config = json.loads(pathlib.Path(directory, "r.json").read_text())["config"]
            expect(config["timeout_ns"] == limit_s * 10**9, f"{given}: {config['timeout_ns']}")
            expect((b" timeout=" in done.stdout) == (limit_s > 0), done.stdout)
