#!/bin/sh
# The long checks: two to three hours on two cores, half an hour of it fuzzing (FUZZ_SECONDS). Arguments: parts by name, as
# scripts/test.sh lists them; none for all.
set -eu
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- --long
exec scripts/test.sh "$@"
