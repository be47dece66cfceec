#!/bin/sh
# Fits the example pool, predicts its test split and scores the prediction.
set -eu
cd "$(dirname "$0")/.."
tool=build/corestack
if [ ! -x $tool ]; then
    echo "demo: $tool does not exist; run 'make' first" >&2
    exit 1
fi
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
run() {
    printf '\n$ %s\n' "$*"
    "$@"
}
run $tool fit examples/digits/pool.json -o "$out/digits.cst"
run $tool predict "$out/digits.cst" examples/digits/pool.json --split test -o "$out/test.npy"
run $tool evaluate "$out/test.npy" --labels examples/digits/test_labels.npy
