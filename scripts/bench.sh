#!/bin/sh
# Runs the benchmarks, on a fresh release build and beside the reference programs.
set -eu
cd "$(dirname "$0")/.."
if [ ! -x bench/run.sh ]; then
    echo "bench: there is no bench/run.sh" >&2
    exit 1
fi
scripts/dependencies.sh build oracles
make build
exec bench/run.sh "$@"
