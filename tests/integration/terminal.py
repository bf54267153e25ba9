"""Progress: on a terminal and elsewhere."""

import fcntl
import os
import pathlib
import re
import select
import subprocess
import tempfile
import termios
import time

from harness import (bench, check, default_signals, environment, expect, open_terminal, start,
                     without_warnings, LIMIT_S)


@check
def progress_is_plain_lines_elsewhere():
    done = bench("-runs", "20", "-latency", "200ms", "-progress", "100ms")
    lines = without_warnings(done.stderr).splitlines()
    expect(2 <= len(lines) <= 5, f"{len(lines)} lines")
    pattern = (r"bench: \S+ runs=\d+/20 \(\d+%\) rate=\d+/s p99=- in-flight=\d+ errors=\d+"
               r"( left=\S+)? records=\d+/s")
    for line in lines:
        expect(re.fullmatch(pattern, line), line)


@check
def plain_lines_are_of_their_interval():
    """Each tells p99 and errors of its interval, and of no other."""
    with tempfile.TemporaryDirectory() as directory:
        latencies = pathlib.Path(directory, "latencies")
        latencies.write_text("1ms\n" * 100 + "500ms\n")
        done = bench("-duration", "2s", "-latency", f"file:{latencies}", "-progress", "500ms",
                     "-timeout", "100ms", "-concurrency", "48", "-threads", "2")
    lines = without_warnings(done.stderr).splitlines()[:-1]  # the last names the failure
    errors = [int(re.search(r" errors=(\d+)", line)[1]) for line in lines]
    total = int(re.search(rb"\nerrors=(\d+)\n$", done.stdout)[1])
    expect(len(errors) >= 3 and max(errors) < total and 0 < sum(errors) <= total, lines)
    expect(any(re.search(r" p99=\d", line) for line in lines), lines)


@check
def progress_tells_lines_apart():
    for interval, pattern in (("100ms", r"\d+00ms|1s|1\.\ds"), ("250ms", r"\d+0ms|1s|1\.\d+s")):
        done = bench("-runs", "20", "-latency", "650ms", "-progress", interval)
        times = [line.split()[1] for line in without_warnings(done.stderr).splitlines()]
        expect(len(set(times)) == len(times) >= 4, f"{interval}: {times}")
        for text in times:
            expect(re.fullmatch(pattern, text), f"{interval}: {times}")


def own_terminal():
    os.setsid()
    fcntl.ioctl(2, termios.TIOCSCTTY, 0)
    default_signals()


def on_terminal(*arguments, typed=None, code=0, **variables):
    """What bench writes to a terminal. Some bytes may be typed after a while."""
    master, slave = open_terminal()
    process = start(*arguments, stdout=subprocess.PIPE, stderr=slave, before=own_terminal,
                    env=environment(**variables))
    os.close(slave)
    seen = b""
    begin = time.monotonic()
    while True:
        ready = select.select([master], [], [], 0.01)[0]
        if typed is not None and time.monotonic() - begin > 0.75:
            os.write(master, typed)
            typed = None
        if not ready:
            continue
        try:
            data = os.read(master, 4096)
        except OSError:
            break
        if not data:
            break
        seen += data
    os.close(master)
    process.communicate(timeout=LIMIT_S)
    expect(process.returncode == code, f"exit code {process.returncode}")
    return b"".join(line for line in seen.splitlines(True) if b"bench: warning: loop=" not in line)


def screen_after(seen):
    """The lines that stand there in the end."""
    lines = []
    for text in seen.decode().split("\n"):
        line, column = [], 0
        for character in text:
            if character == "\r":
                column = 0
                continue
            line[column:column + 1] = character
            column += 1
        lines.append("".join(line).rstrip())
    return lines


@check
def interrupt_leaves_nothing_on_a_terminal():
    seen = on_terminal("-duration", "10m", "-latency", "400ms", "-progress", "500ms", "-loop",
                       "epoll", typed=b"\x03", code=130, TERM="xterm")
    expect(b"^C" in seen and b"draining" in seen, f"not as expected: {seen!r}")
    shown = screen_after(seen[:seen.index(b"draining") + len(b"draining")])
    expect(len(shown) == 1 and shown[0].endswith("draining"), f"debris: {shown} of {seen!r}")
    expect(screen_after(seen) == [""], f"left there: {screen_after(seen)} of {seen!r}")


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
