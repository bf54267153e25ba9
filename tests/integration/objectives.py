"""-slo: what is held against the result, and the exit code that tells."""

import json
import pathlib
import re
import tempfile

from harness import bench, check, expect, validate


def held(code, *arguments):
    """The objectives of a run's JSON, by their text."""
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory, "r.json")
        done = bench("-runs", "2000", "-latency", "1ms", "-json", str(path), *arguments)
        expect(done.returncode == code, f"exit code {done.returncode}: {done.stderr!r}")
        result = json.loads(path.read_text())
        validate(result)
        return done, {slo["objective"]: slo for slo in result["slo"]}


@check
def a_lost_output_is_not_hidden_by_a_missed_objective():
    for more in ((), ("-slo-abort", "-slo-delay", "100ms")):
        done = bench("-duration", "300ms", "-latency", "1ms", "-slo", "p(99)<1us", "-json",
                     "/dev/full", *more)
        expect(done.returncode == 1, f"{done.returncode} {done.stderr}")
        expect(b"/dev/full" in done.stderr, done.stderr)


@check
def objectives_that_are_met_are_told():
    done, slos = held(0, "-slo", "p(99)<10s", "-slo", "errors<0.1%", "-slo", "rate>=1",
                      "-slo", "append.p(50) < 5s")
    expect(len(slos) == 4 and all(slo["is_met"] for slo in slos.values()), slos)
    expect(slos["p(99)<10s"]["value"] >= 2e6 and slos["errors<0.1%"]["value"] == 0, slos)
    expect(done.stdout.count(b"\nslo met: ") == 4, done.stdout)


@check
def objective_that_is_missed_ends_with_99():
    done, slos = held(99, "-slo", "p(99)<1us", "-slo", "rate>=1")
    expect(not slos["p(99)<1us"]["is_met"] and slos["rate>=1"]["is_met"], slos)
    expect(b"\nslo MISSED: p(99)<1us: " in done.stdout, done.stdout)
    expect(done.stderr.endswith(b"bench: 1 of 2 objectives missed\n"), done.stderr)


@check
def rate_of_an_open_loop_is_that_of_its_starts():
    """Whose last runs take long, and whose throughput is therefore less."""
    arguments = ["-rate", "1000", "-duration", "1s", "-latency", "300ms", "-concurrency", "2000"]
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory, "r.json")
        for more in ((), ("-slo-abort", "-slo-delay", "200ms")):
            done = bench(*arguments, "-slo", "rate>=950", "-json", str(path), *more)
            expect(done.returncode == 0, f"{done.returncode} {done.stdout} {done.stderr}")
            result = json.loads(path.read_text())
            expect(result["result"]["throughput_runs_per_s"] < 900, result["result"])
            expect(result["slo"][0]["value"] > 950, result["slo"])
            expect(b" achieved=" in done.stdout, done.stdout)


@check
def percentile_of_too_few_runs_is_not_met():
    done, slos = held(99, "-slo", "p(99.99)<1h")
    expect(slos["p(99.99)<1h"]["value"] is None, slos)
    expect(b"\nslo MISSED: p(99.99)<1h: -\n" in done.stdout, done.stdout)


@check
def objectives_allow_for_errors_and_tell_of_too_many():
    """Runs that fail are an exit code of their own, unless how many may is what is asked about."""
    arguments = ["-model-error-rate", "10%", "-model-retries", "0"]
    held(99, *arguments, "-slo", "errors<=1%")
    held(0, *arguments, "-slo", "errors<=50%")
    held(1, *arguments, "-slo", "rate>=0.01")
    held(99, *arguments, "-slo", "errors<=50%", "-slo", "p(99)<1us")
    held(4, "-timeout", "1us", "-slo", "errors<=100%")  # of which nothing was measured


def aborted(*arguments):
    """A run that would take minutes, ended by an objective, and its result."""
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory, "r.json")
        done = bench("-duration", "10m", "-latency", "1ms", "-json", str(path), "-slo-abort",
                     *arguments)
        expect(done.returncode == 99, f"exit code {done.returncode}: {done.stderr!r}")
        result = json.loads(path.read_text())
        validate(result)
        return done, result


@check
def objective_that_is_missed_ends_the_run():
    done, result = aborted("-slo", "errors<50%", "-slo", "p(99)<1us")
    told = result["result"]["slo_abort"]
    expect(told["objective"] == "p(99)<1us" and told["value"] >= 2e6, told)
    expect(told["at_ns"] >= 9e8, told)
    expect(re.search(rb"\naborted after \S+: slo p\(99\)<1us: \S+; 0 runs abandoned\n",
                     done.stdout), done.stdout)
    message = b"bench: stopped, as an objective was missed: p(99)<1us\n"
    expect(done.stderr.endswith(message), done.stderr)
    expect(done.stdout.endswith(b"\nerrors=0\n"), done.stdout)
    expect(result["result"]["runs_completed"] == result["result"]["runs_started"] > 0, "drain")


@check
def objectives_of_errors_and_appends_end_the_run():
    _, result = aborted("-slo", "errors<1%", "-timeout", "1us", "-slo-delay", "200ms")
    expect(result["result"]["slo_abort"]["objective"] == "errors<1%", result["result"])
    expect(result["result"]["slo_abort"]["value"] == 1, result["result"])
    _, result = aborted("-slo", "append.max<1ns", "-slo-delay", "200ms", "-threads", "2")
    expect(result["result"]["slo_abort"]["value"] > 0, result["result"])


@check
def objectives_that_hold_end_nothing():
    """And neither does one that is not known yet: it is missed in the end, and not before."""
    done, slos = held(99, "-slo", "p(99.99)<1h", "-slo", "max<1h", "-slo-abort", "-slo-delay",
                      "1ms")
    expect(b"aborted" not in done.stdout, done.stdout)
    expect(slos["max<1h"]["is_met"] and not slos["p(99.99)<1h"]["is_met"], slos)
