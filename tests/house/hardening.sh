#!/bin/sh
# The built library and tool are hardened; and the check for it sees each protection that is left out.
#
#   tests/house/hardening.sh COMMANDS FILE...       COMMANDS: the build's compile_commands.json
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
check=$root/scripts/check_hardening.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
"$check" --commands "$@" || failed=1

# A program with a buffer on the stack, a large frame, a copy that FORTIFY checks, and a few functions.
cat >"$work/program.c" <<'C'
#include <stdio.h>
#include <string.h>
#ifdef WRITE_AND_RUN
__asm__(".section .both,\"awx\",@progbits\n.byte 0\n.text");
#endif
#ifdef NAMES_LOADER
const char loader[] __attribute__((section(".interp"))) = "/lib/loader";
#endif
int count(const char *text);
int count(const char *text) {
    char page[20000];
    snprintf(page, sizeof page, "%s", text);
    return page[strlen(text) / 2];
}
#define F(n) int f##n(const char *text); int f##n(const char *text) { char b[16]; strcpy(b, text); return b[n]; }
F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8) F(9)
int main(int argc, char **argv) { return argc > 99 ? count(argv[0]) + f0(argv[0]) : 0; }
C
compile="-O2 -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -fstack-protector-strong -fstack-clash-protection -fcf-protection=full -fPIE"
link="-pie -Wl,-z,relro,-z,now -Wl,-z,noexecstack -Wl,-z,separate-code"
make_program() { # flags of the compiler, flags of the linker
    # shellcheck disable=SC2086 # words of their own
    gcc $compile $1 "$work/program.c" $link $2 -o "$work/program" 2>"$work/warnings" || {
        cat "$work/warnings" >&2
        exit 1
    }
}
sees() { # word in the message, flags of the compiler, flags of the linker
    make_program "$2" "$3"
    if "$check" "$work/program" >"$work/log" 2>&1; then
        echo "not seen: $1, left out by $2 $3" >&2
        failed=1
    elif ! grep -qF "$1" "$work/log"; then
        echo "seen, but not by its name ($1): $2 $3" >&2
        cat "$work/log" >&2
        failed=1
    fi
}
make_program '' ''
"$check" "$work/program" || failed=1
sees 'not position independent (PIE)' -fno-pie -no-pie
# A shared library that names a loader, as programs do: like one, but for the mark.
sees 'not marked as position independent (PIE)' -DNAMES_LOADER -shared
sees '(RELRO)' '' -Wl,-z,norelro
sees '(BIND_NOW)' '' -Wl,-z,lazy
sees '(GNU_STACK)' '' -Wl,-z,execstack
sees '(W^X)' -DWRITE_AND_RUN ''
sees '(separate-code)' '' -Wl,-z,noseparate-code
sees '(RPATH)' '' -Wl,-rpath,/opt/lib
sees 'stack protector' -fno-stack-protector ''
sees '(FORTIFY)' '-U_FORTIFY_SOURCE' ''
if [ "$(uname -m)" = x86_64 ]; then
    sees '(CET)' -fcf-protection=none ''
    sees '(TEXTREL)' '-fno-pie -mcmodel=large' -Wl,-z,notext
    sees '(stack clash)' -fno-stack-clash-protection ''
fi
# What only the compile commands tell.
make_program '' ''
sees_command() { # word in the message or nothing, flags
    printf '  "command": "/usr/bin/cc %s -o x.o -c /tree/src/base/x.c",\n' "$2" >"$work/commands"
    if "$check" --commands "$work/commands" "$work/program" >"$work/log" 2>&1; then
        if [ -n "$1" ]; then
            echo "not seen among the commands: $1 of $2" >&2
            failed=1
        fi
    elif [ -z "$1" ] || ! grep -qF -e "$1" "$work/log"; then
        echo "seen among the commands, but not by its name ($1): $2" >&2
        cat "$work/log" >&2
        failed=1
    fi
}
good="-fstack-protector-strong -fstack-clash-protection -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3"
sees_command '' "$good"
sees_command 'no -fstack-protector-strong' "$good -fstack-protector"
sees_command 'no -fstack-protector-strong' "$good -fno-stack-protector"
sees_command 'no -fstack-clash-protection' "$good -fno-stack-clash-protection"
sees_command 'no -D_FORTIFY_SOURCE' "$good -D_FORTIFY_SOURCE=1"
sees_command 'no -D_FORTIFY_SOURCE' "$good -U_FORTIFY_SOURCE"
printf '[]\n' >"$work/commands"
if "$check" --commands "$work/commands" "$work/program" 2>/dev/null; then
    echo "not seen: compile commands without one of the library" >&2
    failed=1
fi
printf 'text\n' >"$work/text"
if "$check" "$work/text" 2>/dev/null; then
    echo "not seen: a file that is no program" >&2
    failed=1
fi
exit $failed
