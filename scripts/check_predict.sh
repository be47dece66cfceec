#!/bin/sh
# Checks libcorestack-predict: its size without symbols, that it needs libc and libm alone and starts no thread, and that it
# exports what corestack/predict.h and status.h declare and nothing else.
#
#   scripts/check_predict.sh ROOT LIB.so     ROOT: has include/
set -eu
root=$1
library=$2
most=160000
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LC_ALL=C
failed=0
fail() {
    echo "$library: $*" >&2
    failed=1
}
strip -s -o "$work/stripped" "$library"
size=$(wc -c <"$work/stripped")
[ "$size" -le $most ] || fail "$size bytes without symbols; at most $most are allowed"
objdump -p "$library" | awk '$1 == "NEEDED" { print $2 }' | grep -vE '^(libc|libm|ld-linux[^.]*)\.so' >"$work/needed" || true
[ ! -s "$work/needed" ] || fail "needs $(tr '\n' ' ' <"$work/needed")besides libc and libm"
nm -D --undefined-only "$library" | grep -E 'pthread_create|thrd_create' >"$work/threads" || true
[ ! -s "$work/threads" ] || fail "can start threads: $(tr '\n' ' ' <"$work/threads")"
cat "$root/include/corestack/predict.h" "$root/include/corestack/status.h" | grep -v '^#' | tr '\n' ' ' |
    grep -oE '\bCST_API [^;()]*\(' | sed 's/.*[ *]\([A-Za-z_][A-Za-z0-9_]*\)($/\1/' | sort -u >"$work/declared"
nm -D --defined-only --format=posix "$library" | awk '$2 != "A" { sub(/@.*/, "", $1); print $1 }' | sort >"$work/exported"
diff "$work/declared" "$work/exported" >"$work/difference" || fail "exports (>) and headers (<) differ: $(cat "$work/difference")"
[ $failed = 0 ] && echo "libcorestack-predict: $size bytes, libc and libm alone"
exit $failed
