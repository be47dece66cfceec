#!/bin/sh
# Runs every reference computation (tests/oracles/*.py) again, in a copy, and compares what it writes with the fixtures
# that are in the repository. A script writes relative to its own place, or to the root of the repository. What comes
# from elsewhere is in tests/reference.
set -eu
cd "$(dirname "$0")/.."
python=/usr/bin/python3 # the distribution's: the packages belong to it
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -R tests examples "$work"
# A fixture that no script writes must show: the scripts start without fixtures.
rm -rf "$work/tests/data"
mkdir "$work/tests/data"
failed=0
for script in tests/oracles/*.py; do
    # Beginning with _: for the others to import.
    case ${script##*/} in _*) continue ;; esac
    echo "$script"
    # Later scripts may read what a file of ours gives, never what another script wrote.
    if ! (cd "$work" && OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $python "$script") >"$work/log" 2>&1; then
        cat "$work/log" >&2
        echo "$script failed" >&2
        failed=1
    fi
done
$python scripts/compare_fixtures.py tests/data "$work/tests/data" || failed=1
exit $failed
