"""A Postgres server whose disk is full: that of its tables, and that of its WAL."""

import ctypes
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

from clusters import DATABASE, own_cluster
from harness import Missing, NotApplicable, bench, check, expect

CLONE_NEWNS = 0x20000


class MayNotMount(Exception):
    """Only root mounts, and not in every container."""


def mount(*arguments):
    if subprocess.run(["mount", *arguments], capture_output=True, check=False).returncode != 0:
        raise MayNotMount


def run_in_own_mounts(part, place):
    """In a process whose mounts nobody else sees, and which ends with it."""
    libc = ctypes.CDLL(None, use_errno=True)
    receive, send = os.pipe()
    child = os.fork()
    if child == 0:
        text = b""
        try:
            if libc.unshare(CLONE_NEWNS) != 0:
                raise MayNotMount
            mount("--make-rprivate", "/")
            mount("-t", "tmpfs", "-o", "size=40m", "tmpfs", place)
            part(pathlib.Path(place))
        except BaseException as reason:  # pylint: disable=broad-except
            text = f"{type(reason).__name__}: {reason}".encode()
        finally:
            os.write(send, text[-4096:])
            os._exit(0)
    os.close(send)
    with open(receive, "rb") as pipe:
        text = pipe.read().decode(errors="replace")
    os.waitpid(child, 0)
    if text.startswith("MayNotMount"):
        raise NotApplicable("mounting a small file system is not allowed here")
    if text.startswith("Missing"):
        raise Missing(text)
    expect(text == "", text)


def fill_and_go_on(uri, place, restart):
    """What is refused is told as such; with more room the campaign is finished, and whole."""
    store = ["-journal", uri]
    done = bench("run", "-runs", "1m", "-concurrency", "500", "-latency", "1ms", "-retry-for", "2s",
                 *store)
    expect(done.returncode == 1, f"exit code {done.returncode}: {done.stderr!r}")
    told = re.search(rb"acked=(\d+) refused=(\d+) unknown=(\d+)", done.stdout)
    expect(told and int(told[1]) > 1000, f"{done.stdout!r} {done.stderr!r}")
    mount("-o", "remount,size=200m", place)
    restart()
    done = bench("verify", *store)
    there = re.search(rb"records=(\d+)", done.stdout)
    expect(done.returncode == 0 and there, f"{done.stdout!r} {done.stderr!r}")
    least = int(told[1])
    expect(least <= int(there[1]) <= least + int(told[3]), f"{told[0]!r}, but {there[0]!r}")
    done = bench("resume", "-latency", "1ms", "-tool-retry", "unknown=retry", *store)
    expect(done.returncode == 0, f"exit code {done.returncode}: {done.stdout!r} {done.stderr!r}")
    done = bench("verify", *store)
    expect(done.returncode == 0 and b" unfinished=0\n" in done.stdout, done.stdout)


def fill_tables(place):
    with own_cluster() as cluster:
        os.chown(place, *cluster.owner)
        cluster.psql(f"create tablespace small location '{place}'")
        cluster.psql(f"alter database {DATABASE} set tablespace small", "postgres")
        fill_and_go_on(cluster.uri, place, lambda: None)


def fill_wal(place):
    with own_cluster(settings={"min_wal_size": "32MB", "max_wal_size": "32MB"}) as cluster:
        cluster.stop()
        wal = cluster.folder / "data" / "pg_wal"
        moved = place / "wal"
        shutil.copytree(wal, moved)
        shutil.rmtree(wal)
        for path in (place, moved, *moved.rglob("*")):
            os.chown(path, *cluster.owner)
        wal.symlink_to(moved)
        (place / "ballast").write_bytes(bytes(8 << 20))
        cluster.start()
        fill_and_go_on(cluster.uri, place, lambda: cluster.restart("immediate"))


def with_small_disk(part):
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o755)
        run_in_own_mounts(part, directory)


@check
def postgres_whose_tables_have_no_room():
    with_small_disk(fill_tables)


@check
def postgres_whose_wal_has_no_room():
    with_small_disk(fill_wal)
