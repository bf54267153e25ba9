"""The formats of other programs, read as these read them."""

import json
import pathlib
import re
import tempfile

from harness import bench, check, expect, validate

NUMBER = r"-?\d+(\.\d+)?(e[-+]\d+)?"


def write_all(directory):
    paths = {name: pathlib.Path(directory, name)
             for name in ("markdown", "hgrm", "gobench", "bmf", "openmetrics")}
    flags = [word for name, path in paths.items() for word in (f"-{name}", str(path))]
    done = bench("-runs", "2000", "-latency", "uniform:1ms,3ms", *flags)
    expect(done.returncode == 0, done.stderr)
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
    check_openmetrics(texts["openmetrics"])


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


def check_gobench(text):
    """golang.org/design/14313-benchmark-format"""
    name, count, *pairs = text.splitlines()[-1].split()
    expect(re.fullmatch(r"BenchmarkRun/\S+-\d+", name) and count == "2000", text)
    units = pairs[1::2]
    expect(len(pairs) % 2 == 0 and all(re.fullmatch(NUMBER, value) for value in pairs[::2]), pairs)
    told = re.findall(r"^Unit (\S+) better=(?:higher|lower)$", text, re.MULTILINE)
    expect(told == units and "response_p99-s" in units, f"{told} {units}")


def check_openmetrics(text):
    lines = text.splitlines()
    expect(lines[-1] == "# EOF" and text.endswith("\n"), "it does not end in # EOF")
    for kind, sample in zip(lines[:-1:2], lines[1:-1:2]):
        name = re.fullmatch(r"# TYPE (bench_[a-z0-9_]+) gauge", kind)
        expect(name, kind)
        expect(re.fullmatch(name[1] + r'{series="[^"\\]+"} ' + NUMBER, sample), sample)


@check
def formats_have_a_file_each():
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/f"
        for flags, text in ((("-json", path, "-bmf", path), "must not name the same file"),
                            (("-json", "-", "-hgrm", "-"), "must not both go to standard output")):
            done = bench("-runs", "10", *flags)
            expect(done.returncode == 2 and text in done.stderr.decode(), done.stderr)


@check
def intervals_add_up_to_the_whole():
    with tempfile.TemporaryDirectory() as directory:
        csv, path = pathlib.Path(directory, "i.csv"), pathlib.Path(directory, "r.json")
        done = bench("-rate", "500", "-duration", "2s", "-latency", "200ms", "-concurrency", "100",
                     "-progress", "500ms", "-csv", str(csv), "-json", str(path))
        expect(done.returncode == 0, done.stderr)
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
        lines = csv.read_text().splitlines()
        expect(lines[0].startswith("start_s,end_s,started,ended,errors,records,"), lines[0])
        told = [[int(field) for field in line.split(",")[2:8]] for line in lines[1:]]
        expect(told == [[row["runs_started"], row["runs_ended"], row["errors"], row["records"],
                         row["in_flight"], row["backlog"]] for row in rows], lines)


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
