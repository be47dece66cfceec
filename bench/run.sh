#!/bin/sh
# Builds the programs of bench/ against the static library and runs bench/run.py:
# bench/run.sh [--large] [--against TOOL] [ROW ...]
set -eu
cd "$(dirname "$0")/.."
cc -std=c17 -O2 -pthread -D_POSIX_C_SOURCE=200809L -Iinclude -Isrc bench/kernels.c build/libcorestack.a \
    $(pkg-config --libs openblas lapacke jansson libzip libpng zlib yajl) -lm -o build/bench-kernels
cc -std=c17 -O3 -march=native -ffast-math -pthread -D_POSIX_C_SOURCE=200809L bench/pool.c \
    $(pkg-config --cflags --libs openblas) -lm -o build/bench-pool
exec /usr/bin/python3 bench/run.py "$@"
