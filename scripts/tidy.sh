#!/bin/sh
# clang-tidy (.clang-tidy) over the library and the tool, warnings as errors. Arguments: files, or none for all. --shallow keeps
# clang's static analyzer to a tenth of its time: it looks into fewer calls and paths.
set -eu
cd "$(dirname "$0")/.."
database=build-clang
[ -f $database/compile_commands.json ] || cmake --preset clang -Wno-dev >/dev/null
# Each source once, without its second compilation for libcorestack-predict: clang-tidy would look at both in one process, which
# takes twice as long and confuses the analyzer's check of va_list.
mkdir -p $database/tidy
python3 -c 'import json, sys
commands = json.load(sys.stdin)
json.dump([c for c in commands if "corestack_predict_objects" not in c["command"]], sys.stdout)
' <$database/compile_commands.json >$database/tidy/compile_commands.json
database=$database/tidy
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
