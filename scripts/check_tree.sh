#!/bin/sh
# Checks what git holds: no white space at line ends, a newline at the end of each text file, no file above 2 MB,
# nothing that a build made, scripts that parse.
set -eu
cd "$(dirname "$0")/.."
limit=2000000
failed=0
if ! git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
    echo "not a git checkout; the check of the repository's files is for one" >&2
    exit 1
fi
list=$(mktemp)
trap 'rm -f "$list"' EXIT
git ls-files >"$list"
while IFS= read -r file; do
    [ -f "$file" ] || continue
    size=$(wc -c <"$file")
    if [ "$size" -gt $limit ]; then
        echo "$file: $size bytes, above the limit of $limit; generate it, or fetch it with a checksum" >&2
        failed=1
    fi
    case $file in
    *.sh | .ci/run) sh -n "$file" || failed=1 ;;
    *.o | *.a | *.so | *.so.* | *.pyc)
        echo "$file: made by a build" >&2
        failed=1
        ;;
    esac
    # Golden files hold what a program printed, byte for byte.
    case $file in *.stdout | *.stderr | *.patch) continue ;; esac
    if [ "$size" -gt 0 ] && grep -Iq . "$file"; then
        if grep -nE "[[:blank:]]+$" "$file" | head -n 3 | cut -c 1-80 | sed "s|^|$file: white space at the end of line |" |
            grep . >&2; then
            failed=1
        fi
        if [ "$(tail -c 1 "$file" | wc -l)" -eq 0 ]; then
            echo "$file: no newline at the end" >&2
            failed=1
        fi
    fi
done <"$list"
exit $failed
