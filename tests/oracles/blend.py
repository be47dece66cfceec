"""Writes tests/data/blend.h: weights by each blend rule from NumPy and SciPy.

Minimum variance over w >= 0 is found by trying every support; stacking by expectation-maximisation run to the end.
"""
import itertools
import pathlib

import numpy as np
from scipy.special import logsumexp, softmax

from _c_header import array

ROWS, CLASSES, LEARNERS = 150, 3, 5


def closed_form(s):
    w = np.linalg.solve(s, np.ones(len(s)))
    return w / w.sum()


def non_negative(s):
    best, value = None, np.inf
    for size in range(1, len(s) + 1):
        for support in itertools.combinations(range(len(s)), size):
            w = np.zeros(len(s))
            w[list(support)] = closed_form(s[np.ix_(support, support)])
            if w.min() >= 0 and w @ s @ w < value:
                best, value = w, w @ s @ w
    return best


def expectation_maximisation(likelihood):
    w = np.full(likelihood.shape[1], 1 / likelihood.shape[1])
    for _ in range(300000):
        w = w * (likelihood / (likelihood @ w)[:, None]).mean(0)
        w[w < 1e-300] = 0
    ratio = (likelihood / (likelihood @ w)[:, None]).mean(0)
    assert ratio.max() < 1 + 1e-10
    return w


def main():
    rng = np.random.default_rng(21)
    truth = rng.normal(size=(ROWS, CLASSES)) * 1.5
    labels = np.array([rng.choice(CLASSES, p=p) for p in softmax(truth, axis=1)])
    noise = np.array([0.4, 0.5, 1.0, 2.5, 0.0])[:, None, None]
    logits = truth + rng.normal(size=(LEARNERS, ROWS, CLASSES)) * noise
    logits[4] = 2.5 * logits[0] + rng.normal(size=(ROWS, CLASSES)) * 0.3  # the first, overconfident
    p32 = softmax(logits, axis=2).astype(np.float32)
    p = p32.astype(np.float64)
    likelihood = p[:, np.arange(ROWS), labels].T
    nll = -np.log(likelihood).sum(0)
    logdet = rng.normal(size=LEARNERS) * 5 + 20
    residual = (np.eye(CLASSES)[labels] - p).reshape(LEARNERS, -1)
    s = residual @ residual.T / residual.shape[1]
    assert closed_form(s).min() < -0.01 and (non_negative(s) == 0).any()
    rmse = np.sqrt((residual ** 2).mean(1))

    def laplace(scale):
        e = -(nll + 0.5 * logdet) / scale
        return np.exp(e - logsumexp(e))

    stacked = expectation_maximisation(likelihood)
    text = ("/* Written by tests/oracles/blend.py. */\n// clang-format off\n#include <stdint.h>\n"
            f"enum {{ BLEND_ROWS = {ROWS}, BLEND_CLASSES = {CLASSES}, BLEND_LEARNERS = {LEARNERS} }};\n"
            + array("float", "blend_probabilities", p32, "%.9eF") + array("int32_t", "blend_labels", labels, "%d")
            + array("double", "blend_nll", nll, "%.17g") + array("double", "blend_logdet", logdet, "%.17g")
            + array("double", "blend_laplace", laplace(1), "%.17g")
            + array("double", "blend_laplace_warm", laplace(7.5), "%.17g")
            + array("double", "blend_laplace_mean", laplace(ROWS), "%.17g")
            + array("double", "blend_inverse_rmse", (1 / rmse) / (1 / rmse).sum(), "%.17g")
            + array("double", "blend_moments", s, "%.17g")
            + array("double", "blend_closed_form", closed_form(s), "%.17g")
            + array("double", "blend_non_negative", non_negative(s), "%.17g")
            + array("double", "blend_stacking", stacked, "%.17g")
            + f"static const double blend_stacking_nll = {-np.log(likelihood @ stacked).mean():.17g};\n")
    (pathlib.Path(__file__).parent.parent / "data" / "blend.h").write_text(text)


if __name__ == "__main__":
    main()
