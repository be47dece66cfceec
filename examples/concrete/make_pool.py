#!/usr/bin/env python3
"""Makes the pool in this folder: out-of-fold and test predictions of 18 scikit-learn regressors on the concrete data.

Stands before corestack: its output is what `corestack fit examples/concrete` reads. Paper: the regression task of
section "Preliminaries and Pipeline Overview". Run it as `/usr/bin/python3 examples/concrete/make_pool.py`.
"""
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "experiments" / "pools"))
import common  # noqa: E402
import regression  # noqa: E402


def main():
    parser = common.arguments(__doc__.splitlines()[0])
    parser.set_defaults(out=HERE)
    options = parser.parse_args()
    regression.make_example("concrete", options.out, options.seed, options.threads)


if __name__ == "__main__":
    main()
