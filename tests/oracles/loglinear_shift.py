"""Writes tests/data/loglinear_shift.h: optima of the log-linear pool with non-negative weights and with class weights.

A long-tailed pool, some members of which have a negative weight at the free optimum. The objective is written down from
its definition and minimised by scipy.optimize: L-BFGS-B under bounds, then the gradient's root in the free parameters; the
conditions of optimality are asserted before anything is written.
"""
import pathlib

import numpy as np
from scipy.optimize import minimize, root
from scipy.special import logsumexp, softmax

from _c_header import array

ROWS, CLASSES, MEMBERS = 300, 4, 6
ALPHA, SCALE, ALPHA_BIAS = 7.0, 2.0, 5.0
MIX = 1e-3


def make_pool():
    rng = np.random.default_rng(5)
    labels = rng.choice(CLASSES, ROWS, p=[0.6, 0.25, 0.1, 0.05])
    truth = np.eye(CLASSES)[labels]
    shared = rng.normal(0, 1.0, (ROWS, CLASSES))  # an error that several members make, which one of them shows best
    pool = []
    for k in range(MEMBERS):
        mixed = {0: 1.0, 1: 0.9, 2: 0.0, 3: 1.6, 4: 0.3, 5: 2.0}[k]
        strength = {0: 2.2, 1: 1.8, 2: 1.5, 3: 0.6, 4: 1.2, 5: 0.1}[k]
        scores = strength * truth + mixed * shared + rng.normal(0, 0.6, (ROWS, CLASSES))
        pool.append(softmax(scores, axis=1).astype(np.float32))
    return np.stack(pool), labels


def fit(logs, labels, class_weights, bounded, bias):
    members, center = logs.shape[2], 1 / logs.shape[2]
    rows = np.arange(len(labels))
    weight = class_weights[labels]

    def unpack(theta):
        return theta[:members], theta[members:] if bias else np.zeros(CLASSES)

    def objective(theta):
        w, b = unpack(theta)
        z = logs @ w + b
        common = (w - center).mean()
        prior = ALPHA * ((w - center - common) ** 2).sum() + SCALE * members * common**2 + ALPHA_BIAS * (b**2).sum()
        return (weight * (logsumexp(z, axis=1) - z[rows, labels])).sum() + prior / 2

    def gradient(theta):
        w, b = unpack(theta)
        residual = softmax(logs @ w + b, axis=1)
        residual[rows, labels] -= 1
        residual *= weight[:, None]
        common = (w - center).mean()
        gw = np.einsum("nc,nck->k", residual, logs) + ALPHA * (w - center - common) + SCALE * common
        return np.concatenate([gw, residual.sum(0) + ALPHA_BIAS * b]) if bias else gw

    size = members + (CLASSES if bias else 0)
    start = np.concatenate([np.full(members, center), np.zeros(size - members)])
    limits = [(0 if bounded and j < members else None, None) for j in range(size)]
    best = minimize(objective, start, jac=gradient, bounds=limits, method="L-BFGS-B",
                    options={"ftol": 1e-15, "gtol": 1e-10, "maxiter": 5000, "maxfun": 50000}).x
    free = np.array([not (bounded and j < members and best[j] < 1e-9) for j in range(size)])

    def embed(x):
        theta = np.zeros(size)
        theta[free] = x
        return theta

    x = root(lambda t: gradient(embed(t))[free], best[free], options={"xtol": 1e-14}).x
    theta = embed(x)
    slope = gradient(theta)
    assert np.abs(slope[free]).max() < 1e-8 and (slope[~free] > 1e-4).all() and (not bounded or (theta[:members] >= 0).all())
    w, b = unpack(theta)
    z = logs @ w + b
    return w, b, (weight * (logsumexp(z, axis=1) - z[rows, labels])).sum()


def main():
    pool, labels = make_pool()
    logs = np.stack([np.log((1 - MIX) * p + MIX / CLASSES) for p in pool.astype(np.float64)], axis=2)
    counts = np.bincount(labels, minlength=CLASSES)
    balance = (ROWS / (CLASSES * counts)) ** 0.7
    balance *= ROWS / (counts * balance).sum()
    text = "/* Written by tests/oracles/loglinear_shift.py with NumPy and SciPy. */\n"
    text += f"enum {{ SHIFT_ROWS = {ROWS}, SHIFT_CLASSES = {CLASSES}, SHIFT_MEMBERS = {MEMBERS} }};\n"
    text += array("float", "shift_pool", pool, "%.9gF") + array("int32_t", "shift_labels", labels, "%d")
    text += array("double", "shift_balance", balance)
    signs = []
    for bounded in (False, True):
        for weighted in (False, True):
            for bias in (False, True):
                w, b, nll = fit(logs, labels, balance if weighted else np.ones(CLASSES), bounded, bias)
                name = f"shift_{int(bounded)}{int(weighted)}{int(bias)}"
                text += array("double", f"{name}_weights", w) + array("double", f"{name}_bias", b)
                text += f"static const double {name}_nll = {nll:.17g};\n"
                signs.append((w < 0).any() if not bounded else (w == 0).any())
    assert all(signs), "every case must have weights that a bound stops"
    out = pathlib.Path(__file__).resolve().parents[1] / "data" / "loglinear_shift.h"
    out.write_text(text)


if __name__ == "__main__":
    main()
