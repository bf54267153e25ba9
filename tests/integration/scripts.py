"""The scripts that run the tests: what they do with the command that they are given."""

import pathlib
import subprocess
import sys
import tempfile

from harness import ROOT, LIMIT_S, check, environment, expect

WITH_POSTGRES = ROOT / "scripts" / "with_postgres.sh"
COMMAND = ["sh", "-c", 'echo "ran ${BENCH_POSTGRES_URI:-alone}"; exit 77']

# A machine on which no server is found.
BARE_PYTHON = f"""#!{sys.executable}
import pathlib, runpy, shutil, sys
pathlib.Path.glob = lambda *_: []
shutil.which = lambda *_: None
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def run_with(python):
    env = environment()
    env.pop("BENCH_POSTGRES_URI", None)
    return subprocess.run([WITH_POSTGRES, python, *COMMAND], capture_output=True, text=True,
                          timeout=LIMIT_S, env=env, check=False)


@check
def command_that_is_skipped_runs_once():
    done = run_with(sys.executable)
    expect(done.returncode == 77, f"exit code {done.returncode}: {done.stderr}")
    expect(done.stdout.count("ran ") == 1, done.stdout)


@check
def command_runs_without_a_server():
    with tempfile.TemporaryDirectory() as directory:
        python = pathlib.Path(directory, "python")
        python.write_text(BARE_PYTHON)
        python.chmod(0o755)
        done = run_with(python)
        expect(done.returncode == 77, f"exit code {done.returncode}: {done.stderr}")
        expect(done.stdout == "ran alone\n", done.stdout)
        expect("no PostgreSQL server is installed" in done.stderr, done.stderr)
