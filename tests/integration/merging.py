"""bench merge: several generators at the same time, as one result; what does not fit is refused."""

import json
import math
import os
import pathlib
import re
import tempfile
import time

from harness import bench, check, expect, start, validate

QUANTILES = {"p50_ns": 0.5, "p90_ns": 0.9, "p99_ns": 0.99, "p999_ns": 0.999}


def generate(directory, *flags):
    """The results of generators with these flags each, which run at the same time."""
    processes = []
    for seed, own in enumerate(flags, 1):
        path = pathlib.Path(directory, f"{seed}.json")
        processes.append((path, start("-seed", str(seed), "-json", str(path), *own)))
    for path, process in processes:
        stdout, stderr = process.communicate(timeout=60)
        expect(process.returncode == 0, f"{path.name}: {stdout} {stderr}")
    return [path for path, _ in processes]


def merge(*arguments, code=0):
    done = bench("merge", *map(str, arguments))
    expect(done.returncode == code, f"exit code {done.returncode}: {done.stderr!r}")
    return done


@check
def what_is_printed_or_written_is_no_part_of_what_was_measured():
    text = bench("merge", "-help").stdout.decode()
    takes_file = set(re.findall(r"^  -([a-z-]+) FILE", text, re.MULTILINE))
    expect({"json", "csv", "gha"} <= takes_file, text)
    with tempfile.TemporaryDirectory() as directory:
        own = ["-rate", "200/s", "-duration", "1s"]
        written = [word for flag in sorted(takes_file - {"json"})
                   for word in (f"-{flag}", str(pathlib.Path(directory, flag)))]
        paths = generate(directory, own,
                         own + written + ["-histogram", "-quiet"])
        merge(*paths)


@check
def a_histogram_is_shown_where_it_is_asked_for():
    """Its rows are of all runs, one's own and those of a merge."""
    def counts(stdout):
        return [int(n) for n in re.findall(rb"^ +\S+ +(\d+) +[\d.]+%  ", stdout, re.MULTILINE)]

    done = bench("-runs", "300", "-latency", "uniform:1ms,9ms", "-histogram")
    expect(done.returncode == 0 and sum(counts(done.stdout)) == 300, done.stdout)
    expect(not counts(bench("-runs", "300").stdout), "shown in a pipe")
    with tempfile.TemporaryDirectory() as directory:
        paths = generate(directory, *(["-rate", "200/s", "-duration", "1s"],) * 2)
        expect(not counts(merge(*paths).stdout), "shown in a pipe")
        runs = sum(load(path)["result"]["runs_completed"] for path in paths)
        shown = merge(*paths, "-histogram").stdout
        expect(sum(counts(shown)) == runs, shown)


PLACE = r"^([a-z][a-z0-9-]*): (.*)$"


@check
def a_merge_is_told_to_be_measured_where_its_results_were():
    """Results whose configuration lines differ are not compared by benchstat."""
    with tempfile.TemporaryDirectory() as directory:
        paths = generate(directory, *[
            ("-duration", "1s", "-latency", "5ms", "-journal", f"sqlite:{directory}/{i}.db",
             "-gobench", f"{directory}/{i}.txt", "-threads", "1") for i in range(2)])
        one = pathlib.Path(directory, "0.txt").read_text()
        told = dict(re.findall(PLACE, one, re.MULTILINE))
        expect("store-journal-mode" in told and told["kernel"] and told["cpus"], one)
        texts = write_merged(directory, *paths)
        expect(dict(re.findall(PLACE, texts["gobench"], re.MULTILINE)) == told, texts["gobench"])
        for key, value in told.items():
            if key in ("goos", "pkg", "cpu"):
                continue
            name = key.replace("-", "_")
            expect(f"| {name} | `{value}` |" in texts["markdown"], f"{key}: {texts['markdown']}")
            expect(f'{name}="{value}"' in texts["openmetrics"], f"{key}: {texts['openmetrics']}")
        for comment in ("bench-revision", "bench-flags", "memory-bytes"):
            line = re.search(f"^# {comment}: .*$", one, re.MULTILINE)[0]
            expect(f"\n{line}\n" in texts["gobench"], texts["gobench"])
        expect("seed" not in texts["gobench"], "each has a seed of its own")

        other = load(paths[1])
        other["host"].update(kernel="Linux 0.0.1 pdp11", cpus=other["host"]["cpus"] + 1)
        texts = write_merged(directory, paths[0], write(paths[1], other))
        left = dict(re.findall(PLACE, texts["gobench"], re.MULTILINE))
        expect(left.pop("host-differs-in", "") == "cpus, kernel", texts["gobench"])
        expect(left == {key: told[key] for key in told if key not in ("cpus", "kernel")}, left)
        for text in texts.values():
            expect("pdp11" not in text and told["kernel"] not in text, text)


def write_merged(directory, *paths):
    texts = {}
    for name in ("markdown", "openmetrics", "gobench"):
        path = pathlib.Path(directory, f"all.{name}")
        path.unlink(missing_ok=True)
        merge(*paths, f"-{name}", path)
        texts[name] = path.read_text()
    return texts


def load(path):
    return json.loads(pathlib.Path(path).read_text())


def write(path, result):
    path.write_text(json.dumps(result))
    return path


def add_buckets(results, name):
    """What the histograms of all are together, from their buckets alone."""
    buckets = {}
    for result in results:
        for upper, count in result["latency"][name]["buckets"]:
            buckets[upper] = buckets.get(upper, 0) + count
    return sorted(buckets.items())


def quantile(buckets, share, max_ns):
    total = sum(count for _, count in buckets)
    rank = max(1, math.ceil(share * total - 1e-9))
    if total - rank < 10:
        return None
    seen = 0
    for upper, count in buckets:
        seen += count
        if seen >= rank:
            return min(upper, max_ns)
    return max_ns


def check_hist(merged, results, name):
    hist = merged["latency"][name]
    parts = [result["latency"][name] for result in results if result["latency"][name]["count"]]
    buckets = add_buckets(results, name)
    expect([list(pair) for pair in buckets] == hist["buckets"], f"{name}: buckets")
    expect(hist["count"] == sum(part["count"] for part in parts), f"{name}: count")
    if not parts:
        return
    expect(hist["min_ns"] == min(part["min_ns"] for part in parts), f"{name}: minimum")
    expect(hist["max_ns"] == max(part["max_ns"] for part in parts), f"{name}: maximum")
    expect(hist["sum_ns"] == sum(part["sum_ns"] for part in parts), f"{name}: sum")
    expect(hist["mean_ns"] == hist["sum_ns"] // hist["count"], f"{name}: mean")
    for key, share in QUANTILES.items():
        expected = quantile(buckets, share, hist["max_ns"])
        expect(hist[key] == expected, f"{name}: {key} {hist[key]}, not {expected}")


def check_sums(merged, results):
    for section, key in (("result", "runs_started"), ("result", "runs_completed"),
                         ("result", "errors"), ("result", "model_calls"),
                         ("result", "tool_calls"), ("result", "peak_tasks"),
                         ("result", "heap_delta_bytes"), ("result", "peak_rss_bytes"),
                         ("result", "cpu_ns"), ("result", "threads"), ("store", "records"),
                         ("store", "records_acked"), ("store", "records_bytes"),
                         ("store", "batches"), ("store", "commits"), ("store", "logical_bytes"),
                         ("config", "concurrency"), ("config", "threads")):
        expected = sum(result[section][key] for result in results)
        expect(merged[section][key] == expected,
               f"{section}.{key}: {merged[section][key]}, not {expected}")
    begins = [result["result"]["started_unix_ns"] for result in results]
    ends = [result["result"]["started_unix_ns"] + result["result"]["elapsed_ns"]
            for result in results]
    whole = merged["result"]
    expect(whole["started_unix_ns"] == min(begins), "the start is not the first")
    expect(whole["elapsed_ns"] == max(ends) - min(begins), "it does not end with the last")
    rate = whole["runs_completed"] / whole["elapsed_ns"] * 1e9
    expect(abs(whole["throughput_runs_per_s"] - rate) < 0.01, whole["throughput_runs_per_s"])


@check
def generators_are_merged_exactly():
    with tempfile.TemporaryDirectory() as directory:
        before = time.time_ns()
        # An output each, at another place: what is written where is no part of what was measured.
        paths = generate(directory, *[
            ("-rate", rate, "-duration", "2s", "-latency", "exp:10ms", "-concurrency", "100",
             "-progress", "500ms", "-csv", f"{directory}/{rate}.csv",
             "-hgrm", f"{directory}/{rate}.hgrm", "-markdown", f"{directory}/{rate}.md",
             "-gobench", f"{directory}/{rate}.txt", "-bmf", f"{directory}/{rate}.bmf",
             "-openmetrics", f"{directory}/{rate}.om", "-gha", f"{directory}/{rate}.gha")
            for rate in ("400", "700", "1000")])
        results = [load(path) for path in paths]
        for result in results:
            begun = result["result"]["started_unix_ns"]
            expect(before <= begun <= time.time_ns(), f"it started at {begun}")
        out = pathlib.Path(directory, "all.json")
        done = merge(*paths, "-json", out, "-csv", f"{directory}/all.csv",
                     "-slo", "p(99)<10s", "-slo", "rate>=1")
        merged = load(out)
        validate(merged)
        check_sums(merged, results)
        for name in merged["latency"]:
            check_hist(merged, results, name)
        expect(merged["config"]["rate_runs_per_s"] == 2100, merged["config"])
        expect(merged["config"]["latency"] == "exp:10ms", merged["config"])
        expect([(s["file"], s["seed"], s["host"]) for s in merged["merged"]] ==
               [(str(path), seed, result["host"])
                for seed, (path, result) in enumerate(zip(paths, results), 1)],
               merged["merged"])
        expect(all(slo["is_met"] for slo in merged["slo"]) and len(merged["slo"]) == 2, "slo")
        text = done.stdout.decode()
        expect(text.splitlines()[0].endswith(" rate=2100/s merged=3"), text)
        expect("\nopen loop: constant arrivals, offered=" in text, text)
        told = re.search(r"\nslo met: rate>=1: ([0-9.]+)/s\nerrors=0\n$", text)
        rate = merged["result"]["achieved_runs_per_s"]
        expect(told and abs(float(told[1]) - rate) < 0.02, text)
        check_intervals(merged, results)
        # A merged result is one like any other.
        late = pathlib.Path(directory, "late.json")
        merge(paths[2], "-json", late, write(pathlib.Path(directory, "two.json"), load_two(paths)))
        expect(load(late)["latency"] == merged["latency"], "merged in two steps it is another")
        expect(len(load(late)["merged"]) == 3, load(late)["merged"])


def load_two(paths):
    result = json.loads(merge(paths[0], paths[1], "-json", "-").stdout)
    result["validity"].update(verdict="valid", reasons=[])  # a busy machine is not looked for
    return result


def check_intervals(merged, results):
    rows = merged["intervals"]
    expect(len(rows) >= 4, rows)
    ends = [row["end_ns"] for row in rows]
    expect(ends == sorted(set(ends)) and ends[0] == 500000000, ends)
    for key in ("runs_started", "runs_ended", "errors", "records"):
        expected = sum(row[key] for result in results for row in result["intervals"])
        expect(sum(row[key] for row in rows) == expected, f"{key}: {rows}")
    expect(merged["config"]["progress_ns"] == 500000000, merged["config"])


@check
def stores_are_merged():
    with tempfile.TemporaryDirectory() as directory:
        paths = generate(directory, *[
            ("-duration", "1s", "-latency", "20ms", "-journal", f"sqlite:{directory}/{i}.db")
            for i in range(2)])
        results = [load(path) for path in paths]
        out = pathlib.Path(directory, "all.json")
        text = merge(*paths, "-json", out).stdout.decode()
        merged = load(out)
        validate(merged)
        check_sums(merged, results)
        for key in ("syncs", "wal_bytes", "db_bytes", "store_bytes", "shards"):
            expected = sum(result["store"][key] for result in results)
            expect(merged["store"][key] == expected, f"{key}: {merged['store'][key]}")
        expect(merged["store"]["campaign"] == 0, merged["store"]["campaign"])
        expect("\nstore: append p50=" in text and "journal=sqlite durability=power" in text, text)


@check
def list_of_latencies_need_not_be_there():
    with tempfile.TemporaryDirectory() as directory:
        latencies = pathlib.Path(directory, "latencies")
        latencies.write_text("1ms\n30ms\n")
        paths = generate(directory, *[("-rate", "300", "-duration", "1s", "-latency",
                                       f"file:{latencies}", "-tool-latency",
                                       f"file:{latencies}")] * 2)
        latencies.unlink()
        text = merge(*paths).stdout.decode()
        expect(f" sim-latency=file:{latencies} " in text and " merged=2\n" in text, text)


def small(directory):
    """Two small results that fit, and their paths."""
    paths = generate(directory, *[("-duration", "1s", "-latency", "1ms")] * 2)
    return paths, [load(path) for path in paths]


def put_in_time(result, started_unix_ns, elapsed_ns):
    """What is told of one time, rates included, as if it had been another."""
    whole = result["result"]
    whole.update(started_unix_ns=started_unix_ns, elapsed_ns=elapsed_ns,
                 throughput_runs_per_s=round(whole["runs_completed"] / elapsed_ns * 1e9, 3))


@check
def what_does_not_fit_is_named():
    with tempfile.TemporaryDirectory() as directory:
        (a, b), (first, second) = small(directory)
        other = pathlib.Path(directory, "other.json")

        def refused(reason, change):
            result = json.loads(json.dumps(second))
            change(result)
            before = set(os.listdir(directory)) | {"other.json"}
            done = merge(a, write(other, result), "-json", f"{directory}/no.json", code=2)
            expect(done.stdout == b"", done.stdout)
            expect(done.stderr.decode() == f"bench: {reason}\n", done.stderr)
            expect(set(os.listdir(directory)) == before, "something was written")

        def setting(section, key, value):
            ours = json.dumps(first[section][key], separators=(",", ":"))
            refused(f"{a} and {other} differ: {section}.{key} is {ours} and {json.dumps(value)}",
                    lambda result: result[section].update({key: value}))

        for key, value in (("turns", 3), ("tools", 2), ("latency", "2ms"), ("tool_latency", "1ms"),
                           ("tool_effect", "none"), ("prompt_bytes", "1KB"),
                           ("history", "snapshot"), ("arrival", "poisson"), ("timeout_ns", 5),
                           ("loop", "epoll")):
            setting("config", key, value)
        setting("build", "revision", "0")
        setting("build", "compiler", "tcc 1")
        setting("store", "journal", "sqlite")
        setting("store", "durability", "power")
        refused(f'{other}: schema must be "bench.run/1", got "bench.run/2"',
                lambda result: result.update(schema="bench.run/2"))
        refused(f"{other}: latency.response: count is not the sum of the buckets",
                lambda result: result["latency"]["response"]["buckets"].pop())
        refused(f"{other}: result.cpu_ns must be a whole number of at least 0, got -1",
                lambda result: result["result"].update(cpu_ns=-1))

        refused(f"{other}: host is missing", lambda result: result.pop("host"))

        done = merge(a, a, code=2)
        expect(f"{a} and {a} are the same result".encode() in done.stderr, done.stderr)
        second["result"]["started_unix_ns"] += 3600 * 10**9
        done = merge(write(other, second), a, code=2)
        expect(f"bench: {a} and {other} did not run at the same time: the first from 2".encode()
               in done.stderr and done.stderr.count(b"Z") == 3, done.stderr)


@check
def what_cannot_be_read_or_written_is_named():
    with tempfile.TemporaryDirectory() as directory:
        (a, b), _ = small(directory)
        done = merge(a, f"{directory}/none", code=2)
        expect(done.stderr.decode() ==
               f"bench: {directory}/none: cannot be read: No such file or directory\n", done.stderr)
        done = merge(a, directory, code=2)
        expect(b": cannot be read: Is a directory\n" in done.stderr, done.stderr)
        done = merge(a, b, "-json", a, code=2)
        expect(f"-json must not name a result that is read: {a}".encode() in done.stderr,
               done.stderr)
        text = a.read_bytes()
        for size in (0, 1, len(text) // 2, len(text) - 2):
            pathlib.Path(directory, "cut").write_bytes(text[:size])
            done = merge(b, f"{directory}/cut", code=2)
            expect(done.stderr.startswith(f"bench: {directory}/cut: byte {size}: ".encode()),
                   done.stderr)


@check
def what_does_not_hold_together_is_named():
    def set_to(*path_and_value):
        *path, key, value = path_and_value

        def change(result):
            for name in path:
                result = result[name]
            result[key] = value
        return change

    changes = {
        "result.runs_started": set_to("result", "runs_started", 12345),
        "result.errors": set_to("result", "outcomes", "journal", 257),
        "latency.failed": set_to("latency", "failed", {
            "count": 3, "min_ns": 5, "mean_ns": 5, "sum_ns": 15, "p50_ns": None, "p90_ns": None,
            "p99_ns": None, "p999_ns": None, "max_ns": 5, "buckets": [[5, 3]]}),
        "store.records_before and more": set_to("store", "records", 1),
        "its intervals": lambda result: result["intervals"][0].update(runs_ended=1 << 62),
        "result.throughput_runs_per_s": set_to("result", "elapsed_ns", 10 ** 18),
        "result.hedge_wins": set_to("result", "hedge_wins", 1000000),
        "result.runs_queued": set_to("result", "runs_queued", 1000000),
    }
    with tempfile.TemporaryDirectory() as directory:
        first, second = generate(directory, *(["-rate", "200/s", "-duration", "1s"],) * 2)
        good = load(second)
        bad = pathlib.Path(directory, "bad.json")
        for named, change in changes.items():
            result = json.loads(json.dumps(good))
            change(result)
            done = merge(first, write(bad, result), code=2)
            expect(b"does not hold together" in done.stderr and named.encode() in done.stderr and
                   done.stderr.count(b"\n") == 1, f"{named}: {done.stderr}")
        merge(first, write(bad, good))


@check
def verdict_of_each_counts():
    with tempfile.TemporaryDirectory() as directory:
        (a, b), (first, second) = small(directory)
        first["validity"] = {"verdict": "valid", "reasons": [], "warnings": []}
        second["validity"] = first["validity"]
        for result in (first, second):  # what others do to this machine is not looked for
            result["result"].update(cpu_stolen_ratio=0, cpu_throttled_ratio=0)
            put_in_time(result, first["result"]["started_unix_ns"], first["result"]["elapsed_ns"])
        a, b = write(a, first), write(b, second)
        done = merge(a, b, "-slo", "p(99)<1us", "-slo", "errors<=0%", code=99)
        expect(done.stderr == b"bench: 1 of 2 objectives missed\n", done.stderr)
        reasons = ["interrupted by SIGINT", "no run completed"]
        second["validity"] = {"verdict": "invalid", "reasons": reasons, "warnings": []}
        out = pathlib.Path(directory, "all.json")
        done = merge(a, write(b, second), "-json", out, "-slo", "p(99)<1us", code=4)
        expect(load(out)["validity"] == {
            "verdict": "invalid", "reasons": [f"{b}: {reason}" for reason in reasons],
            "warnings": []}, "validity")
        validate(load(out))
        expect(f"\nnot valid: {b}: interrupted by SIGINT\n".encode() in done.stdout, done.stdout)


@check
def results_that_ran_together_for_a_part_only_are_warned_of():
    with tempfile.TemporaryDirectory() as directory:
        (a, b), (first, second) = small(directory)
        out = pathlib.Path(directory, "all.json")

        def warnings(elapsed_s, later_s):
            start = first["result"]["started_unix_ns"]
            for result, elapsed, later in ((first, 60, 0), (second, elapsed_s, later_s)):
                result["validity"].update(verdict="valid", reasons=[], warnings=[])
                result["result"].update(cpu_stolen_ratio=0, cpu_throttled_ratio=0)
                put_in_time(result, start + later * 10**9, elapsed * 10**9)
            done = merge(write(a, first), write(b, second), "-json", out,
                         "-markdown", f"{directory}/all.md")
            # A busy machine is not looked for.
            told = [text for text in load(out)["validity"]["warnings"] if "together" in text]
            validate(load(out))
            shown = re.findall("^warning: (.* together .*)$", done.stdout.decode(), re.MULTILINE)
            expect(shown == told, f"{shown} {told}")
            for text in told:
                table = pathlib.Path(directory, "all.md").read_text()
                expect(f"Warning: `{text}`" in table, table)
            return told

        expect(warnings(60, 0) == [] and warnings(60, 6) == [], "they ran together")
        whole = "the rates are of the time from the first start to the last end"
        for elapsed, later, common in ((10, 0, "10s"), (60, 7, "53s"), (20, 50, "10s")):
            told = warnings(elapsed, later)
            expect(told == [f"the results ran together for {common} only, and {a} for 1m: "
                            f"{whole}"], told)


@check
def a_hundred_results_are_merged():
    with tempfile.TemporaryDirectory() as directory:
        (a, _), (first, _) = small(directory)
        paths = []
        for seed in range(100):
            first["config"]["seed"] = seed
            paths.append(write(pathlib.Path(directory, f"many{seed}"), first))
        out = pathlib.Path(directory, "all.json")
        merge(*paths, "-json", out)
        merged = load(out)
        validate(merged)
        check_sums(merged, [first] * 100)
        expect(len(merged["merged"]) == 100, "sources are missing")
        for name in merged["latency"]:
            check_hist(merged, [first] * 100, name)
