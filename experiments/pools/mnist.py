#!/usr/bin/env python3
"""Makes a true out-of-fold pool on noisy MNIST: 14x14 images, five folds, two small networks and classical models.

Stands before corestack. Paper: the matrix P_oof of section "Preliminaries and Pipeline Overview".
"""
import numpy as np
import torch

import common
from images import image_members, load_mnist, shrink
from networks import network_members

OOF_ROWS, TEST_ROWS = 6000, 5000
NOISE = 0.35  # standard deviation added to pixels in 0..1 after shrinking, so that the members disagree


def main():
    parser = common.arguments(__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=6, help="epochs of the networks")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    images, labels = load_mnist()
    x = shrink(images.astype(np.float32) / 255)
    x += np.random.default_rng(options.seed).normal(0.0, NOISE, x.shape).astype(np.float32)
    members = image_members(x.shape[1], options.seed)
    members += network_members(options.seed, options.epochs, ("cnn_a", "cnn_b", "mixer"))
    pool = common.true_oof_pool(x, labels, np.arange(len(x)), [str(c) for c in range(10)], members, TEST_ROWS,
                                options.seed, options.threads, OOF_ROWS)
    common.finish(options.out or common.default_folder("mnist"), pool)


if __name__ == "__main__":
    main()
