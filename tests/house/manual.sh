#!/bin/sh
# The manual pages give no warnings and every section a page needs; the completion for bash parses.
set -eu
cd "$(dirname "$0")/../.."
failed=0
for page in docs/man/*.1; do
    [ -f "$page" ] || continue
    # Through groff: `man` itself is left out of container images.
    warnings=$(groff -man -ww -z -Tutf8 "$page" 2>&1)
    if [ -n "$warnings" ]; then
        printf '%s\n' "$warnings" >&2
        failed=1
    fi
    for section in NAME SYNOPSIS DESCRIPTION; do
        if ! grep -q "^\.SH $section" "$page"; then
            echo "$page: no section $section" >&2
            failed=1
        fi
    done
done
if [ -f completions/corestack.bash ] && ! bash -n completions/corestack.bash; then
    failed=1
fi
exit $failed
