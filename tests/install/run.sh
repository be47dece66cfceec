#!/bin/sh
# Installs a build below a staging folder, moves the tree (nothing in it may name the place it was installed to), and
# builds and runs programs from outside against it: by pkg-config and by CMake, C and C++, shared and static. What the
# programs of examples/ print is in examples.txt.
#
#   tests/install/run.sh BUILD_DIR [--write]      --write: examples.txt anew
set -eu
build=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
flags="-Wall -Wextra -Wpedantic -Werror"

DESTDIR=$work/stage cmake --install "$build" --prefix /opt/corestack >"$work/log" || {
    cat "$work/log" >&2
    exit 1
}
mv "$work/stage/opt/corestack" "$work/prefix"
[ -z "$(find "$work/stage" -type f)" ] || {
    echo "installed outside the prefix:" >&2
    find "$work/stage" -type f >&2
    exit 1
}
export PKG_CONFIG_PATH="$work/prefix/lib/pkgconfig"
for file in bin/corestack lib/libcorestack.a lib/libcorestack.so lib/libcorestack.so.1 \
    include/corestack/fit.h share/doc/corestack/LICENSE; do
    [ -e "$work/prefix/$file" ] || {
        echo "not installed: $file" >&2
        exit 1
    }
done
if grep -rl -e "$work/stage" -e "$build" "$work/prefix/lib/pkgconfig" "$work/prefix/lib/cmake" >&2; then
    echo "these files name the build folder" >&2
    exit 1
fi

uses_shared() { # yes|no, program
    if readelf -d "$2" | grep -q 'NEEDED.*libcorestack\.so\.1'; then uses=yes; else uses=no; fi
    [ $uses = "$1" ] || {
        echo "$2 was linked with the wrong library" >&2
        exit 1
    }
}
# shellcheck disable=SC2046,SC2086 # flags are words
for compiler in gcc clang; do
    $compiler $flags "$here/program.c" $(pkg-config --cflags --libs corestack) -lm -o "$work/shared-$compiler"
    uses_shared yes "$work/shared-$compiler"
    LD_LIBRARY_PATH=$work/prefix/lib "$work/shared-$compiler"
    $compiler $flags "$here/program.c" $(pkg-config --cflags corestack) "$work/prefix/lib/libcorestack.a" \
        $(pkg-config --static --libs corestack | sed 's/-lcorestack//') -o "$work/static-$compiler"
    uses_shared no "$work/static-$compiler"
    "$work/static-$compiler"
done
for language in C CXX; do
    if ! { cmake -S "$here" -B "$work/$language" -G Ninja -DOUTSIDE_LANGUAGE=$language \
        -DCMAKE_PREFIX_PATH="$work/prefix" && cmake --build "$work/$language"; } >"$work/log" 2>&1; then
        cat "$work/log" >&2
        exit 1
    fi
    uses_shared yes "$work/$language/with_shared"
    uses_shared no "$work/$language/with_static"
    "$work/$language/with_shared"
    "$work/$language/with_static"
done

# The library for prediction alone, by pkg-config and as an archive.
# shellcheck disable=SC2046,SC2086 # flags are words
for link in "$(pkg-config --libs corestack-predict)" "$work/prefix/lib/libcorestack-predict.a -lm"; do
    gcc $flags "$here/../serving/replay.c" $(pkg-config --cflags corestack-predict) $link -o "$work/replay"
    uses_shared no "$work/replay"
done

examples=$here/../../examples
for name in fit_and_save predict_batch serve_one; do
    # shellcheck disable=SC2046,SC2086 # flags are words
    gcc -std=c17 $flags -Wconversion -Wshadow "$examples/$name.c" $(pkg-config --cflags --libs corestack) -o "$work/$name"
    uses_shared yes "$work/$name"
done
# What it answers: python/tests/test_serving.py.
# shellcheck disable=SC2046,SC2086 # flags are words
gcc -std=c17 $flags -Wconversion -Wshadow "$examples/serving/server.c" $(pkg-config --cflags --libs corestack-predict) -pthread \
    -o "$work/server"
uses_shared no "$work/server"
run() { # program, arguments...
    echo "$ $*"
    name=$1
    shift
    (cd "$examples" && PATH=$work:$PATH LD_LIBRARY_PATH=$work/prefix/lib "$name" "$@") 2>&1 || echo "exit status $?"
}
{
    run fit_and_save digits/pool.json "$work/model.cstack"
    run predict_batch "$work/model.cstack" digits/pool.json test "$work/predictions.npy"
    run serve_one "$work/model.cstack" digits/pool.json 5
    run fit_and_save nowhere/pool.json "$work/other.cstack"
    run predict_batch "$work/predictions.npy" digits/pool.json test "$work/other.npy"
    run serve_one "$work/model.cstack" concrete/pool.json 1
} | sed "s|$work/||g" >"$work/examples.txt"
[ "${2:-}" != --write ] || cp "$work/examples.txt" "$here/examples.txt"
"$here/../cli/golden.py" --compare "$here/examples.txt" "$work/examples.txt" >&2
(cd "$examples" && "$work/prefix/bin/corestack" predict "$work/model.cstack" digits/pool.json -o "$work/tool.npy")
cmp "$work/predictions.npy" "$work/tool.npy"

uses_shared no "$work/prefix/bin/corestack"
"$work/prefix/bin/corestack" --version
