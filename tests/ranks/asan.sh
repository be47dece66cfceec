#!/bin/sh
# A fit on one rank and on two under AddressSanitizer: asan.sh TOOL SOURCES. Both must write the same model.
# Leaks of MPI itself, by name: scripts/lsan.supp.
set -eu
tool=$1
sources=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
OMPI_ALLOW_RUN_AS_ROOT=1
OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
OMPI_MCA_rmaps_base_oversubscribe=1
LSAN_OPTIONS=suppressions=$sources/scripts/lsan.supp:print_suppressions=0
ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=1}:log_path=$work/report # ranks other than 0 have no stderr
export ASAN_OPTIONS OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM OMPI_MCA_rmaps_base_oversubscribe LSAN_OPTIONS
fit() { # model, command...
    model=$1
    shift
    "$@" fit "$sources/examples/digits" -o "$model" --threads 2 --set evaluate.nested=false --set meta.learners=log-linear >/dev/null
}
for ranks in 1 2; do
    fit "$work/$ranks" mpirun --bind-to none -n $ranks "$tool" 2>"$work/log" || {
        cat "$work/log" "$work"/report* >&2
        exit 1
    }
done
cmp "$work/1" "$work/2"
