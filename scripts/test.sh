#!/bin/sh
# What `make test`, `make check` and `make check-long` run. Arguments: parts by name, or one of
#   (none)     what `make test` runs
#   --check    what `make check` runs: everything else that a change must pass
#   --long     what `make check-long` runs: everything, in full
# The last line is "N passed, N failed": checks and tests together. The exit status is 1 when anything failed.
#
# Parts of `make test`:
#
#   tree           files in the repository: white space, sizes
#   includes       include graph of docs/architecture.md
#   format         clang-format
#   gcc            gcc's build without warnings; its tests but those labelled `check`, unit tests kept short
#
# Parts of `make check`:
#
#   unit           gcc's build: unit tests in full length
#   faults         gcc's build: tests labelled `check`
#   python         the Python package over the library of gcc's build, installed, and all of its tests
#   asan           AddressSanitizer and UBSan: unit tests, inputs of the fuzz targets, tests of the tool that parse and fail
#   tsan           clang's build without warnings, with ThreadSanitizer: unit tests of what runs on several threads
#   valgrind       unit tests of what takes input from outside: values that were never set, which sanitizers do not see
#   tidy           clang-tidy, its analyzer kept shallow
#   report         the page of reports: types, the same bytes from its sources, its answers; skipped without Node and npm
#   cppcheck       cppcheck
#
# Parts of `make check-long` alone:
#
#   clang          clang's release without warnings, unit tests
#   oracles        reference computations done again                fuzz           every fuzz target, FUZZ_SECONDS (300) each
#   tidy-deep      clang-tidy with the whole of its analyzer        coverage       lines and branches that tests reach
#   asan-long      AddressSanitizer and UBSan, everything           reproducible   the same bytes from two builds
#   tsan-long      ThreadSanitizer, tests in full length            sdist          the Python package from its sources
#   valgrind-long  unit tests, the slow ones too                    long           tests/long/run.sh
#   wheel          the binary wheel, and the Python tests over it   deb            the Debian package, checked and used
#   pages          what `report` does, and pages of the tool in Chromium with axe-core
set -u
cd "$(dirname "$0")/.." || exit 2
: "${JOBS:=$(nproc 2>/dev/null || echo 2)}"
export JOBS LC_ALL=C
# What would change the tests, or leave some out.
unset CST_SHORT_TESTS CORESTACK_LONG CORESTACK_LIBRARY CORESTACK_BUILD CORESTACK_TOOL CORESTACK_IO_FAULT PYTHONPATH \
    ASAN_OPTIONS UBSAN_OPTIONS TSAN_OPTIONS LSAN_OPTIONS OPENBLAS_NUM_THREADS
work=$(mktemp -d)
beside=
# shellcheck disable=SC2086,SC2154 # numbers of processes
trap '[ -z "$beside" ] || kill $beside 2>/dev/null; rm -rf "$work"' EXIT
passed=0
failed=0
failures=

# A command; "12 s, 20 s of processor" goes to a file. In a shell of its own, whose `times` are those of this command alone.
timed() {
    start=$(date +%s)
    (
        "$@"
        status=$?
        times >"$work/times"
        exit $status
    )
    status=$?
    awk -v wall=$(($(date +%s) - start)) 'NR == 2 {
        split($0, t, /[ms ]+/)
        printf "%d s, %d s of processor", wall, t[1] * 60 + t[2] + t[3] * 60 + t[4]
    }' "$work/times" >"$work/took"
    return $status
}

say() { # good?, name, time
    if [ "$1" = yes ]; then
        passed=$((passed + 1))
        printf 'ok      %s (%s)\n' "$2" "$3"
    else
        failed=$((failed + 1))
        failures="$failures
  $2"
        printf 'FAILED  %s (%s)\n' "$2" "$3"
    fi
}

# One check: a command whose output is shown when it fails.
check() { # name, command...
    name=$1
    shift
    if timed "$@" >"$work/log" 2>&1; then
        good=yes
    else
        good=no
        echo "---- $name: $*"
        cat "$work/log"
        echo "----"
    fi
    say $good "$name" "$(cat "$work/took")"
    [ $good = yes ]
}

build() { # preset
    # Everything that can be built is, so that one run shows every error.
    cmake --preset "$1" -Wno-dev && cmake --build --preset "$1" --parallel "$JOBS" -- -k 0
}

# Every test of a build, each counted; output of those that fail.
tests() { # name, build folder, ctest arguments...
    name=$1
    folder=$2
    shift 2
    rm -f "$work/junit.xml"
    timed ctest --test-dir "$folder" --parallel "$JOBS" --output-on-failure --no-tests=error \
        --output-junit "$work/junit.xml" "$@" >"$work/log" 2>&1
    status=$?
    # The first tag holds the totals. A test that did not run counts as failed.
    counts=$(sed -n '/<testsuite /,/>/p' "$work/junit.xml" 2>/dev/null | tr '\n\t' '  ' |
        sed -n 's/.* tests="\([0-9]*\)".* failures="\([0-9]*\)".* disabled="\([0-9]*\)".* skipped="\([0-9]*\)".*/\1 \2 \3 \4/p')
    # shellcheck disable=SC2086 # words of their own
    set -- ${counts:-1 1 0 0}
    bad=$(($2 + $3 + $4))
    [ $status = 0 ] || [ $bad -gt 0 ] || bad=1
    passed=$((passed + $1 - bad))
    failed=$((failed + bad))
    if [ $bad -gt 0 ]; then
        echo "---- $name"
        cat "$work/log"
        echo "----"
        failures="$failures
  $name: $bad of $1"
        printf 'FAILED  %s: %d of %d tests (%s)\n' "$name" $bad "$1" "$(cat "$work/took")"
    else
        printf 'ok      %s: %d tests (%s)\n' "$name" "$1" "$(cat "$work/took")"
    fi
}

under_valgrind() {
    # OpenBLAS is told its kernels, since it would judge them by a processor that valgrind only imitates: those without fused
    # multiplications, each of which valgrind takes several times as long for.
    OPENBLAS_CORETYPE=Sandybridge OPENBLAS_NUM_THREADS=1 xargs -L 1 -P "$JOBS" sh -c '
        name=$1 program=$2
        shift 2
        if timeout 1800 valgrind --quiet --error-exitcode=99 --leak-check=full --show-leak-kinds=definite,indirect \
            --errors-for-leak-kinds=definite,indirect --suppressions=scripts/valgrind.supp \
            --log-file="$0/$name.valgrind" build-gcc/tests/"$program" "$@" >"$0/$name.output" 2>&1
        then touch "$0/$name.good"; fi' "$work" <"$work/names"
}

run_valgrind() { # ctest's choice of tests
    check "valgrind: build" build gcc || return # what is there may be of former sources
    ctest --test-dir build-gcc --show-only=json-v1 "$@" | /usr/bin/python3 -c '
import json, os, sys
for test in json.load(sys.stdin)["tests"]:
    print(test["name"], os.path.basename(test["command"][0]), *test["command"][1:])' >"$work/names"
    [ -s "$work/names" ] || check "valgrind: tests to run" false || return
    costs=build-gcc/Testing/Temporary/CTestCostData.txt # the longest first, where ctest knows
    if [ -f $costs ]; then
        awk 'NR == FNR { cost[$1] = $3; next } { print cost[$1] + 0, $0 }' $costs "$work/names" | sort -rn |
            cut -d ' ' -f 2- >"$work/sorted"
        mv "$work/sorted" "$work/names"
    fi
    timed under_valgrind
    [ -s "$work/names" ] || check "valgrind: its folder is still there" false || return
    while read -r test _; do
        if [ ! -e "$work/$test.good" ]; then
            echo "---- valgrind: $test"
            tail -n 40 "$work/$test.output"
            head -n 120 "$work/$test.valgrind"
            echo "----"
            say no "valgrind: $test" "$(cat "$work/took")"
        else
            passed=$((passed + 1))
        fi
    done <"$work/names"
    printf '        valgrind: %d tests (%s)\n' "$(wc -l <"$work/names")" "$(cat "$work/took")"
}

# Tests of statistics repeat a few times only (tests/support/short_tests.h).
short() { # command...
    CST_SHORT_TESTS=1
    export CST_SHORT_TESTS
    "$@"
    unset CST_SHORT_TESTS
}

# Runs a part on one core while the others go on. Its output comes at the end.
start_beside() { # parts
    beside_name=$*
    check "build without warnings" build gcc # before two parts use it at once
    BUILT=yes JOBS=1 scripts/test.sh "$@" >"$work/beside" 2>&1 &
    beside=$!
}
end_beside() {
    wait "$beside"
    beside=
    sed '$d' "$work/beside"
    counts=$(tail -n 1 "$work/beside" | sed -n 's/^\([0-9]*\) passed, \([0-9]*\) failed$/\1 \2/p')
    # shellcheck disable=SC2086 # two words
    set -- ${counts:-0 1}
    passed=$((passed + $1))
    failed=$((failed + $2))
    [ "$2" = 0 ] || failures="$failures
  $beside_name: see above"
}

part() {
    case $1 in
    tree)
        check "tree: files in the repository" scripts/check_tree.sh
        check "tree: public functions have a user" scripts/check_api.sh
        check "tree: experiments/claims.md is of the figures" experiments/claims/run.py --check
        check "tree: docs/results.md and README.md are of the figures" experiments/page/run.py --check
        ;;
    includes) check "includes: include graph" scripts/check_includes.sh ;;
    format) check "format: clang-format" scripts/format.sh ;;
    report) check "report: the page" scripts/report.sh && cat "$work/log" ;;
    pages) check "report: pages in a browser" scripts/report.sh --browser && cat "$work/log" ;;
    cppcheck) check "cppcheck: sources" scripts/cppcheck.sh ;;
    tidy) check "tidy: clang-tidy" scripts/tidy.sh --shallow ;;
    gcc) # some tests wait
        check "gcc: build without warnings" build gcc || return
        tests "gcc: tests" build-gcc -LE 'check|unit|long' --parallel $((JOBS + 1))
        short tests "gcc: unit tests" build-gcc -L unit -LE check
        ;;
    unit) check "unit: build" build gcc && tests "unit: tests" build-gcc -L unit --parallel $((JOBS + 1)) ;;
    faults) check "faults: build" build gcc && tests "faults: tests" build-gcc -L check --parallel $((JOBS + 1)) ;;
    clang) check "clang: build without warnings" build clang && short tests "clang: unit tests" build-clang -L unit ;;
    asan) check "asan: build" build asan-ubsan && short tests "asan: tests" build-asan-ubsan -LE long ;;
    tsan)
        check "tsan: build by clang without warnings" build tsan &&
            short tests "tsan: tests" build-tsan -LE tsan_rare
        ;;
    python)
        [ -n "${BUILT:-}" ] || check "python: build" build gcc || return
        check "python: package and its tests" scripts/test_python.sh
        ;;
    valgrind) short run_valgrind -L unit -LE slow -R '^(base|io|pool|model|weights)\.' ;;
    oracles) check "oracles: reference computations" scripts/check_oracles.sh ;;
    tidy-deep) check "tidy-deep: clang-tidy and its analyzer" scripts/tidy.sh ;;
    asan-long) check "asan: build" build asan-ubsan && tests "asan: tests" build-asan-ubsan --parallel $((JOBS + 1)) ;;
    tsan-long) check "tsan: build by clang without warnings" build tsan && tests "tsan: tests" build-tsan ;;
    valgrind-long) short run_valgrind -L unit ;;
    sdist) check "sdist: the Python package from its sources" scripts/test_python.sh --sdist ;;
    wheel) check "wheel: the binary wheel and the Python tests over it" scripts/test_python.sh --wheel ;;
    deb) check "deb: the Debian package, checked and used" tests/install/deb.sh ;;
    fuzz) check "fuzz: every target" scripts/fuzz.sh "${FUZZ_SECONDS:-300}" ;;
    coverage) check "coverage: lines and branches" scripts/coverage.sh ;;
    reproducible) check "reproducible: the same bytes from two builds" scripts/check_reproducible.sh ;;
    long) # on the builds of gcc and asan-long; shown also where it passes: the figures of docs/reliability.md are in it
        check "long: tests/long" tests/long/run.sh && cat "$work/log"
        ;;
    *)
        echo "test.sh: unknown part '$1'" >&2
        exit 2
        ;;
    esac
}

case ${1:-} in
'') set -- tree includes format gcc ;;
--check)
    set -- unit faults asan tsan valgrind tidy report cppcheck
    start_beside python
    ;;
--long)
    set -- tree includes format cppcheck oracles gcc unit faults clang valgrind-long asan-long tsan-long tidy-deep reproducible coverage \
        fuzz long pages
    git status --porcelain >"$work/status" # no part changes what git holds
    start_beside sdist wheel deb
    ;;
esac
for name_of_part in "$@"; do
    part "$name_of_part"
done
[ ! -f "$work/status" ] || check "tree: as it was" sh -c 'git status --porcelain | diff "$0" -' "$work/status"
if [ -n "$beside" ]; then
    end_beside
fi
if [ -n "$failures" ]; then
    printf 'What failed:%s\n' "$failures"
fi
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
