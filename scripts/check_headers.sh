#!/bin/sh
# Compiles each public header alone, as strict C99 and C17 by gcc and clang and as C++11 by g++ and clang++, with
# warnings as errors, so that a user's flags never meet a surprise.
#
#   scripts/check_headers.sh [INCLUDE_DIR]
set -eu
cd "$(dirname "$0")/.."
include=${1:-include}
flags="-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror -fsyntax-only"
failed=0
count=0
for path in "$include"/corestack/*.h; do
    header=corestack/${path##*/}
    for compiler in "gcc -x c -std=c99" "gcc -x c -std=c17" "clang -x c -std=c99" "clang -x c -std=c17" \
        "g++ -x c++ -std=c++11" "clang++ -x c++ -std=c++11" "g++ -x c++ -std=c++20"; do
        # Included twice, so a missing guard shows; a declaration follows, so that the unit is not empty.
        # shellcheck disable=SC2086 # words of their own
        if ! printf '#include <%s>\n#include <%s>\nextern int not_empty;\n' "$header" "$header" |
            $compiler $flags -I"$include" -; then
            echo "$header does not compile alone with $compiler" >&2
            failed=1
        fi
    done
    if ! grep -q 'extern "C"' "$path" && grep -q '(' "$path" && grep -q '^CST_API' "$path"; then
        echo "$header declares functions without extern \"C\"" >&2
        failed=1
    fi
    count=$((count + 1))
done
[ "$count" -gt 0 ] || { echo "no headers in $include/corestack" >&2; exit 1; }
exit $failed
