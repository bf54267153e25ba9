#!/usr/bin/env bash
# Installs what the tests need, then runs them all, one stage after the other:
#
#   shell    shellcheck over the scripts           format   clang-format over the C sources
#   lint     clang-tidy, cppcheck, shellcheck
#   gcc      build with -Werror, make check        clang    the same with clang
#   address  ASan and UBSan, make check            thread   TSan, make check
#
#   scripts/test.sh [STAGE…]     these stages instead of all
#
# The last line is the total of all: `N passed, N failed, N skipped`. A missing tool is a failure in
# CI and a visible skip elsewhere. Leaves nothing behind but build*/.
set -euo pipefail
exec </dev/null
cd "$(dirname "${BASH_SOURCE[0]}")/.."

stages=(shell format lint gcc clang address thread)
(($# == 0)) || stages=("$@")
JOBS=${JOBS:-$(nproc)}
export JOBS

fail() {
    echo "test: $*" >&2
    exit 1
}

# Sets tools and command for stage $1. The gcc stage alone checks the rules of the house and waits
# for servers that come and go, and kills bench from outside; what it and the address stage have
# built is run from outside. All stages kill it from inside, at every point there is.
# Under a sanitizer a seed of the simulation takes many times as long: fewer of them are run.
prepare() {
    local check=(make -s -j"$JOBS" WERROR=1 check)
    case "$1" in
    shell) tools=(shellcheck) command=(shellcheck scripts/*.sh .ci/run) ;;
    format) tools=(clang-format-14) command=(make -s format-check) ;;
    lint) tools=(clang-tidy-14 cppcheck shellcheck) command=(make -s lint) ;;
    gcc) tools=(gcc) command=(env SIM_SEEDS="${SIM_SEEDS:-1000}" "${check[@]}" CC=gcc) ;;
    clang)
        tools=(clang)
        command=(env SIM_SEEDS="${SIM_SEEDS:-1000}" "${check[@]}" CC=clang HOUSE_TESTS=
            SCRIPT_TESTS= KILL_TESTS=)
        ;;
    address)
        tools=(clang)
        command=(env SIM_SEEDS="${SIM_SEEDS:-250}" "${check[@]}" CC=clang
            SAN="address,undefined" HOUSE_TESTS= KILL_TESTS=)
        ;;
    thread)
        tools=(gcc)
        command=(env SIM_SEEDS="${SIM_SEEDS:-50}" "${check[@]}" CC=gcc SAN=thread HOUSE_TESTS=
            SCRIPT_TESTS= KILL_TESTS=)
        ;;
    *) fail "no stage '$1': shell, format, lint, gcc, clang, address and thread are" ;;
    esac
}

# A stage that prints no total of its own counts as one test.
run_stage() {
    local stage=$1 tools command status=0 totals p=0 f=0 s=0 start=$SECONDS missing=() tool
    prepare "$stage"
    echo "test: $stage: ${command[*]}"
    for tool in "${tools[@]}"; do
        command -v "$tool" >/dev/null || missing+=("$tool")
    done
    if ((${#missing[@]} > 0)); then
        [[ -n ${CI:-} ]] && f=1 || s=1
        echo "test: $stage: missing: ${missing[*]}"
    else
        # The prefix keeps a stage's total from being read as the last line of all.
        "${command[@]}" 2>&1 | tee "$log" | sed -u "s/^/$stage | /" || status=$?
        totals=$(grep -E '^[0-9]+ passed, [0-9]+ failed(, [0-9]+ skipped)?$' "$log" | tail -n 1) ||
            totals=$((status == 0)),\ $((status != 0))
        read -r p f s <<<"$(tr -cs '0-9' ' ' <<<"$totals")"
        ((status == 0 || f > 0)) || f=1
    fi
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + ${s:-0}))
    took+=" $stage $((SECONDS - start)) s,"
    echo "test: $stage: $p passed, $f failed, ${s:-0} skipped ($((SECONDS - start)) s)"
    ((f == 0)) && return
    failures+=" $stage"
    # Again at the end, where it is looked for first; with what the failed programs said of it.
    failed_lines+=$(sed -n "s/^FAIL /test: $stage: FAIL /p" "$log" | head -n 20)$'\n'
    failed_lines+=$(sed '1,/^==> /d' "$log" | grep -aE 'ERROR|FAIL|[Ee]rror:|WARNING: ThreadSan' |
        head -n 30 | sed "s/^/test: $stage:     /" || true)$'\n'
}

for stage in "${stages[@]}"; do
    prepare "$stage"
done

echo "test: packages"
if ! scripts/install_packages.sh test; then
    [[ -z ${CI:-} ]] || exit 1 # it has said why
    echo "test: going on with what is there"
fi

passed=0 failed=0 skipped=0 failures='' failed_lines='' took=''
log=$(mktemp)
trap 'rm -f "$log"' EXIT
for stage in "${stages[@]}"; do
    run_stage "$stage"
done
printf '%s' "$failed_lines"
echo "test: ${failures:+failed:$failures; }took$took in all $SECONDS s"
echo "$passed passed, $failed failed, $skipped skipped"
((failed == 0))
