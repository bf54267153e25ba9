#!/usr/bin/env python3
"""Runs the built bench and looks at exit codes, messages, reports and files.

usage: run.py BENCH        one line a case, then "N passed, N failed, N skipped"

What needs nothing but arguments is a row in cases.py: arguments, and what bench says to them. What
needs more is a function marked @check: below, and in the modules beside this one.
"""

import json
import os
import pathlib
import re
import resource
import sys
import tempfile

sys.dont_write_bytecode = True  # a test run leaves nothing in the tree
import harness  # noqa: E402
from cases import GOOD, USAGE_ERRORS  # noqa: E402
from harness import (ROOT, SCHEMA, NotApplicable, bench, check, expect, help_of,  # noqa: E402
                     run_case, validate, without_warnings)
import comparing  # noqa: E402, F401
import counting  # noqa: E402, F401: its checks are in CHECKS
import formats  # noqa: E402, F401
import merging  # noqa: E402, F401
import model_calls  # noqa: E402, F401
import objectives  # noqa: E402, F401
import outputs  # noqa: E402, F401
import passwords  # noqa: E402, F401
import provenance  # noqa: E402, F401
import resuming  # noqa: E402, F401
import screens  # noqa: E402, F401
import scripts  # noqa: E402, F401
import signals  # noqa: E402, F401
import stores  # noqa: E402, F401
import terminal  # noqa: E402, F401
import verifying  # noqa: E402, F401
import warming  # noqa: E402, F401

def check_usage_error(arguments, message):
    with tempfile.TemporaryDirectory() as directory:
        fill = lambda text: text.replace("{dir}", directory)
        done = bench(*[fill(a) for a in arguments])
        way_to_help = help_of(arguments)
        expect(done.returncode == 2, f"exit code {done.returncode}, not 2: {done.stderr!r}")
        expect(done.stdout == b"", f"standard output is not empty: {done.stdout!r}")
        stderr = done.stderr.decode()
        if isinstance(message, str):
            said = f"bench: {fill(message)}{way_to_help}\n"
            expect(stderr == said, f"standard error is {stderr!r}")
        else:
            pattern = "bench: " + message.pattern + re.escape(way_to_help) + r"\n"
            expect(re.fullmatch(pattern, stderr), f"standard error is {stderr!r}")
        expect(os.listdir(directory) == [], f"files appeared: {os.listdir(directory)}")


def check_good(arguments, pattern):
    done = bench(*arguments)
    expect(done.returncode == 0, f"exit code {done.returncode}: {done.stderr!r}")
    stdout = done.stdout.decode()
    expect(re.fullmatch(pattern, stdout), f"standard output is {stdout!r}")
    expect(without_warnings(done.stderr) == "", f"standard error is {done.stderr!r}")


@check
def help_fits_a_screen():
    shared = """concurrency latency journal durability threads loop timeout tool-latency ledger
                connections retry-for json progress quiet version help token-interval
                stream-journal model-error-rate model-timeout model-retries hedge"""
    flags = {
        "run": shared + """ runs duration rate arrival stages slo csv markdown
                            hgrm gobench bmf openmetrics gha slo-abort slo-delay warmup
                            steady histogram seed turns tools tool-effect
                            prompt-bytes reply-bytes history run-id shards tokens""",
        "resume": shared + " campaign tool-retry",
        "verify": "journal campaign version help",
        "compare": "threshold floor paired force json markdown version help",
        "merge": "histogram json csv markdown hgrm gobench bmf openmetrics gha slo version help",
    }
    for command, names in flags.items():
        lines = bench(command, "-help").stdout.decode().splitlines()
        expect(len(lines) <= 72, f"{command}: {len(lines)} lines")
        expect(max(map(len, lines)) <= 80, f"{command}: a line of more than 80 columns")
        found = {line.split()[0][1:] for line in lines if line.startswith("  -")}
        expect(found == set(names.split()), f"{command}: {found ^ set(names.split())}")


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
        expect(result["validity"]["verdict"] == "valid" and not result["validity"]["reasons"],
               result["validity"])
        response = result["latency"]["response"]
        expect(response["p50_ns"] >= 2000000, "p50 is below two model calls")
        expect(response["p999_ns"] is None, "p999 of 2000 runs has no ten samples beyond")
        expect(done.stdout.decode().endswith("errors=0\n"), "no summary on standard output")
        validate(result)


@check
def golden_json_is_valid():
    files = sorted((ROOT / "tests" / "golden").glob("*.json"))
    expect(len(files) >= 5, "golden files are missing")
    for file in files:
        validate(json.loads(file.read_text()))


@check
def schema_is_strict():
    result = json.loads((ROOT / "tests" / "golden" / "report_good.json").read_text())
    validate(result)
    schema = json.loads(SCHEMA.read_text())
    harness.jsonschema.Draft7Validator.check_schema(schema)
    for path in ([], ["store"], ["result"], ["result", "outcomes"], ["config"], ["latency"],
                 ["latency", "lag"]):
        for change in ("more", "less"):
            changed = json.loads(json.dumps(result))
            part = changed
            for key in path:
                part = part[key]
            if change == "more":
                part["surplus"] = 1
            else:
                part.pop(next(iter(part)))
            is_valid = harness.jsonschema.Draft7Validator(schema).is_valid(changed)
            expect(not is_valid, f"{change} in {path} is accepted")


@check
def failed_runs_are_reported():
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/r.json"
        done = bench("-runs", "100", "-latency", "50ms", "-timeout", "5ms", "-json", path)
        stdout = done.stdout.decode()
        expect(done.returncode == 1, f"exit code {done.returncode}")
        pattern = (
            r"\nfailed run latency: p50=\S+ p90=\S+ p99=- max=\S+ \(timeout=100\)\n"
            r"closed loop: .*\nerrors=100\n$"
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
def schedule_of_no_run_or_one_is_not_called_busy():
    done = bench("-stages", "1s:0", is_judged=True)
    expect(done.returncode == 4, f"exit code {done.returncode}: {done.stderr!r}")
    expect(done.stderr == b"bench: the measurement is not valid: no run completed\n", done.stderr)
    done = bench("-rate", "0.000001", "-duration", "100ms", is_judged=True)
    expect(done.returncode == 0, f"exit code {done.returncode}: {done.stderr!r}")


@check
def nothing_measured_is_not_valid():
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/r.json"
        done = bench("-duration", "1ns", "-json", path)
        expect(done.returncode == 4, f"exit code {done.returncode}: {done.stderr!r}")
        told = rb"\nnot valid: no run completed\n(?:warning: [^\n]+\n)*closed loop: "
        expect(re.search(told, done.stdout), done.stdout)
        expect(done.stdout.endswith(b"\nerrors=0\n"), done.stdout)
        message = "bench: the measurement is not valid: no run completed\n"
        expect(without_warnings(done.stderr) == message, done.stderr)
        result = json.loads(pathlib.Path(path).read_text())
        expect(result["validity"]["verdict"] == "invalid", "verdict")
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


def needs_plain_build():
    if b"sanitizers: none" not in bench("-version").stdout:
        raise NotApplicable("a sanitizer needs the address space")


@check
def memory_limit_is_looked_at():
    needs_plain_build()
    limit = 2 << 30
    done = bench("-runs", "5m", "-concurrency", "5m",
                 before=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
    expect(done.returncode == 2, f"exit code {done.returncode}: {done.stderr!r}")
    expect(b"-concurrency 5000000 needs about" in done.stderr, done.stderr)


@check
def little_memory_is_refused_or_enough():
    """Whatever the limit leaves: a clear refusal that touches nothing, or a good run; no crash."""
    needs_plain_build()
    for kind, name in ((resource.RLIMIT_AS, b"RLIMIT_AS"), (resource.RLIMIT_DATA, b"RLIMIT_DATA")):
        for megabytes in (36, 48, 64, 96, 128, 256, 512):
            limit = megabytes << 20
            with tempfile.TemporaryDirectory() as directory:
                path = pathlib.Path(directory, "ledger")
                done = bench("-runs", "1000", "-tool-effect", "ledger", "-ledger", str(path),
                             before=lambda: resource.setrlimit(kind, (limit, limit)))
                expect(done.returncode in (0, 2), f"{megabytes} MB: {done.stderr}")
                if done.returncode == 2:
                    expect(name in done.stderr, done.stderr)
                    expect(not path.exists(), "the ledger was touched")


def main():
    harness.begin()
    for arguments, message in USAGE_ERRORS:
        run_case(f"usage error: {arguments!r}", check_usage_error, arguments, message)
    for arguments, pattern in GOOD:
        run_case(f"good: {arguments!r}", check_good, arguments, pattern)
    return harness.finish()


if __name__ == "__main__":
    sys.exit(main())
