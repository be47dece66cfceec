"""Writes tests/data/baselines.h: risks, mixtures and temperatures of a small pool from NumPy and SciPy.

Temperatures: scipy.optimize.minimize_scalar on log T, for members that are over- and underconfident, and for a
member with hard zeros, some of them at the true class.
"""
import pathlib

import numpy as np
from scipy.optimize import brentq, minimize_scalar
from scipy.special import logsumexp, softmax

from _c_header import array

ROWS, CLASSES, MEMBERS = 140, 4, 4


def loss(p, labels, log_t):
    scaled = np.log(np.maximum(p, 1e-15)) / np.exp(log_t)
    return np.mean(logsumexp(scaled, axis=1) - scaled[np.arange(len(labels)), labels])


def temperature(p, labels):
    found = minimize_scalar(lambda t: loss(p, labels, t), bounds=np.log([0.01, 100]), method="bounded",
                            options={"xatol": 1e-12})

    def slope(log_t):  # polish: the minimiser alone is good to the square root of rounding
        scaled = np.log(np.maximum(p, 1e-15))
        q = softmax(scaled / np.exp(log_t), axis=1)
        return np.mean((q * scaled).sum(1) - scaled[np.arange(len(labels)), labels])

    root = brentq(slope, found.x - 0.1, found.x + 0.1, xtol=1e-14)
    assert abs(root - found.x) < 1e-5
    return np.exp(root)


def main():
    rng = np.random.default_rng(3)
    truth = rng.normal(size=(ROWS, CLASSES)) * 1.5
    labels = np.array([rng.choice(CLASSES, p=p) for p in softmax(truth, axis=1)])
    logits = truth + rng.normal(size=(MEMBERS, ROWS, CLASSES)) * np.array([0.2, 0.7, 1.5, 0.5])[:, None, None]
    logits *= np.array([3, 0.4, 1, 1])[:, None, None]
    p32 = softmax(logits, axis=2).astype(np.float32)
    p32[3] = np.where(p32[3] < 0.08, 0, p32[3])
    p32[3] /= p32[3].sum(1, keepdims=True)
    p = p32.astype(np.float64)
    assert (p[3][np.arange(ROWS), labels] == 0).sum() > 2
    nll = -np.log(np.maximum(p[:, np.arange(ROWS), labels], 1e-15)).mean(1)
    top1 = (p.argmax(2) == labels).mean(1)
    assert nll.argmin() != top1.argmax()
    mean = p.mean(0)
    t = [temperature(q, labels) for q in [*p, mean]]
    text = ("/* Written by tests/oracles/baselines.py. */\n// clang-format off\n#include <stdint.h>\n"
            f"enum {{ POOL_ROWS = {ROWS}, POOL_CLASSES = {CLASSES}, POOL_MEMBERS = {MEMBERS} }};\n"
            + array("float", "pool_probabilities", p32, "%.9eF") + array("int32_t", "pool_labels", labels, "%d")
            + f"enum {{ POOL_LEAST_NLL = {nll.argmin()}, POOL_MOST_TOP1 = {top1.argmax()} }};\n"
            + "/* of each member, then of their average */\n" + array("double", "pool_temperatures", t, "%.17g")
            + array("double", "pool_scaled_nll", [loss(q, labels, np.log(s)) for q, s in zip([*p, mean], t)], "%.17g")
            + array("double", "pool_scaled_average", softmax(np.log(mean) / t[-1], axis=1), "%.9g"))
    (pathlib.Path(__file__).parent.parent / "data" / "baselines.h").write_text(text)


if __name__ == "__main__":
    main()
