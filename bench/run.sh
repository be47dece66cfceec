#!/bin/sh
# Builds bench/kernels.c against the static library and writes docs/benchmarks.md (bench/run.py).
set -eu
cd "$(dirname "$0")/.."
cc -std=c17 -O2 -fopenmp -D_POSIX_C_SOURCE=200809L -Iinclude -Isrc bench/kernels.c build/libcorestack.a \
    $(pkg-config --libs openblas lapacke jansson libzip) -lm -o build/bench-kernels
exec /usr/bin/python3 bench/run.py "$@"
