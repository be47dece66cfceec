#!/bin/sh
# clang-tidy (.clang-tidy) over the library and the tool, warnings as errors. Arguments: files, or none for all. --shallow keeps
# clang's static analyzer to a tenth of its time: it looks into fewer calls and paths.
set -eu
cd "$(dirname "$0")/.."
database=build-clang
[ -f $database/compile_commands.json ] || cmake --preset clang -Wno-dev >/dev/null
depth=deep
if [ "${1:-}" = --shallow ]; then
    depth=shallow
    shift
fi
[ $# -gt 0 ] || set -- $(find src -name "*.c" | sort) weights/*.c cli/*.c
for file in "$@"; do
    [ ! -f "$file" ] || printf '%s\0' "$file"
done | xargs -0 -n 1 -P "${JOBS:-2}" sh -c '
    output=$(clang-tidy --quiet -p "$0" --extra-arg=-Xclang --extra-arg=-analyzer-config --extra-arg=-Xclang \
        --extra-arg=mode="$1" "$2" 2>&1) && exit 0
    printf "%s\n" "$output" | grep -vE "^[0-9]+ warnings? (generated|treated as errors)" >&2
    exit 1' $database $depth
