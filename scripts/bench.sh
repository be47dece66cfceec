#!/bin/sh
# Runs the benchmarks.
set -eu
cd "$(dirname "$0")/.."
if [ ! -x bench/run.sh ]; then
    echo "bench: there is no bench/run.sh" >&2
    exit 1
fi
exec bench/run.sh "$@"
