#!/usr/bin/env python3
"""Makes a frozen pool on Fashion-MNIST: seven small networks and eleven classical models, trained apart from `oof`.

Stands before corestack. Paper: the frozen-checkpoint case (ImageNet) of the experiments, at the size of a laptop.
"""
import numpy as np
import torch

import common
from images import FASHION_CLASSES, image_members, load_fashion
from networks import network_members

ROWS = (15000, 5000, 5000)  # train, oof, test


def main():
    parser = common.arguments(__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=6, help="epochs of the networks")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    images, labels = load_fashion()
    x = images.astype(np.float32) / 255
    members = network_members(options.seed, options.epochs)
    members += image_members(x.shape[1], options.seed, without=("mlp_a", "mlp_b", "forest_b", "knn_25"))
    pool = common.frozen_pool(x, labels, np.arange(len(x)), FASHION_CLASSES, members, ROWS, options.seed, options.threads)
    common.finish(options.out or common.default_folder("fashion"), pool)


if __name__ == "__main__":
    main()
