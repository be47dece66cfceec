#!/bin/sh
# Checks what git holds: no white space at line ends, a newline at the end of each text file, no file above 2 MB,
# nothing that a build made, scripts that parse; that numbers as text go through src/base/number.c; that docs/claims.md is what
# the figures of the experiments say.
set -eu
cd "$(dirname "$0")/.."
limit=2000000
failed=0
list=$(mktemp)
trap 'rm -f "$list"' EXIT
# Where git does not answer (an unpacked archive, a checkout of another user's): every file that is not from a build.
git ls-files >"$list" 2>/dev/null ||
    find . \( -name .git -o -name build -o -name 'build-*' -o -name data -path ./data -o -name __pycache__ \) -prune -o \
        -type f -print | sed 's|^\./||' >"$list"
while IFS= read -r file; do
    [ -f "$file" ] || continue
    size=$(wc -c <"$file")
    if [ "$size" -gt $limit ]; then
        echo "$file: $size bytes, above the limit of $limit; generate it, or fetch it with a checksum" >&2
        failed=1
    fi
    case $file in
    *.sh | .ci/run) sh -n "$file" || failed=1 ;;
    src/base/number.c) ;;
    src/*.c | src/*.h)
        if grep -nE '(^|[^_[:alnum:]])(v?sn?printf|v?[fd]?printf|strto(d|f|ld)|atof|v?f?s?scanf)\(' "$file" | head -n 3 |
            sed "s|^|$file: follows the locale; use cst_snprintf and cst_strtod (base/number.h): |" | grep . >&2; then
            failed=1
        fi
        ;;
    *.o | *.a | *.so | *.so.* | *.pyc)
        echo "$file: made by a build" >&2
        failed=1
        ;;
    esac
    # Golden files hold what a program printed, byte for byte; inputs of the fuzz targets, and broken ones of tests, are any bytes.
    case $file in *.stdout | *.stderr | *.patch | *.safetensors | fuzz/corpus/* | fuzz/regressions/*) continue ;; esac
    if [ "$size" -gt 0 ] && grep -Iq . "$file"; then
        if grep -nE "[[:blank:]]+$" "$file" | head -n 3 | cut -c 1-80 | sed "s|^|$file: white space at the end of line |" |
            grep . >&2; then
            failed=1
        fi
        if [ "$(tail -c 1 "$file" | wc -l)" -eq 0 ]; then
            echo "$file: no newline at the end" >&2
            failed=1
        fi
    fi
done <"$list"
exit $failed
