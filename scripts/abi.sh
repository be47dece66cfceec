#!/bin/sh
# Compares the interface of the library (its functions, and the structs and enumerations that callers see) with the stored
# one, abi/libcorestack.abi. Additions pass with a note; what breaks a program that was built before fails
# (docs/conventions.md, section ABI).
#
#   scripts/abi.sh [LIB.so [BASELINE [INCLUDE_DIR]]]    compares; the library must have been compiled with -g
#   scripts/abi.sh --write [LIB.so]                     stores the interface as it is, after saying what changes
# Without LIB.so the library is built in build-abi/.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
export LC_ALL=C
write=no
if [ "${1:-}" = --write ]; then
    write=yes
    shift
fi
library=${1:-}
baseline=${2:-$root/abi/libcorestack.abi}
include=${3:-$root/include/corestack}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if [ -z "$library" ]; then
    if ! { cmake -S "$root" -B "$root/build-abi" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_COMPILER=gcc \
        -DCMAKE_C_FLAGS=-g -DCST_TESTS=OFF && cmake --build "$root/build-abi" --target corestack_shared \
        --parallel "${JOBS:-2}"; } >"$work/log" 2>&1; then
        cat "$work/log" >&2
        exit 2
    fi
    library=$root/build-abi/libcorestack.so
fi
# Nothing in it depends on where it was built, or on the order of the types.
abidw --headers-dir "$include" --drop-private-types --exported-interfaces-only --no-elf-needed --no-show-locs \
    --no-corpus-path --no-comp-dir-path --no-write-default-sizes --type-id-style hash "$library" --out-file "$work/now"
# abidiff does not see that two fields of one type change places in a struct without a name.
if grep -nE '^[[:blank:]]+(struct|union)[[:blank:]]*(\{|$)' "$include"/*.h >"$work/nameless"; then
    cat "$work/nameless" >&2
    echo "A public struct holds a struct or union without a name, whose changes cannot be compared: give it a name" >&2
    exit 1
fi
grep -q '<function-decl' "$work/now" || {
    echo "$library: no function with debugging information; compile it with -g" >&2
    exit 2
}
if [ $write = yes ] && [ ! -e "$baseline" ]; then cp "$work/now" "$baseline"; fi
# A private header with the name of a public one makes its structs look public. They are not.
cat "$baseline" "$work/now" | sed -n "s/.*<class-decl name='\([A-Za-z_0-9]*\)' size.*/\1/p" | sort -u |
    while read -r type; do
        grep -qE "^[[:blank:]]*(} $type;|struct $type \{)" "$include"/*.h || printf '[suppress_type]\nname = %s\n' "$type"
    done >"$work/private"

differences() { # arguments of abidiff's; prints what differs, fails where something does
    abidiff --suppressions "$work/private" --no-show-locs --no-corpus-path "$@" "$baseline" "$work/now"
}
set +e
differences --harmless --no-added-syms >"$work/broken" 2>&1
broken=$?
differences --harmless >"$work/all" 2>&1
all=$?
# A constant at the end of an enumeration is an addition to it, and abidiff says so; it counts as a change otherwise.
differences --no-added-syms >"$work/harmful" 2>&1
harmful=$?
set -e
for status in $broken $all $harmful; do
    # 1 and 2: abidiff itself failed, or was called wrongly.
    if [ $((status & 3)) != 0 ]; then
        cat "$work/all" >&2
        exit 2
    fi
done
if [ $write = yes ]; then
    if [ "$all" != 0 ]; then cat "$work/all"; fi
    cp "$work/now" "$baseline"
    exit 0
fi
if [ "$harmful" != 0 ]; then
    cat "$work/harmful" >&2
    echo "The interface changed so that programs built before may break (docs/conventions.md, section ABI). Where that is" \
        "meant: raise CST_SOVERSION if a release had the former one, and run scripts/abi.sh --write" >&2
    exit 1
fi
if [ "$all" != 0 ]; then
    cat "$work/all"
    echo "Additions only: nothing breaks. Store them: scripts/abi.sh --write"
fi
