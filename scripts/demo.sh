#!/bin/sh
# Fits the example pool, predicts its test split, and scores the stack beside simple baselines. Takes seconds.
set -eu
cd "$(dirname "$0")/.."
tool=build/corestack
if [ ! -x $tool ]; then
    echo "demo: $tool does not exist; run 'make' first" >&2
    exit 1
fi
pool=examples/digits/pool.json
run() {
    printf '\n$ %s\n' "$*"
    "$@"
}
run $tool fit $pool -o build/digits.cstack
run $tool predict build/digits.cstack $pool --split test -o build/digits.test.npy
run $tool evaluate build/digits.cstack $pool --split test --baselines --resamples 5000
