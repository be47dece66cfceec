#!/bin/sh
# The long checks: reference computations done again, slow tests under valgrind, the Python package
# from a source distribution, the fuzz targets for half a minute each, tests/long/run.sh where there is one.
set -eu
cd "$(dirname "$0")/.."
failed=0
scripts/check_oracles.sh || failed=1
scripts/test.sh gcc valgrind-slow || failed=1
scripts/test_python.sh --sdist || failed=1
scripts/fuzz.sh 30 || failed=1
if [ -x tests/long/run.sh ]; then
    [ -x build/corestack ] || make build
    tests/long/run.sh || failed=1
fi
exit $failed
