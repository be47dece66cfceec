#!/bin/sh
# The long forms of tests that `make test` has short: failing memory at every allocation, failing disks at many places
# of every command, 200 fits that are killed, comparisons on extreme pools, 3,000 random pools, coverage of bounds, a
# small run of experiments/weight-space. Part of `make check-long`; needs the build of the preset gcc, and that of asan-
# ubsan for the sweep under AddressSanitizer where it is there.
set -eu
cd "$(dirname "$0")/../.."
sources=$PWD
failed=0
build=build-gcc
[ -x $build/tests/alloc_sweep ] || { cmake --preset gcc -Wno-dev >/dev/null && cmake --build --preset gcc; }
OPENBLAS_NUM_THREADS=1
CORESTACK_LONG=1
CORESTACK_IO_FAULT=$sources/$build/tests/libio_fault.so
export OPENBLAS_NUM_THREADS CORESTACK_LONG CORESTACK_IO_FAULT
$build/tests/alloc_sweep 0 || failed=1
if [ -x build-asan-ubsan/tests/alloc_sweep ]; then
    ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=1 build-asan-ubsan/tests/alloc_sweep 60 || failed=1
fi
for part in faults_io faults_files faults_killed faults_interrupted; do
    tests/cli/run.sh "$sources/$build/corestack" "$sources" $part || failed=1
done
$build/tests/test_numbers long || failed=1
$build/tests/test_number_values long || failed=1
$build/tests/test_properties 1 3000 || failed=1
tests/long/bounds.sh $build || failed=1
tests/long/python_memory.sh || failed=1
tests/long/weight_space.sh $build || failed=1
exit $failed
