#!/bin/sh
# Checks every call between folders of src/ against the graph in docs/architecture.md (fenced block include-graph). This
# finds what scripts/check_includes.sh cannot see: a function declared in a public header, which any folder may include,
# and defined in a folder that the caller's may not include. Needs the object files of a build.
#
#   scripts/check_calls.sh BUILD [ROOT]     BUILD: a build folder; ROOT: the repository, or a copy of its layout
set -eu
build=$(cd "$1" && pwd)
cd "${2:-$(dirname "$0")/..}"
export LC_ALL=C
{
    awk '/^```/ { block = ($0 ~ /^```[a-z]/) ? substr($0, 4) : ""; next }
        block == "include-graph" && NF { sub(/:/, ""); print "row", $0 }' docs/architecture.md
    # A build may still hold objects of sources that were removed.
    find "$build" -path '*/src/*/*.c.o' | sort | while IFS= read -r object; do
        source=${object##*/src/}
        [ ! -f "src/${source%.o}" ] || printf '%s\n' "$object"
    done | tr '\n' '\0' | xargs -0 -r nm -A --format=posix | sed 's|^.*/src/\([^/]*\)/\([^:]*\)\.o: |symbol \1 src/\1/\2 |'
} | awk '
    function fail(text) { print text > "/dev/stderr"; failed = 1 }
    $1 == "row" { rows++; for (i = 3; i <= NF; i++) may[$2, $i] = 1 }
    $1 == "symbol" && $5 == "U" { calls++; from[calls] = $2; caller[calls] = $3; callee[calls] = $4 }
    $1 == "symbol" && $5 ~ /^[A-TV-Zi]$/ { home[$4] = $2; where[$4] = $3 } # upper case: global; i: chosen by the processor
    END {
        if (!rows || !calls) fail("found no include graph, or no object files of src/")
        for (i = 1; i <= calls; i++) {
            to = home[callee[i]]
            if (to != "" && to != from[i] && !((from[i], to) in may))
                fail(caller[i] " uses " callee[i] " of " where[callee[i]] ": src/" from[i] " may not use src/" to \
                    " (docs/architecture.md)")
        }
        exit failed
    }'
