#!/bin/sh
# Fails if a public function is used by nobody: not by the tool, mpi/, the Python package, an example or a C program in
# README.md or docs/, and no sentence of its comment in the header says who needs it ("For programs that ...").
#
#   scripts/check_api.sh [ROOT]
set -eu
cd "${1:-$(dirname "$0")/..}"
used=$(mktemp)
trap 'rm -f "$used"' EXIT
{
    find cli mpi python/corestack examples -name '*.[ch]' -o -name '*.py' | xargs cat
    awk '/^```/ { code = /^```c$/ } code' README.md docs/*.md
} | grep -oE '\bcst_[a-z0-9_]+' | sort -u >"$used"
for header in include/corestack/*.h; do
    awk -v header="$header" -v used="$used" '
        BEGIN { while ((getline name < used) > 0) uses[name] = 1 }
        /^\/\*/ { comment = "" }
        /^(\/| )\*/ { comment = comment " " substr($0, 4) }
        /^CST_API/ { prototype = "" ; open = 1 }
        open { prototype = prototype $0 }
        open && /;/ {
            open = 0
            if (match(prototype, /cst_[a-z0-9_]+\(/)) {
                name = substr(prototype, RSTART, RLENGTH - 1)
                if (!(name in uses) && comment !~ /For programs /) {
                    print header ": nobody uses " name ", and its comment does not say who needs it (For programs ...)"
                    failed = 1
                }
            }
            comment = ""
        }
        END { exit failed }' "$header" || failed=1
done
exit "${failed:-0}"
