#!/bin/sh
# Which lines and branches of the readers (src/data, src/model) the tests reach: these alone are compiled by gcc without
# optimisation and counted by gcov. Fails where they have less than the stated share of branches. Branches that only failing
# memory or disks take count as any. Left out: tests of what does not read or write files, runs that are killed (their counts
# would be cut off), and the longest tests of the command line.
#
#   scripts/coverage.sh [--write]     --write: the figures into docs/reliability.md
set -eu
cd "$(dirname "$0")/.."
least=90 # per cent of branches of src/data and src/model that were reached
folder=build-coverage
export LC_ALL=C OPENBLAS_NUM_THREADS=1
export GCOV_ERROR_FILE="$PWD/$folder/gcov-errors" # not among what tests expect of stderr
cmake --preset coverage -Wno-dev >"$folder.log" 2>&1 && cmake --build --preset coverage --parallel "${JOBS:-2}" >>"$folder.log" 2>&1 || {
    tail -n 40 "$folder.log" >&2
    exit 1
}
mv "$folder.log" $folder/build.log
find $folder -name '*.gcda' -delete
left_out='^(failing_memory|faults_killed|cli_(commands(_slow)?|compare|shift|usage|weights)|api\.(number_values|numbers|properties)'
left_out="$left_out|baselines\.(baselines|mlp)|bounds\.(bounds|conformal)|learners\.(gate|loglinear_shift)"
left_out="$left_out|redundancy\.(cka|cka_packed|lsh)|segmentation\.nested|weights\.swag)\$"
# More failing allocations than one test of many has time for, beside the others.
(cd $folder/tests && exec ./alloc_sweep 40) >$folder/sweep.log 2>&1 &
sweep=$!
status=0
ctest --test-dir $folder --parallel "${JOBS:-2}" --output-on-failure -LE house -E "$left_out" >$folder/tests.log || status=1
wait $sweep || status=1
[ $status = 0 ] || {
    tail -n 60 $folder/tests.log $folder/sweep.log >&2
    exit 1
}
share() { # name for the table, what gcovr takes as filters...
    name=$1
    shift
    gcovr --root . --object-directory $folder --gcov-executable gcov --exclude-unreachable-branches \
        --print-summary "$@" $folder >$folder/summary 2>$folder/gcovr.log || {
        tail -n 20 $folder/gcovr.log >&2
        exit 1
    }
    lines=$(sed -n 's/^lines: \([0-9.]*\)% (\([0-9]* out of [0-9]*\))/\1 % (\2)/p' $folder/summary)
    branches=$(sed -n 's/^branches: \([0-9.]*\)% (\([0-9]* out of [0-9]*\))/\1 % (\2)/p' $folder/summary)
    printf '| %s | %s | %s |\n' "$name" "$lines" "$branches"
    last=${branches%%[ .]*}
    case ${lines%%[ .]*}:$last in
    : | :* | *: | *[!0-9:]*)
        cat $folder/summary >&2
        echo "coverage.sh: no lines or no branches can be read from what gcovr says of $name" >&2
        exit 1
        ;;
    esac
}
{
    printf '| sources | lines | branches |\n|---|---|---|\n'
    share '`src/data`' --filter 'src/data/'
    share '`src/model`' --filter 'src/model/'
    share '`src/data` and `src/model`' --filter 'src/data/' --filter 'src/model/'
    echo "$last" >$folder/readers
} >$folder/table
cat $folder/table
if [ "${1:-}" = --write ]; then
    awk -v table=$folder/table '/^<!-- coverage -->$/ { print; while ((getline line < table) > 0) print line; skip = 1; next }
        /^<!-- end of coverage -->$/ { skip = 0 } !skip' docs/reliability.md >$folder/page
    cp $folder/page docs/reliability.md
fi
if [ "$(cat $folder/readers)" -lt $least ]; then
    echo "coverage.sh: $(cat $folder/readers) % of the branches of src/data and src/model are reached; $least % are promised" >&2
    exit 1
fi
