#!/bin/sh
# Checks (default) or rewrites (--write) the layout of every C file as .clang-format says.
set -eu
cd "$(dirname "$0")/.."
mode="--dry-run -Werror"
[ "${1:-}" != --write ] || mode=-i
# Data that an oracle wrote as a header is not ours to lay out.
# shellcheck disable=SC2086 # words
find include src weights cli tests examples bench fuzz experiments \( -path tests/data -o -name 'build*' \) -prune -o \
    \( -name '*.c' -o -name '*.h' \) -print 2>/dev/null | sort |
    xargs -r -n 16 -P "${JOBS:-2}" clang-format --style=file $mode
