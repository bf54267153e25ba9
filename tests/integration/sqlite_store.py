"""Looking into an SQLite store, and changing what must not be changed, beside bench."""

import contextlib
import ctypes
import json
import pathlib
import shutil
import sqlite3

from harness import Missing, expect

BEGIN, MODEL, ATTEMPT, TOOL, END = range(1, 6)
RUN_BITS = 40  # of a key: the campaign stands above


def key(run, campaign=1):
    return campaign << RUN_BITS | run


@contextlib.contextmanager
def opened(path):
    """One transaction; the files are left as bench leaves them: without a WAL."""
    connection = sqlite3.connect(path)
    try:
        yield connection
        connection.commit()
    finally:
        connection.close()


def records(path, campaign=1):
    """A run's records by its number: (kind, payload), in the order of seq."""
    found = {}
    with opened(path) as db:
        rows = db.execute("SELECT run, seq, kind, payload FROM records ORDER BY run, seq")
        for packed, seq, kind, payload in rows:
            if packed >> RUN_BITS != campaign:
                continue
            run = found.setdefault(packed & ((1 << RUN_BITS) - 1), [])
            expect(seq == len(run), f"run {packed}: seq {seq} behind {len(run)} records")
            run.append((kind, json.loads(payload)))
    return found


def unfinished(runs):
    return [run for run, steps in runs.items() if steps[-1][0] != END]


def copy_store(source, target):
    for suffix in ("", "-wal"):
        if pathlib.Path(source + suffix).exists():
            shutil.copyfile(source + suffix, target + suffix)


def contents(directory):
    return {path.name: path.read_bytes() for path in pathlib.Path(directory).iterdir()}


def chain(previous, payload):
    """The digest of a record as bench computes it; SQLite's integers are signed, and so is it."""
    try:
        library = ctypes.CDLL("libxxhash.so.0")
    except OSError as error:
        raise Missing("libxxhash is missing") from error
    digest = library.XXH3_64bits_withSeed
    digest.restype = ctypes.c_uint64
    digest.argtypes = (ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint64)
    value = digest(payload, len(payload), previous & (1 << 64) - 1)
    return value - (1 << 64) if value >= 1 << 63 else value


def digest_of(db, run, seq):
    return db.execute("SELECT digest FROM records WHERE run = ? AND seq = ?",
                      (key(run), seq)).fetchone()[0]


def payload_of(db, run, seq):
    return db.execute("SELECT payload FROM records WHERE run = ? AND seq = ?",
                      (key(run), seq)).fetchone()[0]


def put(db, run, seq, kind, payload):
    """A record whose digest is right, whatever it says."""
    digest = chain(digest_of(db, run, seq - 1), payload)
    db.execute("INSERT INTO records(run, seq, kind, digest, payload) VALUES(?, ?, ?, ?, ?)",
               (key(run), seq, kind, digest, payload))
