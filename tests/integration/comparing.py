"""bench compare: what is judged worse, what is refused, what is said of work that differs.

The results are copies of a real one in which single figures are set."""

import copy
import json
import pathlib
import random
import tempfile

import jsonschema

from harness import ROOT, bench, check, expect

RUNS = 12


def measured():
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory, "r.json")
        done = bench("-runs", "1000", "-json", str(path), "-quiet")
        expect(done.returncode == 0, done.stderr)
        return json.loads(path.read_text())


class Sides:
    """A directory with a base and a head, each of some results."""

    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        self.result = measured()
        self.random = random.Random(1)

    def write(self, side, change=lambda result: None, runs=RUNS, noise=0.01, scenario=""):
        folder = self.directory / side / scenario
        folder.mkdir(parents=True, exist_ok=True)
        for i in range(1, runs + 1):
            result = copy.deepcopy(self.result)
            spread = 1 + self.random.uniform(-noise, noise)
            result["result"]["throughput_runs_per_s"] = 1000 * spread
            change(result)
            (folder / f"{i}.json").write_text(json.dumps(result))

    def compare(self, *flags, code=0, operands=("base", "--", "head")):
        paths = [o if o == "--" else str(self.directory / o) for o in operands]
        done = bench("compare", *flags, *paths)
        expect(done.returncode == code, f"exit code {done.returncode}: {done.stderr!r}")
        return done

    def judged(self, *flags, code=0, **options):
        path = self.directory / "c.json"
        self.compare("-json", str(path), *flags, code=code, **options)
        compared = json.loads(path.read_text())
        schema = json.loads((ROOT / "docs" / "bench.compare.schema.json").read_text())
        jsonschema.validate(compared, schema)
        return compared


def set_to(section, key, value):
    def change(result):
        result[section][key] = value
    return change


def times(key, factor):
    def change(result):
        result["result"][key] *= factor
    return change


def figure(compared, name, scenario=0):
    return next(f for f in compared["scenarios"][scenario]["figures"] if f["name"] == name)


@check
def comparison_of_the_same_finds_nothing():
    with tempfile.TemporaryDirectory() as directory:
        sides = Sides(directory)
        sides.write("base")
        sides.write("head")
        compared = sides.judged()
        expect(compared["regressions"] == 0, compared)
        expect(compared["scenarios"][0]["work"] == "same", compared)
        expect(figure(compared, "throughput")["verdict"] == "equivalent", compared)
        expect(figure(compared, "records a run")["verdict"] == "same", compared)
        text = sides.compare().stdout.decode()
        expect("journaled the same bytes" in text and "regressions=0" in text, text)


@check
def comparison_calls_the_slower_worse():
    with tempfile.TemporaryDirectory() as directory:
        sides = Sides(directory)
        sides.write("base")
        sides.write("head", times("throughput_runs_per_s", 0.88))
        for flags in ((), ("-paired",)):
            compared = sides.judged(*flags, code=3)
            worse = figure(compared, "throughput")
            expect(compared["regressions"] == 1 and worse["verdict"] == "worse", compared)
            expect(worse["low_ratio"] < -0.12 < worse["high_ratio"] < 0, worse)
        done = sides.compare(code=3)
        expect(done.stderr == b"bench: 1 worse\n", done.stderr)
        # The other way round it is better, and within the floor it is nothing.
        expect(figure(sides.judged(operands=("head", "--", "base")), "throughput")["verdict"]
               == "better", "not better")
        sides.compare("-floor", "20%")
        sides.compare("-threshold", "20%")


@check
def comparison_calls_one_more_allocation_exactly():
    with tempfile.TemporaryDirectory() as directory:
        sides = Sides(directory)
        sides.write("base", set_to("result", "allocations_per_run", 0.25))
        sides.write("head", set_to("result", "allocations_per_run", 1.25))
        compared = sides.judged(code=3)
        more = figure(compared, "allocations a run")
        expect(more["verdict"] == "worse" and more["head"]["median"] - more["base"]["median"] == 1,
               more)
        text = sides.compare(code=3).stdout.decode()
        row = next(line for line in text.splitlines() if line.startswith("allocations a run"))
        expect(row.split()[3:] == ["0.25", "1.25", "+1", "worse"], row)
        # Counts come first.
        expect(text.index("allocations a run") < text.index("throughput"), text)


@check
def comparison_says_at_the_top_that_the_work_differs():
    with tempfile.TemporaryDirectory() as directory:
        sides = Sides(directory)
        sides.write("base")
        sides.write("head", set_to("result", "journal_checksum", "0123456789abcdef"))
        compared = sides.judged()
        expect(compared["scenarios"][0]["work"] == "differs", compared)
        text = sides.compare().stdout.decode()
        expect(text.startswith("THE WORK DIFFERS: "), text)
        markdown = sides.directory / "m.md"
        sides.compare("-markdown", str(markdown))
        expect("**The two sides have not done the same work:**" in markdown.read_text(), "")
        # Of a duration nobody knows how many runs there should be.
        sides.write("head", lambda result: (
            set_to("result", "journal_checksum", "0123456789abcdef")(result),
            set_to("config", "runs", None)(result)))
        sides.write("base", set_to("config", "runs", None))
        expect(sides.judged()["scenarios"][0]["work"] == "unknown", "")


@check
def comparison_of_what_is_not_alike_is_refused():
    with tempfile.TemporaryDirectory() as directory:
        sides = Sides(directory)
        sides.write("base")
        for section, key, value in (("host", "cpu_model", "another"), ("config", "turns", 3),
                                    ("store", "durability", "power"), ("config", "new", True),
                                    ("store", "shards", 2), ("host", "cpu_quota", 0.5)):
            sides.write("head", set_to(section, key, value))
            done = sides.compare(code=2)
            expect(f"differ: {section}.{key} is ".encode() in done.stderr, done.stderr)
            expect(done.stderr.count(b"\n") == 1 and done.stdout == b"", done)
            text = sides.compare("-force").stdout.decode()
            expect(text.startswith("DIFFERENT: "), text)
        sides.write("head", set_to("config", "json", "elsewhere.json"))
        sides.compare()
        sides.write("head", set_to("result", "errors", 3))
        done = sides.compare(code=2)
        expect(b"3 of its runs did not complete" in done.stderr, done.stderr)


@check
def comparison_of_few_runs_has_no_interval():
    with tempfile.TemporaryDirectory() as directory:
        sides = Sides(directory)
        sides.write("base", runs=5)
        sides.write("head", times("throughput_runs_per_s", 0.5), runs=5)
        few = figure(sides.judged(), "throughput")
        expect(few["verdict"] == "too few runs" and few["low_ratio"] is None, few)
        expect("too few runs" in sides.compare().stdout.decode(), "")
        sides.compare(operands=("base/1.json", "head/1.json"))


@check
def comparison_knows_scenarios_by_their_directories():
    with tempfile.TemporaryDirectory() as directory:
        sides = Sides(directory)
        for scenario in ("overhead", "fanout"):
            sides.write("base", scenario=scenario)
        sides.write("head", times("throughput_runs_per_s", 0.8), scenario="overhead")
        sides.write("head", times("throughput_runs_per_s", 0.9), scenario="fanout")
        compared = sides.judged(code=3)
        expect([s["name"] for s in compared["scenarios"]] == ["fanout", "overhead"], compared)
        mean = compared["geomean_ratios"]["throughput"]
        expect(abs(mean - ((0.8 * 0.9) ** 0.5 - 1)) < 0.01, compared["geomean_ratios"])
        sides.write("base", scenario="alone")
        done = sides.compare(code=2)
        expect(b'scenario "alone" has no result of the head' in done.stderr, done.stderr)


@check
def comparison_of_what_cannot_be_read_is_refused():
    with tempfile.TemporaryDirectory() as directory:
        sides = Sides(directory)
        sides.write("base", runs=2)
        sides.write("head", runs=3)
        done = sides.compare("-paired", code=2)
        expect(b"2 results of the base and 3 of the head" in done.stderr, done.stderr)
        bad = sides.directory / "head" / "2.json"
        good = bad.read_text()
        rate = '"throughput_runs_per_s": '
        for text in (good[:-100], "", "[]", good.replace('"bench.run/1"', '"other/1"'),
                     good.replace(rate, rate + "[],"), good.replace(rate, rate + '"x", "y": '),
                     good.replace(rate, rate + '1e999, "y": ')):
            bad.write_text(text)
            done = sides.compare(code=2)
            expect(b"2.json" in done.stderr and done.stderr.count(b"\n") == 1, done.stderr)
        bad.write_text(good)
        (sides.directory / "empty").mkdir()
        sides.compare(code=2, operands=("empty", "--", "empty"))
        sides.compare(code=2, operands=("base", "--", "missing"))
        before = (sides.directory / "base" / "1.json").read_bytes()
        sides.compare("-json", str(sides.directory / "base" / "1.json"), code=2,
                      operands=("base/1.json", "head/1.json"))
        expect((sides.directory / "base" / "1.json").read_bytes() == before, "overwritten")
