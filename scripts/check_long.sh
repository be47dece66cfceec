#!/bin/sh
# The long checks: hours where FUZZ_SECONDS is raised, else some 40 minutes on two cores. Arguments: parts by name, as scripts/test.sh lists
# them; none for all.
set -eu
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- --long
exec scripts/test.sh "$@"
