#!/usr/bin/env python3
"""Makes the pool in this folder: out-of-fold and test probabilities of 16 scikit-learn models on noisy digits.

Stands before corestack: its output is what `corestack fit examples/digits` reads. Paper: the matrix P_oof of
section "Preliminaries and Pipeline Overview". Run it as `/usr/bin/python3 examples/digits/make_pool.py`.
"""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "experiments" / "pools"))
import common  # noqa: E402

NOISE = 4.0  # standard deviation of the Gaussian noise added to every pixel; pixels lie in 0..16
TEST_ROWS = 600


def main():
    parser = common.arguments(__doc__.splitlines()[0])
    parser.set_defaults(out=Path(__file__).resolve().parent)
    options = parser.parse_args()
    x, y, ids = common.noisy_digits(options.seed, NOISE)
    members = common.classical_members(x.shape[1], options.seed, without=("adaboost",))
    common.finish(options.out, common.true_oof_pool(x, y, ids, [str(c) for c in range(10)], members, TEST_ROWS,
                                                    options.seed, options.threads))


if __name__ == "__main__":
    main()
