#!/usr/bin/env bash
# Runs test programs side by side, each with a time limit, and adds up what they count.
#
#   scripts/run_tests.sh [COMMAND…]     one argument a program, e.g. "tests/x/run.py build/bench"
#
# A program is counted by cmocka's closing lines or by a line `N passed, N failed[, N skipped]`. It
# has failed, too, when it ends in anything but 0, runs into the limit, or counts no test at all.
# Exit status 77 without a count is a skip, which in CI is a failure. Prints a line a program, then
# the output of those that failed, then the totals alone on the last line.
#
# JOBS (2) and one more, since some mostly wait, run at a time, for at most TEST_TIMEOUT seconds
# (300) each. SKIPPED names what could not even be built.
set -euo pipefail

JOBS=$((${JOBS:-2} + 1))
TEST_TIMEOUT=${TEST_TIMEOUT:-300}
SKIPPED=${SKIPPED:-}
export PYTHONDONTWRITEBYTECODE=1

commands=("$@")
scratch=$(mktemp -d)
# timeout leads a process group of its own, which an interrupt at the keyboard does not reach.
stop() {
    local file
    for file in "$scratch"/*.pid; do
        [[ -e $file ]] && kill -TERM "$(<"$file")"
    done 2>/dev/null
    wait
    exit 130
}
trap 'rm -rf "$scratch"' EXIT
trap stop INT TERM

# Prints "PASSED FAILED SKIPPED" of the output in file $1.
count() {
    LC_ALL=C awk '
        function number(line) { match(line, /[0-9]+ test\(s\)/); return substr(line, RSTART) + 0 }
        /^\[  PASSED  \] .*[0-9]+ test\(s\)/ { cmocka[1] += number($0) }
        /^\[  FAILED  \] .*[0-9]+ test\(s\)/ { cmocka[2] += number($0) }
        /^\[  SKIPPED \] .*[0-9]+ test\(s\)/ { cmocka[3] += number($0) }
        /^[0-9]+ passed, [0-9]+ failed(, [0-9]+ skipped)?$/ { plain = $1 " " $3 " " $5 + 0 }
        END { print plain != "" ? plain : cmocka[1] + 0 " " cmocka[2] + 0 " " cmocka[3] + 0 }' "$1"
}

# Runs command number $1; leaves its output in $1.out and "PASSED FAILED SKIPPED" in $1.count.
run_one() {
    local n=$1 status=0 passed failed skipped note='' word=ok
    local -a words
    read -ra words <<<"${commands[n]}"
    timeout -k 5 "$TEST_TIMEOUT" "${words[@]}" >"$scratch/$n.out" 2>&1 </dev/null &
    echo $! >"$scratch/$n.pid"
    wait $! || status=$?
    rm -f "$scratch/$n.pid"
    read -r passed failed skipped < <(count "$scratch/$n.out")

    if ((status == 77 && passed + failed + skipped == 0)); then
        skipped=1
        if [[ -n ${CI:-} ]]; then
            skipped=0 failed=1 note=" (skipped, which in CI is a failure)"
        fi
    elif ((status == 124 || status == 137)); then
        failed=$((failed + 1)) note=" (stopped after $TEST_TIMEOUT s, or killed)"
    elif ((status > 128)); then
        failed=$((failed + 1)) note=" (signal $((status - 128)))"
    elif ((status != 0 && failed == 0)); then
        failed=1 note=" (exit status $status)"
    elif ((passed + failed + skipped == 0)); then
        failed=1 note=" (no test was run)"
    fi

    echo "$passed $failed $skipped" >"$scratch/$n.count"
    ((failed == 0)) || word=FAIL
    ((skipped == 0)) || note+=", $skipped skipped"
    if ((skipped > 0)); then
        note+=$(LC_ALL=C awk '/^(\[  SKIPPED \]|[Ss][Kk][Ii][Pp]:?) / && !/test\(s\)/ {
            sub(/^\[  SKIPPED \] +|^[A-Za-z]+:? +/, "")
            if (!seen[$0]++) printf "\n      skipped: %s", $0 }' "$scratch/$n.out")
    fi
    # In one write, since others print at the same time.
    printf '%-4s  %s: %d passed, %d failed%s\n' \
        "$word" "$(name_of "$n")" "$passed" "$failed" "$note"
}

# The folder of the build says nothing that the reader does not know.
name_of() {
    local -a words
    read -ra words <<<"${commands[$1]}"
    words[0]=$(sed -E 's,^build[^/]*/,,' <<<"${words[0]}")
    echo "${words[*]}"
}

for n in "${!commands[@]}"; do
    while (($(jobs -rp | wc -l) >= JOBS)); do
        wait -n || true
    done
    run_one "$n" &
done
wait

passed=0 failed=0 skipped=0
for n in "${!commands[@]}"; do
    if ! read -r p f s <"$scratch/$n.count"; then
        p=0 f=1 s=0
    fi
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
    if ((f > 0)); then
        echo
        echo "==> ${commands[n]}"
        tail -n 1000 "$scratch/$n.out"
    fi
done
if [[ -n $SKIPPED ]]; then
    skipped=$((skipped + 1))
    echo "skip  $SKIPPED"
fi
if ((passed + failed == 0)); then
    failed=1
    echo "FAIL  no test was run"
fi
echo "$passed passed, $failed failed, $skipped skipped"
((failed == 0))
