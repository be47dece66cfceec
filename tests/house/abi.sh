#!/bin/sh
# scripts/abi.sh tells what breaks a program from what does not: a small library is changed in one way after the other.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/include"
failed=0

make_library() { # sed program that plants a change
    cat >"$work/plain.h" <<'C'
typedef enum cst_colour { CST_RED = 0, CST_GREEN = 1 } cst_colour;
typedef struct cst_point {
    int x;
    int y;
    struct cst_part {
        int a;
        int b;
    } part;
} cst_point;
typedef struct cst_hidden cst_hidden;
int cst_length(const cst_point *point, cst_colour colour);
int cst_peek(const cst_hidden *hidden);
C
    cat >"$work/plain.c" <<'C'
#include "include/one.h"
struct cst_hidden { int secret; };
int cst_length(const cst_point *point, cst_colour colour) { return point->x + (int)colour; }
int cst_peek(const cst_hidden *hidden) { return hidden->secret; }
C
    sed "$1" "$work/plain.h" >"$work/include/one.h"
    sed "$1" "$work/plain.c" >"$work/one.c"
    gcc -g -fPIC -shared -Wl,-soname,libone.so.0 "$work/one.c" -o "$work/libone.so"
}
# shellcheck disable=SC2317 # called below
compare() {
    "$root/scripts/abi.sh" "$work/libone.so" "$work/baseline" "$work/include" >"$work/log" 2>&1
}
passes() { # what, sed program, words in the output
    make_library "$2"
    if ! compare || { [ -n "$3" ] && ! grep -q -e "$3" "$work/log"; }; then
        echo "must pass, with the word '$3': $1" >&2
        cat "$work/log" >&2
        failed=1
    fi
}
fails() { # what, sed program, words in the output
    make_library "$2"
    if compare || ! grep -q -e "$3" "$work/log"; then
        echo "must fail, with the word '$3': $1" >&2
        cat "$work/log" >&2
        failed=1
    fi
}
make_library ''
# The baseline is written where there is none.
"$root/scripts/abi.sh" --write "$work/libone.so" "$work/baseline" "$work/include"
passes "nothing changed" '' ''
[ ! -s "$work/log" ] || failed=1
passes "a function more" '$a int cst_more(void);
s/^struct cst_hidden .*/&\nint cst_more(void) { return 1; }/' 'Additions only'
passes "a constant at the end of an enumeration" 's/CST_GREEN = 1/CST_GREEN = 1, CST_BLUE = 2/' 'Additions only'
passes "a field of a struct that callers do not see" 's/int secret;/int other; int secret;/' ''
fails "a function less" '/cst_peek/d' cst_peek
fails "another type of a parameter" 's/cst_colour colour)/long colour)/' cst_length
fails "a field more" 's/    int y;/    int y;\n    int z;/' cst_point
fails "fields in another order" 's/int x;/int t;/; s/int y;/int x;/; s/int t;/int y;/' cst_point
fails "fields of a struct inside another in another order" 's/int a;/int t;/; s/int b;/int a;/; s/int t;/int b;/' cst_part
fails "another value of a constant" 's/CST_GREEN = 1/CST_GREEN = 2/' CST_GREEN
fails "a struct without a name" 's/    int y;/    int y;\n    struct {\n        int a;\n        int b;\n    } rest;/' 'without a name'
make_library '/cst_peek/d'
"$root/scripts/abi.sh" --write "$work/libone.so" "$work/baseline" "$work/include" >"$work/log"
passes "what was stored" '/cst_peek/d' ''
exit $failed
