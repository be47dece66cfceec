#!/bin/sh
# Checks what git holds: no white space at line ends, a newline at the end of each text file, no file above 2 MB,
# nothing that a build made, scripts that parse; that numbers as text go through src/core/number.c; that pages and anchors
# cited in sources (docs/method.md#s4-blend) exist; that no function has more than 80 lines.
# Whole lists at a time: a process for every file takes longer than all else.
set -eu
cd "$(dirname "$0")/.."
limit=2000000
failed=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Where git does not answer (an unpacked archive, a checkout of another user's): every file that is not from a build.
git ls-files >"$work/all" 2>/dev/null ||
    find . \( -name .git -o -name build -o -name 'build-*' -o -name data -path ./data -o -name __pycache__ \) -prune -o \
        -type f -print | sed 's|^\./||' >"$work/all"

# Files of a list, one name a line, as arguments of a command; those that were removed are left out.
of() { # list, command...
    list=$1
    shift
    while IFS= read -r file; do [ ! -f "$file" ] || printf '%s\0' "$file"; done <"$list" | xargs -0 -r "$@"
}
# The lines that a check found, as messages.
refuse() { # found
    [ ! -s "$1" ] || {
        cat "$1" >&2
        failed=1
    }
}

of "$work/all" stat -c '%s %n' >"$work/sizes"
awk -v limit=$limit '$1 > limit {
    size = $1
    sub(/^[0-9]+ /, "")
    print $0 ": " size " bytes, above the limit of " limit "; generate it, or fetch it with a checksum"
}' "$work/sizes" >"$work/found"
refuse "$work/found"

grep -E '\.(o|a|so|pyc)$|\.so\.' "$work/all" | sed 's/$/: made by a build/' >"$work/found" || true
refuse "$work/found"

grep -E '\.sh$|^\.ci/run$' "$work/all" >"$work/scripts" || true
while IFS= read -r file; do
    [ ! -f "$file" ] || sh -n "$file" || failed=1
done <"$work/scripts"

grep -E '^src/.*\.[ch]$' "$work/all" | grep -vx src/core/number.c >"$work/sources" || true
of "$work/sources" grep -nHE '(^|[^_[:alnum:]])(v?sn?printf|v?[fd]?printf|strto(d|f|ld)|atof|v?f?s?scanf)\(' |
    sed -E 's/^([^:]*):/\1: follows the locale; use cst_snprintf and cst_strtod (core\/number.h): /' >"$work/found" || true
refuse "$work/found"

# From the line of the name to the closing brace.
grep -E '^(src|cli|mpi|weights)/.*\.c$' "$work/all" >"$work/programs" || true
of "$work/programs" awk 'FNR == 1 { head = body = 0 }
    /^[}#\/]/ || NF == 0 {
        if ($0 == "}" && body && FNR - head >= 80) print FILENAME ":" head ": a function of " FNR - head + 1 " lines; 80 are the limit"
        if (!body || /^}/) head = body = 0
        next
    }
    !head && /^[a-z]/ { head = FNR }
    head && /\{$/ { body = 1 }' >"$work/found"
refuse "$work/found"

# The anchor of a heading is its text in lower case, with hyphens for spaces, without punctuation.
grep -E '^docs/[^/]*\.md$' "$work/all" >"$work/pages" || true
of "$work/pages" awk '{ fence = FNR == 1 ? 0 : fence }
    FNR == 1 { print FILENAME }
    /^```/ { fence = !fence }
    /^#+ / && !fence {
        sub(/^#+ /, "")
        text = tolower($0)
        gsub(/[^-a-z0-9_ ]/, "", text)
        gsub(/ /, "-", text)
        print FILENAME "#" text
    }' | sort -u >"$work/anchors"
grep -E '^(src|include|cli)/.*\.[ch]$' "$work/all" >"$work/sources" || true
of "$work/sources" grep -noHE 'docs/[a-z-]+\.md(#[a-z0-9_-]+)?' | awk -F: -v anchors="$work/anchors" '
    BEGIN { while ((getline line < anchors) > 0) known[line] = 1 }
    !($3 in known) { print $1 ":" $2 ": " $3 " does not exist" }' >"$work/found" || true
refuse "$work/found"

# Text files that are not empty. Golden files hold what a program printed, byte for byte; inputs of the fuzz targets, and
# broken ones of tests, are any bytes.
grep -vE '\.(stdout|stderr|patch|safetensors)$|^fuzz/(corpus|regressions)/' "$work/all" >"$work/kept" || true
of "$work/kept" grep -lI . >"$work/text" || true
of "$work/text" grep -nHE '[[:blank:]]+$' | cut -c 1-120 | sed -E 's/^([^:]*):/\1: white space at the end of line /' \
    >"$work/found" || true
refuse "$work/found"
of "$work/text" python3 -c '
import sys
for name in sys.argv[1:]:
    with open(name, "rb") as file:
        file.seek(-1, 2)
        if file.read() != b"\n":
            print(f"{name}: no newline at the end")
' >"$work/found"
refuse "$work/found"
exit $failed
