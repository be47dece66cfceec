#!/bin/sh
# Checks the names that the libraries give to the linker: the shared library exports the functions marked CST_API in
# the public headers, no other; the archive defines only names that start with cst_.
#
#   scripts/check_symbols.sh LIB.so LIB.a [INCLUDE_DIR]
set -eu
shared=$1
archive=$2
include=${3:-$(dirname "$0")/../include}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LC_ALL=C
failed=0

# The word before the first bracket after each CST_API; preprocessor lines are left out.
cat "$include"/corestack/*.h | grep -v '^#' | tr '\n' ' ' | grep -oE 'CST_API [^;()]*\(' |
    sed 's/.*[ *]\([A-Za-z_][A-Za-z0-9_]*\)($/\1/' | sort -u >"$work/marked"
nm -D --defined-only --format=posix "$shared" | awk '{ sub(/@.*/, "", $1); print $1 }' | sort -u >"$work/exported"
nm --defined-only --extern-only --format=posix "$archive" | awk 'NF >= 3 { print $1 }' | sort -u >"$work/archived"
[ -s "$work/marked" ] || { echo "no CST_API in $include/corestack" >&2; exit 1; }

report() { # what is wrong, file of names
    if [ -s "$2" ]; then
        echo "$1:" >&2
        sed 's/^/  /' "$2" >&2
        failed=1
    fi
}
comm -23 "$work/marked" "$work/exported" >"$work/missing"
report "marked CST_API in a header and not exported by $shared" "$work/missing"
comm -13 "$work/marked" "$work/exported" >"$work/extra"
report "exported by $shared and not marked CST_API in a header" "$work/extra"
grep -v '^cst_' "$work/exported" >"$work/foreign" || true
report "exported by $shared without the prefix cst_" "$work/foreign"
grep -v '^cst_' "$work/archived" >"$work/foreign" || true
report "defined by $archive without the prefix cst_" "$work/foreign"
case $(objdump -p "$shared" | awk '$1 == "SONAME" { print $2 }') in
libcorestack.so.[0-9]*) ;;
*)
    echo "$shared has no SONAME with a version" >&2
    failed=1
    ;;
esac
exit $failed
