#!/bin/sh
# Checks the names that the libraries give to the linker. The shared libraries together export the functions marked CST_API
# in the public headers, each by one library, and no others. Under the version node CORESTACK_PRIVATE they export the
# functions marked CST_PRIVATE_API in src/. The archives define only names that start with cst_.
#
#   scripts/check_symbols.sh ROOT LIB...     ROOT: has include/ and src/; LIB: a library without .so and .a
set -eu
root=$1
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LC_ALL=C
failed=0

marked() { # macro; text on the standard input: the word before the first bracket after each, without preprocessor lines
    grep -v '^#' | tr '\n' ' ' | grep -oE "\\b$1 [^;()]*\\(" | sed 's/.*[ *]\([A-Za-z_][A-Za-z0-9_]*\)($/\1/' | sort -u
}
report() { # what is wrong, file of names
    if [ -s "$2" ]; then
        echo "$1:" >&2
        sed 's/^/  /' "$2" >&2
        failed=1
    fi
}
# mpi.h is of libcorestack-mpi, an archive.
find "$root/include/corestack" -name '*.h' ! -name mpi.h -exec cat {} + | marked CST_API >"$work/public"
find "$root/src" -name '*.h' -exec cat {} + 2>/dev/null | marked CST_PRIVATE_API >"$work/private" || true
[ -s "$work/public" ] || { echo "no CST_API in $root/include/corestack" >&2; exit 1; }

: >"$work/exports"
for library in "$@"; do
    # Definitions of version nodes themselves are absolute symbols.
    nm -D --defined-only --format=posix "$library.so" | awk '$2 != "A" { print $1 }' | sort -u >"$work/exported"
    cat "$work/exported" >>"$work/exports"
    sed 's/@.*//' "$work/exported" | grep -v '^cst_' >"$work/foreign" || true
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
done
grep '@CORESTACK_PRIVATE$' "$work/exports" | sed 's/@.*//' | sort >"$work/private_exports" || true
grep -v '@CORESTACK_PRIVATE$' "$work/exports" | sed 's/@.*//' | sort >"$work/public_exports" || true
cat "$work/private_exports" "$work/public_exports" | sort | uniq -d >"$work/twice"
report "exported more than once" "$work/twice"
for kind in public private; do
    comm -23 "$work/$kind" "$work/${kind}_exports" >"$work/missing"
    report "$kind by its header and not exported as such by any of $*" "$work/missing"
    comm -13 "$work/$kind" "$work/${kind}_exports" >"$work/extra"
    report "exported as $kind and not marked so in a header" "$work/extra"
done
exit $failed
