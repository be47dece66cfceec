#!/bin/sh
# The manual pages give no warnings and every section a page needs; completions parse in the shells that are installed.
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
for completion in bash:corestack.bash zsh:_corestack fish:corestack.fish; do
    if command -v "${completion%:*}" >/dev/null && ! "${completion%:*}" -n "completions/${completion#*:}"; then
        failed=1
    fi
done
exit $failed
