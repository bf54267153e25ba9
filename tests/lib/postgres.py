#!/usr/bin/env python3
"""A Postgres cluster for the length of a test: made, started, hurt, stopped and removed.

As a module: `with Cluster() as cluster:`, then cluster.uri. As a script: runs a command with
BENCH_POSTGRES_URI set and exits with its status:

    postgres.py [--tcp] [--connections N] [--password TEXT] [--set NAME=VALUE]... [--optional]
                -- COMMAND...

With --optional the command runs without a server where none is installed.

Nothing outlives the process that made it, however that ends: the server gets SIGQUIT when its
parent dies, and a guard that waits for both removes the folder. The parent is a thread to the
kernel: start clusters from one that lives as long as they do. Postgres refuses to run as root; root
lends it the user postgres, or nobody.
"""

import argparse
import contextlib
import ctypes
import os
import pathlib
import pwd
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse

USER = "bench"
DATABASE = "bench"
LIMIT_S = 60
STOP_SIGNALS = {"fast": signal.SIGINT, "immediate": signal.SIGQUIT, "kill": signal.SIGKILL}
PR_SET_PDEATHSIG = 1

# Goes on when nobody holds the other end of its stdin any more, neither we nor a server process. A
# killed server leaves a System V segment behind, whose id is in the seventh line of its pid file.
GUARD = """
cat
set -- "$1" $(sed -n 7p "$1/data/postmaster.pid" 2>/dev/null)
[ $# -eq 3 ] && ipcrm -m "$3" 2>/dev/null
exec rm -rf -- "$1"
"""


class Missing(Exception):
    """Postgres is not installed."""


class Failed(Exception):
    """A program of Postgres failed; the text is what it said."""


def find_programs():
    """The folder of the newest server's programs."""
    def version(path):
        name = path.parent.name
        return float(name) if name.replace(".", "", 1).isdigit() else 0
    folders = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"), key=version, reverse=True)
    config = shutil.which("pg_config")
    if config:
        answer = subprocess.run([config, "--bindir"], capture_output=True, text=True, check=False)
        folders.append(pathlib.Path(answer.stdout.strip()))
    for folder in folders:
        if all((folder / name).exists() for name in ("initdb", "postgres", "psql", "pg_isready")):
            return folder
    raise Missing("no PostgreSQL server is installed (Debian: postgresql)")


def unprivileged():
    """Options of a process that is not root's, and the owner of its files."""
    if os.geteuid() != 0:
        return {}, None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            user = pwd.getpwnam(name)
            return ({"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []},
                    (user.pw_uid, user.pw_gid))
    raise Missing("no user to run PostgreSQL as: neither postgres nor nobody exists")


def environment(**more):
    """Ours without what libpq would read from it."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    env.update(more)
    return env


def die_with_parent(number):
    """For preexec_fn, which runs after the change of user that would clear the setting."""
    parent = os.getpid()

    def prepare():
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number)
        if os.getppid() != parent:
            os._exit(1)
    return prepare


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Cluster:
    """One server on a Unix socket in a folder of its own; with tcp=True on 127.0.0.1 as well, and
    then uri names that. `settings` are lines of postgresql.conf and win over ours."""

    def __init__(self, tcp=False, connections=100, password=None, settings=None):
        self.tcp = tcp
        self.password = password
        self.port = free_port() if tcp else 5432
        self.settings = {
            "listen_addresses": "127.0.0.1" if tcp else "",
            "max_connections": connections,
            "fsync": "on",
            "full_page_writes": "on",
            # Shared memory in files of the folder is gone with it, even after a SIGKILL.
            "dynamic_shared_memory_type": "mmap",
            **(settings or {}),
        }
        self.folder = None
        self.owner = (os.geteuid(), os.getegid())
        self.process = None
        self._programs = None
        self._as_user = {}
        self._guard = None
        self._hold = None
        self._alive = None

    def __enter__(self):
        self._programs = find_programs()
        self._as_user, owner = unprivileged()
        self.owner = owner or self.owner
        # A socket's path has room for 107 bytes, which a long TMPDIR would exceed.
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="bench-pg-", dir="/tmp"))
        try:
            self._start_guard()
            if owner:
                os.chown(self.folder, *owner)
            self._make(owner)
            self.start()
            self.psql(f"create database {DATABASE}", database="postgres")
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_):
        self.close()

    def start(self):
        """Returns when the server takes connections, which after a crash means has recovered."""
        assert self.process is None
        self._write_settings()
        # Each server process inherits the write end: at the read end's EOF the last is gone.
        self._alive, server_end = os.pipe()
        try:
            with open(self.folder / "log", "ab") as log:
                self.process = subprocess.Popen(
                    [self._programs / "postgres", "-D", self.folder / "data"], cwd=self.folder,
                    env=environment(), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                    start_new_session=True, preexec_fn=die_with_parent(signal.SIGQUIT),
                    pass_fds=(server_end, self._hold), **self._as_user)
        finally:
            os.close(server_end)
        deadline = time.monotonic() + LIMIT_S
        while self._run("pg_isready", "-q", "-d", self._uri("postgres"), check=False).returncode:
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.stop("kill")
                raise Failed(f"PostgreSQL does not start: {self.log()[-2000:]}")
            time.sleep(0.02)

    def stop(self, how="fast"):
        """`how`: fast ends sessions and writes a checkpoint; immediate is a crash that the server
        knows of, kill one that it does not. Returns when the last process has gone."""
        if self.process is None:
            return
        if self.process.poll() is None:
            self.process.send_signal(STOP_SIGNALS[how])
        try:
            self.process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        select.select([self._alive], [], [], LIMIT_S)
        os.close(self._alive)
        self.process = None

    def restart(self, how="fast"):
        self.stop(how)
        self.start()

    def close(self):
        """Stops and removes everything; the folder too."""
        if self._guard is None:
            return
        try:
            # What the cluster holds is thrown away: no checkpoint.
            self.stop("immediate")
        finally:
            os.close(self._hold)
            self._guard.wait()
            self._guard = None

    @property
    def uri(self):
        return self._uri(DATABASE)

    @property
    def pid(self):
        """The postmaster's."""
        return self.process.pid

    def log(self):
        return (self.folder / "log").read_text(errors="replace")

    def psql(self, sql, database=DATABASE):
        """What `sql` answers: a line a row, columns between bars."""
        return self._run("psql", "-XqAt", "-v", "ON_ERROR_STOP=1", "-d", self._uri(database),
                         "-c", sql).stdout.strip()

    def backends(self):
        """Process ids of all sessions but the one that asks."""
        return [int(pid) for pid in self.psql(
            "select pid from pg_stat_activity where backend_type = 'client backend'"
            " and pid <> pg_backend_pid()").split()]

    def terminate_backends(self):
        """Ends all other sessions, as an administrator would; returns how many."""
        return int(self.psql(
            "select count(*) filter (where pg_terminate_backend(pid)) from pg_stat_activity"
            " where backend_type = 'client backend' and pid <> pg_backend_pid()"))

    def _uri(self, database):
        secret = ":" + urllib.parse.quote(self.password, safe="") if self.password else ""
        if self.tcp:
            return f"postgresql://{USER}{secret}@127.0.0.1:{self.port}/{database}"
        folder = urllib.parse.quote(str(self.folder), safe="")
        return f"postgresql://{USER}{secret}@/{database}?host={folder}&port={self.port}"

    def _start_guard(self):
        guard_end, self._hold = os.pipe()
        try:
            self._guard = subprocess.Popen(["sh", "-c", GUARD, "guard", self.folder],
                                           stdin=guard_end, stdout=subprocess.DEVNULL,
                                           start_new_session=True)
        except BaseException:
            os.close(self._hold)
            self.folder.rmdir()
            raise
        finally:
            os.close(guard_end)

    def _make(self, owner):
        arguments = ["-D", self.folder / "data", "-U", USER, "--no-sync", "--no-locale",
                     "--encoding=UTF8"]
        if self.password:
            secret = self.folder / "password"
            secret.write_text(self.password + "\n")
            if owner:
                os.chown(secret, *owner)
            arguments += ["--auth=scram-sha-256", f"--pwfile={secret}"]
        else:
            arguments += ["--auth=trust"]
        # Its children outlive a killed initdb for a moment, and still write.
        self._run("initdb", *arguments, pass_fds=(self._hold,),
                  preexec_fn=die_with_parent(signal.SIGTERM), **self._as_user)

    def _write_settings(self):
        lines = {**self.settings, "port": self.port, "unix_socket_directories": self.folder}
        with open(self.folder / "data" / "postgresql.auto.conf", "w", encoding="utf-8") as file:
            for name, value in lines.items():
                quoted = str(value).replace("'", "''")
                file.write(f"{name} = '{quoted}'\n")

    def _run(self, program, *arguments, check=True, **options):
        done = subprocess.run([self._programs / program, *arguments], env=environment(),
                              cwd=self.folder, stdin=subprocess.DEVNULL, timeout=LIMIT_S,
                              capture_output=True, text=True, check=False, **options)
        if check and done.returncode != 0:
            raise Failed(f"{program}: {done.stderr.strip() or done.stdout.strip()}")
        return done


def run_command(command, uri=None):
    env = {**os.environ, "BENCH_POSTGRES_URI": uri} if uri else None
    try:
        child = subprocess.Popen(command, env=env, preexec_fn=die_with_parent(signal.SIGTERM))
    except OSError as error:
        print(f"postgres.py: {command[0]}: {error.strerror}", file=sys.stderr)
        return 127
    try:
        status = child.wait()
    except BaseException:
        child.terminate()
        child.wait()
        raise
    return status if status >= 0 else 128 - status


def main():
    parser = argparse.ArgumentParser(description="runs a command beside a throwaway Postgres")
    parser.add_argument("--tcp", action="store_true", help="listen on 127.0.0.1")
    parser.add_argument("--connections", type=int, default=100, help="max_connections")
    parser.add_argument("--password", help="ask for this one (scram-sha-256)")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE",
                        help="a line of postgresql.conf")
    parser.add_argument("--optional", action="store_true", help="run without one, too")
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()

    def leave(number, _):
        sys.exit(128 + number)
    # Ours even where a shell in the background has them ignored.
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, leave)
    settings = dict(line.split("=", 1) for line in arguments.set)
    try:
        with Cluster(arguments.tcp, arguments.connections, arguments.password,
                     settings) as cluster:
            return run_command(arguments.command, cluster.uri)
    except Missing as missing:
        if arguments.optional:
            print(f"postgres.py: {missing}", file=sys.stderr)
            return run_command(arguments.command)
        print(f"postgres.py: skipped: {missing}", file=sys.stderr)
        return 77
    except Failed as failed:
        print(f"postgres.py: {failed}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
