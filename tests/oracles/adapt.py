"""Writes tests/data/adapt.h: adaptations of a stack to a few labelled rows, by SciPy.

Every candidate's maximum is found by scipy.optimize (BFGS from the centre, then Newton steps on numerical derivatives of
an exact gradient); folds, shares, evidence and the step follow docs/json.md#adapt.
"""
import pathlib

import numpy as np
from scipy.optimize import minimize, root
from scipy.special import logsumexp, softmax

from _c_header import array

ROWS, CLASSES, MEMBERS = 40, 3, 4
PRECISIONS = [3, 10, 30, 100, 300, 1000, 3000, 10000]


def scores(theta, x):
    return x @ theta[:MEMBERS + 1] + theta[MEMBERS + 1:]


def nll(theta, x, y):
    z = scores(theta, x)
    return logsumexp(z, axis=1) - z[np.arange(len(y)), y]


def gradient(theta, x, y):
    d = softmax(scores(theta, x), axis=1)
    d[np.arange(len(y)), y] -= 1
    return np.concatenate([np.einsum("nc,ncd->d", d, x), d.sum(0)])


def curvature(theta, x):
    p = softmax(scores(theta, x), axis=1)
    full = np.concatenate([x, np.broadcast_to(np.eye(CLASSES), (len(x), CLASSES, CLASSES))], 2)
    mean = np.einsum("nc,ncd->nd", p, full)
    return np.einsum("nc,ncd,nce->de", p, full, full) - mean.T @ mean


def best(x, y, center, precision):
    tau = np.r_[np.full(MEMBERS + 1, precision), np.full(CLASSES, 0.1 * precision)].astype(float)

    def value(t):
        return nll(t, x, y).sum() + 0.5 * (tau * (t - center) ** 2).sum()

    def slope(t):
        return gradient(t, x, y) + tau * (t - center)

    found = minimize(value, center, jac=slope, method="BFGS").x
    found = root(slope, found, jac=lambda t: curvature(t, x) + np.diag(tau), tol=1e-13).x
    assert np.abs(slope(found)).max() < 1e-8
    sign, logdet = np.linalg.slogdet(curvature(found, x) + np.diag(tau))
    assert sign > 0
    return found, -value(found) + 0.5 * (np.log(tau).sum() - logdet)


def balanced(x, y, more, shares, precision):
    """The optimum around the stack with rows without labels."""
    tau = np.r_[np.full(MEMBERS + 1, precision), np.full(CLASSES, 0.1 * precision)].astype(float)
    center = np.zeros(MEMBERS + 1 + CLASSES)
    center[0] = 1

    def value(t):
        mean = softmax(scores(t, more), axis=1).mean(0)
        prior = 0.5 * (tau * (t - center) ** 2).sum()
        return nll(t, x, y).sum() + prior + len(y) * (shares * np.log(shares / mean)).sum()

    def slope(t):
        q = softmax(scores(t, more), axis=1)
        pull = -shares / q.mean(0) / len(more) * len(y)
        d = q * (pull - (q * pull).sum(1, keepdims=True))
        return gradient(t, x, y) + tau * (t - center) + np.concatenate([np.einsum("nc,ncd->d", d, more), d.sum(0)])

    found = minimize(value, center, jac=slope, method="BFGS", options={"gtol": 1e-9}).x
    found = root(slope, found, tol=1e-13).x
    assert np.abs(slope(found)).max() < 1e-7
    return found


def adapt(x, y):
    rows = len(y)
    stack = np.zeros(MEMBERS + 1 + CLASSES)
    stack[0] = 1
    halfway = 0.5 * stack
    halfway[1:MEMBERS + 1] = 0.5 / MEMBERS
    count = rows if rows <= 20 else 5
    folds = np.empty(rows, int)
    folds[np.lexsort((np.arange(rows), y))] = np.arange(rows) % count
    base = nll(stack, x, y).sum()
    candidates = [(c, p) for c in (stack, halfway) for p in PRECISIONS]
    fits, losses, evidences = [], [], []
    for center, precision in candidates:
        found, log_evidence = best(x, y, center, precision)
        fits.append(found)
        evidences.append(log_evidence + base)
        held = 0.0
        for f in range(count):
            inside = folds != f
            held += nll(best(x[inside], y[inside], center, precision)[0], x[~inside], y[~inside]).sum()
        losses.append(held / rows)
    losses, evidences = np.array(losses), np.array(evidences)
    shares = softmax(-rows * losses)
    log_ratio = logsumexp(evidences) - np.log(len(candidates))
    step = 0.1 * np.exp(log_ratio) / (0.1 * np.exp(log_ratio) + 0.9)
    theta = stack + step * (shares @ np.array(fits) - stack)
    fitted = nll(theta, x, y).mean()
    adapted = shares @ losses < base / rows and log_ratio > 0 and fitted < base / rows
    return dict(losses=losses, evidences=evidences, shares=shares, ratio=log_ratio, step=step if adapted else 0,
                theta=theta if adapted else stack, stack=base / rows, adapted=int(adapted))


def main():
    rng = np.random.default_rng(8)
    labels = rng.integers(0, CLASSES, ROWS)
    truth = np.eye(CLASSES)[labels] * 1.5 + rng.normal(size=(ROWS, CLASSES))
    noise = [2.5, 0.5, 1.0, 3.0, 2.0]  # the stack, which leans on the wrong members, then the members
    size = [3, 0.7, 1.5, 2, 1]
    x = np.stack([np.log(softmax(s * (truth + n * rng.normal(size=truth.shape)), axis=1) * 0.999 + 0.001 / CLASSES)
                  for n, s in zip(noise, size)], axis=2).astype(np.float32)
    assert x.shape == (ROWS, CLASSES, MEMBERS + 1)
    # Labels that the stack itself gives: nothing is to be learnt.
    right = np.array([rng.choice(CLASSES, p=softmax(row)) for row in x[:, :, 0].astype(np.float64)])
    cases = [(ROWS, labels), (14, labels), (ROWS, right)]
    results = [adapt(x[:n].astype(np.float64), y[:n]) for n, y in cases]
    assert [r["adapted"] for r in results] == [1, 1, 0]
    known = np.array([0.5, 0.2, 0.3])
    with_more = [balanced(x[:14].astype(np.float64), labels[:14], x.astype(np.float64), known, t) for t in (3, 100)]
    text = ("/* Written by tests/oracles/adapt.py. */\n// clang-format off\n#include <stdint.h>\n"
            f"enum {{ ADAPT_ROWS = {ROWS}, ADAPT_CLASSES = {CLASSES}, ADAPT_MEMBERS = {MEMBERS}, "
            f"ADAPT_CASES = {len(cases)} }};\n"
            + array("float", "adapt_x", x, "%.9eF")
            + array("int32_t", "adapt_rows", [n for n, _ in cases], "%d")
            + array("int32_t", "adapt_labels", np.stack([y for _, y in cases]), "%d")
            + array("int32_t", "adapt_changed", [r["adapted"] for r in results], "%d"))
    text += array("double", "adapt_known", known) + array("double", "adapt_balanced", np.stack(with_more), "%.17g")
    for name in ("losses", "evidences", "shares", "theta"):
        text += array("double", f"adapt_{name}", np.stack([r[name] for r in results]), "%.17g")
    for name in ("ratio", "step", "stack"):
        text += array("double", f"adapt_{name}", [r[name] for r in results], "%.17g")
    (pathlib.Path(__file__).parent.parent / "data" / "adapt.h").write_text(text)


main()
