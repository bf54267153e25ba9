"""Where results go: files, devices, pipes and standard output, and what is refused up front."""

import json
import os
import pathlib
import re
import resource
import stat
import subprocess
import tempfile
import time

import harness
from harness import (NotApplicable, as_somebody, bench, check, expect, start, validate,
                     without_warnings, HELP, LIMIT_S)


@check
def json_on_standard_output():
    done = bench("-runs", "20", "-json", "-", "-seed", "18446744073709551615")
    expect(done.returncode == 0, done.stderr)
    result = json.loads(done.stdout)
    expect(without_warnings(done.stderr).endswith("errors=0\n"), "no summary on standard error")
    expect(result["config"]["seed"] == "18446744073709551615", "seed")
    validate(result)


@check
def json_replaces_a_file_and_keeps_its_mode():
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory, "r.json")
        link = pathlib.Path(directory, "link.json")
        path.write_text("old")
        path.chmod(0o640)
        link.symlink_to("r.json")
        expect(bench("-runs", "20", "-json", str(link)).returncode == 0, "exit code")
        expect(link.is_symlink(), "the link was replaced")
        expect(stat.S_IMODE(path.stat().st_mode) == 0o640, "mode")
        expect(json.loads(path.read_text())["schema"] == "bench.run/1", "content")


@check
def json_of_a_usage_error_leaves_the_file_alone():
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory, "r.json")
        path.write_text("old")
        expect(bench("-json", str(path), "-runs", "0").returncode == 2, "exit code")
        expect(path.read_text() == "old", "it was touched")


@check
def json_to_a_device_and_a_full_device():
    expect(bench("-runs", "20", "-json", "/dev/null").returncode == 0, "exit code")
    expect(stat.S_ISCHR(os.stat("/dev/null").st_mode), "/dev/null was replaced")
    done = bench("-runs", "20", "-json", "/dev/full")
    expect(done.returncode == 1, f"exit code {done.returncode}")
    expect(without_warnings(done.stderr) ==
           "bench: -json cannot be written: /dev/full: No space left on device\n", done.stderr)


@check
def path_that_is_not_utf8():
    with tempfile.TemporaryDirectory() as directory:
        path = os.fsencode(directory) + b"/\xff.json"
        expect(bench("-runs", "20", "-json", path).returncode == 0, "exit code")
        with open(path, "rb") as file:
            validate(json.load(file))


@check
def closed_pipe_is_silent():
    for arguments in (["-runs", "20"], ["-runs", "5000", "-json", "-"], ["-help"]):
        reader, writer = os.pipe()
        os.close(reader)
        process = start(*arguments, stdout=writer)
        os.close(writer)
        _, stderr = process.communicate(timeout=LIMIT_S)
        expect(process.returncode == 0, f"{arguments}: exit code {process.returncode}")
        expect(b"rror" not in stderr.replace(b"errors=0", b""), f"{arguments}: {stderr!r}")


@check
def full_standard_output_is_an_error():
    for arguments in (["-runs", "20"], ["-help"], ["-version"], ["-runs", "20", "-json", "-"]):
        with open("/dev/full", "wb") as full:
            process = start(*arguments, stdout=full)
            _, stderr = process.communicate(timeout=LIMIT_S)
        expect(process.returncode == 1, f"{arguments}: exit code {process.returncode}")
        lines = without_warnings(stderr).splitlines()
        message = "bench: standard output cannot be written: No space left on device"
        expect(lines[-1] == message, stderr)


@check
def closed_standard_output_is_refused():
    with tempfile.TemporaryDirectory() as directory:
        for arguments in ([], ["-json", "-"], ["-json", f"{directory}/f"]):
            process = start("-runs", "20", *arguments, stdout=None, before=lambda: os.close(1))
            _, stderr = process.communicate(timeout=LIMIT_S)
            expect(process.returncode == 2, f"{arguments}: exit code {process.returncode}")
            message = f"bench: standard output is not open for writing{HELP}\n"
            expect(stderr.decode() == message, stderr)
            expect(os.listdir(directory) == [], "files appeared")
    done = bench("-runs", "20", "-json", "-", before=lambda: os.close(2))
    expect(done.returncode == 2, f"standard error: exit code {done.returncode}")
    expect(done.stdout == b"", done.stdout)


LEDGER = ["-tool-effect", "ledger", "-ledger"]


def expect_refused(done, message, *more):
    expect(done.returncode == 2, f"exit code {done.returncode}: {done.stderr!r} {more}")
    expect(done.stdout == b"", f"{done.stdout!r} {more}")
    expect(done.stderr.decode() == f"bench: {message}{HELP}\n", f"{done.stderr!r} {more}")


@check
def place_that_only_looks_writable_is_refused():
    """To root, access(2) says yes to all of these."""
    places = [("/proc/x", "no file can be made in directory /proc: No such file or directory"),
              ("/dev/fd/77", "no file can be made in directory /proc/%d/fd: No such file or "
                             "directory")]
    for path, reason in places:
        for arguments in (["-json", path], [*LEDGER, path]):
            process = start("-runs", "20", *arguments)
            stdout, stderr = process.communicate(timeout=LIMIT_S)
            told = reason.replace("%d", str(process.pid))
            expect(process.returncode == 2, f"{path}: exit code {process.returncode}")
            expect(stdout == b"", stdout)
            flag = arguments[-2]
            expect(stderr.decode() == f"bench: {flag} cannot be written: {told}{HELP}\n", stderr)
    done = bench("-runs", "20", "-json", "/sys/x")
    expect(done.returncode == 2, f"/sys/x: exit code {done.returncode}")


@check
def removed_directory_is_refused():
    for arguments in (["-json", "f"], [*LEDGER, "f"]):
        with tempfile.TemporaryDirectory() as directory:
            inner = f"{directory}/inner"
            os.mkdir(inner)
            done = bench("-runs", "20", *arguments, cwd=inner, before=lambda: os.rmdir(inner))
            flag = arguments[-2]
            message = f"{flag} cannot be written: directory .: No such file or directory"
            expect_refused(done, message, flag)


@check
def another_users_file_in_a_sticky_directory_is_refused():
    if os.geteuid() != 0:
        raise NotApplicable("only root can be two users")
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o1777)
        path = pathlib.Path(directory, "f")
        path.write_text("old")
        path.chmod(0o666)
        try:
            done = bench("-runs", "20", "-json", str(path), **as_somebody())
        except PermissionError as error:
            raise NotApplicable("nobody may run bench where it is") from error
        message = f"-json cannot be written: {path} cannot be replaced: Operation not permitted"
        expect_refused(done, message)
        expect(path.read_text() == "old" and os.listdir(directory) == ["f"], "it was touched")


@check
def mounted_file_is_refused():
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/f"
        for name in ("f", "source"):
            pathlib.Path(directory, name).write_text("old")
        mount = ["unshare", "-m", "mount", "--bind", f"{directory}/source", path]
        try:
            done = subprocess.run(mount, capture_output=True, check=False)
        except FileNotFoundError as error:
            raise NotApplicable("unshare is missing") from error
        if done.returncode != 0:
            raise NotApplicable("mounting is not allowed")
        script = f'mount --bind {directory}/source {path} && exec "$0" "$@"'
        done = subprocess.run(["unshare", "-m", "sh", "-c", script, harness.BENCH, "-runs", "20",
                               "-json", path], capture_output=True, timeout=LIMIT_S, check=False)
        expect_refused(done, f"-json cannot be written: {path} cannot be replaced: Device or "
                             "resource busy")


@check
def ledger_in_a_directory_that_is_not_writable():
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory, "ledger")
        path.write_text("before\n")
        path.chmod(0o666)
        os.chmod(directory, 0o555)
        try:
            done = bench("-runs", "20", *LEDGER, str(path), **as_somebody())
        except PermissionError as error:
            raise NotApplicable("nobody may run bench where it is") from error
        finally:
            os.chmod(directory, 0o755)
        expect(done.returncode == 0, done.stderr)
        expect(len(path.read_text().splitlines()) == 21, "lines are missing")


@check
def terminal_that_is_not_there_is_refused():
    for arguments in (["-json", "/dev/tty"], [*LEDGER, "/dev/tty"]):
        done = bench("-runs", "20", *arguments, start_new_session=True)
        flag = arguments[-2]
        message = f"{flag} cannot be written: /dev/tty: No such device or address"
        expect_refused(done, message)


@check
def pipe_without_a_reader_is_refused():
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/pipe"
        os.mkfifo(path)
        for arguments in (["-json", path], [*LEDGER, path]):
            done = bench("-runs", "20", *arguments)
            flag = arguments[-2]
            expect_refused(done, f"{flag} cannot be written: nobody reads the pipe {path}")


@check
def pipe_with_a_reader_is_written():
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/pipe"
        os.mkfifo(path)
        for arguments in (["-json", path], [*LEDGER, path]):
            reader = subprocess.Popen(["cat", path], stdout=subprocess.PIPE)
            done = None
            for _ in range(100):  # until cat has opened it
                done = bench("-runs", "20", *arguments)
                if done.returncode != 2:
                    break
                time.sleep(0.02)
            text = reader.communicate(timeout=LIMIT_S)[0]
            expect(done.returncode == 0, done.stderr)
            if arguments[0] == "-json":
                validate(json.loads(text))
            else:
                expect(len(text.splitlines()) == 20, text)


@check
def file_that_reaches_its_limit_is_an_error():
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (200, 200))
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/f"
        done = bench("-runs", "20", "-json", path, before=limit)
        expect(done.returncode == 1, f"exit code {done.returncode}")
        message = f"bench: -json cannot be written: {path}: File too large\n"
        expect(without_warnings(done.stderr) == message, done.stderr)
        expect(os.listdir(directory) == [], f"left behind: {os.listdir(directory)}")
        expect(done.stdout.endswith(b"errors=0\n"), done.stdout)


@check
def dangling_link_is_followed():
    with tempfile.TemporaryDirectory() as directory:
        link = pathlib.Path(directory, "link")
        target = pathlib.Path(directory, "target")
        link.symlink_to("target")
        done = bench("-runs", "20", "-json", str(link), *LEDGER, str(target))
        expect_refused(done, "-json and -ledger must not name the same file")
        expect(os.listdir(directory) == ["link"], "files appeared")
        expect(bench("-runs", "20", "-json", str(link)).returncode == 0, "exit code")
        expect(link.is_symlink(), "the link was replaced")
        validate(json.loads(target.read_text()))


@check
def output_must_not_be_an_input():
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory, "list")
        link = pathlib.Path(directory, "link")
        path.write_text("")
        link.symlink_to("list")
        lists = {"-latency": "1ms\n2ms\n", "-tool-latency": "1ms\n2ms\n",
                 "-prompt-bytes": "1KB\n2KB\n", "-reply-bytes": "1KB\n2KB\n"}
        for name in (path, link):
            for output in (["-json", str(name)], [*LEDGER, str(name)]):
                for flag, values in lists.items():
                    path.write_text(values)
                    done = bench("-runs", "20", flag, f"file:{path}", *output)
                    message = f"{output[-2]} must not name the list that {flag} reads"
                    expect_refused(done, message)
                    expect(path.read_text() == values, "the list was touched")


@check
def output_must_not_be_the_store():
    """Its files are those of all shards that there may be, with their logs, and before they are
    there: SQLite would take over what it finds, or lose it."""
    with tempfile.TemporaryDirectory() as directory:
        uri = f"sqlite:{directory}/x.db"
        for made in (False, True):
            if made:
                done = bench("-runs", "20", "-journal", uri, "-shards", "2")
                expect(done.returncode == 0, done.stderr)
            before = sorted(os.listdir(directory))
            for ending in ("", "-wal", "-shm", "-journal", ".1", ".1-wal", ".63"):
                path = f"{directory}/./x.db{ending}"
                for output in (["-json", path], [*LEDGER, path]):
                    done = bench("-runs", "20", "-journal", uri, *output)
                    expect_refused(done, f"{output[-2]} must not name a file of the journal:"
                                         f" {path}, of -journal {uri}")
            expect(sorted(os.listdir(directory)) == before, "something was touched")
        expect(bench("verify", "-journal", uri).returncode == 0, "the store was hurt")


@check
def output_must_not_be_a_standard_stream():
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory, "f")
        message = "-json must not name what standard output is"
        for output in (["-json", str(path)], [*LEDGER, str(path)]):
            flag = output[-2]
            with open(path, "w") as file:
                done = bench("-runs", "20", *output, stdout=file)
            message = f"{flag} must not name what standard output is"
            expect(done.returncode == 2, f"exit code {done.returncode}")
            expect(done.stderr.decode() == f"bench: {message}{HELP}\n", done.stderr)
            expect(path.read_text() == "", "it was written")
            with open(path, "w") as file:
                done = bench("-runs", "20", *output, stderr=file)
            message = f"{flag} must not name what standard error is"
            expect(done.returncode == 2, f"exit code {done.returncode}")
            expect(path.read_text() == f"bench: {message}{HELP}\n", path.read_text())
        message = "-json must not name what standard output is"
        expect_refused(bench("-runs", "20", "-json", "/dev/stdout"), message)
        with open("/dev/null", "w") as null:
            done = bench("-runs", "20", "-json", "/dev/null", stdout=null)
        expect(done.returncode == 0, done.stderr)


@check
def machine_that_has_too_little_is_refused():
    """What cannot be opened has not been started: no report, no file."""
    def limit():
        resource.setrlimit(resource.RLIMIT_NOFILE, (8, 8))
    with tempfile.TemporaryDirectory() as directory:
        for loop in ("epoll", "io_uring"):
            done = bench("-runs", "20", "-threads", "8", "-concurrency", "20", "-loop", loop,
                         "-json", f"{directory}/f", *LEDGER, f"{directory}/l", before=limit)
            expect(done.returncode == 2, f"{loop}: exit code {done.returncode}: {done.stderr!r}")
            expect(done.stdout == b"", done.stdout)
            expect(re.fullmatch(rb"bench: [^\n]+\n", done.stderr), done.stderr)
            expect(os.listdir(directory) == [], f"left behind: {os.listdir(directory)}")
