"""Passwords: whatever is mistyped, no line shows one."""

import re
import tempfile

from harness import bench, check, expect

# One argument takes 128 KiB at most, and a line shows half a KiB: the @ is not on it.
LONG = "s3cret" * 20000
URIS = [
    "postgres://u:s3cret@h/d",
    "postgres://u:s3c@s3cret@h/d",
    "postgres://u:s3 s3cret@h/d",
    "postgres://s3cret@h/d",
    f"postgres://u:{LONG}@h/d",
    "postgresql://h/d?password=s3cret",
    f"postgresql://h/d?sslmode=x&Password={LONG}",
    "host=h password=s3cret",
    "host=h password='s3 s3cret' user=u",
]

# What slips: the flag in front of it, or its name.
SLIPS = [
    ["verify", "URI"], ["run", "URI"], ["resume", "URI"], ["URI"], ["-runs", "5", "URI"],
    ["--", "URI"], ["-journal", "URI", "URI"], ["verify", "-journal", "memory", "URI", "URI"],
    ["-durability", "URI"], ["-runs", "URI"], ["-concurrency", "URI"], ["-threads", "URI"],
    ["-seed", "URI"], ["-loop", "URI"], ["-timeout", "URI"], ["-history", "URI"],
    ["-run-id", "URI"], ["-tool-effect", "URI"], ["-retry-for", "URI"], ["-progress", "URI"],
    ["verify", "-journal", "memory", "-campaign", "URI"],
    ["resume", "-journal", "memory", "-tool-retry", "URI"],
    ["-quiet=URI"], ["-help=URI"], ["-json", "URI"], ["-json", "URI/f"],
    ["-tool-effect", "ledger", "-ledger", "URI"],
    ["-latency", "URI"], ["-latency", "file:URI"], ["-latency", "uniform:URI,5ms"],
    ["-prompt-bytes", "file:URI"], ["--journal:URI"], ["-URI"], ["-journal", "x URI"],
    ["-journal", "sqlite:URI/x"], ["verify", "-journal", "sqlite:URI"],
    ["-json", "URI", "-journal", "sqlite:URI"],
]


@check
def password_that_slips_is_hidden():
    with tempfile.TemporaryDirectory() as directory:
        for slip in SLIPS:
            for uri in URIS:
                arguments = [word.replace("URI", uri) for word in slip]
                done = bench(*arguments, cwd=directory)
                said = f"{slip} {uri[:60]}: exit code {done.returncode}: {done.stderr[:300]!r}"
                expect(done.returncode in (0, 2), said)  # some are good names of files
                expect(b"s3" not in done.stdout + done.stderr, said)
                if done.returncode == 2:
                    expect(re.fullmatch(rb"bench: [^\n]+\n", done.stderr), said)


@check
def the_rest_of_a_uri_is_shown():
    done = bench("verify", "postgres://u:s3cret@host/database", "postgres://u:other@host")
    message = ("bench: unexpected operand (did you mean -journal …?)"
               " \"postgres://…@host/database\" (see 'bench verify -help')\n")
    expect(done.stderr.decode() == message, done.stderr)
    done = bench("postgresql://host/database?password=s3cret&sslmode=x")
    message = "bench: unknown command \"postgresql://host/database?password=…&sslmode=x\"" \
              " (see 'bench -help')\n"
    expect(done.stderr.decode() == message, done.stderr)


@check
def password_of_the_journal_is_never_printed():
    with tempfile.TemporaryDirectory() as directory:
        for uri in (f"postgres://u:secret@/d?host={directory}/none", "postgres:u:secret@h/d"):
            for command in (["run", "-retry-for=0"], ["resume", "-retry-for=0"], ["verify"]):
                done = bench(*command, "-journal", uri)
                expect(done.returncode == 2, f"{command}: exit code {done.returncode}")
                expect(b"secret" not in done.stdout + done.stderr, done.stderr)
                expect(re.fullmatch(rb"bench: [^\n]+\n", done.stderr), done.stderr)
