#!/usr/bin/env python3
"""Makes true out-of-fold pools from the small real data sets that scikit-learn ships: few rows, two to ten classes.

Stands before corestack. Paper: the matrix P_oof of section "Preliminaries and Pipeline Overview".
"""
import numpy as np
from sklearn.datasets import load_breast_cancer, load_iris, load_wine

import common


def bunch(load):
    """(features, labels, row numbers, class names) of one of scikit-learn's loaders."""
    data = load()
    return data.data, data.target, np.arange(len(data.target)), [str(name) for name in data.target_names]


def digits(noise):
    return lambda seed: (*common.noisy_digits(seed, noise), [str(c) for c in range(10)])


# name: (loader given the seed, number of test rows, members left out)
DATA = {
    "iris": (lambda seed: bunch(load_iris), 50, ()),
    "wine": (lambda seed: bunch(load_wine), 38, ()),
    "breast_cancer": (lambda seed: bunch(load_breast_cancer), 114, ()),
    "digits_clean": (digits(0.0), 600, ("gaussian_process",)),
    "digits_hard": (digits(6.0), 600, ("gaussian_process",)),
}


def main():
    parser = common.arguments(__doc__.splitlines()[0])
    parser.add_argument("data", choices=DATA)
    options = parser.parse_args()
    load, test_rows, without = DATA[options.data]
    x, y, ids, classes = load(options.seed)
    members = common.classical_members(x.shape[1], options.seed, without)
    pool = common.true_oof_pool(x, y, ids, classes, members, test_rows, options.seed, options.threads)
    common.finish(options.out or common.default_folder(options.data), pool)


if __name__ == "__main__":
    main()
