#!/bin/sh
# The page of `corestack report`: builds report/ into src/report/page_template.h and tests it. Needs Node and npm, and the network
# where report/node_modules is not there yet; without them it says so and passes.
#   (none)      types, the same bytes from the sources, answers over the documents of tests/golden
#   --browser   also pages in Chromium, made by CORESTACK_TOOL (build-gcc/corestack)
#   --pictures  the same, and makes the pictures of report/test/shots anew
#   --sizes     prints sizes and times of large pages, as in docs/report.md
#   --picture   writes docs/report.png, the picture of README
#   --write     writes src/report/page_template.h
set -eu
cd "$(dirname "$0")/../report"
node --version >/dev/null 2>&1 && npm --version >/dev/null 2>&1 || {
    echo "report: skipped, since Node or npm is not installed"
    exit 0
}
[ -d node_modules ] || npm ci --no-audit --no-fund >/dev/null 2>&1 || {
    rm -rf node_modules
    echo "report: skipped, since npm cannot fetch what report/package-lock.json names"
    exit 0
}
if [ "${1:-}" = --write ]; then
    exec node build.mjs
elif [ "${1:-}" = --sizes ]; then
    exec node test/sizes.mjs "${CORESTACK_TOOL:-../build-gcc/corestack}"
elif [ "${1:-}" = --picture ]; then
    tool=${CORESTACK_TOOL:-../build-gcc/corestack}
    "$tool" fit ../examples/digits -o build/digits.cstack --set evaluate.nested=false >/dev/null
    "$tool" report build/digits.cstack ../examples/digits -o build/digits.html >/dev/null
    exec node test/shots.mjs ../docs/report.png "$PWD/build/digits.html"
fi
npx tsc -p .
node build.mjs build/page_template.h >/dev/null
cmp build/page_template.h ../src/report/page_template.h || {
    echo "src/report/page_template.h is not what report/ builds: run scripts/report.sh --write" >&2
    exit 1
}
cd ../tests/golden
pages=
for pool in digits-small regression segmentation detection; do
    pages="$pages fit.$pool.json compare.$pool.json evaluate.$pool.json evaluate.$pool.json+inspect.$pool.json inspect.$pool.json"
done
for page in sweep.*.json; do
    pages="$pages $page"
done
# shellcheck disable=SC2086 # words
node ../../report/test/answers.mjs $pages evaluate.digits-small.json+show.digits-small.json+bound.digits-small.json
case ${1:-} in --browser | --pictures)
    cd ../../report
    [ "$1" = --browser ] || write=--write
    node test/browser.mjs "${CORESTACK_TOOL:-../build-gcc/corestack}" ${write:-}
    ;;
esac
