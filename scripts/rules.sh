# shellcheck shell=bash
# What check_includes.sh and check_style.sh share: rules in awk, held against each file of a tree.
# Sourced; whoever does so has set
#
#   RULE_NAMES   each of them counts as one test
#   RULES        awk, run over each file with `file` set; fault(RULE, TEXT) prints one of the line
#   FILES        find's expression for the files that the rules are for
#   plant        a function that writes good and bad files into the current folder
#   PLANTED      the faults in them, a line `FILE:LINE: RULE` each, sorted by file and line
#
# and then calls check_rules ROOT.

FAULT='function fault(rule, text) { print file ":" FNR ": " text " [" rule "]" }'

# Prints the faults of the tree at $1, a line each.
find_faults() (
    cd "$1" || exit 1
    mapfile -t found < <(find . \( -path './build*' -o -path ./.git \) -prune -o \
        -type f \( "${FILES[@]}" \) -print | sed 's,^\./,,' | LC_ALL=C sort)
    ((${#found[@]} > 0)) || {
        echo "$1: no files to check" >&2
        exit 1
    }
    for file in "${found[@]}"; do
        LC_ALL=C awk -v file="$file" "$FAULT $RULES" "$file" || exit 1
    done
)

# A check that cannot fail is worth nothing: each rule finds what was planted, and nothing else.
self_test() {
    local tree faults rule status=0
    tree=$(mktemp -d)
    (cd "$tree" && plant)
    faults=$(find_faults "$tree" | sed -E 's/^([^:]*:[0-9]+:).* \[(.*)\]$/\1 \2/') || status=1
    rm -rf "$tree"
    diff <(echo "$PLANTED") <(echo "$faults") || {
        echo "the self-test has not found what it planted (<), or something else (>)"
        status=1
    }
    for rule in "${RULE_NAMES[@]}"; do
        grep -q ": $rule\$" <<<"$PLANTED" || {
            echo "the self-test plants no fault of the rule '$rule'"
            status=1
        }
    done
    return "$status"
}

# Prints the faults of the tree at $1, then `N passed, N failed`: the rules and the self-test.
check_rules() {
    local faults rule passed=0 failed=0
    if self_test; then
        passed=1
    else
        failed=1
    fi
    faults=$(find_faults "$1") || exit 1
    for rule in "${RULE_NAMES[@]}"; do
        if grep " \[$rule\]\$" <<<"$faults"; then
            failed=$((failed + 1))
        else
            passed=$((passed + 1))
        fi
    done
    # What carries no known name is a mistake in the rules themselves.
    if grep -vE " \[($(IFS='|' && echo "${RULE_NAMES[*]}"))\]\$|^\$" <<<"$faults"; then
        failed=$((failed + 1))
    fi
    echo "$passed passed, $failed failed"
    ((failed == 0))
}
