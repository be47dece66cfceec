#!/bin/sh
# Plants one fault after the other in a copy and sees that the check for it fails, with a word that names the fault;
# and that the copy passes without.
#
#   tests/house/checks.sh LIB.a
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
archive=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

fails() { # what was planted, word in the message, command...
    planted=$1
    word=$2
    shift 2
    if "$@" >"$work/log" 2>&1; then
        echo "not seen: $planted" >&2
        failed=1
    elif ! grep -q -e "$word" "$work/log"; then
        echo "seen, but not by its name ($word): $planted" >&2
        cat "$work/log" >&2
        failed=1
    fi
}
passes() { # what, command...
    what=$1
    shift
    "$@" >"$work/log" 2>&1 || {
        echo "fails though nothing is wrong: $what" >&2
        cat "$work/log" >&2
        failed=1
    }
}

# ---- include graph: a small tree of two folders and a later one
tree=$work/tree
fresh() {
    rm -rf "$tree"
    mkdir -p "$tree/docs" "$tree/src/low" "$tree/src/high" "$tree/include/corestack" "$tree/cli"
    cat >"$tree/docs/architecture.md" <<'DOC'
```include-graph
low:
high: low
later: low high
```
```include-graph-later
later
```
```external-headers
omp.h: low
```
DOC
    printf '#include <omp.h>\n#include <math.h>\n' >"$tree/src/low/low.h"
    printf '#include "low/low.h"\n#include <corestack/public.h>\n' >"$tree/src/high/high.c"
    printf '#include <stddef.h>\n' >"$tree/include/corestack/public.h"
    printf '#include "own.h"\n#include <corestack/public.h>\n' >"$tree/cli/main.c"
    printf '#include <stdio.h>\n' >"$tree/cli/own.h"
}
includes=$root/scripts/check_includes.sh
plant() { # file, text, word
    fresh
    printf '%s\n' "$2" >>"$tree/$1"
    fails "$1: $2" "$3" "$includes" "$tree"
}
fresh
passes "include graph" "$includes" "$tree"
plant src/low/low.h '#include "high/high.h"' 'no such file'
: >"$tree/src/high/high.h"
fails "an include against the order" 'may not include src/high' "$includes" "$tree"
plant src/high/high.c '  #  include <omp.h>' 'high may not include it'
plant src/high/high.c '#include <jansson.h>' 'not a header of C'
plant cli/main.c '#include "low/low.h"' 'own folder only'
plant cli/main.c '#include <omp.h>' 'may not include it'
plant include/corestack/public.h '#include <unistd.h>' 'headers of C only'
plant include/corestack/public.h '#include "low/low.h"' 'corestack/...> only'
plant src/low/low.h '#include <corestack/missing.h>' 'no such public header'
fresh
mkdir "$tree/src/stray"
fails "a folder without a line" 'src/stray has no line' "$includes" "$tree"
fresh
mkdir "$tree/src/later"
fails "a folder still listed as planned" 'take it off' "$includes" "$tree"
fresh
rm -r "$tree/src/high"
fails "a line without a folder" 'src/high, which does not exist' "$includes" "$tree"
fresh
sed -i 's/^low:$/low: high/' "$tree/docs/architecture.md"
fails "a cycle" 'no line above' "$includes" "$tree"

# ---- calls: the same small tree, with a build of it
calls=$root/scripts/check_calls.sh
compile() { # text of src/low/low.c, what src/high/more.c returns
    fresh
    printf '%s\n' "$1" >"$tree/src/low/low.c"
    printf 'int cst_high(void);\nint cst_more(void);\nint cst_more(void) { return %s; }\n' "${2:-0}" >"$tree/src/high/more.c"
    printf 'int cst_low(void);\nint cst_high(void);\nint cst_more(void);\nint cst_high(void) { return cst_low() + cst_more(); }\n' >"$tree/src/high/high.c"
    mkdir -p "$tree/build/src/low" "$tree/build/src/high"
    for source in low/low high/high high/more; do
        gcc -c "$tree/src/$source.c" -o "$tree/build/src/$source.c.o"
        printf '  "command": "gcc -o ./src/%s.c.o -c %s.c",\n' "$source" "$source"
    done >"$tree/build/compile_commands.json"
}
compile 'int cst_low(void); int cst_low(void) { return 1; }'
passes "calls" "$calls" "$tree/build" "$tree"
compile 'int cst_low(void); int cst_high(void); int cst_low(void) { return cst_high(); }'
fails "a call against the order" 'src/low/low.c uses cst_high of src/high/high.c' "$calls" "$tree/build" "$tree"
compile 'int cst_low(void); int cst_low(void) { return 1; }' 'cst_high()'
fails "files that call one another" 'in a circle:.* src/high/more.c' "$calls" "$tree/build" "$tree"
printf '```call-circles\nhigh: high more\n```\n' >>"$tree/docs/architecture.md"
passes "files that may" "$calls" "$tree/build" "$tree"
compile 'int cst_low(void); int cst_high(void); int cst_low(void) { return cst_high(); }'
sed -i /low.c.o/d "$tree/build/compile_commands.json"
passes "an object of a former build" "$calls" "$tree/build" "$tree"
: >"$tree/build/compile_commands.json"
fails "a build without objects" 'no object files' "$calls" "$tree/build" "$tree"

# ---- headers
mkdir -p "$work/include/corestack"
header=$work/include/corestack/one.h
headers=$root/scripts/check_headers.sh
good='#ifndef ONE_H\n#define ONE_H\n#ifdef __cplusplus\nextern "C" {\n#endif\nint one(void);\n#ifdef __cplusplus\n}\n#endif\n'
# shellcheck disable=SC2059 # the format is the text
{
    printf "$good#endif\n" >"$header"
    passes "header" "$headers" "$work/include"
    printf "${good}size_t two(void);\n#endif\n" >"$header"
    fails "a header that leaves out <stddef.h>" 'does not compile alone' "$headers" "$work/include"
    printf "${good}static inline int f(long x) { return x; }\n#endif\n" >"$header"
    fails "a conversion that loses bits" 'does not compile alone' "$headers" "$work/include"
    printf "${good}typedef struct two { int new; } two;\n#endif\n" >"$header"
    fails "a keyword of C++" 'g++' "$headers" "$work/include"
    printf "${good}typedef struct two { int x; } two;\n#endif\ntypedef struct t { int x; } t;\n" >"$header"
    fails "a header without a guard" 'does not compile alone' "$headers" "$work/include"
}

# ---- users of public functions
users=$root/scripts/check_api.sh
api=$work/api
mkdir -p "$api/include/corestack" "$api/cli" "$api/mpi" "$api/python/corestack" "$api/examples" "$api/docs"
printf '```c\ncst_of_docs(1);\n```\n' >"$api/docs/page.md"
printf 'cst_of_the_tool();\n' >"$api/cli/main.c"
: >"$api/README.md"
{
    printf 'CST_API int cst_of_docs(int x);\n'
    printf 'CST_API int cst_of_the_tool(\n    void);\n'
    printf '/* Returns 1. For programs that\n * count. */\nCST_API int cst_of_others(void);\n'
} >"$api/include/corestack/one.h"
passes "public functions" "$users" "$api"
printf '/* Returns 2. */\nCST_API int cst_of_nobody(void);\n' >>"$api/include/corestack/one.h"
fails "a public function without a user" 'nobody uses cst_of_nobody' "$users" "$api"

# ---- symbols
symbols=$root/scripts/check_symbols.sh
make_library() { # C text, header text, name, flags of the linker
    printf '%s\n' "$1" >"$work/one.c"
    printf '%s\n' "$2" >"$header"
    gcc -fPIC -c "$work/one.c" -o "$work/one.o"
    rm -f "$work/libone.a"
    ar rc "$work/libone.a" "$work/one.o"
    # shellcheck disable=SC2086 # one flag or none
    gcc -shared -Wl,-soname,"$3" $4 "$work/one.o" -o "$work/libone.so"
}
# shellcheck disable=SC2317 # called through passes and fails
check_library() {
    "$symbols" "$work" "$work/libone"
}
api='CST_API int cst_one(int a,
                int b);'
make_library 'int cst_one(int a, int b) { return a + b; }' "$api" libone.so.0 ""
passes "symbols" check_library
make_library 'int cst_one(int a, int b) { return a + b; } int cst_two(void) { return 2; }' "$api" libone.so.0 ""
fails "an export that no header has" 'cst_two' check_library
make_library 'int cst_two(void) { return 2; }' "$api" libone.so.0 ""
fails "a declared function that is not exported" 'cst_one' check_library
make_library 'int cst_one(int a, int b) { return a + b; } int helper;' "$api" libone.so.0 ""
fails "a global without the prefix" 'helper' check_library
make_library 'int cst_one(int a, int b) { return a + b; }' "$api" libone.so ""
fails "no version in the SONAME" 'SONAME' check_library
[ -f "$archive" ] || failed=1

# ---- files of the repository
# shellcheck disable=SC2317
tree_check() {
    (cd "$work/repository" && scripts/check_tree.sh)
}
repository() {
    rm -rf "$work/repository"
    mkdir -p "$work/repository/scripts"
    cp "$root/scripts/check_tree.sh" "$work/repository/scripts/"
    git -C "$work/repository" init -q
    printf 'text\n' >"$work/repository/file.txt"
}
repository
git -C "$work/repository" add -A
passes "files" tree_check
plant_file() { # what, word
    git -C "$work/repository" add -A
    fails "$1" "$2" tree_check
    repository
}
printf 'text \n' >"$work/repository/file.txt"
plant_file "white space at a line end" 'file.txt: white space'
printf 'text' >"$work/repository/file.txt"
plant_file "no newline at the end" 'no newline'
head -c 2000001 /dev/zero >"$work/repository/large.bin"
plant_file "a large file" 'large.bin: 2000001 bytes'
printf 'if true\n' >"$work/repository/broken.sh"
plant_file "a script that does not parse" 'broken.sh'
mkdir -p "$work/repository/src/io"
printf '    x = strtod(text, NULL);\n' >"$work/repository/src/io/x.c"
plant_file "a number that follows the locale" 'src/io/x.c: follows the locale'
mkdir -p "$work/repository/src/io" "$work/repository/docs"
printf '# Page\n\n## S4: the `blend`\n' >"$work/repository/docs/page.md"
printf '/* docs/page.md and docs/page.md#s4-the-blend. */\n' >"$work/repository/src/io/x.c"
git -C "$work/repository" add -A
passes "pages and anchors" tree_check
printf '/* docs/page.md#s5. */\n' >"$work/repository/src/io/x.c"
plant_file "an anchor that does not exist" 'src/io/x.c:1: docs/page.md#s5 does not exist'
mkdir -p "$work/repository/src/io"
{ printf 'int cst_long(void) {\n'; yes '    x++;' | head -79; printf '}\n'; } >"$work/repository/src/io/x.c"
plant_file "a long function" 'src/io/x.c:1: a function of 81 lines'
mkdir -p "$work/include/corestack"
printf 'CST_API cst_status cst_thing_new(int32_t rows, cst_context *context);\n' >"$work/include/corestack/x.h"
fails "a maker that is called _new" 'are called _create' "$root/scripts/check_conventions.py" "$work/include"
fails "a context at the end" 'the context is the first' "$root/scripts/check_conventions.py" "$work/include"
fails "a count that is not int64_t" 'counts are int64_t' "$root/scripts/check_conventions.py" "$work/include"
printf 'CST_API cst_status cst_thing_size(cst_context *context, int64_t rows, double *out, int64_t columns);\n' >"$work/include/corestack/x.h"
fails "a result before a parameter" 'results come after' "$root/scripts/check_conventions.py" "$work/include"
exit $failed
