"""What all tests of the built program use: running it, and saying what is expected of it."""

import json
import os
import pathlib
import pty
import re
import signal
import subprocess
import sys

try:
    import jsonschema
except ImportError:
    jsonschema = None

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SCHEMA = ROOT / "docs" / "bench.run.schema.json"
BENCH = None  # set by begin()
LIMIT_S = 60
HELP = " (see 'bench -help')"

CHECKS = []
counts = {"passed": 0, "failed": 0, "skipped": 0}


class Missing(Exception):
    """A tool of the tests is not there: a skip that everybody sees, a failure in CI."""


class NotApplicable(Exception):
    """This build cannot show it."""


def check(function):
    CHECKS.append(function)
    return function


def expect(condition, text):
    if not condition:
        raise AssertionError(text)


def help_of(arguments):
    """The way to help that a usage error ends in."""
    has_own = arguments and arguments[0] in ("resume", "verify", "merge", "compare")
    command = f"{arguments[0]} " if has_own else ""
    return f" (see 'bench {command}-help')"


def environment(**more):
    env = {k: v for k, v in os.environ.items() if k not in ("TERM", "NO_COLOR")}
    env.update(more)
    return env


def default_signals():
    """A shell that runs us in the background ignores SIGINT, and what is ignored is inherited."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


# What a machine that others use as well makes of any measurement. Tests are of what bench does.
OTHERS_DOING = re.compile(
    rb"(bench: the measurement is not valid: |not valid: )(?:\S+: )?(the machine's host kept|"
    rb"the CPU quota of|the stub model's replies came late|runs were started late|"
    rb"a scheduler thread was busy)[^\n]*\n")


def without_others_doing(done):
    """The same, but for the reasons that are not looked for."""
    if done.returncode != 4 or not OTHERS_DOING.search(done.stderr or b""):
        return done
    done.returncode = 0
    done.stderr = OTHERS_DOING.sub(b"", done.stderr)
    done.stdout = OTHERS_DOING.sub(b"", done.stdout) if done.stdout else done.stdout
    return done


def bench(*arguments, before=lambda: None, is_judged=False, **options):
    """With is_judged a machine that is busy with something else is not seen through."""
    def prepare():
        default_signals()
        before()
    options.setdefault("env", environment())
    options.setdefault("stdout", subprocess.PIPE)
    options.setdefault("stderr", subprocess.PIPE)
    done = subprocess.run([BENCH, *arguments], timeout=LIMIT_S, preexec_fn=prepare, check=False,
                          **options)
    return done if is_judged else without_others_doing(done)


class Started(subprocess.Popen):
    """As what bench() returns, once it has ended."""

    def communicate(self, *arguments, **options):
        stdout, stderr = super().communicate(*arguments, **options)
        done = without_others_doing(subprocess.CompletedProcess(self.args, self.returncode, stdout,
                                                                stderr))
        self.returncode = done.returncode
        return done.stdout, done.stderr


def start(*arguments, before=default_signals, is_judged=False, **options):
    options.setdefault("stdout", subprocess.PIPE)
    options.setdefault("stderr", subprocess.PIPE)
    options.setdefault("env", environment())
    kind = subprocess.Popen if is_judged else Started
    return kind([BENCH, *arguments], preexec_fn=before, **options)


def without_warnings(stderr):
    """A machine without io_uring, or with /tmp in memory, says so; that is no failure."""
    return "".join(line for line in stderr.decode().splitlines(True)
                   if not line.startswith(("bench: warning: loop=",
                                           "bench: warning: the store lies on")))


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


# What a machine that is shared with others may do to any run.
NOISE = ("the machine's host kept", "the stub model's replies came late", "the CPU quota")


def blamed(result):
    """The reasons for which a measurement is not valid, less those of a noisy machine."""
    return [reason for reason in result["validity"]["reasons"] if not reason.startswith(NOISE)]


def as_somebody():
    """Options of a process that permissions apply to: root's are those of nobody."""
    if os.geteuid() != 0:
        return {}
    return {"user": 65534, "group": 65534, "extra_groups": []}


def open_terminal():
    """Master and slave of a pseudo-terminal, which a chroot may have none of."""
    try:
        return pty.openpty()
    except OSError as error:
        raise Missing(f"no pseudo-terminal: {error}") from error


# --- running the checks ---

def begin():
    """The command line of each run.py: what is to be tested."""
    global BENCH
    if len(sys.argv) != 2:
        sys.exit("usage: run.py BENCH")
    BENCH = os.path.abspath(sys.argv[1])


def run_case(name, function, *arguments):
    try:
        function(*arguments)
    except (Missing, NotApplicable) as reason:
        if isinstance(reason, Missing) and os.environ.get("CI"):
            counts["failed"] += 1
            print(f"FAIL {name}: {reason}, and this is CI")
        else:
            counts["skipped"] += 1
            print(f"skip {name}: {reason}")
    except Exception as reason:  # whatever it is, the other cases still run
        counts["failed"] += 1
        print(f"FAIL {name}: {type(reason).__name__}: {reason}")
    else:
        counts["passed"] += 1
        print(f"ok   {name}")
    sys.stdout.flush()


def finish():
    """Runs the checks; the last line is the total. Returns the exit code."""
    for function in CHECKS:
        run_case(function.__name__.replace("_", " "), function)
    print("{passed} passed, {failed} failed, {skipped} skipped".format(**counts))
    return 1 if counts["failed"] else 0
