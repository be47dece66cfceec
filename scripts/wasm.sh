#!/bin/sh
# Makes what `corestack export --format wasm` puts a model into: the library for prediction as WebAssembly by emscripten, and
# wasm/, which calls it from Node and browsers.
#
#   scripts/wasm.sh [OUT]     OUT: a folder, by default build/wasm
set -eu
[ $# -le 1 ] || { sed -n '2,5s/^# \{0,1\}//p' "$0" >&2; exit 2; }
command -v emcc >/dev/null || { echo "wasm: emcc is missing; install emscripten (Debian: apt-get install emscripten)" >&2; exit 3; }
sources_of=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "${1:-$sources_of/build/wasm}"
out=$(cd "${1:-$sources_of/build/wasm}" && pwd)
cd "$sources_of"
sources=$(sed -n '/^set(CST_PREDICT_SOURCES/,/)/p' CMakeLists.txt | sed 's/^set(CST_PREDICT_SOURCES//; s/)//' | tr -s ' ' '\n' |
    grep -v '^core/rng\.c$' | sed -n 's|..*|src/&|p') # random numbers are for fits
export CCACHE_DISABLE=1
# shellcheck disable=SC2086 # words
emcc -std=c17 -O2 -ffp-contract=off -D_POSIX_C_SOURCE=200809L -DCST_SMALL -Iinclude -Isrc -sSTANDALONE_WASM --no-entry \
    -sALLOW_MEMORY_GROWTH=1 -sFILESYSTEM=0 -sERROR_ON_UNDEFINED_SYMBOLS=0 -sWARN_ON_UNDEFINED_SYMBOLS=0 \
    -sEXPORTED_FUNCTIONS=_malloc,_free,_cst_context_create,_cst_context_free,_cst_last_error,_cst_model_load_memory,_cst_model_free,_cst_model_task,_cst_model_members,_cst_model_classes,_cst_model_member_name,_cst_model_class_name,_cst_model_decide,_cst_predictor_create,_cst_predictor_free,_cst_predictor_predict_present,_cst_predictor_error \
    $sources -o "$out/made.wasm"
mv "$out/made.wasm" "$out/corestack.wasm"
cp wasm/package.json wasm/index.js wasm/index.d.ts "$out/"
echo "$out: corestack.wasm has $(wc -c <"$out/corestack.wasm") bytes, $(gzip -9 -c "$out/corestack.wasm" | wc -c) compressed"
