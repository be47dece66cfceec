#!/bin/sh
# Builds library and tool twice as they are shipped, without warnings, from two places into build folders of different names,
# and compares what comes out byte by byte.
set -eu
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LC_ALL=C SOURCE_DATE_EPOCH=1700000000 CCACHE_DISABLE=1
build() { # sources, build folder
    { cmake -S "$1" -B "$2" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_FLAGS=-g -DCST_TESTS=OFF \
        -DCMAKE_COMPILE_WARNING_AS_ERROR=ON &&
        cmake --build "$2" --target product --parallel "${JOBS:-2}"; } >"$work/log" 2>&1 || {
        tail -n 40 "$work/log" >&2
        exit 1
    }
}
mkdir -p "$work/a" "$work/elsewhere/of/another/length"
for place in a elsewhere/of/another/length; do
    cp -R CMakeLists.txt cmake include src weights cli mpi docs completions README.md CHANGELOG.md LICENSE "$work/$place/"
    [ ! -d fuzz ] || cp -R fuzz "$work/$place/"
done
build "$work/a" "$work/a/build"
sleep 1 # so that no time of day is the same
build "$work/elsewhere/of/another/length" "$work/out-of-source"
failed=0
for file in libcorestack.so libcorestack.a corestack; do
    if ! cmp "$work/a/build/$file" "$work/out-of-source/$file"; then
        echo "$file depends on where or when it is built" >&2
        failed=1
    fi
    if grep -qF "$work" "$work/a/build/$file"; then
        echo "$file names the folder it was built in" >&2
        failed=1
    fi
done
exit $failed
