#!/usr/bin/env bash
# Installs the Debian packages that building (`build`) or building and testing (`test`) needs. This
# is the one list of them. What is there already is found with dpkg-query, so that a second run
# fetches nothing and works offline.
#
#   scripts/install_packages.sh build|test
set -euo pipefail

BUILD_PACKAGES=(
    gcc make libc6-dev pkgconf
    liburing-dev libsqlite3-dev libpq-dev libjemalloc-dev libjansson-dev libxxhash-dev
)
# clang-format and clang-tidy come by version: another one judges the same code otherwise.
TEST_PACKAGES=(
    clang libclang-rt-dev libcmocka-dev python3 python3-jsonschema postgresql
    shellcheck cppcheck clang-format-14 clang-tidy-14 python3-prometheus-client cmark-gfm tmux
)

fail() {
    echo "install_packages: $*" >&2
    exit 1
}

missing_of() {
    local package
    for package in "$@"; do
        [[ $(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null) == installed ]] ||
            echo "$package"
    done
}

# Without an installation candidate for each, the machine's package lists are empty or too old.
lists_know() {
    ! LC_ALL=C apt-cache policy "$@" 2>/dev/null | grep -q 'Candidate: (none)' &&
        [[ $(LC_ALL=C apt-cache policy "$@" 2>/dev/null | grep -c 'Candidate:') -eq $# ]]
}

as_root() {
    local -a sudo=()
    if ((EUID != 0)); then
        sudo=(sudo)
        # A password can only be asked for where somebody can answer.
        [[ -t 2 && -z ${CI:-} ]] || sudo=(sudo -n)
    fi
    "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive LC_ALL=C "$@" </dev/null
}

update() {
    echo "install_packages: apt-get update"
    # One unreachable source of somebody else must not matter; a package that nobody has fails
    # below.
    as_root apt-get -q -o DPkg::Lock::Timeout=120 -o Acquire::Retries=2 update >"$log" 2>&1 || true
}

CLUSTER_CONF=/etc/postgresql-common/createcluster.d/bench.conf
has_cluster_conf=

# The Postgres package would make a cluster and start it: the tests start their own.
without_cluster() {
    local status=0
    has_cluster_conf=yes
    as_root sh -c "mkdir -p ${CLUSTER_CONF%/*} && echo 'create_main_cluster = false' >$CLUSTER_CONF"
    "$@" || status=$?
    as_root rm -f "$CLUSTER_CONF"
    has_cluster_conf=
    return "$status"
}

# Also when it is interrupted.
clean_up() {
    rm -f "$log"
    [[ -z $has_cluster_conf ]] || as_root rm -f "$CLUSTER_CONF"
}

# apt-get fetches everything before it unpacks anything, so a failed fetch leaves nothing half
# installed.
install() {
    as_root apt-get -q -y --no-install-recommends -o DPkg::Lock::Timeout=120 \
        -o Acquire::Retries=2 -o Dpkg::Options::=--force-confold install "$@" >"$log" 2>&1
}

case "${1:-}" in
build) packages=("${BUILD_PACKAGES[@]}") ;;
test) packages=("${BUILD_PACKAGES[@]}" "${TEST_PACKAGES[@]}") ;;
*) fail "usage: install_packages.sh build|test" ;;
esac

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    fail "not a Debian or Ubuntu system; install what these packages hold: ${packages[*]}"
fi

mapfile -t missing < <(missing_of "${packages[@]}")
if ((${#missing[@]} == 0)); then
    echo "install_packages: all ${#packages[@]} packages are installed"
    exit 0
fi
if ((EUID != 0)) && ! command -v sudo >/dev/null; then
    fail "needs root or sudo to install: ${missing[*]}"
fi

log=$(mktemp)
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

echo "install_packages: installing ${missing[*]}"
# An earlier installation that was interrupted blocks every later one until it is finished.
if [[ -n $(dpkg --audit 2>/dev/null) ]]; then
    as_root dpkg --configure -a >"$log" 2>&1 || true
fi
updated=
lists_know "${missing[@]}" || { update && updated=yes; }
if ! without_cluster install "${missing[@]}"; then
    # Lists that name versions which the mirror has since replaced look like this too.
    [[ -n $updated ]] || update
    if ! without_cluster install "${missing[@]}"; then
        reason=$(grep -m 1 '^E: ' "$log" || tail -n 1 "$log")
        fail "apt-get could not install ${missing[*]}: ${reason#E: }"
    fi
fi
mapfile -t missing < <(missing_of "${missing[@]}")
((${#missing[@]} == 0)) || fail "still not installed: ${missing[*]}"
