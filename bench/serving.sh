#!/bin/sh
# The table of docs/serving.md: one model served in several ways, their size and time.
#
#   bench/serving.sh [--write] [BUILD]     BUILD: a release build, by default build/; --write: into docs/serving.md
#
# onnxruntime-node is fetched through npm, or CORESTACK_ONNXRUNTIME names a folder with it in node_modules.
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
measured() { # what, size, command: "not measured" where it fails
    what=$1
    size=$2
    shift 2
    if line=$("$@" 2>/dev/null); then echo "| $what | $size$line"; else echo "| $what | not measured | | |"; fi
}
{
    echo "| way | size on disk | us, one row | us a row, 4,096 rows |"
    echo "|---|---|---|---|"
    measure "C, \`-lcorestack-predict\`" "$build/libcorestack-predict.so" cc -O2 bench/serve.c -L"$build" -lcorestack-predict -lm
    measure "C, archive, the whole program" "$work/program" cc -O2 bench/serve.c "$build/libcorestack-predict.a" -Wl,--gc-sections -lm
    "$build/corestack" export "$work/digits.cstack" --format c -o "$work/digits.c" >/dev/null 2>&1
    members=$(sed -n 's/.*stack_members = \([0-9]*\).*/\1/p' "$work/digits.c")
    measure "C, \`export --format c\`, the whole program" "$work/program" cc -std=c99 -O3 -DEXPORTED="$members" bench/serve.c "$work/digits.c" -lm
    measure "C++, \`-lcorestack-predict\`" "$build/libcorestack-predict.so" g++ -O2 -x c++ bench/serve.c -L"$build" -lcorestack-predict -lm
    if command -v emcc >/dev/null; then
        scripts/wasm.sh "$work/wasm" >/dev/null
        CORESTACK_WASM=$work/wasm "$build/corestack" export "$work/digits.cstack" --format wasm -o "$work/package" >/dev/null
        size=$(gzip -9 -c "$work/package/corestack.wasm" | wc -c | awk '{ printf "%.0f KB compressed", $1 / 1e3 }')
        measured "Node, \`export --format wasm\`" "$size" node bench/serve.mjs "$work/package"
        measured "Chromium, \`export --format wasm\`" "$size" bench/serve_browser.py "$work/package"
    else
        echo "| Node and Chromium, \`export --format wasm\` | not measured: no emscripten | | |"
    fi
    runtime=${CORESTACK_ONNXRUNTIME:-$work/npm}
    [ -d "$runtime" ] || npm install --ignore-scripts --no-audit --no-fund --prefix "$runtime" onnxruntime-node >/dev/null 2>&1 || true
    if "$build/corestack" export "$work/digits.cstack" --format onnx -o "$work/digits.onnx" >/dev/null 2>&1; then
        size=$(find "$runtime"/node_modules/onnxruntime-node/bin/*/linux/x64 "$work/digits.onnx" -type f -exec cat {} + 2>/dev/null | wc -c)
        measured "ONNX, \`export --format onnx\`, onnxruntime in Node" "$(echo "$size" | awk '{ printf "%.1f MB", $1 / 1e6 }')" \
            node bench/serve.mjs "$work/digits.onnx" "$runtime"
    fi
    measure "C, \`-lcorestack\`" "$build/libcorestack.so" cc -O2 bench/serve.c -L"$build" -lcorestack -lm
    measured "Python, \`Stack.predictor\`, besides NumPy" "$(bytes "$build/libcorestack.so")" \
        env PYTHONPATH=python CORESTACK_LIBRARY="$build/libcorestack.so" /usr/bin/python3 bench/serve.py "$work/digits.cstack"
} >"$work/table"
cat "$work/table"
[ $write = no ] || awk -v table="$work/table" '
    /^<!-- bench\/serving.sh -->/ { print; while ((getline line < table) > 0) print line; skip = 1; next }
    /^<!-- end -->/ { skip = 0 }
    !skip' docs/serving.md >"$work/page"
[ $write = no ] || cp "$work/page" docs/serving.md
