#!/bin/sh
# The Python package: built and installed into a virtual environment, without a network, then its tests run there.
# With --sdist the package is built from a source distribution instead, compiled afresh.
set -eu
cd "$(dirname "$0")/.."
folder=$PWD/build-python
: "${JOBS:=$(nproc 2>/dev/null || echo 2)}"
export JOBS OPENBLAS_NUM_THREADS=1 PIP_DISABLE_PIP_VERSION_CHECK=1
mkdir -p "$folder"
rm -rf "$folder/venv" "$folder"/lib* "$folder"/bdist.* # what an earlier build left would be packed
/usr/bin/python3 -m venv --system-site-packages "$folder/venv"
python=$folder/venv/bin/python
source=.
if [ "${1:-}" = --sdist ]; then
    rm -rf "$folder/sdist"
    mkdir "$folder/sdist"
    $python -c "from setuptools import build_meta; build_meta.build_sdist('$folder/sdist')"
    source=$(echo "$folder"/sdist/*.tar.gz)
fi
$python -m pip install --quiet --no-build-isolation --no-index --no-deps "$source"
scripts/check_hardening.sh "$folder"/venv/lib/python3*/site-packages/corestack/libcorestack*.so
# The tool of the same sources, to compare with.
cmake -S . -B "$folder/cmake" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCST_TESTS=OFF >"$folder/cmake.log"
cmake --build "$folder/cmake" --target corestack --parallel "$JOBS" >>"$folder/cmake.log"
tests=$PWD/python/tests
cd "$folder" # so that nothing is imported from the sources
CORESTACK_TOOL=$folder/cmake/corestack exec $python -W default -m unittest discover -s "$tests"
