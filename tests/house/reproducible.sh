#!/bin/sh
# scripts/check_reproducible.sh --built: builds with debugging information and without are the same, those of other sources
# and those that name their time are not.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/scripts" "$work/cli"
cp "$root/scripts/check_reproducible.sh" "$work/scripts"
: >"$work/cli/main.c"
failed=0
build() { # folder, flags
    mkdir -p "$work/$1/CMakeFiles/corestack_cli.dir/cli"
    printf 'const char *made(void);\nconst char *made(void) { return MADE; }\nint main(void) { return !made(); }\n' >"$work/$1/one.c"
    # shellcheck disable=SC2086 # words of their own
    (cd "$work/$1" && gcc -O2 -ffile-prefix-map="$work/$1=." $2 -c one.c && rm -f libcorestack.a &&
        ar rc libcorestack.a one.o && cp libcorestack.a libcorestack-weights.a && mv one.o CMakeFiles/corestack_cli.dir/cli/main.c.o)
}
compare() {
    "$work/scripts/check_reproducible.sh" --built a b >"$work/log" 2>&1
}
build a '-g -DMADE="once"'
build b '-DMADE="once"'
compare || {
    echo "seen as different, though only debugging information differs" >&2
    cat "$work/log" >&2
    failed=1
}
build b '-DMADE="then"'
for file in libcorestack.a libcorestack-weights.a cli/main.c.o; do
    if compare || ! grep -q "$file" "$work/log"; then
        echo "not seen: another text in $file" >&2
        failed=1
    fi
done
rm "$work/b/libcorestack.a"
if compare; then
    echo "not seen: a file that is missing" >&2
    failed=1
fi
exit $failed
