"""Models that fail, are slow or stream, seen from outside."""

import json
import pathlib
import re
import sqlite3
import tempfile
import time

from harness import bench, check, expect, start, validate


def run_json(*arguments, code=0):
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory, "r.json")
        done = bench(*arguments, "-json", str(path))
        expect(done.returncode == code, f"exit code {done.returncode}: {done.stderr!r}")
        result = json.loads(path.read_text())
        validate(result)
        return done.stdout.decode(), result


@check
def retries_are_reported_apart():
    text, json_result = run_json("-runs", "1000", "-latency", "2ms", "-model-error-rate", "20%",
                                 "-model-retries", "20")
    result, latency = json_result["result"], json_result["latency"]
    expect(result["runs_completed"] == 1000 and result["errors"] == 0, result)
    expect(result["model_failures"] == result["model_retries"] > 200, result)
    expect(result["model_calls"] == 2000 + result["model_retries"], result)
    expect(json_result["store"]["records"] == 6000 + result["model_retries"], json_result["store"])
    expect(latency["retried"]["count"] > 200, latency["retried"]["count"])
    expect(latency["retried"]["count"] + latency["response"]["count"] == 1000, latency)
    expect(re.search(r"\nretried run latency: p50=\S+ p90=\S+ .* \(\d+ runs, which", text), text)
    expect(re.search(r"\nmodel: calls=\d+ failures=\d+ \(timeouts=0\) retries=\d+ ", text), text)


@check
def failures_without_retries_fail_their_runs():
    text, json_result = run_json("-runs", "500", "-model-error-rate", "0.5", code=1)
    result = json_result["result"]
    expect(result["outcomes"]["failed"] == result["model_failures"] > 300, result)
    expect(result["first_error"].endswith("the model is overloaded"), result["first_error"])
    expect("retried run latency" not in text, text)


@check
def hedges_are_counted():
    _, json_result = run_json("-runs", "500", "-latency", "uniform:0ms,40ms", "-hedge", "10ms",
                              "-model-timeout", "30ms", "-model-retries", "9")
    result = json_result["result"]
    expect(result["runs_completed"] == 500, result)
    expect(result["hedges"] > result["hedge_wins"] > 50, result)
    # A loser is discarded, or was lost with its rival to the timeout.
    expect(result["hedges"] - result["model_timeouts"] <= result["replies_discarded"]
           <= result["hedges"], result)


STREAM = ["-runs", "40", "-concurrency", "40", "-latency", "1ms", "-tokens", "60",
          "-token-interval", "1ms"]


@check
def streamed_tokens_are_timed_and_recorded():
    """All of a reply's pieces, joined, are how it begins; and the store says so in SQL."""
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory, "s.db")
        text, json_result = run_json(*STREAM, "-stream-journal", "token",
                                     "-journal", f"sqlite:{path}")
        done = bench("verify", "-journal", f"sqlite:{path}")
        expect(done.returncode == 0, done.stdout)
        with sqlite3.connect(path) as store:
            rows = list(store.execute("SELECT run, kind, payload FROM journal ORDER BY run, seq"))
        deltas = 0
        streamed = ""
        for _, kind, payload in rows:
            if kind == "delta":
                deltas += 1
                streamed += json.loads(payload)["text"]
            elif kind == "model":
                content = json.loads(payload)["message"]["content"]
                expect(content.startswith(streamed) and streamed, (content, streamed))
                streamed = ""
        expect(deltas == json_result["result"]["deltas"] > 100, deltas)
        lag = json_result["latency"]["token_lag"]
        expect(lag["count"] == 40 * 2 * 60, lag["count"])
        expect(re.search(r"\ntoken lag: p50=\S+ .* \(4800 tokens, \d+ deltas recorded\)\n", text),
               text)


@check
def objective_may_be_about_tokens():
    bound = ["-slo", "token.p(99)<1us"]
    text, _ = run_json(*STREAM, *bound, code=99)
    expect("slo MISSED: token.p(99)<1us" in text, text)


@check
def resumed_campaign_goes_on_as_it_was():
    """Its streams and retries too; and a flag that is given goes before."""
    with tempfile.TemporaryDirectory() as directory:
        uri = f"sqlite:{directory}/s.db"
        process = start("-runs", "300", "-concurrency", "300", "-latency", "20ms", "-tokens", "200",
                        "-token-interval", "20ms", "-stream-journal", "token",
                        "-model-error-rate", "20%", "-model-retries", "50", "-journal", uri)
        written = pathlib.Path(directory, "s.db-wal")
        until = time.monotonic() + 30
        while not written.exists() or written.stat().st_size < 500_000:
            expect(process.poll() is None and time.monotonic() < until, "it ended too early")
            time.sleep(0.01)
        process.kill()
        process.communicate()
        path = pathlib.Path(directory, "r.json")
        done = bench("resume", "-journal", uri, "-token-interval", "1ms", "-json", str(path))
        expect(done.returncode == 0, f"exit code {done.returncode}: {done.stderr!r}")
        json_result = json.loads(path.read_text())
        validate(json_result)
        config, result = json_result["config"], json_result["result"]
        expect(config["tokens"] == 200 and config["token_interval_ns"] == 1000000, config)
        expect(config["stream_journal"] == "token" and config["model_retries"] == 50, config)
        expect(result["runs_completed"] == result["runs_resumed"] > 0, result)
        expect(result["deltas"] > 0 and result["model_retries"] > 0, result)
        expect(bench("verify", "-journal", uri).returncode == 0, "verify")
        done = bench("resume", "-journal", uri, "-hedge", "2s", "-model-timeout", "1s")
        expect(done.returncode == 2 and b"-hedge must be shorter" in done.stderr, done.stderr)
