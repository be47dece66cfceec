#!/bin/sh
# scripts/coverage.sh fails where gcovr's figures are too low or cannot be read, and then writes no empty table. CMake, the
# tests and gcovr are stand-ins.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/bin" "$work/scripts" "$work/docs" "$work/build-coverage/tests"
cp "$root/scripts/coverage.sh" "$work/scripts"
printf '#!/bin/sh\n' | tee "$work/bin/cmake" "$work/bin/ctest" >"$work/build-coverage/tests/alloc_sweep"
printf '#!/bin/sh\ncat "%s"\n' "$work/figures" >"$work/bin/gcovr"
chmod +x "$work"/bin/* "$work/build-coverage/tests/alloc_sweep"
failed=0
run() { # what, wanted status, words in the page
    printf 'before\n<!-- coverage -->\nold\n<!-- end of coverage -->\nafter\n' >"$work/docs/reliability.md"
    status=0
    PATH=$work/bin:$PATH "$work/scripts/coverage.sh" --write >"$work/out" 2>&1 || status=$?
    if [ $status != "$2" ] || ! grep -q -e "$3" "$work/docs/reliability.md"; then
        echo "$1: exit $status instead of $2, or no '$3' in the page" >&2
        cat "$work/out" "$work/docs/reliability.md" >&2
        failed=1
    fi
}
printf 'lines: 98.5%% (197 out of 200)\nbranches: 93.9%% (93 out of 99)\n' >"$work/figures"
run "good figures" 0 '98.5 % (197 out of 200) | 93.9 % (93 out of 99)'
printf 'lines: 98.5%% (197 out of 200)\nbranches: 89.9%% (89 out of 99)\n' >"$work/figures"
run "too few branches" 1 '89.9 %'
printf 'lines: 98.5%% (197 out of 200)\nbranch coverage: 93.9%%\n' >"$work/figures"
run "branches in other words" 1 '^old$'
printf 'lines covered: 98.5%%\nbranches: 93.9%% (93 out of 99)\n' >"$work/figures"
run "lines in other words" 1 '^old$'
: >"$work/figures"
run "nothing at all" 1 '^old$'
exit $failed
