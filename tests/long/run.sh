#!/bin/sh
# The long forms of tests that `make test` has short: failing memory at every allocation, failing disks at many places
# of every command, other files at the openings of commands (AddressSanitizer), limits of memory and threads in small steps,
# 200 fits that are killed, comparisons on extreme pools, 3,000 random
# pools, 3,000 random series of commands, 50,000 calls in a random order, coverage of bounds, the vectorised loops on
# ARM, memory of commands on pools beyond their budget, ranks that fail, over Open MPI and MPICH, and in
# jobs of Slurm, a small run of experiments/weight-space. Part of `make check-long`. Builds the preset gcc, and asan-ubsan for
# the sweeps under AddressSanitizer where its folder is there, as far as they are older than the sources.
#   tests/long/run.sh [PART...]        all of them, or those named, JOBS at a time; what each says comes when it ends
set -eu
cd "$(dirname "$0")/../.."
sources=$PWD
build=build-gcc
: "${JOBS:=$(nproc 2>/dev/null || echo 2)}"
OPENBLAS_NUM_THREADS=1
CORESTACK_LONG=1
CORESTACK_IO_FAULT=$sources/$build/tests/libio_fault.so
CORESTACK_THREAD_FAULT=$sources/$build/tests/libthread_fault.so
export JOBS OPENBLAS_NUM_THREADS CORESTACK_LONG CORESTACK_IO_FAULT CORESTACK_THREAD_FAULT

part() {
    case $1 in
    failing_memory) $build/tests/alloc_sweep 0 ;;
    failing_memory_asan)
        ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=1 build-asan-ubsan/tests/alloc_sweep alone
        ;;
    call_orders) $build/tests/alloc_sweep orders 2 50000 ;;
    faults_replaced_asan) tests/cli/run.sh "$sources/build-asan-ubsan/corestack" "$sources" faults_replaced ;;
    faults_*) tests/cli/run.sh "$sources/$build/corestack" "$sources" "$1" ;;
    limits) tests/cli/run.sh "$sources/$build/corestack" "$sources" test_limits ;;
    numbers) $build/tests/test_api_numbers long && $build/tests/test_api_number_values long ;;
    properties) $build/tests/test_api_properties 1 3000 ;;
    bounds) tests/long/bounds.sh $build ;;
    python_memory) tests/long/python_memory.sh ;;
    arm) tests/long/arm.sh ;;
    memory_shapes) /usr/bin/python3 tests/memory/shapes.py $build/corestack ;;
    ranks_large) /usr/bin/python3 tests/memory/ranks.py "$sources/$build/corestack-mpi" "$sources/$build/bench-pool" ;;
    ranks) tests/cli/run.sh "$sources/$build/corestack" "$sources" test_ranks test_rank_faults test_slurm ;;
    every_task) tests/cli/run.sh "$sources/$build/corestack" "$sources" test_every_task ;;
    weight_space) tests/long/weight_space.sh $build ;;
    *)
        echo "tests/long/run.sh: no part '$1'" >&2
        return 2
        ;;
    esac
}

if [ "${1:-}" = --part ]; then
    part "$2"
    exit
fi
if [ "${1:-}" = --one ]; then
    log=$(mktemp)
    trap 'rm -f "$log"' EXIT
    start=$(date +%s)
    status=0
    timeout 5400 "$0" --part "$2" >"$log" 2>&1 || status=$? # 124: it hangs
    echo "---- $2: exit $status ($(($(date +%s) - start)) s)"
    cat "$log"
    exit $status
fi
bring_up() { # preset, arguments of the build
    preset=$1
    shift
    log=$(mktemp)
    { cmake --preset "$preset" -Wno-dev && cmake --build --preset "$preset" --parallel "$JOBS" "$@"; } >"$log" 2>&1 || {
        cat "$log" >&2
        rm "$log"
        exit 2
    }
    rm "$log"
}
# What is there may be of former sources.
bring_up gcc
[ ! -d build-asan-ubsan ] || bring_up asan-ubsan --target alloc_sweep corestack_shared corestack linear_hook
if [ $# = 0 ]; then # the longest first
    set -- failing_memory python_memory every_task bounds faults_io faults_killed properties limits \
        faults_interrupted faults_bursts faults_random ranks ranks_large call_orders numbers arm memory_shapes weight_space
    if [ -d build-asan-ubsan ]; then
        set -- failing_memory_asan faults_replaced_asan "$@"
    else
        echo "---- failing_memory_asan, faults_replaced_asan: left out, build-asan-ubsan is not there (\`make test-asan\` builds it)"
    fi
fi
# xargs exits 123 where a part failed.
printf '%s\n' "$@" | xargs -n 1 -P "$JOBS" "$0" --one || exit 1
