"""SIGINT and SIGTERM, in every part of bench's life."""

import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import termios
import time

from harness import check, expect, open_terminal, start, validate, without_warnings, LIMIT_S


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
    interrupt([signal.SIGINT, signal.SIGTERM], 130, "-latency", "100ms", pause_s=0)


@check
def second_signal_may_be_another():
    interrupt([signal.SIGINT, signal.SIGTERM], 143, "-latency", "60s", expect_report=False)


# It takes seconds to bring in what these need.
LARGE = ["-runs", "2m", "-concurrency", "1m", "-latency", "60s", "-loop", "epoll"]


@check
def signal_before_the_start_is_heeded():
    with tempfile.TemporaryDirectory() as directory:
        process = start(*LARGE, "-json", f"{directory}/f")
        time.sleep(0.1)
        process.send_signal(signal.SIGTERM)
        stdout, stderr = process.communicate(timeout=LIMIT_S)
        expect(process.returncode == 143, f"exit code {process.returncode}: {stderr!r}")
        if stdout == b"":  # a fast machine may have started by then
            message = b"bench: interrupted by SIGTERM before the first run was started\n"
            expect(stderr == message, stderr)
            expect(os.listdir(directory) == [], f"left behind: {os.listdir(directory)}")


@check
def signal_at_any_moment_of_the_start_leaves_nothing():
    with tempfile.TemporaryDirectory() as directory:
        for moment in range(200):
            process = start("-runs", "100", "-json", f"{directory}/f", stdout=subprocess.DEVNULL)
            time.sleep(moment * 1e-4)
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=LIMIT_S)
            left = [name for name in os.listdir(directory) if name != "f"]
            expect(left == [], f"left behind after {moment / 10} ms: {left}")


@check
def second_signal_before_the_start_ends_at_once():
    process = start(*LARGE)
    time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    time.sleep(0.2)
    begin = time.monotonic()
    process.send_signal(signal.SIGTERM)
    stdout, stderr = process.communicate(timeout=LIMIT_S)
    took = time.monotonic() - begin
    expect(process.returncode == 143, f"exit code {process.returncode}: {stderr!r}")
    expect(stdout == b"" and took < 1.5, f"it took {took:.1f} s: {stdout!r}")


def interrupt_with_standard_error(stderr):
    process = start("-duration", "10m", "-concurrency", "20", "-latency", "10ms", "-progress",
                    "10ms", "-loop", "epoll", stderr=stderr)
    os.close(stderr)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    try:
        stdout, _ = process.communicate(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise
    expect(process.returncode == 130, f"exit code {process.returncode}")
    expect(b"not valid: interrupted by SIGINT" in stdout, stdout)


@check
def full_standard_error_does_not_hold_up():
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    try:
        while True:
            os.write(writer, b"x" * 4096)
    except BlockingIOError:
        os.set_blocking(writer, True)
    interrupt_with_standard_error(writer)
    os.close(reader)


@check
def stopped_terminal_does_not_hold_up():
    master, slave = open_terminal()
    termios.tcflow(slave, termios.TCOOFF)
    interrupt_with_standard_error(slave)
    os.close(master)


@check
def ignored_sigint_stays_ignored():
    process = start("-runs", "20", "-latency", "300ms",
                    before=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    stdout, _ = process.communicate(timeout=LIMIT_S)
    expect(process.returncode == 0, f"exit code {process.returncode}")
    expect(stdout.decode().endswith("errors=0\n"), stdout)
