#!/usr/bin/env bash
# From a bare Debian 12 or Ubuntu 24.04 to the report of the main job: installs what the build needs
# (as root or with sudo), builds, runs. Can be run again, offline too.
set -euo pipefail
exec </dev/null
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fail() {
    echo "quickstart: $*" >&2
    exit 1
}

echo "quickstart: 1/3 packages"
scripts/install_packages.sh build || exit 1 # it has said why

echo "quickstart: 2/3 make"
make -s -j"$(nproc)" || fail "the build failed (see the lines above)"

echo "quickstart: 3/3 make run"
make -s run || fail "the run failed (see the lines above)"
