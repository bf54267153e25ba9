#!/usr/bin/env python3
"""kill -9 of the real program at random moments, and signals, on stores that outlive it.

usage: run.py BENCH        one line a case, then "N passed, N failed, N skipped"

After each kill the store is audited by `bench verify`; in the end it is resumed, and what the store
and the ledger then hold is counted here, by other means than bench's own. KILL_SEED=N draws other
moments; SIM_SEEDS=N takes N thousandths of the kills (1000).
"""

import collections
import json
import os
import pathlib
import random
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True  # a test run leaves nothing in the tree
TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TESTS / "integration"))
import harness  # noqa: E402
from clusters import own_cluster  # noqa: E402
from harness import (LIMIT_S, bench, check, expect, start,  # noqa: E402
                     without_warnings)
from sqlite_store import ATTEMPT, END, RUN_BITS, TOOL, copy_store  # noqa: E402

SEED = int(os.environ.get("KILL_SEED", "1"))
KILLS = max(6, 40 * int(os.environ.get("SIM_SEEDS", "1000")) // 1000)  # a store
RUN_MASK = (1 << RUN_BITS) - 1
SHAPE = ["-turns", "3", "-tools", "2", "-tool-effect", "ledger"]
LOAD = ["-runs", "100000", "-concurrency", "200", "-latency", "exp:2ms", *SHAPE]
# Most runs are still in their first turn when the first tool is called.
SLOW = ["-runs", "100000", "-concurrency", "100", "-latency", "uniform:1ms,10s", *SHAPE]
UNKNOWN = re.compile(r"bench: (\d+) of \d+ runs did not complete; the first: run \d+: tool call"
                     r" c\d+ was attempted and its result is not recorded: its outcome is"
                     r" unknown\n")


class Sqlite:
    """A store of some files in a folder."""

    def __init__(self, directory, shards):
        self.path = f"{directory}/store.db"
        self.shards = shards
        self.flags = ["-journal", f"sqlite:{self.path}"]
        self.flags_of_run = [*self.flags, "-shards", str(shards)]

    def ask(self, shard, sql):
        """Of a copy, since SQLite recovers what it opens, which is for bench to do."""
        with tempfile.TemporaryDirectory() as directory:
            copy_store(self.path + (f".{shard}" if shard else ""), f"{directory}/copy")
            connection = sqlite3.connect(f"{directory}/copy")
            try:
                return connection.execute(sql).fetchall()
            finally:
                connection.close()

    def campaigns(self):
        if not self.ask(0, "SELECT 1 FROM sqlite_master WHERE name = 'campaigns'"):
            return 0
        return self.ask(0, "SELECT count(*) FROM campaigns")[0][0]

    def records(self, campaign):
        """Of the kinds that are looked at: run, kind, payload."""
        for shard in range(self.shards):
            yield from self.ask(
                shard, f"SELECT run & {RUN_MASK}, kind, payload FROM records WHERE"
                f" run >> {RUN_BITS} = {campaign} AND kind >= {ATTEMPT} ORDER BY run, seq")


class Postgres:
    """A store in a server of its own."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.flags = self.flags_of_run = ["-journal", cluster.uri]

    def campaigns(self):
        if not self.cluster.psql("SELECT to_regclass('bench.campaigns')"):
            return 0
        return int(self.cluster.psql("SELECT count(*) FROM bench.campaigns"))

    def records(self, campaign):
        answer = self.cluster.psql(
            f"SELECT run & {RUN_MASK}, kind, convert_from(payload, 'UTF8') FROM bench.records_seq"
            f" WHERE run >> {RUN_BITS} = {campaign} AND kind >= {ATTEMPT} ORDER BY run, seq")
        for line in answer.splitlines():
            run, kind, payload = line.split("|", 2)
            yield int(run), int(kind), payload


def on_postgres(body):
    with own_cluster() as cluster, tempfile.TemporaryDirectory() as directory:
        body(Postgres(cluster), directory)


def on_sqlite(body, shards=1):
    with tempfile.TemporaryDirectory() as directory:
        body(Sqlite(directory, shards), directory)


# --- what bench says of a store ---

def verify(store, *more):
    """Campaigns, runs, ended and unfinished ones."""
    done = bench("verify", *store.flags, *more)
    stdout = done.stdout.decode()
    expect(done.returncode == 0, f"verify: {done.returncode}: {stdout!r} {done.stderr!r}")
    expect(stdout.endswith("\nfaults=0\n"), stdout)
    counts = re.match(r"journal=\w+ campaigns=(\d+) runs=(\d+) ended=(\d+)(?: \([^)]+\))?"
                      r" unfinished=(\d+)\n", stdout)
    return [int(count) for count in counts.groups()]


def check_resumed(returncode, stderr, result, unfinished, unknown):
    """`unknown`: runs that the store shows to have ended so."""
    stderr = without_warnings(stderr)
    figures = result["result"]
    expect(figures["runs_resumed"] == unfinished, f"{figures['runs_resumed']} of {unfinished}")
    expect(figures["outcomes"]["unknown"] == unknown, f"{figures['outcomes']}, not {unknown}")
    expect(figures["runs_completed"] == unfinished - unknown, "runs did not complete")
    expect(returncode == (1 if unknown else 0), f"exit code {returncode}: {stderr!r}")
    if unknown:
        said = UNKNOWN.fullmatch(stderr)
        expect(said and int(said[1]) == unknown, f"{unknown} are unknown: {stderr!r}")
    else:
        expect(stderr == "", stderr)
    counts = result["store"]
    expect(counts["records_refused"] == 0 and counts["records_unknown"] == 0, counts)
    expect(counts["records"] == counts["records_before"] + counts["records_acked"], counts)


# --- what the store and the ledger show ---

class Shown:
    """What is there of a campaign."""

    def __init__(self, store, campaign):
        self.attempts = set()
        self.results = collections.Counter()
        self.outcomes = {}
        for run, kind, payload in store.records(campaign):
            record = json.loads(payload)
            if kind == ATTEMPT:
                self.attempts.add((run, record["call"], record["attempt"]))
            elif kind == TOOL:
                self.results[run, record["call"]] += 1
            elif kind == END:
                expect(run not in self.outcomes, f"run {run} ended twice")
                self.outcomes[run] = record["outcome"]
        self.unknown = sum(outcome == "unknown" for outcome in self.outcomes.values())

    def check(self):
        """Unknown runs are those with a call that was attempted and has no result."""
        expect(max(self.results.values(), default=1) == 1, "a call has two results")
        called = {(run, call) for run, call, _ in self.attempts}
        expect(set(self.results) <= called, "a result without an attempt")
        unclear = {run for run, _ in called - set(self.results)}
        unknown = {run for run, outcome in self.outcomes.items() if outcome == "unknown"}
        expect(unclear == unknown, f"unknown: {len(unknown)}, unclear: {len(unclear)}")

    def check_ledger(self, path):
        """Each effect was declared, none happened twice, and each result has its effect."""
        lines = pathlib.Path(path).read_text().splitlines() if os.path.exists(path) else []
        happened = collections.Counter()
        for line in lines:
            run, call, attempt = line.split(" ")
            expect((int(run), call, int(attempt)) in self.attempts, f"undeclared: {line}")
            happened[int(run), call] += 1
        expect(max(happened.values(), default=1) == 1, "a call happened twice")
        expect(set(self.results) <= set(happened), "a result without an effect")


# --- kills ---

class Killer:
    """Kills a campaign, and its resumed ones, and lets the last one live."""

    def __init__(self, store, directory, draws):
        self.store = store
        self.directory = directory
        self.draws = draws
        self.campaign = 0
        self.kills = self.resumed = self.unknown = 0

    def kill(self, *arguments, until=None):
        """After 5 to 150 ms from the start, or from when the file at `until` holds something."""
        process = start(*arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + LIMIT_S
        while until and process.poll() is None and not (
                os.path.exists(until) and os.path.getsize(until)):
            expect(time.monotonic() < deadline, "nothing happens")
            time.sleep(0.001)
        time.sleep(self.draws.uniform(0.005, 0.150))
        process.kill()
        code = process.wait(LIMIT_S)
        if code == -signal.SIGKILL:
            self.kills += 1
        return code

    def play(self):
        """One campaign. Kills before there is one leave nothing to resume."""
        ledger = f"{self.directory}/ledger"
        pathlib.Path(ledger).unlink(missing_ok=True)
        until = ledger if self.draws.random() < 0.7 else None
        code = self.kill("run", *LOAD, "-seed", str(self.draws.randrange(1000)), "-ledger", ledger,
                         *self.store.flags_of_run, until=until)
        expect(code == -signal.SIGKILL, f"exit code {code}")
        if self.store.campaigns() == self.campaign:
            return
        self.campaign = self.store.campaigns()
        for _ in range(self.draws.choice((0, 1, 2, 3))):
            verify(self.store, "-campaign", str(self.campaign))
            code = self.kill("resume", *self.store.flags, "-ledger", ledger)
            expect(code in (-signal.SIGKILL, 0, 1), f"exit code {code}")
        self.finish(ledger)

    def finish(self, ledger):
        campaign = str(self.campaign)
        unfinished = verify(self.store, "-campaign", campaign)[3]
        unknown = Shown(self.store, self.campaign).unknown
        code, stderr, result = self.resume(ledger, "-campaign", campaign)
        shown = Shown(self.store, self.campaign)
        check_resumed(code, stderr, result, unfinished, shown.unknown - unknown)
        shown.check()
        shown.check_ledger(ledger)
        expect(verify(self.store, "-campaign", campaign)[3] == 0, "runs are unfinished")
        self.resumed += unfinished
        self.unknown += shown.unknown
        if self.campaign % 3 == 0:
            code, stderr, result = self.resume(ledger)
            check_resumed(code, stderr, result, 0, 0)

    def resume(self, ledger, *more):
        path = f"{self.directory}/r.json"
        done = bench("resume", *self.store.flags, "-ledger", ledger, "-json", path, *more)
        expect(done.returncode in (0, 1), f"exit code {done.returncode}: {done.stderr!r}")
        return done.returncode, done.stderr, json.loads(pathlib.Path(path).read_text())


def kill_many(store, directory, kills=KILLS):
    killer = Killer(store, directory, random.Random(SEED))
    try:
        while killer.kills < kills:
            killer.play()
    except Exception as reason:
        raise AssertionError(f"KILL_SEED={SEED}, after {killer.kills} kills, campaign"
                             f" {killer.campaign}: {reason}") from reason
    campaigns, runs, ended, unfinished = verify(store)
    expect(campaigns >= killer.campaign and runs == ended and unfinished == 0, "in the end")
    expect(killer.resumed > kills and killer.unknown > 0, "nothing was resumed, or unknown")
    print(f"     {killer.kills} kills, {campaigns} campaigns, {runs} runs,"
          f" {killer.resumed} resumed, {killer.unknown} of unknown outcome")


@check
def sqlite_survives_kills():
    on_sqlite(lambda store, directory: kill_many(store, directory, KILLS // 2))


@check
def sqlite_with_shards_survives_kills():
    on_sqlite(lambda store, directory: kill_many(store, directory, KILLS - KILLS // 2), shards=2)


@check
def postgres_survives_kills():
    on_postgres(kill_many)


# --- signals, and two at a time ---

def wait_for(path):
    deadline = time.monotonic() + LIMIT_S
    while not os.path.exists(path) or not os.path.getsize(path):
        expect(time.monotonic() < deadline, "nothing happens")
        time.sleep(0.001)


def interrupt(store, directory, number):
    """Leaves runs that the drain has not seen to their end."""
    ledger = f"{directory}/ledger"
    path = pathlib.Path(directory, "r.json")
    process = start("run", *SLOW, "-ledger", ledger, "-json", str(path), *store.flags_of_run)
    wait_for(ledger)
    process.send_signal(number)
    stdout, stderr = process.communicate(timeout=LIMIT_S)
    expect(process.returncode == 128 + number, f"exit code {process.returncode}: {stderr!r}")
    expect(b"\nnot valid: interrupted by " + number.name.encode() in stdout, stdout)
    result = json.loads(path.read_text())
    expect(result["validity"]["verdict"] == "invalid", result["validity"])
    abandoned = result["result"]["runs_abandoned"]
    counts = result["store"]
    campaigns, _, ended, unfinished = verify(store)
    expect(campaigns == 1 and unfinished == abandoned > 0, f"{unfinished}, not {abandoned}")
    expect(ended == result["result"]["runs_completed"], f"{ended} ended")
    expect(counts["records"] == counts["records_acked"] and counts["records_unknown"] == 0, counts)
    done = bench("resume", *store.flags, "-ledger", ledger, "-latency", "0", "-json", str(path))
    shown = Shown(store, 1)
    check_resumed(done.returncode, done.stderr, json.loads(path.read_text()), unfinished,
                  shown.unknown)
    shown.check()
    shown.check_ledger(ledger)
    expect(verify(store)[3] == 0, "runs are unfinished")


@check
def sqlite_is_clean_after_sigterm():
    on_sqlite(lambda store, directory: interrupt(store, directory, signal.SIGTERM))


@check
def postgres_is_clean_after_sigint():
    on_postgres(lambda store, directory: interrupt(store, directory, signal.SIGINT))


def resume_twice(store, directory, latency):
    """The one that comes second is refused, and the first is not hurt."""
    ledger = f"{directory}/ledger"
    killer = Killer(store, directory, random.Random(SEED))
    killer.kill("run", *SLOW, "-ledger", ledger, *store.flags_of_run, until=ledger)
    unfinished = verify(store)[3]
    path = pathlib.Path(directory, "r.json")
    first = start("resume", *store.flags, "-ledger", ledger, "-latency", latency, "-json",
                  str(path), "-progress", "100ms")
    expect(first.stderr.readline(), "it shows no progress")
    second = bench("resume", *store.flags, "-ledger", ledger)
    expect(second.returncode == 2, f"exit code {second.returncode}: {second.stderr!r}")
    expect(re.fullmatch(rb"bench: [^\n]+\n", second.stderr), second.stderr)
    expect(first.poll() is None, "the first has ended before the second was refused")
    _, stderr = first.communicate(timeout=LIMIT_S)
    said = b"".join(line for line in stderr.splitlines(True) if b" in-flight=" not in line)
    shown = Shown(store, 1)
    check_resumed(first.returncode, said, json.loads(path.read_text()), unfinished, shown.unknown)
    shown.check()
    shown.check_ledger(ledger)
    expect(verify(store)[3] == 0, "runs are unfinished")


@check
def second_resume_of_sqlite_is_refused():
    on_sqlite(lambda store, directory: resume_twice(store, directory, "500ms"))


@check
def second_resume_of_postgres_is_refused():
    """It is tried for two seconds, in which the sessions of a killed process would be gone."""
    on_postgres(lambda store, directory: resume_twice(store, directory, "1500ms"))


@check
def second_run_on_one_file_is_refused():
    def body(store, directory):
        path = f"{directory}/r.json"
        ledger = f"{directory}/ledger"
        first = start("run", "-runs", "400", "-concurrency", "200", "-latency", "300ms", *SHAPE,
                      "-ledger", ledger, "-json", path, *store.flags)
        wait_for(ledger)
        second = bench("run", "-runs", "10", *store.flags)
        expect(second.returncode == 2, f"exit code {second.returncode}: {second.stderr!r}")
        expect(re.fullmatch(rb"bench: [^\n]+\n", second.stderr), second.stderr)
        _, stderr = first.communicate(timeout=LIMIT_S)
        expect(first.returncode == 0, f"exit code {first.returncode}: {stderr!r}")
        expect(verify(store) == [1, 400, 400, 0], "the first was hurt")
        result = json.loads(pathlib.Path(path).read_text())
        expect(result["result"]["runs_completed"] == 400, "the first was hurt")
    on_sqlite(body)


if __name__ == "__main__":
    harness.begin()
    sys.exit(harness.finish())
