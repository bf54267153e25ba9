#!/usr/bin/env bash
# The rules of the house that a machine can check. What a compiler, clang-format or clang-tidy
# checks is left to them.
#
#   scripts/check_style.sh [ROOT]     checks itself on bad files, then ROOT (default: this project)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

RULE_NAMES=(columns tabs blanks unfinished header typedef function file)
FILES=(-name '*.[ch]' -o -name '*.sh' -o -name '*.py' -o -name Makefile -o -path ./.ci/run)

# Columns are characters: bytes that continue a UTF-8 character are taken out before counting.
# shellcheck disable=SC2016  # the dollars are awk's
RULES='
    BEGIN { c = file ~ /\.[ch]$/; marker = "(TO" "DO|FIX" "ME|X" "XX)" }
    {
        text = $0
        gsub(/[\200-\277]/, "", text)
        if (length(text) > 100) fault("columns", "longer than 100 columns (" length(text) ")")
        if (text ~ /\t/ && file !~ /^Makefile$/) fault("tabs", "a tab")
        if (text ~ /[ \t]$/) fault("blanks", "blanks at the end of the line")
        if (text ~ "(^|[^A-Za-z_])" marker "([^A-Za-z_]|$)")
            fault("unfinished", "an unfinished thing: file an issue instead")
    }
    c && FNR == 1 && file ~ /\.h$/ && !/^\/\*/ { fault("header", "a header opens with a comment") }
    c && /^[ ]*typedef[ ]+struct([^A-Za-z_]|$)/ { fault("typedef", "no typedef for a struct") }
    c && /^\{/ { opened = FNR }
    c && /^\}/ && opened {
        if (FNR - opened + 1 > 70)
            fault("function", "a function of " FNR - opened + 1 " lines: 70 at most")
        opened = 0
    }
    END { if (c && FNR > 600) fault("file", "a file of " FNR " lines: 600 at most") }'

# A good file, and one bad file a rule.
plant() {
    printf '/* good, with µ */\n%s\n' "// $(printf 'µ%.0s' {1..97})" >good.h
    printf '%s\n' "// $(printf 'x%.0s' {1..98})" >columns.c
    printf 'int\ta;\n' >tab.c
    printf 'int a; \n' >blanks.c
    printf '// %s: later\n' "TO""DO" >marker.c
    printf '#pragma once\n' >comment.h
    printf 'typedef struct a {\n    int b;\n} a;\n' >typedef.c
    printf 'void f(void)\n{\n%s}\n' "$(printf 'g();\n%.0s' {1..69})"$'\n' >function.c
    printf 'int a;\n%.0s' {1..601} >lines.c
}
PLANTED='blanks.c:1: blanks
columns.c:1: columns
comment.h:1: header
function.c:72: function
lines.c:601: file
marker.c:1: unfinished
tab.c:1: tabs
typedef.c:1: typedef'

# shellcheck source=scripts/rules.sh
. scripts/rules.sh
check_rules "${1:-.}"
