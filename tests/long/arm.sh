#!/bin/sh
# The vectorised loops give the same bytes on 64-bit ARM, where they use NEON, as here. Cross-compiled, run by qemu-user.
# Part of tests/long/run.sh.
set -eu
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for compiler in gcc aarch64-linux-gnu-gcc; do
    $compiler -std=c17 -O3 -ffp-contract=off -D_POSIX_C_SOURCE=200809L -Iinclude -Isrc -static -o "$work/$compiler" \
        tests/long/arm/loops.c src/core/wide.c src/core/registers.c src/model/kernels.c -lm
done
aarch64-linux-gnu-objdump -d "$work/aarch64-linux-gnu-gcc" | grep -q 'fmul[[:space:]]*v[0-9]*\.2d' || {
    echo "arm.sh: the loops were not vectorised for NEON" >&2
    exit 1
}
"$work/gcc" >"$work/here"
qemu-aarch64 "$work/aarch64-linux-gnu-gcc" >"$work/arm"
cmp "$work/here" "$work/arm"
