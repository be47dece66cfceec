#!/bin/sh
# Shows whether a change of the sources changed a result: fits, predictions and reports of eight pools, as hashes.
#
#   scripts/same.sh --store [TOOL]    writes build/same.txt with what TOOL (build/corestack) gives
#   scripts/same.sh [TOOL]            compares with build/same.txt; exit status 1 where anything differs
#
# The hashes are of one kind of machine: linear algebra rounds differently on other processors. Store before a change and
# compare after it, on the same machine. The comparison ends with the golden files, which hold what every command prints.
set -eu
cd "$(dirname "$0")/.."
store=no
if [ "${1:-}" = --store ]; then
    store=yes
    shift
fi
tool=$(readlink -f "${1:-build/corestack}")
stored=build/same.txt
work=$(mktemp -d)
trap '[ $? = 0 ] || cat "$work/errors" >&2 2>/dev/null; rm -rf "$work"' EXIT

# Three pools that no example covers: missing predictions, many members, many classes.
/usr/bin/python3 - "$work" <<'PYTHON'
import json, os, sys
import numpy as np

def write(name, members, classes, rows, missing=0.0):
    rng = np.random.default_rng(7)
    folder = os.path.join(sys.argv[1], name)
    os.mkdir(folder)
    truth = {split: rng.integers(classes, size=rows) for split in ("oof", "test")}
    manifest = {"corestack_pool": 1, "task": "classification", "classes": [f"c{i}" for i in range(classes)],
                "splits": {split: {"labels": f"{split}.npy"} for split in truth}, "models": []}
    for split, labels in truth.items():
        np.save(os.path.join(folder, split + ".npy"), labels)
    for k in range(members):
        files = {}
        for split, labels in truth.items():
            logits = rng.normal(size=(rows, classes))
            logits[np.arange(rows), labels] += 2.0 + 0.02 * (k % 50)
            p = np.exp(logits - logits.max(1, keepdims=True))
            p = (p / p.sum(1, keepdims=True)).astype(np.float32)
            p[rng.random(rows) < missing] = np.nan
            files[split] = f"m{k}.{split}.npy"
            np.save(os.path.join(folder, files[split]), p)
        manifest["models"].append({"name": f"m{k}", "predictions": files})
    with open(os.path.join(folder, "pool.json"), "w") as file:
        json.dump(manifest, file)

write("missing", 6, 4, 900, missing=0.1)
write("members", 300, 5, 600)
write("classes", 8, 1000, 1500)
PYTHON

fit() { # name, pool, arguments of all commands...
    name=$1
    pool=$2
    shift 2
    quick=
    case $name in
    segmentation) quick="--set segment.pixels=2000" ;;
    members | classes) quick="--set evaluate.nested=false" ;;
    esac
    case $name in
    segmentation) output="--format labels -o $work/out" ;;
    detection) output="-o $work/out.json" ;;
    *) output="-o $work/out.npy" ;;
    esac
    for preset in prototype paper default compact best; do
        # shellcheck disable=SC2086 # lists of arguments
        if "$tool" fit "$pool" -p $preset $quick -o "$work/model" "$@" >"$work/fit.txt" 2>"$work/errors"; then
            hash "$name $preset model" "$work/model"
            rm -rf "$work"/out*
            "$tool" predict "$work/model" "$pool" --split test $output "$@" >"$work/predict.txt" 2>>"$work/errors"
            hash "$name $preset predictions" "$work"/out*
            "$tool" evaluate "$work/model" "$pool" --split test --resamples 20 "$@" >"$work/evaluate.txt" 2>>"$work/errors"
            hash "$name $preset scores" "$work/evaluate.txt"
        else
            hash "$name $preset refusal" "$work/errors"
        fi
    done
}
# A folder counts as the names and contents of its files. Places and times are left out of texts.
hash() { # what, file or folder
    if [ -d "$2" ]; then
        sum=$(cd "$2" && find . -type f -print | sort | xargs sha256sum | sha256sum)
    elif [ "${2%.txt}" != "$2" ] || [ "$2" = "$work/errors" ]; then
        sum=$(sed -E "s|$work|WORK|g; s/[0-9.]+ (ms|s|seconds)\b/T/g" "$2" | sha256sum)
    else
        sum=$(sha256sum <"$2")
    fi
    printf '%s %s\n' "${sum%% *}" "$1" >>"$work/list"
}
for pool in digits concrete regression segmentation detection; do
    fit $pool examples/$pool
done
fit missing "$work/missing" --missing allow
fit members "$work/members"
fit classes "$work/classes"

if [ $store = yes ]; then
    mkdir -p build
    mv "$work/list" $stored
    echo "$(wc -l <$stored) results of $tool are in $stored"
elif [ ! -f $stored ]; then
    echo "same.sh: there is no $stored; run 'scripts/same.sh --store' before the change" >&2
    exit 2
elif diff $stored "$work/list" >"$work/diff"; then
    echo "All $(wc -l <$stored) results are the same."
    CORESTACK_TOOL=$tool tests/cli/golden.py
else
    echo "These results differ ('<': stored, '>': now):" >&2
    cut -c 1-12,67- "$work/diff" >&2
    exit 1
fi
