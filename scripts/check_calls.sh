#!/bin/sh
# Checks the calls in the object files of a build, which its compile_commands.json lists:
# - calls between folders of src/ against the graph in docs/architecture.md (block include-graph). This finds what
#   scripts/check_includes.sh cannot see: a function declared in a public header, which any folder may include, and defined
#   in a folder that the caller's may not include;
# - the files of a folder do not call one another in a circle, but for those named in docs/architecture.md (block
#   call-circles).
#
#   scripts/check_calls.sh BUILD [ROOT]     BUILD: a build folder; ROOT: the repository, or a copy of its layout
set -eu
build=$(cd "$1" && pwd)
cd "${2:-$(dirname "$0")/..}"
export LC_ALL=C
{
    awk '/^```/ { block = ($0 ~ /^```[a-z]/) ? substr($0, 4) : ""; next }
        block == "include-graph" && NF { sub(/:/, ""); print "row", $0 }
        block == "call-circles" && NF { sub(/:/, ""); print "circle", $0 }' docs/architecture.md
    # A build folder may still hold objects that are no longer part of the build. Those of libcorestack-predict are of the
    # same sources.
    sed -nE 's#^ *"command": ".* -o ([^ ]*(/src/[^ ]*|corestack_objects\.dir/weights)/[^ /]*\.c\.o) .*#\1#p' "$build/compile_commands.json" |
        grep -v 'corestack_predict_objects\.dir' | sort |
        (cd "$build" && tr '\n' '\0' | xargs -0 -r nm -A --format=posix) |
        sed -E 's#^(.*\.dir/|\./)?(src/)?(.*)/([^/]*)\.c\.o: #symbol \3 \4 #'
} | awk '
    function fail(text) { print text > "/dev/stderr"; failed = 1 }
    # Files of a folder that are on a circle, or between two: what is left when those that call none of the rest, or that
    # none of the rest calls, are taken away one after the other.
    function report_circles(    changed, f, e, ends, out, into, list) {
        do {
            changed = 0
            split("", out)
            split("", into)
            for (e in inside) {
                split(e, ends, SUBSEP)
                if ((ends[1] in left) && (ends[2] in left)) { out[ends[1]] = 1; into[ends[2]] = 1 }
            }
            for (f in left) if (!(f in out) || !(f in into)) { delete left[f]; changed = 1 }
        } while (changed)
        for (f in left) list = list " src/" f ".c"
        if (list != "") fail("files of a folder that call one another in a circle:" list)
    }
    $1 == "row" { rows++; for (i = 3; i <= NF; i++) may[$2, $i] = 1 }
    $1 == "circle" { for (i = 3; i <= NF; i++) excused[$2 "/" $i] = 1 }
    function top(folder) { sub(/\/.*/, "", folder); return folder }
    $1 == "symbol" && $5 == "U" { calls++; from[calls] = $2; caller[calls] = $2 "/" $3; callee[calls] = $4 }
    $1 == "symbol" && $5 ~ /^[A-TV-Zi]$/ { home[$4] = $2; where[$4] = $2 "/" $3 } # global, or i: chosen by the processor
    END {
        if (!rows || !calls) fail("found no include graph, or no object files of src/")
        for (i = 1; i <= calls; i++) {
            to = home[callee[i]]
            if (to == from[i]) {
                if (where[callee[i]] == caller[i] || ((caller[i] in excused) && (where[callee[i]] in excused))) continue
                inside[caller[i], where[callee[i]]] = 1
                left[caller[i]] = left[where[callee[i]]] = 1
            } else if (to != "" && top(to) != top(from[i]) && !((top(from[i]), top(to)) in may))
                fail("src/" caller[i] ".c uses " callee[i] " of src/" where[callee[i]] ".c: src/" top(from[i]) \
                    " may not use src/" top(to) " (docs/architecture.md)")
        }
        report_circles()
        exit failed
    }'
