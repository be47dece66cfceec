"""Writes tests/data/calibration.h: vector, isotonic and Platt calibration from SciPy and scikit-learn.

Vector: the penalised NLL minimised by scipy.optimize.minimize (trust-exact). Isotonic:
sklearn.isotonic.IsotonicRegression. Platt: scipy.optimize.minimize on the loss of Lin, Lin and Weng (2007), which has to
agree with sklearn.calibration._sigmoid_calibration to what its stopping rule gives. Each map is fitted on labelled rows
and applied to rows it has not seen.
"""
import pathlib

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, logit, logsumexp, softmax
from sklearn.calibration import _sigmoid_calibration
from sklearn.isotonic import IsotonicRegression

from _c_header import array

FRESH = 24
KEPT = 2.0**-25


def logs(p):
    return np.log(np.maximum(p, 1e-15))


def vector(p, labels):
    x, (n, c) = logs(p), p.shape
    y = np.eye(c)[labels]

    def loss(t):
        z = x * t[:c] + t[c:]
        return (logsumexp(z, axis=1) - z[np.arange(n), labels]).sum() + ((t[:c] - 1) ** 2).sum() / 2 + (t[c:] ** 2).sum() / 2

    def gradient(t):
        r = softmax(x * t[:c] + t[c:], axis=1) - y
        return np.concatenate([(r * x).sum(0) + t[:c] - 1, r.sum(0) + t[c:]])

    def hessian(t):
        q = softmax(x * t[:c] + t[c:], axis=1)
        h = np.eye(2 * c)
        for i in range(n):
            j = np.concatenate([np.diag(x[i]), np.eye(c)], axis=1)
            h += j.T @ (np.diag(q[i]) - np.outer(q[i], q[i])) @ j
        return h

    found = minimize(loss, np.repeat([1.0, 0.0], c), jac=gradient, hess=hessian, method="trust-exact",
                     options={"gtol": 1e-10})
    t = found.x - np.linalg.solve(hessian(found.x), gradient(found.x))
    assert np.abs(gradient(t)).max() < 1e-9
    return t[:c], t[c:], loss(t)


def isotonic(p, labels, fresh):
    out = np.empty_like(fresh)
    for c in range(p.shape[1]):
        out[:, c] = IsotonicRegression(out_of_bounds="clip").fit(p[:, c], labels == c).predict(fresh[:, c])
    out = np.maximum(out, 1e-6)
    return out / out.sum(1, keepdims=True)


def odds(p):
    return logit(np.clip(p, KEPT, 1 - KEPT))


def platt(p, labels, fresh):
    slopes, intercepts = [], []
    for c in range(p.shape[1]):
        f, y = odds(p[:, c]), labels == c
        target = np.where(y, (y.sum() + 1) / (y.sum() + 2), 1 / ((~y).sum() + 2))
        if np.ptp(f) == 0:
            slopes.append(0)
            intercepts.append(logit(target.mean()))
            continue
        x = np.stack([f, np.ones_like(f)], axis=1)
        loss = lambda t: (np.logaddexp(0, x @ t) - target * (x @ t)).sum()
        gradient = lambda t: x.T @ (expit(x @ t) - target)
        hessian = lambda t: (x * (expit(x @ t) * expit(-(x @ t)))[:, None]).T @ x
        t = minimize(loss, np.zeros(2), jac=gradient, hess=hessian, method="trust-exact", options={"gtol": 1e-8}).x
        for _ in range(5):
            t = t - np.linalg.solve(hessian(t), gradient(t))
        assert np.abs(gradient(t)).max() < 1e-10
        a, b = _sigmoid_calibration(f, y)
        assert np.allclose(expit(x @ t), expit(-(a * f + b)), atol=1e-4), (c, t, a, b)
        slopes.append(t[0])
        intercepts.append(t[1])
    out = expit(odds(fresh) * slopes + intercepts)
    return np.array(slopes), np.array(intercepts), out / out.sum(1, keepdims=True)


def write(index, p, labels, fresh):
    p, fresh = p.astype(np.float32), fresh.astype(np.float32)
    wide, new = p.astype(np.float64), fresh.astype(np.float64)
    assert min(np.diff(np.unique(column)).min(initial=1) for column in wide.T) > 1e-14  # ties are exact ones
    slopes, intercepts, loss = vector(wide, labels)
    platt_slopes, platt_intercepts, platt_fresh = platt(wide, labels, new)
    arrays = [("float", "p", p, "%.9eF"), ("int32_t", "labels", labels, "%d"), ("float", "fresh", fresh, "%.9eF"),
              ("double", "vector_slopes", slopes, "%.17g"), ("double", "vector_intercepts", intercepts, "%.17g"),
              ("double", "vector_fresh", softmax(logs(new) * slopes + intercepts, axis=1), "%.12g"),
              ("double", "isotonic_fresh", isotonic(wide, labels, new), "%.12g"),
              ("double", "platt_slopes", platt_slopes, "%.17g"),
              ("double", "platt_intercepts", platt_intercepts, "%.17g"), ("double", "platt_fresh", platt_fresh, "%.12g")]
    names = ", ".join(f"case{index}_{name}" for _, name, _, _ in arrays)
    return ("".join(array(kind, f"case{index}_{name}", values, form) for kind, name, values, form in arrays),
            f"    {{{p.shape[0]}, {p.shape[1]}, {loss:.17g}, {names}}},\n")


def draw(rng, rows, classes, sharp, shift=0.0):
    truth = rng.normal(size=(rows, classes)) * 1.2 + np.linspace(0, shift, classes)
    labels = np.array([rng.choice(classes, p=q) for q in softmax(truth, axis=1)])
    return softmax((truth + rng.normal(size=truth.shape) * 0.7) * sharp, axis=1), labels


def cases():
    rng = np.random.default_rng(8)
    p, labels = draw(rng, 150, 4, 2.5)  # overconfident; ties; exact zeros and ones, some of them wrong
    p[::2] = np.round(p[::2], 2)
    p[7] = [1, 0, 0, 0]
    labels[7] = 2
    p[8] = [0, 0, 1, 0]
    labels[8] = 2
    p /= p.sum(1, keepdims=True)
    fresh = draw(rng, FRESH, 4, 4)[0]
    fresh[0] = [0, 0, 1, 0]
    fresh[1] = p[11]
    yield p, labels, fresh
    p, labels = draw(rng, 60, 2, 0.5, 1.0)  # two classes
    yield p, labels, draw(rng, FRESH, 2, 2)[0]
    p, _ = draw(rng, 90, 5, 2)  # all rows right, and a class without rows
    p[:, 4] *= 0.1
    p /= p.sum(1, keepdims=True)
    labels = p[:, :4].argmax(1)
    p[np.arange(90), labels] += 1
    yield p / 2, labels, draw(rng, FRESH, 5, 2)[0]
    p, labels = draw(rng, 3, 3, 1)  # three rows
    yield p, labels, draw(rng, FRESH, 3, 1)[0]
    labels = draw(rng, 40, 3, 1, 1.5)[1]  # the same probabilities in every row
    yield np.tile([0.5, 0.3, 0.2], (40, 1)), labels, draw(rng, FRESH, 3, 1)[0]
    yield np.array([[0.9, 0.1]]), np.array([1]), draw(rng, FRESH, 2, 1)[0]  # one row, wrong


def main():
    texts, rows = zip(*(write(i, *case) for i, case in enumerate(cases())))
    fields = "p", "fresh", "vector_slopes", "vector_intercepts", "vector_fresh", "isotonic_fresh", "platt_slopes"
    text = ("/* Written by tests/oracles/calibration.py. */\n// clang-format off\n#include <stdint.h>\n"
            f"enum {{ CALIBRATION_FRESH = {FRESH} }};\n" + "".join(texts)
            + "static const struct calibration_case {\n    int32_t rows, classes;\n    double vector_loss;\n"
            "    const float *p;\n    const int32_t *labels;\n    const float *fresh;\n    const double "
            + ", ".join("*" + f for f in fields[2:]) + ", *platt_intercepts, *platt_fresh;\n"
            "} calibration_cases[] = {\n" + "".join(rows) + "};\n")
    (pathlib.Path(__file__).parent.parent / "data" / "calibration.h").write_text(text)


if __name__ == "__main__":
    main()
