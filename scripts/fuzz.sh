#!/bin/sh
# Runs the fuzz targets of fuzz/ with libFuzzer, AddressSanitizer and UndefinedBehaviorSanitizer.
#
#   scripts/fuzz.sh [SECONDS] [TARGET...]     each target (default: all) for so many seconds (60), JOBS at a time (1)
#   scripts/fuzz.sh --figures                 coverage of all that was found so far, the table of figures into
#                                             fuzz/figures.md, and what was found into fuzz/found.tar.xz
#
# Inputs that were found stay in build-fuzz/inputs/TARGET and are where the next run begins, the first one at those of
# fuzz/found.tar.xz; an input that breaks something is left in build-fuzz/finds, and the exit status is 1. Figures add up in
# build-fuzz/figures, from those of the table on; where the table has more than the folder, they are the table's.
set -eu
cd "$(dirname "$0")/.."
export LC_ALL=C OPENBLAS_NUM_THREADS=1
here=$(pwd)
inputs=build-fuzz/inputs
: "${JOBS:=1}"

targets() {
    for source in fuzz/*.c; do
        basename "$source" .c
    done
}

# One target; what libFuzzer says goes to a log.
run_one() { # seconds, target
    seconds=$1
    name=$2
    case $name in
    coco_*) words=coco ;;
    pool) words=manifest ;;
    reference_errors) words=json ;;
    *) words=$name ;;
    esac
    mkdir -p "$inputs/$name" build-fuzz/finds build-fuzz/figures build-fuzz/logs "fuzz/corpus/$name"
    log=$here/build-fuzz/logs/$name
    set -- -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -malloc_limit_mb=512 -print_final_stats=1 \
        -max_len="$([ "$name" = pool ] && echo 16384 || echo 4096)" -artifact_prefix="build-fuzz/finds/$name-" "$inputs/$name" \
        "fuzz/corpus/$name"
    [ ! -d "fuzz/regressions/$name" ] || set -- "$@" "fuzz/regressions/$name"
    [ ! -f "fuzz/dict/$words.dict" ] || set -- "-dict=fuzz/dict/$words.dict" "$@"
    status=0
    # `times` tells the seconds of processor that the run took.
    cpu=$( (
        ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1 \
            UBSAN_OPTIONS=print_stacktrace=1 "build-fuzz/fuzz/fuzz_$name" "$@" >"$log" 2>&1 || echo failed
        times
    ) | awk '$1 == "failed" { failed = 1 } NF == 2 { line = $0 }
        END { split(line, t, /[ms ]+/); printf "%.0f %d", t[1] * 60 + t[2] + t[3] * 60 + t[4], failed }')
    [ "${cpu#* }" = 0 ] || status=1
    executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    edges=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -n 1)
    # Fewest inputs with the same coverage.
    if [ $status = 0 ]; then
        mkdir -p "$inputs/$name.least"
        if "build-fuzz/fuzz/fuzz_$name" -merge=1 -rss_limit_mb=2048 -artifact_prefix="build-fuzz/finds/$name-" \
            "$inputs/$name.least" "fuzz/corpus/$name" "$inputs/$name" >"$log.merge" 2>&1; then
            rm -r "${inputs:?}/$name"
            mv "$inputs/$name.least" "$inputs/$name"
        else
            status=1
            rm -r "$inputs/$name.least"
        fi
    fi
    [ "${executions:-0}" -gt 0 ] || status=1
    printf '%s\t%s\t%s\n' "${executions:-0}" "${cpu%% *}" "${edges:-0}" >>"build-fuzz/figures/$name"
    printf '%-18s %12s executions %8s s of CPU %7s edges %6s inputs%s\n' "$name" "${executions:-0}" "${cpu%% *}" \
        "${edges:-0}" "$(find "$inputs/$name" -type f | wc -l)" "$([ $status = 0 ] || echo "   FOUND: $log")"
    return $status
}

# A folder goes on where the repository's inputs and figures end. Inputs are named by what is in them, so that those of the
# archive come beside its own.
restore() {
    mkdir -p "$inputs"
    if [ -f fuzz/found.tar.xz ] && ! cmp -s fuzz/found.tar.xz build-fuzz/restored; then
        tar -C "$inputs" --skip-old-files -xf fuzz/found.tar.xz
        cp fuzz/found.tar.xz build-fuzz/restored
    fi
    python3 fuzz/figures.py --restore build-fuzz fuzz/figures.md
}

# The same bytes for the same inputs.
keep() {
    tar -C "$inputs" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX --exclude='*.least' \
        -cf build-fuzz/found.tar .
    xz -9e -f build-fuzz/found.tar
    cp build-fuzz/found.tar.xz build-fuzz/restored
    mv build-fuzz/found.tar.xz fuzz/found.tar.xz
}

# Coverage of the readers by stored inputs and found ones together: "lines hit, lines, branches hit, branches" of folders.
coverage() {
    rm -f build-fuzz/*.profraw
    for name in $(targets); do
        set -- "fuzz/corpus/$name"
        for folder in "fuzz/regressions/$name" "$inputs/$name"; do
            [ ! -d "$folder" ] || set -- "$@" "$folder"
        done
        LLVM_PROFILE_FILE="build-fuzz/$name.profraw" "build-fuzz/coverage/fuzz/fuzz_$name" "$@" >/dev/null 2>&1 || return 1
    done
    llvm-profdata merge -o build-fuzz/all.profdata build-fuzz/*.profraw
    objects=
    for name in $(targets); do
        objects="$objects -object build-fuzz/coverage/fuzz/fuzz_$name"
    done
    # shellcheck disable=SC2086 # words
    llvm-cov export -summary-only -instr-profile build-fuzz/all.profdata $objects >build-fuzz/coverage.json
}

figures() {
    cmake -S . -B build-fuzz/coverage -G Ninja -Wno-dev -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_COMPILER=clang -DCST_TESTS=ON \
        -DCMAKE_C_FLAGS="-fprofile-instr-generate -fcoverage-mapping" >build-fuzz/coverage.log
    cmake --build build-fuzz/coverage --target fuzzers --parallel "$JOBS" >>build-fuzz/coverage.log
    restore
    coverage
    python3 fuzz/figures.py build-fuzz fuzz/figures.md
    keep
}

case ${1:-} in
--one)
    run_one "$2" "$3"
    exit
    ;;
--figures)
    figures
    exit
    ;;
esac
seconds=60
case ${1:-} in
[0-9]*)
    seconds=$1
    shift
    ;;
esac
mkdir -p build-fuzz
restore
{ cmake --preset fuzz -Wno-dev && cmake --build --preset fuzz --parallel "${BUILD_JOBS:-$JOBS}"; } >build-fuzz/build.log 2>&1 || {
    cat build-fuzz/build.log >&2
    exit 2
}
[ $# -gt 0 ] || {
    # shellcheck disable=SC2046 # words
    set -- $(targets)
}
printf '%s\n' "$@" | xargs -P "$JOBS" -n 1 "$0" --one "$seconds" || exit 1
