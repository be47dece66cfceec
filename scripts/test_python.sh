#!/bin/sh
# The Python package over the library of build-gcc: installed into a virtual environment, without a network, then its tests run
# there. With --sdist the package is built from a source distribution, compiled afresh; with --wheel it is the binary wheel of
# scripts/wheel.sh, of whose libraries none may come from the system but those of glibc and zlib.
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
CORESTACK_LIBRARY=$PWD/build-gcc/libcorestack.so
CORESTACK_TOOL=$PWD/build-gcc/corestack
export CORESTACK_LIBRARY CORESTACK_TOOL
if [ "${1:-}" = --sdist ]; then
    rm -rf "$folder/sdist"
    mkdir "$folder/sdist"
    $python -c "from setuptools import build_meta; build_meta.build_sdist('$folder/sdist')"
    source=$(echo "$folder"/sdist/*.tar.gz)
    unset CORESTACK_LIBRARY
fi
if [ "${1:-}" = --wheel ]; then
    scripts/wheel.sh
    source=$(echo build-wheel/*.whl)
fi
$python -m pip install --quiet --no-build-isolation --no-index --no-deps "$source"
scripts/check_hardening.sh "$folder"/venv/lib/python3*/site-packages/corestack/libcorestack*.so
if [ "${1:-}" = --wheel ]; then # before NumPy, which has a BLAS of its own
    (cd "$folder" && env -u OPENBLAS_NUM_THREADS $python -c '
import ctypes, os, re, sys
from importlib.util import find_spec
folder = find_spec("corestack").submodule_search_locations[0]
before = open("/proc/self/maps").read()
ctypes.CDLL(folder + "/libcorestack.so")
assert len(os.listdir("/proc/self/task")) == 1, "it starts threads when it is loaded"
new = {line.split()[-1] for line in open("/proc/self/maps") if ".so" in line and line.split()[-1] not in before}
other = [f for f in new if not f.startswith(sys.prefix) and not re.search(r"/lib[mz]\.so\.|/ld-linux", f)]
assert new and not other, other')
fi
unset CORESTACK_LIBRARY # the tests use the one that was installed
tests=$PWD/python/tests
cd "$folder" # so that nothing is imported from the sources
exec $python -W default -m unittest discover -s "$tests"
