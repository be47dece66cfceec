#!/bin/sh
# Runs the tests of the command line: run.sh TOOL SOURCES [quick|slow MODULE...] or [unittest arguments]
set -eu
CORESTACK_TOOL=$1
CORESTACK_SOURCES=$2
shift 2
export CORESTACK_TOOL CORESTACK_SOURCES
cd "$CORESTACK_SOURCES/tests/cli"
PYTHONDONTWRITEBYTECODE=1
export PYTHONDONTWRITEBYTECODE
case ${1:-} in quick | slow) exec /usr/bin/python3 tiers.py "$@" ;; esac
if [ $# -gt 0 ]; then
    exec /usr/bin/python3 -m unittest "$@"
fi
exec /usr/bin/python3 -m unittest discover -p 'test_*.py'
