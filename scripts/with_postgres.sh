#!/usr/bin/env bash
# Runs a command with BENCH_POSTGRES_URI naming a throwaway Postgres server, which ends with it.
# Without a Postgres on this machine the command runs all the same: what needs one says so.
#
#   scripts/with_postgres.sh PYTHON COMMAND…
set -euo pipefail

if (($# < 2)) || [[ ${1##*/} != *python* ]]; then
    echo "usage: with_postgres.sh PYTHON COMMAND…, such as with_postgres.sh python3 psql" >&2
    exit 2
fi
python=$1
shift
export PYTHONDONTWRITEBYTECODE=1
exec "$python" "$(dirname "${BASH_SOURCE[0]}")/../tests/lib/postgres.py" --optional -- "$@"
