#!/bin/sh
# Fits the example pool, predicts its test split, and scores the stack beside simple baselines. Takes seconds.
set -eu
cd "$(dirname "$0")/.."
tool=build/corestack
if [ ! -x $tool ]; then
    echo "demo: $tool does not exist; run 'make' first" >&2
    exit 1
fi
pool=examples/cifar10/pool.json
run() {
    printf '\n$ %s\n' "$*"
    "$@"
}
run $tool fit $pool -o build/cifar10.cstack
run $tool predict build/cifar10.cstack $pool --split test -o build/cifar10.test.npy
run $tool evaluate build/cifar10.cstack $pool --split test --baselines --resamples 5000
