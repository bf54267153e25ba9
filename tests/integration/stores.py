"""Durable journals: what the report says of them, and that it is so."""

import json
import os
import pathlib
import re
import resource
import signal
import tempfile
import time

from harness import (Missing, bench, check, expect, start, validate, without_warnings,
                     LIMIT_S)
from sqlite_store import opened

STORE = re.compile(
    r"store: append p50=\S+ p99=\S+  commits=\d+ \(\S+ records, \S+\)  fsyncs=\d+"
    r"  bytes/run=\d+ wal=\d+ db=\d+ \(\d+(\.\d)?x\)")


def run(directory, name, *arguments, runs=2000):
    """Standard output and JSON of a campaign in a new SQLite store."""
    path = pathlib.Path(directory, f"{name}.json")
    done = bench("-runs", str(runs), "-journal", f"sqlite:{directory}/{name}.db", "-json",
                 str(path), *arguments)
    expect(done.returncode == 0, done.stderr)
    result = json.loads(path.read_text())
    validate(result)
    return done.stdout.decode(), result


@check
def sqlite_report_tells_the_cost():
    with tempfile.TemporaryDirectory() as directory:
        text, result = run(directory, "s")
        lines = [line for line in text.splitlines() if not line.startswith("warning: ")]
        expect(" journal=sqlite durability=power " in lines[0], lines[0])
        expect(", sqlite journal, durability=power; 12000 records)" in lines[1], lines[1])
        expect(lines[4].startswith("peak tasks="), text)
        expect(STORE.fullmatch(lines[5]) and len(lines[5]) <= 125, lines[5])
        expect(lines[7] == "errors=0" and len(lines) == 8, text)
        store = result["store"]
        with opened(f"{directory}/s.db") as db:
            sums = db.execute("SELECT count(*), sum(length(payload)) FROM records")
            count, size = sums.fetchone()
        expect(store["records"] == store["records_acked"] == count == 12000, store["records"])
        expect(store["records_bytes"] == store["logical_bytes"] == size, store["logical_bytes"])
        expect(store["logical_per_run_bytes"] == round(size / 2000), "logical bytes a run")
        expect(store["records_before"] == store["records_refused"] == 0, "before, refused")
        expect(store["campaign"] == 1 and store["run_id"] == "seq", "campaign")
        expect(store["io_is_servers"] is False, "io_is_servers")
        expect(1 <= store["commits"] <= store["batches"], f"{store['commits']} commits")
        expect(abs(store["records_per_commit"] * store["commits"] - 12000) < store["commits"],
               "records a commit")
        expect(store["syncs"] >= store["commits"], "power, and a commit without a sync")
        expect(store["wal_bytes"] > size, "a log that is smaller than what it holds")
        written = (store["wal_bytes"] + store["db_bytes"]) / size
        expect(abs(store["write_amplification"] - written) < 0.01, store["write_amplification"])
        config = result["config"]
        given = [config[name] for name in ("mode", "campaign", "tool_retry", "shards",
                                           "connections", "retry_for_ns")]
        expect(given == ["run", None, None, None, None, 30 * 10**9], given)


@check
def levels_differ_in_their_syncs():
    with tempfile.TemporaryDirectory() as directory:
        for level in ("process", "none"):
            text, result = run(directory, level, "-durability", level)
            expect(text.count(f"durability={level}") == 2, text)
            store = result["store"]
            expect(store["durability"] == level, store["durability"])
            expect(store["syncs"] < store["commits"] or store["commits"] < 3,
                   f"{level}: {store['syncs']} syncs for {store['commits']} commits")
            expect(level != "none" or store["syncs"] == 0, f"{level}: {store['syncs']} syncs")


@check
def memory_report_says_nothing_of_a_store():
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory, "r.json")
        done = bench("-runs", "20", "-json", str(path))
        expect(b"store:" not in done.stdout, done.stdout)
        result = json.loads(path.read_text())
        validate(result)
        for name in ("syncs", "wal_bytes", "db_bytes", "store_bytes", "commit_mean_ns",
                     "checkpoints", "write_amplification", "wal_per_run_bytes"):
            expect(result["store"][name] is None, f"{name} is {result['store'][name]}")
        for name in ("runs_resumed", "records_replayed", "recovery_ns", "journal_error"):
            expect(result["result"][name] is None, f"{name} is {result['result'][name]}")


@check
def shards_and_keys_show():
    with tempfile.TemporaryDirectory() as directory:
        text, result = run(directory, "s", "-shards", "3", "-run-id", "uuidv7")
        expect(text.splitlines()[0].endswith(" run-id=uuidv7 shards=3"), text)
        expect(result["store"]["run_id"] == result["config"]["run_id"] == "uuidv7", "run_id")
        expect(result["config"]["shards"] == 3, "shards")
        files = sorted(os.listdir(directory))
        expect(files == ["s.db", "s.db.1", "s.db.2", "s.json"], files)
        found = 0
        for name in files[:3]:
            with opened(f"{directory}/{name}") as db:
                found += db.execute("SELECT count(*) FROM uuid_records").fetchone()[0]
        expect(found == 12000, f"{found} records")
        uri = f"sqlite:{directory}/s.db"
        done = bench("verify", "-journal", uri)
        expect(done.returncode == 0 and b" runs=2000 ended=2000 " in done.stdout, done.stdout)
        done = bench("-runs", "20", "-journal", uri, "-json", f"{directory}/s.db.2")
        expect(done.returncode == 2 and b"must not name a file of the journal" in done.stderr,
               done.stderr)
        done = bench("-runs", "20", "-journal", uri, "-shards", "2")
        expect(done.returncode == 2 and b"has 3 shards, not 2" in done.stderr, done.stderr)


@check
def store_that_is_full_stops_the_campaign():
    """Files may not grow any more: what SQLite says is what the person reads."""
    limit = 1 << 20
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory, "r.json")
        done = bench("-runs", "20k", "-journal", f"sqlite:{directory}/s.db", "-json", str(path),
                     before=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
        expect(done.returncode == 1, f"exit code {done.returncode}")
        stderr = without_warnings(done.stderr)
        pattern = (r"bench: the journal stopped taking records: [^\n]+; \d+ of \d+ runs did not"
                   r" complete\n")
        expect(re.fullmatch(pattern, stderr), stderr)
        text = done.stdout.decode()
        expect(re.search(r"\nnot valid: the journal stopped taking records: ", text), text)
        expect(re.search(r"\nrecords: acked=\d+ refused=[1-9]\d* unknown=\d+\n", text), text)
        result = json.loads(path.read_text())
        validate(result)
        expect(result["store"]["records_refused"] > 0, "records_refused")
        expect(result["result"]["journal_error"], "journal_error")
        done = bench("verify", "-journal", f"sqlite:{directory}/s.db")
        expect(done.returncode == 0, done.stdout)


@check
def store_is_not_printed_into():
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory, "s.db")
        for command in ("run", "resume", "verify"):
            with open(path, "ab") as out:
                done = bench(command, "-journal", f"sqlite:{path}", stdout=out)
            expect(done.returncode == 2, f"{command}: exit code {done.returncode}")
            expect(b"standard output must not be a file of the journal" in done.stderr,
                   done.stderr)
            expect(path.read_bytes() == b"", "it was written to")


@check
def postgres_is_reported_as_a_server():
    uri = os.environ.get("BENCH_POSTGRES_URI")
    if not uri:
        raise Missing("no Postgres server: BENCH_POSTGRES_URI is not set")
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory, "r.json")
        done = bench("-runs", "500", "-journal", uri, "-connections", "2", "-durability",
                     "process", "-json", str(path))
        expect(done.returncode == 0, done.stderr)
        lines = done.stdout.decode().splitlines()
        expect(" journal=postgres durability=process " in lines[0], lines[0])
        expect(lines[0].endswith(" connections=2"), lines[0])
        expect(lines[5].startswith("store: append p50="), lines[5])
        expect(re.search(r" db=\d+ \(\d+(\.\d)?x, whole server\)$", lines[5]), lines[5])
        result = json.loads(path.read_text())
        validate(result)
        store = result["store"]
        expect(store["io_is_servers"] is True, "io_is_servers")
        expect(store["records"] == store["records_acked"] == 3000, store["records"])
        expect(store["wal_bytes"] > store["logical_bytes"], store["wal_bytes"])
        settings = store["settings"]
        expect({"server_version", "libpq_version", "fsync", "full_page_writes",
                "wal_compression"} <= set(settings), settings)
        expect(settings["synchronous_commit"] == "off", settings)
        campaign = str(store["campaign"])
        done = bench("verify", "-journal", uri, "-campaign", campaign)
        expect(done.returncode == 0 and b" runs=500 ended=500 " in done.stdout, done.stdout)
        done = bench("resume", "-journal", uri, "-campaign", campaign)
        expect(done.returncode == 0 and b"\nresumed=0 replayed=0 " in done.stdout, done.stdout)


@check
def store_that_is_renamed_is_told():
    with tempfile.TemporaryDirectory() as directory:
        uri = f"sqlite:{directory}/a.db"
        process = start("-duration", "1s", "-latency", "10ms", "-journal", uri)
        while process.poll() is None and not os.path.exists(f"{directory}/a.db-wal"):
            time.sleep(0.01)
        os.rename(f"{directory}/a.db", f"{directory}/b.db")
        _, stderr = process.communicate(timeout=20)
        expect(process.returncode == 1, f"exit code {process.returncode}: {stderr!r}")
        expect(b"a.db was deleted or renamed while it was written" in stderr, stderr)


@check
def disk_that_is_too_small_is_warned_of():
    warning = "bench: warning: 1000000000000 runs may take "
    for quiet in ([], ["-quiet"]):
        with tempfile.TemporaryDirectory() as directory:
            process = start("-runs", "1000000000000", "-concurrency", "10", "-journal",
                            f"sqlite:{directory}/s.db", *quiet)
            time.sleep(0.5)
            process.send_signal(signal.SIGINT)
            _, stderr = process.communicate(timeout=LIMIT_S)
            expect(process.returncode == 130, stderr)
            expect((warning in stderr.decode()) == (quiet == []), stderr)
