#!/bin/sh
# Coverage of every bound in simulated worlds whose truth is known, fifty times as often as in `make test`.
#   tests/long/bounds.sh [BUILD] [--write]
# --write puts the figures between the markers of docs/appendix/bounds.md. Part of tests/long/run.sh.
set -eu
cd "$(dirname "$0")/../.."
build=${1:-build-gcc}
lines=$(mktemp)
trap 'rm -f "$lines"' EXIT
failed=0
for suite in bounds conformal calibration; do
    CORESTACK_LONG=1 OPENBLAS_NUM_THREADS=1 "$build/tests/tests" bounds.$suite >"$lines.$suite" || failed=1
    grep '^coverage |' "$lines.$suite" >>"$lines" || failed=1
    sed '/^coverage |/d' "$lines.$suite"
    rm -f "$lines.$suite"
done
cat "$lines"
[ "${2:-}" = --write ] && [ $failed = 0 ] || exit $failed
awk -F ' [|] ' -v lines="$lines" '
    /<!-- begin coverage -->/ {
        print
        print "| bound | missed | worlds | share | at most |"
        print "|---|---|---|---|---|"
        while ((getline row < lines) > 0) {
            split(row, part, FS)
            printf "| %s | %d | %d | %.4f | %s |\n", part[2], part[3], part[4], part[3] / part[4], part[5]
        }
        skip = 1
    }
    /<!-- end coverage -->/ { skip = 0 }
    !skip' docs/appendix/bounds.md >"$lines.md"
mv "$lines.md" docs/appendix/bounds.md
