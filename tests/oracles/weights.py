"""Writes tests/data/weights.h: fits and scores of rows that count by weights, by NumPy, SciPy and scikit-learn.

Every objective and score is written down from its definition with the weights in it; nothing of the library is used.
"""
import pathlib

import numpy as np
from scipy.optimize import minimize, minimize_scalar
from scipy.special import erf, log_softmax, logsumexp, softmax
from sklearn.isotonic import IsotonicRegression

from _c_header import array

ROWS, CLASSES, MEMBERS, BINS = 160, 3, 3, 15
GRID = [1e-6, 1e-5, 1e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1]


def floats(name, values):
    return array("float", name, values, "%.9gF").replace(" 0F", " 0.0F").replace(" 1F", " 1.0F")


def number(name, value):
    return f"static const double {name} = {value:.17g};\n"


def pool_of(rng):
    labels = rng.integers(0, CLASSES, ROWS)
    truth = np.eye(CLASSES)[labels]
    pool = [
        softmax(((0.6 + 0.4 * k) * truth + rng.normal(0, 1, (ROWS, CLASSES))) * (0.7 + 0.3 * k), axis=1)
        for k in range(MEMBERS)
    ]
    return np.stack(pool).astype(np.float32), labels


def loglinear(logs, labels, weights, alpha, scale, alpha_bias):
    """Weights and biases of least sum_i weight_i NLL_i + the priors; NLL; log determinant in standardised columns."""
    center = 1 / MEMBERS

    def parts(theta):
        w, b = theta[:MEMBERS], theta[MEMBERS:]
        return w, b, logs @ w + b, (w - center).mean()

    def objective(theta):
        w, b, z, common = parts(theta)
        nll = weights @ (logsumexp(z, axis=1) - z[np.arange(ROWS), labels])
        prior = alpha * ((w - center - common) ** 2).sum() + scale * MEMBERS * common**2 + alpha_bias * (b**2).sum()
        return nll + prior / 2

    def gradient(theta):
        w, b, z, common = parts(theta)
        residual = softmax(z, axis=1)
        residual[np.arange(ROWS), labels] -= 1
        residual *= weights[:, None]
        slope = np.einsum("nc,nck->k", residual, logs) + alpha * (w - center - common) + scale * common
        return np.concatenate([slope, residual.sum(0) + alpha_bias * b])

    def hessian(theta):
        step = 1e-5
        rows = [(gradient(theta + step * e) - gradient(theta - step * e)) / (2 * step) for e in np.eye(len(theta))]
        return (np.array(rows) + np.array(rows).T) / 2

    start = np.concatenate([np.full(MEMBERS, center), np.zeros(CLASSES)])
    best = minimize(objective, start, jac=gradient, hess=hessian, method="trust-exact", options={"gtol": 1e-9}).x
    w, b, z, _ = parts(best)
    nll = weights @ (logsumexp(z, axis=1) - z[np.arange(ROWS), labels])
    share = np.repeat(weights, CLASSES) / (weights.sum() * CLASSES)
    flat = logs.reshape(-1, MEMBERS)
    spread = np.sqrt(share @ flat**2 - (share @ flat) ** 2)
    spread = np.concatenate([spread, np.full(CLASSES, np.sqrt((1 - 1 / CLASSES) / CLASSES))])
    return w, b, nll, np.linalg.slogdet(hessian(best) / np.outer(spread, spread))[1]


def bin_of(p):
    return np.minimum((p * BINS).astype(int), BINS - 1)


def scores(p, labels, weights):
    """As the definitions of the scores say, each mean a weighted one."""
    p = p.astype(np.float64)
    truth = np.eye(CLASSES)[labels]
    confidence, right = p.max(axis=1), (p.argmax(axis=1) == labels).astype(float)
    total = weights.sum()
    ece = bias = 0.0
    for b in range(BINS):
        inside = bin_of(confidence) == b
        count = weights[inside].sum()
        if count == 0:
            continue
        accuracy = weights[inside] @ right[inside] / count
        gap = accuracy - weights[inside] @ confidence[inside] / count
        sd = np.sqrt(accuracy * (1 - accuracy) / count)
        folded = abs(gap)
        if sd > 0:
            folded = sd * np.sqrt(2 / np.pi) * np.exp(-(gap**2) / (2 * sd**2)) + gap * erf(gap / (sd * np.sqrt(2)))
        ece += count / total * abs(gap)
        bias += count / total * (folded - abs(gap))
    order = np.argsort(confidence, kind="stable")
    reached, mass, gap, b = 0.0, 0.0, 0.0, 0
    for i in order:
        reached += weights[i]
        gap += weights[i] * (right[i] - confidence[i])
        if reached * BINS < (b + 1) * total * (1 - 1e-12):
            continue
        mass, gap = mass + abs(gap), 0.0
        while b < BINS and reached * BINS >= (b + 1) * total * (1 - 1e-12):
            b += 1
    classwise = 0.0
    for c in range(CLASSES):
        off = weights * (truth[:, c] - p[:, c])
        classwise += sum(abs(off[bin_of(p[:, c]) == b].sum()) for b in range(BINS))
    steps = IsotonicRegression().fit_transform(confidence, right, sample_weight=weights)
    corp = weights @ ((confidence - right) ** 2 - (steps - right) ** 2)
    return [
        weights @ right / total,
        weights @ -np.log(p[np.arange(ROWS), labels]) / total,
        weights @ ((p - truth) ** 2).sum(axis=1) / total,
        ece,
        (mass + abs(gap)) / total,
        classwise / (total * CLASSES),
        max(ece - bias, 0),
        corp / total,
    ]


def temperature(p, labels, weights):
    logs = np.log(p.astype(np.float64)).astype(np.float32).astype(np.float64)

    def loss(log_inverse):
        z = log_softmax(np.exp(log_inverse) * logs, axis=1)
        return -(weights @ z[np.arange(ROWS), labels])

    return np.exp(-minimize_scalar(loss, bounds=(-3, 3), method="bounded", options={"xatol": 1e-12}).x)


def value_scores(mean, targets, weights, variance, half):
    total = weights.sum()
    error = mean.astype(np.float64) - targets
    center = weights @ targets / total
    order = np.argsort(np.abs(error))
    reached = np.cumsum(weights[order]) / total
    v = variance.astype(np.float64)
    return [
        np.sqrt(weights @ error**2 / total),
        weights @ np.abs(error) / total,
        np.abs(error)[order][np.searchsorted(reached, 0.5)],
        1 - weights @ error**2 / (weights @ (targets - center) ** 2),
        weights @ (0.5 * np.log(2 * np.pi * v) + error**2 / (2 * v)) / total,
        weights @ (np.abs(error) <= half) / total,
        2 * weights @ half.astype(np.float64) / total,
    ]


def linear_pool(values, targets, weights, precision, power):
    """Weighted least squares drawn to the good members: (G + lambda I) w = c + lambda center, an intercept beside."""
    share = weights / weights.sum()
    x, y = values.astype(np.float64).T, targets
    scale = np.sqrt(share @ (y - share @ y) ** 2)
    x, y = (x - share @ y) / scale, (y - share @ y) / scale
    mean = share @ x
    gram = (x - mean).T @ (share[:, None] * (x - mean))
    cross = (x - mean).T @ (share * (y - share @ y))
    error = share @ (x - y[:, None]) ** 2
    center = error**-power / (error**-power).sum()
    variance = share @ (y - share @ y) ** 2 - 2 * center @ cross + center @ gram @ center
    penalty = precision * variance / weights.sum()
    return np.linalg.solve(gram + penalty * np.eye(len(cross)), cross + penalty * center)


def main():
    rng = np.random.default_rng(23)
    pool, labels = pool_of(rng)
    weights = rng.gamma(1.5, 1.0, ROWS)
    weights *= ROWS / weights.sum()
    times = rng.integers(1, 5, ROWS)
    wide = pool.astype(np.float64)
    losses = [[weights @ -np.log((1 - g) * p[np.arange(ROWS), labels] + g / CLASSES) for g in GRID] for p in wide]
    mix = [GRID[int(np.argmin(row))] for row in losses]
    logs = np.stack([np.log((1 - m) * p + m / CLASSES) for m, p in zip(mix, wide)], axis=2)
    w, b, nll, logdet = loglinear(logs, labels, weights, 7.0, 2.0, 5.0)
    share = np.repeat(weights, CLASSES) / (weights.sum() * CLASSES)
    columns = wide.reshape(MEMBERS, -1).T
    onehot = np.eye(CLASSES)[labels].ravel()
    mean = share @ columns
    deviation = np.sqrt(share @ (columns - mean) ** 2)
    standard = (columns - mean) / deviation
    targets = rng.normal(3, 2, ROWS)
    values = (targets + rng.normal(0, [[0.5], [0.8], [1.2]], (MEMBERS, ROWS))).astype(np.float32)
    variance = rng.uniform(0.2, 0.6, ROWS).astype(np.float32)
    half = rng.uniform(0.3, 1.2, ROWS).astype(np.float32)
    text = "/* Written by tests/oracles/weights.py with NumPy, SciPy and scikit-learn. */\n"
    text += f"enum {{ RW_ROWS = {ROWS}, RW_CLASSES = {CLASSES}, RW_MEMBERS = {MEMBERS} }};\n"
    text += floats("rw_pool", pool) + array("int32_t", "rw_labels", labels, "%d")
    text += array("double", "rw_weights", weights) + array("int32_t", "rw_times", times, "%d")
    text += array("double", "rw_mix", mix)
    text += array("double", "rw_optimum", w) + array("double", "rw_bias", b)
    text += number("rw_nll", nll) + number("rw_logdet", logdet)
    text += array("double", "rw_mean", mean) + array("double", "rw_deviation", deviation)
    text += array("double", "rw_gram", standard.T @ (share[:, None] * standard))
    text += array("double", "rw_cross", standard.T @ (share * (onehot - share @ onehot)))
    text += array("double", "rw_scores", scores(pool[0], labels, weights))
    text += number("rw_temperature", temperature(pool[2], labels, weights))
    text += array("double", "rw_targets", targets) + floats("rw_values", values)
    text += floats("rw_variance", variance) + floats("rw_half", half)
    text += array("double", "rw_value_scores", value_scores(values[0], targets, weights, variance, half))
    text += array("double", "rw_linear_pool", linear_pool(values, targets, weights, 4.0, 1.5))
    out = pathlib.Path(__file__).resolve().parents[1] / "data" / "weights.h"
    out.write_text(text)


if __name__ == "__main__":
    main()
