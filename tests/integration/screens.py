"""What is seen: bench in a terminal of tmux's, 80 and 200 columns wide, looked at from outside."""

import contextlib
import os
import re
import shutil
import subprocess
import tempfile
import time

import harness
from harness import Missing, check, environment, expect, LIMIT_S

LINE = re.compile(r"\d\S* runs=\d+")
ROW = re.compile(r" +\d\S+ +\d+ +\d+\.\d\d%(  [█▏▎▍▌▋▊▉]+)?")
HEADER = "      up to        runs   so far"


class Screen:
    """A tmux server of our own, with one window in which a command runs and then leaves a word."""

    def __init__(self, columns, *arguments, **variables):
        self.directory = tempfile.TemporaryDirectory()
        self.env = environment(TMUX_TMPDIR=self.directory.name, TERM="xterm", LC_ALL="C.UTF-8")
        self.env.pop("TMUX", None)
        settings = " ".join(f"{name}={value}" for name, value in variables.items())
        quoted = " ".join(f"'{word}'" for word in (harness.BENCH, *arguments))
        command = f"exec sh -c \"{settings} {quoted}; echo ended with \\$?; exec sleep 600\""
        try:
            self.tmux("new-session", "-d", "-x", str(columns), "-y", "50", command)
        except subprocess.CalledProcessError as error:
            self.directory.cleanup()
            raise Missing(f"tmux does not start: {error.stderr!r}") from error

    def tmux(self, *arguments):
        done = subprocess.run(["tmux", "-u", "-L", f"bench-{os.getpid()}", "-f", "/dev/null",
                               *arguments], env=self.env, capture_output=True, timeout=LIMIT_S,
                              check=True)
        return done.stdout.decode()

    def rows(self):
        """As they stand there, without the empty ones at the end."""
        return self.tmux("capture-pane", "-p", "-t", "0").rstrip("\n").split("\n")

    def until(self, is_there):
        """Looks until it is; how long that takes does not matter."""
        begin = time.monotonic()
        while time.monotonic() - begin < LIMIT_S:
            rows = self.rows()
            if is_there(rows):
                return rows
            time.sleep(0.03)
        raise AssertionError(f"it never came: {rows}")

    def close(self):
        with contextlib.suppress(subprocess.CalledProcessError):
            self.tmux("kill-server")
        self.directory.cleanup()


@contextlib.contextmanager
def screen(columns, *arguments, **variables):
    if shutil.which("tmux") is None:
        raise Missing("tmux is missing")
    opened = Screen(columns, *arguments, **variables)
    try:
        yield opened
    finally:
        opened.close()


def is_over(rows):
    return any(row.startswith("ended with ") for row in rows)


def is_warning(row):
    """A machine without io_uring, say, is told so."""
    return row.startswith("bench: warning:")


def lines_while_it_runs(seen):
    """Each different line that has stood there, always alone and in one row."""
    lines = []
    while True:
        rows = seen.rows()
        if any(row.startswith("runs=") or row.startswith("duration=") for row in rows):
            return lines  # the report
        shown = [row for row in rows if row != ""]
        if shown and shown != lines[-1:]:
            expect(len(shown) == 1 and LINE.match(shown[0]), f"not one line: {rows}")
            lines.append(shown[0])
        time.sleep(0.03)


def check_report(rows, columns):
    expect("ended with 0" in rows or "ended with 4" in rows, rows)  # a busy machine may be late
    expect(not any(" in-flight=" in row or LINE.match(row) for row in rows), f"remnants: {rows}")
    expect(rows[0].startswith("duration="), f"the report does not begin at the top: {rows}")
    first = rows.index(HEADER) + 1
    end = next(i for i, row in enumerate(rows) if row.startswith("errors="))
    expect(1 <= end - first <= 12, rows)
    for row in rows[first:end]:
        expect(ROW.fullmatch(row) and len(row) <= min(columns, 80), f"{row!r} of {rows}")
    expect("100.00%" in rows[end - 1], rows)


@check
def screens_of_any_width_show_one_line_and_then_the_report():
    for columns in (80, 200):
        with screen(columns, "-duration", "2500ms", "-latency", "lognormal:p50=20ms,p99=100ms",
                    "-rate", "2000", "-concurrency", "5000", "-loop", "epoll") as seen:
            lines = lines_while_it_runs(seen)
            expect(len(lines) >= 3, f"it is not rewritten: {lines}")
            expect(max(map(len, lines)) < columns, lines)
            for field in (" rate=", " errors=0"):
                expect(all(field in line for line in lines), lines)
            expect(any(" p99=" in line for line in lines), lines)
            expect(any(" left=" in line for line in lines), lines)
            if columns == 200:
                expect(all(" in-flight=" in line and " records=" in line for line in lines), lines)
            else:
                expect(not any(" records=" in line for line in lines[1:] if "p99=-" not in line),
                       f"there is no room for it: {lines}")
            rows = seen.until(is_over)
            check_report([row for row in rows if not is_warning(row)], columns)


@check
def screen_that_is_resized_shows_what_fits():
    with screen(200, "-duration", "10m", "-latency", "5ms", "-loop", "epoll") as seen:
        seen.until(lambda rows: " records=" in rows[-1])
        seen.tmux("resize-window", "-x", "40", "-y", "50")
        rows = seen.until(lambda rows: LINE.match(rows[-1]) and " records=" not in rows[-1])
        expect(len(rows[-1]) < 40 and " errors=0" in rows[-1], rows)
        seen.tmux("resize-window", "-x", "120", "-y", "50")
        seen.until(lambda rows: " in-flight=" in rows[-1])


@check
def screen_without_utf8_has_a_histogram_of_number_signs():
    with screen(80, "-runs", "2000", "-latency", "1ms", "-quiet", LC_ALL="C") as seen:
        rows = seen.until(is_over)
        drawn = [row for row in rows[rows.index(HEADER) + 1:] if "%" in row]
        expect(any(row.endswith("%  " + 44 * "#") for row in drawn), drawn)
        expect(not any(character in row for row in drawn for character in "█▏▎▍▌▋▊▉"), drawn)
