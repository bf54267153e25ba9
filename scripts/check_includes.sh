#!/usr/bin/env bash
# Includes point one way: cmd → engine → {journal, stub_model} → engine/loop → engine/base. Tests
# may include everything, nobody includes tests. A header of the project is included by its path
# from the root, in double quotes.
#
#   scripts/check_includes.sh [ROOT]     checks itself on a bad tree, then ROOT (this project)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

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
    done < <(cd "$root" &&
        find cmd engine journal stub_model tests -name '*.[ch]' 2>/dev/null | LC_ALL=C sort)
    echo "$passed passed, $failed failed"
    ((failed == 0))
}

# shellcheck disable=SC2016  # the dollars are awk's
RULES='
    function layer_of(path) {
        if (path ~ /^engine\/base\//) return "base"
        if (path ~ /^engine\/loop[^\/]*$/) return "loop"
        sub(/\/.*/, "", path)
        return path
    }
    function fault(text) { print file ":" FNR ": " text }
    BEGIN {
        may["base"] = "base"
        may["loop"] = "loop base"
        may["journal"] = "journal loop base"
        may["stub_model"] = "stub_model loop base"
        may["engine"] = "engine journal stub_model loop base"
        may["cmd"] = "cmd engine journal stub_model loop base"
        may["tests"] = "tests cmd engine journal stub_model loop base"
        layer = layer_of(file)
    }
    /^[ \t]*#[ \t]*include/ {
        target = $0
        sub(/^[ \t]*#[ \t]*include[ \t]*/, "", target)
        quote = substr(target, 1, 1)
        target = substr(target, 2)
        sub(/[">].*/, "", target)
        ours = layer_of(target) in may && target ~ /\//
        if (quote == "<") {
            if (ours) fault("<" target "> is ours: include it in double quotes")
        } else if (quote != "\"") {
            fault("an include must name its file")
        } else if (!ours || target ~ /\.\./) {
            fault("\"" target "\" is not a path from the root")
        } else if ((getline line < target) < 0) {
            fault("\"" target "\" does not exist")
        } else {
            close(target)
            if (index(" " may[layer] " ", " " layer_of(target) " ") == 0)
                fault(layer " must not include " layer_of(target) ": \"" target "\"")
        }
    }'

# A check that cannot fail is worth nothing: a small tree with two good files and each bad include.
self_test() {
    local tree expected found
    tree=$(mktemp -d)
    mkdir -p "$tree"/{cmd,engine/base,journal,stub_model,tests/lib}
    touch "$tree"/{cmd,engine,engine/base,journal,stub_model,tests/lib}/a.h "$tree/engine/loop.h"
    printf '%s\n' '#include <stdio.h>' '#include "engine/a.h"' '#  include "engine/base/a.h"' \
        >"$tree/cmd/good.c"
    printf '#include "cmd/a.h"\n#include "tests/lib/a.h"\n' >"$tree/tests/good.c"
    printf '#include "engine/loop.h"\n' >"$tree/engine/base/bad.c"
    printf '#include "journal/a.h"\n' >"$tree/engine/loop_bad.c"
    printf '#include "stub_model/a.h"\n#include "engine/a.h"\n' >"$tree/journal/bad.c"
    printf '#include "journal/a.h"\n' >"$tree/stub_model/bad.c"
    printf '#include "cmd/a.h"\n#include "tests/lib/a.h"\n' >"$tree/engine/bad.c"
    printf '#include %s\n' '"a.h"' '"../engine/a.h"' '<engine/a.h>' '"cmd/none.h"' \
        >"$tree/cmd/bad.c"
    expected='cmd/bad.c:1: cmd/bad.c:2: cmd/bad.c:3: cmd/bad.c:4: engine/bad.c:1: engine/bad.c:2:'
    expected+=' engine/base/bad.c:1: engine/loop_bad.c:1: journal/bad.c:1: journal/bad.c:2:'
    expected+=' stub_model/bad.c:1:'
    found=$(check "$tree" | cut -d' ' -f1 | sed '$d' | tr '\n' ' ') || true
    rm -rf "$tree"
    [[ ${found% } == "$expected" ]] || {
        echo "check_includes: the self-test expected the faults $expected"
        echo "check_includes: but found $found"
        exit 1
    }
}

self_test
check "${1:-.}"
