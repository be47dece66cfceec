#!/bin/sh
# cppcheck over the library and the tool: mistakes and what is not portable, warnings as errors; style is for others to
# judge. Arguments: files, or none for all. What it sees wrongly is in cppcheck.supp.
set -eu
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- src weights cli
exec cppcheck --quiet --error-exitcode=1 --std=c17 --enable=warning,performance,portability --inline-suppr \
    --suppressions-list=scripts/cppcheck.supp -j "${JOBS:-2}" -D_POSIX_C_SOURCE=200809L -I include -I src -I . -I cli \
    --template='{file}:{line}: {severity}: {id}: {message}' "$@"
