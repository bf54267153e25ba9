"""What a result tells of where it comes from, held against what else tells of it."""

import datetime
import json
import os
import pathlib
import platform
import re
import sqlite3
import tempfile

from harness import bench, check, expect, validate

# Flags that are no configuration of a run, and those that are told elsewhere or otherwise.
ELSEWHERE = {"version", "help", "slo"}
KEYS = {"duration": "duration_ns", "rate": "rate_runs_per_s", "timeout": "timeout_ns",
        "retry-for": "retry_for_ns", "progress": "progress_ns", "hedge": "hedge_ns",
        "token-interval": "token_interval_ns", "model-timeout": "model_timeout_ns",
        "warmup": "warmup_ns", "steady": "steady_ratio", "slo-delay": "slo_delay_ns"}


def result_of(directory, *arguments):
    path = pathlib.Path(directory, "r.json")
    done = bench("-runs", "100", "-json", str(path), *arguments)
    expect(done.returncode == 0, done.stderr)
    result = json.loads(path.read_text())
    validate(result)
    return result


@check
def provenance_holds_every_flag():
    with tempfile.TemporaryDirectory() as directory:
        config = result_of(directory)["config"]
    for command in ("run", "resume"):
        text = bench(command, "-help").stdout.decode()
        flags = set(re.findall(r"^  -([a-z-]+)", text, re.MULTILINE))
        expect("json" in flags and len(flags) > 10, text)
        for flag in flags - ELSEWHERE:
            expect(KEYS.get(flag, flag.replace("-", "_")) in config, f"-{flag}: {config}")


@check
def provenance_is_this_machine():
    with tempfile.TemporaryDirectory() as directory:
        before = datetime.datetime.now(datetime.timezone.utc)
        result = result_of(directory, "-seed", "7")
        after = datetime.datetime.now(datetime.timezone.utc)
    build, host = result["build"], result["host"]
    told = bench("-version").stdout.decode()
    expect(build["revision"] in told and build["compiler"] in told, f"{build} {told}")
    expect(build["is_dirty"] == build["revision"].endswith("-dirty"), build)
    expect(("-O" in build["flags"] and "-O0" not in build["flags"]) == build["is_optimized"], build)
    expect("-std=gnu17" in build["flags"], build)
    expect(host["kernel"] == f"Linux {platform.release()} {platform.machine()}", host)
    expect(host["cpus"] == len(os.sched_getaffinity(0)), host)
    expect(host["cpus_online"] == os.sysconf("SC_NPROCESSORS_ONLN"), host)
    source = pathlib.Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")
    expect(host["clock_source"] == (source.read_text().strip() if source.exists() else "unknown"),
           host)
    expect(0 < host["clock_step_ns"] < 10**7, host)
    started = datetime.datetime.fromisoformat(result["result"]["started"].replace("Z", "+00:00"))
    slack = datetime.timedelta(milliseconds=1)
    expect(before - slack <= started <= after, f"{before} {started} {after}")
    expect(result["config"]["seed"] == 7 and result["store"]["settings"] == {}, result["config"])


@check
def provenance_of_sqlite_is_its_own():
    with tempfile.TemporaryDirectory() as directory:
        for level, synchronous in (("power", "full"), ("process", "normal"), ("none", "off")):
            settings = result_of(directory, "-journal", f"sqlite:{directory}/{level}.db",
                                 "-durability", level)["store"]["settings"]
            expect(settings["synchronous"] == synchronous, settings)
            expect(settings["journal_mode"] == "wal" and settings["filesystem"], settings)
            expect(re.fullmatch(r"3\.\d+\.\d+", settings["sqlite_version"]), settings)
        with sqlite3.connect(f"{directory}/power.db") as store:
            page_size, = store.execute("PRAGMA page_size").fetchone()
        expect(settings["page_size"] == str(page_size), settings)


@check
def debug_and_sanitizer_builds_warn():
    """As this build is told, which CI makes of several kinds."""
    with tempfile.TemporaryDirectory() as directory:
        result = result_of(directory)
        build, warnings = result["build"], result["validity"]["warnings"]
        expect(any(w.startswith("a debug build") for w in warnings) != build["is_optimized"],
               warnings)
        expect(any(w.startswith("a build with sanitizers") for w in warnings) ==
               (build["sanitizers"] != "none"), warnings)
        few = "too few runs for p99: 100 have completed, and it takes 1000"
        expect(few in warnings, warnings)
        done = bench("-runs", "100")
        expect(f"\nwarning: {few}\n" in done.stdout.decode(), done.stdout)
        done = bench("-runs", "100", "-quiet")
        expect(b"warning" not in done.stdout, done.stdout)
