#!/bin/sh
# Long tests of the Python package's memory: ten minutes of fits, errors and cancelled calls that must not grow by a byte, a
# counting allocator, and the same calls under AddressSanitizer. MEMORY_SECONDS (600) is the length of the first.
set -eu
cd "$(dirname "$0")/../.."
: "${JOBS:=$(nproc 2>/dev/null || echo 2)}"
# Always, or a library of former sources would be tested.
for preset in gcc asan-ubsan; do
    cmake --preset $preset -Wno-dev >/dev/null
    cmake --build --preset $preset --parallel "$JOBS" --target corestack_shared >/dev/null
done
export PYTHONPATH="$PWD/python" PYTHONDONTWRITEBYTECODE=1 CORESTACK_LIBRARY="$PWD/build-gcc/libcorestack.so"
loop=python/tests/memory_loop.py
/usr/bin/python3 $loop --seconds "${MEMORY_SECONDS:-600}"
/usr/bin/python3 $loop --balance 10
/usr/bin/python3 $loop --leaks build-asan-ubsan
