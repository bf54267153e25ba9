#!/usr/bin/env bash
# Includes point one way: cmd → engine → {journal, stub_model} → engine/loop → engine/base. Tests
# may include everything, nobody includes tests. A header of the project is included by its path
# from the root, in double quotes.
#
#   scripts/check_includes.sh [ROOT]     checks itself on a bad tree, then ROOT (this project)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

RULE_NAMES=(quotes name root exists direction)
FILES=(\( -path './cmd/*' -o -path './engine/*' -o -path './journal/*' -o -path './stub_model/*'
    -o -path './tests/*' \) -name '*.[ch]')

# shellcheck disable=SC2016  # the dollars are awk's
RULES='
    function layer_of(path) {
        if (path ~ /^engine\/base\//) return "base"
        if (path ~ /^engine\/loop[^\/]*$/) return "loop"
        sub(/\/.*/, "", path)
        return path
    }
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
            if (ours) fault("quotes", "<" target "> is ours: include it in double quotes")
        } else if (quote != "\"") {
            fault("name", "an include must name its file")
        } else if (!ours || target ~ /\.\./) {
            fault("root", "\"" target "\" is not a path from the root")
        } else if ((getline line < target) < 0) {
            fault("exists", "\"" target "\" does not exist")
        } else {
            close(target)
            if (index(" " may[layer] " ", " " layer_of(target) " ") == 0)
                fault("direction", layer " must not include " layer_of(target) ": \"" target "\"")
        }
    }'

# Two good files, and each bad include.
plant() {
    mkdir -p cmd engine/base journal stub_model tests/lib
    touch {cmd,engine,engine/base,journal,stub_model,tests/lib}/a.h engine/loop.h
    printf '%s\n' '#include <stdio.h>' '#include "engine/a.h"' '#  include "engine/base/a.h"' \
        >cmd/good.c
    printf '#include "cmd/a.h"\n#include "tests/lib/a.h"\n' >tests/good.c
    printf '#include "engine/loop.h"\n' >engine/base/bad.c
    printf '#include "journal/a.h"\n' >engine/loop_bad.c
    printf '#include "stub_model/a.h"\n#include "engine/a.h"\n' >journal/bad.c
    printf '#include "journal/a.h"\n' >stub_model/bad.c
    printf '#include "cmd/a.h"\n#include "tests/lib/a.h"\n' >engine/bad.c
    printf '#include %s\n' '"a.h"' '"../engine/a.h"' '<engine/a.h>' '"cmd/none.h"' 'A' >cmd/bad.c
}
PLANTED='cmd/bad.c:1: root
cmd/bad.c:2: root
cmd/bad.c:3: quotes
cmd/bad.c:4: exists
cmd/bad.c:5: name
engine/bad.c:1: direction
engine/bad.c:2: direction
engine/base/bad.c:1: direction
engine/loop_bad.c:1: direction
journal/bad.c:1: direction
journal/bad.c:2: direction
stub_model/bad.c:1: direction'

# shellcheck source=scripts/rules.sh
. scripts/rules.sh
check_rules "${1:-.}"
