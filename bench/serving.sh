#!/bin/sh
# The table of docs/serving.md: one model served in several ways, their size and time.
#
#   bench/serving.sh [--write] [BUILD]     BUILD: a release build, by default build/; --write: into docs/serving.md
set -eu
cd "$(dirname "$0")/.."
write=no
[ "${1:-}" != --write ] || { write=yes && shift; }
build=$(cd "${1:-build}" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$build/corestack" fit examples/digits/pool.json -o "$work/digits.cstack" >/dev/null 2>&1
bytes() { # of a program or library without symbols, and of the libraries that it loads besides libc and libm
    strip -s -o "$work/stripped" "$1"
    ldd "$1" | awk '$3 ~ /^\// && $1 !~ /^lib(c|m)\.so/ { print $3 }' >"$work/loaded"
    loaded=$(xargs -r cat <"$work/loaded" | wc -c)
    echo "$(wc -c <"$work/stripped") $loaded" | awk '{ print ($1 + $2 < 1e6) ? sprintf("%.0f KB", ($1 + $2) / 1e3) : sprintf("%.1f MB", ($1 + $2) / 1e6) }'
}
measure() { # what, file whose size counts, compiler, flags...
    what=$1
    counted=$2
    shift 2
    "$@" -Iinclude -o "$work/program" -Wl,-rpath,"$build"
    echo "| $what | $(bytes "$counted")$("$work/program" "$work/digits.cstack")"
}
{
    echo "| way | size on disk | us, one row | us a row, 4,096 rows |"
    echo "|---|---|---|---|"
    measure "C, \`-lcorestack-predict\`" "$build/libcorestack-predict.so" cc -O2 bench/serve.c -L"$build" -lcorestack-predict -lm
    measure "C, archive, the whole program" "$work/program" cc -O2 bench/serve.c "$build/libcorestack-predict.a" -Wl,--gc-sections -lm
    "$build/corestack" export "$work/digits.cstack" --format c -o "$work/digits.c" >/dev/null 2>&1
    members=$(sed -n 's/.*stack_members = \([0-9]*\).*/\1/p' "$work/digits.c")
    measure "C, \`export --format c\`, the whole program" "$work/program" cc -std=c99 -O3 -DEXPORTED="$members" bench/serve.c "$work/digits.c" -lm
    if command -v emcc >/dev/null && command -v node >/dev/null; then
        scripts/wasm.sh "$work/digits.cstack" "$work/package" >/dev/null
        size=$(gzip -9 -c "$work/package/corestack.wasm" | wc -c | awk '{ printf "%.0f KB compressed", $1 / 1e3 }')
        echo "| Node, \`make wasm\` | $size$(node bench/serve.mjs "$work/package")"
    fi
    measure "C, \`-lcorestack\`" "$build/libcorestack.so" cc -O2 bench/serve.c -L"$build" -lcorestack -lm
} >"$work/table"
cat "$work/table"
[ $write = no ] || awk -v table="$work/table" '
    /^<!-- bench\/serving.sh -->/ { print; while ((getline line < table) > 0) print line; skip = 1; next }
    /^<!-- end -->/ { skip = 0 }
    !skip' docs/serving.md >"$work/page"
[ $write = no ] || cp "$work/page" docs/serving.md
