#!/bin/sh
# Checks the names that the library gives to the linker. The shared library exports the functions marked CST_API in the
# public headers, and no others. The archive defines only names that start with cst_.
#
#   scripts/check_symbols.sh ROOT LIB     ROOT: has include/; LIB: the library without .so and .a
set -eu
root=$1
library=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LC_ALL=C
failed=0

marked() { # text on the standard input: the word before the first bracket after each CST_API, without preprocessor lines
    grep -v '^#' | tr '\n' ' ' | grep -oE "\\bCST_API [^;()]*\\(" | sed 's/.*[ *]\([A-Za-z_][A-Za-z0-9_]*\)($/\1/' | sort -u
}
report() { # what is wrong, file of names
    if [ -s "$2" ]; then
        echo "$1:" >&2
        sed 's/^/  /' "$2" >&2
        failed=1
    fi
}
# mpi.h is of libcorestack-mpi, an archive.
find "$root/include/corestack" -name '*.h' ! -name mpi.h -exec cat {} + | marked >"$work/public"
[ -s "$work/public" ] || { echo "no CST_API in $root/include/corestack" >&2; exit 1; }

# Definitions of version nodes themselves are absolute symbols.
nm -D --defined-only --format=posix "$library.so" | awk '$2 != "A" { sub(/@.*/, "", $1); print $1 }' | sort >"$work/exports"
grep -v '^cst_' "$work/exports" >"$work/foreign" || true
report "exported by $library.so without the prefix cst_" "$work/foreign"
nm --defined-only --extern-only --format=posix "$library.a" | awk 'NF >= 3 { print $1 }' | sort -u >"$work/archived"
grep -v '^cst_' "$work/archived" >"$work/foreign" || true
report "defined by $library.a without the prefix cst_" "$work/foreign"
case $(objdump -p "$library.so" | awk '$1 == "SONAME" { print $2 }') in
"$(basename "$library").so."[0-9]*) ;;
*)
    echo "$library.so has no SONAME with a version" >&2
    failed=1
    ;;
esac
comm -23 "$work/public" "$work/exports" >"$work/missing"
report "in a public header and not exported by $library.so" "$work/missing"
comm -13 "$work/public" "$work/exports" >"$work/extra"
report "exported and in no public header" "$work/extra"
exit $failed
