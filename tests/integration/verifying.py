"""bench verify: what it finds in a store that was changed, and that it changes nothing itself."""

import os
import pathlib
import re
import signal
import socket
import sqlite3
import tempfile

from harness import Missing, bench, check, expect, start, LIMIT_S
from sqlite_store import (END, TOOL, contents, copy_store, digest_of, key, opened, payload_of, put)


def make_store(directory, *arguments):
    path = f"{directory}/good.db"
    done = bench("-runs", "20", "-journal", f"sqlite:{path}", *arguments)
    expect(done.returncode == 0, done.stderr)
    return path


def verify(path, *arguments):
    return bench("verify", "-journal", f"sqlite:{path}", *arguments)


def change_byte(db):
    payload = payload_of(db, 7, 3)
    changed = payload.replace(b"shipped", b"skipped")
    expect(changed != payload, "there is nothing to change")
    db.execute("UPDATE records SET payload = ? WHERE run = ? AND seq = 3", (changed, key(7)))


def change_digest(db):
    db.execute("UPDATE records SET digest = digest + 1 WHERE run = ? AND seq = 3", (key(7),))


def change_kind(db):
    db.execute("UPDATE records SET kind = 4 WHERE run = ? AND seq = 2", (key(7),))


def make_gap(db):
    db.execute("DELETE FROM records WHERE run = ? AND seq = 2", (key(7),))


def lose_the_beginning(db):
    db.execute("DELETE FROM records WHERE run = ? AND seq = 0", (key(7),))


def swap_payloads(db):
    """Of two runs at the same place: each would be a good record of the other."""
    ours, others = payload_of(db, 7, 3), payload_of(db, 8, 3)
    for run, payload in ((7, others), (8, ours)):
        db.execute("UPDATE records SET payload = ? WHERE run = ? AND seq = 3", (payload, key(run)))


def swap_records(db):
    for old, new in ((3, 99), (4, 3), (99, 4)):
        db.execute("UPDATE records SET seq = ? WHERE run = ? AND seq = ?", (new, key(7), old))


def put_after_end(db):
    put(db, 7, 6, END, payload_of(db, 7, 5))


def put_unreadable(db):
    db.execute("DELETE FROM records WHERE run = ? AND seq >= 3", (key(7),))
    put(db, 7, 3, TOOL, b'{"call":"c1","result":')


def end_before_the_answer(db):
    """All digests are right; but no run ends as completed behind a tool's result."""
    end = payload_of(db, 7, 5)
    db.execute("DELETE FROM records WHERE run = ? AND seq >= 4", (key(7),))
    put(db, 7, 4, END, end)


def end_twice(db):
    """Two records under one key, as only a store without its index could take."""
    index = db.execute("SELECT * FROM sqlite_master WHERE name = 'records_key'").fetchone()
    row = (key(7), 5, END, digest_of(db, 7, 5), payload_of(db, 7, 5))
    db.execute("PRAGMA writable_schema = ON")
    db.execute("DELETE FROM sqlite_master WHERE name = 'records_key'")
    db.commit()
    with opened(db.execute("PRAGMA database_list").fetchone()[2]) as other:
        other.execute("INSERT INTO records(run, seq, kind, digest, payload) VALUES(?, ?, ?, ?, ?)",
                      row)
        other.commit()
        other.execute("PRAGMA writable_schema = ON")
        other.execute("INSERT INTO sqlite_master VALUES(?, ?, ?, ?, ?)", index)


# What is done to run 7 of 20; the runs and seqs at which a fault is named, and which.
CHANGES = [
    (change_byte, [(7, 3, "digest")]),
    (change_digest, [(7, 3, "digest")]),
    (change_kind, [(7, 2, "payload")]),
    (make_gap, [(7, 3, "gap")]),
    (lose_the_beginning, [(7, 1, "gap")]),
    (swap_payloads, [(7, 3, "digest"), (8, 3, "digest")]),
    (swap_records, [(7, 4, "gap")]),
    (put_after_end, [(7, 6, "after end")]),
    (put_unreadable, [(7, 3, "payload")]),
    (end_before_the_answer, [(7, 4, "transition")]),
    (end_twice, [(7, 5, "duplicate")]),
]


@check
def verify_accepts_what_bench_wrote():
    with tempfile.TemporaryDirectory() as directory:
        path = make_store(directory, "-turns", "3", "-tools", "2")
        before = contents(directory)
        done = verify(path)
        expect(done.returncode == 0, done.stderr)
        expect(done.stderr == b"", done.stderr)
        pattern = (r"journal=sqlite campaigns=1 runs=20 ended=20 \(completed=20\) unfinished=0\n"
                   r"elapsed=\S+ records=260 \(\d+ records/s, \d+\.\d MB of payload\)\n"
                   r"faults=0\n")
        expect(re.fullmatch(pattern, done.stdout.decode()), done.stdout)
        expect(contents(directory) == before, "verify has changed the store")


@check
def verify_names_each_change():
    with tempfile.TemporaryDirectory() as directory:
        good = make_store(directory)
        for number, (change, faults) in enumerate(CHANGES):
            path = f"{directory}/{number}.db"
            copy_store(good, path)
            with opened(path) as db:
                change(db)
            done = verify(path)
            told = f"{change.__name__}: {done.stdout.decode()}{done.stderr.decode()}"
            expect(done.returncode == 1, f"exit code {done.returncode}: {told}")
            lines = done.stdout.decode().splitlines()
            found = [line for line in lines if line.startswith("fault: ")]
            expect(len(found) == len(faults), told)
            for line, (run, seq, name) in zip(found, faults):
                start = f"fault: campaign 1 run {run} seq {seq}: {name}: "
                expect(line.startswith(start) and len(line) > len(start), told)
            last = f"faults={len(faults)} ({faults[0][2]}={len(faults)})"
            if change is end_twice:  # nor can such a store have its index
                last += " (incomplete)"
                expect(b"the index of its records is not theirs" in done.stderr, told)
            expect(lines[-1] == last, told)


@check
def verify_names_records_of_no_campaign():
    with tempfile.TemporaryDirectory() as directory:
        path = make_store(directory)
        with opened(path) as db:
            db.execute("UPDATE records SET run = run + ? WHERE run IN (?, ?)",
                       (key(0, 7) - key(0), key(7), key(8)))
        done = verify(path)
        expect(done.returncode == 1, f"exit code {done.returncode}: {done.stdout!r}")
        expect(done.stderr == b"", done.stderr)
        lines = done.stdout.decode().splitlines()
        expect(lines[2:] == ["fault: campaign 7: 12 records of a campaign that the journal does not"
                             " list", "faults=1 (unlisted=1)"], lines)


@check
def verify_names_ten_faults_and_counts_the_others():
    with tempfile.TemporaryDirectory() as directory:
        path = make_store(directory)
        with opened(path) as db:
            db.execute("DELETE FROM records WHERE seq = 2")
        done = verify(path)
        expect(done.returncode == 1, f"exit code {done.returncode}: {done.stdout!r}")
        lines = done.stdout.decode().splitlines()
        expect(sum(line.startswith("fault: campaign 1 run ") for line in lines) == 10, lines)
        expect(lines[-2] == "… and 10 more runs with a fault", lines[-2])
        expect(lines[-1] == "faults=20 (gap=20)", lines[-1])


@check
def verify_of_a_store_in_use_is_refused():
    uri = os.environ.get("BENCH_POSTGRES_URI")
    with tempfile.TemporaryDirectory() as directory:
        for store in (f"sqlite:{directory}/s.db", uri):
            if store is None:
                raise Missing("no Postgres server: BENCH_POSTGRES_URI is not set")
            process = start("-duration", "10m", "-concurrency", "4", "-latency", "10ms",
                            "-journal", store, "-progress", "100ms")
            try:
                expect(process.stderr.readline(), "it shows no progress")
                done = bench("verify", "-journal", store)
                expect(done.returncode == 2, f"exit code {done.returncode}: {done.stderr!r}")
                expect(done.stdout == b"", done.stdout)
                expect(re.fullmatch(rb"bench: [^\n]+ in use[^\n]*\n", done.stderr), done.stderr)
            finally:
                process.kill()
                process.communicate(timeout=LIMIT_S)


@check
def verify_says_that_it_was_interrupted():
    """It waits for a server that does not answer."""
    for number in (signal.SIGINT, signal.SIGTERM):
        with tempfile.TemporaryDirectory() as directory, socket.socket(socket.AF_UNIX) as server:
            server.bind(f"{directory}/.s.PGSQL.5432")
            server.listen()
            server.settimeout(LIMIT_S)
            process = start("verify", "-journal", f"postgres://u@/d?host={directory}")
            connection, _ = server.accept()
            with connection:
                process.send_signal(number)
                stdout, stderr = process.communicate(timeout=LIMIT_S)
            code = process.returncode
            expect(code == 128 + number, f"exit code {code}: {stderr!r}")
            message = f"bench: interrupted by {number.name}: the audit is incomplete\n"
            expect(stderr.decode() == message, stderr)
            expect(stdout == b"", stdout)


@check
def verify_of_one_campaign():
    with tempfile.TemporaryDirectory() as directory:
        path = make_store(directory)
        make_store(directory)
        with opened(path) as db:
            change_byte(db)
        expect(verify(path).returncode == 1, "all campaigns: the first is faulty")
        expect(verify(path, "-campaign", "1").returncode == 1, "campaign 1 is faulty")
        done = verify(path, "-campaign", "2")
        expect(done.returncode == 0, done.stdout)
        expect(b"campaigns=1 runs=20 ended=20 " in done.stdout, done.stdout)
        done = verify(path, "-campaign", "3")
        expect(done.returncode == 2 and done.stdout == b"", done.stdout)
        expect(done.stderr == b"bench: the journal holds no campaign 3\n", done.stderr)


@check
def verify_that_cannot_read_on_does_not_say_good():
    with tempfile.TemporaryDirectory() as directory:
        path = make_store(directory, "-turns", "40")
        with opened(path) as db:
            page_bytes = db.execute("PRAGMA page_size").fetchone()[0]
            pages = db.execute("PRAGMA page_count").fetchone()[0]
        with open(path, "r+b") as file:  # the middle of what came first is the table's
            file.seek(pages // 3 * page_bytes)
            file.write(b"\xff" * (8 * page_bytes))
        done = verify(path)
        expect(done.returncode == 1, f"exit code {done.returncode}: {done.stdout!r}")
        message = rb"bench: the journal cannot be read to its end: [^\n]+\n"
        expect(re.fullmatch(message, done.stderr), done.stderr)
        last = done.stdout.decode().splitlines()[-1]
        expect(re.fullmatch(r"faults=\d+( \(.*\))? \(incomplete\)", last), last)


def make_foreign(path):
    with opened(path) as db:
        db.execute("CREATE TABLE records(run INTEGER, payload TEXT)")
        db.execute("INSERT INTO records VALUES(1, 'mine')")


@check
def what_is_no_store_is_refused_and_left_alone():
    with tempfile.TemporaryDirectory() as directory:
        foreign, text = f"{directory}/foreign.db", f"{directory}/text"
        make_foreign(foreign)
        pathlib.Path(text).write_text("SQLite format 3 is what this is not\n" * 100)
        before = contents(directory)
        for path in (foreign, text):
            for command in (["verify"], ["resume"], ["run", "-runs", "20"]):
                done = bench(*command, "-journal", f"sqlite:{path}")
                told = f"{command} {path}: {done.stderr!r}"
                expect(done.returncode == 2, f"exit code {done.returncode}: {told}")
                expect(done.stdout == b"", told)
                expect(re.fullmatch(rb"bench: [^\n]+\n", done.stderr), told)
                expect(contents(directory) == before, f"{told}: it was touched")
        with sqlite3.connect(foreign) as db:
            expect(db.execute("SELECT payload FROM records").fetchone() == ("mine",), "content")
        for command in ("verify", "resume"):
            done = bench(command, "-journal", f"sqlite:{directory}/none.db")
            expect(done.returncode == 2, f"{command}: exit code {done.returncode}")
            expect(not os.path.exists(f"{directory}/none.db"), f"{command} has made a store")


@check
def memory_has_nothing_to_read():
    for command in ("verify", "resume"):
        done = bench(command, "-journal", "memory")
        expect(done.returncode == 2, f"{command}: exit code {done.returncode}")
        expect(done.stderr == b"bench: journal memory keeps nothing once its process has ended\n",
               done.stderr)
