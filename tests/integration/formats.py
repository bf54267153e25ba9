"""The formats of other programs, read as these read them."""

import csv
import html.parser
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

from harness import Missing, bench, check, expect, validate

NUMBER = r"-?\d+(\.\d+)?(e[-+]\d+)?"


FORMATS = ("csv", "markdown", "hgrm", "gobench", "bmf", "openmetrics")


def write_all(directory, *arguments):
    """What a run writes in every format, by its name; of -gha two."""
    paths = {name: pathlib.Path(directory, name) for name in FORMATS}
    flags = [word for name, path in paths.items() for word in (f"-{name}", str(path))]
    for direction in ("smaller", "bigger"):
        paths[direction] = pathlib.Path(directory, f"g.h.{direction}.json")
    done = bench("-runs", "2000", "-latency", "uniform:1ms,3ms", *flags, "-gha",
                 f"{directory}/g.h.json", *arguments)
    expect(done.returncode == 0, done.stderr)
    expect(len(os.listdir(directory)) >= len(paths), os.listdir(directory))
    return {name: path.read_text() for name, path in paths.items()}


@check
def formats_are_as_their_readers_want_them():
    with tempfile.TemporaryDirectory() as directory:
        first = write_all(directory)
        texts = write_all(directory)
    expect(texts["markdown"].startswith(first["markdown"]), "the table is not appended")
    expect(texts["markdown"].count("| figure | value | better |\n| --- | ---: | --- |\n") == 2,
           texts["markdown"])
    check_hgrm(texts["hgrm"])
    check_gobench(texts["gobench"])
    measures, = json.loads(texts["bmf"]).values()
    expect(measures["response_p99"]["value"] > 0.002, measures)
    check_gha(texts["smaller"], texts["bigger"], measures)


def check_hgrm(text):
    """The plotter takes the lines that begin with a number apart at spaces."""
    lines = text.splitlines()
    expect(lines[0].split() == ["Value", "Percentile", "TotalCount", "1/(1-Percentile)"], lines[0])
    rows = [tuple(map(float, line.split())) for line in lines[2:] if line[0] != "#"]
    expect(len(rows) > 20 and all(len(row) == 4 for row in rows[:-1]), text)
    for column in range(3):
        values = [row[column] for row in rows]
        expect(values == sorted(values), f"column {column} does not ascend")
    expect(rows[-1][1:] == (1.0, 2000.0) and 4 < rows[-1][0] < 1000, rows[-1])
    expect(re.search(r"\n#\[Max     = +[\d.]+, Total count    = +2000\]\n", text), text)
    expect(re.search(r"\n#\[bench_revision = \S+\]\n", text), text)


def check_gobench(text):
    """golang.org/design/14313-benchmark-format; lines of neither form are skipped."""
    name, count, *pairs = text.splitlines()[-1].split()
    expect(re.fullmatch(r"BenchmarkRun/\S+-\d+", name) and count == "2000", text)
    units = pairs[1::2]
    expect(len(pairs) % 2 == 0 and all(re.fullmatch(NUMBER, value) for value in pairs[::2]), pairs)
    told = re.findall(r"^Unit (\S+) better=(?:higher|lower)$", text, re.MULTILINE)
    expect(told == units and "response_p99-s" in units, f"{told} {units}")
    keys = re.findall(r"^([a-z][^\sA-Z]*): .", text, re.MULTILINE)
    expect({"cpu", "kernel", "journal", "clock-source"} <= set(keys), keys)
    # Results that differ in a configuration line are not compared.
    expect(not {"started", "seed", "bench-revision", "configuration"} & set(keys), keys)
    expect(re.search(r"^# started: 20\d\d-\d\d-\d\dT", text, re.MULTILINE), text)


def check_gha(smaller, bigger, measures):
    """As the action takes its custom tools' files: entries of name, unit, value, and extra."""
    lists = {"smaller": json.loads(smaller), "bigger": json.loads(bigger)}
    for entries in lists.values():
        for entry in entries:
            expect(set(entry) == {"name", "unit", "value", "extra"}, entry)
            expect(entry["name"] and entry["unit"] and isinstance(entry["value"], (int, float)),
                   entry)
            for line in ("\nbench_revision: ", "\nseed: 1\n"):
                expect(line in entry["extra"], entry)
    values = {direction: {entry["name"].rpartition("/")[2]: entry["value"] for entry in entries}
              for direction, entries in lists.items()}
    expect(set(values["bigger"]) == {"throughput_runs", "throughput_records"}, values)
    expect(not set(values["bigger"]) & set(values["smaller"]), values)
    expect({**values["smaller"], **values["bigger"]} ==
           {name: measure["value"] for name, measure in measures.items()}, values)


@check
def prometheus_reads_openmetrics():
    """Debian's python3-prometheus-client has a strict parser of the format."""
    try:
        from prometheus_client.openmetrics import parser
    except ImportError as error:
        raise Missing("python3-prometheus-client is missing") from error
    with tempfile.TemporaryDirectory() as directory:
        # What a label's value must not end, nor begin: a quotation mark and a backslash.
        values = pathlib.Path(directory, 'a"\\b.txt')
        values.write_text("1ms\n2ms\n")
        text = write_all(directory, "-tool-latency", f"file:{values}")["openmetrics"]
    expect(text.endswith("\n# EOF\n"), "it does not end in # EOF")
    families = {family.name: family for family in parser.text_string_to_metric_families(text)}
    response = families["bench_response_p99_seconds"]
    expect(response.type == "gauge" and response.samples[0].value > 0.002, response)
    info = families["bench_run_info"]
    expect(info.type == "gauge" and len(info.samples) == 1, info)
    labels = info.samples[0].labels
    expect(f"tool-latency=file:{values} " in labels["configuration"] + " ", labels)
    for key in ("bench_revision", "bench_compiler", "bench_flags", "kernel", "cpu_model",
                "clock_source", "journal", "seed", "started"):
        expect(labels[key], f"{key}: {labels}")


class Tables(html.parser.HTMLParser):
    """The cells of a page's tables: a list of rows each."""
    def __init__(self):
        super().__init__()
        self.tables = []

    def handle_starttag(self, tag, attrs):
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")

    def handle_data(self, data):
        if self.tables and self.tables[-1] and self.tables[-1][-1]:
            self.tables[-1][-1][-1] += data.strip("\n")


@check
def github_renders_the_markdown_as_tables():
    """cmark-gfm is the renderer that GitHub publishes."""
    if shutil.which("cmark-gfm") is None:
        raise Missing("cmark-gfm is missing")
    with tempfile.TemporaryDirectory() as directory:
        hostile = pathlib.Path(directory, "a|b`c.txt")
        hostile.write_text("1ms\n")
        text = write_all(directory, "-tool-latency", f"file:{hostile}")["markdown"]
    done = subprocess.run(["cmark-gfm", "--unsafe", "--extension", "table"], input=text.encode(),
                          capture_output=True, check=True)
    page = Tables()
    page.feed(done.stdout.decode())
    expect(len(page.tables) == 2, done.stdout)
    figures, facts = page.tables
    expect(figures[0] == ["figure", "value", "better"], figures)
    rows = {row[0]: row[1:] for row in figures}
    expect(rows["errors"] == ["0", "lower"] and rows["throughput_runs"][1] == "higher", rows)
    expect(all(len(row) == 2 for row in facts), facts)
    told = dict(facts)
    expect("a'b'c.txt" in told["configuration"] and told["verdict"] == "valid", told)


@check
def formats_have_a_file_each():
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/f"
        one_stream = "-gha makes two files, which cannot both go to standard output"
        for flags, text in ((("-json", path, "-bmf", path), "must not name the same file"),
                            (("-json", "-", "-hgrm", "-"), "must not both go to standard output"),
                            (("-gha", "-"), one_stream),
                            (("-gha", path, "-bmf", f"{path}.bigger"), "-bmf and -gha must not"),
                            (("-gha", f"{directory}/"), "-gha must name a file, got "),
                            (("-gha", directory), "-gha must name a file, got "),
                            (("-gha", "/dev/null"), "-gha must name a file, got "),
                            (("-gha", "x" * 5000), "-gha: the path is too long")):
            done = bench("-runs", "10", *flags)
            expect(done.returncode == 2 and text in done.stderr.decode(), done.stderr)
            expect(os.listdir(directory) == [], os.listdir(directory))


@check
def github_action_benchmark_has_a_file_a_direction():
    with tempfile.TemporaryDirectory() as directory:
        for given, smaller, bigger in (("out.json", "out.smaller.json", "out.bigger.json"),
                                       ("out", "out.smaller", "out.bigger"),
                                       (".out", ".out.smaller", ".out.bigger"),
                                       ("a.b/out", "a.b/out.smaller", "a.b/out.bigger")):
            pathlib.Path(directory, "a.b").mkdir(exist_ok=True)
            done = bench("-runs", "10", "-gha", given, cwd=directory)
            expect(done.returncode == 0, done.stderr)
            for path in (smaller, bigger):
                json.loads(pathlib.Path(directory, path).read_text())
                os.unlink(f"{directory}/{path}")
        expect(os.listdir(directory) == ["a.b"], os.listdir(directory))
        # Two names of one file would hold one direction only.
        pathlib.Path(directory, "g.smaller").symlink_to("g.bigger")
        done = bench("-runs", "10", "-gha", "g", cwd=directory)
        expect(done.returncode == 2 and b"-gha: g.smaller and g.bigger must not be the same file"
               in done.stderr, done.stderr)


@check
def intervals_add_up_to_the_whole():
    with tempfile.TemporaryDirectory() as directory:
        lines, path = pathlib.Path(directory, "i.csv"), pathlib.Path(directory, "r.json")
        done = bench("-rate", "500", "-duration", "2s", "-latency", "200ms", "-concurrency", "100",
                     "-progress", "500ms", "-csv", str(lines), "-json", str(path), is_judged=True)
        expect(done.returncode == 4, done.stderr)
        result = json.loads(path.read_text())
        validate(result)
        rows = result["intervals"]
        whole = result["result"]
        for name in ("runs_started", "errors"):
            expect(sum(row[name] for row in rows) == whole[name], f"{name}: {rows}")
        expect(sum(row["runs_ended"] for row in rows) == whole["runs_completed"], rows)
        expect(sum(row["records"] for row in rows) == result["store"]["records"], rows)
        ends = [row["end_ns"] for row in rows]
        expect(len(rows) >= 5 and ends == sorted(set(ends)), ends)
        expect(max(row["backlog"] for row in rows) > 100, "the cap holds no arrival back")
        expect(rows[-1]["in_flight"] == 0 and rows[-1]["backlog"] == 0, rows[-1])
        check_csv(lines, rows)


def check_csv(path, rows):
    """As spreadsheets read it: a header, and a number in every field."""
    with open(path, newline="") as file:
        reader = csv.DictReader(file, strict=True)
        expect(reader.fieldnames == ["start_s", "end_s", "started", "ended", "errors", "records",
                                     "in_flight", "backlog", "runs_per_s", "records_per_s", "p50_s",
                                     "p99_s", "warmup"],
               reader.fieldnames)
        told = list(reader)
    names = {"started": "runs_started", "ended": "runs_ended", "errors": "errors",
             "records": "records", "in_flight": "in_flight", "backlog": "backlog"}
    expect([{name: int(line[column]) for column, name in names.items()} for line in told] ==
           [{name: row[name] for name in names.values()} for row in rows], told)
    for before, line in zip([None, *told], told):
        expect(line["start_s"] == (before["end_s"] if before else "0.000000"), told)
        expect(all(float(value or 0) >= 0 for value in line.values()), line)


@check
def intervals_tell_their_own_percentiles():
    """Of what ended in each: where the wait grows, the last is far above that of all."""
    with tempfile.TemporaryDirectory() as directory:
        csv, path = pathlib.Path(directory, "i.csv"), pathlib.Path(directory, "r.json")
        done = bench("-rate", "5000", "-duration", "2s", "-latency", "2ms", "-concurrency", "12",
                     "-progress", "500ms", "-threads", "2", "-csv", str(csv), "-json", str(path))
        expect(done.returncode in (0, 4), done.stderr)  # a busy machine may be late
        result = json.loads(path.read_text())
        validate(result)
        known = [row for row in result["intervals"] if row["p99_ns"] is not None]
        expect(known, result["intervals"])
        for row in known:
            expect(row["runs_ended"] >= 1000, row)
            expect(4e6 <= row["p50_ns"] <= row["p99_ns"], row)
        expect(known[-1]["p50_ns"] > 1.2 * result["latency"]["response"]["p50_ns"], known)
        fields = [line.split(",") for line in csv.read_text().splitlines()]
        expect(fields[0][-3:] == ["p50_s", "p99_s", "warmup"], fields[0])
        told = [[round(float(text) * 1e9) if text else None for text in row[-3:-1]]
                for row in fields[1:]]
        expect(told == [[row["p50_ns"], row["p99_ns"]] for row in result["intervals"]], told)
