#!/usr/bin/env python3
"""Runs the built bench and looks at exit codes, messages, reports and files.

usage: run.py BENCH        one line a case, then "N passed, N failed, N skipped"

What needs nothing but arguments is a row in cases.py: arguments, and what bench says to them. What
needs more, such as signals and closed pipes, is a function below, marked @check.
"""

import json
import os
import pathlib
import pty
import re
import signal
import stat
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True  # a test run leaves nothing in the tree
from cases import GOOD, USAGE_ERRORS  # noqa: E402

try:
    import jsonschema
except ImportError:
    jsonschema = None

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SCHEMA = ROOT / "docs" / "bench.run.schema.json"
LIMIT_S = 60
HELP = " (see 'bench -help')"

CHECKS = []
passed = failed = skipped = 0


class Missing(Exception):
    """A tool of the tests is not installed: a skip that everybody sees, a failure in CI."""


class NotApplicable(Exception):
    """This build cannot show it."""


def check(function):
    CHECKS.append(function)
    return function


def expect(condition, text):
    if not condition:
        raise AssertionError(text)


def environment(**more):
    env = {k: v for k, v in os.environ.items() if k not in ("TERM", "NO_COLOR")}
    env.update(more)
    return env


def default_signals():
    """A shell that runs us in the background ignores SIGINT, and what is ignored is inherited."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def bench(*arguments, **options):
    options.setdefault("env", environment())
    return subprocess.run([BENCH, *arguments], capture_output=True, timeout=LIMIT_S,
                          preexec_fn=default_signals, check=False, **options)


def start(*arguments, before=default_signals, **options):
    options.setdefault("stdout", subprocess.PIPE)
    options.setdefault("stderr", subprocess.PIPE)
    options.setdefault("env", environment())
    return subprocess.Popen([BENCH, *arguments], preexec_fn=before, **options)


def without_warnings(stderr):
    """A machine without io_uring says so; that is no failure."""
    return "".join(line for line in stderr.decode().splitlines(True)
                   if not line.startswith("bench: warning: loop="))


def check_usage_error(arguments, message):
    with tempfile.TemporaryDirectory() as directory:
        fill = lambda text: text.replace("{dir}", directory)
        done = bench(*[fill(a) for a in arguments])
        expect(done.returncode == 2, f"exit code {done.returncode}, not 2: {done.stderr!r}")
        expect(done.stdout == b"", f"standard output is not empty: {done.stdout!r}")
        stderr = done.stderr.decode()
        if isinstance(message, str):
            expect(stderr == f"bench: {fill(message)}{HELP}\n", f"standard error is {stderr!r}")
        else:
            pattern = "bench: " + message.pattern + re.escape(HELP) + r"\n"
            expect(re.fullmatch(pattern, stderr), f"standard error is {stderr!r}")
        expect(os.listdir(directory) == [], f"files appeared: {os.listdir(directory)}")


def check_good(arguments, pattern):
    done = bench(*arguments)
    expect(done.returncode == 0, f"exit code {done.returncode}: {done.stderr!r}")
    stdout = done.stdout.decode()
    expect(re.fullmatch(pattern, stdout), f"standard output is {stdout!r}")
    expect(without_warnings(done.stderr) == "", f"standard error is {done.stderr!r}")


def validate(result):
    if jsonschema is None:
        raise Missing("python3-jsonschema is missing")
    schema = json.loads(SCHEMA.read_text())
    validator = jsonschema.Draft7Validator(schema)
    for error in validator.iter_errors(result):
        raise AssertionError(f"{'/'.join(map(str, error.path))}: {error.message[:200]}")
    for name, hist in result["latency"].items():
        uppers = [upper for upper, _ in hist["buckets"]]
        samples = sum(count for _, count in hist["buckets"])
        expect(samples == hist["count"], f"{name}: buckets do not add up")
        expect(uppers == sorted(set(uppers)), f"{name}: buckets are not ascending")


@check
def help_fits_a_screen():
    lines = bench("-help").stdout.decode().splitlines()
    expect(len(lines) <= 40, f"{len(lines)} lines")
    expect(max(map(len, lines)) <= 80, "a line of more than 80 columns")
    flags = """runs duration concurrency latency journal durability threads loop seed timeout turns
               tools tool-latency tool-effect ledger json progress quiet version help"""
    for flag in flags.split():
        expect(any(line.startswith(f"  -{flag} ") for line in lines), f"-{flag} is missing")


@check
def json_file_is_valid():
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/r.json"
        done = bench("-runs", "2000", "-latency", "1ms", "-json", path)
        expect(done.returncode == 0, done.stderr)
        result = json.loads(pathlib.Path(path).read_text())
        expect(os.listdir(directory) == ["r.json"], f"left behind: {os.listdir(directory)}")
        expect(result["result"]["runs_completed"] == 2000, "runs are missing")
        expect(result["store"]["records"] == 12000, "records are missing")
        expect(result["validity"] == {"verdict": "valid", "reasons": []}, "not valid")
        response = result["latency"]["response"]
        expect(response["p50_ns"] >= 2000000, "p50 is below two model calls")
        expect(response["p999_ns"] is None, "p999 of 2000 runs has no ten samples beyond")
        expect(done.stdout.decode().endswith("errors=0\n"), "no summary on standard output")
        validate(result)


@check
def golden_json_is_valid():
    files = sorted((ROOT / "tests" / "golden").glob("*.json"))
    expect(len(files) >= 3, "golden files are missing")
    for file in files:
        validate(json.loads(file.read_text()))


@check
def schema_is_strict():
    result = json.loads((ROOT / "tests" / "golden" / "report_good.json").read_text())
    validate(result)
    schema = json.loads(SCHEMA.read_text())
    jsonschema.Draft7Validator.check_schema(schema)
    for path in ([], ["result"], ["config"], ["latency"], ["latency", "lag"]):
        for change in ("more", "less"):
            changed = json.loads(json.dumps(result))
            part = changed
            for key in path:
                part = part[key]
            if change == "more":
                part["surplus"] = 1
            else:
                part.pop(next(iter(part)))
            is_valid = jsonschema.Draft7Validator(schema).is_valid(changed)
            expect(not is_valid, f"{change} in {path} is accepted")


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
def failed_runs_are_reported():
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/r.json"
        done = bench("-runs", "100", "-latency", "50ms", "-timeout", "5ms", "-json", path)
        stdout = done.stdout.decode()
        expect(done.returncode == 1, f"exit code {done.returncode}")
        pattern = (
            r"\nfailed run latency: p50=\S+ p90=\S+ p99=- max=\S+ \(timeout=100\)\nerrors=100\n$"
        )
        expect(re.search(pattern, stdout), stdout)
        stderr = without_warnings(done.stderr)
        pattern = r"bench: 100 of 100 runs did not complete; the first: .+\n"
        expect(re.fullmatch(pattern, stderr), stderr)
        result = json.loads(pathlib.Path(path).read_text())
        expect(result["result"]["outcomes"]["timeout"] == 100, "outcomes")
        expect(result["latency"]["failed"]["count"] == 100, "histogram of failed runs")
        expect(result["validity"]["verdict"] == "invalid", "no run completed, yet it is valid")
        validate(result)


@check
def file_distribution_is_read_and_checked():
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory, "values")
        path.write_text("1ms\n2ms\n")
        expect(bench("-runs", "20", "-latency", f"file:{path}").returncode == 0, "good file")
        for text in ("", "1ms\nx\n", "5\n"):
            path.write_text(text)
            done = bench("-runs", "20", "-latency", f"file:{path}")
            expect(done.returncode == 2, f"{text!r}: exit code {done.returncode}")
            is_one_line = re.fullmatch(rb"bench: -latency [^\n]+\n", done.stderr)
            expect(is_one_line, f"{text!r}: {done.stderr!r}")


@check
def ledger_counts_every_tool_call():
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory, "ledger")
        path.write_text("before\n")
        done = bench("-runs", "50", "-turns", "3", "-tools", "2", "-tool-effect", "ledger",
                     "-ledger", str(path))
        expect(done.returncode == 0, done.stderr)
        lines = path.read_text().splitlines()
        expect(lines[0] == "before", "it does not append")
        expect(len(lines) == 1 + 50 * 2 * 2, f"{len(lines)} lines")
        expect(len(set(lines)) == len(lines), "a call happened twice")


def interrupt(signals, code, *arguments, expect_report=True, pause_s=0.5):
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory, "r.json")
        process = start("-duration", "10m", "-concurrency", "20", "-json", str(path), *arguments)
        time.sleep(0.5)
        begin = time.monotonic()
        for number in signals:
            process.send_signal(number)
            time.sleep(pause_s)
        stdout, stderr = process.communicate(timeout=LIMIT_S)
        took = time.monotonic() - begin
        expect(process.returncode == code, f"exit code {process.returncode}: {stderr!r}")
        if expect_report:
            lines = stdout.decode().splitlines()
            name = signal.Signals(signals[0]).name
            counts = r"; \d+ runs started, \d+ completed, \d+ abandoned"
            expect(re.fullmatch(f"not valid: interrupted by {name}{counts}", lines[5]), stdout)
            expect(lines[-1] == "errors=0", stdout)
            expect(without_warnings(stderr) == "", stderr)
            result = json.loads(path.read_text())
            expect(result["validity"]["reasons"][0] == f"interrupted by {name}", "reasons")
            validate(result)
            return took, result
        expect(os.listdir(directory) == [], f"left behind: {os.listdir(directory)}")
        return took, None


@check
def sigint_drains_and_reports():
    took, result = interrupt([signal.SIGINT], 130, "-latency", "100ms")
    expect(took < 30, f"draining took {took:.1f} s")
    expect(result["result"]["runs_abandoned"] == 0, "runs were abandoned")
    expect(result["result"]["runs_completed"] == result["result"]["runs_started"], "runs got lost")


@check
def sigterm_drains_and_reports():
    interrupt([signal.SIGTERM], 143, "-latency", "100ms")


@check
def drain_ends_after_two_seconds():
    took, result = interrupt([signal.SIGINT], 130, "-latency", "60s")
    expect(1.8 < took < 30, f"draining took {took:.1f} s")
    expect(result["result"]["runs_abandoned"] == 20, "runs_abandoned")


@check
def second_signal_ends_at_once():
    took, _ = interrupt([signal.SIGINT, signal.SIGINT], 130, "-latency", "60s", expect_report=False)
    expect(took < 30, f"it took {took:.1f} s")


@check
def signals_at_once_are_one():
    """timeout(1) signals its child, and then the whole group, its child once more."""
    interrupt([signal.SIGTERM, signal.SIGTERM], 143, "-latency", "100ms", pause_s=0)
    interrupt([signal.SIGTERM] * 5, 143, "-latency", "100ms", pause_s=0.005)


@check
def second_signal_may_be_another():
    interrupt([signal.SIGINT, signal.SIGTERM], 143, "-latency", "60s", expect_report=False)


@check
def ignored_sigint_stays_ignored():
    process = start("-runs", "20", "-latency", "300ms",
                    before=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    stdout, _ = process.communicate(timeout=LIMIT_S)
    expect(process.returncode == 0, f"exit code {process.returncode}")
    expect(stdout.decode().endswith("errors=0\n"), stdout)


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
def closed_standard_output_is_an_error():
    process = start("-runs", "20", stdout=None, before=lambda: os.close(1))
    _, stderr = process.communicate(timeout=LIMIT_S)
    expect(process.returncode == 1, f"exit code {process.returncode}")
    message = "bench: standard output cannot be written: Bad file descriptor\n"
    expect(without_warnings(stderr) == message, stderr)


@check
def progress_is_plain_lines_elsewhere():
    done = bench("-runs", "20", "-latency", "200ms", "-progress", "100ms")
    lines = without_warnings(done.stderr).splitlines()
    expect(2 <= len(lines) <= 5, f"{len(lines)} lines")
    pattern = r"bench: \S+ runs=\d+/20 \(\d+%\) rate=\d+/s in-flight=\d+ errors=\d+( left=\S+)?"
    for line in lines:
        expect(re.fullmatch(pattern, line), line)


def on_terminal(*arguments, **variables):
    master, slave = pty.openpty()
    process = start(*arguments, stdout=subprocess.PIPE, stderr=slave, env=environment(**variables))
    os.close(slave)
    seen = b""
    while True:
        try:
            data = os.read(master, 4096)
        except OSError:
            break
        if not data:
            break
        seen += data
    os.close(master)
    process.communicate(timeout=LIMIT_S)
    expect(process.returncode == 0, f"exit code {process.returncode}")
    return b"".join(line for line in seen.splitlines(True) if b"bench: warning: loop=" not in line)


@check
def progress_is_rewritten_on_a_terminal():
    seen = on_terminal("-runs", "20", "-latency", "600ms", TERM="xterm")
    expect(b"\r1s runs=" in seen, f"no line by default: {seen!r}")
    expect(b"\n" not in seen and b"\x1b" not in seen, f"not one line: {seen!r}")
    expect(seen.endswith(b" \r"), f"the line was left there: {seen!r}")
    seen = on_terminal("-runs", "20", "-latency", "200ms", "-progress", "100ms", TERM="dumb")
    expect(seen.startswith(b"bench: "), f"TERM=dumb: {seen!r}")
    seen = on_terminal("-runs", "20", "-latency", "600ms", "-quiet", TERM="xterm")
    expect(seen == b"", f"-quiet: {seen!r}")


@check
def memory_limit_is_looked_at():
    import resource
    limit = 2 << 30
    done = subprocess.run(
        [BENCH, "-runs", "5m", "-concurrency", "5m"],
        capture_output=True, timeout=LIMIT_S, check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
    if b"Sanitizer" in done.stderr:
        raise NotApplicable("a sanitizer needs the address space")
    expect(done.returncode == 2, f"exit code {done.returncode}: {done.stderr!r}")
    expect(b"-concurrency 5000000 needs about" in done.stderr, done.stderr)


def run_case(name, function, *arguments):
    global passed, failed, skipped
    try:
        function(*arguments)
    except (Missing, NotApplicable) as reason:
        if isinstance(reason, Missing) and os.environ.get("CI"):
            failed += 1
            print(f"FAIL {name}: {reason}, and this is CI")
        else:
            skipped += 1
            print(f"skip {name}: {reason}")
    except Exception as reason:  # whatever it is, the other cases still run
        failed += 1
        print(f"FAIL {name}: {type(reason).__name__}: {reason}")
    else:
        passed += 1
        print(f"ok   {name}")
    sys.stdout.flush()


def main():
    for arguments, message in USAGE_ERRORS:
        run_case(f"usage error: {arguments!r}", check_usage_error, arguments, message)
    for arguments, pattern in GOOD:
        run_case(f"good: {arguments!r}", check_good, arguments, pattern)
    for function in CHECKS:
        run_case(function.__name__.replace("_", " "), function)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: run.py BENCH")
    BENCH = os.path.abspath(sys.argv[1])
    sys.exit(main())
