"""Writes tests/data/loglinear.h: a small pool and the log-linear pool's optimum found by SciPy.

The objective is written down again here, from its definition, and minimised by scipy.optimize with its own
derivatives; nothing of the library's Newton iteration is used.
"""
import pathlib

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax

from _c_header import array

ROWS, CLASSES, MEMBERS = 240, 4, 5
GRID = [1e-6, 1e-5, 1e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1]


def make_pool():
    rng = np.random.default_rng(11)
    labels = rng.integers(0, CLASSES, ROWS)
    truth = np.eye(CLASSES)[labels]
    pool = []
    for k in range(MEMBERS):
        scores = (0.5 + 0.25 * k) * truth + rng.normal(0, 1.2, (ROWS, CLASSES))
        pool.append(softmax(scores * (0.5 + 0.5 * k), axis=1).astype(np.float32))
    pool[4][rng.random(ROWS) < 0.1] = np.eye(CLASSES, dtype=np.float32)[0]  # hard zeros, often wrong
    return np.stack(pool), labels


def fit(logs, labels, bias, alpha, scale, alpha_bias, center):
    """Minimises NLL + alpha/2 |w - mean offset|^2 + scale K/2 (mean(w) - center)^2 + alpha_bias/2 |b|^2."""
    members = logs.shape[2]

    def unpack(theta):
        return theta[:members], theta[members:] if bias else np.zeros(CLASSES)

    def objective(theta):
        w, b = unpack(theta)
        z = logs @ w + b
        common = (w - center).mean()
        prior = alpha * ((w - center - common) ** 2).sum() + scale * members * common**2 + alpha_bias * (b**2).sum()
        return (logsumexp(z, axis=1) - z[np.arange(len(labels)), labels]).sum() + prior / 2

    def gradient(theta):
        w, b = unpack(theta)
        residual = softmax(logs @ w + b, axis=1)
        residual[np.arange(len(labels)), labels] -= 1
        common = (w - center).mean()
        gw = np.einsum("nc,nck->k", residual, logs) + alpha * (w - center - common) + scale * common
        return np.concatenate([gw, residual.sum(0) + alpha_bias * b]) if bias else gw

    def hessian(theta):
        step = 1e-5
        columns = [(gradient(theta + step * e) - gradient(theta - step * e)) / (2 * step) for e in np.eye(len(theta))]
        return (np.array(columns) + np.array(columns).T) / 2

    start = np.concatenate([np.full(members, center), np.zeros(CLASSES)]) if bias else np.full(members, center)
    best = minimize(objective, start, jac=gradient, hess=hessian, method="trust-exact", options={"gtol": 1e-9})
    w, b = unpack(best.x)
    z = logs @ w + b
    nll = (logsumexp(z, axis=1) - z[np.arange(len(labels)), labels]).sum()
    spread = logs.reshape(-1, members).std(0)
    if bias:
        spread = np.concatenate([spread, np.full(CLASSES, np.sqrt((1 - 1 / CLASSES) / CLASSES))])
    standard = hessian(best.x) / np.outer(spread, spread)
    return w, b, nll, np.linalg.slogdet(standard)[1]


def main():
    pool, labels = make_pool()
    wide = pool.astype(np.float64)
    losses = [[-np.log((1 - g) * p[np.arange(ROWS), labels] + g / CLASSES).mean() for g in GRID] for p in wide]
    mix = [GRID[int(np.argmin(row))] for row in losses]
    logs = np.stack([np.log((1 - m) * p + m / CLASSES) for m, p in zip(mix, wide)], axis=2)
    logs = logs.astype(np.float32).astype(np.float64)
    text = "/* Written by tests/oracles/loglinear.py with NumPy and SciPy. */\n"
    text += f"enum {{ LL_ROWS = {ROWS}, LL_CLASSES = {CLASSES}, LL_MEMBERS = {MEMBERS} }};\n"
    text += array("float", "ll_pool", pool, "%.9gF").replace(" 0F", " 0.0F").replace(" 1F", " 1.0F")
    text += array("int32_t", "ll_labels", labels, "%d")
    text += array("double", "ll_mix", mix)
    for name, bias in (("plain", False), ("biased", True)):
        w, b, nll, logdet = fit(logs, labels, bias, 7.0, 2.0, 5.0, 1 / MEMBERS)
        text += array("double", f"ll_{name}_weights", w) + array("double", f"ll_{name}_bias", b)
        text += f"static const double ll_{name}_nll = {nll:.17g};\n"
        text += f"static const double ll_{name}_logdet = {logdet:.17g};\n"
    out = pathlib.Path(__file__).resolve().parents[1] / "data" / "loglinear.h"
    out.write_text(text)


if __name__ == "__main__":
    main()
