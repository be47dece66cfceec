#!/usr/bin/env python3
"""Makes `mnist_c`: classical members on MNIST with out-of-fold predictions, and 75 corrupted conditions of 500 test images.

Stands before corestack. Paper: the evaluation under distribution shift of the experiments.
"""
import numpy as np

import common
import vision_corruptions
from images import image_members, load_mnist

OOF_ROWS, TEST_ROWS, CORRUPTED_ROWS, PART = 4000, 3000, 500, 2500


def main():
    options = common.arguments(__doc__.splitlines()[0]).parse_args()
    images, labels = load_mnist()
    x = images.astype(np.float32) / 255
    ids = np.arange(len(x))
    rows, test = common.split_rows(labels, TEST_ROWS, options.seed, OOF_ROWS)
    worn = np.sort(np.random.default_rng([options.seed, 1]).choice(test, CORRUPTED_ROWS, replace=False))
    pages = vision_corruptions.corrupted(x[worn].reshape(-1, 28, 28), options.seed).reshape(-1, 784)
    folds = common.stratified_folds(labels[rows], options.seed)
    pool = common.Pool([str(c) for c in range(10)], {
        "oof": common.Split(labels[rows], ids[rows], folds), "test": common.Split(labels[test], ids[test]),
        "corrupted": common.Split(labels[worn], ids[worn], conditions=vision_corruptions.CONDITIONS)})

    def train(member):
        done = common.train_out_of_fold(member, x[rows], labels[rows], folds, x[test])
        model = member.make().fit(x[rows], labels[rows])
        parts = [common.probabilities(model, pages[at:at + PART]) for at in range(0, len(pages), PART)]
        done.predictions["corrupted"] = np.concatenate(parts).reshape(-1, CORRUPTED_ROWS, 10)
        return done

    members = image_members(784, options.seed, without=("forest_b", "linear_svm", "mlp_b"))
    common.train_members(pool, members, train, options.threads)
    common.finish(options.out or common.default_folder("mnist_c"), pool)


if __name__ == "__main__":
    main()
