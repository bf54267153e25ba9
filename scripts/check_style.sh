#!/usr/bin/env bash
# The rules of the house that a machine can check. What a compiler, clang-format or clang-tidy
# checks is left to them.
#
#   scripts/check_style.sh [ROOT]     checks itself on bad files, then ROOT (default: this project)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Columns are characters: bytes that continue a UTF-8 character are taken out before counting.
# shellcheck disable=SC2016  # the dollars are awk's
RULES='
    function fault(text) { print file ":" FNR ": " text }
    BEGIN { c = file ~ /\.[ch]$/; marker = "(TO" "DO|FIX" "ME|X" "XX)" }
    {
        text = $0
        gsub(/[\200-\277]/, "", text)
        if (length(text) > 100) fault("longer than 100 columns (" length(text) ")")
        if (text ~ /\t/ && file !~ /^Makefile$/) fault("a tab")
        if (text ~ /[ \t]$/) fault("blanks at the end of the line")
        if (text ~ "(^|[^A-Za-z_])" marker "([^A-Za-z_]|$)")
            fault("an unfinished thing: file an issue instead")
    }
    c && FNR == 1 && file ~ /\.h$/ && !/^\/\*/ { fault("a header opens with a comment") }
    c && /^[ ]*typedef[ ]+struct([^A-Za-z_]|$)/ { fault("no typedef for a struct") }
    c && /^\{/ { opened = FNR }
    c && /^\}/ && opened {
        if (FNR - opened + 1 > 70) fault("a function of " FNR - opened + 1 " lines: 70 at most")
        opened = 0
    }
    END { if (c && FNR > 600) fault("a file of " FNR " lines: 600 at most") }'

# Prints a line a fault in the tree at $1, then `N passed, N failed`, counted in files.
check() {
    local root=$1 file faults passed=0 failed=0
    while IFS= read -r file; do
        faults=$(cd "$root" && LC_ALL=C awk -v file="$file" "$RULES" "$file")
        if [[ -z $faults ]]; then
            passed=$((passed + 1))
        else
            failed=$((failed + 1))
            echo "$faults"
        fi
    done < <(cd "$root" && find . \( -path './build*' -o -path ./.git \) -prune -o -type f \
        \( -name '*.[ch]' -o -name '*.sh' -o -name '*.py' -o \
        -name Makefile -o -path ./.ci/run \) -print |
        sed 's,^\./,,' | LC_ALL=C sort)
    echo "$passed passed, $failed failed"
    ((failed == 0))
}

# A check that cannot fail is worth nothing: a good file and one bad file a rule.
self_test() {
    local tree expected found
    tree=$(mktemp -d)
    printf '/* good, with µ */\n%s\n' "// $(printf 'µ%.0s' {1..97})" >"$tree/good.h"
    printf '%s\n' "// $(printf 'x%.0s' {1..98})" >"$tree/columns.c"
    printf 'int\ta;\n' >"$tree/tab.c"
    printf 'int a; \n' >"$tree/blanks.c"
    printf '// %s: later\n' "TO""DO" >"$tree/marker.c"
    printf '#pragma once\n' >"$tree/comment.h"
    printf 'typedef struct a {\n    int b;\n} a;\n' >"$tree/typedef.c"
    printf 'void f(void)\n{\n%s}\n' "$(printf 'g();\n%.0s' {1..69})"$'\n' >"$tree/function.c"
    printf 'int a;\n%.0s' {1..601} >"$tree/lines.c"
    expected='blanks.c:1: columns.c:1: comment.h:1: function.c:72: lines.c:601: marker.c:1:'
    expected+=' tab.c:1: typedef.c:1:'
    found=$(check "$tree" | cut -d' ' -f1 | sed '$d' | tr '\n' ' ') || true
    rm -rf "$tree"
    [[ ${found% } == "$expected" ]] || {
        echo "check_style: the self-test expected the faults $expected"
        echo "check_style: but found $found"
        exit 1
    }
}

self_test
check "${1:-.}"
