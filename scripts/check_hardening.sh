#!/bin/sh
# Checks that a library or program, as it is shipped, was hardened (CST_HARDEN in CMakeLists.txt): what the ELF headers
# say and which functions of the C library it calls. docs/security.md says what each is for.
#
#   scripts/check_hardening.sh FILE...
set -u
export LC_ALL=C
failed=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

wrong() { # what
    echo "$file: $1" >&2
    failed=1
}
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
    if grep -q 'TEXTREL' "$work/dynamic"; then wrong "has relocations in its code (TEXTREL)"; fi
    if grep -qE 'RPATH|RUNPATH' "$work/dynamic"; then wrong "has a search path for libraries (RPATH)"; fi
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
