#!/bin/sh
# Checks that a library or program, as it is shipped, was hardened (CST_HARDEN in CMakeLists.txt): what the ELF headers
# say and which functions of the C library it calls. docs/reliability.md says what each is for. A weaker stack protector or
# FORTIFY leaves nothing in the file that tells it from the stronger: that is looked for in the compile commands.
#
#   scripts/check_hardening.sh [--commands BUILD/compile_commands.json] FILE...
set -u
export LC_ALL=C
failed=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

wrong() { # what
    echo "$file: $1" >&2
    failed=1
}
# Of each compile command of the library or the tool: the last flag of a kind is the one that counts.
if [ "${1:-}" = --commands ] && [ $# -gt 1 ]; then
    file=$2
    shift 2
    awk '/"command":/ && / -c [^ ]*\/(src\/[a-z]+|cli)\/[a-z_0-9]+\.c/ {
            found++
            stack = fortify = clash = name = ""
            for (i = 1; i <= NF; i++) {
                if ($i ~ /^-f(no-)?stack-protector/) stack = $i
                if ($i ~ /^-f(no-)?stack-clash-protection/) clash = $i
                if ($i ~ /^-[UD]_FORTIFY_SOURCE/) fortify = $i
                if ($i == "-c") name = $(i + 1)
            }
            sub(/[",]*$/, "", name)
            if (stack !~ /^-fstack-protector-(strong|all)/) print name ": no -fstack-protector-strong"
            if (clash !~ /^-fstack-clash/) print name ": no -fstack-clash-protection"
            if (fortify !~ /^-D_FORTIFY_SOURCE=[23]/) print name ": no -D_FORTIFY_SOURCE=3 or 2"
        }
        END { if (!found) print "no compile command of the library or the tool" }' "$file" >"$work/weak" ||
        wrong "cannot be read"
    while IFS= read -r line; do wrong "$line"; done <"$work/weak"
fi
[ $# -gt 0 ] || { echo "check_hardening.sh: no files" >&2; exit 2; }
for file in "$@"; do
    if ! readelf -hW "$file" >"$work/head" 2>&1 || ! readelf -lW "$file" >"$work/segments" ||
        ! readelf -dW "$file" >"$work/dynamic" || ! nm -D --undefined-only "$file" >"$work/calls"; then
        wrong "cannot be read as an ELF file"
        continue
    fi
    grep -q 'Type: *DYN' "$work/head" || wrong "is not position independent (PIE)"
    # A program, which names its loader, must say so itself as well.
    if grep -q 'INTERP' "$work/segments" && ! grep -q 'FLAGS_1.*PIE' "$work/dynamic"; then
        wrong "is a program and not marked as position independent (PIE)"
    fi
    grep -q 'GNU_RELRO' "$work/segments" || wrong "has no read-only relocations (RELRO)"
    grep -qE 'BIND_NOW|FLAGS_1.*NOW' "$work/dynamic" || wrong "binds functions late, so that RELRO is partial (BIND_NOW)"
    grep -q 'GNU_STACK' "$work/segments" || wrong "does not say that its stack is not executable (GNU_STACK)"
    if grep 'GNU_STACK' "$work/segments" | grep -q 'RWE'; then wrong "has an executable stack (GNU_STACK)"; fi
    if grep 'LOAD' "$work/segments" | grep -qE 'RWE|WE '; then wrong "has a segment to write and to execute (W^X)"; fi
    # Code has pages of the file to itself: no other segment, the headers among them, begins or ends on one.
    while read -r _ from _ _ size _ flags; do
        case $flags in *E*) ;; *) continue ;; esac
        first=$((from / 4096))
        last=$(((from + size - 1) / 4096))
        shared=$(grep ' LOAD ' "$work/segments" | while read -r _ at _ _ length _ _; do
            if [ "$at" != "$from" ] && [ $((at / 4096)) -le $last ] && [ $(((at + length - 1) / 4096)) -ge $first ]; then
                echo yes
            fi
        done)
        if [ $first = 0 ] || [ -n "$shared" ]; then wrong "has code on pages of something else (separate-code)"; fi
    done <<SEGMENTS
$(grep ' LOAD ' "$work/segments" | sed 's/R E/RE/; s/RW /RW/')
SEGMENTS
    if grep -q 'TEXTREL' "$work/dynamic"; then wrong "has relocations in its code (TEXTREL)"; fi
    # That of a wheel is the folder beside it.
    if grep -E 'RPATH|RUNPATH' "$work/dynamic" | grep -qvF '[$ORIGIN/../corestack.libs]'; then wrong "has a search path for libraries (RPATH)"; fi
    grep -q '__stack_chk_fail' "$work/calls" || wrong "has no stack protector"
    grep -qE ' __[a-z]+_chk(@|$)' "$work/calls" || wrong "calls no checked function of the C library (FORTIFY)"
    case $(readelf -hW "$file" | sed -n 's/^ *Machine: *//p') in *X86-64*)
        objdump -d --no-show-raw-insn "$file" >"$work/code"
        # Beyond those of the start files.
        [ "$(grep -c 'endbr64' "$work/code")" -ge 10 ] || wrong "has no marks for indirect branches (CET)"
        # Touching each page of a large frame: an or by gcc, a move by clang.
        grep -qE '(orq|movq) +\$0x0,(0x[0-9a-f]+)?\(%rsp\)' "$work/code" || wrong "does not touch the pages of its stack one by one (stack clash)"
        ;;
    esac
done
exit $failed
