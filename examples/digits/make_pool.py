#!/usr/bin/env python3
"""Makes the pool in this folder: out-of-fold and test probabilities of 16 scikit-learn models on noisy digits.

Stands before corestack: its output is what `corestack fit examples/digits` reads. Paper: the matrix P_oof of
section "Preliminaries and Pipeline Overview". Run it as `/usr/bin/python3 examples/digits/make_pool.py`.
"""
import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "experiments" / "pools"))
import common  # noqa: E402

NOISE = 4.0  # standard deviation of the Gaussian noise added to every pixel; pixels lie in 0..16
TEST_ROWS = 600


def noisy_digits(seed, noise):
    """Images [1797, 64] with seeded noise (not clipped), labels [1797], and the row number in scikit-learn's set."""
    digits = load_digits()
    x = digits.data + np.random.default_rng(seed).normal(0.0, noise, digits.data.shape)
    return x, digits.target, np.arange(len(x))


def make(seed, noise, threads, without=()):
    """The pool of `classical_members` on noisy digits, five true folds and 600 test rows."""
    x, y, ids = noisy_digits(seed, noise)
    members = common.classical_members(x.shape[1], seed, without)
    return common.true_oof_pool(x, y, ids, [str(c) for c in range(10)], members, TEST_ROWS, seed, threads)


def main():
    parser = common.arguments(__doc__.splitlines()[0])
    parser.set_defaults(out=Path(__file__).resolve().parent)
    options = parser.parse_args()
    pool = make(options.seed, NOISE, options.threads, without=("adaboost",))
    common.write_pool(options.out, pool)
    common.report(pool)


if __name__ == "__main__":
    main()
