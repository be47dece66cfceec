"""Writes tests/data/label_shift.h: class shares of a batch in NumPy and SciPy. The prior's EM by a general optimiser, BBSE by a
linear solver with covariances written out, the tests by their definitions."""

import os

import numpy as np
from scipy import optimize, stats

from _c_header import array_in_lines as array

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data")
REFERENCE, BATCH, CLASSES, BINS = 900, 301, 4, 8


def draw(rng, rows, shares, sharpness):
    """Rows of a model that is calibrated for even shares."""
    labels = rng.choice(CLASSES, size=rows, p=shares)
    z = rng.normal(size=(rows, CLASSES)) * sharpness + sharpness**2 * np.eye(CLASSES)[labels]
    p = np.exp(z - z.max(1, keepdims=True))
    return (p / p.sum(1, keepdims=True)).astype(np.float32), labels


def confusion_of(p, labels):
    predicted = p.argmax(1)
    confidence = p.max(1)
    edges = np.sort(confidence)[len(p) * np.arange(1, BINS) // BINS]
    counts = np.zeros((CLASSES, CLASSES), int)
    np.add.at(counts, (labels, predicted), 1)
    bins = np.zeros((CLASSES, BINS), int)
    np.add.at(bins, (labels, np.searchsorted(edges, confidence, side="right")), 1)
    return counts, bins, edges


def em(p, pi, prior):
    """The largest posterior over the simplex, by a softmax parametrisation and BFGS."""
    ratio = p.astype(float) / pi

    def loss(z):
        e = np.exp(z - z.max())
        q = e / e.sum()
        likelihood = ratio @ q
        value = -np.log(likelihood).sum() - prior * (pi * np.log(q)).sum()
        gradient_q = -(ratio / likelihood[:, None]).sum(0) - prior * pi / q
        return value, q * (gradient_q - (q * gradient_q).sum())

    z = optimize.minimize(loss, np.log(pi), jac=True, method="BFGS", options={"gtol": 1e-10, "maxiter": 5000}).x
    e = np.exp(z - z.max())
    return e / e.sum()


def em_errors(p, pi, prior, q):
    g = p.astype(float) / pi / ((p / pi) @ q)[:, None]
    information = g.T @ g + np.diag(prior * pi / q**2)
    basis = np.linalg.svd(np.ones((1, len(pi))))[2][1:].T  # of the plane where shares sum to 1
    covariance = basis @ np.linalg.inv(basis.T @ information @ basis) @ basis.T
    return np.sqrt(np.diag(covariance))


def bbse(p, counts):
    known = counts.sum(1)
    matrix = (counts / known[:, None]).T
    observed = np.bincount(p.argmax(1), minlength=CLASSES) / len(p)
    share = np.linalg.solve(matrix, observed)
    inner = (np.diag(observed) - np.outer(observed, observed)) / len(p)
    for j in range(CLASSES):
        inner += share[j] ** 2 * (np.diag(matrix[:, j]) - np.outer(matrix[:, j], matrix[:, j])) / known[j]
    inverse = np.linalg.inv(matrix)
    return share, np.diag(inverse @ inner @ inverse.T)


def drawn(share, pi, rows, prior):
    share = np.maximum(share, 0)
    return (share / share.sum() * rows + prior * pi) / (rows + prior)


def change(p, pi, estimate):
    logs = []
    for half in (0, 1):
        q = estimate(p[half::2])
        logs.append(np.log((p[1 - half :: 2].astype(float) / pi) @ q).sum())
    return np.exp(min(0, -(np.logaddexp(*logs) - np.log(2))))


def fit(p, q, bins, edges):
    known = bins.sum(1)
    parts = bins / known[:, None]
    observed = np.bincount(np.searchsorted(edges, p.max(1), side="right"), minlength=BINS)
    expected = len(p) * q @ parts
    variance = np.diag(expected)
    for j in range(CLASSES):
        variance = variance + (len(p) * q[j]) ** 2 / known[j] * (np.diag(parts[j]) - np.outer(parts[j], parts[j]))
    few = expected < 4
    groups = np.vstack([np.eye(BINS)[~few]] + ([few.astype(float)[None]] if few.any() else []))
    difference = groups @ (observed - expected)
    statistic = difference @ np.linalg.solve(groups @ variance @ groups.T, difference)
    return stats.chi2.sf(statistic, len(groups) - 1)


def main():
    rng = np.random.default_rng(17)
    even = np.full(CLASSES, 1 / CLASSES)
    reference, labels = draw(rng, REFERENCE, even, 1.5)
    pi = np.bincount(labels, minlength=CLASSES) / REFERENCE
    counts, bins, edges = confusion_of(reference, labels)
    text = "/* Written by tests/oracles/label_shift.py: shares by SciPy's optimiser and NumPy's solver. */\n/* clang-format off */\n"
    text += f"enum {{ LS_REFERENCE = {REFERENCE}, LS_BATCH = {BATCH}, LS_CLASSES = {CLASSES}, LS_BATCHES = 3 }};\n"
    text += array("float", "LS_P", reference) + array("int32_t", "LS_LABELS", labels) + array("double", "LS_SHARE", pi)
    text += array("int32_t", "LS_COUNTS", counts) + array("int32_t", "LS_BINS", bins) + array("float", "LS_EDGES", edges)
    batches, results = [], {"em": [], "em_error": [], "bbse": [], "bbse_variance": [], "tests": [], "shifted": []}
    for shares, sharpness in ((even, 1.5), (np.array([0.7, 0.1, 0.05, 0.15]), 1.5), (np.array([0.6, 0.2, 0.1, 0.1]), 0.6)):
        p, _ = draw(rng, BATCH, shares, sharpness)
        q = em(p, pi, CLASSES)
        solved, variance = bbse(p, counts)
        batches.append(p)
        results["em"].append(q)
        results["em_error"].append(em_errors(p, pi, CLASSES, q))
        results["bbse"].append(solved)
        results["bbse_variance"].append(variance)
        results["tests"].append(
            (
                change(p, pi, lambda part: em(part, pi, CLASSES)),
                fit(p, em(p, pi, 0), bins, edges),
                change(p, pi, lambda part: drawn(bbse(part, counts)[0], pi, len(part), CLASSES)),
                fit(p, drawn(np.clip(solved, 0, 1), pi, BATCH, 0), bins, edges),
            )
        )
        shifted = p[:5] * (q / pi)
        results["shifted"].append(shifted / shifted.sum(1, keepdims=True))
    text += "/* even shares; other shares; other shares and confidence */\n" + array("float", "LS_BATCH_P", batches)
    for key, values in results.items():
        text += array("double", f"LS_{key.upper()}", values)
    with open(os.path.join(FOLDER, "label_shift.h"), "w", encoding="ascii") as file:
        file.write(text)


if __name__ == "__main__":
    main()
