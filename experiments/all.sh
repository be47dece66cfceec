#!/bin/sh
# Runs every experiment on the pools that are there and writes experiments/results.md, experiments/claims.md and
# docs/results.md.
#   experiments/all.sh [--pools DIR]... [--resamples N]
#   experiments/all.sh --pool PATH       # a pool of your own, in every experiment that it can take part in
#   experiments/all.sh --write-only      # measures nothing: writes the pages again from the stored figures
# If an experiment fails, the others still run and the exit code is 1.
set -u
cd "$(dirname "$0")/.."
failed=0
for name in clean weight-space regression shift corruptions dense long-tail domain-shift ablation threshold pool-size ood kappa lambda ece kernel gate risk complexity bounds seeds default regret; do
    "experiments/$name/run.py" "$@" || failed=1
done
experiments/complexity/table.py "$@" || failed=1
experiments/claims/run.py || failed=1
experiments/page/run.py || failed=1
exit $failed
